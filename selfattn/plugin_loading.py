"""Load plugins, by file or module and those of installed packages, and tell their versions. Imports no torch."""

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from selfattn.errors import UserError, described, say

GROUP = "selfattn.plugins"  # entry point group of installed packages
_loading: list[str] = []
_loaded: dict[str, str] = {}  # plugins by name, with their versions: requested, installed, or imported by the user
_requested: set[str] = set()
_installed = False
_loads = RLock()


def load_plugin(plugin: str | os.PathLike[str]) -> None:
    """Import a plugin, so that its parts can be used by name. A second call does nothing.

    Args:
        plugin: a Python file, or a module by its dotted name.

    Raises:
        UserError: there is no such file or module, or it does not import.
    """
    if not isinstance(plugin, str | os.PathLike):
        raise UserError(f"`plugin`: expected a file, or a module by its dotted name, got {plugin!r}")
    plugin = os.fspath(plugin)
    load_installed()
    with _loads:  # other threads wait for the parts
        if plugin in _loaded:
            return
        path = Path(plugin)
        is_file = path.suffix == ".py" or path.exists()
        if is_file and not path.is_file():
            raise UserError(f"`plugin` {plugin}: no such file; name a Python file, or a module by its dotted name")
        with _importing(plugin, f"`plugin` {plugin}", "mend it"):
            module = _import_file(path) if is_file else importlib.import_module(plugin)
        _requested.add(plugin)
        _loaded[plugin] = version_of(plugin, module.__file__)


def _import_file(path: Path) -> Any:
    name = f"selfattn_plugin_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


@contextmanager
def _importing(plugin: str, called: str, advice: str) -> Iterator[None]:
    """Note which plugin registers parts inside a ``with`` block; say in one line why it does not import."""
    _loading.append(plugin)
    try:
        yield
    except UserError as error:
        raise UserError(f"{called}: {error}") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"{called}: does not import ({described(error)}); {advice}") from error
    finally:
        _loading.pop()


def registering_plugin(module: str, file: str | None) -> str:
    """Return the name of the plugin that registers a part: the one being loaded, or a module that the user imported.

    Args:
        module: name of the module that calls the decorator.
        file: of this module; None where it has none.
    """
    if _loading:
        return _loading[-1]
    name = str(file) if module == "__main__" and file else module
    if name not in _loaded:
        _loaded[name] = version_of(module, file)
    return name


def loaded_plugins() -> tuple[str, ...]:
    """Return the plugins that were requested by :func:`load_plugin`, as they were named."""
    return tuple(plugin for plugin in _loaded if plugin in _requested)


def loaded_versions() -> dict[str, str]:
    """Return the versions of all plugins that are loaded, by name."""
    return dict(_loaded)


def check_plugins(needed: Mapping[str, str], where: str, *, exact: bool = False) -> None:
    """Check that the plugins of a run, a comparison or a claim are loaded. Imports only installed plugins.

    A plugin is known by the name of its file or module, without folders.

    Args:
        needed: plugins with their versions, as :func:`selfattn.registry.plugins_of` returned them.
        where: name of the place for messages.
        exact: refuse a plugin whose version differs; default: say so on standard error.

    Raises:
        UserError: a plugin is not loaded, or differs.
    """
    load_installed()
    present = {_stem(name) for name in _loaded}
    if missing := [name for name in needed if _stem(name) not in present]:
        options = " ".join(f"`plugin` {name}" for name in missing)
        raise UserError(f"{where}: needs plugins that are not loaded (selfattn.load_plugin); give {options}")
    for name in changed_plugins(needed):
        changed = f"{where}: plugin {name} is not the same as when this was made ({needed[name]} then)"
        if exact:
            raise UserError(f"{changed}; restore it, or start anew in another `out`")
        say(f"{changed}; results may differ")


def changed_plugins(needed: Mapping[str, str], present: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of plugins that are not as they were.

    Args:
        needed: plugins with their versions.
        present: those that are there now; default those that are loaded.
    """
    versions = {_stem(name): version for name, version in (_loaded if present is None else present).items()}
    changed: list[str] = []
    for name, version in needed.items():
        there = versions.get(_stem(name))
        if there is None or (version and there not in ("", version)):
            changed.append(name)
    return changed


def _stem(plugin: str) -> str:
    return Path(plugin).name.removesuffix(".py")


def load_installed() -> None:
    """Load the plugins of installed packages, by the entry point group ``selfattn.plugins``, once."""
    global _installed
    with _loads:  # other threads wait for the parts
        if _installed:
            return
        _installed = True
        from importlib.metadata import entry_points  # takes 60 ms

        for point in entry_points(group=GROUP):
            try:
                with _importing(point.value, f"plugin {point.name} ({point.value})", "mend or remove it"):
                    point.load()
            except UserError as error:  # of a package that this command may not need
                say(f"note: {error}")
            else:
                file = getattr(sys.modules.get(point.module), "__file__", None)
                _loaded[point.value] = version_of(point.module, file)


def version_of(module: str, file: str | None) -> str:
    """Return the distribution and version of an installed module, else the SHA-256 of its file.

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
    return f"sha256:{hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
