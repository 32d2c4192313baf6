"""The attention weights of chosen layers, kept while a Hugging Face model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.integrations.transformers import NAME, WATCHERS, attention, register

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kind = Literal["encoder", "decoder", "cross"]


@dataclass
class Layer:
    """The weights of one attention layer, for each time that the model called it.

    Attributes:
        name: of the layer in the model, such as ``model.layers.0.self_attn``.
        kind: self-attention of an ``encoder`` or a ``decoder``, or ``cross``.
        number: of the layer among those of its kind, from 0.
        calls: the weights ``[b h i j]`` of each call; while generating, one for each token.
    """

    name: str
    kind: Kind
    number: int
    calls: list[Tensor] = field(default_factory=list)

    @property
    def weights(self) -> Tensor:
        """The weights ``[b h i j]`` of all calls, one below the other; a key that a call did not have yet is 0."""
        longest = max(call.shape[-1] for call in self.calls)
        padded = [nn.functional.pad(call, (0, longest - call.shape[-1])) for call in self.calls]
        return torch.cat(padded, dim=-2)


class Watch:
    """The weights that :func:`watch` keeps, by layer.

    Attributes:
        by_module: the layers that are watched, in the model's order.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] | None, heads: Sequence[int] | None) -> None:
        self._heads = None if heads is None else list(heads)
        self.by_module: dict[nn.Module, Layer] = {}
        counts: dict[Kind, int] = {}
        for name, module in _attention_layers(model):
            kind = _kind(name, module)
            number = counts[kind] = counts.get(kind, -1) + 1
            if layers is None or number in layers:
                self.by_module[module] = Layer(name, kind, number)
        highest = max(counts.values(), default=-1)
        if layers is not None and (wrong := [k for k in layers if not 0 <= k <= highest]):
            raise UserError(f"`layers` {wrong[0]}: the model has layers 0 to {highest}")

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that were called so far."""
        return tuple(layer for layer in self.by_module.values() if layer.calls)

    def watches(self, module: nn.Module) -> bool:
        """Return whether the layer is watched."""
        return module in self.by_module

    def keep(self, module: nn.Module, weights: Tensor) -> None:
        """Keep the weights ``[b h i j]`` of one call, cut to the heads that are watched."""
        if self._heads is not None:
            if not 0 <= min(self._heads) <= max(self._heads) < weights.shape[1]:
                raise UserError(f"`heads` {self._heads}: the layer has heads 0 to {weights.shape[1] - 1}")
            weights = weights[:, self._heads]
        self.by_module[module].calls.append(weights.detach())


@contextmanager
def watch(
    model: PreTrainedModel, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> Iterator[Watch]:
    """Keep the attention weights of chosen layers while a Hugging Face model runs.

    All other layers stay on the fused path, which has no weights. Within the block the model uses the attention
    implementation ``selfattn``; afterwards it uses its former one.

    Args:
        model: of transformers.
        layers: numbers from 0, counted apart for encoder, decoder and cross-attention; default all.
        heads: numbers from 0; default all.

    Yields:
        A :class:`Watch` that fills while the model runs.

    Raises:
        UserError: transformers is not installed, there is no such layer or head, or the model does not take
            attention implementations.

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

    watched = Watch(model, layers, heads)
    before = [(part, part.config._attn_implementation) for part in model.modules() if isinstance(part, PreTrainedModel)]
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation != NAME:
        raise UserError(f"{type(model).__name__}: this model does not take attention implementations")
    token = WATCHERS.set((*WATCHERS.get(), watched))
    try:
        yield watched
    finally:
        WATCHERS.reset(token)
        for part, implementation in before:
            part.config._attn_implementation_internal = implementation


def _attention_layers(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that hand queries and keys to an attention implementation, with their names."""
    for name, module in model.named_modules():
        if "attention_interface" in getattr(type(module).forward, "__code__", attention.__code__).co_varnames:
            yield name, module


def _kind(name: str, module: nn.Module) -> Kind:
    """Say what a layer attends to, by its name and by whether it hides the future."""
    if any(word in name.lower() for word in ("crossattention", "cross_attn", "encoder_attn", "encdecattention")):
        return "cross"
    is_decoder = ".decoder." in f".{name}." or getattr(module, "is_causal", False)
    return "decoder" if is_decoder else "encoder"
