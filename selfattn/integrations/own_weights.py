"""The attention explorer on weights that somebody else computed."""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from selfattn.errors import UserError
from selfattn.integrations.explorer import MOST_WEIGHTS
from selfattn.results.attention import Kind
from selfattn.runs.attention_view import AttentionView

Maps = Sequence[Tensor | None]


def explore_weights(
    tokens: Sequence[str],
    attentions: Maps = (),
    *,
    target_tokens: Sequence[str] = (),
    decoder_attentions: Maps = (),
    cross_attentions: Maps = (),
    second: int | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    model: str = "model",
) -> AttentionView:
    """Return weights that you computed as a view, which draws itself in a notebook.

    The arguments are what models of transformers return with ``output_attentions=True``: for each layer a tensor
    ``[1 h i j]`` or ``[h i j]``. Row ``k`` belongs to the step that read token ``k``.

    Args:
        tokens: that the model reads, ``s`` of them.
        attentions: self-attention to these tokens, for each layer ``[h s s]``; None for a layer without weights.
        target_tokens: that a decoder reads, ``t`` of them; default none.
        decoder_attentions: self-attention of the decoder, ``[h t t]``; default none.
        cross_attentions: from target to source, ``[h t s]``; default none.
        second: the token with which the second of two sentences begins; default there is one sentence.
        layers: numbers from 0; default all.
        heads: numbers from 0; default all.
        model: what the model is called; default "model".

    Raises:
        UserError: there are no weights; several texts; other sizes than the tokens say; no such layer, head or
            ``second``; or more weights than a page can show.

    Example:
        >>> view = explore_weights(["a", "dog"], [torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])])
        >>> view
        <AttentionView '' ← 'a dog': 1 layer, 1 head>
    """
    s = len(tokens)
    t = len(target_tokens)
    if second is not None and not 0 < second < s:
        raise UserError(f"`second` {second}: give the place of a token, 1 to {s - 1}")
    maps_by_kind: dict[Kind, tuple[str, Maps, tuple[int, int]]] = {
        "cross": ("cross_attentions", cross_attentions, (t, s)),
        "encoder": ("attentions", attentions, (s, s)),
        "decoder": ("decoder_attentions", decoder_attentions, (t, t)),
    }
    chosen: dict[Kind, dict[int, Tensor]] = {}
    without = []
    for kind, (name, maps, size) in maps_by_kind.items():
        chosen[kind] = {}
        numbers = range(len(maps)) if layers is None else layers
        for number in numbers if len(maps) else ():
            if not 0 <= number < len(maps):
                raise UserError(f"`layers` {number}: `{name}` has layers 0 to {len(maps) - 1}")
            weights = maps[number]
            if weights is None:
                without.append(f"{name}[{number}]")
            else:
                chosen[kind][number] = _checked(weights, f"{name}[{number}]", size, heads)
    for name, words in (("tokens", tokens), ("target_tokens", target_tokens)):
        if isinstance(words, str) or any(not isinstance(word, str) for word in words):
            raise UserError(f"`{name}`: expected a list of tokens as texts, such as ['good', 'dog']")
    count = sum(weights.numel() for weights in chain.from_iterable(maps.values() for maps in chosen.values()))
    if not count:
        raise UserError("no weights: run the model with `output_attentions=True` and attn_implementation='eager'")
    if count > MOST_WEIGHTS:
        raise UserError(f"{count:,} weights are more than a page can show ({MOST_WEIGHTS:,}): choose `layers`, `heads`")
    return AttentionView(
        source=" ".join(tokens),
        prediction=" ".join(target_tokens),
        source_tokens=tuple(tokens),
        target_tokens=tuple(target_tokens),
        weights=tuple(chosen["cross"].values()),
        encoder_weights=tuple(chosen["encoder"].values()),
        decoder_weights=tuple(chosen["decoder"].values()),
        layers={kind: list(maps_of_kind) for kind, maps_of_kind in chosen.items()},
        heads=() if heads is None else tuple(heads),
        model=model,
        second=second,
        is_shifted=False,
        without=tuple(without),
    )


def _checked(weights: Tensor, name: str, size: tuple[int, int], heads: Sequence[int] | None) -> Tensor:
    """Return the weights ``[h i j]`` of the heads that are chosen.

    Raises:
        UserError: they are of several texts, have another size, or no such head.
    """
    if not isinstance(weights, Tensor):
        raise UserError(f"{name} is a {type(weights).__name__}: make it a tensor, torch.as_tensor(weights)")
    if weights.dim() == 4 and len(weights) != 1:
        raise UserError(f"{name} has {len(weights)} texts: give one, such as weights[:1]")
    weights = weights[0] if weights.dim() == 4 else weights
    if weights.dim() != 3 or tuple(weights.shape[1:]) != size:
        raise UserError(f"{name} is {list(weights.shape)}: the tokens say [heads, {size[0]}, {size[1]}]")
    weights = weights.detach().float().cpu()
    if not bool(torch.isfinite(weights).all()) or weights.min() < -1e-3 or weights.max() > 1 + 1e-3:
        raise UserError(f"{name} is not between 0 and 1: give the weights after the softmax")
    if heads is None:
        return weights
    wrong = [head for head in heads if not 0 <= head < len(weights)]
    if wrong or not len(heads):
        raise UserError(f"`heads` {list(heads)}: {name} has heads 0 to {len(weights) - 1}")
    return weights[list(heads)]
