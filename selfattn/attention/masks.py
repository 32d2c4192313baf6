"""Boolean masks, True = may attend; combine them with ``&``.

The sense is that of ``scaled_dot_product_attention``, Flax and Keras, and the reverse of ``nn.MultiheadAttention``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

_reading: ContextVar[bool] = ContextVar("reading", default=True)


@dataclass(frozen=True)
class Mask:
    """A mask as :func:`~selfattn.attention.core.attend` works with it: made once, with what is known of it.

    Models make it where their inputs arrive. No layer looks at its values.

    Attributes:
        allowed: bool, broadcastable to ``[b h i j]``; default None: nothing is hidden.
        additive: the same as numbers to add to the scores, 0 and minus infinity. Only where every query is known to
            see a key, and every hidden number to be finite (padding, in a model). Hidden keys may then be read.
        causal: also hide the future, right-aligned; default False.
        tokens: bool ``[b i]``, which of the last ``i`` tokens are real, where ``allowed`` hides padding and the future
            and nothing else; default None. Layers that keep a state in place of keys read this.

    Raises:
        ValueError: ``additive`` is given without ``allowed``.
        TypeError: ``allowed`` is not bool.
    """

    allowed: Tensor | None = None
    additive: Tensor | None = None
    causal: bool = False
    tokens: Tensor | None = None

    def __post_init__(self) -> None:
        if self.allowed is None and self.additive is not None:
            raise ValueError("Mask: additive says the same as allowed, for the fused kernel; expected both")
        if self.allowed is not None and self.allowed.dtype != torch.bool:
            raise TypeError(f"Mask: expected allowed as bool, True = may attend, got {self.allowed.dtype}")

    @classmethod
    def safe(cls, allowed: Tensor) -> Mask:
        """Return the mask of a caller who knows that every query sees a key and that all numbers are finite."""
        return cls(allowed, torch.zeros(allowed.shape, device=allowed.device).masked_fill(~allowed, -torch.inf))

    @classmethod
    def of_keys(cls, tokens: Tensor) -> Mask:
        """Return the mask of keys whose hidden numbers are finite, from a token mask ``[b s]``, reading it if it may.

        Raises:
            TypeError: the token mask is not bool.

        Example:
            >>> Mask.of_keys(torch.ones(2, 5, dtype=torch.bool)).allowed is None
            True
        """
        _check_tokens(tokens)
        if _readable(tokens):
            if tokens.all():
                return cls()
            if tokens.any(dim=1).all():
                return cls.safe(key_mask(tokens))
        return cls(key_mask(tokens))

    def reorder(self, index: Tensor) -> Mask:
        """Pick rows along the batch axis, int64 ``[new b]``."""
        allowed = None if self.allowed is None else self.allowed.index_select(0, index)
        additive = None if self.additive is None else self.additive.index_select(0, index)
        return Mask(allowed, additive, self.causal)

    def for_sizes(self, i: int, j: int, device: torch.device | None = None) -> Mask:
        """Return the mask for ``i`` queries and ``j`` keys, with the hidden future written out in ``allowed``."""
        if not self.causal:
            return self
        if i == 1 <= j:  # a single query is the last: it has no future
            return Mask(self.allowed, self.additive)
        future = causal_mask(i, j, device=device)
        if self.allowed is not None:
            return Mask(self.allowed & future)
        return Mask.safe(future) if i <= j else Mask(future)


_NOTHING_HIDDEN = Mask()
_CAUSAL = Mask(causal=True)


def as_mask(mask: Tensor | Mask | None, causal: bool, full: tuple[int, int, int, int]) -> Mask:
    """Return a caller's ``mask`` and ``causal`` as one :class:`Mask`.

    Args:
        mask: bool, broadcastable to ``[b h i j]``; or a :class:`Mask`; or None: nothing is hidden.
        causal: also hide the future, right-aligned.
        full: the sizes ``b, h, i, j``.

    Raises:
        ValueError: the mask does not broadcast to ``[b h i j]``.
        TypeError: the mask is no bool tensor.

    Example:
        >>> as_mask(torch.ones(5, 7), False, (2, 3, 5, 7))
        Traceback (most recent call last):
        ...
        TypeError: attend: expected a bool mask, True = may attend, got torch.float32
    """
    if isinstance(mask, Mask):
        if mask.allowed is not None and not torch.compiler.is_compiling():  # a graph compares no sizes
            check_broadcasts("mask", mask.allowed, full)
        return Mask(mask.allowed, mask.additive, True) if causal and not mask.causal else mask
    if mask is None:
        return _CAUSAL if causal else _NOTHING_HIDDEN
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else f"{type(mask).__module__}.{type(mask).__name__}"
        hint = "" if isinstance(mask, Tensor) else "; make it a tensor: torch.as_tensor(mask)"
        raise TypeError(f"attend: expected a bool mask, True = may attend, got {kind}{hint}")
    if mask.dim() == 2 and tuple(mask.shape) == (full[0], full[3]) != full[2:]:
        got = f"{tuple(mask.shape)}; a mask of tokens [b s] hides keys as key_mask(mask)"
        raise ValueError(f"attend: expected a mask that broadcasts to [b h i j] {full}, got {got}")
    check_broadcasts("mask", mask, full)
    return Mask(mask[(None,) * (4 - mask.dim())], causal=causal)  # the kernels want all four axes


def check_broadcasts(name: str, tensor: Tensor, full: tuple[int, int, int, int]) -> None:
    """Check that a mask or bias broadcasts to ``[b h i j]``.

    Raises:
        ValueError: it does not.

    Example:
        >>> check_broadcasts("mask", torch.ones(2, 7), (2, 3, 5, 7))
        Traceback (most recent call last):
        ...
        ValueError: attend: expected a mask that broadcasts to [b h i j] (2, 3, 5, 7), got (2, 7)
    """
    sizes = zip(reversed(tensor.shape), reversed(full), strict=False)
    if tensor.dim() > 4 or any(size not in (1, expected) for size, expected in sizes):
        raise ValueError(f"attend: expected a {name} that broadcasts to [b h i j] {full}, got {tuple(tensor.shape)}")


def tokens_of(mask: Tensor | Mask | None, context: Tensor) -> Tensor | None:
    """Return which tokens of ``context [b j d]`` are real, bool ``[b j]``; None: all.

    Raises:
        ValueError: the mask hides a key from some queries, or heads, only.

    Example:
        >>> tokens_of(key_mask(torch.tensor([[True, False]])), torch.zeros(1, 2, 3))
        tensor([[ True, False]])
    """
    if isinstance(mask, Mask):
        if mask.tokens is not None:
            return mask.tokens
        mask = mask.allowed
    if mask is None:
        return None
    allowed = mask[(None,) * (4 - mask.dim())]
    if allowed.shape[1] != 1 or allowed.shape[2] != 1:
        expected = f"a mask of keys [b 1 1 j], beside causal=True, got {tuple(allowed.shape)}"
        raise ValueError(f"a state holds the same tokens for all queries; expected {expected}")
    return allowed[:, 0, 0].expand(context.shape[:2])


def _readable(tensor: Tensor) -> bool:
    """Whether Python may look at values: in no graph, not under vmap, and where nothing waits long for a device."""
    if torch.compiler.is_compiling() or not _reading.get() or torch._C._functorch.is_batchedtensor(tensor):
        return False
    return tensor.is_cpu or not torch.is_grad_enabled()


@contextmanager
def unread() -> Iterator[None]:
    """Make masks without looking at values, as in a graph, so that states have the form that a graph gives them."""
    token = _reading.set(False)
    try:
        yield
    finally:
        _reading.reset(token)


def all_real(tokens: Tensor) -> bool:
    """Whether a token mask is known to hide nothing, so that work for padding can be left out.

    Raises:
        TypeError: the token mask is not bool.

    Example:
        >>> all_real(torch.ones(2, 5, dtype=torch.bool)), all_real(torch.tensor([[True, False]]))
        (True, False)
    """
    _check_tokens(tokens)
    return _readable(tokens) and bool(tokens.all())


def kind_of(value: object) -> str:
    """Name the dtype of a tensor, or the type of anything else, for an error message."""
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _check_tokens(tokens: Tensor) -> None:
    if not isinstance(tokens, Tensor) or tokens.dtype != torch.bool:
        raise TypeError(f"expected a mask of tokens [b s] as bool, True = real token, got {kind_of(tokens)}")


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """Mark the real tokens of right-padded rows.

    Args:
        lengths: int ``[b]``, tokens in each row.
        size: the padded length ``s``.

    Returns:
        bool ``[b s]``, True where ``position < length``.

    Example:
        >>> padding_mask(torch.tensor([1, 3]), 3).int().tolist()
        [[1, 0, 0], [1, 1, 1]]
    """
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def key_mask(tokens: Tensor) -> Tensor:
    """Turn a token mask ``[b s]`` into an attention mask ``[b 1 1 s]``: every query may see these keys.

    Example:
        >>> key_mask(torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 1, 1, 5])
    """
    return tokens[:, None, None, :]


def causal_mask(i: int, j: int, *, device: torch.device | None = None) -> Tensor:
    """Hide the future, right-aligned: the last of ``i`` queries sees all ``j`` keys.

    Args:
        i: number of queries.
        j: number of keys; the queries are the last ``i`` of the ``j`` positions.
        device: where the mask lies; default the CPU.

    Returns:
        bool ``[i j]``, True where ``key <= query + (j - i)``.

    Example:
        >>> causal_mask(2, 3).int().tolist()
        [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(i, j, dtype=torch.bool, device=device).tril(j - i)


def without_unread_queries(x: Tensor, allowed: Tensor) -> Tensor:
    """Zero the inputs of queries that see nothing, before they are projected.

    :func:`~selfattn.attention.core.attend` does so with the projected ones; but the gradient of a projection's weights
    is a product with its inputs, and 0 times NaN is NaN.

    Args:
        x: ``[b i d]``.
        allowed: bool, broadcastable to ``[b h i j]`` and with four axes.

    Example:
        >>> x, allowed = torch.full((1, 2, 1), 3.0), torch.tensor([[[[True, False], [False, False]]]])
        >>> without_unread_queries(x, allowed).flatten().tolist(), without_unread_keys(x, allowed).flatten().tolist()
        ([3.0, 0.0], [3.0, 0.0])
    """
    return x.masked_fill(~allowed.any(dim=1).any(dim=-1, keepdim=True), 0)


def without_unread_keys(x: Tensor, allowed: Tensor) -> Tensor:
    """Zero the inputs of keys that no query sees, before they are projected; see :func:`without_unread_queries`.

    Args:
        x: ``[b j d]``.
        allowed: bool, broadcastable to ``[b h i j]`` and with four axes.
    """
    return x.masked_fill(~allowed.any(dim=1).any(dim=-2).unsqueeze(-1), 0)
