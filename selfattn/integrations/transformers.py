"""`attend` as the attention of Hugging Face models.

``register()`` makes ``selfattn`` an attention implementation of transformers, beside ``eager`` and ``sdpa``. Weights
are computed only where they are asked for; every other layer takes the fused path.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from selfattn.attention.core import attend
from selfattn.attention.scores import Score
from selfattn.errors import UserError
from selfattn.integrations.torch import split_mask, sum_of

NAME = "selfattn"
# Keywords that layers hand over, and why the output does not depend on them.
_DESCRIPTIVE = {
    "is_causal": "the mask says what is hidden, as for `eager`",
    "sliding_window": "the mask has the window",
    "position_ids": "the layer has rotated queries and keys already",
    "cache_position": "the layer has updated its cache already",
    "max_length_q": "length of the longest sequence in `cu_seq_lens_q`",
    "max_length_k": "length of the longest sequence in `cu_seq_lens_k`",
    "deterministic": "about backward of flash attention",
    "num_items_in_batch": "the model's loss divides by it",
    "logits_to_keep": "about the model's head",
    "output_hidden_states": "the model collects them",
    "output_router_logits": "the model collects them",
    "return_dict": "about the model's output",
    "use_cache": "about the model's output",
}
# What the eager attention of a model may read of its layer, and why it need not be handed over.
_READ = {
    "training": "the layer hands over a `dropout` of 0 in evaluation",
    "num_key_value_groups": "follows from the heads of queries and keys",
    "head_dim": "the width of the queries, for the default of `scaling`",
}


class Watcher(Protocol):
    """Whoever wants the weights of some attention layers."""

    def watches(self, module: nn.Module) -> bool:
        """Return whether the weights of this call of the layer are wanted."""

    def keep(self, module: nn.Module, weights: Tensor) -> None:
        """Take the weights ``[b h i j]`` of one call."""


WATCHERS: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())  # another thread sees none of them


def watchers_of(module: nn.Module) -> list[Watcher]:
    """Return who wants the weights of this call of a layer.

    Nobody does in a compiled graph: it cannot ask, and a watched model runs uncompiled.
    """
    if torch.compiler.is_compiling():
        return []
    return [watcher for watcher in WATCHERS.get() if watcher.watches(module)]


class ScaledBy(Score):
    """``scale * q . k``, bent to ``softcap * tanh(scale * q . k / softcap)`` where there is a soft cap.

    The soft cap is that of Gemma Team 2024, "Gemma 2", section 2. With one the score is no dot product any more, so it
    takes the reference path.

    Args:
        scale: factor of the dot product.
        softcap: bound on the size of a score; default none.

    Example:
        >>> query, key = torch.tensor([[[[2.0]]]]), torch.tensor([[[[3.0]]]])
        >>> ScaledBy(0.5)(query, key).item(), round(ScaledBy(0.5, softcap=1.0)(query, key).item(), 4)
        (3.0, 0.9951)
    """

    equal_widths = True

    def __init__(self, scale: float, softcap: float | None = None) -> None:
        super().__init__()
        self.scale = scale
        self.softcap = softcap

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the scores ``[b h i j]``."""
        if self.softcap is None:
            return super().forward(query, key)
        return self.softcap * torch.tanh((query @ key.transpose(-2, -1)) * self.scale / self.softcap)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """Return the dot product's form; None with a soft cap."""
        return (query, key, self.scale) if self.softcap is None else None


