"""Build a model from its settings, find widths that give it a size, and answer with several models as one."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from typing import Any, Self

import torch
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers.init import initialise, without_memory
from selfattn.models.config import Limits, ModelConfig, Width, override
from selfattn.models.families import get_preset
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq
from selfattn.settings import shown
from selfattn.streams import fixed_seed, generator


def build(
    config: ModelConfig | str, *, vocab_size: int, pad_id: int = 0, seed: int = 0, source_vocab_size: int | None = None
) -> Seq2Seq:
    """Build a model and give its weights their first values.

    Args:
        config: what it is made of; or the name of a preset, such as ``"transformer"``.
        vocab_size: number of tokens ``v``, of the target and, where nothing else is said, of the source.
        pad_id: the padding token's id; default 0, as every tokenizer of the project has it.
        seed: of the run, default 0; the weights are drawn from its stream ``"init"``, PyTorch's global generator is not
            touched.
        source_vocab_size: number of source tokens, where the source has a vocabulary of its own.

    Raises:
        UserError: there is no preset of that name, an argument is of another type, or a family's model does not
            follow the protocol.
        ValueError: a source vocabulary of another size, where source and target share a table or are one sequence.

    Example:
        >>> model = build("transformer", vocab_size=64)
        >>> type(model).__name__
        'EncoderDecoder'
    """
    if isinstance(config, str):
        config = get_preset(config).config
    if not isinstance(config, ModelConfig):
        raise UserError(f"build: expected the name of a model, or its configuration, got {shown(config)}")
    for name, size in (("vocab_size", vocab_size), ("source_vocab_size", source_vocab_size)):
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise UserError(f"build: `{name}`: expected a whole number from 1, got {shown(size)}")
    if not isinstance(pad_id, int) or not 0 <= pad_id < vocab_size:
        raise UserError(f"build: `pad_id`: expected one of the ids 0 to {vocab_size - 1}, got {shown(pad_id)}")
    if not isinstance(seed, int):
        raise UserError(f"build: `seed`: expected a whole number, got {shown(seed)}")
    if source_vocab_size not in (None, vocab_size) and config.shares_vocabulary():
        needed = f"source_vocab_size={source_vocab_size} must be vocab_size={vocab_size}"
        raise ValueError(f"build: source and target share one embedding, so that {needed}")
    first_values = generator(seed, "init")
    with fixed_seed(first_values.initial_seed()):  # constructors draw first values too, from the global generator
        model = config.build(vocab_size=vocab_size, pad_id=pad_id, source_vocab_size=source_vocab_size)
    if not isinstance(model, Seq2Seq):
        raise UserError(f"{type(config).__name__}.build: expected a Seq2Seq, got {type(model).__name__}")
    for name in ("step", "forward"):
        if not model.defines & {"advance", name}:
            raise UserError(f"{type(model).__name__}: has neither a method advance nor {name}")
    initialise(model, first_values)
    return model


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Count the trained numbers of a model: all of them, and those outside embedding tables.

    Example:
        >>> count_parameters(nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 3)))
        (19, 9)
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Embedding)}
    return total, total - sum(tables.values())


TOLERANCE = 0.01  # two models this near to one budget are within 2 % of each other
_ENOUGH = TOLERANCE / 2  # among sizes this near, proportions decide
_FINE_RANGE = 4  # how many times wider or narrower than in proportion a fine width may become
_WIDEST = 2**17

Measure = Callable[[ModelConfig], float]


@lru_cache(maxsize=4096)
def parameters(config: ModelConfig, vocab_size: int) -> int:
    """Count the parameters outside the embedding tables, without making them (on PyTorch's meta device).

    Args:
        config: of the model.
        vocab_size: number of tokens; the output layer has a row for each.

    Example:
        >>> from selfattn.models.families import PRESETS
        >>> parameters(PRESETS["transformer"].config, vocab_size=47)
        179599
    """
    with without_memory():
        return count_parameters(build(config, vocab_size=vocab_size, pad_id=0, seed=0))[1]


def body(config: ModelConfig) -> int:
    """Count the parameters without any axis over the vocabulary: neither embeddings nor an output matrix of its own.

    What grows with the vocabulary is what two sizes of it tell apart, so any family can be asked.

    Args:
        config: of the model.

    Example:
        >>> from selfattn.models.families import PRESETS
        >>> config = PRESETS["transformer"].config
        >>> body(config), parameters(config, 47) - body(config) == 47 * (config.decoder.dim + 1)
        (175040, True)
    """
    return 2 * parameters(config, 64) - parameters(config, 128)


def match(config: ModelConfig, target: float, measure: Measure) -> ModelConfig:
    """Scale the widths of an architecture until it measures what it should.

    All widths (states, embeddings, insides of feed-forward blocks) grow or shrink by one factor, so the proportions
    stay; layers and heads stay as they are, and widths that are equal stay equal. What divisibility (by heads, by
    directions, by two for sinusoidal and rotary positions) leaves too coarse is made up for by widths that nothing
    divides: those inside the feed-forward blocks or, where there are none, the embeddings. The same call always gives
    the same answer.

    Args:
        config: the architecture, in its proportions.
        target: the budget, above 0, such as a number of parameters.
        measure: what the budget counts; must not fall when a width grows. For parameters
            ``lambda config: parameters(config, vocab_size)``.

    Returns:
        The configuration, ``config`` itself where that is near enough already.

    Raises:
        UserError: the budget is not a number above 0, or no whole numbers come near enough to it.

    Example:
        >>> from selfattn.models.families import PRESETS
        >>> small = match(PRESETS["transformer"].config, 60_000, lambda config: parameters(config, 47))
        >>> small.encoder.dim, small.encoder.ffn_dim, parameters(small, 47)
        (56, 80, 59959)
    """
    if not (target > 0 and math.isfinite(target)):
        raise UserError(f"size: expected a number above 0, got {target}")

    def error(candidate: ModelConfig) -> float:
        return abs(measure(candidate) / target - 1)

    if error(config) <= _ENOUGH:
        return config
    widths = Widths.of(config)
    # Most of what is counted are products of two widths, so the root leads near to the size that is looked for.
    guess = _rounded(math.sqrt(target / measure(config)) / widths.factor(1))
    crossing = _first(lambda size: measure(widths.scaled(size)) >= target, guess, 1, _WIDEST)
    sizes = sorted(range(max(1, crossing - 2), crossing + 2), key=lambda size: error(widths.scaled(size)))
    best = widths.scaled(sizes[0])
    for candidate in chain.from_iterable(widths.refined(size, target, measure) for size in sizes):
        best = min(best, candidate, key=error)
        if error(best) <= _ENOUGH:
            return best
    if error(best) > TOLERANCE:
        reason = f"no widths of this model come within {100 * TOLERANCE:.1f} % of {target:,.0f}"
        advice = "change its layers or heads, or take `match` none"
        raise UserError(f"size: {reason}, the nearest is {measure(best):,.0f}; {advice}")
    return best


def spread(counts: Mapping[str, float]) -> tuple[str, str, float]:
    """Return the smallest model, the largest, and how much more the largest has, as a share.

    Args:
        counts: a number above 0 for each model, by name; at least one.

    Example:
        >>> spread({"rnn": 100, "transformer": 125})
        ('rnn', 'transformer', 0.25)
    """
    smallest = min(counts, key=counts.__getitem__)
    largest = max(counts, key=counts.__getitem__)
    return smallest, largest, counts[largest] / counts[smallest] - 1


@dataclass(frozen=True)
class Widths:
    """A configuration in all sizes: its widths as functions of one whole number.

    Attributes:
        config: as it was given.
        groups: the coarse widths; those of one group stay equal.
        fine: those that nothing divides and nothing else hangs on.
    """

    config: ModelConfig
    groups: tuple[tuple[Width, ...], ...]
    fine: tuple[Width, ...]

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        """Sort the widths of a configuration: those that stay equal, and those that make up for what is left."""
        widths = config.widths()
        fine = [width for width in widths if width.role == "inner"]
        fine = fine or [width for width in widths if width.role == "embedding"]
        groups: dict[int, list[Width]] = {}
        for width in sorted(widths, key=lambda width: width.role == "embedding"):
            if width not in fine:
                groups.setdefault(width.total, []).append(width)
        if not widths:
            raise UserError(f"size: {type(config).__name__} has no widths to scale; give it a method widths")
        if not groups:
            groups = dict(enumerate([width] for width in fine))
            fine = []
        return cls(config, tuple(map(tuple, groups.values())), tuple(fine))

    def factor(self, size: int) -> float:
        """Return how much larger the model of this size is; the coarsest group decides what sizes there are."""
        anchor = max(self.groups, key=lambda group: _unit(group) / group[0].total)
        return size * _unit(anchor) / anchor[0].total

    def scaled(self, size: int, fine_factor: float | None = None) -> ModelConfig:
        """Make the model of a size, the fine widths in proportion or by a factor of their own."""
        factor = self.factor(size)
        changes: dict[str, int] = {}
        for group in self.groups:
            unit = _unit(group)
            total = unit * _rounded(group[0].total * factor / unit)
            changes |= {width.path: total // width.times for width in group}
        fine_factor = factor if fine_factor is None else fine_factor
        changes |= {width.path: _rounded(width.value * fine_factor) for width in self.fine}
        return override(self.config, changes, "")

    def refined(self, size: int, target: float, measure: Measure) -> Iterator[ModelConfig]:
        """Yield the model of a size in proportion, then, where it has fine widths, with those that come nearest."""
        yield self.scaled(size)
        if not self.fine:
            return
        first = self.fine[0].value

        def count(number: int) -> float:
            return measure(self.scaled(size, number / first))

        middle = _rounded(first * self.factor(size))
        low = max(1, middle // _FINE_RANGE)
        high = middle * _FINE_RANGE
        above = _first(lambda number: count(number) >= target, middle, low, high)
        below = max(low, above - 1)
        nearest = min((above, below), key=lambda number: abs(count(number) - target))
        yield self.scaled(size, nearest / first)


def _unit(group: tuple[Width, ...]) -> int:
    return math.lcm(*(width.unit for width in group))


def _rounded(value: float) -> int:
    return max(1, math.floor(value + 0.5))


def _first(holds: Callable[[int], bool], guess: int, low: int, high: int) -> int:
    """Return the smallest number from `low` on that holds, or `high` where none below does.

    What holds for a number must hold for all above it. The search goes out from the guess in growing strides.
    """
    below = above = min(max(guess, low), high)
    strides = (2**power for power in itertools.count())
    while below > low and holds(below):
        above = below
        below = max(low, below - next(strides))
    while above < high and not holds(above):
        below = above
        above = min(high, above + next(strides))
    return below + bisect.bisect_left(range(below, above), True, key=holds)


@dataclass(frozen=True)
class EnsembleConfig(ModelConfig):
    """The configurations of the models together, for what is asked of a model before it decodes.

    Attributes:
        models: in their order.
    """

    models: tuple[ModelConfig, ...]

    def limits(self) -> Limits:
        """What all of them can read and write."""
        return reduce(Limits.both, (model.limits() for model in self.models))


@dataclass(frozen=True)
class EnsembleState(Memory, DecoderState):
    """What each model has read: its memory, and from the start of decoding its state."""

    parts: tuple[Any, ...]


class Ensemble(Seq2Seq):
    r"""Models of any families that write together: at every step the mean of their probabilities.

    .. math:: p(y_k \mid y_{<k}, x) = \frac{1}{n} \sum_m p_m(y_k \mid y_{<k}, x)

    as in Sutskever et al. 2014, section 3.6, and Luong et al. 2015, section 4.1.

    Args:
        models: at least one; the tokens of all mean the same.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> names = ("transformer", "rnn-attention")
        >>> both = Ensemble([build(PRESETS[name].config, vocab_size=11, pad_id=0, seed=0) for name in names])
        >>> source = torch.tensor([[5, 6, 2]])
        >>> logits = both(source, torch.tensor([[1]]), source_mask=source > 0)
        >>> round(logits.exp().sum().item(), 4)
        1.0
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.models: Any = nn.ModuleList(models)
        self.reads_one_sequence = all(model.reads_one_sequence for model in self.models)

    def encode(self, source: Tensor, source_mask: Tensor) -> EnsembleState:
        """Let each read the sources."""
        return EnsembleState(tuple(model.encode(source, source_mask) for model in self.models))

    def start(self, memory: EnsembleState) -> EnsembleState:
        """Start each."""
        pairs = zip(self.models, memory.parts, strict=True)
        return EnsembleState(tuple(model.start(part) for model, part in pairs))

    def step(self, token: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Read one token ``[b]``; the logits are the logarithm of the mean probabilities."""
        stepped = [model.step(token, part) for model, part in zip(self.models, state.parts, strict=True)]
        return _mean([logits for logits, _ in stepped]), EnsembleState(tuple(part for _, part in stepped))

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return the logarithm of the mean probabilities ``[b t v]``."""
        return _mean([model(source, target_in, source_mask=source_mask) for model in self.models])

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Refuse.

        Raises:
            ValueError: always.
        """
        raise ValueError("several models have no attention in common; ask one of them")


def _mean(logits: Sequence[Tensor]) -> Tensor:
    wide = torch.promote_types(logits[0].dtype, torch.float32)
    log_probabilities = torch.stack([part.log_softmax(dim=-1, dtype=wide) for part in logits])
    return log_probabilities.logsumexp(dim=0) - math.log(len(logits))
