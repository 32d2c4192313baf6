"""Multi-head attention: projections around :func:`~selfattn.attention.core.attend`. It keeps no state of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import torch
from einops import rearrange
from torch import Tensor, nn

from selfattn.attention.cache import Cache
from selfattn.attention.core import Attended, attend, is_transformed
from selfattn.attention.masks import Mask, as_mask, without_unread_keys, without_unread_queries
from selfattn.attention.normalizers import Normalizer, check_normalizer, make_normalizer
from selfattn.attention.placing import check_positions, placed, rotated
from selfattn.attention.positions import AttentionPosition
from selfattn.attention.projections import JoinedLinears, KeyValue, Query, check_states, checked_sizes
from selfattn.attention.scores import Score, check_score, make_score

F = TypeVar("F", bound=Callable[..., Any])


def called_like(forward: F) -> Callable[[Callable[..., Any]], F]:
    """Return a decorator that gives a function the signature of another one, for type checkers alone."""
    return lambda function: forward


_PROJECTIONS = ("q_proj", "k_proj", "v_proj")


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), grouped-query when ``num_kv_heads < num_heads``
    (Ainslie et al. 2023, section 2.2), and with ``project=False`` the bare attention of an RNN seq2seq.

    A projection can be replaced by another module of the same widths, such as a low-rank adapter:
    ``layer.q_proj = Adapter(layer.q_proj)``. ``q_proj``, ``k_proj`` and ``v_proj`` are separate parameters. If they
    have one input width, their weights lie side by side in memory, and in inference mode :meth:`project_self` computes
    all three as one product. If one was replaced, has a hook or was moved in memory, they are computed one by one.

    Args:
        query_dim: width ``d`` of the queries, and of the output; a head has the width ``d / h``.
        context_dim: width of the context, from which keys and values come; default ``query_dim``.
        num_heads: number of query heads ``h``.
        num_kv_heads: number of key-value heads; default ``num_heads``; 1 is multi-query attention (Shazeer 2019).
        score: a :class:`~selfattn.attention.scores.Score`, or its name: ``dot``, ``scaled_dot``, ``general``,
            ``additive``, ``concat``, ``location``, ``linear``, or one that was registered; default ``"scaled_dot"``.
        normalize: a :class:`~selfattn.attention.normalizers.Normalizer`, or its name: ``softmax``, ``softmax1``,
            ``softmax_sink``, ``sparsemax``, ``entmax15``, ``sigmoid``, ``none``, or one that was registered; default
            ``"softmax"``.
        project: False leaves out all four projections: heads are slices of the inputs, and the output joins the
            weighted sums of all heads, ``[b i context_dim]`` (wider if key-value heads are shared). Default True.
        position: encoding of the positions: ``Rotary``, ``Alibi``, ``Retention`` or ``RelativeBias`` of
            :mod:`selfattn.attention.positions`; default none. ``Sinusoidal`` and ``Learned`` do not belong here: a
            model adds them to the input.
        bias: whether the projections have biases; default True.
        dropout: probability of dropping an attention weight while training; default 0.
        qk_norm: RMS-normalise queries and keys in each head before scoring (Henry et al. 2020); default False.

    Raises:
        ValueError: a width is below 1 or not divisible by its number of heads; the key-value heads do not divide the
            heads; dropout is outside [0, 1).
        TypeError: ``position`` is no :class:`~selfattn.attention.positions.AttentionPosition`, the score no
            :class:`~selfattn.attention.scores.Score`, or ``normalize`` no
            :class:`~selfattn.attention.normalizers.Normalizer`.

    Example:
        >>> layer = MultiHeadAttention(8, num_heads=2)
        >>> x, memory = torch.randn(3, 5, 8), torch.randn(3, 7, 8)
        >>> context = layer.project_context(memory)
        >>> layer(x, context, need_weights=True).weights.shape
        torch.Size([3, 2, 5, 7])
    """

    def __init__(
        self,
        query_dim: int,
        context_dim: int | None = None,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        score: str | Score = "scaled_dot",
        normalize: str | Normalizer = "softmax",
        project: bool = True,
        position: AttentionPosition | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        context_dim = query_dim if context_dim is None else context_dim
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        for name, size in (("query_dim", query_dim), ("context_dim", context_dim)):
            if size < 1:
                raise ValueError(f"MultiHeadAttention: {name} must be at least 1, got {size}")
        if min(num_heads, num_kv_heads) < 1 or num_heads % num_kv_heads:
            raise ValueError(f"MultiHeadAttention: {num_kv_heads} key-value heads do not divide {num_heads} heads")
        if position is not None and not (isinstance(position, nn.Module) and hasattr(position, "rotate")):
            raise TypeError(f"MultiHeadAttention: expected position as an AttentionPosition, got {position!r}")
        if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
            raise ValueError(f"MultiHeadAttention: dropout must be a number in [0, 1), got {dropout!r}")
        self.query_dim = query_dim
        self.context_dim = context_dim
        self.project = project
        self.dropout = dropout
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        head_dim = _divided(query_dim, num_heads, "query_dim")
        if project:
            self.q_proj = nn.Linear(query_dim, query_dim, bias=bias)
            self.k_proj = nn.Linear(context_dim, num_kv_heads * head_dim, bias=bias)
            self.v_proj = nn.Linear(context_dim, num_kv_heads * head_dim, bias=bias)
            self.out_proj = nn.Linear(query_dim, query_dim, bias=bias)
        key_width = head_dim if project else _divided(context_dim, num_kv_heads, "context_dim")
        self.output_dim = query_dim if project else num_heads * key_width
        self.q_norm = nn.RMSNorm(head_dim) if qk_norm else None
        self.k_norm = nn.RMSNorm(key_width) if qk_norm else None
        self.score = make_score(score, head_dim, key_width) if isinstance(score, str) else score
        check_score(self.score, "MultiHeadAttention")
        self.normalize = make_normalizer(normalize, num_heads) if isinstance(normalize, str) else normalize
        check_normalizer(self.normalize, "MultiHeadAttention")
        self.position = position
        self._joined: JoinedLinears | None = None
        self.join_projections()

    def join_projections(self) -> None:
        """Place the weights of the three projections side by side in memory, if all are plain and of one input width.

        The constructor calls it, and so do moving and copying the layer. Call it yourself after the weights were
        replaced by other tensors, as ``load_state_dict(..., assign=True)`` does.
        """
        if not self.project:
            return
        if self._joined is None or not self._joined.holds(self):
            self._joined = JoinedLinears(self, _PROJECTIONS) if JoinedLinears.fits(self, _PROJECTIONS) else None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        self.join_projections()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_joined": None}  # a copy of it would not share memory with the copied weights

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        self.join_projections()

    def project_self(self, x: Tensor, positions: Tensor | None = None) -> tuple[Query, KeyValue]:
        """Project a sequence as queries and as keys and values, for self-attention. A cache may join earlier keys.

        Args:
            x: ``[b i d]``.
            positions: ``[i]`` or ``[b i]``; default 0, 1, 2, ... where this layer uses positions.

        Returns:
            :class:`Query` and :class:`KeyValue`, to be handed to :meth:`forward`.

        Raises:
            ValueError: what :meth:`project_context` raises; query and context have different widths.

        Example:
            >>> layer, x = MultiHeadAttention(8, num_heads=2), torch.randn(3, 5, 8)
            >>> query, context = layer.project_self(x)
            >>> torch.equal(layer(query, context).output, layer(x).output)
            True
        """
        if self.query_dim != self.context_dim:
            raise ValueError("MultiHeadAttention.project_self: the layer attends to a context of another width")
        check_states(x, "x [b i d]", self.query_dim)
        if not self.project:
            return Query(self._query_heads(x)), self._key_value(x, x, positions)
        joined = None
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled() and not is_transformed():
            joined = self._joined
        if joined is not None and joined.holds(self):  # the weights still lie side by side: one product
            query, key, value = joined(x)
        else:
            key = self.k_proj(x)
            value = self.v_proj(x)
            query = self.q_proj(x)
        return Query(self._query_heads(query)), self._key_value(key, value, positions)

    def project_context(
        self, context: Tensor, positions: Tensor | None = None, tokens: Tensor | None = None
    ) -> KeyValue:
        """Project a context into keys and values, once for any number of calls of :meth:`forward`.

        Args:
            context: ``[b j d]``.
            positions: ``[j]`` or ``[b j]``; default 0, 1, 2, ... where this layer uses positions.
            tokens: which of the context are real, bool ``[b j]``; default all. Layers that sum the context into a state
                need them here. This class does not: the mask of :meth:`forward` hides the padding.

        Returns:
            :class:`KeyValue`, for :meth:`forward`, which never reads a masked key. This projection does read it: NaN
            in the padding of ``context`` would reach the gradient of the projection's weights.

        Raises:
            ValueError: the context is not ``[b j d]`` of the layer's width; there are not as many positions as keys.
        """
        check_states(context, "context [b j d]", self.context_dim)
        if not self.project:
            return self._key_value(context, context, positions)
        return self._key_value(self.k_proj(context), self.v_proj(context), positions)

    def advance(
        self,
        x: Tensor,
        past: Any,
        *,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Attended, Any]:
        """Attend from a sequence to everything before it and to itself.

        Args:
            x: ``[b i d]``.
            past: what the previous call returned; None at the start.
            mask: see :meth:`forward`; the keys of ``past`` come first.
            causal: see :meth:`forward`.
            positions: of ``x``, see :meth:`forward`; default those behind the last one of ``past``.
            need_weights: see :meth:`forward`.

        Returns:
            Output and weights, and the past of the next call: here the :class:`~selfattn.attention.cache.Cache`.
        """
        if positions is None and past is not None and self.position is not None:
            positions = past.following(x.shape[1])
        query, new = self.project_self(x, positions)
        cache = Cache(new) if past is None else past.append(new)
        attended = self(query, cache.entries, mask=mask, causal=causal, positions=positions, need_weights=need_weights)
        return attended, cache

    def forward(
        self,
        x: Tensor | Query,
        context: Tensor | KeyValue | None = None,
        *,
        mask: Tensor | Mask | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend from ``x`` to ``context``.

        Args:
            x: the queries ``[b i d]``, or what :meth:`project_self` made of them.
            context: ``[b j d]``, or what :meth:`project_context` made of it; default ``x`` itself (self-attention).
                It has as many rows as ``x``; where :attr:`KeyValue.shared_by` says so, consecutive rows of ``x``
                share one row of it.
            mask: bool, broadcastable to ``[b h i j]``, True = may attend; or a
                :class:`~selfattn.attention.masks.Mask`.
            bias: added to the scores, see :func:`~selfattn.attention.core.attend`; broadcastable to ``[b h i j]``.
            causal: hide the future, right-aligned.
            positions: of the queries, ``[i]`` or ``[b i]``; default: the last ``i`` of the keys' positions.
            need_weights: also return the weights ``[b h i j]``.

        Returns:
            :class:`~selfattn.attention.core.Attended` with output ``[b i d]``.

        Raises:
            ValueError: ``x`` is not ``[b i d]`` of the layer's width; ``context`` has another number of rows; it was
                projected without positions and this layer uses them, or the reverse; there are not as many positions
                as queries, or none are given and there are more queries than keys; ``context`` is shared by several
                rows, and causality or positions are asked for; and what
                :func:`~selfattn.attention.core.attend` raises.
        """
        b, i, j = checked_sizes(x, context, self.query_dim)
        shared_by = context.shared_by if isinstance(context, KeyValue) else 1
        if shared_by > 1:  # [(b w) i d] -> [b (w i) d]: the rows of x that share a row of the context are queries of it
            is_ordered = causal or positions is not None or (isinstance(mask, Mask) and mask.causal)
            if is_ordered or self.position is not None or isinstance(x, Query):
                raise ValueError("MultiHeadAttention: rows that share a context have no order: no causal, no positions")
            x = x.reshape(b // shared_by, shared_by * i, x.shape[-1])
        key_positions = positions if context is None else None
        context = cast("Tensor | KeyValue", x if context is None else context)
        mask = as_mask(mask, causal, (b // shared_by, self.num_heads, shared_by * i, j))
        # guard: the projections would read what attend never reads
        if mask.allowed is not None and mask.additive is None:
            mask = mask.for_sizes(shared_by * i, j, mask.allowed.device)
            assert mask.allowed is not None
            x = x if isinstance(x, Query) else without_unread_queries(x, mask.allowed)
            context = context if isinstance(context, KeyValue) else without_unread_keys(context, mask.allowed)
        # project
        keys = context if isinstance(context, KeyValue) else self.project_context(context, key_positions)
        query = x.heads if isinstance(x, Query) else self.project_query(x)
        # place
        if self.position is not None:
            query, bias = placed(self.position, query, keys, positions, bias)
        elif keys.positions is not None:
            raise ValueError("MultiHeadAttention: context was projected with positions, but the layer uses none")
        # attend
        attended = self.attend_with(
            query,
            keys.key,
            keys.value,
            score=self.score,
            normalize=self.normalize,
            mask=mask,
            bias=bias,
            dropout_p=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        # join
        output = _joined_heads(attended.output)
        output = self.out_proj(output) if self.project else output
        weights = attended.weights
        if shared_by > 1:
            output = output.reshape(b, i, -1)
            weights = None if weights is None else rearrange(weights, "b h (w i) j -> (b w) h i j", i=i)
        return Attended(output, weights)

    attend_with: Callable[..., Attended] = staticmethod(attend)
    """The function that :meth:`forward` calls; :mod:`selfattn.models.instrument` replaces it, to watch."""

    if TYPE_CHECKING:  # a call has the signature of forward, also where a checker goes by that of nn.Module

        @called_like(forward)
        def __call__(self) -> None:
            """See :meth:`forward`."""

    def project_query(self, x: Tensor) -> Tensor:
        """Project queries ``[b i d]``, and cut them into heads ``[b h i e]``; positions are applied later."""
        return self._query_heads(self.q_proj(x) if self.project else x)

    def _query_heads(self, query: Tensor) -> Tensor:
        """Cut projected queries ``[b i (h e)]`` into heads, and normalise them."""
        query = _heads(query, self.num_heads)
        return query if self.q_norm is None else _normalise(self.q_norm, query)

    def _key_value(self, key: Tensor, value: Tensor, positions: Tensor | None) -> KeyValue:
        """Cut projected keys and values ``[b j (h e)]`` into heads, normalise and place the keys."""
        key = _heads(key, self.num_kv_heads)
        value = _heads(value, self.num_kv_heads)
        if self.k_norm is not None:
            key = _normalise(self.k_norm, key)
        if self.position is None:
            return KeyValue(key, value)
        if positions is None:
            positions = torch.arange(key.shape[2], device=key.device)
        check_positions(positions, key.shape[2], "keys")
        return KeyValue(rotated(self.position, key, positions), value, positions)


def _heads(x: Tensor, heads: int) -> Tensor:
    """Cut ``[b i (h e)]`` into heads ``[b h i e]``."""
    b, i, width = x.shape
    if i == 1:  # no transpose needed, which saves an operator for each decoded token
        return x.reshape(b, heads, 1, width // heads)
    return x.reshape(b, i, heads, width // heads).transpose(1, 2)


def _joined_heads(x: Tensor) -> Tensor:
    """Join heads ``[b h i e]`` to ``[b i (h e)]``."""
    return x.flatten(1).unsqueeze(1) if x.shape[2] == 1 else x.transpose(1, 2).flatten(2)


def _normalise(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    """Normalise in the dtype of the norm's weight; under autocast ``x`` is narrower than it."""
    normed: Tensor = norm(x.to(norm.weight.dtype))
    return normed.to(x.dtype)


def _divided(width: int, heads: int, name: str) -> int:
    if width % heads:
        raise ValueError(f"MultiHeadAttention: {name} {width} is not divisible by {heads} heads")
    return width // heads
