"""What a model is made of, as frozen dataclasses that check themselves and travel as JSON. Imports no torch.

A family is a subclass of :class:`ModelConfig` that comes in through ``@register.family(name)``. It owns what the engine
asks of a model before there is one: how it is built, its widths, its limits, how it is made larger.
"""

from __future__ import annotations

import dataclasses
import itertools
import reprlib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from annotated_types import Ge, Le

from selfattn.codec import Plain, own_form
from selfattn.errors import UserError
from selfattn.registry import FAMILIES, Registry
from selfattn.settings import Bounds, Share, bounds_of, hints_of

if TYPE_CHECKING:
    from selfattn.models.protocol import Seq2Seq

C = TypeVar("C", bound="Checked")

# Configurations of parts that families share or choose between, by the ``kind`` that stands in their JSON.
PARTS: Registry[type[Checked]] = Registry("part of a model", "selfattn.models.families")


Size = Annotated[int, Ge(1), Le(2**20)]
"""A number of dimensions, heads or positions; the upper bound is a sanity limit, as those of the others are."""
Layers = Annotated[int, Ge(1), Le(1000)]

Role = Literal["state", "inner", "embedding"]
_ROLES: dict[str, Role] = {"ffn_dim": "inner", "embed_dim": "embedding", "dim": "state", "hidden_dim": "state"}


@dataclass(frozen=True)
class Divides:
    """Annotation of a number that divides another field: ``num_heads: Annotated[int, Divides("dim")]``.

    Attributes:
        of: name of the other field.
    """

    of: str


class Checked:
    """Checks a dataclass when it is made: every field, and what :meth:`problems` finds between them.

    A field is a choice, true or false, a number with its bounds (``dim: Annotated[int, Ge(1)]``), or a group of
    settings. A number without bounds is a :data:`Size` or a :data:`Share`. A field that names a registered part is
    annotated with its registry: ``score: Annotated[str, SCORES]``.

    Attributes:
        fixed: settings that have one value today. They stay in the JSON: hashes of published plans cover them.
        later: settings that came after plans were published. They are in the JSON where they differ from the default.
        stored_as: names in the JSON of settings that were renamed after plans were published.
    """

    fixed: ClassVar[dict[str, Any]] = {}
    later: ClassVar[tuple[str, ...]] = ()
    stored_as: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        for problem in itertools.chain(self._of_fields(), self.problems()):
            raise UserError(f"{type(self).__name__}.{problem}")

    @classmethod
    def name_of(cls, stored: str) -> str:
        """Return the name of a setting that has this name in the JSON, or had before it was renamed."""
        return {stored: name for name, stored in cls.stored_as.items()}.get(stored, stored)

    def problems(self) -> Iterator[str]:
        """Say which settings do not go together, each with the name of a field in front; asked where each is right."""
        yield from ()

    def widths(self, prefix: str = "") -> tuple[Width, ...]:
        """Return what is scaled to give the model another size.

        By default ``dim`` and ``hidden_dim`` (multiples of ``num_heads``, if there are heads), ``ffn_dim`` as an inner
        width and ``embed_dim`` as an embedding's, here and in groups of settings.

        Args:
            prefix: of the paths: the group's own with a dot.
        """
        widths: list[Width] = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            role = _ROLES.get(field.name)
            if isinstance(value, Checked):
                widths += value.widths(f"{prefix}{field.name}.")
            elif role is not None and value is not None:
                unit = getattr(self, "num_heads", 1) if role == "state" else 1
                widths.append(Width(prefix + field.name, value, unit=unit, role=role))
        return tuple(widths)

    def _of_fields(self) -> Iterator[str]:
        bounds = bounds_of(type(self))
        for name, annotation in hints_of(type(self)).items():
            if typing.get_origin(annotation) is ClassVar:
                continue
            value = getattr(self, name)
            if problem := _problem(value, annotation, bounds.get(name)):
                yield f"{name}: {problem}"
            for note in getattr(annotation, "__metadata__", ()):
                if isinstance(note, Divides) and value is not None and (width := getattr(self, note.of)) % value:
                    yield f"{name}: {value} does not divide {note.of} {width}"


@dataclass(frozen=True)
class Width:
    """One width of a configuration, for whoever scales it.

    Attributes:
        path: dotted, as :func:`override` takes it.
        value: what it is.
        times: how often it stands in what it hands over: 2 in an encoder that reads both ways.
        unit: what ``value * times`` has to be a multiple of.
        role: ``"state"``, which other widths hang on; ``"inner"``, which nothing divides and nothing else hangs on; or
            ``"embedding"``, which counts as inner in a model that has no other.
    """

    path: str
    value: int
    times: int = 1
    unit: int = 1
    role: Role = "state"

    @property
    def total(self) -> int:
        """Width of what it hands over."""
        return self.value * self.times


