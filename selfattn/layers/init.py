"""Initialisation: every weight of every model gets its first values here, by the kind of its module.

====================================  ==================================================================
weight                                first values
====================================  ==================================================================
``Linear.weight``                     Xavier uniform (Glorot and Bengio 2010)
``Linear.bias``                       zero
``Embedding.weight``                  normal, standard deviation ``d^-1/2``; a padding row is zero
``LSTM``, ``GRU`` input weights       Xavier uniform, each gate on its own
``LSTM``, ``GRU`` recurrent weights   orthogonal, each gate on its own (Saxe et al. 2014)
``LSTM``, ``GRU`` biases              zero; the LSTM's forget gate one (Jozefowicz et al. 2015)
``LayerNorm``, ``RMSNorm``            weight one, bias zero
====================================  ==================================================================

Any other module may have a method ``initialise(generator)`` that fills its parameters and buffers; without one they
keep the values of its constructor, and a model that was built on the meta device has none. A weight that an embedding
and an output layer share is initialised as the embedding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@contextmanager
def without_memory() -> Iterator[None]:
    """Build modules on the meta device inside a ``with`` block, for their types and sizes alone.

    First values are not computed. PyTorch would import its compiler for those of an embedding, which takes a second.

    Example:
        >>> with without_memory():
        ...     layer = nn.Embedding(2, 3)
        >>> layer.weight.device.type, tuple(layer.weight.shape)
        ('meta', (2, 3))
    """
    with torch.device("meta"), _NoValues():
        yield


class _NoValues(TorchFunctionMode):
    """Leave tensors as they are where ``torch.nn.init`` would fill them."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" and "tensor" in options:
            return options["tensor"]
        return func(*args, **options)


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Give every parameter of ``model`` its first value, in place; on the meta device there is nothing to fill.

    Args:
        model: any module. A method ``initialise(generator)`` of a part fills the parameters that are its own, and not
            those of modules within it.
        generator: where the draws come from; the model's global state is not touched.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> initialise(layer, torch.Generator().manual_seed(0))
        >>> layer.bias.tolist()
        [0.0, 0.0, 0.0]

        A model that is built without memory, and then filled:

        >>> with torch.device("meta"):
        ...     layer = nn.Linear(2, 3)
        >>> initialise(layer.to_empty(device="cpu"), torch.Generator().manual_seed(0))
        >>> layer.bias.tolist()
        [0.0, 0.0, 0.0]
    """
    done: set[int] = set()
    modules = sorted(model.modules(), key=lambda module: not isinstance(module, nn.Embedding))  # shared weights first
    with torch.no_grad():
        for module in modules:
            rule = getattr(module, "initialise", None)
            if rule is not None:
                rule(generator)
                done |= {id(parameter) for parameter in module.parameters(recurse=False)}
            for name, parameter in module.named_parameters(recurse=False):
                if not (parameter.is_meta or id(parameter) in done):  # meta tensors have no values
                    done.add(id(parameter))
                    _fill(module, name, parameter, generator)


def _fill(module: nn.Module, name: str, parameter: Tensor, generator: torch.Generator) -> None:
    if not isinstance(module, nn.Linear | nn.Embedding | nn.LSTM | nn.GRU | nn.LayerNorm | nn.RMSNorm):
        return
    if name.startswith("bias"):
        parameter.zero_()
        if isinstance(module, nn.LSTM) and name.startswith("bias_ih"):
            parameter[module.hidden_size : 2 * module.hidden_size] = 1.0
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(parameter, generator=generator)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(parameter, std=module.embedding_dim**-0.5, generator=generator)
        if module.padding_idx is not None:
            parameter[module.padding_idx].zero_()
    elif isinstance(module, nn.LSTM | nn.GRU):
        fill = nn.init.xavier_uniform_ if name.startswith("weight_ih") else nn.init.orthogonal_
        for gate in torch.split(parameter, module.hidden_size):
            fill(gate, generator=generator)
    else:
        parameter.fill_(1.0)
