"""A twin of a model that shares its weights and hands every intermediate over while it computes.

:mod:`selfattn.models.inside` names the intermediates, keeps them and changes them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from selfattn.attention import Attended, MultiHeadAttention
from selfattn.attention.cache import Cache, KeyValue
from selfattn.attention.masks import Mask
from selfattn.attention.steps import attend_watched
from selfattn.layers import RecurrentStack, TokenEmbedding
from selfattn.layers.trees import map_leaves, named_tensors, with_tensors
from selfattn.models.protocol import EncoderMemory, Seq2Seq, token_by_token


@dataclass(frozen=True)
class Place:
    """Where an intermediate stands.

    Attributes:
        name: of the intermediate.
        step: number of the decoding step, from 0; None while the source is read.
        rows: its axis of queries or positions; None where it has none: keys, values and states.
        allowed: of weights and scores: which keys each query may see, bool, broadcastable to ``[b h i j]``; None: all.
    """

    name: str
    step: int | None
    rows: int | None
    allowed: Tensor | None = None


Visit = Callable[[Tensor, Place], Tensor]
"""Sees an intermediate and returns what the model computes on with."""


class _Clock(threading.local):
    """Knows, for each thread, which decoding step is being computed; None while the source is read."""

    step: int | None = None


def instrumented(model: Seq2Seq, visit: Visit, *, one_by_one: bool) -> Seq2Seq:
    """Return a twin of a model that hands every intermediate to ``visit`` and goes on with what that returns.

    Args:
        model: shares its weights with the twin.
        visit: sees the intermediates.
        one_by_one: take each decoding step by itself, and visit the decoder's state behind it. Otherwise several steps
            may be taken at once, and the number of the step says nothing.
    """
    twin: Seq2Seq = sharing_weights(model)
    clock = _Clock()
    for name, module in _shown(twin):
        module.register_forward_hook(partial(_visit_output, name, clock, visit))
        if isinstance(module, MultiHeadAttention):
            vars(module)["attend_with"] = partial(_visit_attention, name, clock, visit, module.attend_with)

    def from_the_source(read: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        clock.step = None
        return read(*arguments, **named)

    def counted(take: Callable[..., Any], tokens: Tensor, state: Any, **named: Any) -> tuple[Any, Any]:
        clock.step = 0 if clock.step is None else clock.step + 1
        result, new = take(tokens, state, **named)
        return result, _visit_state(new, clock.step, visit) if one_by_one else new

    for name in ("encode", "start", "attention_maps"):
        vars(twin)[name] = partial(from_the_source, getattr(twin, name))
    if "advance" in model.defines:
        advance = partial(counted, twin.advance)
        advance = partial(token_by_token, advance) if one_by_one else advance
        vars(twin).update(advance=advance, pre_logits=partial(Seq2Seq.pre_logits, twin))
    else:
        vars(twin).update(step=partial(counted, twin.step))
    if one_by_one or "advance" not in model.defines:  # then the output layer, too, sees each step by itself
        vars(twin).update(forward=partial(Seq2Seq.forward, twin), pre_logits=lambda *sides, source_mask: None)
    return twin


def _visit_attention(
    name: str, clock: _Clock, visit: Visit, compute: Callable[..., Attended], *vectors: Tensor, **options: Any
) -> Attended:
    """Attend from queries to keys and values as the layer does, and hand over everything on the way."""
    i, j = (tensor.shape[2] for tensor in vectors[:2])
    allowed = options["mask"].for_sizes(i, j, vectors[0].device).allowed

    def visit_part(part: str, tensor: Tensor) -> Tensor:
        rows = None if part in ("key", "value") else 2
        seen = allowed if part in ("scores", "weights") else None
        return visit(tensor, Place(f"{name}.{part}", clock.step, rows, seen))

    return attend_watched(visit_part, compute, *vectors, **options)


def _visit_output(name: str, clock: _Clock, visit: Visit, module: nn.Module, inputs: Any, output: Any) -> Any:
    """Hand over what a part returns: its tensor, or the first of several, or an encoder's states."""
    if isinstance(output, EncoderMemory):
        return dataclasses.replace(output, states=visit(output.states, Place(name, None, 1)))
    first = output[0] if isinstance(output, tuple) and output else output
    if not isinstance(first, Tensor):
        return output
    changed = visit(first, Place(name, clock.step, 1 if first.dim() == 3 else None))
    if first is output:
        return changed
    make = getattr(output, "_make", tuple)  # a named tuple stays one
    return make((changed, *output[1:]))


def _visit_state(state: Any, step: int, visit: Visit) -> Any:
    """Hand over the tensors of a decoder's state; keys and values are visited where they are used."""
    changes = {}
    for part in dataclasses.fields(state):
        value = getattr(state, part.name)
        if "of_source" in part.metadata or _has_keys(value):
            continue
        tensors = named_tensors(value, f"state.{part.name}")
        visited = [visit(tensor, Place(name, step, None)) for name, tensor in tensors]
        changes[part.name] = with_tensors(value, iter(visited))
    return dataclasses.replace(state, **changes)


def _has_keys(tree: Any) -> bool:
    """Say whether keys, values or a mask stand in a part of a state: the layers that attend to them show them."""
    kinds: list[type] = []
    map_leaves(lambda leaf: kinds.append(type(leaf)), tree, (Cache, KeyValue, Mask))
    return bool({Cache, KeyValue, Mask} & {*kinds})


def _shown(model: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Iterate over the parts that have a name of their own: not what is inside an attention layer or an RNN."""
    for name, module in model.named_children():
        full = f"{path}{name}"
        if isinstance(module, nn.Dropout):
            continue
        if not isinstance(module, nn.ModuleList):
            yield full, module
        if not isinstance(module, MultiHeadAttention | TokenEmbedding | RecurrentStack):
            yield from _shown(module, f"{full}.")


def sharing_weights(module: nn.Module) -> Any:
    """Return a copy of a module that shares its weights and buffers; hooks and modes are the copy's own.

    Args:
        module: to be copied; a part that stands in two places is copied once.

    Example:
        >>> layer = nn.Sequential(nn.Linear(2, 3))
        >>> twin = sharing_weights(layer)
        >>> twin is layer, twin[0] is layer[0], twin[0].weight is layer[0].weight
        (False, False, True)
    """
    twins: dict[nn.Module | None, Any] = {None: None}
    for part in module.modules():
        twins[part] = type(part).__new__(type(part))
        for name, value in vars(part).items():
            vars(twins[part])[name] = value.copy() if isinstance(value, dict) else value
    for part in module.modules():
        twins[part]._modules = {name: twins[child] for name, child in part._modules.items()}
    return twins[module]