@dataclass(frozen=True)
class Limits(Plain):
    """How many tokens a model can read and write, their ends counted; None where there is no limit.

    Attributes:
        source: most tokens to read.
        target: most tokens to write.
        together: most tokens of both, in a model that reads them as one sequence.
    """

    source: int | None = None
    target: int | None = None
    together: int | None = None

    def check(self, source: int, target: int) -> None:
        """Check numbers of tokens.

        Raises:
            ValueError: there are too many.
        """
        for text, count, limit in (
            ("a source", source, self.source),
            ("an output", target, self.target),
            ("source and output", source + target, self.together),
        ):
            if limit is not None and count > limit:
                raise ValueError(f"{text} of {count} tokens: this model has at most {limit} positions")

    def both(self, other: Limits) -> Limits:
        """Return the smaller of each limit: what two models, or two parts of one, can both read and write.

        Example:
            >>> Limits(source=7, target=3).both(Limits(source=5))
            Limits(source=5, target=3, together=None)
        """
        return Limits(
            _smaller(self.source, other.source),
            _smaller(self.target, other.target),
            _smaller(self.together, other.together),
        )


def _smaller(limit: int | None, other: int | None) -> int | None:
    """Return the smaller of two limits; None where neither is set."""
    return min((number for number in (limit, other) if number is not None), default=None)


