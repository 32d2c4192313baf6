"""Normalizers: how the scores of a query become the weights of its keys.

Each is a small module ``forward(scores [b h i j]) -> weights [b h i j]``. The score of a hidden key is minus infinity,
and its weight 0. Normalizers are registered by name with ``@register.normalizer``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.registry import NORMALIZERS, build_part, register


class Normalizer(nn.Module, ABC):
    """What every normalizer is: ``scores [b h i j] -> weights [b h i j]``, in the dtype of the scores.

    A subclass defines :meth:`forward`. It meets scores of float32 or wider, minus infinity where a key is hidden; each
    query sees a key. Whatever it returns for a hidden key, :func:`~selfattn.attention.core.attend` makes the weight 0.
    :func:`make_normalizer` hands a constructor ``num_heads`` where it names it; other arguments need defaults.

    Attributes:
        zero_keys: how many further keys of score 0 and value 0 make a softmax give these weights, so that the fused
            path computes them; None (the default) where no softmax does.

    Example:
        >>> from selfattn.registry import register
        >>> @register.normalizer("relu_share")
        ... class ReluShare(Normalizer):
        ...     def forward(self, scores):
        ...         return scores.relu() / (scores > -torch.inf).sum(dim=-1, keepdim=True)
        >>> make_normalizer("relu_share")(torch.tensor([[[[3.0, -1.0, -torch.inf]]]])).tolist()
        [[[[1.5, 0.0, 0.0]]]]
    """

    zero_keys: ClassVar[int | None] = None

    @abstractmethod
    def forward(self, scores: Tensor) -> Tensor:
        """Map scores ``[b h i j]`` to weights ``[b h i j]``."""

    __call__: Callable[..., Tensor]


NORMALIZERS.expect(Normalizer)


@register.normalizer("softmax")
class Softmax(Normalizer):
    """``exp(s_j) / sum exp(s)``: positive weights that sum to 1.

    Example:
        >>> Softmax()(torch.zeros(4)).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """

    zero_keys = 0

    def forward(self, scores: Tensor) -> Tensor:
        """Turn scores ``[b h i j]`` into distributions over the keys."""
        return scores.softmax(dim=-1)


@register.normalizer("softmax1")
class Softmax1(Normalizer):
    """``exp(s_j) / (1 + sum exp(s))``: a softmax with one more key of score 0, whose weight goes nowhere.

    The weights sum to less than 1, so that a head can attend to nothing (Miller 2023, "Attention is off by one"; the
    same as ``add_zero_attn`` of ``nn.MultiheadAttention``).

    Example:
        >>> Softmax1()(torch.zeros(3)).tolist()
        [0.25, 0.25, 0.25]
    """

    zero_keys = 1

    def forward(self, scores: Tensor) -> Tensor:
        """Return the weights of the keys, without that of the zero."""
        return F.pad(scores, (0, 1)).softmax(dim=-1)[..., :-1]


@register.normalizer("softmax_sink")
class SoftmaxSink(Normalizer):
    """``exp(s_j) / (exp(z_h) + sum exp(s))`` with a trained score ``z`` for each head: a learned sink.

    As in gpt-oss (OpenAI 2025); with ``z = 0``, the first value, it is :class:`Softmax1`. ``z`` falls where
    a head has no use for the sink.

    Args:
        num_heads: ``h``.

    Example:
        >>> SoftmaxSink(1)(torch.zeros(1, 1, 1, 3)).tolist()
        [[[[0.25, 0.25, 0.25]]]]
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(num_heads))

    def initialise(self, generator: torch.Generator) -> None:
        """Begin with a score of 0; nothing is drawn."""
        self.sink.zero_()

    def forward(self, scores: Tensor) -> Tensor:
        """Return the weights of the keys, without that of the sink."""
        sink = self.sink.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        return torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]


