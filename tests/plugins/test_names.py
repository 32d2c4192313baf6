"""The names that `selfattn` and `selfattn.plugin` export: each exists, is imported when first used, and is listed."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import selfattn
import selfattn.plugin

PLUGINS = (
    "convolutional_family",
    "cosine_score",
    "edit_similarity",
    "kerple_position",
    "reversal_task",
    "seed_spread",
)


@pytest.mark.parametrize("module", [selfattn, selfattn.plugin])
def test_every_name_exists(module: ModuleType) -> None:
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module) or module is selfattn.plugin
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_needs_one_import(name: str) -> None:
    text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("from selfattn", "import selfattn"))]
    assert [line.split()[:2] for line in imports] == [["from", "selfattn.plugin"]]


@pytest.mark.parametrize("module", ["selfattn", "selfattn.plugin"])
def test_importing_the_package_imports_nothing_large(module: str) -> None:
    program = f"import sys, {module}; print(*sorted({{'torch', 'numpy', 'pydantic', 'rich'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