class ModelConfig(Checked):
    """Base of every family's configuration: a frozen dataclass whose fields have defaults or are groups of settings.

    :meth:`build` is all that a family has to write; the other methods have defaults that suit a model of which nothing
    more is known.

    Attributes:
        architecture: what kind of model it is in the eyes of those who publish figures, such as ``"transformer"``; it
            is held to no figures but those for its kind. Default none.
    """

    def to_plain(self) -> dict[str, Any]:
        """Return the configuration as plain JSON values; see :func:`config_to_dict`."""
        return config_to_dict(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        return own_form(lambda data: config_from_dict(data, ""))

    @property
    def architecture(self) -> str:
        """The kind of model that published figures are compared with."""
        return ""

    def build(self, *, vocab_size: int, pad_id: int, source_vocab_size: int | None = None) -> Seq2Seq:
        """Build the model; :func:`selfattn.models.build.build` gives its weights their first values.

        Args:
            vocab_size: number of tokens ``v``, of the target and, where nothing else is said, of the source.
            pad_id: the padding token's id.
            source_vocab_size: number of source tokens, where the source has a vocabulary of its own; only asked of
                a family with :meth:`shares_vocabulary` false.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method build")

    def shares_vocabulary(self) -> bool:
        """Whether source and target are of one vocabulary; default True."""
        return True

    def limits(self) -> Limits:
        """How many tokens it can read and write; default any number."""
        return Limits()

    def enlarged(self, *, width: int, dropout: float, longest: int) -> Self:
        """Return the configuration at the size for sentences.

        By default ``dim`` and ``embed_dim`` are the width, ``ffn_dim`` is twice as wide, ``num_layers`` is 4, and
        ``dropout`` what is asked for, as far as there are such fields.

        Args:
            width: of blocks and embeddings.
            dropout: probability.
            longest: most tokens of a sentence, for what has a limit.
        """
        sizes = {"dim": width, "embed_dim": width, "ffn_dim": 2 * width, "num_layers": 4, "dropout": dropout}
        return dataclasses.replace(self, **{name: size for name, size in sizes.items() if hasattr(self, name)})  # type: ignore[type-var]  # every family is a dataclass

    @property
    def reads_one_sequence(self) -> bool:
        """Whether it reads from left to right only, and so can be a language model; default False."""
        return False


def _family_problem(part: type[ModelConfig]) -> str | None:
    if "__dataclass_fields__" not in vars(part):
        return f"{part.__name__} is no dataclass; put @dataclass(frozen=True, kw_only=True) below the decorator"
    return f"{part.__name__} has no build" if part.build is ModelConfig.build else None


FAMILIES.expect(ModelConfig, _family_problem)


def config_to_dict(config: Any) -> dict[str, Any]:
    """Turn a configuration into plain JSON values, each dataclass with its ``kind``.

    Raises:
        UserError: it is of a class that has not come in through ``register.family``.

    Example:
        >>> from selfattn.models.families import get_preset
        >>> config_to_dict(get_preset("decoder-only").config)["stack"]["kind"]
        'transformer'
    """
    kinds = {cls: name for name, cls in chain(FAMILIES.items(), PARTS.items())}
    if type(config) not in kinds:
        raise UserError(f"{type(config).__name__}: is not known as a family; put @register.family(name) above it")
    values: dict[str, Any] = {"kind": kinds[type(config)], **config.fixed}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in config.later and value == field.default:
            continue
        name = config.stored_as.get(field.name, field.name)
        values[name] = config_to_dict(value) if dataclasses.is_dataclass(value) else value
    return values


def config_from_dict(data: dict[str, Any], where: str = "model configuration") -> Any:
    """Make the configuration that :func:`config_to_dict` wrote.

    Args:
        data: the JSON values.
        where: what to call the place in an error message.

    Raises:
        UserError: the kind or a field is unknown, or a value is out of its range.

    Example:
        >>> from selfattn.models.families import get_preset
        >>> config = get_preset("decoder-only").config
        >>> config_from_dict(config_to_dict(config)) == config
        True
    """
    at = f"{where}: " if where else ""
    if not isinstance(data, dict):
        raise UserError(f"{at}expected an object with a kind, got {reprlib.repr(data)}")
    kind: Any = data.get("kind")
    cls: Any = next((registry[kind] for registry in (PARTS, FAMILIES) if kind in registry), None)
    if cls is None:
        kinds = ", ".join(sorted((*FAMILIES, *PARTS)))
        advice = "A family of your own comes with its file (`plugin`)"
        raise UserError(f"{at}kind {reprlib.repr(kind)} is unknown; known: {kinds}. {advice}")
    names = {field.name for field in dataclasses.fields(cls)}
    fixed = {"kind": kind, **cls.fixed}
    values: dict[str, Any] = {}
    for stored, value in data.items():
        if (stored, value) in fixed.items():
            continue
        name = cls.name_of(stored)
        if name not in names:
            raise UserError(f"{at}{kind} has no setting {reprlib.repr(name)}; it has {', '.join(sorted(names))}")
        values[name] = config_from_dict(value, where) if isinstance(value, dict) else value
    try:
        return cls(**values)
    except (TypeError, UserError) as error:
        raise UserError(f"{at}{error}") from None


def override(config: C, settings: Mapping[str, Any], where: str = "`set` ") -> C:
    """Return the configuration with some settings changed, named by dotted paths.

    All are changed at once: only the result has to be consistent, not what lies on the way there.

    Args:
        config: any configuration of a model or of a part of one.
        settings: such as ``{"encoder.hidden_dim": 256}``.
        where: what stands in front of a path in an error message.

    Raises:
        UserError: a name does not exist, or a value is out of its range.

    Example:
        >>> from selfattn.models.families import get_preset
        >>> override(get_preset("decoder-only").config, {"stack.dim": 32}).stack.dim
        32
    """
    names = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]  # subclasses are dataclasses
    changes: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in settings.items():
        stored, dot, rest = path.partition(".")
        name = config.name_of(stored)
        full = f"{where}{path}"
        if name not in names:
            raise UserError(f"{full}: there is no setting {name!r} here; there is {', '.join(sorted(names))}")
        is_group = dataclasses.is_dataclass(getattr(config, name))
        if bool(dot) != is_group:
            kind = "a group of settings; name one of them" if is_group else "one setting, not a group of settings"
            raise UserError(f"{full}: {name!r} is {kind}")
        if dot:
            inner.setdefault(name, {})[rest] = value
        else:
            changes[name] = value
    changes |= {name: override(getattr(config, name), parts, f"{where}{name}.") for name, parts in inner.items()}
    try:
        return dataclasses.replace(config, **changes)  # type: ignore[type-var]  # as above
    except UserError as error:  # which names the class
        raise UserError(f"{where}{str(error).removeprefix(f'{type(config).__name__}.')}") from None


def probabilities(config: Any, prefix: str = "") -> list[str]:
    """Return the dotted paths of all probabilities of a configuration.

    Example:
        >>> from selfattn.models.families import get_preset
        >>> probabilities(get_preset("rnn-attention").config)
        ['encoder.dropout', 'decoder.dropout']
    """
    paths: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            paths += probabilities(value, f"{prefix}{field.name}.")
        elif type(value) is float:
            paths.append(f"{prefix}{field.name}")
    return paths


def _problem(value: Any, annotation: Any, bounds: Bounds | None) -> str | None:
    """Say what is wrong with the value of a field, or return None.

    Args:
        value: of the field.
        annotation: of the field.
        bounds: that the annotation declares.
    """
    notes = getattr(annotation, "__metadata__", ())
    registry = next((note for note in notes if isinstance(note, Registry)), None)
    if registry is not None:
        return None if value in registry else registry.unknown(value)
    kind = annotation.__origin__ if notes else annotation
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        return None if value in choices else f"{reprlib.repr(value)} is not one of {', '.join(map(str, choices))}"
    kinds = typing.get_args(kind) or (kind,)
    if value is None and type(None) in kinds:
        return None
    groups = [option for option in kinds if dataclasses.is_dataclass(option)]
    if groups and type(value) not in groups:
        got = type(value).__name__ if dataclasses.is_dataclass(value) else reprlib.repr(value)
        return f"expected {' or '.join(group.__name__ for group in groups if isinstance(group, type))}, got {got}"
    if bool in kinds and not isinstance(value, bool):
        return f"expected true or false, got {reprlib.repr(value)}"
    bounds = bounds or next((_UNBOUNDED[option] for option in kinds if option in _UNBOUNDED), None)
    return None if bounds is None or bounds.hold(value) else f"expected {bounds.expected()}, got {reprlib.repr(value)}"


_UNBOUNDED: dict[Any, Any] = {int: Bounds.of(Size), float: Bounds.of(Share)}
