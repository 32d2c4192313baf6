"""Multi-head attention: projections around :func:`~selfattn.attention.core.attend`, and nothing hidden in between."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention.core import Attended, attend
from selfattn.attention.masks import allowed_mask, check_mask
from selfattn.attention.positions import AttentionPosition
from selfattn.attention.scores import Score, check_score, make_score


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values, made once by :meth:`MultiHeadAttention.project_context` and handed over by the caller.

    Attributes:
        key: ``[b h j e]``.
        value: ``[b h j c]``.
        positions: ``[j]`` or ``[b j]``, where in its text each key stands; None where no position is used.
        room: what key and value are the beginning of, where they are a cache with room to grow; default None.
        is_start: whether the positions were counted from 0 because none were given.
    """

    key: Tensor
    value: Tensor
    positions: Tensor | None = None
    room: Room | None = None
    is_start: bool = False

    def append(self, new: KeyValue) -> KeyValue:
        """Return keys and values with those of later positions joined on: a cache that has grown.

        Without gradients it grows into room that is kept behind it, and is copied only now and then. What was handed
        out before stays as it was, also where two go on from the same.

        Raises:
            ValueError: one of the two has positions and the other has none; or those of the new keys were counted from
                0, as if they were the first.
        """
        if new.is_start:
            raise ValueError("KeyValue.append: the new keys were projected without positions, as if they stood at 0, "
                             "1, ...; say where they stand: project_context(context, positions)")  # fmt: skip
        positions = None
        if self.positions is not None and new.positions is not None:
            # Positions that are the same in every row, [j], may meet those of each row, [b j].
            rows = max(self.positions.shape[:-1], new.positions.shape[:-1])
            positions = torch.cat([old.expand(*rows, -1) for old in (self.positions, new.positions)], dim=-1)
        elif self.positions is not None or new.positions is not None:
            raise ValueError("KeyValue.append: expected positions on both sides or on neither, got them on one")
        if torch.is_grad_enabled():
            return KeyValue(torch.cat([self.key, new.key], -2), torch.cat([self.value, new.value], -2), positions)
        old, total = self.key.shape[-2], self.key.shape[-2] + new.key.shape[-2]
        room = self.room
        if room is None or room.used != old or total > len(room.store):
            room = Room.of(self, 2 * total + 14)
        room.used = total
        room.store[old:total] = torch.cat([new.key, new.value], dim=-1).permute(2, 0, 1, 3)
        key, value = room.first(total, self.key.shape[-1])
        return KeyValue(key, value, positions, room)

    def reorder(self, index: Tensor) -> KeyValue:
        """Pick rows along the batch axis, int64 ``[new b]``; room to grow stays."""
        positions = self.positions
        if positions is not None and positions.dim() == 2:
            positions = positions.index_select(0, index)
        if self.room is None:
            return KeyValue(self.key.index_select(0, index), self.value.index_select(0, index), positions)
        room = self.room.reorder(index, self.key.shape[-2])
        key, value = room.first(room.used, self.key.shape[-1])
        return KeyValue(key, value, positions, room)


