"""Names of a module that are imported when they are first asked for, as the stub beside it lists them."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def exports_of(file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return ``__getattr__`` and ``__all__`` of a module that imports its names when they are first asked for.

    Args:
        file: of the module; the stub beside it (``.pyi``) says where each name lives.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{file} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        return getattr(home, name) if hasattr(home, name) else importlib.import_module(f"{homes[name]}.{name}")

    return get, sorted(homes)
