"""A module for a module: `nn.MultiheadAttention` on `attend`."""

from typing import Any, Self

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from selfattn.attention.core import attend
from selfattn.attention.masks import without_unread_keys, without_unread_queries
from selfattn.attention.positions import AttentionPosition
from selfattn.attention.scores import Score, scaled_dot
from selfattn.convert.plain import check_class, check_output, check_parts, check_plain, check_tensors

_ADVICE = "; if it computes the same, make a MultiheadAttention and load the state dict into it"


class MultiheadAttention(nn.MultiheadAttention):
    """`torch.nn.MultiheadAttention`, computed by :func:`selfattn.attend`.

    Arguments, parameter names, state dict, masks (True = may **not** attend) and results are those of PyTorch's module.
    Four things are different:

    - A row that may attend to nothing gives the output's bias and weights 0. PyTorch's gives NaN.
    - Scores other than the scaled dot product, and positions that act inside attention, can be given.
    - ``need_weights=False`` and a call without gradients take the same path: none of PyTorch's inference kernels
      bypasses this module, inside ``nn.TransformerEncoderLayer`` neither.
    - ``is_causal=True`` needs no ``attn_mask``, and gives the weights too.

    Args:
        arguments: as PyTorch's, by place: ``embed_dim``, ``num_heads``, ``dropout``, ``bias``, ...
        score: how a query is compared with a key; default the scaled dot product.
        position: what tells the attention where a token stands, such as ``Rotary``; default nothing.
        named: as PyTorch's, by name, such as ``batch_first=True``.

    Raises:
        ValueError: ``embed_dim`` or ``num_heads`` is not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``.

    Example:
        >>> theirs = nn.MultiheadAttention(6, 2, batch_first=True)
        >>> ours = MultiheadAttention(6, 2, batch_first=True)
        >>> ours.load_state_dict(theirs.state_dict())
        <All keys matched successfully>
        >>> x = torch.randn(3, 5, 6)
        >>> torch.allclose(ours(x, x, x)[0], theirs(x, x, x)[0], atol=1e-6)
        True
    """

    def __init__(
        self, *arguments: Any, score: Score = scaled_dot, position: AttentionPosition | None = None, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.score = score
        self.position = position
        # nn.TransformerEncoderLayer does not run its own kernel in place of a module that has a hook.
        self.register_forward_pre_hook(_nothing)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """Return this module with the weights and settings of PyTorch's.

        Args:
            module: whose parameters are shared, not copied; PyTorch's, or one of this class, whose score and position
                are taken over.

        Raises:
            TypeError: ``module`` or its ``out_proj`` is of a derived class, which may compute anything. Where it
                computes the same, make a ``MultiheadAttention`` and load the state dict.
            ValueError: it is pruned or parametrised, has a hook, its ``forward`` was replaced, or a parameter is no
                plain one; the message says what to do.

        Example:
            >>> layer = nn.TransformerEncoderLayer(6, 2, batch_first=True).eval()
            >>> x = torch.randn(3, 5, 6)
            >>> expected = layer(x)
            >>> layer.self_attn = MultiheadAttention.from_torch(layer.self_attn)
            >>> torch.allclose(layer(x), expected, atol=1e-5)
            True
        """
        where = "MultiheadAttention.from_torch"
        check_plain(module, where, harmless=[_nothing])
        if type(module) is not cls:
            check_class(module, nn.MultiheadAttention, where, _ADVICE)
        check_output(module.out_proj, where)
        check_parts(module, {"out_proj", "score", "position"} if type(module) is cls else {"out_proj"}, where)
        sizes = module.embed_dim, module.num_heads, module.dropout, module.in_proj_bias is not None
        more = module.bias_k is not None, module.add_zero_attn, module.kdim, module.vdim, module.batch_first
        with torch.device("meta"):
            converted = cls(*sizes, *more)
        if isinstance(module, MultiheadAttention):
            converted.score = module.score
            converted.position = module.position
        check_tensors(module, {name for name, _ in converted.named_parameters(recurse=False)}, where)
        converted._parameters.update(module._parameters)
        converted.out_proj = module.out_proj
        return converted.train(module.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from queries to keys and values.

        Args:
            query: ``[i b d]``, ``[b i d]`` with ``batch_first``, or ``[i d]``.
            key: ``[j b kdim]``, ``[b j kdim]`` or ``[j kdim]``.
            value: ``[j b vdim]``, ``[b j vdim]`` or ``[j vdim]``.
            key_padding_mask: ``[b j]`` or ``[j]``; bool, True = hidden, or added to the scores, where minus infinity
                hides and NaN reaches the output; default none.
            need_weights: also return the weights; default True. Those of a nested batch are padded with zeros.
            attn_mask: ``[i j]`` or ``[(b h) i j]``; bool, True = hidden, or added to the scores; default none.
            average_attn_weights: the weights' mean over the heads; default True.
            is_causal: hide the future; with an ``attn_mask``, that mask says what is hidden; default False.

        Returns:
            The output in the form of the query; the weights ``[b i j]``, or ``[b h i j]`` without the mean, or None.

        Raises:
            AssertionError: queries, keys, values or masks do not have as many axes as each other ask for.
            ValueError: a mask has another shape, or a nested batch does not attend to itself.
            TypeError: a mask is neither bool nor floating point.
        """
        # PyTorch's own check, so that a wrong call gets the message that its users know.
        is_batched = F._mha_shape_check(  # type: ignore[attr-defined]  # not in PyTorch's stubs
            query, key, value, key_padding_mask, attn_mask, self.num_heads
        )
        if query.is_nested:
            if not (query is key is value and attn_mask is None and key_padding_mask is None):
                raise ValueError("MultiheadAttention: a nested batch can only attend to itself without a mask; pad it")
            return self._forward_nested(query, need_weights, average_attn_weights, is_causal)
        if not is_batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        i = query.shape[1]
        j = key.shape[1]
        _check_mask("key_padding_mask [b j]", key_padding_mask, (len(query), j))
        in_heads = attn_mask is not None and attn_mask.dim() == 3
        expected = (len(query) * self.num_heads, i, j) if in_heads else (i, j)
        _check_mask("attn_mask [(b h) i j]" if in_heads else "attn_mask [i j]", attn_mask, expected)
        mask, bias = self._masks(key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:  # as PyTorch's, left-aligned
            future = torch.ones(1, 1, i, j, dtype=torch.bool, device=query.device).tril()
            mask = future if mask is None else mask & future
        if mask is not None:
            if self.bias_k is None and not self.add_zero_attn:  # else each query sees a further key
                query = without_unread_queries(query, mask)
            key, value = (without_unread_keys(x, mask) for x in (key, value))
        query, key, value = self._heads(query, key, value)
        if self.position is not None:
            places = torch.arange(max(i, j), device=query.device)
            query = self.position.rotate(query, places[:i])
            key = self.position.rotate(key, places[:j])
            bias = sum_of(bias, self.position.bias(places[:i], places[:j]))
        for extra_key, extra_value in self._extra(key):
            key = torch.cat([key, extra_key], dim=2)
            value = torch.cat([value, extra_value], dim=2)
            mask = None if mask is None else F.pad(mask, (0, 1), value=True)
            bias = None if bias is None else F.pad(bias, (0, 1))
        dropout = self.dropout if self.training else 0.0
        options: dict[str, Any] = {"score": self.score, "dropout_p": dropout, "need_weights": need_weights}
        output, weights = attend(query, key, value, mask=mask, bias=bias, **options)
        output = self.out_proj(rearrange(output, "b h i e -> b i (h e)"))
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not is_batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def _heads(self, *inputs: Tensor) -> list[Tensor]:
        """Project queries, keys and values, ``[b n width]``, and cut them into heads ``[b h n e]``."""
        if self.in_proj_weight is not None:
            projections = self.in_proj_weight.chunk(3)
        else:
            projections = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        bias = self.in_proj_bias
        biases = [None] * 3 if bias is None else bias.to(projections[0].dtype).chunk(3)
        projected = (F.linear(x, w, b) for x, w, b in zip(inputs, projections, biases, strict=True))
        return [rearrange(x, "b n (h e) -> b h n e", h=self.num_heads) for x in projected]

    def _masks(self, key_padding_mask: Tensor | None, attn_mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Turn PyTorch's masks into where queries may attend and what is added, both ``[b h i j]`` in broadcast."""
        mask = bias = None
        if key_padding_mask is not None:
            mask, bias = split_mask(_turned(key_padding_mask)[:, None, None])
        if attn_mask is not None:
            heads = (1, 1) if attn_mask.dim() == 2 else (-1, self.num_heads)
            allowed, added = split_mask(_turned(attn_mask).view(*heads, *attn_mask.shape[-2:]))
            mask = allowed if mask is None else mask & allowed
            bias = sum_of(bias, added)
        return mask, bias  # in its own dtype: float16 has no -1e9

    def _extra(self, key: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values ``[b h 1 e]`` that every query also sees."""
        extra = []
        if self.bias_k is not None and self.bias_v is not None:
            pair = torch.stack([self.bias_k, self.bias_v]).view(2, 1, self.num_heads, 1, -1)
            extra_key, extra_value = pair.expand(-1, len(key), -1, -1, -1)
            extra.append((extra_key, extra_value))
        if self.add_zero_attn:
            extra.append((torch.zeros_like(key[:, :, :1]),) * 2)
        return extra

    def _forward_nested(
        self, batch: Tensor, need_weights: bool, average_attn_weights: bool, is_causal: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend in a nested batch, as ``nn.TransformerEncoder`` makes it of a padded one."""
        lengths = torch.tensor([row.shape[0] for row in batch.unbind()], device=batch.device)
        x = batch.to_padded_tensor(0.0)
        hidden = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)
        # Nested batches are batch first, whatever the setting says.
        turned = x if self.batch_first else x.transpose(0, 1)
        output, weights = self.forward(
            turned, turned, turned, hidden, need_weights, None, average_attn_weights, is_causal
        )
        output = output if self.batch_first else output.transpose(0, 1)
        if weights is not None:
            padding = hidden.unsqueeze(-1) if average_attn_weights else hidden[:, None, :, None]
            weights = weights.masked_fill(padding, 0)
        rows = [row[:n] for row, n in zip(output, lengths.tolist(), strict=True)]
        return torch.nested.as_nested_tensor(rows, layout=batch.layout), weights


def _nothing(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Change nothing."""


def _check_mask(name: str, mask: Tensor | None, expected: tuple[int, ...]) -> None:
    """Check the kind and the shape of a mask: broadcasting would give one row's to all."""
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"MultiheadAttention: expected {name} as bool, True = hidden, or numbers, got {mask.dtype}")
    if mask.shape != expected:
        raise ValueError(f"MultiheadAttention: expected {name} of {expected}, got {tuple(mask.shape)}")


def sum_of(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Add two biases, either of which may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _turned(mask: Tensor) -> Tensor:
    """Turn a bool mask of PyTorch's sense, True = hidden, into ours; what is added to scores stays."""
    return ~mask if mask.dtype == torch.bool else mask


def split_mask(mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """Divide a mask into where a query may attend and what is added there.

    Args:
        mask: bool, True = may attend; or added to the scores, where minus infinity or the lowest number hides. NaN is
            added, and so reaches the output.

    Example:
        >>> allowed, added = split_mask(torch.tensor([-torch.inf, 0.5, torch.nan]))
        >>> allowed.tolist(), added.tolist()
        ([False, True, True], [0.0, 0.5, nan])
    """
    if mask.dtype == torch.bool:
        return mask, None
    allowed = ~(mask <= torch.finfo(mask.dtype).min / 2)
    return allowed, mask.masked_fill(~allowed, 0)
