"""Position information: added to embeddings (sinusoidal, learned) or applied inside attention (rotary, ALiBi, T5).

Positions are always given as integers, ``[i]`` or ``[b i]``, counted from 0 in each row's own text: padding between
two parts of a row, or a cache, then changes nothing. Positions are registered by name with
``@register.position``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from selfattn.attention.cache import KeyValue
from selfattn.registry import POSITIONS, register

SinusoidLayout = Literal["interleaved", "halves"]


class Position(nn.Module):
    """What the engine must know of any position information before it is built.

    A model hands a constructor what it names of ``dim``, ``num_heads``, ``head_dim``, ``max_length``,
    ``bidirectional`` and ``layout``; other arguments need defaults.

    Attributes:
        bounded: whether only positions below ``max_length`` exist; default False: it has them all.
    """

    bounded: ClassVar[bool] = False

    @classmethod
    def width_unit(cls, num_heads: int) -> int:
        """Return what a model's width must be a multiple of, by default 1."""
        return 1


@register.position("none")
class NoPosition(Position):
    """No position information: what order tokens stand in is not seen."""


class EmbeddingPosition(Position, ABC):
    """Position information that is added to token embeddings."""

    @abstractmethod
    def forward(self, positions: Tensor) -> Tensor:
        """Map integer positions ``[...]`` to vectors ``[... d]``."""

    __call__: Callable[..., Tensor]


