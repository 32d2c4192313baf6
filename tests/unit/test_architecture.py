"""The imports, read with `ast`, against the directions that the architecture allows."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import selfattn

PACKAGE = Path(selfattn.__file__).parent
GROUND = {"errors", "streams"}  # imported by anyone

# What each room may import of the package, besides itself and the ground floor.
ALLOWED = {
    "errors": set(),
    "streams": set(),
    "attention": set(),
    "layers": {"attention"},
    "models": {"layers", "attention"},
    "convert": {"models", "layers", "attention"},
    "data": {"tokenizers"},
    "tokenizers": set(),
    "training": {"models", "layers", "attention", "data", "tokenizers"},
    "decoding": {"models", "layers", "attention", "data", "tokenizers"},
}
ALLOWED["convert"] = {"models", "layers", "attention"}  # weights of other libraries
ALLOWED["evaluation"] = {"training", "decoding"} | ALLOWED["training"]
ALLOWED["report"] = {"evaluation"} | ALLOWED["evaluation"]
ALLOWED["tasks"] = {"report", "convert"} | ALLOWED["report"]
ALLOWED["cli"] = {"tasks"} | ALLOWED["tasks"]
ALLOWED["__init__"] = set(ALLOWED)  # names what users ask for, and loads it when they do

# The libraries that a room may import, where that is laid down.
STANDARD = set(sys.stdlib_module_names)
LIBRARIES = {"errors": set(), "streams": {"torch"}, "attention": {"torch", "einops"}}
FORBIDDEN = {
    "cli": {"torch", "numpy"},
    "training": {"rich", "cyclopts", "matplotlib", "jinja2", "datasets"},
    "decoding": {"rich", "cyclopts", "matplotlib", "jinja2", "datasets"},
    "models": {"rich", "cyclopts", "matplotlib", "jinja2", "datasets", "babel"},
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every import of a file, wherever it stands in it: at the top, in a function, under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; imports name the whole path here"
            # `from selfattn import models` imports a room as much as `import selfattn.models` does.
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_down_only(path: Path) -> None:
    here = room(path)
    assert here in ALLOWED, f"{path}: a room that the architecture does not know"
    for line, name in imported(path):
        parts = name.split(".")
        where = f"{path.relative_to(PACKAGE.parent)}:{line}: {here} imports {name}"
        if parts[0] == "selfattn":
            there = parts[1]
            if there == "__version__":
                continue
            assert there in ALLOWED, f"{where}, which is no room of the package"
            assert there == here or there in GROUND | ALLOWED[here], where
        elif parts[0] not in STANDARD:
            if here in LIBRARIES:
                assert parts[0] in LIBRARIES[here], where
            assert parts[0] not in FORBIDDEN.get(here, set()), where


def test_training_and_decoding_do_not_import_each_other() -> None:
    # What training needs of decoding (quality on the validation) is handed in from above.
    for path in modules():
        other = {"training": "decoding", "decoding": "training"}.get(room(path))
        assert other is None or not any(name.startswith(f"selfattn.{other}") for _, name in imported(path)), path


def test_the_rooms_have_no_circle() -> None:
    def below(name: str, seen: tuple[str, ...] = ()) -> None:
        assert name not in seen, " -> ".join([*seen, name])
        for other in ALLOWED[name]:
            below(other, (*seen, name))

    for name in ALLOWED:
        if name != "__init__":
            below(name)


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "matplotlib", "datasets", "jinja2", "cyclopts", "rich", "babel", "safetensors"}
    assert not loaded_after("import selfattn") & heavy


def test_what_users_ask_for_loads_no_plots_and_no_command_line() -> None:
    found = loaded_after("import selfattn; selfattn.load, selfattn.attend, selfattn.MultiHeadAttention")
    assert "torch" in found
    assert not found & {"matplotlib", "datasets", "cyclopts", "rich", "jinja2"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["models"],
        ["train", "dates", "--help"],
        ["train", "lm", "--help"],
        ["predict", "--help"],
        ["--version"],
        [],
    ],
)
def test_help_and_lists_do_not_wait_for_torch(arguments: list[str]) -> None:
    code = f"sys.argv = ['selfattn', *{arguments!r}]\nfrom selfattn.cli.main import main\nmain()"
    assert not loaded_after(code) & {"torch", "numpy", "matplotlib", "babel", "jinja2", "safetensors"}
