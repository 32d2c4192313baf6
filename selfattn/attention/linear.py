"""Layers of attention that can be read as an RNN: linear attention and the delta rule.

Their mathematics is in :mod:`selfattn.attention.recurrence`; axis letters are those of :mod:`selfattn.attention.core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention.cache import KeyValue
from selfattn.attention.core import Attended, for_heads
from selfattn.attention.layer import MultiHeadAttention, called_like
from selfattn.attention.masks import Mask
from selfattn.attention.positions import Alibi, AttentionPosition
from selfattn.attention.recurrence import AttentionState, corrected, read_on
from selfattn.attention.scores import positive_features


def _unit(x: Tensor) -> Tensor:
    """Shorten vectors to length 1; those of length 0, as padding makes them, stay 0 in half precision too."""
    return F.normalize(x, dim=-1, eps=max(1e-12, torch.finfo(x.dtype).tiny))


class LinearAttention(MultiHeadAttention):
    """Linear attention: multi-head attention with the score ``log phi(q) . phi(k)``, and its recurrent form.

    Called as a layer it is attention, with weights, any mask, and any context. :meth:`advance` reads a text from left
    to right in a state of fixed size. With ``Alibi`` or ``Retention`` as position the state decays by ``exp(-slope)`` a
    token (Sun et al. 2023, "Retentive Network", section 2.1, here normalised, and without its rotation and group norm).

    Args:
        query_dim: see :class:`~selfattn.attention.layer.MultiHeadAttention`, as all that follow.
        context_dim: see there.
        num_heads: see there.
        num_kv_heads: see there.
        position: ``Alibi``, ``Retention`` or none.
        bias: see there.
        dropout: see there; while training it takes the form of attention.

    Raises:
        ValueError: another position; and what the base class raises.

    Example:
        >>> layer, x = LinearAttention(8, num_heads=2), torch.randn(3, 5, 8)
        >>> begun, state = layer.advance(x[:, :3], None, causal=True)
        >>> rest, state = layer.advance(x[:, 3:], state, causal=True)
        >>> as_rnn = torch.cat([begun.output, rest.output], dim=1)
        >>> torch.allclose(as_rnn, layer(x, causal=True).output, atol=1e-5), state.memory.shape
        (True, torch.Size([3, 2, 4, 5]))
    """

    computed_by: ClassVar[tuple[str, str]] = ("linear", "softmax")
    corrects: ClassVar[bool] = False

    def __init__(
        self,
        query_dim: int,
        context_dim: int | None = None,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        position: AttentionPosition | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        if position is not None and (self.corrects or not isinstance(position, Alibi)):
            fitting = "no position" if self.corrects else "Alibi, Retention or no position"
            raise ValueError(f"{type(self).__name__}: expected {fitting} inside, got {type(position).__name__}")
        score, normalize = self.computed_by
        super().__init__(
            query_dim,
            context_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            score=score,
            normalize=normalize,
            position=position,
            bias=bias,
            dropout=dropout,
        )
        if self.corrects:
            self.beta_proj = nn.Linear(self.context_dim, self.num_kv_heads)

    def advance(
        self,
        x: Tensor,
        past: AttentionState | None,
        *,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Attended, AttentionState | None]:
        """Read tokens on from a state; from the start it may also be computed as attention.

        Args:
            x: ``[b i d]``.
            past: the state behind earlier tokens; None at the start.
            mask: which keys are real, ``[b 1 1 i]``; or a :class:`~selfattn.attention.masks.Mask` that hides no more
                than padding and the future.
            causal: hide the future.
            positions: of ``x``; see :meth:`forward`.
            need_weights: also return the weights, from the start alone.

        Returns:
            Output and weights, and the state behind these tokens; None where the text is not read from left to right.

        Raises:
            ValueError: weights are asked for, or the future is not hidden, where earlier tokens are in the state; the
                mask hides a key from some queries only.
        """
        causal = causal or (isinstance(mask, Mask) and (mask.causal or mask.tokens is not None))
        is_pairwise = need_weights or not causal or (self.training and self.dropout > 0)
        if is_pairwise and past is not None:
            raise ValueError(
                f"{type(self).__name__}: a state has no keys to compare; weights and texts that are not read from left "
                "to right are computed from the start of a text"
            )
        attended = None
        if is_pairwise:
            attended = self(x, mask=mask, causal=causal, positions=positions, need_weights=need_weights)
            if not causal:
                return attended, None
        tokens = self.tokens_of(mask, x)
        # What stands at padding is not written, but it is answered as attention answers it.
        written = x if tokens is None else x.masked_fill(~tokens[..., None], 0)
        keys = self.strengthened(MultiHeadAttention.project_context(self, written, positions), written, tokens)
        heads, state = self._read(self.project_query(x), keys, past, tokens)
        return attended or Attended(self.join(heads, x), None), state

    def _read(
        self, query: Tensor, keys: KeyValue, past: AttentionState | None, tokens: Tensor | None
    ) -> tuple[Tensor, AttentionState]:
        """Read projected tokens; return the heads' outputs ``[b h i c]`` and the state, in float32 at least."""
        b, h, i, _ = query.shape
        dtype = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            query = query.to(dtype)
            key, value = for_heads(query, keys.key.to(dtype), keys.value.to(dtype))
            if not self.corrects:  # features, and a 1 behind each value, whose sum is z
                query = positive_features(query)
                key = positive_features(key)
                value = F.pad(value, (0, 1), value=1.0)
            if tokens is not None:
                key = key.masked_fill(~tokens[:, None, :, None], 0)
            if past is None:
                zeros = query.new_zeros(b, h, query.shape[-1], value.shape[-1])
                past = AttentionState(zeros, torch.zeros(b, dtype=torch.int64, device=query.device))
            decay = None
            if isinstance(self.position, Alibi):
                decay = -self.position.slopes.to(dtype)[:, None].expand(b, h, i)
                decay = decay if tokens is None else decay * tokens[:, None]
            output, memory = read_on(query, key, value, past.memory, decay=decay, corrects=self.corrects)
            if not self.corrects:
                total = output[..., -1:]
                output = output[..., :-1] / torch.where(total > 0, total, 1)
            count = past.count + (i if tokens is None else tokens.sum(dim=1))
            return output.to(keys.value.dtype), AttentionState(memory, count)

    def strengthened(self, keys: KeyValue, x: Tensor, tokens: Tensor | None) -> KeyValue:
        """Return keys and values as they are written, given what they were projected from."""
        return keys

    def tokens_of(self, mask: Tensor | Mask | None, context: Tensor) -> Tensor | None:
        """Return which tokens of ``[b j d]`` are real, bool ``[b j]``; None: all.

        Raises:
            ValueError: the mask hides a key from some queries, or heads, only.
        """
        allowed = mask.allowed if isinstance(mask, Mask) else mask
        if isinstance(mask, Mask) and mask.tokens is not None:
            return mask.tokens
        if allowed is None:
            return None
        allowed = allowed[(None,) * (4 - allowed.dim())]
        if allowed.shape[1] != 1 or allowed.shape[2] != 1:
            raise ValueError(
                f"{type(self).__name__}: a state holds the same tokens for all queries; expected a mask of keys "
                f"[b 1 1 j], beside causal=True, got {tuple(allowed.shape)}"
            )
        return allowed[:, 0, 0].expand(context.shape[:2])