class AttentionPosition(Position):
    """Position information that acts inside self-attention; by default it does nothing."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys ``[b h i e]`` by their positions ``[i]`` or ``[b i]``."""
        return x

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Return what to add to the scores, or None: ``[h i j]`` for positions ``[i]``, ``[b h i j]`` for ``[b i]``."""
        return None

    forward: Callable[..., Tensor]


def _problem(part: type[Position]) -> str | None:
    if issubclass(part, EmbeddingPosition | AttentionPosition):
        return None
    return f"expected a subclass of EmbeddingPosition or AttentionPosition, got {part.__name__}"


POSITIONS.expect(Position, _problem)


@register.position("sinusoidal")
class Sinusoidal(EmbeddingPosition):
    r"""Fixed sines and cosines (Vaswani et al. 2017, section 3.5).

    .. math:: PE(p, 2k) = \sin(p / 10000^{2k/d}), \qquad PE(p, 2k+1) = \cos(p / 10000^{2k/d})

    Computed for the positions asked for, so there is no longest length.

    Args:
        dim: model width ``d``; even.
        layout: where the numbers stand: ``"interleaved"``, sine and cosine in turn as in the paper (default), or
            ``"halves"``, all sines before all cosines as in Marian.

    Raises:
        ValueError: ``dim`` is odd.

    Example:
        >>> Sinusoidal(4)(torch.tensor([0])).tolist()
        [[0.0, 1.0, 0.0, 1.0]]
        >>> Sinusoidal(4, layout="halves")(torch.tensor([0])).tolist()
        [[0.0, 0.0, 1.0, 1.0]]
    """

    @classmethod
    def width_unit(cls, num_heads: int) -> int:
        """Return 2: a sine and a cosine."""
        return 2

    def __init__(self, dim: int, *, layout: SinusoidLayout = "interleaved") -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"sinusoidal positions need an even width, got {dim}")
        self.dim = dim
        self.layout = layout

    def forward(self, positions: Tensor) -> Tensor:
        """Map integer positions ``[...]`` to vectors ``[... d]``, float32."""
        steps = torch.arange(0, self.dim, 2, device=positions.device, dtype=torch.float32)
        angles = positions[..., None].float() * torch.exp(steps * (-math.log(10000.0) / self.dim))
        if self.layout == "halves":
            return torch.cat([angles.sin(), angles.cos()], dim=-1)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # [... k 2] -> [... d]


@register.position("learned")
class Learned(EmbeddingPosition):
    """One trained vector for each position (Gehring et al. 2017, section 3.1).

    Args:
        max_length: number of positions that exist.
        dim: model width ``d``.

    Raises:
        ValueError: a position is negative, or ``max_length`` or more.

    Example:
        >>> Learned(7, 4)(torch.arange(5)).shape
        torch.Size([5, 4])
    """

    bounded = True

    def __init__(self, max_length: int, dim: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.table = nn.Embedding(max_length, dim)

    def forward(self, positions: Tensor) -> Tensor:
        """Map integer positions ``[...]`` to vectors ``[... d]``."""
        if not torch.compiler.is_compiling():  # a graph cannot look at numbers; there the table itself refuses them
            outside = positions[(positions < 0) | (positions >= self.max_length)]
            if outside.numel():
                advice = "build with a larger max_length, or use sinusoidal positions"
                raise ValueError(
                    f"learned positions: expected 0 to {self.max_length - 1}, got {int(outside[0])}; {advice}"
                )
        vectors: Tensor = self.table(positions)
        return vectors


@register.position("rotary")
class Rotary(AttentionPosition):
    """Rotary positions: pairs of coordinates turn by an angle that grows with the position.

    Su et al. 2021, "RoFormer", section 3.2.2.

    The score of two turned vectors depends on the distance of their positions alone.

    Args:
        head_dim: width ``e`` of a head; even.
        base: the slowest pair turns by about ``1 / base`` a position; default 10000.

    Raises:
        ValueError: ``head_dim`` is odd or below 2, or ``base`` not above 0. Queries or keys have another width.

    Example:
        >>> x = torch.ones(1, 1, 1, 2)
        >>> Rotary(2).rotate(x, torch.tensor([0])).tolist()
        [[[[1.0, 1.0]]]]
    """

    @classmethod
    def width_unit(cls, num_heads: int) -> int:
        """Return 2 for each head: coordinates turn in pairs."""
        return 2 * num_heads

    def __init__(self, head_dim: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_dim % 2 or head_dim < 2:
            raise ValueError(f"rotary positions need an even head width, got {head_dim}")
        if not base > 0:
            raise ValueError(f"rotary positions need a base above 0, got {base}")
        self.head_dim = head_dim
        self.base = base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn coordinates ``(2k, 2k+1)`` of ``x [b h i e]`` by ``position * base^(-2k/e)``."""
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"rotary positions for heads {self.head_dim} wide, got heads {x.shape[-1]} wide")
        dtype = torch.promote_types(x.dtype, torch.float32)  # an angle in half precision is wrong by whole turns
        steps = torch.arange(0, self.head_dim, 2, device=x.device, dtype=dtype)
        angles = positions[..., None].to(dtype) * self.base ** (-steps / self.head_dim)
        angles = angles.unsqueeze(-3)  # [(b) 1 i e/2]: the same for every head
        cos = angles.cos().to(x.dtype)
        sin = angles.sin().to(x.dtype)
        even = x[..., 0::2]
        odd = x[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return turned.flatten(-2)  # [b h i k 2] -> [b h i e]


@register.position("alibi")
class Alibi(AttentionPosition):
    """Attention with linear biases: ``-slope_h * |i - j|`` (Press et al. 2022, section 3).

    Slopes are the geometric sequence ``2^(-8/h), 2^(-16/h), ...``; where the number of heads is not a power of two, the
    rest is taken from every other slope of the next power, as the authors' code does.

    Args:
        num_heads: ``h``, at least 1.

    Raises:
        ValueError: ``num_heads`` is below 1.

    Example:
        >>> Alibi(2).bias(torch.arange(2), torch.arange(2))[0].tolist()
        [[-0.0, -0.0625], [-0.0625, -0.0]]
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ValueError(f"positions by head need at least 1 head, got {num_heads}")
        self.num_heads = num_heads
        self.register_buffer("slopes", torch.empty(num_heads), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Compute the slopes, as in the constructor; they are not in the state dict and are lost by ``to_empty``."""
        power = 2 ** math.floor(math.log2(self.num_heads))
        slopes = [2.0 ** (-8.0 * (k + 1) / power) for k in range(power)]
        slopes += [2.0 ** (-4.0 * (2 * k + 1) / power) for k in range(self.num_heads - power)]
        self.slopes.copy_(torch.tensor(slopes))

    def initialise(self, generator: torch.Generator) -> None:
        """Compute the slopes; nothing is drawn."""
        self.reset_parameters()

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Return ``[h i j]`` or ``[b h i j]``."""
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        return -self.slopes[:, None, None] * distance.unsqueeze(-3)


@register.position("retention")
class Retention(Alibi):
    """A bias ``|i - j| log gamma_h``, by which weights fade as in a RetNet (Sun et al. 2023, equation 8).

    ``gamma_h = 1 - 2^(-5 - h)``; before the softmax its logarithm is ALiBi with these slopes.

    Args:
        num_heads: ``h``.

    Example:
        >>> Retention(1).bias(torch.arange(2), torch.arange(2)).exp()[0, 1].tolist()
        [0.96875, 1.0]
    """

    def reset_parameters(self) -> None:
        """Compute the slopes, as in the constructor."""
        self.slopes.copy_(torch.tensor([-math.log1p(-(2.0 ** (-5 - k))) for k in range(self.num_heads)]))


@register.position("t5")
class RelativeBias(AttentionPosition):
    """A trained bias for each head and bucket of distances (Raffel et al. 2020, section 2.1: T5).

    Half of the buckets hold one exact distance each; the other half widen logarithmically up to ``max_distance``,
    beyond which all distances share the last.

    Args:
        num_heads: ``h``.
        num_buckets: how many buckets, at least 2, or 4 if bidirectional; default 32.
        max_distance: where the last bucket begins, beyond the distances that have a bucket each; default 128.
        bidirectional: keys may lie after the query (an encoder); half of the buckets are for those. Default False.

    Raises:
        ValueError: there are too few buckets, or ``max_distance`` lies among those that hold one distance each.

    Example:
        >>> RelativeBias(2).bias(torch.arange(3), torch.arange(5)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(
        self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = False
    ) -> None:
        super().__init__()
        fewest = 4 if bidirectional else 2
        exact = num_buckets // fewest
        if exact < 1 or max_distance <= exact:
            got = f"{num_buckets} buckets and max_distance {max_distance}"
            raise ValueError(f"t5 positions need at least {fewest} buckets, and max_distance above {exact}; got {got}")
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.table = nn.Embedding(num_buckets, num_heads)

    def bucket(self, distance: Tensor) -> Tensor:
        """Map ``key position - query position`` to a bucket's number."""
        buckets = self.num_buckets
        offset = torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            offset = (distance > 0) * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return offset + torch.where(distance < exact, distance, wide)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Return ``[h i j]`` or ``[b h i j]``."""
        distance = key_positions[..., None, :] - query_positions[..., :, None]
        table: Tensor = self.table(self.bucket(distance))
        return rearrange(table, "... i j h -> ... h i j")


def rotate(position: AttentionPosition, x: Tensor, positions: Tensor) -> Tensor:
    """Rotate queries or keys by their positions.

    Args:
        position: of the layer.
        x: ``[b h i e]``.
        positions: ``[i]`` or ``[b i]``.

    Raises:
        ValueError: the position returns another shape.
    """
    rotated_x = position.rotate(x, positions)
    if rotated_x.shape != x.shape:
        name = type(position).__name__
        got = tuple(rotated_x.shape)
        raise ValueError(f"MultiHeadAttention: expected {name}.rotate to keep {tuple(x.shape)}, got {got}")
    return rotated_x


def place(
    position: AttentionPosition, query: Tensor, keys: KeyValue, positions: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Rotate queries by their positions, and add the bias of the positions to that of the caller.

    Args:
        position: of the layer.
        query: ``[b h i e]``.
        keys: projected with positions.
        positions: of the queries, ``[i]`` or ``[b i]``; None for the last ``i`` of the keys' positions.
        bias: broadcastable to ``[b h i j]``, or None.

    Raises:
        ValueError: the keys have no positions, there are not as many positions as queries, or the position returns
            another shape.
    """
    if keys.positions is None:
        raise ValueError("MultiHeadAttention: the layer uses positions, but context was projected without any")
    i = query.shape[2]
    if positions is None:
        positions = keys.positions[..., max(0, keys.positions.shape[-1] - i) :]
    check_positions(positions, i, "queries")
    query = rotate(position, query, positions)
    added = position.bias(positions, keys.positions)
    if added is None:
        return query, bias
    rows = max(positions.dim(), keys.positions.dim()) - 1
    _check_bias(position, added, [*query.shape[1 - rows : 3], keys.key.shape[2]])
    return query, added if bias is None else bias + added


def check_positions(positions: Tensor, expected: int, of: str) -> None:
    """Check that there are as many positions as vectors.

    Args:
        positions: ``[i]`` or ``[b i]``.
        expected: number of vectors.
        of: what they are, for the message.

    Raises:
        ValueError: there are more or fewer, or they have other axes.
        TypeError: they are bool, or integers of 8 or 16 bits, whose differences wrap around.
    """
    if not positions.is_floating_point() and positions.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"MultiHeadAttention: expected positions of {of} as int64, got {positions.dtype}")
    if positions.dim() not in (1, 2):
        raise ValueError(f"MultiHeadAttention: expected positions of {of} [i] or [b i], got {tuple(positions.shape)}")
    if positions.shape[-1] != expected:
        got = f"{positions.shape[-1]}; state positions= where the queries are not the last of the keys"
        raise ValueError(f"MultiHeadAttention: expected {expected} positions of {of}, got {got}")


def _check_bias(position: AttentionPosition, bias: Tensor, full: list[int]) -> None:
    """Hold a bias against its axes: with as many rows as heads ``[b i j]`` would pass for ``[h i j]``."""
    if bias.dim() != len(full) or any(size not in (1, n) for size, n in zip(bias.shape, full, strict=True)):
        axes = "[h i j]" if len(full) == 3 else "[b h i j]"
        expected = f"{type(position).__name__}.bias to return {axes} {tuple(full)} for these positions"
        raise ValueError(f"MultiHeadAttention: expected {expected}, got {tuple(bias.shape)}")
