"""Registries: all kinds of parts by name, such as scores, positions, model families, tasks, metrics and claims.

The project's parts and those of plugins register alike, by a decorator. Plugins are loaded by file or module, those
of installed packages by their entry points. This module imports no torch; a registry imports the project's parts when
the first one is needed.

>>> scores = Registry("score")
>>> @scores.register("zero")
... def zero(): ...
>>> scores.names(), scores["zero"] is zero
(('zero',), True)
"""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, Generic, TypeVar

from selfattn.errors import UserError, describe_error, say

T = TypeVar("T")


def is_name(text: str) -> bool:
    """Say whether a text may name a part, a model of a comparison, or a directory: short, letters, digits, - and _.

    Example:
        >>> [is_name(text) for text in ("rnn-2", "../rnn", "", "a" * 300)]
        [True, False, False, False]
    """
    return len(text) <= 100 and text.replace("-", "").replace("_", "").replace(" ", "").isalnum()


class Registry(Mapping[str, T], Generic[T]):
    """Parts of one kind by name, the project's first, then those of plugins in the order of their registration.

    Args:
        kind: the kind, for messages, such as ``score``.
        home: the module that registers the project's parts, imported when the first part is needed.
    """

    def __init__(self, kind: str, home: str | None = None) -> None:
        self.kind = kind
        self._home = home
        self._parts: dict[str, T] = {}
        self._plugin_of: dict[str, str] = {}
        self._base: type | None = None
        self._problem: Callable[[Any], str | None] = lambda part: None

    def expect(self, base: type | None, problem: Callable[[Any], str | None] = lambda part: None) -> None:
        """Check every part when it is registered.

        Args:
            base: a part must be a subclass without abstract methods; None: parts are no classes. Where it declares
                ``name``, the decorator sets it.
            problem: says what else is wrong with a class; default nothing.
        """
        self._base = base
        self._problem = problem

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that checks and registers a part, and sets its ``name`` where the base class has one.

        Args:
            name: letters, digits, ``-``, ``_`` and spaces.

        Raises:
            UserError: the name is taken or not allowed, or the part is not what :meth:`expect` asks for.
        """
        if not is_name(name):
            raise UserError(f"{self.kind} {name!r}: a name is made of at most 100 letters, digits, - and _")
        caller = sys._getframe(1).f_globals
        module = str(caller.get("__name__"))
        is_plugin = not module.startswith("selfattn.")

        def put(part: T) -> T:
            if is_plugin:  # the project's parts come first
                self._open()
            if self._parts.setdefault(name, part) is not part:
                raise UserError(f"{self.kind} {name!r}: the name is taken; choose another")
            if problem := self._what_is_wrong(part):
                del self._parts[name]
                raise UserError(f"{self.kind} {name!r}: {problem}")
            if "name" in getattr(self._base, "__annotations__", ()):
                part.name = name  # type: ignore[attr-defined]  # a class with this attribute
            if is_plugin:
                self._plugin_of[name] = registering_plugin(module, caller.get("__file__"))
            return part

        return put

    def _what_is_wrong(self, part: Any) -> str | None:
        if self._base is None:
            return self._problem(part)
        if not (isinstance(part, type) and issubclass(part, self._base)):
            base = "class" if self._base is object else f"subclass of {self._base.__name__}"
            return f"expected a {base}, got {reprlib.repr(part)}"
        if lacking := sorted(getattr(part, "__abstractmethods__", ())):
            return f"{part.__name__} has no {', '.join(lacking)}"
        return self._problem(part)

    def __getitem__(self, name: str) -> T:
        """Return a part.

        Raises:
            UserError: the name is unknown; the message lists similar names, or all.
        """
        if name not in self:
            raise UserError(self.unknown(name))
        return self._parts[name]

    def unknown(self, name: object) -> str:
        """Return the message for an unknown name."""
        near = difflib.get_close_matches(str(name), self.names(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(self._parts)}."
        return (
            f"{self.kind} {reprlib.repr(name)} is not known; {hint} A part of your own comes with its file (`plugin`)"
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> tuple[str, ...]:
        """Return all names."""
        self._open()
        load_installed()
        return tuple(self._parts)

    def arrange(self, key: Callable[[T], int]) -> None:
        """Sort the parts, so that their order does not depend on which was imported first."""
        self._parts = dict(sorted(self._parts.items(), key=lambda item: key(item[1])))

    def plugin_of(self, name: str) -> str | None:
        """Return the plugin that registered a part; None for the project's parts."""
        return self._plugin_of.get(name)

    def _open(self) -> None:
        """Import the project's parts, once; another thread waits for the import."""
        if self._home is not None:
            importlib.import_module(self._home)
            self._home = None


