"""The attention weights of chosen layers, kept while a Hugging Face model runs.

A layer is one that hands queries and keys to an attention implementation. What it attends to, its tower and its number
are read off the model.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import takewhile
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.integrations.transformers import NAME, WATCHERS, register

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kind = Literal["encoder", "decoder", "cross"]
"""What an attention layer attends to."""

_CROSS = re.compile(r"cross|encoder_attn|encoder_attention|encdec|x_attn", re.IGNORECASE)
# What `generate` takes and a second reading of its tokens cannot repeat.
_REFUSED = ("past_key_values", "inputs_embeds", "encoder_outputs", "position_ids", "custom_generate")


@dataclass
class Layer:
    """The weights of one attention layer.

    Attributes:
        name: of the layer in the model, such as ``model.layers.0.self_attn``.
        kind: self-attention of an ``encoder`` or a ``decoder``, or ``cross``.
        tower: the part of the model, such as ``vision_model``, where several have layers of this kind; else empty.
        number: the model's own number of the layer, as in ``layers.3.``: layer 3 of a model in which only some layers
            have attention is 3. Where the layers of a tower have no numbers of their own, or share them, they are
            counted from 0.
        calls: the weights ``[b h i j]`` of each call, in order. A layer that the model uses twice has two in one call
            of the model; two that are equal there are kept once.
        starts: for each call, the position of its first row: not 0 where the model went on from a filled cache.
        has_run: whether the model called the layer.
    """

    name: str
    kind: Kind
    tower: str
    number: int
    calls: list[Tensor] = field(default_factory=list, repr=False)
    starts: list[int] = field(default_factory=list, repr=False)
    has_run: bool = False

    @property
    def weights(self) -> Tensor:
        """The weights ``[b h i j]`` of the only call.

        Raises:
            UserError: there are several calls, or none.
        """
        if len(self.calls) != 1:
            advice = "see `calls`, which has each" if self.calls else "run the model inside the block"
            raise UserError(f"watch: {self.name} has weights of {len(self.calls)} calls: {advice}")
        return self.calls[0]


class _Reading(NamedTuple):
    """One call of a part of a model.

    Attributes:
        number: of the call, over all parts.
        start: how many tokens the cache has before it.
        length: number of tokens that it reads; None where it reads no tokens.
    """

    number: int = -1
    start: int = 0
    length: int | None = None


class Watch:
    """The weights that :func:`watch` keeps, by layer.

    Attributes:
        by_module: the layers that are watched, in the model's order.
        heads: the heads that are watched; None: all.
        own: the layers that compute their attention in their own way, and have run.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] | None, heads: Sequence[int] | None) -> None:
        self.heads = None if heads is None else _chosen("heads", heads)
        self.by_module = attention_layers(model)
        self.own: dict[str, None] = {}
        if layers is not None:
            chosen = _chosen("layers", layers)
            numbers = {layer.number for layer in self.by_module.values()}
            if wrong := [number for number in chosen if number not in numbers]:
                raise UserError(f"`layers` {wrong[0]}: the model has layers {_ranges(sorted(numbers))} with attention")
            self.by_module = {module: layer for module, layer in self.by_module.items() if layer.number in chosen}
        self._part_of = _parts(model)
        self._readings: dict[nn.Module, _Reading] = {}  # the latest of each part
        self._last: dict[nn.Module, _Reading] = {}  # in which each layer was called last
        self._count = 0

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that were called so far."""
        return tuple(layer for layer in self.by_module.values() if layer.calls)

    @property
    def without_weights(self) -> tuple[str, ...]:
        """Names of the layers that ran and handed over no weights: they compute their attention in their own way."""
        silent = [layer.name for layer in self.by_module.values() if layer.has_run and not layer.calls]
        return (*silent, *self.own)

    def watches(self, module: nn.Module) -> bool:
        """Return whether the layer is watched, and does not run a second time for the sake of its gradient."""
        is_backward = torch._C._current_graph_task_id() != -1  # autograd runs the layer, whose results were not stored
        return module in self.by_module and not is_backward

    def keep(self, module: nn.Module, weights: Tensor) -> None:
        """Keep the weights ``[b h i j]`` of one call, cut to the heads that are watched."""
        if self.heads is not None:
            if not 0 <= min(self.heads) <= max(self.heads) < weights.shape[1]:
                raise UserError(f"`heads` {self.heads}: the layer has heads 0 to {weights.shape[1] - 1}")
            weights = weights[:, self.heads]
        layer = self.by_module[module]
        reading = self._readings.get(self._part_of[module], _Reading())
        is_again = bool(layer.calls) and self._last.get(module) == reading and reading.number >= 0
        self._last[module] = reading
        if is_again and torch.equal(layer.calls[-1], weights):
            return  # one query and key with two values, as in differential attention
        start = reading.start
        if layer.kind != "encoder" and reading.length is not None:  # some layers compute the last positions alone
            start += max(0, reading.length - weights.shape[2])
        layer.calls.append(weights.detach())
        layer.starts.append(start)

    @contextmanager
    def following(self, model: PreTrainedModel, *, is_whole: bool) -> Iterator[None]:
        """Note within the block which layers run, and from which position on.

        Args:
            model: that is watched.
            is_whole: whether all its layers are watched, those that compute their attention in their own way too.
        """
        with ExitStack() as stack:
            for module in self.by_module:
                stack.callback(module.register_forward_pre_hook(self._note_run).remove)
            for part in {self._part_of[module]: None for module in self.by_module}:
                stack.callback(part.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
            for name, module in _own_attention(model).items() if is_whole or not self.by_module else ():
                stack.callback(module.register_forward_pre_hook(partial(self._note_own, name)).remove)
            yield

    def _note_run(self, module: nn.Module, _: Any) -> None:
        if self in WATCHERS.get():
            self.by_module[module].has_run = True

    def _note_own(self, name: str, *_: Any) -> None:
        if self in WATCHERS.get():
            self.own[name] = None

    def _begin(self, part: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note from which position on a part of the model is about to read."""
        from transformers import Cache

        if self not in WATCHERS.get():
            return
        values = (*args, *options.values())
        cache = next((value for value in values if isinstance(value, Cache)), None)
        tokens = options.get("input_ids", args[0] if args else None)
        tokens = options.get("inputs_embeds") if tokens is None else tokens
        length = tokens.shape[1] if isinstance(tokens, Tensor) and tokens.dim() in (2, 3) else None
        self._count += 1
        self._readings[part] = _Reading(self._count, 0 if cache is None else int(cache.get_seq_length()), length)


