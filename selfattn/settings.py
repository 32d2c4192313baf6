"""Settings by name, each a field of one of several dataclasses, and as a command line. Imports no torch."""

import dataclasses
import difflib
import math
import os
import re
import shlex
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from selfattn.errors import SettingError, option
from selfattn.registry import loaded_plugins

Settings = Mapping[str, Any]

MAX_COUNT = 10**9
"""Upper bound of everything that is counted; sanity limit."""
MAX_NUMBER = 1e300
"""Upper bound of a number that is not counted; a few such numbers can still be compared."""
Count = Annotated[int, Ge(1), Le(MAX_COUNT)]
CountOrZero = Annotated[int, Ge(0), Le(MAX_COUNT)]
Seed = Annotated[int, Ge(-(10**12)), Le(10**12)]
Positive = Annotated[float, Gt(0), Le(MAX_NUMBER)]
PositiveOrZero = Annotated[float, Ge(0), Le(MAX_NUMBER)]
Share = Annotated[float, Ge(0), Lt(1)]
Probability = Annotated[float, Ge(0), Le(1)]


def divide(values: Settings, *kinds: type[Any]) -> list[dict[str, Any]]:
    """Divide settings by the dataclass that has the field.

    Args:
        values: by name.
        kinds: the dataclasses; their fields have different names.

    Returns:
        For each dataclass, in their order, the values of its fields, as :func:`as_declared` reads them.

    Raises:
        SettingError: a name is unknown (the message offers the nearest), or a value is not a path where it should be.

    Example:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: int = 3
        >>> @dataclasses.dataclass
        ... class Place:
        ...     left: int = 0
        >>> divide({"left": 5}, Size, Place)
        [{}, {'left': 5}]
    """
    fields = [{field.name for field in dataclasses.fields(kind) if field.init} for kind in kinds]
    all_names = set().union(*fields)
    for name in values:
        if name not in all_names:
            near = difflib.get_close_matches(name, sorted(all_names), n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there is `{'`, `'.join(sorted(all_names))}`"
            raise SettingError(f"`{name}`: there is no such setting here; {hint}")
    hints = [typing.get_type_hints(kind) for kind in kinds]
    return [
        {name: as_declared(name, value, types[name]) for name, value in values.items() if name in names}
        for names, types in zip(fields, hints, strict=True)
    ]


def as_declared(name: str, value: Any, hint: Any) -> Any:
    """Convert a value as the command line would: a text to a path, a single value to a tuple.

    Args:
        name: of the setting, for the message.
        value: to be converted.
        hint: its type. A number outside a tuple is not checked here, but with its bounds.

    Raises:
        SettingError: the value is of another type.

    Example:
        >>> as_declared("locales", "ko_KR", tuple[str, ...]), as_declared("out", "runs/a", Path) == Path("runs/a")
        (('ko_KR',), True)
        >>> as_declared("quick", "no", bool)
        Traceback (most recent call last):
        selfattn.errors.SettingError: `quick`: expected True or False, got 'no'
    """
    kinds = typing.get_args(hint) or (hint,)
    if kinds[1:] == (...,):
        is_several = isinstance(value, Iterable) and not isinstance(value, str | os.PathLike)
        return tuple(_converted(name, item, kinds[0]) for item in (value if is_several else [value]))
    if {int, float} & {*kinds}:
        return value
    return _converted(name, value, hint)


def _converted(name: str, value: Any, hint: Any) -> Any:
    """Convert a single value."""
    expected = _expected(value, hint)
    if expected is not None:
        raise SettingError(f"`{name}`: expected {expected}, got {shown(value)}")
    kinds = typing.get_args(hint) or (hint,)
    is_choice = any(typing.get_origin(kind) is Literal and value in typing.get_args(kind) for kind in kinds)
    if value is None or is_choice or Path not in kinds:
        return value
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half of a character, which no file name holds
        raise SettingError(f"`{name}`: expected a path in UTF-8, got {shown(value)}") from None
    return Path(value)


def _expected(value: Any, hint: Any) -> str | None:
    """Return what is expected in place of a value that is not of a type; None where it is."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        return None if value in choices else f"one of {', '.join(map(str, choices))}"
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        expected = [_expected(value, kind) for kind in typing.get_args(hint)]
        return None if None in expected else " or ".join(text for text in expected if text)
    if hint not in _KINDS:
        return None
    accepted, description = _KINDS[hint]
    fits = isinstance(value, accepted) and (hint is bool or not isinstance(value, bool))
    return None if fits else description


_KINDS: dict[Any, tuple[Any, str]] = {
    bool: (bool, "True or False"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "a text"),
    Path: (str | os.PathLike, "a path"),
    type(None): (type(None), ""),
}


def non_default(options: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults.

    Example:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: int = 3
        ...     height: int = 5
        >>> non_default(Size(height=7))
        {'height': 7}
    """
    defaults = {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(options)
    }
    return {name: value for name, default in defaults.items() if (value := getattr(options, name)) != default}


def shown(value: Any) -> str:
    """Write a value for a message, in at most 40 characters; a number of very many digits has no text of its own.

    Example:
        >>> shown(10**400)
        'a number of more than 300 digits'
    """
    if isinstance(value, int) and abs(value) >= 10**300:
        return "a number of more than 300 digits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def check(options: Any, name: str, kind: type, holds: Callable[[Any], bool], expected: str) -> None:
    """Check type and range of a field of a dataclass; a field with the default None may be None.

    Args:
        options: the dataclass.
        name: of the field.
        kind: its type; ``float`` accepts whole numbers; NaN, infinity and bools are no numbers.
        holds: whether a value is in the range.
        expected: description of the range for the message.

    Raises:
        SettingError: the field has another type, or is out of range.

    Example:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: int = 3
        >>> check(Size(0), "width", int, lambda x: x >= 1, "a whole number of at least 1")
        Traceback (most recent call last):
        selfattn.errors.SettingError: `width`: expected a whole number of at least 1, got 0
    """
    value = getattr(options, name)
    if value is None and type(options).__dataclass_fields__[name].default is None:
        return
    if not (_is_of(value, kind) and holds(value)):
        raise SettingError(f"`{name}`: expected {expected}, got {shown(value)}")


def _is_of(value: Any, kind: type) -> bool:
    """Whether a value is of a kind; whole numbers are of ``float`` too, and NaN, infinity and bools are no numbers."""
    accepted = int | float if kind is float else kind
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, accepted) and is_finite and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Range of a number, as its annotation declares it.

    Attributes:
        kind: ``int`` or ``float``.
        low: lowest value, or the value that all are above.
        high: highest value, or the value that all are below.
        low_is_open: whether ``low`` itself is outside.
        high_is_open: whether ``high`` itself is outside.

    Example:
        >>> str(Bounds.of(Annotated[int, Ge(1), Le(5000)] | None))
        '1 to 5,000'
        >>> str(Bounds.of(Annotated[float, Gt(0), Le(1)]))
        '(0, 1]'
    """

    kind: type
    low: float = -math.inf
    high: float = math.inf
    low_is_open: bool = False
    high_is_open: bool = False

    @classmethod
    def of(cls, hint: Any) -> "Bounds | None":
        """Read the bounds of a type hint, which may also allow None; return None if it declares none."""
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        if typing.get_origin(hint) is not Annotated:
            return cls.of(inner[0]) if len(inner) == 1 and type(None) in typing.get_args(hint) else None
        values: dict[str, Any] = {}
        for note in inner[1:]:
            match note:
                case Ge(value) | Gt(value):
                    values |= {"low": value, "low_is_open": isinstance(note, Gt)}
                case Le(value) | Lt(value):
                    values |= {"high": value, "high_is_open": isinstance(note, Lt)}
        return cls(inner[0], **values) if values else None

    def __str__(self) -> str:
        if self.kind is int:
            return f"{self.low:,} to {self.high:,}"
        return f"{'(' if self.low_is_open else '['}{self.low:g}, {self.high:g}{')' if self.high_is_open else ']'}"

    def expected(self) -> str:
        """Describe the range for an error message."""
        return f"a whole number from {self}" if self.kind is int else f"a number in {self}"

    def hold(self, value: Any) -> bool:
        """Whether a value is of the kind and in the range; NaN, infinity and bools are no numbers."""
        if not _is_of(value, self.kind):
            return False
        is_high_enough: bool = value > self.low if self.low_is_open else value >= self.low
        is_low_enough: bool = value < self.high if self.high_is_open else value <= self.high
        return is_high_enough and is_low_enough


_HINTS: dict[type[Any], dict[str, Any]] = {}


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """Return the type hints of a class with what they declare; they are evaluated once."""
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind, include_extras=True)
    return _HINTS[kind]


_BOUNDS: dict[type[Any], dict[str, Bounds]] = {}


def bounds_of(kind: type[Any]) -> Mapping[str, Bounds]:
    """Return the declared bounds of a dataclass, by field; they are read once."""
    if kind not in _BOUNDS:
        hints = hints_of(kind)
        bounds = {field.name: Bounds.of(hints[field.name]) for field in dataclasses.fields(kind)}
        _BOUNDS[kind] = {name: bound for name, bound in bounds.items() if bound is not None}
    return _BOUNDS[kind]


def check_bounds(options: Any) -> None:
    """Check every number of a dataclass against the bounds that its annotation declares, and every choice.

    Raises:
        SettingError: a field has another type, or is out of range.

    Example:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: Annotated[int, Ge(1), Le(100)] = 3
        >>> check_bounds(Size(0))
        Traceback (most recent call last):
        selfattn.errors.SettingError: `width`: expected a whole number from 1 to 100, got 0
    """
    for name, bounds in bounds_of(type(options)).items():
        check(options, name, bounds.kind, bounds.hold, bounds.expected())
    for name, hint in hints_of(type(options)).items():
        choices = typing.get_args(hint)
        if typing.get_origin(hint) is Literal:
            check(options, name, str, choices.__contains__, f"one of {', '.join(choices)}")


def check_options(options: Any) -> None:
    """Check a dataclass of options: its numbers against their bounds, and that every option given has an effect.

    Args:
        options: with its ``conditions``.

    Raises:
        SettingError: a field has another type or is out of range, or an option has no effect.
    """
    check_bounds(options)
    check_conditions(non_default(options), options, options.conditions)


@dataclasses.dataclass(frozen=True)
class Condition:
    """When some options have an effect; made by :func:`needs` and :func:`excludes`.

    Attributes:
        names: of the options.
        holds: returns whether they have an effect, given all options as attributes.
        reason: what the message says behind the name of an option that has none.
        is_exclusive: whether the other option excludes them, instead of being needed.
    """

    names: tuple[str, ...]
    holds: Callable[[Any], object]
    reason: str
    is_exclusive: bool = False

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the options that decide whether they have an effect."""
        return tuple(re.findall("`([a-z_]+)`", self.reason))


