"""Multi-head attention: projections around :func:`~selfattn.attention.core.attend`. It keeps no state of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from einops import rearrange
from torch import Tensor, nn

from selfattn.attention.cache import Cache, KeyValue
from selfattn.attention.core import Attended, attend_checked, check_bias, check_vectors
from selfattn.attention.masks import Mask, as_mask, tokens_of, without_unread_keys, without_unread_queries
from selfattn.attention.normalizers import Normalizer, check_normalizer, make_normalizer
from selfattn.attention.positions import AttentionPosition, Position, check_positions, place, rotate
from selfattn.attention.scores import Score, check_score, make_score
from selfattn.registry import ATTENTIONS, register

Function = TypeVar("Function", bound=Callable[..., Any])


def called_like(forward: Function) -> Callable[[Callable[..., Any]], Function]:
    """Return a decorator that gives a function the signature of another one, for type checkers alone."""
    return lambda function: forward


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), grouped-query when ``num_kv_heads < num_heads``
    (Ainslie et al. 2023, section 2.2), and with ``project=False`` the bare attention of an RNN seq2seq.

    A subclass that is registered with ``@register.attention(name)`` can be a setting of a model. Its constructor gets
    what it names of the arguments below; those that it takes as ``**options`` it hands to this one.

    A projection can be replaced by another module of the same widths, such as a low-rank adapter:
    ``layer.q_proj = Adapter(layer.q_proj)``. What a subclass does between the heads and the output projection, such as
    a gate that the layer's input opens, it does in :meth:`join`.

    Attributes:
        has_state: whether :meth:`advance` keeps a state of fixed size in place of keys; default False.
        sums_context: whether :meth:`project_context` needs to know which tokens are real; default False.
        takes_bias: whether a bias can be added to the scores; default True.

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
        qk_norm: RMS-normalise queries and keys in each head before scoring, with trained gains (after Henry et al.
            2020, who shorten both to length 1 and train one factor); default False.

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

    has_state: ClassVar[bool] = False
    sums_context: ClassVar[bool] = False
    takes_bias: ClassVar[bool] = True

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
            key_width = head_dim
            self.output_dim = query_dim
            self.q_proj = nn.Linear(query_dim, query_dim, bias=bias)
            self.k_proj = nn.Linear(context_dim, num_kv_heads * head_dim, bias=bias)
            self.v_proj = nn.Linear(context_dim, num_kv_heads * head_dim, bias=bias)
            self.out_proj = nn.Linear(query_dim, query_dim, bias=bias)
        else:
            key_width = _divided(context_dim, num_kv_heads, "context_dim")
            self.output_dim = num_heads * key_width
            unchanged: Any = nn.Identity()
            self.q_proj = self.k_proj = self.v_proj = self.out_proj = unchanged
        self.q_norm = nn.RMSNorm(head_dim) if qk_norm else None
        self.k_norm = nn.RMSNorm(key_width) if qk_norm else None
        self.score = make_score(score, head_dim, key_width) if isinstance(score, str) else score
        check_score(self.score, "MultiHeadAttention")
        self.normalize = make_normalizer(normalize, num_heads) if isinstance(normalize, str) else normalize
        check_normalizer(self.normalize, "MultiHeadAttention")
        self.position = position

    @classmethod
    def takes_position(cls, kind: type[Position]) -> bool:
        """Say whether a model may have positions of this class beside this attention; default True."""
        return True

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
        _sizes(context, "context [b j d]", self.context_dim)
        key = _heads(self.k_proj(context), self.num_kv_heads)
        value = _heads(self.v_proj(context), self.num_kv_heads)
        if self.k_norm is not None:
            key = _normalise(self.k_norm, key)
        if self.position is None:
            return KeyValue(key, value)
        if positions is None:
            positions = torch.arange(key.shape[2], device=key.device)
        check_positions(positions, key.shape[2], "keys")
        return KeyValue(rotate(self.position, key, positions), value, positions)

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
            positions = past.next_positions(x.shape[1])
        new = self.project_context(x, positions)
        cache = Cache(new) if past is None else past.append(new)
        attended = self(x, cache.entries, mask=mask, causal=causal, positions=positions, need_weights=need_weights)
        return attended, cache

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
            x: ``[b i d]``, from which the queries are projected.
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
        key_positions = positions if context is None else None
        context = x if context is None else context
        b, i, _ = _sizes(x, "x [b i d]", self.query_dim)
        shared_by = 1
        if isinstance(context, KeyValue):
            rows, _, j, _ = context.key.shape
            shared_by = context.shared_by
        else:
            rows, j, _ = _sizes(context, "context [b j d]", self.context_dim)
        if b != rows * shared_by:  # nothing is broadcast
            sharing = f" shared by {shared_by} each" if shared_by > 1 else ""
            raise ValueError(f"MultiHeadAttention: x has {b} rows, context {rows}{sharing}; give each row its own")
        if shared_by > 1:  # [(b w) i d] -> [b (w i) d]: the rows of x that share a row of the context are queries of it
            is_ordered = causal or positions is not None or (isinstance(mask, Mask) and mask.causal)
            if is_ordered or self.position is not None:
                raise ValueError("MultiHeadAttention: rows that share a context have no order: no causal, no positions")
            x = x.reshape(rows, shared_by * i, self.query_dim)
        sizes = (rows, self.num_heads, shared_by * i, j)
        if bias is not None:
            check_bias(bias, sizes)
            if not self.takes_bias:
                raise ValueError(f"{type(self).__name__}: a dot product that is no exponent takes no bias")
        tokens = None
        if self.sums_context and not isinstance(context, KeyValue):
            tokens = tokens_of(mask, context)
        mask = as_mask(mask, causal, sizes)
        # guard: the projections would read what attend never reads
        if mask.allowed is not None and mask.additive is None:
            mask = mask.for_sizes(shared_by * i, j, mask.allowed.device)
            assert mask.allowed is not None
            x = without_unread_queries(x, mask.allowed)
            if not isinstance(context, KeyValue):
                context = without_unread_keys(context, mask.allowed)
        # project
        keys = context if isinstance(context, KeyValue) else self.project_context(context, key_positions, tokens)
        query = self.project_query(x)
        if not self.project:
            check_vectors(query, keys.key, keys.value, self.score)
        # place
        if self.position is not None:
            query, bias = place(self.position, query, keys, positions, bias)
        elif keys.positions is not None:
            raise ValueError("MultiHeadAttention: context was projected with positions, but the layer uses none")
        # attend
        heads, weights = self.attend_with(
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
        output = self.join(heads, x)
        if weights is not None:
            weights = self.weights_of_values(weights, keys)
        if shared_by > 1:
            output = output.reshape(b, i, self.output_dim)
            if weights is not None:
                weights = rearrange(weights, "b h (w i) j -> (b w) h i j", i=i)
        return Attended(output, weights)

    attend_with: Callable[..., Attended] = staticmethod(attend_checked)
    """The function that :meth:`forward` calls; :mod:`selfattn.models.inside` replaces it, to watch."""

    if TYPE_CHECKING:  # a call has the signature of forward, also where a checker goes by that of nn.Module

        @called_like(forward)
        def __call__(self) -> None:
            """See :meth:`forward`."""

    def project_query(self, x: Tensor) -> Tensor:
        """Project queries ``[b i d]``, cut them into heads ``[b h i e]`` and normalise them; positions come later."""
        query = _heads(self.q_proj(x), self.num_heads)
        return query if self.q_norm is None else _normalise(self.q_norm, query)

    def weights_of_values(self, weights: Tensor, keys: KeyValue) -> Tensor:
        """Return the weights ``[b h i j]`` of the values as projected; they differ where the layer changes values."""
        return weights

    def join(self, heads: Tensor, x: Tensor) -> Tensor:
        """Join the outputs of the heads, and project them.

        A subclass that changes them, as a gate does, changes ``heads`` here and calls this method of its base class.

        Args:
            heads: weighted sums of the values, ``[b h i c]``.
            x: what the queries were projected from, ``[b i d]``.

        Returns:
            ``[b i d]``.
        """
        output: Tensor = self.out_proj(_joined_heads(heads))
        return output


def _sizes(states: object, name: str, width: int) -> torch.Size:
    """Return the sizes of states ``[b n width]``.

    Raises:
        ValueError: they are something else.
    """
    if not isinstance(states, Tensor) or states.dim() != 3 or states.shape[-1] != width:
        got = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
        raise ValueError(f"MultiHeadAttention: expected {name} with {width} features, got {got}")
    return states.shape


ATTENTIONS.expect(MultiHeadAttention)
register.attention("softmax")(MultiHeadAttention)


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
