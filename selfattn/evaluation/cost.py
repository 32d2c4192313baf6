"""The cost of a model: floating-point operations and peak memory.

Matrix products count, a multiplication and an addition as two operations. Softmax, norms, activations and look-ups are
left out, as usual (Kaplan et al. 2020, section 2.1). The count follows the mathematics, not the kernel: masked scores
count, and recomputed values do not count twice. So the number is the same on every device.

The formulas are those of PyTorch's ``FlopCounterMode``. This module adds three for operations that it does not know on
the CPU: LSTM layers by oneDNN, fused attention, and matrix times vector.
"""

import copy
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, shape_wrapper

from selfattn.errors import UserError
from selfattn.models.build import build, parameters
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq, stepped_logits

_LARGEST = 500_000_000  # parameters of a model that is built only to be counted: 2 GB

Size = tuple[int, ...]


@dataclass(frozen=True)
class BatchShape:
    """The size of a batch without padding.

    Attributes:
        batch: rows ``b``.
        source: tokens of a source, ``s``, its ``<eos>`` counted.
        target: tokens of a target, ``t``, its ``<eos>`` counted.
    """

    batch: int
    source: int
    target: int


@dataclass(frozen=True)
class Flops:
    """Floating-point operations on one batch.

    Attributes:
        forward: of ``forward``, all target positions at once.
        training: of ``forward`` and its gradients; the optimizer's few operations a parameter are left out.
        decoding: of writing the targets step by step: ``encode``, ``start`` and ``t`` times ``step``.
    """

    forward: int
    training: int
    decoding: int


def count_flops(model: Seq2Seq, shape: BatchShape) -> Flops:
    """Count what a model computes on a batch; nothing of the model is changed.

    Args:
        model: counted on a copy, in float32 on the CPU, in evaluation mode.
        shape: of the batch. Rows are independent, so one is counted, and multiplied.

    Example:
        >>> from selfattn.models.families import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=47, pad_id=0, seed=0)
        >>> flops = count_flops(model, BatchShape(batch=64, source=30, target=11))
        >>> flops.forward, flops.training == 3 * flops.forward
        (490967040, True)
    """

    def forward(probe: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor) -> None:
        probe(source, target, source_mask=mask)

    def decoding(probe: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor) -> None:
        state = probe.start(probe.encode(source, mask))
        stepped_logits(probe, target, state)

    # no_grad, not inference mode: there composite operations reach the counter undivided.
    with torch.no_grad():
        return Flops(*(_count(model, shape, run) for run in (forward, _training, decoding)))


def training_flops(config: ModelConfig, vocab_size: int, shape: BatchShape) -> int:
    """Count the training of a model that is not built yet: a measure for `selfattn.models.build.match`.

    Args:
        config: of the model.
        vocab_size: number of tokens.
        shape: of a batch.

    Raises:
        UserError: the model is too large to be built for the count.

    Example:
        >>> from selfattn.models.families import PRESETS
        >>> training_flops(PRESETS["transformer"].config, 47, BatchShape(64, 30, 11))
        1472901120
    """
    size = parameters(config, vocab_size)
    if size > _LARGEST:
        raise UserError(f"counting operations: a model of {size:,} parameters is too large for it; lower the budget")
    return _count(build(config, vocab_size=vocab_size, pad_id=0, seed=0), shape, _training)


def peak_memory(run: Callable[[], object]) -> int:
    """Measure how much more memory tensors hold on the CPU at the worst moment of a computation than before it.

    The storage of every tensor that an operation returns is tracked until it is freed; scratch space inside an
    operation is not seen.

    Args:
        run: what to measure, such as a training step. Run it once before, so that gradients and the optimizer's state
            are not counted.

    Returns:
        Bytes, more than was held before.

    Example:
        >>> def run():
        ...     x = torch.ones(1000)  # 4,000 bytes
        ...     y = x + 1  # and as many again
        ...     del x, y
        ...     z = torch.ones(500)
        >>> peak_memory(run)
        8000
    """
    storages = _Storages()
    with storages:
        run()
    return storages.peak


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given: a GPU works on while Python reads the clock."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch annotates no modes
    """Sees every operation, in code that is not compiled."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch imports its compiler, which takes longer than to count


class _Operations(_Mode):
    """Adds up the operations of all products, as ``FlopCounterMode`` does, which also notes the module of each."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:
            returned = func.decompose(*args, **kwargs)
        if returned is not NotImplemented:
            return returned
        returned = func(*args, **kwargs)
        if formula := _FORMULAS.get(func._overloadpacket):
            self.total += formula(*args, **kwargs, out_val=returned)
        return returned


class _Storages(_Mode):
    """Follows the memory behind every tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        self.held = self.peak = 0
        self._watched: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        composite = DispatchKey.CompositeImplicitAutograd
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), composite):
            # In inference mode composite operations come whole: what happens inside them counts. `func.decompose` would
            # take PyTorch's Python forms of them, whose dropout of nothing makes a copy that is never made.
            with self:
                return func._op_dk(composite, *args, **(kwargs or {}))
        storages = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        returned = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(returned):
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in storages:  # not a view, not in place
                self._watch(leaf.untyped_storage())
        return returned

    def _watch(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        size = storage.nbytes()
        if key in self._watched:
            return

        def died(_: object) -> None:
            del self._watched[key]
            self.held -= size

        self._watched[key] = weakref.ref(storage, died)
        self.held += size
        self.peak = max(self.peak, self.held)


def _count(model: Seq2Seq, shape: BatchShape, run: Callable[[Seq2Seq, Tensor, Tensor, Tensor], None]) -> int:
    """Count what a copy of the model computes on one row, and multiply by the rows of the batch."""
    probe = copy.deepcopy(model).to("cpu", torch.float32).eval()
    source, target = (torch.zeros(1, length, dtype=torch.int64) for length in (shape.source, shape.target))
    counter = _Operations()
    with counter:
        run(probe, source, torch.ones_like(source, dtype=torch.bool), target)
    return shape.batch * counter.total


def _training(probe: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor) -> None:
    with torch.enable_grad():
        probe(source, target, source_mask=mask).sum().backward()


def _lstm(x: Size, input_weight: Size, state_weight: Size, *_: Any, **__: Any) -> int:
    """One layer in one direction: every row at every step times both weights."""
    return 2 * math.prod(x[:-1]) * (math.prod(input_weight) + math.prod(state_weight))


def _attention(query: Size, key: Size, value: Size, *_: Any, **__: Any) -> int:
    """Scores ``[i e] [e j]`` and sums ``[i j] [j c]`` for every row and head."""
    *rows, i, e = query
    j, c = value[-2:]
    return 2 * math.prod(rows) * i * j * (e + c)


_aten = torch.ops.aten
_MISSING: dict[Any, Any] = {  # each product has a gradient for either factor
    _aten.mkldnn_rnn_layer: _lstm,
    _aten.mkldnn_rnn_layer_backward: lambda *sizes, **_: 2 * _lstm(*sizes),
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda _grad, *sizes, **_: 2 * _attention(*sizes),
    _aten.mv: lambda matrix, _vector, **_: 2 * math.prod(matrix),
}
_FORMULAS = flop_registry | {packet: shape_wrapper(formula) for packet, formula in _MISSING.items()}  # type: ignore[no-untyped-call]