SCORES: Registry[Any] = Registry("score", "selfattn.attention.scores")
NORMALIZERS: Registry[Any] = Registry("normalizer", "selfattn.attention.normalizers")
POSITIONS: Registry[Any] = Registry("position", "selfattn.attention.positions")
ATTENTIONS: Registry[Any] = Registry("attention", "selfattn.attention.linear")
FAMILIES: Registry[Any] = Registry("model family", "selfattn.models.families")
PRESETS: Registry[Any] = Registry("model", "selfattn.models.families")
TASKS: Registry[Any] = Registry("task", "selfattn.tasks.builtin")
METRICS: Registry[Any] = Registry("metric", "selfattn.evaluation.translation_metrics")
SECTIONS: Registry[Any] = Registry("section", "selfattn.report.sections")
CLAIMS: Registry[Any] = Registry("claim", "selfattn.claims.suite")
REGISTRIES = (SCORES, NORMALIZERS, POSITIONS, ATTENTIONS, FAMILIES, PRESETS, TASKS, METRICS, SECTIONS, CLAIMS)


class register:  # noqa: N801  # reads as a verb: @register.score("cosine")
    """Decorators that register parts, one for each registry.

    Example:
        >>> from selfattn.attention.scores import Score
        >>> @register.score("product_of_means")
        ... class ProductOfMeans(Score):
        ...     def forward(self, query, key):
        ...         return query.mean(-1)[..., :, None] * key.mean(-1)[..., None, :]
    """

    score = SCORES.register
    normalizer = NORMALIZERS.register
    position = POSITIONS.register
    attention = ATTENTIONS.register
    family = FAMILIES.register
    preset = PRESETS.register
    task = TASKS.register
    metric = METRICS.register
    section = SECTIONS.register
    claim = CLAIMS.register


def build_part(registry: Registry[Any], name: str, **arguments: Any) -> Any:
    """Build a part from its class, with those of the arguments that its constructor names.

    Args:
        registry: of classes.
        name: of the part.
        arguments: that a constructor may name.

    Raises:
        UserError: the name is unknown, or the constructor needs an argument that is not given.

    Example:
        >>> parts: Registry[Any] = Registry("part")
        >>> @parts.register("pair")
        ... class Pair:
        ...     def __init__(self, left, weight=0.5): self.left, self.weight = left, weight
        >>> build_part(parts, "pair", left=3, right=5).left
        3
    """
    part = registry[name]
    named = arguments_of(part)
    if missing := [argument for argument, is_needed in named.items() if is_needed and argument not in arguments]:
        wrong = f"its constructor asks for {', '.join(missing)} without a default"
        raise UserError(f"{registry.kind} {name!r}: {wrong}; it may ask for {', '.join(arguments)}")
    return part(**{argument: arguments[argument] for argument in named if argument in arguments})


def arguments_of(part: type) -> dict[str, bool]:
    """Return the arguments that a constructor names, each with whether it has no default.

    A constructor with ``**options`` hands them to that of its base class, whose arguments then count as well.

    Example:
        >>> class Base:
        ...     def __init__(self, left, weight=0.5): ...
        >>> class Wider(Base):
        ...     def __init__(self, left, right, **options): super().__init__(left, **options)
        >>> arguments_of(Wider)
        {'left': True, 'right': True, 'weight': False}
    """
    named: dict[str, bool] = {}
    for kind in part.__mro__:
        if "__init__" not in vars(kind):
            continue
        _, *parameters = _parameters_of(vars(kind)["__init__"])
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for parameter in parameters:
            if parameter.kind not in variadic:
                named.setdefault(parameter.name, parameter.default is parameter.empty)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return named


@cache
def _parameters_of(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function; a model has the same layers many times."""
    return tuple(inspect.signature(function).parameters.values())


def plugins_of(names: Iterable[str], *registries: Registry[Any]) -> dict[str, str]:
    """Return the plugins that registered parts of these names, with their versions."""
    names = set(names)
    plugins = set[str]()
    for registry in registries:
        plugins |= {plugin for name, plugin in registry._plugin_of.items() if name in names}
    return {plugin: _loaded.get(plugin, "") for plugin in sorted(plugins)}


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
        raise UserError(f"{called}: does not import ({describe_error(error)}); {advice}") from error
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
