"""What the package imports is declared: by pyproject.toml as a dependency, or as that of an extra."""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def imported() -> dict[str, str]:
    """Return each foreign module that some file imports, anywhere in it, with such a file."""
    modules: dict[str, str] = {}
    for path in (ROOT / "selfattn").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            modules |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return {name: path for name, path in modules.items() if name not in (*sys.stdlib_module_names, "selfattn")}


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    providers = packages_distributions()
    undeclared = {
        name: path
        for name, path in imported().items()
        if declared.isdisjoint(map(canonicalize_name, providers.get(name, [name])))
    }
    assert not undeclared
