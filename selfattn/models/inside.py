"""Look inside a model while it reads and writes, and change what it computes there.

Every intermediate has a name: the path of its module in the model, and for an attention layer one of

==========================  ======================================================================
``LAYER.query``             queries ``[b h i e]``
``LAYER.key``               keys ``[b g j e]``
``LAYER.value``             values ``[b g j c]``
``LAYER.scores``            scores ``[b h i j]`` before the normalizer, with the bias and without the mask
``LAYER.weights``           weights ``[b h i j]``
``LAYER.heads``             output of each head ``[b h i c]``, before they are joined
``LAYER``                   output of the layer ``[b i d]``
``MODULE``                  output of any other part: embedding, recurrent stack, block, ... ``[b i d]``
``state.FIELD...``          what the decoder carries from step to step, such as an LSTM's ``h`` and ``c``
==========================  ======================================================================

It works through the protocol (``encode``, ``start``, ``advance``, ``step``), so for an LSTM decoder as for a
Transformer. The number of a row is that of the decoding step.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention.cache import Cache, KeyValue
from selfattn.attention.core import Attended
from selfattn.attention.layer import MultiHeadAttention
from selfattn.attention.masks import Mask
from selfattn.attention.steps import AttentionSteps, attend_watched
from selfattn.errors import UserError
from selfattn.layers.recurrent import RecurrentStack, map_leaves, named_tensors, with_tensors
from selfattn.layers.transformer import TokenEmbedding
from selfattn.models.protocol import DecoderState, EncoderMemory, Seq2Seq, joined_rows, token_by_token
from selfattn.settings import shown

OF_ATTENTION = ("query", "key", "value", "scores", "weights", "heads")


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


@dataclass(frozen=True)
class Edit:
    """A change of one intermediate.

    :func:`ablate`, :func:`reweigh` and :func:`patch` make the usual ones.

    Attributes:
        name: of the intermediate.
        change: returns what the model computes on with: a tensor of the same shape.
        by_step: take each decoding step by itself, so that the change meets one at a time; default True. Without it
            the model reads a given target at once, for a change of queries, scores or outputs that is the same in all
            steps. Attention maps of linear attention, which has no weights by step, need it so.

    Example:
        >>> double = Edit("encoder.embed", lambda tensor, place: 2 * tensor)
    """

    name: str
    change: Callable[[Tensor, Place], Tensor]
    by_step: bool = True


@dataclass(frozen=True, eq=False)
class Trace:
    """Every intermediate of a model while it read one source and wrote one target. There is no batch axis.

    ``trace[name]`` is the intermediate of all steps: rows of steps are joined, rows of self-attention that see fewer
    keys are padded with 0, keys and values are those of the last step, and states get an axis of steps in front, padded
    where they grow. Of the encoder it is what was computed while the source was read.

    Attributes:
        source: intermediates by name, while the source was read.
        steps: for each decoding step its intermediates by name; a row axis has length 1.
        axes: the axis of queries or positions by name; None where there is none.
        source_tokens: texts of the source's tokens, where known.
        target_tokens: texts of the target's tokens, where known; step ``k`` writes token ``k``.
    """

    source: Mapping[str, Tensor]
    steps: Sequence[Mapping[str, Tensor]]
    axes: Mapping[str, int | None] = field(repr=False)
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all intermediates, in the order in which they are computed."""
        return tuple(self.axes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.axes)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.axes:
            raise UserError(_unknown(name, self.axes))
        parts = [step[name] for step in self.steps if name in step]
        if not parts:
            return self.source[name]
        axis = self.axes[name]
        if axis is not None:
            return joined_rows(parts, axis)
        return joined_rows([part[None] for part in parts], 0) if name.startswith("state.") else parts[-1]

    def attention(self, layer: str) -> AttentionSteps:
        """Return the steps of one attention layer, as a batch of one; its table shows how one query attends.

        Args:
            layer: its name, such as ``"decoder.cross_attn"``.
        """
        parts = {part: self[f"{layer}.{part}"][None] for part in OF_ATTENTION}
        return AttentionSteps(**parts, output=self[layer][None])


def intermediates(model: Seq2Seq) -> tuple[str, ...]:
    """Return the names of all intermediates, in the order in which they are computed for a source of two tokens.

    Raises:
        UserError: there are none: an exported model computes elsewhere.

    Example:
        >>> from selfattn.models.build import build
        >>> [name for name in intermediates(build("rnn-attention", vocab_size=11)) if "cross" in name][-2:]
        ['decoder.cross_attn.heads', 'decoder.cross_attn']
    """
    tokens = torch.zeros(2, dtype=torch.int64, device=model.device)
    with torch.no_grad():
        return trace_model(model, tokens, tokens[:1]).names


