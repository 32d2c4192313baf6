"""The version of a plugin: of its distribution, or of its file and of all that it imports from its own folder."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path


def version_of(module: str, file: str | None) -> str:
    """Return the distribution and version of an installed module, else the SHA-256 of its file.

    Modules that it imports from its own folder, and those that they import from there, count as well.

    Args:
        module: its name, ``__main__`` or any other for a file.
        file: its path; nothing is returned where there is none, as in a notebook.
    """
    if file is None or not Path(file).is_file():
        return ""
    from importlib import metadata  # takes 60 ms

    if {"site-packages", "dist-packages"} & {*Path(file).parts}:
        for name in metadata.packages_distributions().get(module.partition(".")[0], ()):
            return f"{name} {metadata.version(name)}"
    path = Path(file).resolve()
    content = path.read_bytes()
    helpers = _helpers_of(path, module)
    if helpers:
        lines = [f"{name} {hashlib.sha256(helper.read_bytes()).hexdigest()}\n" for helper, name in helpers.items()]
        content += "".join(sorted(lines)).encode()
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _helpers_of(path: Path, module: str) -> dict[Path, str]:
    """Return the files that a file imports from its own folder, directly or not, with the names of the modules."""
    place = path.parent if path.name == "__init__.py" else path.with_suffix("")
    parts = module.split(".")
    is_of_package = list(place.parts[-len(parts) :]) == parts
    root = place.parents[len(parts) - 1] if is_of_package else path.parent  # where names begin
    known = {path: module if is_of_package else ""}
    waiting = [path]
    while waiting:
        importing = waiting.pop()
        is_package = importing.name == "__init__.py"
        package = known[importing] if is_package else known[importing].rpartition(".")[0]
        for name in _imports_of(importing, package):
            helper = _file_of(name, root)
            if helper is not None and not helper.is_relative_to(path.parent):
                helper = None
            if helper is not None and helper not in known:
                known[helper] = name
                waiting.append(helper)
    del known[path]
    return known


def _imports_of(path: Path, package: str) -> Iterator[str]:
    """Iterate over the full names of modules that a file may import, parents before what lies in them."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level and package else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}".removeprefix(".") for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1) if name)


def _file_of(name: str, root: Path) -> Path | None:
    """Return the file of a module: where it was imported from, or would be from a folder."""
    module = sys.modules.get(name)
    if module is not None:
        file = getattr(module, "__file__", None)
        return Path(file).resolve() if file and Path(file).is_file() else None
    place = root.joinpath(*name.split("."))
    for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None