@contextmanager
def watch(
    model: PreTrainedModel, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> Iterator[Watch]:
    """Keep the attention weights of chosen layers while a Hugging Face model runs.

    All other layers stay on the fused path, which has no weights. Within the block the model uses the attention
    implementation ``selfattn``, uncompiled; afterwards it is as it was. The weights are those before dropout. They are
    computed apart, so that looking changes neither outputs nor gradients.

    Args:
        model: of transformers.
        layers: the model's own numbers of its layers, as in ``layers.3.``; of all kinds and towers; default all.
        heads: numbers from 0; default all.

    Yields:
        A :class:`Watch` that fills while the model runs.

    What ``model.generate`` returns is read again by one call of the model, without gradients, and that call is watched.

    Raises:
        UserError: transformers is not installed, there is no such layer or head, the model does not take attention
            implementations, it generates in its own way or from something else than tokens, or the rows of its weights
            do not sum to 1.

    Warns:
        UserWarning: a layer ran and handed over no weights.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(
        ...     vocab_size=11, hidden_size=4, num_hidden_layers=3, num_attention_heads=2, intermediate_size=4
        ... )
        >>> model = BertModel(config).eval()
        >>> with watch(model, layers=[2]) as seen:
        ...     output = model(torch.tensor([[3, 5, 7]]))
        >>> [(layer.kind, layer.number, tuple(layer.weights.shape)) for layer in seen.layers]
        [('encoder', 2, (1, 2, 3, 3))]
    """
    register()
    from transformers import PreTrainedModel

    model = getattr(model, "_orig_mod", model)  # compiled
    if not hasattr(model, "set_attn_implementation"):  # as adapters around one have it, too
        raise UserError(f"watch: expected a model of transformers, got {type(model).__name__}")
    watched = Watch(model, layers, heads)
    before = [(part, part.config._attn_implementation) for part in model.modules() if isinstance(part, PreTrainedModel)]
    token = WATCHERS.set((*WATCHERS.get(), watched))
    try:
        model.set_attn_implementation(NAME)
        if model.config._attn_implementation != NAME:
            raise UserError(f"{type(model).__name__}: this model does not take attention implementations")
        with watched.following(model, is_whole=layers is None), _reading_again(model), uncompiled():
            yield watched
    finally:
        WATCHERS.reset(token)
        for part, implementation in before:
            part.config._attn_implementation_internal = implementation
    if silent := watched.without_weights:
        names = ", ".join(silent)
        warnings.warn(f"watch: no weights from {names}: computed in a way of the model's own", stacklevel=3)


class _Stance:
    """The stance of torch's compiler, which is one for all threads: the first watch sets it, the last puts it back."""

    lock = threading.Lock()
    count = 0
    eager: Any = None


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled models uncompiled within the block, in all threads.

    A compiled graph cannot say who wants its weights, and a change of that would compile it again.
    """
    with _Stance.lock:
        if _Stance.count == 0:
            _Stance.eager = torch.compiler.set_stance("force_eager")
        _Stance.count += 1
    try:
        yield
    finally:
        with _Stance.lock:
            _Stance.count -= 1
            if _Stance.count == 0:
                _Stance.eager.__exit__(None, None, None)


def _parts(model: PreTrainedModel) -> dict[nn.Module, nn.Module]:
    """Return for each module the innermost model of transformers that it is part of: the one that has its cache."""
    from transformers import PreTrainedModel

    owner: dict[nn.Module, nn.Module] = {}
    for part in model.modules():  # outer ones first
        if isinstance(part, PreTrainedModel):
            owner.update(dict.fromkeys(part.modules(), part))
    return owner


def _own_attention(model: nn.Module) -> dict[str, nn.Module]:
    """Return the innermost modules that are attention by the name of their class, and hand over no queries and keys."""
    interfaces = [name for name, module in model.named_modules() if _has_interface(module)]
    named = [
        name for name, module in model.named_modules() if re.search("Attention(?!.*Output)", type(module).__name__)
    ]
    innermost = {}
    for name in named:
        is_inside = any(name == other or name.startswith(f"{other}.") for other in interfaces)
        is_around = any(other.startswith(f"{name}.") for other in (*interfaces, *named))
        if not is_inside and not is_around:
            innermost[name] = model.get_submodule(name)
    return innermost


@contextmanager
def _reading_again(model: Any) -> Iterator[None]:
    """Watch within the block, in place of the calls that ``generate`` makes, one that reads the tokens it returns."""
    if not hasattr(model, "generate") or "generate" in vars(model):  # or another watch does it
        yield
        return
    generate = model.generate
    vars(model)["generate"] = wraps(generate)(partial(_generated, model, generate))
    try:
        yield
    finally:
        del vars(model)["generate"]


def _generated(model: Any, generate: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Generate unwatched, and read the tokens once more: a row for each, whatever the search and its cache."""
    from transformers import GenerationMixin

    if not WATCHERS.get():  # another thread
        return generate(*args, **options)
    if type(model).generate is not GenerationMixin.generate:
        advice = "generate outside, and watch a call of the model with the tokens"
        raise UserError(f"watch: {type(model).__name__} generates in its own way: {advice}")
    inputs = _inputs_of(model, args, options)
    token = WATCHERS.set(())
    try:
        result = generate(*args, **options)
    finally:
        WATCHERS.reset(token)
    tokens = result if isinstance(result, Tensor) else result.sequences
    with torch.no_grad():
        model(**_with_tokens(model, inputs, tokens[:, :-1]))
    return result


def _inputs_of(model: Any, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Tensor]:
    """Return the tensors that ``generate`` hands on to the model.

    Raises:
        UserError: something of them cannot be read again.
    """
    for name in _REFUSED:
        if options.get(name) is not None:
            raise UserError(f"watch: `{name}` of `generate` cannot be read again: give tokens, or generate outside")
    main = model.main_input_name
    named_inputs = dict(options)
    for value in (*args[:1], named_inputs.pop("inputs", None)):
        if value is not None:
            named_inputs[main] = value
    named = inspect.signature(model.forward).parameters
    inputs = {name: value for name, value in named_inputs.items() if name in named and isinstance(value, Tensor)}
    if main not in inputs:
        raise UserError(f"watch: `generate` needs `{main}`: give what the model reads first")
    pad = options.get("pad_token_id", model.generation_config.pad_token_id)
    has_padding = main == "input_ids" and pad is not None and bool((inputs[main] == pad).any())
    if has_padding and "attention_mask" not in inputs and pad != model.generation_config.eos_token_id:
        raise UserError("watch: the tokens have padding: give `generate` their `attention_mask`")
    return inputs


def _with_tokens(model: Any, inputs: dict[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    """Return what the model reads with the tokens ``[r t]`` that it generated, ``r / b`` for each row of the inputs."""
    rows = len(inputs[model.main_input_name])
    inputs = {
        name: value.repeat_interleave(len(tokens) // rows, 0) if len(value) == rows else value
        for name, value in inputs.items()
    }
    is_pair = bool(model.config.is_encoder_decoder)
    for name in ("decoder_attention_mask",) if is_pair else ("attention_mask", "token_type_ids", "mm_token_type_ids"):
        if name in inputs:
            padding = (0, tokens.shape[1] - inputs[name].shape[1])
            inputs[name] = nn.functional.pad(inputs[name], padding, value=int(name.endswith("mask")))
    inputs["decoder_input_ids" if is_pair else "input_ids"] = tokens
    mask = inputs.get("attention_mask")
    has_positions = "position_ids" in inspect.signature(model.forward).parameters
    if not is_pair and has_positions and mask is not None and not mask.all():  # padding on the left has no position
        inputs["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)
    return inputs


def _chosen(name: str, numbers: Sequence[int]) -> list[int]:
    """Check the numbers of layers or heads."""
    chosen = list(numbers) if isinstance(numbers, Iterable) else [None]
    if any(isinstance(number, bool) or not isinstance(number, Integral) for number in chosen):
        raise UserError(f"`{name}` {numbers!r}: expected a list of whole numbers from 0, or None for all")
    if not chosen:
        raise UserError(f"`{name}` is empty: give numbers from 0, or None for all")
    return [int(number) for number in chosen]


def _ranges(numbers: list[int]) -> str:
    """Write numbers from lowest to highest as ``0 to 3, 7``; without any, ``none``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return ", ".join(texts) or "none"


def attention_layers(model: nn.Module) -> dict[nn.Module, Layer]:
    """Return the layers that hand queries and keys to an attention implementation, in the model's order.

    Args:
        model: of transformers.

    Example:
        >>> from transformers import CLIPConfig, CLIPModel
        >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
        >>> model = CLIPModel(CLIPConfig(text_config=sizes | {"vocab_size": 5}, vision_config=sizes))
        >>> [(layer.tower, layer.kind, layer.number) for layer in attention_layers(model).values()]
        [('text_model', 'encoder', 0), ('vision_model', 'encoder', 0)]
    """
    modules = {name: module for name, module in model.named_modules() if _has_interface(module)}
    reads = {name: part.main_input_name for name, part in model.named_modules() if hasattr(part, "main_input_name")}
    kinds = {name: _kind(name, module, _innermost(reads, name)) for name, module in modules.items()}
    layers = {}
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name in modules if kinds[name] == kind]
        towers = _towers(names)
        for tower in dict.fromkeys(towers.values()):
            members = [name for name in names if towers[name] == tower]
            numbers = _numbers(members, [modules[name] for name in members])
            for name, number in zip(members, numbers, strict=True):
                layers[name] = Layer(name, kind, tower, number)
    return {module: layers[name] for name, module in modules.items()}


def _has_interface(module: nn.Module) -> bool:
    """Whether the module asks transformers for its attention implementation."""
    code: Any = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _innermost(reads: dict[str, str], name: str) -> str:
    """Return the main input of the innermost model that a layer is part of."""
    parts = [part for part in reads if not part or name.startswith(f"{part}.")]
    return reads[max(parts, key=len)] if parts else ""


def _kind(name: str, module: nn.Module, main_input: str) -> Kind:
    """Say what a layer attends to: by what it says, by its name within its block, and by the masks of its family."""
    parts = name.split(".")
    numbered = [n for n, part in enumerate(parts) if part.isdigit()]
    in_block = ".".join(parts[numbered[-1] + 1 :] if numbered else parts[-2:])
    says: Any = getattr(module, "is_cross_attention", None)
    if says is True or _CROSS.search(in_block) or "Cross" in type(module).__name__:
        return "cross"
    if getattr(module, "is_causal", False) or any(part.endswith("decoder") for part in parts):
        return "decoder"
    if not hasattr(module, "is_causal") and main_input == "input_ids":
        family = vars(sys.modules[type(module).__module__])
        if "create_causal_mask" in family and "create_bidirectional_mask" not in family:
            return "decoder"
    return "encoder"


def _towers(names: list[str]) -> dict[str, str]:
    """Name the tower of each layer by where the path to its list of layers differs from the others; empty for one."""
    paths = {}
    for name in names:
        parts = name.split(".")
        path = tuple(takewhile(lambda part: not part.isdigit(), parts))
        paths[name] = path if len(path) < len(parts) else path[:-1]  # a layer that is in no list
    lists = set(paths.values())
    shared = sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*lists, strict=False)))
    return {name: ".".join(path[shared : _end(path, lists)]) if len(lists) > 1 else "" for name, path in paths.items()}


def _end(path: tuple[str, ...], lists: set[tuple[str, ...]]) -> int:
    """Return how many components of a path tell it apart from all others."""
    ends = (end for end in range(1, len(path)) if sum(other[:end] == path[:end] for other in lists) == 1)
    return next(ends, len(path))


def _numbers(names: list[str], modules: list[nn.Module]) -> list[int]:
    """Return the model's own numbers of the layers of one tower, or a count where these do not tell them apart."""
    first = [next((int(part) for part in name.split(".") if part.isdigit()), None) for name in names]
    index: list[Any] = [getattr(module, "layer_idx", None) for module in modules]
    for numbers in (first, index):
        if all(isinstance(number, int) for number in numbers) and len(set(numbers)) == len(numbers):
            return [number for number in numbers if number is not None]
    return list(range(len(names)))
