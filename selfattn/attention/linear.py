"""Attention that is an RNN: everything read so far is a matrix of fixed size, to which each token is added.

Linear attention has two forms. As attention it is :func:`~selfattn.attention.core.attend` with the score
``log phi(q) . phi(k)``: weights over all keys. As an RNN it is ``S = S + phi(k) v^T`` and ``o = phi(q)^T S / phi(q)^T
z``, with ``z`` the sum of all ``phi(k)`` (Katharopoulos et al. 2020, "Transformers are RNNs"). The delta rule first
takes out of ``S`` what it holds under the key (Schlag et al. 2021; Yang et al. 2024). Axis letters are those of
:mod:`selfattn.attention.core`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention.cache import KeyValue
from selfattn.attention.core import Attended, for_heads
from selfattn.attention.layer import MultiHeadAttention
from selfattn.attention.masks import Mask, tokens_of
from selfattn.attention.positions import Alibi, AttentionPosition, Position
from selfattn.attention.scores import positive_features
from selfattn.registry import register

CHUNK = 64  # tokens that are read at once; within them all pairs are computed


@dataclass(frozen=True)
class AttentionState:
    """Everything that a layer with a state keeps of the tokens read so far.

    Attributes:
        memory: ``[b h e c]``, one matrix a head. Linear attention has its ``z`` as the last column.
        position: int64 ``[b]``, of the token that comes next.
    """

    memory: Tensor
    position: Tensor

    def next_positions(self, count: int) -> Tensor:
        """Return the positions of the next tokens, ``[b i]``."""
        return self.position[:, None] + torch.arange(count, device=self.position.device)


def read_on(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    memory: Tensor,
    *,
    decay: Tensor | None = None,
    corrects: bool = False,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    r"""Run the recurrence over a chunk of tokens, starting from state ``memory``.

    The recurrence is ``S_t = gamma_t S_{t-1} + k_t u_t^T`` and ``o_t = S_t^T q_t``.
    ``u_t`` is the value, or by the delta rule the value without what the memory holds under its key:
    ``u_t = v_t - S_{t-1}^T k_t``. A strength ``beta`` of writing is in keys and values as its square root. The result
    does not depend on ``chunk``: 1 is the recurrent form, the length of the text the parallel form.

    Args:
        query: ``[b h i e]``.
        key: ``[b h i e]``, zero where a token is hidden.
        value: ``[b h i c]``, zero where a token is hidden.
        memory: ``S``, ``[b h e c]``.
        decay: ``log gamma`` for each token, ``[b h i]``; default 0: nothing fades.
        corrects: by the delta rule; default False.
        chunk: tokens that are read at once; default 64.

    Returns:
        Outputs ``[b h i c]`` and the new memory.

    Raises:
        ValueError: the delta rule with a decay.

    Example:
        >>> key = torch.eye(2)[None, None]
        >>> value = torch.tensor([[[[3.0], [5.0]]]])
        >>> output, memory = read_on(key, key, value, torch.zeros(1, 1, 2, 1))
        >>> output.flatten().tolist(), memory.flatten().tolist()
        ([3.0, 5.0], [3.0, 5.0])
    """
    if corrects and decay is not None:
        raise ValueError("read_on: the delta rule has no decay")
    length = query.shape[2]
    if length == 0:
        return query @ memory, memory
    outputs: list[Tensor] = []
    chunk = length if torch.compiler.is_compiling() else chunk  # a graph has no loop over a length that varies
    for start in [0] if length <= chunk else range(0, length, chunk):
        part = slice(start, start + chunk)
        fading = None if decay is None else decay[..., part]
        written = value[:, :, part]
        if corrects:
            written = corrected(key[:, :, part], written - key[:, :, part] @ memory)
        output, memory = _read_chunk(query[:, :, part], key[:, :, part], written, memory, fading)
        outputs.append(output)
    return torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0], memory


def _read_chunk(
    query: Tensor, key: Tensor, value: Tensor, memory: Tensor, decay: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Read one chunk: tokens before it are in the memory, those in it are compared pair by pair."""
    if query.shape[2] == 1:  # the recurrent form
        if decay is not None:
            memory = decay.exp()[..., None] * memory
        memory = memory + key.transpose(-2, -1) @ value
        return query @ memory, memory
    pairs = query @ key.transpose(-2, -1)
    if decay is None:
        output = pairs.tril() @ value + query @ memory
        return output, memory + key.transpose(-2, -1) @ value
    faded = decay.cumsum(dim=-1)  # log of what is left of the memory behind each token
    between = faded[..., :, None] - faded[..., None, :]
    is_later = torch.ones_like(between, dtype=torch.bool).triu(1)
    output = (pairs * between.masked_fill(is_later, -torch.inf).exp()) @ value
    output = output + faded.exp()[..., None] * (query @ memory)
    last = faded[..., -1:]
    remaining = (last - faded).exp()[..., None] * key
    return output, last.exp()[..., None] * memory + remaining.transpose(-2, -1) @ value


def corrected(key: Tensor, value: Tensor) -> Tensor:
    """Return what the delta rule writes of values ``[b h j c]``: ``u_t = v_t - sum_{s < t} (k_t . k_s) u_s``."""
    if key.shape[2] == 1:
        return value
    pairs = (key @ key.transpose(-2, -1)).tril(-1)
    solved: Tensor = torch.linalg.solve_triangular(pairs, value, upper=False, unitriangular=True)
    return solved


def _unit(x: Tensor) -> Tensor:
    """Shorten vectors to length 1; those of length 0, as padding makes them, stay 0 in half precision too."""
    return F.normalize(x, dim=-1, eps=max(1e-12, torch.finfo(x.dtype).tiny))