def attention_layers(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Return the attention layers of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def trace_model(model: Seq2Seq, source: Tensor, target_in: Tensor) -> Trace:
    """Let a model read a source and, step by step, a target; keep every intermediate.

    Args:
        model: any sequence-to-sequence model.
        source: ids ``[s]``.
        target_in: ids ``[t]``, beginning with ``<bos>``.

    Raises:
        UserError: nothing can be seen: an exported model computes elsewhere.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("rnn-attention", vocab_size=11).eval()
        >>> trace = trace_model(model, torch.tensor([5, 6, 2]), torch.tensor([1, 7]))
        >>> trace["decoder.cross_attn.weights"].shape, trace["state.recurrent.0.0"].shape
        (torch.Size([1, 2, 3]), torch.Size([2, 128]))
    """
    read: dict[str, Tensor] = {}
    steps: list[dict[str, Tensor]] = []
    axes: dict[str, int | None] = {}

    original, edits = edits_of(model)

    def keep(tensor: Tensor, place: Place) -> Tensor:
        tensor = _changed(tensor, place, edits)
        values = read if place.step is None else steps[-1]
        values[place.name] = tensor.detach()[0].clone()
        axes[place.name] = None if place.rows is None else place.rows - 1
        return tensor

    twin = _instrumented(original, keep, one_by_one=True)
    state = twin.start(twin.encode(source[None], torch.ones_like(source, dtype=torch.bool)[None]))
    for token in target_in:
        steps.append({})
        _, state = twin.step(token[None], state)
    if all(name.startswith("state.") for name in axes):  # a state is handed over, not computed here
        raise UserError(f"inside: {type(model).__name__} cannot be looked into; take the run that it was made from")
    return Trace(read, steps, axes)


def edited(model: Seq2Seq, *edits: Edit) -> Seq2Seq:
    """Return a model that shares the weights and computes with these changes; the model itself stays as it is.

    Args:
        model: any sequence-to-sequence model of torch; one that was edited before keeps its changes.
        edits: applied in their order, after those of the model.

    Raises:
        UserError: something else than an edit is given, or there is no intermediate of its name. A change to another
            shape or dtype is refused when it runs.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("rnn-attention", vocab_size=11).eval()
        >>> source, target_in = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]])
        >>> without = edited(model, ablate("decoder.cross_attn"))
        >>> logits = without(source, target_in, source_mask=source > 0)
        >>> torch.equal(logits, model(source, target_in, source_mask=source > 0))
        False
    """
    original, earlier = edits_of(model)
    names = intermediates(original)
    for edit in edits:
        if not isinstance(edit, Edit):
            raise UserError(f"intervene: expected edits, such as ablate(...), got {shown(edit)}")
        if edit.name not in names:
            raise UserError(_unknown(edit.name, names))
    edits = (*earlier, *edits)
    twin = _instrumented(original, partial(_changed, edits=edits), one_by_one=any(edit.by_step for edit in edits))
    vars(twin)["inside"] = (original, edits)
    # Hooks and replaced methods of a copy would be this one's.
    vars(twin)["__deepcopy__"] = lambda memo: edited(copy.deepcopy(original, memo), *edits)
    return twin


def edits_of(model: Seq2Seq) -> tuple[Seq2Seq, tuple[Edit, ...]]:
    """Return the model that an edited one was made from, and its edits."""
    original, edits = vars(model).get("inside", (model, ()))
    return original, edits


def _changed(tensor: Tensor, place: Place, edits: Sequence[Edit]) -> Tensor:
    for edit in edits:
        if edit.name == place.name:
            changed = edit.change(tensor, place)
            if not isinstance(changed, Tensor):
                raise UserError(f"{edit.name}: a change must return a tensor, got {shown(changed)}")
            if (changed.shape, changed.dtype) != (tensor.shape, tensor.dtype):
                kinds = f"{[*tensor.shape]} {tensor.dtype}, got {[*changed.shape]} {changed.dtype}"
                raise UserError(f"{edit.name}: a change must keep shape and dtype {kinds}")
            tensor = changed
    return tensor


def ablate(layer: str, heads: Iterable[int] | None = None, *, to: Tensor | float = 0.0) -> Edit:
    """Replace the output of heads by a constant (Michel et al. 2019, section 2.3: by zero).

    Args:
        layer: name of the attention layer.
        heads: numbers of the heads; default all.
        to: a number, or a vector for each head of the layer ``[h c]``, as :func:`head_means` returns them; default 0.

    Raises:
        UserError: ``heads`` or ``to`` is not as described.
    """
    if not isinstance(to, Tensor) and not (isinstance(to, int | float) and math.isfinite(to)):
        raise UserError(f"ablate: `to`: expected a finite number or a tensor [h c], got {shown(to)}")

    def change(tensor: Tensor, place: Place) -> Tensor:
        if not isinstance(to, Tensor):
            return torch.full_like(tensor, to)
        if to.shape != (tensor.shape[1], tensor.shape[3]):
            sizes = f"{[tensor.shape[1], tensor.shape[3]]}, got {[*to.shape]}"
            raise UserError(f"ablate: `to`: expected a vector for each head of {layer} [h c] {sizes}")
        return to.to(tensor)[:, None].expand_as(tensor)

    return Edit(f"{layer}.heads", _of_heads(change, heads), by_step=False)


def head_means(traces: Sequence[Trace], layer: str) -> Tensor:
    """Return the mean output of each head over all positions of some traces, ``[h c]``.

    Args:
        traces: at least one.
        layer: name of the attention layer.

    Raises:
        UserError: there is no trace.
    """
    if not traces:
        raise UserError("head_means: there are no traces; give at least one")
    rows = torch.cat([trace[f"{layer}.heads"] for trace in traces], dim=1)
    return rows.mean(dim=1)


def reweigh(
    layer: str, to: Literal["uniform", "permuted"] | Trace, heads: Iterable[int] | None = None, *, seed: int = 0
) -> Edit:
    """Replace attention weights.

    Args:
        layer: name of the attention layer.
        to: ``"uniform"``: the same for all keys that a query may see; ``"permuted"``: shuffled among them (Jain and
            Wallace 2019, section 4.2.1); or a trace of another input, whose weights are taken step by step.
        heads: numbers of the heads; default all.
        seed: of the permutation; the same for every batch and step.

    Raises:
        UserError: ``to``, ``heads`` or ``seed`` is not as described.
    """
    if isinstance(to, Trace):
        return patch(f"{layer}.weights", to, heads=heads)
    if to not in ("uniform", "permuted"):
        raise UserError(f"reweigh: expected 'uniform', 'permuted' or a trace, got {shown(to)}")
    if not isinstance(seed, int):
        raise UserError(f"reweigh: `seed`: expected a whole number, got {shown(seed)}")

    def change(weights: Tensor, place: Place) -> Tensor:
        allowed = torch.ones_like(weights, dtype=torch.bool)
        if place.allowed is not None:
            allowed = place.allowed.expand_as(weights)
        if to == "uniform":
            return allowed / allowed.sum(dim=-1, keepdim=True).clamp(min=1).to(weights.dtype)
        return _permuted(weights, allowed, seed)

    return Edit(f"{layer}.weights", _of_heads(change, heads), by_step=False)


def patch(name: str, trace: Trace, *, steps: Iterable[int] | None = None, heads: Iterable[int] | None = None) -> Edit:
    """Replace an intermediate by that of another input (activation patching; Vig et al. 2020).

    For what is computed while the source is read, both sources need as many tokens. Steps beyond the end of the trace
    stay as they are.

    Args:
        name: of the intermediate.
        trace: of the other input, by the same model.
        steps: numbers of the decoding steps that are patched; default all, and the reading of the source.
        heads: numbers of the heads, where the intermediate has heads; default all.

    Raises:
        UserError: there is no trace, or it has no such intermediate; it has none of the steps, or the intermediate no
            steps at all; the intermediate has no heads.
    """
    if not isinstance(trace, Trace):
        raise UserError(f"patch: expected a trace, such as run.trace(text), got {shown(trace)}")
    if name not in trace.axes:
        raise UserError(_unknown(name, trace.axes))
    chosen = None if steps is None else _numbers("steps", steps)
    traced = [number for number, step in enumerate(trace.steps) if name in step]
    if chosen is not None and not {*chosen} & {*traced}:
        there = f"the trace has steps 0 to {traced[-1]}" if traced else "it is computed while the source is read"
        raise UserError(f"patch: {name}: steps {', '.join(map(str, chosen))}: {there}")
    if heads is not None and name.rpartition(".")[2] not in OF_ATTENTION:
        raise UserError(f"patch: {name} has no heads; leave `heads` out")

    def change(tensor: Tensor, place: Place) -> Tensor:
        values = [trace.source] if place.step is None else trace.steps[place.step :][:1]
        is_chosen = chosen is None or place.step in chosen
        if not (is_chosen and values and name in values[0]):
            return tensor
        return torch.empty_like(tensor).copy_(_fitted(values[0][name], tensor))

    return Edit(name, _of_heads(change, heads))


def _of_heads(change: Callable[[Tensor, Place], Tensor], heads: Iterable[int] | None) -> Visit:
    """Restrict a change to some heads."""
    if heads is None:
        return change
    numbers = _numbers("heads", heads)

    def chosen(tensor: Tensor, place: Place) -> Tensor:
        count = tensor.shape[1]
        if max(numbers) >= count:
            raise UserError(f"{place.name}: head {max(numbers)}: the layer has heads 0 to {count - 1}")
        result = tensor.clone()
        result[:, numbers] = change(tensor, place)[:, numbers]
        return result

    return chosen


def _numbers(name: str, values: Iterable[int]) -> list[int]:
    """Return numbers of heads or steps, read once.

    Raises:
        UserError: there are none, or something else is given.
    """
    numbers = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not numbers or any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise UserError(f"`{name}`: expected whole numbers from 0, such as [0, 2], got {shown(numbers or values)}")
    return numbers


def _permuted(weights: Tensor, allowed: Tensor, seed: int) -> Tensor:
    """Shuffle the weights among the allowed keys; hidden keys between them change nothing."""
    j = weights.shape[-1]
    numbers = torch.rand(j, generator=torch.Generator().manual_seed(seed)).to(weights.device)
    rank = (allowed.cumsum(dim=-1) - 1).clamp(min=0)  # among the allowed keys
    shuffled = numbers[rank].masked_fill(~allowed, torch.inf).argsort(dim=-1)
    places = torch.arange(j, device=weights.device, dtype=torch.float32).expand_as(weights)
    in_order = places.masked_fill(~allowed, torch.inf).argsort(dim=-1)
    return torch.zeros_like(weights).scatter(-1, shuffled, weights.gather(-1, in_order))


def _fitted(value: Tensor, target: Tensor) -> Tensor:
    """Give a value of a trace, which has no batch axis, the shape of what it replaces."""
    value = value[None].to(target)
    if value.shape[-1] < target.shape[-1] and value.shape[1:-1] == target.shape[1:-1] and value.dim() == 4:
        value = F.pad(value, (0, target.shape[-1] - value.shape[-1]))
    try:
        return value.expand_as(target)
    except RuntimeError:
        shapes = f"{[*value.shape[1:]]} and here {[*target.shape[1:]]}"
        raise UserError(f"patch: the trace has the shape {shapes}; take inputs of as many tokens") from None


def _unknown(name: str, names: Mapping[str, Any] | Sequence[str]) -> str:
    return f"inside: there is no {name!r}; there is {', '.join(names)}"


# --- a twin of a model, which hands every intermediate over while it computes ---


class _Clock(threading.local):
    """Tells hooks, in each thread, which decoding step is being computed; None while the source is read."""

    step: int | None = None


@dataclass(frozen=True)
class _NumberedState(DecoderState):
    """A decoder's state, and the number of the step that is computed from it."""

    state: Any
    step: int


def _instrumented(model: Seq2Seq, visit: Visit, *, one_by_one: bool) -> Seq2Seq:
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

    def reading(read: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        clock.step = None
        return read(*arguments, **named)

    def started(start: Callable[..., Any], memory: Any) -> _NumberedState:
        return _NumberedState(reading(start, memory), 0)

    def counted(
        take: Callable[..., Any], tokens: Tensor, state: _NumberedState, **named: Any
    ) -> tuple[Any, _NumberedState]:
        clock.step = state.step
        result, new = take(tokens, state.state, **named)
        if one_by_one:
            new = _visit_state(new, state.step, visit)
        return result, _NumberedState(new, state.step + 1)

    methods = vars(twin)
    methods.update(encode=partial(reading, twin.encode), attention_maps=partial(reading, twin.attention_maps))
    methods.update(start=partial(started, twin.start))
    if "advance" in model.defines:
        advance = partial(counted, twin.advance)
        advance = partial(token_by_token, advance) if one_by_one else advance
        methods.update(advance=advance, step=partial(Seq2Seq.step, twin), pre_logits=partial(Seq2Seq.pre_logits, twin))
    else:
        methods.update(step=partial(counted, twin.step))
    if one_by_one or "advance" not in model.defines:  # then the output layer, too, sees each step by itself
        methods.update(forward=partial(Seq2Seq.forward, twin), pre_logits=lambda *sides, source_mask: None)
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