def register() -> None:
    """Make ``selfattn`` an attention implementation of transformers.

    Afterwards ``model.set_attn_implementation("selfattn")`` makes a model use :func:`selfattn.attend`, and so does
    ``from_pretrained(..., attn_implementation="selfattn")``. Calling it again changes nothing.

    Raises:
        UserError: transformers is not installed.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> register()
        >>> config = BertConfig(
        ...     vocab_size=11, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=4
        ... )
        >>> model = BertModel(config).eval()
        >>> model.set_attn_implementation("selfattn")
        >>> model(torch.tensor([[3, 5, 7]])).last_hidden_state.shape
        torch.Size([1, 3, 4])
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import eager_mask
    except ImportError:
        raise UserError("this needs transformers: install it with `pip install transformers`") from None
    AttentionInterface.register(NAME, attention)
    # The mask of `eager`: `sdpa_mask` leaves masks out and lets the layer guess, and returns bool, which layers without
    # an attention interface in the same model would add to their scores.
    AttentionMaskInterface.register(NAME, eager_mask)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    indices: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    seq_idx: Tensor | None = None,
    output_attentions: bool | None = False,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute the attention of one layer, as transformers calls it.

    Args:
        module: the attention layer.
        query: ``[b h i e]``.
        key: ``[b g j e]``, where ``g`` divides ``h``.
        value: ``[b g j c]``.
        attention_mask: bool, True = may attend; or added to the scores, where the lowest number of the dtype hides.
            Broadcastable to ``[b h i j]``. None: nothing is hidden.
        dropout: probability of dropping a weight; default 0.
        scaling: factor of the dot product; default ``1 / sqrt(e)``.
        softcap: bound on the size of a score; default none.
        position_bias: added to the scores, as in T5; default nothing.
        s_aux: ``[h]``, the score of an attention sink: a further key with value 0; default none.
        sinks: ``[b h i 1]``, the score of an attention sink for each query; default none.
        indices: ``[b i k]``, the keys that each query may attend to, beside the mask; default all.
        cu_seq_lens_q: ``[n + 1]``, where packed sequences begin and end among the queries; default one sequence.
        cu_seq_lens_k: the same for the keys.
        seq_idx: ``[b j]``, the packed sequence of each position; default one sequence.
        output_attentions: also return the weights; default False.
        others: keywords that the output does not depend on, such as ``position_ids``.

    Returns:
        The output ``[b i h c]``, and the weights ``[b h i j]`` where they are asked for, else None.

    Raises:
        UserError: the layer hands over something that is not understood, such as a paged cache; or the model's own
            eager attention reads something of the layer that is not handed over.
    """
    _refuse_unknown(module, others, has_sink=s_aux is not None or sinks is not None)
    sink = _sink(module, query, s_aux, sinks)
    mask = _packed(module, query, key, cu_seq_lens_q, cu_seq_lens_k, seq_idx)
    if (chosen := _chosen(indices, key)) is not None:
        mask = chosen if mask is None else mask & chosen
    bias = position_bias
    if attention_mask is not None:
        _check_mask(module, attention_mask, key.shape[2])
        allowed, added = split_mask(attention_mask[..., : key.shape[2]])
        visible = allowed if mask is None else allowed & mask
        bias = sum_of(added, position_bias)
        if bias is not None and added is not None and sink is None:
            # As in eager, a row in which numbers hide all keys, such as padding, attends to them evenly: experts that
            # mix tokens read it.
            hidden = ~visible.any(dim=-1, keepdim=True)
            query = query.masked_fill(hidden, 0)
            bias = bias.masked_fill(hidden, 0)
            visible = visible | hidden
        mask = visible
    if sink is not None:  # a key before all others that every query sees, with the sink as its score and value 0
        column = nn.functional.pad(sink.to(query.dtype), (0, key.shape[2]))
        bias = column if bias is None else nn.functional.pad(bias, (1, 0)) + column
        mask = None if mask is None else nn.functional.pad(mask, (1, 0), value=True)
        key = nn.functional.pad(key, (0, 0, 1, 0))
        value = nn.functional.pad(value, (0, 0, 1, 0))
    score = ScaledBy(query.shape[-1] ** -0.5 if scaling is None else scaling, softcap)
    options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias}
    need_weights = bool(output_attentions) or _are_recorded(module)
    output, weights = attend(query, key, value, dropout_p=dropout, need_weights=need_weights, **options)
    if watchers := watchers_of(module):
        watched = weights
        if watched is None:  # computed apart: who looks changes neither output nor gradient
            with torch.no_grad():
                watched = attend(query, key, value, need_weights=True, **options).weights
        assert watched is not None
        _check_rows(module, watched)
        for watcher in watchers:
            watcher.keep(module, watched if sink is None else watched[..., 1:])
    if weights is not None and sink is not None:
        weights = weights[..., 1:]
    return output.transpose(1, 2).contiguous(), weights


def _check_rows(module: nn.Module, weights: Tensor) -> None:
    """Refuse weights, those of a sink among them, of which a row sums to something else than 1, or 0 for no key."""
    sums = weights.sum(dim=-1, dtype=torch.float32)
    tolerance = torch.finfo(weights.dtype).eps + 1e-5
    wrong = ~(((sums - 1).abs() <= tolerance) | (sums == 0))
    if wrong.any():
        raise _refusal(module, f"has weights of which a row sums to {float(sums[wrong][0]):.4g}")


def _check_mask(module: nn.Module, mask: Tensor, j: int) -> None:
    """Refuse a mask of whole numbers, and one of fewer keys than the layer has."""
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise _refusal(module, f"hands over a mask of {mask.dtype}, neither bool nor numbers to add")
    if 1 < mask.shape[-1] < j:  # a longer one is that of a cache of fixed size
        raise _refusal(module, f"hands over a mask of {mask.shape[-1]} keys for {j} keys")


