"""The doors: scores, positions, families (with their presets), tasks, metrics, sections and claims come in by name.

The project's own parts and a stranger's go the same way: a decorator puts a class or a function under a name, and
whoever needs it asks by that name. Imports no torch; what a door leads to is imported when it is first asked for.

>>> scores = Registry("score")
>>> @scores.register("zero")
... def zero(): ...
>>> scores.names(), scores["zero"] is zero
(('zero',), True)
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import reprlib
import sys
from collections.abc import Callable, ItemsView, Iterator, ValuesView
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from selfattn.errors import UserError

T = TypeVar("T")
GROUP = "selfattn.plugins"  # of entry points, by which installed packages offer parts


def is_name(text: str) -> bool:
    """Whether something can be called so: a part, a model of a comparison, and a directory that is named after it.

    Example:
        >>> [is_name(text) for text in ("rnn-2", "../rnn", "", "a" * 300)]
        [True, False, False, False]
    """
    return len(text) <= 100 and text.replace("-", "").replace("_", "").replace(" ", "").isalnum()


class Registry(Generic[T]):
    """Parts of one kind by name, in the order in which they came.

    Args:
        what: the kind, for messages, such as ``score``.
        home: the module that brings the project's own, imported when the first part is asked for.
    """

    def __init__(self, what: str, home: str | None = None) -> None:
        self.what, self._home = what, home
        self._parts: dict[str, T] = {}
        self._plugin_of: dict[str, str] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that puts a part under a name.

        Args:
            name: letters, digits, ``-``, ``_`` and spaces.

        Raises:
            UserError: the name is taken by another part, or cannot be one.
        """
        if not is_name(name):
            raise UserError(f"{self.what} {name!r}: a name is made of at most 100 letters, digits, - and _")
        # The project's modules register when they are imported, in whatever order; a stranger's come after all of them.
        is_own = str(sys._getframe(1).f_globals.get("__name__")).startswith("selfattn.")

        def put(part: T) -> T:
            if not is_own:
                self._open()
            if name in self._parts and self._parts[name] is not part:
                raise UserError(f"{self.what} {name!r}: there is one of this name already; choose another")
            self._parts[name] = part
            if _loading and not is_own:
                self._plugin_of[name] = _loading[-1]
            return part

        return put

    def __getitem__(self, name: str) -> T:
        """Return the part of a name.

        Raises:
            UserError: there is none; the message lists those that are near, or all.
        """
        if name not in self:
            raise UserError(self.unknown(name))
        return self._parts[name]

    def unknown(self, name: object) -> str:
        """Say that there is no part of this name, and which are near, or all that there are."""
        near = difflib.get_close_matches(str(name), self.names(), n=3)
        known = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(self._parts)}."
        return f"{self.what} {reprlib.repr(name)} is not known; {known} A part of your own comes in with --plugin FILE"

    def __contains__(self, name: object) -> bool:
        """Whether there is a part of this name, the project's, of a plugin, or of an installed package."""
        return isinstance(name, str) and (name in self._parts or name in self.names())

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self.names())

    def __len__(self) -> int:
        """Count the names."""
        return len(self.names())

    def names(self) -> tuple[str, ...]:
        """Return all names, the project's own first."""
        self._open()
        load_installed()
        return tuple(self._parts)

    def items(self) -> ItemsView[str, T]:
        """Return names and parts, the project's own first."""
        self.names()
        return self._parts.items()

    def values(self) -> ValuesView[T]:
        """Return all parts, the project's own first."""
        self.names()
        return self._parts.values()

    def arrange(self, key: Callable[[T], int]) -> None:
        """Put the parts into an order that does not depend on which was imported first."""
        self._parts = dict(sorted(self._parts.items(), key=lambda item: key(item[1])))

    def plugin_of(self, name: str) -> str | None:
        """Return the plugin that brought a part; None for the project's own."""
        return self._plugin_of.get(name)

    def _open(self) -> None:
        """Bring the project's own parts, once."""
        home, self._home = self._home, None
        if home is not None:
            importlib.import_module(home)


SCORES: Registry[Any] = Registry("score", "selfattn.attention.scores")
POSITIONS: Registry[Any] = Registry("position", "selfattn.attention.positions")
FAMILIES: Registry[Any] = Registry("model family", "selfattn.models.families")
PRESETS: Registry[Any] = Registry("model", "selfattn.models.families")
TASKS: Registry[Any] = Registry("task", "selfattn.tasks.builtin")
METRICS: Registry[Any] = Registry("metric", "selfattn.evaluation.metrics.builtin")
SECTIONS: Registry[Any] = Registry("section", "selfattn.report.sections")
CLAIMS: Registry[Any] = Registry("claim", "selfattn.claims.own")
REGISTRIES = (SCORES, POSITIONS, FAMILIES, PRESETS, TASKS, METRICS, SECTIONS, CLAIMS)