@dataclass
class Room:
    """Memory that a cache grows into.

    Attributes:
        store: ``[most b h (e c)]``, keys and values side by side; positions come first, so that those in use lie in one
            piece.
        used: how many positions are taken, by the longest cache that lies here.
    """

    store: Tensor
    used: int

    @classmethod
    def of(cls, cache: KeyValue, most: int) -> Room:
        """Copy a cache to where there is room for ``most`` positions."""
        both = torch.cat([cache.key, cache.value], dim=-1)
        b, h, j, width = both.shape
        room = cls(both.new_empty(most, b, h, width), j)
        room.store[:j] = both.permute(2, 0, 1, 3)
        return room

    def reorder(self, index: Tensor, used: int) -> Room:
        """Pick rows of the first ``used`` positions."""
        room = Room(self.store.new_empty(len(self.store), len(index), *self.store.shape[2:]), used)
        torch.index_select(self.store[:used], 1, index, out=room.store[:used])
        return room

    def first(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return ``count`` keys ``[b h count e]``, of width ``e``, and values ``[b h count c]``, as views."""
        both = self.store[:count].permute(1, 2, 0, 3)
        return torch.split(both, [width, both.shape[-1] - width], dim=-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), grouped-query when ``num_kv_heads < num_heads``
    (Ainslie et al. 2023, section 2.2), and with ``project=False`` the bare attention of an RNN seq2seq.

    Args:
        query_dim: width ``d`` of the queries, and of the output.
        context_dim: width of what is attended to; default ``query_dim``.
        num_heads: number of query heads ``h``.
        num_kv_heads: number of key-value heads; default ``num_heads``; 1 is multi-query attention (Shazeer 2019).
        head_dim: width ``e`` of a head; default ``query_dim // num_heads``.
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
        q_proj: a module to project with in place of a linear layer, such as one with a low-rank adapter or of quantised
            weights: ``[b i query_dim]`` to ``[b i (h e)]``; its ``out_features``, where it has them, decide what
            ``head_dim`` is by default.
        k_proj: likewise, ``[b j context_dim]`` to ``[b j (g e)]`` for ``g`` key-value heads.
        v_proj: likewise, ``[b j context_dim]`` to ``[b j (g c)]``; by default ``c`` is ``e``.
        out_proj: likewise, ``[b i (h c)]`` to ``[b i query_dim]``.

    Raises:
        ValueError: a width is not divisible by its number of heads; the key-value heads do not divide the heads;
            ``head_dim`` or a projection is given where nothing is projected; a projection says that its width is
            another; ``dropout`` is outside ``[0, 1)``.

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
        head_dim: int | None = None,
        score: str | Score = "scaled_dot",
        project: bool = True,
        position: AttentionPosition | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        qk_norm: bool = False,
        q_proj: nn.Module | None = None,
        k_proj: nn.Module | None = None,
        v_proj: nn.Module | None = None,
        out_proj: nn.Module | None = None,
    ) -> None:
        super().__init__()
        context_dim = query_dim if context_dim is None else context_dim
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if min(num_heads, num_kv_heads) < 1 or num_heads % num_kv_heads:
            raise ValueError(f"MultiHeadAttention: {num_kv_heads} key-value heads do not divide {num_heads} heads")
        if head_dim is not None and not project:
            raise ValueError(f"MultiHeadAttention: head_dim={head_dim} needs project=True; without, heads are slices")
        given = {"q_proj": q_proj, "k_proj": k_proj, "v_proj": v_proj, "out_proj": out_proj}
        if not project and any(module is not None for module in given.values()):
            raise ValueError("MultiHeadAttention: projections are handed in, and project=False leaves them out")
        if head_dim is None:
            whose = "query_dim" if q_proj is None else "width of q_proj,"
            head_dim = _divided(getattr(q_proj, "out_features", query_dim), num_heads, whose)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"MultiHeadAttention: dropout must be in [0, 1), got {dropout}")
        self.num_heads, self.num_kv_heads, self.project, self.dropout = num_heads, num_kv_heads, project, dropout
        self.fused: tuple[Tensor, Tensor | None, list[int]] | None = None
        if project:
            values = getattr(v_proj, "out_features", num_kv_heads * head_dim)
            value_dim = _divided(values, num_kv_heads, "width of v_proj,")

            def projection(name: str, inside: int, outside: int) -> nn.Module:
                module = given[name]
                made = nn.Linear(inside, outside, bias=bias) if module is None else module
                for what, expected in (("in_features", inside), ("out_features", outside)):
                    if getattr(made, what, expected) != expected:
                        raise ValueError(
                            f"MultiHeadAttention: expected {name} with {what}={expected}, got {getattr(made, what)}"
                        )
                return made

            self.q_proj = projection("q_proj", query_dim, num_heads * head_dim)
            self.k_proj = projection("k_proj", context_dim, num_kv_heads * head_dim)
            self.v_proj = projection("v_proj", context_dim, num_kv_heads * value_dim)
            self.out_proj = projection("out_proj", num_heads * value_dim, query_dim)
        key_width = head_dim if project else _divided(context_dim, num_kv_heads, "context_dim")
        self.output_dim = query_dim if project else num_heads * key_width
        self.q_norm = nn.RMSNorm(head_dim) if qk_norm else None
        self.k_norm = nn.RMSNorm(key_width) if qk_norm else None
        self.score = make_score(score, head_dim, key_width) if isinstance(score, str) else score
        check_score(self.score, "MultiHeadAttention")
        if position is not None and not (isinstance(position, nn.Module) and hasattr(position, "rotate")):
            raise TypeError(
                f"MultiHeadAttention: expected an AttentionPosition, got {position!r}; make one: "
                "selfattn.attention.make_position(...)"
            )
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
        self._check_states(context, "context [b j d]", "k_proj", self.num_kv_heads)
        key = self.k_proj(context) if self.project else context
        value = self.v_proj(context) if self.project else context
        return self._key_value(_heads(key, self.num_kv_heads), _heads(value, self.num_kv_heads), positions)

    def project_both(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor | None, KeyValue]:
        """Project ``x [b i d]`` to queries and to keys and values of its own, in one product after :meth:`fuse`.

        Returns:
            The queries ``[b h i e]``, for :meth:`forward`, or None where it is to project them itself; and what
            :meth:`project_context` makes of ``x``.
        """
        if self.fused is None:
            return None, self.project_context(x, positions)
        weight, bias, widths = self.fused
        query, key, value = torch.split(F.linear(x, weight, bias), widths, dim=-1)
        made = self._key_value(_heads(key, self.num_kv_heads), _heads(value, self.num_kv_heads), positions)
        return _heads(query, self.num_heads), made

    def fuse(self) -> None:
        """Join the weights of the three projections for :meth:`project_both`, until ``fused`` is None again.

        For self-attention that is called many times while no weight changes. What is joined is a copy, and no part of
        the state dict. Projections that are not all plain linear layers of one input are left as they are.
        """
        parts = [self.q_proj, self.k_proj, self.v_proj] if self.project else []
        plain = [part for part in parts if isinstance(part, nn.Linear) and type(part) is nn.Linear]
        if (
            not plain
            or len(plain) < len(parts)
            or len({(p.in_features, p.weight.dtype, p.bias is None) for p in plain}) > 1
        ):
            return
        biases = [part.bias for part in plain if part.bias is not None]
        weight = torch.cat([part.weight.detach() for part in plain])
        bias = torch.cat([bias.detach() for bias in biases]) if biases else None
        self.fused = weight, bias, [part.out_features for part in plain]

    def _key_value(self, key: Tensor, value: Tensor, positions: Tensor | None) -> KeyValue:
        if self.k_norm is not None:
            key = _normalise(self.k_norm, key)
        if self.position is None:
            return KeyValue(key, value)
        is_start = positions is None
        if positions is None:
            positions = torch.arange(key.shape[2], device=key.device)
        _check_positions(positions, key.shape[2], "keys")
        return KeyValue(self._rotated(key, positions), value, positions, is_start=is_start)

    def forward(
        self,
        x: Tensor,
        context: Tensor | KeyValue | None = None,
        *,
        query: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend from ``x`` to ``context``.

        Args:
            x: the queries ``[b i d]``.
            context: ``[b j d]``, or what :meth:`project_context` made of it; default ``x`` itself (self-attention).
                What was made of fewer rows serves several rows of ``x`` each, one after another: the hypotheses of a
                sentence share its keys and values as further queries.
            query: what :meth:`project_both` made of ``x``; default: projected here.
            mask: bool, broadcastable to ``[b h i j]``, True = may attend.
            bias: added to the scores, see :func:`~selfattn.attention.core.attend`; broadcastable to ``[b h i j]``.
            causal: hide the future, right-aligned.
            positions: of the queries, ``[i]`` or ``[b i]``; default: the last ``i`` of the keys' positions.
            need_weights: also return the weights ``[b h i j]``.

        Returns:
            :class:`~selfattn.attention.core.Attended` with output ``[b i d]``.

        Raises:
            ValueError: ``x`` is not ``[b i d]`` of the layer's width; this layer uses positions and ``context`` was
                projected without; there are not as many positions as queries, or none are given and there are more
                queries than keys; and what :func:`~selfattn.attention.core.attend` raises.
        """
        self._check_states(x, "x [b i d]", "q_proj", self.num_heads)
        if isinstance(context, KeyValue) and 0 < context.key.shape[0] < x.shape[0]:
            together = x.reshape(context.key.shape[0], -1, x.shape[-1])
            output, weights = self(together, context, mask=mask, bias=bias, need_weights=need_weights)
            if weights is not None:
                weights = weights.unflatten(2, (-1, x.shape[1])).transpose(1, 2).flatten(0, 1)
            return Attended(output.reshape(*x.shape[:2], -1), weights)
        own = context is None
        context = x if context is None else context
        if mask is not None:
            x, context = self._without_unread(x, context, mask, causal)
        if not isinstance(context, KeyValue):
            context = self.project_context(context, positions if own else None)
        if query is None:
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
            own_bias = self.position.bias(positions, context.positions)
            if own_bias is not None:
                rows = max(positions.dim(), context.positions.dim()) - 1
                _check_bias(self.position, own_bias, [*query.shape[1 - rows : 3], context.key.shape[2]])
                bias = own_bias if bias is None else bias + own_bias
        output, weights = attend(
            query,
            context.key,
            context.value,
            score=self.score,
            mask=mask,
            bias=bias,
            causal=causal,
            dropout_p=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        joined = output.flatten(1)[:, None] if x.shape[1] == 1 else output.transpose(1, 2).flatten(2)
        return Attended(self.out_proj(joined) if self.project else joined, weights)

    def _check_states(self, states: Tensor, what: str, name: str, heads: int) -> None:
        """Hold states against the projection that reads them; where there is none, heads are slices of them."""
        width = getattr(getattr(self, name, None), "in_features", None)
        expected = f"{heads} times any number of" if width is None else width
        fits = isinstance(states, Tensor) and states.dim() == 3
        if not fits or (
            states.shape[-1] != width if width is not None else not self.project and states.shape[-1] % heads
        ):
            found = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
            raise ValueError(f"MultiHeadAttention: expected {what} with {expected} features, got {found}")

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        assert self.position is not None
        rotated = self.position.rotate(x, positions)
        if rotated.shape != x.shape:
            name, found = type(self.position).__name__, tuple(rotated.shape)
            raise ValueError(f"MultiHeadAttention: expected {name}.rotate to keep {tuple(x.shape)}, got {found}")
        return rotated

    def _without_unread(
        self, x: Tensor, context: Tensor | KeyValue, mask: Tensor, causal: bool
    ) -> tuple[Tensor, Tensor | KeyValue]:
        """Zero the queries that see nothing and the keys that nobody sees, before they are projected.

        ``attend`` does so with the projected ones; but the gradient of a projection's weights is a product with its
        inputs, and 0 times NaN is NaN.
        """
        i, j = x.shape[1], (context.key.shape[-2] if isinstance(context, KeyValue) else context.shape[1])
        check_mask(mask, (x.shape[0], self.num_heads, i, j))
        allowed = allowed_mask(i, j, mask=mask, causal=causal, device=x.device)
        assert allowed is not None
        by_any_head = allowed[(None,) * (4 - allowed.dim())].any(dim=1)
        x = x.masked_fill(~by_any_head.any(dim=-1, keepdim=True), 0)
        if isinstance(context, Tensor):
            context = context.masked_fill(~by_any_head.any(dim=-2).unsqueeze(-1), 0)
        return x, context


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
    if bias.dim() != len(full) or any(size not in (1, whole) for size, whole in zip(bias.shape, full, strict=True)):
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