class NoEffectError(SettingError):
    """An option has no effect, since another is given or is missing.

    Attributes:
        name: of the option.
        condition: that is not met.
    """

    def __init__(self, name: str, condition: Condition) -> None:
        super().__init__(f"`{name}` {condition.reason}")
        self.name = name
        self.condition = condition


def needs(words: str, holds: Callable[[Any], object], *names: str) -> Condition:
    """Return the condition that options go with another.

    Args:
        words: the other option, such as ```average` ema``.
        holds: whether it is given, in the options.
        names: of the options that need it.
    """
    return Condition(names, holds, f"goes with {words}: give that as well, or leave it out")


def excludes(words: str, is_given: Callable[[Any], object], *names: str) -> Condition:
    """Return the condition that options have no effect beside another.

    Args:
        words: the other option, such as ```max_steps``.
        is_given: whether it is given, in the options.
        names: of the options that have no effect then.
    """
    reason = f"has no effect beside {words}: leave one of them out"
    return Condition(names, lambda options: not is_given(options), reason, is_exclusive=True)


def check_conditions(names: Collection[str], options: object, conditions: Sequence[Condition]) -> None:
    """Refuse options that have no effect, so that none is accepted and ignored.

    A dataclass of options lists its conditions as ``conditions``; so does a command.

    Args:
        names: of the options that were given.
        options: all options, as attributes.
        conditions: of the options.

    Raises:
        NoEffectError: one of the given options has no effect.

    Example:
        >>> @dataclasses.dataclass
        ... class Area:
        ...     round: bool = False
        ...     corners: int = 0
        >>> check_conditions(["corners"], Area(True, 3), [excludes("`round`", lambda area: area.round, "corners")])
        Traceback (most recent call last):
        selfattn.settings.NoEffectError: `corners` has no effect beside `round`: leave one of them out
    """
    for condition in conditions:
        for name in condition.names:
            if name in names and not condition.holds(options):
                raise NoEffectError(name, condition)


