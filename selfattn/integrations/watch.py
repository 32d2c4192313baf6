"""The attention weights of chosen layers, kept while a Hugging Face model runs."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.integrations.layers import attention_layers
from selfattn.integrations.passages import Call, Layer, Passage
from selfattn.integrations.transformers import NAME, WATCHERS, register

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Watch:
    """The weights that :func:`watch` keeps, by layer.

    Attributes:
        by_module: the layers that are watched, in the model's order.
        heads: the heads that are watched; None: all.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] | None, heads: Sequence[int] | None) -> None:
        self.heads = None if heads is None else _chosen("heads", heads)
        self.by_module = attention_layers(model)
        if layers is not None:
            chosen = _chosen("layers", layers)
            numbers = {layer.number for layer in self.by_module.values()}
            if wrong := [number for number in chosen if number not in numbers]:
                raise UserError(f"`layers` {wrong[0]}: the model has layers {_ranges(sorted(numbers))} with attention")
            self.by_module = {module: layer for module, layer in self.by_module.items() if layer.number in chosen}
        self._part_of = _parts(model)
        self._passages: list[tuple[nn.Module, Passage]] = []
        self._current: dict[nn.Module, Passage] = {}  # of the parts that are running

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that were called so far."""
        return tuple(layer for layer in self.by_module.values() if layer.placed)

    @property
    def without_weights(self) -> tuple[Layer, ...]:
        """The layers that ran and handed over no weights: they compute their attention in their own way."""
        return tuple(layer for layer in self.by_module.values() if layer.has_run and not layer.placed)

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
        passage = self._current.get(self._part_of[module]) or Passage()  # a layer that is called by itself
        passage.begun = passage.begun or passage.start + weights.shape[2]
        previous = layer.placed[-1] if layer.placed else None
        is_again = previous is not None and (previous.passage, previous.forward) == (passage, passage.forward)
        use = previous.use + 1 if previous is not None and is_again else 0
        layer.placed.append(Call.of(weights.detach(), passage, use, layer.kind == "cross"))

    @contextmanager
    def following(self, model: PreTrainedModel) -> Iterator[None]:
        """Follow within the block which calls of the model go through one sequence."""
        with ExitStack() as stack:
            for module in self.by_module:
                stack.callback(module.register_forward_pre_hook(self._note_run).remove)
            for part in {self._part_of[module]: None for module in self.by_module}:
                stack.callback(part.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
                stack.callback(part.register_forward_hook(self._end, always_call=True).remove)
            if hasattr(model, "generate"):
                before = {name: value for name, value in vars(model).items() if name == "generate"}
                stack.callback(vars(model).update, before)
                stack.callback(vars(model).pop, "generate", None)  # before the other
                generate: Any = model.generate
                vars(model)["generate"] = wraps(generate)(partial(self.generated, model, generate))
            yield

    def _note_run(self, module: nn.Module, _: Any) -> None:
        if self in WATCHERS.get():
            self.by_module[module].has_run = True

    def _begin(self, part: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note which sequence a part of the model is about to go through, and from where on."""
        if self not in WATCHERS.get():
            return
        cache = _cache((*args, *options.values()))
        start = 0 if cache is None else int(cache.get_seq_length())
        candidates = [passage for owner, passage in self._passages if owner is part and passage.has(cache)]
        if start and candidates:
            passage = candidates[-1]
        else:
            passage = Passage(None if cache is None else ref(cache))
            self._passages.append((part, passage))
        passage.forward += 1
        passage.start = start
        passage.length = None
        self._current[part] = passage

    def _end(self, part: nn.Module, _: Any, output: Any) -> None:
        """Note the cache that a part of the model made itself."""
        passage = self._current.pop(part, None) if self in WATCHERS.get() else None
        if passage is not None and passage.cache is None and output is not None:
            cache = _cache(output.values() if isinstance(output, dict) else output)
            passage.cache = None if cache is None else ref(cache)

    def generated(self, model: Any, generate: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call ``model.generate``, and note where its sequences end and which beams wrote them."""
        from transformers import GenerationConfig, GenerationMixin

        configs = [value for value in (*args, *options.values()) if isinstance(value, GenerationConfig)]
        config = configs[0] if configs else model.generation_config
        num_beams = options.get("num_beams", config.num_beams) or 1
        drafts = (options.get("assistant_model"), options.get("prompt_lookup_num_tokens"))
        if self not in WATCHERS.get():
            return generate(*args, **options)
        if type(model).generate is not GenerationMixin.generate:
            if num_beams > 1 or any(draft is not None for draft in drafts):
                raise UserError(f"watch: {type(model).__name__} generates in its own way: leave out beams and drafts")
            return generate(*args, **options)
        if num_beams > 1 and options.get("use_cache", config.use_cache) is False:
            raise UserError("watch: a beam search without cache cannot be followed: leave out `use_cache=False`")
        wants_all = options.get("return_dict_in_generate", config.return_dict_in_generate)
        for _, passage in self._passages:
            passage.begun = 0
        result = generate(*args, **{**options, "return_dict_in_generate": True})
        if isinstance(result, Tensor):  # of a way to generate that the caller hands over
            return result
        beams = getattr(result, "beam_indices", None)
        for _, passage in self._passages:
            if passage.cache is None or not passage.begun:
                continue  # the encoder, which has a row for each source; or not called
            if beams is not None:
                if passage.beams is not None:
                    raise UserError("watch: a sequence went through two beam searches: watch each apart")
                passage.beams = beams
                passage.prompt = max(passage.begun, result.sequences.shape[1] - beams.shape[1])
                passage.length = passage.prompt + beams.shape[1] - 1
            elif passage.has(result.past_key_values):
                passage.length = int(result.past_key_values.get_seq_length())
        return result if wants_all else result.sequences


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

    Raises:
        UserError: transformers is not installed, there is no such layer or head, the model does not take attention
            implementations, or it runs a beam search that cannot be followed.

    Warns:
        UserWarning: a watched layer ran and handed over no weights.

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
        with watched.following(model), uncompiled():
            yield watched
    finally:
        WATCHERS.reset(token)
        for part, implementation in before:
            part.config._attn_implementation_internal = implementation
    if silent := watched.without_weights:
        names = ", ".join(layer.name for layer in silent)
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


def _cache(values: Iterable[Any]) -> Any:
    """Return the first cache among the values, or None."""
    from transformers import Cache

    return next((value for value in values if isinstance(value, Cache)), None)


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