def _sink(module: nn.Module, query: Tensor, s_aux: Tensor | None, sinks: Tensor | None) -> Tensor | None:
    """Return the scores ``[b h i 1]`` of attention sinks, in broadcast, or None."""
    b, h, i, _ = query.shape
    if s_aux is not None and (sinks is not None or s_aux.shape != (h,)):
        raise _refusal(module, f"hands over `s_aux` of {tuple(s_aux.shape)} for {h} heads, or `sinks` beside it")
    if sinks is not None and sinks.shape != (b, h, i, 1):
        raise _refusal(module, f"hands over `sinks` of {tuple(sinks.shape)} for {h} heads and {i} queries")
    return sinks if s_aux is None else s_aux.reshape(1, -1, 1, 1)


def _chosen(indices: Tensor | None, key: Tensor) -> Tensor | None:
    """Turn the keys ``[b i k]`` that each query may attend to into a mask ``[b 1 i j]``."""
    if indices is None:
        return None
    mask = indices.new_zeros((*indices.shape[:2], key.shape[2]), dtype=torch.bool)
    return mask.scatter(-1, indices.long(), True).unsqueeze(1)


def _packed(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    cu_seq_lens_q: Tensor | None,
    cu_seq_lens_k: Tensor | None,
    seq_idx: Tensor | None,
) -> Tensor | None:
    """Return where query and key are of one packed sequence, broadcastable to ``[b 1 i j]``; None: everywhere."""
    i = query.shape[2]
    j = key.shape[2]
    together: Tensor | None = None
    if cu_seq_lens_q is not None or cu_seq_lens_k is not None:
        sequences = []
        for name, ends, length in (("cu_seq_lens_q", cu_seq_lens_q, i), ("cu_seq_lens_k", cu_seq_lens_k, j)):
            if ends is None or int(ends[-1]) != length:
                raise _refusal(module, f"hands over `{name}` that does not end at {length} positions")
            if int(ends[0]) != 0 or bool((ends.diff() < 0).any()) or len(query) > 1:
                raise _refusal(module, f"hands over `{name}` that does not rise from 0, or for {len(query)} rows")
            sequences.append(torch.searchsorted(ends, torch.arange(length, device=ends.device), right=True))
        together = sequences[0][:, None] == sequences[1]
    if seq_idx is not None:
        if seq_idx.shape != (query.shape[0], j) or i != j:
            raise _refusal(module, f"hands over `seq_idx` of {tuple(seq_idx.shape)} for {i} queries and {j} keys")
        equal = (seq_idx[:, :, None] == seq_idx[:, None]).unsqueeze(1)
        together = equal if together is None else together & equal
    return together


def _are_recorded(module: nn.Module) -> bool:
    """Whether the model records its weights: some layers do not hand on that they are asked for."""
    from transformers.utils import output_capturing

    collector = output_capturing._active_collector
    if torch.compiler.is_compiling() and not collector.compiling and not module._forward_hooks:
        return False  # of a model that is compiled in parts; the recording is a hook
    recorded = collector.get()  # type: ignore[no-untyped-call]  # transformers has no types for it
    return recorded is not None and any("attentions" in name for name in recorded)


def _refuse_unknown(module: nn.Module, others: dict[str, Any], has_sink: bool) -> None:
    """Refuse a layer that hands over a keyword, or whose eager attention reads an attribute, that is not understood."""
    for name, value in others.items():
        if name not in _DESCRIPTIVE and value is not None and value is not False:
            raise _refusal(module, f"hands over `{name}`")
    for name in _unknown_reads(type(module)):
        if not (name == "sinks" and has_sink) and getattr(module, name, None) is not None:
            raise _refusal(module, f"reads its `{name}` in its eager attention")


def _refusal(module: nn.Module, reason: str) -> UserError:
    """Return the error about a layer that does something that is not understood, such as ``hands over `cache```."""
    number = getattr(module, "layer_idx", None)
    layer = type(module).__name__ + (f" of layer {number}" if isinstance(number, int) else "")
    advice = "not supported by attention implementation 'selfattn'; use 'eager'"
    return UserError(f"{layer} {reason}: {advice}")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch has no types for it
def _unknown_reads(layer: type[nn.Module]) -> tuple[str, ...]:
    """Return what the model's own eager attention reads of its layer and is not understood."""
    return tuple(sorted(_eager_reads(layer.forward).difference(_READ)))


@cache
def _eager_reads(forward: Callable[..., Any]) -> frozenset[str]:
    """Return the attributes of its layer that the eager attention beside a layer's ``forward`` reads, by its source."""
    forward = inspect.unwrap(forward)
    names = set()
    for name in forward.__code__.co_names:
        eager = forward.__globals__.get(name)
        if "eager" not in name or not inspect.isfunction(eager):
            continue
        function = ast.parse(textwrap.dedent(inspect.getsource(eager))).body[0]
        assert isinstance(function, ast.FunctionDef)
        first = function.args.args[0].arg
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == first:
                names.add(node.attr)
    return frozenset(names)