def command_line(command: str, values: Settings) -> str:
    """Return the command line of settings, quoted for a shell, with the loaded plugins.

    Args:
        command: such as ``train dates``.
        values: of the settings that differ from the defaults, in their order on the command line.

    Example:
        >>> command_line("train dates", {"out": Path("my run"), "locales": ("ko_KR", "ja_JP"), "epochs": 3})
        "selfattn train dates --out 'my run' --locales ko_KR,ja_JP --epochs 3"
    """
    plugins = "".join(f" --plugin {shlex.quote(plugin)}" for plugin in loaded_plugins())
    return " ".join([f"selfattn{plugins} {command}", *_options(values)])


def _options(values: Settings) -> Iterator[str]:
    for name, value in values.items():
        if value is None or value is False:
            continue
        if value is True:
            yield option(name)
        elif name in ("set", "space", "system"):  # settings of models may hold commas, files of systems do
            yield from (f"{option(name)} {shlex.quote(setting)}" for setting in value)
        else:
            is_files = isinstance(value, tuple) and any(isinstance(path, Path) for path in value)
            is_list = isinstance(value, tuple | list)
            texts = map(str, value) if is_files else [",".join(map(str, value)) if is_list else str(value)]
            yield " ".join([option(name), *map(shlex.quote, texts)])
