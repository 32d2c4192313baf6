"""Multi-head attention: projections around :func:`~selfattn.attention.core.attend`, and nothing hidden in between."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from einops import rearrange
from torch import Tensor, nn

from selfattn.attention.core import Attended, attend
from selfattn.attention.masks import Mask, as_mask, without_unread_keys, without_unread_queries
from selfattn.attention.positions import AttentionPosition
from selfattn.attention.scores import Score, check_score, make_score


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values, made by :meth:`MultiHeadAttention.project_context` and handed over by the caller.

    Attributes:
        key: ``[b h j e]``.
        value: ``[b h j c]``.
        positions: ``[j]`` or ``[b j]``, where in its text each key stands; None where no position is used.
        shared_by: how many consecutive rows of queries attend to each row, such as the hypotheses of a source in a
            beam search; default 1.
    """

    key: Tensor
    value: Tensor
    positions: Tensor | None = None
    shared_by: int = 1

    def reorder(self, index: Tensor) -> KeyValue:
        """Pick rows along the batch axis, int64 ``[new b]``."""
        key = self.key.index_select(0, index)
        value = self.value.index_select(0, index)
        return KeyValue(key, value, self.picked_positions(index), self.shared_by)

    def picked_positions(self, index: Tensor) -> Tensor | None:
        """Return the positions of some rows; ``[j]`` are those of every row."""
        rows = self.positions
        return rows if rows is None or rows.dim() == 1 else rows.index_select(0, index)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), grouped-query when ``num_kv_heads < num_heads``
    (Ainslie et al. 2023, section 2.2), and with ``project=False`` the bare attention of an RNN seq2seq.

    A projection can be replaced by another module of the same widths, such as a low-rank adapter:
    ``layer.q_proj = Adapter(layer.q_proj)``.

    Args:
        query_dim: width ``d`` of the queries, and of the output; a head has the width ``d / h``.
        context_dim: width of what is attended to; default ``query_dim``.
        num_heads: number of query heads ``h``.
        num_kv_heads: number of key-value heads; default ``num_heads``; 1 is multi-query attention (Shazeer 2019).
        score: a :class:`~selfattn.attention.scores.Score`, or its name: ``dot``, ``scaled_dot``, ``general``,
            ``additive``, ``concat``, ``location``, or one that was registered; default ``"scaled_dot"``.
        project: False leaves out all four projections: heads are slices of the inputs, the output is the joined
            weighted sums ``[b i context_dim]``. Default True.
        position: what tells the attention where a token stands: ``Rotary``, ``Alibi`` or ``RelativeBias`` of
            :mod:`selfattn.attention.positions`; default none. ``Sinusoidal`` and ``Learned`` are added to its input
            instead.
        bias: whether the projections have biases; default True.
        dropout: probability of dropping an attention weight while training; default 0.
        qk_norm: RMS-normalise queries and keys in each head before scoring (Henry et al. 2020); default False.

    Raises:
        ValueError: a width is below 1 or not divisible by its number of heads; the key-value heads do not divide the
            heads.
        TypeError: the score is no :class:`~selfattn.attention.scores.Score`.

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
        self.query_dim, self.context_dim, self.project, self.dropout = query_dim, context_dim, project, dropout
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
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
        self.position = position

    def project_context(self, context: Tensor, positions: Tensor | None = None) -> KeyValue:
        """Project what will be attended to, once.

        Args:
            context: ``[b j d]``.
            positions: ``[j]`` or ``[b j]``; default 0, 1, 2, ... where this layer uses positions.

        Returns:
            :class:`KeyValue`, to be handed to :meth:`forward` any number of times. Whoever hands it over with a mask
            may trust :meth:`forward` not to read a hidden key; only this projection has read it, so that NaN in the
            padding of ``context`` would reach the gradient of its weights.

        Raises:
            ValueError: the context is not ``[b j d]`` of the layer's width; there are not as many positions as keys.
        """
        _check_states(context, "context [b j d]", self.context_dim)
        key = _heads(self.k_proj(context) if self.project else context, self.num_kv_heads)
        value = _heads(self.v_proj(context) if self.project else context, self.num_kv_heads)
        if self.k_norm is not None:
            key = _normalise(self.k_norm, key)
        if self.position is None:
            return KeyValue(key, value)
        if positions is None:
            positions = torch.arange(key.shape[2], device=key.device)
        _check_positions(positions, key.shape[2], "keys")
        return KeyValue(self._rotated(key, positions), value, positions)

    def forward(
        self,
        x: Tensor,
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
            x: the queries ``[b i d]``.
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
            ValueError: ``x`` is not ``[b i d]`` of the layer's width; ``context`` has another number of rows; this
                layer uses positions and ``context`` was projected without; there are not as many positions as queries,
                or none are given and there are more queries than keys; ``context`` is shared by several rows, and
                causality or positions are asked for; and what :func:`~selfattn.attention.core.attend` raises.
        """
        _check_states(x, "x [b i d]", self.query_dim)
        _check_rows(x, context)
        if isinstance(context, KeyValue) and context.shared_by > 1:
            if causal or positions is not None or self.position is not None:
                raise ValueError("MultiHeadAttention: rows that share a context have no order: no causal, no positions")
            together = rearrange(x, "(b w) i d -> b (w i) d", w=context.shared_by)
            context = replace(context, shared_by=1)
            output, weights = self.forward(together, context, mask=mask, bias=bias, need_weights=need_weights)
            if weights is not None:
                weights = rearrange(weights, "b h (w i) j -> (b w) h i j", i=x.shape[1])
            return Attended(output.reshape(*x.shape[:2], -1), weights)
        attends_to_itself = context is None
        context = x if context is None else context
        j = context.key.shape[-2] if isinstance(context, KeyValue) else context.shape[1]
        mask = as_mask(mask, causal, (x.shape[0], self.num_heads, x.shape[1], j))
        if mask.allowed is not None and mask.additive is None:
            mask = mask.for_sizes(x.shape[1], j, x.device)
            assert mask.allowed is not None
            x = without_unread_queries(x, mask.allowed)
            if isinstance(context, Tensor):
                context = without_unread_keys(context, mask.allowed)
        if not isinstance(context, KeyValue):
            context = self.project_context(context, positions if attends_to_itself else None)
        query = _heads(self.q_proj(x) if self.project else x, self.num_heads)
        if self.q_norm is not None:
            query = _normalise(self.q_norm, query)
        if self.position is not None:
            if context.positions is None:
                raise ValueError("MultiHeadAttention: the layer uses positions, but context was projected without any")
            if positions is None:
                positions = context.positions[..., max(0, context.positions.shape[-1] - x.shape[1]) :]
            _check_positions(positions, x.shape[1], "queries")
            query = self._rotated(query, positions)
            by_position = self.position.bias(positions, context.positions)
            if by_position is not None:
                rows = max(positions.dim(), context.positions.dim()) - 1
                _check_bias(self.position, by_position, [*query.shape[1 - rows : 3], j])
                bias = by_position if bias is None else bias + by_position
        key, value, dropout_p = context.key, context.value, self.dropout if self.training else 0.0
        output, weights = attend(
            query, key, value, score=self.score, mask=mask, bias=bias, dropout_p=dropout_p, need_weights=need_weights
        )
        joined = output.flatten(1)[:, None] if x.shape[1] == 1 else output.transpose(1, 2).flatten(2)
        return Attended(self.out_proj(joined) if self.project else joined, weights)

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        assert self.position is not None
        rotated = self.position.rotate(x, positions)
        if rotated.shape != x.shape:
            name, got = type(self.position).__name__, tuple(rotated.shape)
            raise ValueError(f"MultiHeadAttention: expected {name}.rotate to keep {tuple(x.shape)}, got {got}")
        return rotated


def _check_states(states: object, what: str, width: int) -> None:
    if not isinstance(states, Tensor) or states.dim() != 3 or states.shape[-1] != width:
        got = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
        raise ValueError(f"MultiHeadAttention: expected {what} with {width} features, got {got}")


def _check_rows(x: Tensor, context: Tensor | KeyValue | None) -> None:
    """Check that each row of queries has its row of keys: attention across rows would mix texts."""
    shared_by = 1
    if isinstance(context, KeyValue):
        rows = context.key.shape[0]
        shared_by = context.shared_by
    elif isinstance(context, Tensor) and context.dim() == 3:
        rows = context.shape[0]
    else:
        return
    if x.shape[0] != rows * shared_by:
        sharing = f" shared by {shared_by} each" if shared_by > 1 else ""
        raise ValueError(f"MultiHeadAttention: x has {x.shape[0]} rows, context {rows}{sharing}; give each row its own")


def _heads(x: Tensor, heads: int) -> Tensor:
    """Cut ``[b i (h e)]`` into heads ``[b h i e]``."""
    b, i, width = x.shape
    if i == 1:  # nothing to turn: one operator less, for each token that is decoded
        return x.reshape(b, heads, 1, width // heads)
    return x.reshape(b, i, heads, width // heads).transpose(1, 2)


def _normalise(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    """Normalise in the dtype of the norm's weight, which autocast leaves wider than that of ``x``."""
    normed: Tensor = norm(x.to(norm.weight.dtype))
    return normed.to(x.dtype)


def _divided(width: int, heads: int, name: str) -> int:
    if width % heads:
        raise ValueError(f"MultiHeadAttention: {name} {width} is not divisible by {heads} heads")
    return width // heads


def _check_bias(position: AttentionPosition, bias: Tensor, full: list[int]) -> None:
    """Hold a bias against its axes: with as many rows as heads ``[b i j]`` would pass for ``[h i j]``."""
    if bias.dim() != len(full) or any(size not in (1, n) for size, n in zip(bias.shape, full, strict=True)):
        axes = "[h i j]" if len(full) == 3 else "[b h i j]"
        raise ValueError(
            f"MultiHeadAttention: expected {type(position).__name__}.bias to return {axes} {tuple(full)} for these "
            f"positions, got {tuple(bias.shape)}"
        )


def _check_positions(positions: Tensor, expected: int, of: str) -> None:
    if positions.shape[-1] != expected:
        raise ValueError(
            f"MultiHeadAttention: expected {expected} positions of {of}, got {positions.shape[-1]}; "
            "state positions= where the queries are not the last of the keys"
        )