class DeltaAttention(LinearAttention):
    """Attention by the delta rule: a key overwrites what was written under it before.

    ``S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}^T k_t)^T`` and ``o_t = S_t^T q_t``, with queries and keys ``silu`` of
    their projections, shortened to length 1, and a trained ``beta`` in (0, 1) for each token and head (Yang et al.
    2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", section 3; without its
    convolutions and output norm). Without causality every query reads the memory behind the last key. As attention it
    is a dot product with corrected values. Its weights are those of the values as projected: they may be negative, and
    need not sum to 1.

    Example:
        >>> layer, x = DeltaAttention(8, num_heads=2), torch.randn(3, 5, 8)
        >>> output, weights = layer(x, causal=True, need_weights=True)
        >>> torch.allclose(layer.advance(x, None, causal=True)[0].output, output, atol=1e-5), weights.shape
        (True, torch.Size([3, 2, 5, 5]))
    """

    computed_by = ("dot", "none")
    corrects = True

    def project_query(self, x: Tensor) -> Tensor:
        """Project queries ``[b i d]``, and shorten them; see the base class."""
        return _unit(F.silu(super().project_query(x)))

    def strengthened(self, keys: KeyValue, x: Tensor, tokens: Tensor | None) -> KeyValue:
        """Shorten the keys, and multiply keys and values by the root of ``beta``, which is 0 at padding."""
        root = self.beta_proj(x).sigmoid().sqrt().transpose(1, 2)[..., None]
        if tokens is not None:
            root = root.masked_fill(~tokens[:, None, :, None], 0)
        key = _unit(F.silu(keys.key))
        return KeyValue(root * key, root * keys.value)

    def project_context(
        self, context: Tensor, positions: Tensor | None = None, tokens: Tensor | None = None
    ) -> KeyValue:
        """Project a context that is complete, with corrected values.

        Args:
            context: ``[b j d]``.
            positions: none.
            tokens: which of them are real, bool ``[b j]``; default all. The mask of :meth:`forward` must say the same.
        """
        if tokens is not None:
            context = context.masked_fill(~tokens[..., None], 0)
        keys = self.strengthened(super().project_context(context, positions), context, tokens)
        dtype = torch.promote_types(keys.key.dtype, torch.float32)
        with torch.autocast(context.device.type, enabled=False):
            written = corrected(keys.key.to(dtype), keys.value.to(dtype))
        return KeyValue(keys.key, written.to(keys.value.dtype))

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
        """Attend from ``x`` to ``context``; see the base class. The mask is one of keys, there is no bias.

        Raises:
            ValueError: a bias; a mask that hides a key from some queries only; and what the base class raises.
        """
        if bias is not None:
            raise ValueError("DeltaAttention: a dot product that is no exponent takes no bias")
        keys: Any = x if context is None else context
        if isinstance(keys, Tensor):
            keys = self.project_context(keys, tokens=self.tokens_of(mask, keys))
        attended = super().forward(x, keys, mask=mask, causal=causal, positions=positions, need_weights=need_weights)
        if attended.weights is None:
            return attended
        groups = self.num_heads // self.num_kv_heads
        key = keys.key.repeat_interleave(groups, dim=1).repeat_interleave(keys.shared_by, dim=0)
        # Of values that are 1 in turn the rule writes the matrix that makes corrected values of values.
        units = torch.eye(key.shape[2], dtype=key.dtype, device=key.device).expand(*key.shape[:2], -1, -1)
        return Attended(attended.output, attended.weights @ corrected(key, units))

    if TYPE_CHECKING:

        @called_like(forward)
        def __call__(self) -> None:
            """See :meth:`forward`."""