class register:  # noqa: N801  # reads as a verb: @register.score("cosine")
    """Decorators by which parts come in, one for each door.

    Example:
        >>> from selfattn.attention.scores import Score
        >>> @register.score("product_of_means")
        ... class ProductOfMeans(Score):
        ...     def forward(self, query, key):
        ...         return query.mean(-1)[..., :, None] * key.mean(-1)[..., None, :]
    """

    score = SCORES.register
    position = POSITIONS.register
    family = FAMILIES.register
    preset = PRESETS.register
    task = TASKS.register
    metric = METRICS.register
    section = SECTIONS.register
    claim = CLAIMS.register


def build_part(registry: Registry[Any], name: str, **given: Any) -> Any:
    """Make a part of its class, which is handed what its constructor names of the things given.

    Args:
        registry: of classes.
        name: of the part.
        given: what a constructor may ask for, by the names of its arguments.

    Raises:
        UserError: there is no part of this name, or its constructor asks for something that is not given.

    Example:
        >>> parts: Registry[Any] = Registry("part")
        >>> @parts.register("pair")
        ... class Pair:
        ...     def __init__(self, left, weight=0.5): self.left, self.weight = left, weight
        >>> build_part(parts, "pair", left=3, right=5).left
        3
    """
    part = registry[name]
    asked = inspect.signature(part).parameters.values()
    anything = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in asked if one.default is one.empty and one.kind not in anything]
    missing = [one for one in needed if one not in given]
    if missing:
        raise UserError(
            f"{registry.what} {name!r}: its constructor asks for {', '.join(missing)} without a default; it may ask "
            f"for {', '.join(given)}"
        )
    return part(**{one.name: given[one.name] for one in asked if one.name in given})


_loading: list[str] = []
_loaded: dict[str, str] = {}  # plugins by what they were asked for with, in order: the module's name
_installed = False


def load_plugin(plugin: str) -> None:
    """Import a plugin: a Python file, or a module by its dotted name. A second time does nothing.

    Raises:
        UserError: there is no such file or module, or it does not import.
    """
    load_installed()
    if plugin in _loaded:
        return
    path, name = Path(plugin), plugin
    is_file = path.suffix == ".py" or path.exists()
    if is_file:
        if not path.is_file():
            raise UserError(f"--plugin {plugin}: no such file; name a Python file, or a module by its dotted name")
        name = f"selfattn_plugin_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    with _importing(plugin, f"--plugin {plugin}", "mend it"):
        if not is_file:
            importlib.import_module(name)
        elif name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
    _loaded[plugin] = name


@contextmanager
def _importing(plugin: str, called: str, advice: str) -> Iterator[None]:
    """Note which plugin brings the parts that come in meanwhile, and say in one line why it does not import."""
    _loading.append(plugin)
    try:
        yield
    except UserError as error:
        raise UserError(f"{called}: {error}") from None
    except Exception as error:
        raise UserError(f"{called}: does not import ({type(error).__name__}: {error}); {advice}") from error
    finally:
        _loading.pop()


def loaded_plugins() -> tuple[str, ...]:
    """Return the plugins that were loaded, as they were named, for the record of what is made with them."""
    return tuple(_loaded)


def check_plugins(needed: tuple[str, ...], where: str) -> None:
    """Make sure that the plugins are there that a run or a comparison was made with; nothing is imported.

    Args:
        needed: as :func:`loaded_plugins` gave them when it was made.
        where: what to call the place in an error message.

    Raises:
        UserError: one was not loaded; the message says which to give.
    """
    names = {Path(one).name for one in _loaded}
    missing = [one for one in needed if Path(one).name not in names]
    if missing:
        give = " ".join(f"--plugin {one}" for one in missing)
        raise UserError(f"{where}: was made with parts that are not selfattn's own; give {give}")


def load_installed() -> None:
    """Load what installed packages offer under the entry point group ``selfattn.plugins``, once."""
    global _installed
    if _installed:
        return
    _installed = True
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        with _importing(point.value, f"plugin {point.name} ({point.value})", "mend or remove it"):
            point.load()
        _loaded[point.value] = point.module