class Sparse(Normalizer):
    """``max(s_j / p - tau, 0)^p``: weights that sum to 1, exactly 0 for low scores.

    The scores with a weight above 0 are the support. ``tau`` follows from their number, their mean, and the sum of
    their squared distances from it. Both published algorithms sort the scores to find the support.

    Attributes:
        power: ``p``.
    """

    power: ClassVar[int]

    @abstractmethod
    def threshold(self, count: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
        """Return ``tau`` for a support of ``count`` scores with this mean and sum of squared distances from it."""

    def forward(self, scores: Tensor) -> Tensor:
        """Turn scores ``[b h i j]`` into sparse distributions over the keys."""
        if scores.shape[-1] == 0:
            return scores
        scores = (scores - scores.detach().amax(dim=-1, keepdim=True)) / self.power  # differences alone count
        with torch.no_grad():
            ordered = scores.clamp(min=-2).sort(dim=-1, descending=True).values  # of -2 and less the weight is 0
            count = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
            mean = ordered.cumsum(dim=-1) / count
            spread = ordered.square().cumsum(dim=-1) - count * mean.square()
            size = (self.threshold(count, mean, spread) <= ordered).sum(dim=-1, keepdim=True)
            support = ~(scores < ordered.gather(-1, (size - 1).clamp(min=0)))  # NaN stays NaN
        count = support.sum(dim=-1, keepdim=True, dtype=scores.dtype)
        inside = scores.masked_fill(~support, 0)
        mean = inside.sum(dim=-1, keepdim=True) / count
        spread = (inside - mean).masked_fill(~support, 0).square().sum(dim=-1, keepdim=True)
        weights = (inside - self.threshold(count, mean, spread)).relu().pow(self.power)
        return weights.masked_fill(~support, 0)


@register.normalizer("sparsemax")
class Sparsemax(Sparse):
    """``max(s_j - tau, 0)``: the distribution nearest to the scores (Martins and Astudillo 2016, algorithm 1).

    Example:
        >>> Sparsemax()(torch.tensor([1.0, 0.5, -1.0])).tolist()
        [0.75, 0.25, 0.0]
    """

    power = 1

    def threshold(self, count: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
        """Return ``tau``, which depends on number and mean of the support only."""
        return mean - 1 / count


@register.normalizer("entmax15")
class Entmax15(Sparse):
    """``max(s_j / 2 - tau, 0)^2``: between softmax and sparsemax, 1.5-entmax (Peters et al. 2019, algorithm 2).

    Example:
        >>> Entmax15()(torch.tensor([3.0, 0.0, -3.0])).tolist()
        [1.0, 0.0, 0.0]
    """

    power = 2

    def threshold(self, count: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
        """Return ``tau``, which depends on number, mean and spread of the support."""
        return mean - ((1 - spread) / count).clamp(min=0).sqrt()


@register.normalizer("sigmoid")
class Sigmoid(Normalizer):
    """``sigmoid(s_j - log n)`` for each key by itself, with ``n`` the number of keys that the query may see.

    Ramapuram et al. 2024, with their bias ``-log n``. There ``n`` is the length of the text; here padding and the
    hidden future are not counted, so that they change nothing. The weights need not sum to 1.

    Example:
        >>> [round(weight, 3) for weight in Sigmoid()(torch.tensor([1.0, 3.0]).log()).tolist()]
        [0.333, 0.6]
    """

    def forward(self, scores: Tensor) -> Tensor:
        """Turn scores ``[b h i j]`` into weights of each key by itself."""
        count = (scores > -torch.inf).sum(dim=-1, keepdim=True)
        return torch.sigmoid(scores - count.to(scores.dtype).log())


@register.normalizer("none")
class Unnormalized(Normalizer):
    """``s_j``: the scores themselves are the weights, as in linear attention without its denominator.

    Example:
        >>> Unnormalized()(torch.tensor([2.0, -1.0, -torch.inf])).tolist()
        [2.0, -1.0, 0.0]
    """

    def forward(self, scores: Tensor) -> Tensor:
        """Return the scores, and 0 for hidden keys."""
        return scores.masked_fill(scores == -torch.inf, 0)


def make_normalizer(name: str, num_heads: int = 1) -> Normalizer:
    """Build a normalizer from its name, for configurations and command lines.

    Args:
        name: of a registered normalizer, such as ``softmax``, ``softmax1``, ``softmax_sink``, ``sparsemax``,
            ``entmax15``, ``sigmoid`` or ``none``.
        num_heads: ``h``; default 1.

    Raises:
        UserError: the name is unknown, or the constructor asks for something else.

    Example:
        >>> make_normalizer("sparsemax")
        Sparsemax()
    """
    normalizer: Normalizer = build_part(NORMALIZERS, name, num_heads=num_heads)
    return normalizer


def check_normalizer(normalizer: object, where: str) -> None:
    """Make sure that something can turn scores into weights.

    Raises:
        TypeError: it is a function, a class, or anything else that is no normalizer.

    Example:
        >>> check_normalizer(len, "attend")
        Traceback (most recent call last):
        TypeError: attend: expected an instance of Normalizer, such as Softmax(), got <built-in function len>
    """
    if not (isinstance(normalizer, nn.Module) and hasattr(normalizer, "zero_keys")):
        raise TypeError(f"{where}: expected an instance of Normalizer, such as Softmax(), got {normalizer!r}")


softmax = Softmax()
softmax1 = Softmax1()
sparsemax = Sparsemax()
entmax15 = Entmax15()
sigmoid = Sigmoid()
