"""Score functions: how well a key answers a query.

Each is a small module ``forward(query [b h i e], key [b h j e']) -> scores [b h i j]`` that works in any role and for
any number of heads (its weights are shared by the heads). A score that is a dot product of projected vectors says so
through :meth:`Score.as_dot`, and then takes the fused path. Scores are registered by name with ``@register.score``.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from selfattn.registry import SCORES, build_part, register

# Elements of [b h i j a] that additive scores hold at a time (64 MiB of float32); more goes in blocks that fit a cache.
BLOCK_ELEMENTS = 2**24
CACHED_ELEMENTS = 2**20


class Score(nn.Module):
    """What every score function is: ``query [b h i e], key [b h j e'] -> scores [b h i j]``.

    A subclass defines :meth:`forward`, or :meth:`as_dot` where the score is a dot product of (projected) vectors.
    :func:`make_score` hands a constructor what it names of ``query_dim``, ``key_dim`` and ``max_length``; other
    arguments need defaults.

    Attributes:
        equal_widths: whether query and key must have one width; default False.
        counts_keys: whether it tells keys by their place in the batch, and so has a longest source; default False.
        computes: whether the class or one of its bases below this one defines ``forward`` or ``as_dot``.

    Example:
        >>> from selfattn.registry import register
        >>> @register.score("negative_distance")
        ... class NegativeDistance(Score):
        ...     equal_widths = True
        ...     def forward(self, query, key):
        ...         return -torch.cdist(query, key)
        >>> make_score("negative_distance", 3, 3)(torch.zeros(1, 1, 1, 3), torch.ones(1, 1, 1, 3)).shape
        torch.Size([1, 1, 1, 1])
    """

    equal_widths: ClassVar[bool] = False
    counts_keys: ClassVar[bool] = False
    computes: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.computes = cls.computes or not vars(cls).keys().isdisjoint({"forward", "as_dot"})

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Compare every query with every key: ``[b h i e], [b h j e'] -> [b h i j]``; default by :meth:`as_dot`."""
        dotted = self.as_dot(query, key)
        assert dotted is not None
        query, key, scale = dotted
        if query.dtype == torch.float16:  # a dot product may leave its range; the fused kernel sums in float32, too
            query = query.float()
            key = key.float()
        return (query / (1 / scale)) @ key.transpose(-2, -1)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """Return ``(query', key', scale)`` with score ``scale * query' . key'``, or None where no such form exists."""
        return None

    __call__: Callable[..., Tensor]


SCORES.expect(Score, lambda part: None if part.computes else f"{part.__name__} has no forward")


@register.score("dot")
class Dot(Score):
    """``q . k`` (Luong et al. 2015, section 3.1, "dot"); query and key have the same width.

    Example:
        >>> Dot()(torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0, 4.0]]]])).item()
        11.0
    """

    equal_widths = True

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return both as they are, and scale 1."""
        return query, key, 1.0


@register.score("scaled_dot")
class ScaledDot(Score):
    """``q . k / sqrt(e)`` (Vaswani et al. 2017, section 3.2.1); query and key have the same width ``e``.

    Example:
        >>> ScaledDot()(torch.tensor([[[[1.0, 2.0, 0.0, 0.0]]]]), torch.tensor([[[[3.0, 4.0, 0.0, 0.0]]]])).item()
        5.5
    """

    equal_widths = True

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return both as they are, and scale ``1 / sqrt(e)``."""
        return query, key, 1.0 / math.sqrt(query.shape[-1])


@register.score("general")
class General(Score):
    """``q W k``, also called multiplicative or bilinear (Luong et al. 2015, section 3.1, "general").

    Args:
        query_dim: width of a query.
        key_dim: width of a key; default the same.

    Example:
        >>> General(3, 5)(torch.ones(1, 2, 7, 3), torch.ones(1, 2, 11, 5)).shape
        torch.Size([1, 2, 7, 11])
    """

    def __init__(self, query_dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.proj = nn.Linear(query_dim, query_dim if key_dim is None else key_dim, bias=False)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return the query projected, the key, and scale 1."""
        return self.proj(query), key, 1.0


@register.score("additive")
class Additive(Score):
    """``v . tanh(W1 k + W2 q)`` (Bahdanau et al. 2015, appendix A.1.2), in blocks where it is large.

    Args:
        query_dim: width of a query.
        key_dim: width of a key; default the same.
        hidden_dim: width ``a`` inside the tanh; default ``query_dim``.

    Attributes:
        block_elements: how many elements of ``[b h i j a]`` may exist at once, forward and backward; default 2**24,
            64 MiB of float32. What is more is computed in blocks, and again in the backward pass.

    Example:
        >>> Additive(3, 5, hidden_dim=2)(torch.ones(1, 2, 7, 3), torch.ones(1, 2, 11, 5)).shape
        torch.Size([1, 2, 7, 11])
    """

    block_elements = BLOCK_ELEMENTS

    def __init__(self, query_dim: int, key_dim: int | None = None, hidden_dim: int | None = None) -> None:
        super().__init__()
        hidden_dim = query_dim if hidden_dim is None else hidden_dim
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(query_dim if key_dim is None else key_dim, hidden_dim, bias=False)
        self.v = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Return ``v . tanh(W1 k + W2 q)``."""
        return summed_tanh(self.query_proj(query), self.key_proj(key), self.v.weight[0], self.block_elements)


@register.score("concat")
class Concat(Score):
    """``v . tanh(W [q; k])`` (Luong et al. 2015, section 3.1, "concat"): one matrix over both, with its bias.

    Args:
        query_dim: width of a query.
        key_dim: width of a key; default the same.
        hidden_dim: width ``a`` inside the tanh; default ``query_dim``.

    Attributes:
        block_elements: how many elements of ``[b h i j a]`` may exist at once, forward and backward; default 2**24,
            64 MiB of float32. What is more is computed in blocks, and again in the backward pass.

    Example:
        >>> Concat(3, 5, hidden_dim=2)(torch.ones(1, 2, 7, 3), torch.ones(1, 2, 11, 5)).shape
        torch.Size([1, 2, 7, 11])
    """

    block_elements = BLOCK_ELEMENTS

    def __init__(self, query_dim: int, key_dim: int | None = None, hidden_dim: int | None = None) -> None:
        super().__init__()
        hidden_dim = query_dim if hidden_dim is None else hidden_dim
        self.query_dim = query_dim
        self.proj = nn.Linear(query_dim + (query_dim if key_dim is None else key_dim), hidden_dim)
        self.v = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Return ``v . tanh(W [q; k])``, the matrix applied to each half once instead of to every pair."""
        for_query = self.proj.weight[:, : self.query_dim]
        for_key = self.proj.weight[:, self.query_dim :]
        projected = F.linear(query, for_query, self.proj.bias)
        return summed_tanh(projected, F.linear(key, for_key), self.v.weight[0], self.block_elements)


@register.score("location")
class Location(Score):
    """``W q`` read off at the key's position: the query alone decides (Luong et al. 2015, section 3.1, equation 8).

    Args:
        query_dim: width of a query.
        max_length: the longest source that can be attended to; a longer one is an error, not a cut.

    Raises:
        ValueError: there are more keys than ``max_length``.

    Example:
        >>> Location(3, max_length=13)(torch.ones(1, 2, 7, 3), torch.ones(1, 2, 11, 5)).shape
        torch.Size([1, 2, 7, 11])
    """

    counts_keys = True

    def __init__(self, query_dim: int, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.proj = nn.Linear(query_dim, max_length, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Return ``(W q)[j]`` for every key position ``j``."""
        j = key.shape[-2]
        if j > self.max_length:
            limit = f"it was built for at most {self.max_length}; build it with max_length={j} or more"
            raise ValueError(f"location score: {j} source positions, but {limit}")
        return F.linear(query, self.proj.weight[:j])


@register.score("linear")
class Linear(Score):
    """``log phi(q) . phi(k)`` with ``phi = elu + 1``, in float32 or wider: with the softmax this is linear attention.

    The weights are then ``phi(q) . phi(k)`` over their sum (Katharopoulos et al. 2020, section 3.2), which an RNN with
    a state of fixed size also computes: :class:`~selfattn.attention.linear.LinearAttention`.

    Example:
        >>> Linear()(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[0.0, 2.0]]]])).exp().round().item()
        5.0
    """

    equal_widths = True

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the logarithm of the product of the features."""
        wide = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            product = positive_features(query.to(wide)) @ positive_features(key.to(wide)).transpose(-2, -1)
        return product.clamp(min=torch.finfo(wide).tiny).log()


def positive_features(x: Tensor) -> Tensor:
    """Return ``elu(x) + 1``: ``exp(x)`` below 0, where adding 1 to ``elu`` would round to 0, and ``1 + x`` above.

    Example:
        >>> (positive_features(torch.tensor([-20.0])) == torch.tensor([-20.0]).exp()).item()
        True
    """
    return x.clamp(max=0).exp() + x.relu()


def summed_tanh(query: Tensor, key: Tensor, v: Tensor, block_elements: int) -> Tensor:
    """Return ``sum_a v_a tanh(query_ia + key_ja)`` within a bound on memory.

    Written out, the tanh is a tensor ``[b h i j a]``: 8 GiB for 64 pairs of 512 tokens at width 128. Where it is
    larger than the bound, it is computed in blocks, and again in the backward pass.

    Args:
        query: ``[b h i a]``.
        key: ``[b h j a]``.
        v: ``[a]``.
        block_elements: elements of ``[b h i j a]`` that may exist at once. At least one query's ``[j a]`` exists.

    Returns:
        ``[b h i j]``.

    Example:
        >>> query, key = torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.0, 0.0], [9.0, -9.0]]]])
        >>> summed_tanh(query, key, torch.tensor([3.0, 1.0]), block_elements=2).round().tolist()
        [[[[0.0, 2.0]]]]
    """

    def block(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        return (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh_() @ v

    if query.numel() * key.shape[-2] <= block_elements:
        return block(query, key, v)
    wide = torch.promote_types(query.dtype, torch.float32)  # the gradients of many blocks are summed
    left = query.flatten(0, 1).to(wide)
    right = key.flatten(0, 1).to(wide)
    v = v.to(wide)
    rows = min(block_elements, CACHED_ELEMENTS) // right[0].numel() or 1
    heads = min(block_elements, CACHED_ELEMENTS) // (min(rows, query.shape[-2]) * right[0].numel()) or 1
    scores: list[Tensor] = []
    for q, k in zip(torch.split(left, heads), torch.split(right, heads), strict=True):
        parts = torch.split(q, rows, dim=1)
        blocks = [checkpoint(block, part, k, v, use_reentrant=False, preserve_rng_state=False) for part in parts]
        scores.append(torch.cat(blocks, dim=1))
    return torch.cat(scores).view(*query.shape[:-1], key.shape[-2]).to(query.dtype)


def make_score(name: str, query_dim: int, key_dim: int, *, max_length: int = 512) -> Score:
    """Build a score function from its name, for configurations and command lines.

    Args:
        name: of a registered score, such as ``dot``, ``scaled_dot``, ``general``, ``additive``, ``concat`` or
            ``location``.
        query_dim: width of a query.
        key_dim: width of a key.
        max_length: longest source of location.

    Raises:
        UserError: the name is unknown, or the constructor asks for something else.

    Example:
        >>> make_score("general", 3, 5)
        General(
          (proj): Linear(in_features=3, out_features=5, bias=False)
        )
    """
    score: Score = build_part(SCORES, name, query_dim=query_dim, key_dim=key_dim, max_length=max_length)
    return score


def check_score(score: object, where: str) -> None:
    """Make sure that something can compare queries with keys.

    Raises:
        TypeError: it is a function, a class, or anything else that is no score.

    Example:
        >>> check_score(Dot, "attend")
        Traceback (most recent call last):
        TypeError: attend: expected an instance of Score, such as Dot(), got <class 'selfattn.attention.scores.Dot'>
    """
    if not (isinstance(score, nn.Module) and hasattr(score, "as_dot")):  # torch.compile wraps a score in another class
        raise TypeError(f"{where}: expected an instance of Score, such as Dot(), got {score!r}")


dot = Dot()
scaled_dot = ScaledDot()