@register.attention("linear")
class LinearAttention(MultiHeadAttention):
    """Linear attention: multi-head attention with the score ``log phi(q) . phi(k)``, and its recurrent form.

    Called as a layer it is attention, with weights, any mask, and any context. :meth:`advance` reads a text from left
    to right in a state of fixed size. With ``Alibi`` or ``Retention`` as position the state decays by ``exp(-slope)``
    from one position to the next (Sun et al. 2023, "Retentive Network", section 2.1, here normalised, and without its
    rotation and group norm). Both forms agree where positions ascend; hidden tokens have positions, too.

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

    has_state = True
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
        if position is not None and not self.takes_position(type(position)):
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

    @classmethod
    def takes_position(cls, kind: type[Position]) -> bool:
        """Say whether its state can decay as such a position demands; positions that embeddings have do not matter."""
        return not issubclass(kind, AttentionPosition) or (issubclass(kind, Alibi) and not cls.corrects)

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
        """Read tokens, starting from a state; from the start of a text they may also be computed as attention.

        Args:
            x: ``[b i d]``.
            past: the state after earlier tokens; None at the start.
            mask: which keys are real, ``[b 1 1 i]``; or a :class:`~selfattn.attention.masks.Mask` that hides no more
                than padding and the future.
            causal: hide the future.
            positions: of ``x``, ``[i]`` or ``[b i]``, ascending; default those that follow ``past``.
            need_weights: also return the weights, from the start alone.

        Returns:
            Output and weights, and the state after these tokens; None where the text is not read from left to right.

        Raises:
            ValueError: weights are asked for, or the future is not hidden, where earlier tokens are in the state; the
                mask hides a key from some queries only.
        """
        causal = causal or (isinstance(mask, Mask) and (mask.causal or mask.tokens is not None))
        is_pairwise = need_weights or not causal or (self.training and self.dropout > 0)
        if is_pairwise and past is not None:
            advice = "weights and texts that are not read from left to right are computed from the start of a text"
            raise ValueError(f"{type(self).__name__}: a state has no keys to compare; {advice}")
        attended = None
        if is_pairwise:
            attended = self(x, mask=mask, causal=causal, positions=positions, need_weights=need_weights)
            if not causal:
                return attended, None
        tokens = tokens_of(mask, x)
        # A hidden token is not written into the state, but as a query it gets its output.
        written = x if tokens is None else x.masked_fill(~tokens[..., None], 0)
        if positions is None and past is not None and self.position is not None:
            positions = past.next_positions(x.shape[1])
        keys = self.strengthened(MultiHeadAttention.project_context(self, written, positions), written, tokens)
        heads, state = self._recur(self.project_query(x), keys, past, tokens)
        return attended or Attended(self.join(heads, x), None), state

    def _recur(
        self, query: Tensor, keys: KeyValue, past: AttentionState | None, tokens: Tensor | None
    ) -> tuple[Tensor, AttentionState]:
        """Compute the recurrent form from projected queries, keys and values.

        Returns:
            The outputs of the heads ``[b h i c]``, and the state, in float32 at least.
        """
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
            position = past.position + i
            if isinstance(self.position, Alibi):
                assert keys.positions is not None
                following = torch.cat([past.position[:, None], keys.positions.expand(b, i) + 1], dim=1)
                position = following[:, -1]
                steps = keys.positions + 1 - following[:, :i]  # from the token before
                decay = -self.position.slopes.to(dtype)[:, None] * steps[:, None]  # [b h i]
            output, memory = read_on(query, key, value, past.memory, decay=decay, corrects=self.corrects)
            if not self.corrects:
                total = output[..., -1:]
                output = output[..., :-1] / torch.where(total > 0, total, 1)
            return output.to(keys.value.dtype), AttentionState(memory, position)

    def strengthened(self, keys: KeyValue, x: Tensor, tokens: Tensor | None) -> KeyValue:
        """Return keys and values as they are written, given the states ``x`` that they were projected from."""
        return keys


@register.attention("delta")
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
    sums_context = True
    takes_bias = False  # its scores are no exponents

    def project_query(self, x: Tensor) -> Tensor:
        """Project queries ``[b i d]``, and shorten them; see the base class."""
        return _unit(F.silu(super().project_query(x)))

    def strengthened(self, keys: KeyValue, x: Tensor, tokens: Tensor | None) -> KeyValue:
        """Shorten the keys, and multiply keys and values by the root of ``beta``, which is 0 at padding."""
        beta = self.beta_proj(x).sigmoid()
        beta = beta.clamp(min=torch.finfo(beta.dtype).tiny)  # at 0 the root has an infinite derivative
        root = beta.sqrt().transpose(1, 2)[..., None]
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

    def weights_of_values(self, weights: Tensor, keys: KeyValue) -> Tensor:
        """Return the weights ``[b h i j]`` of the values as projected, given those of the values as written."""
        dtype = torch.promote_types(keys.key.dtype, torch.float32)
        key = keys.key.to(dtype).repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        # What is written is linear in what was projected: the rule turns a unit matrix into the matrix between them.
        # A projected value is multiplied by the root of beta before, which is the length of its key.
        units = torch.eye(key.shape[2], dtype=key.dtype, device=key.device).expand(*key.shape[:2], -1, -1)
        root = torch.linalg.vector_norm(key, dim=-1).unsqueeze(-2)  # [b h 1 j]
        with torch.autocast(key.device.type, enabled=False):
            written: Tensor = weights.to(dtype) @ corrected(key, units) * root
        return written.to(weights.dtype)
