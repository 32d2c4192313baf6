"""The cost of a model: floating-point operations, time to decode, peak memory, and the peak rate of a machine.

Matrix products count, a multiplication and an addition as two operations. Softmax, norms, activations and look-ups are
left out, as usual (Kaplan et al. 2020, section 2.1). The count follows the mathematics, not the kernel: masked scores
count, and recomputed values do not count twice. So the number is the same on every device.

PyTorch's ``FlopCounterMode`` counts. This module adds formulas for three operations that it does not know on the CPU:
LSTM layers by oneDNN, fused attention, and matrix times vector.
"""

import copy
import math
import statistics
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from timeit import timeit
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq, stepped_logits
from selfattn.models.sizing import parameters
from selfattn.results.record import DecodingCost

# What decoding is timed with.
_BEAM = 5
_BATCHES = (1, 64)
_LENGTHS = (8, 32)
_NO_END = -1  # as eos_id: an id that no model can write, so that every target gets its full length
_LARGEST = 500_000_000  # parameters of a model that is built only to be counted: 2 GB

# Matrix products that show a machine's peak.
_PEAK_SIZE = 1024
_PEAK_REPEATS = 20

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
        >>> from selfattn.models.presets import PRESETS
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
    """Count the training of a model that is not built yet: a measure for `selfattn.models.sizing.match`.

    Args:
        config: of the model.
        vocab_size: number of tokens.
        shape: of a batch.

    Raises:
        UserError: the model is too large to be built for the count.

    Example:
        >>> from selfattn.models.presets import PRESETS
        >>> training_flops(PRESETS["transformer"].config, 47, BatchShape(64, 30, 11))
        1472901120
    """
    size = parameters(config, vocab_size)
    if size > _LARGEST:
        raise UserError(f"counting operations: a model of {size:,} parameters is too large for it; lower the budget")
    return _count(build(config, vocab_size=vocab_size, pad_id=0, seed=0), shape, _training)


def decoding_times(
    model: Seq2Seq, *, vocab_size: int, source_length: int, repeats: int = 3
) -> tuple[DecodingCost, ...]:
    """Time greedy decoding and a beam of 5 against the target's length: 8 and 32 tokens, of 1 and 64 sources together.

    The decoder runs once for one token and once for all of them. The difference, divided by the further tokens, is the
    time per token; the median counts. If steps get slower as the prefix grows, ``token_ms`` grows with the length.

    Args:
        model: any model of the protocol, on any device.
        vocab_size: its number of source tokens, from which the sources are drawn, always the same.
        source_length: tokens of each source.
        repeats: measurements of each, of which the median counts; default 3.

    Returns:
        A result for each method, batch and length.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["rnn-plain"].config, vocab_size=11, pad_id=0, seed=0)
        >>> times = decoding_times(model, vocab_size=11, source_length=5, repeats=1)
        >>> [(time.method, time.length) for time in times[:2]], times[-1].method, times[0].first_ms > 0
        ([('greedy', 8), ('greedy', 32)], 'beam 5', True)
    """
    device = model.device
    methods: dict[str, Any] = {"greedy": greedy, f"beam {_BEAM}": partial(beam_search, beam_size=_BEAM)}
    times = []
    for (method, decode), batch in product(methods.items(), _BATCHES):
        draw = torch.Generator().manual_seed(0)
        source = torch.randint(vocab_size, (batch, source_length), generator=draw).to(device)
        write = partial(decode, model, source, torch.ones_like(source, dtype=torch.bool), bos_id=1, eos_id=_NO_END)
        _seconds(partial(write, max_length=1), device)  # warms up
        for length in _LENGTHS:
            # One token and all of them by turns, so that a busy moment of the machine meets both.
            pairs = [[_seconds(partial(write, max_length=n), device) for n in (1, length)] for _ in range(repeats)]
            first = statistics.median(short for short, _ in pairs)
            further = statistics.median((full - short) / (length - 1) for short, full in pairs)
            times.append(DecodingCost(method, batch, length, 1000 * first, 1000 * further))
    return tuple(times)


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


def machine_peak(device: torch.device) -> float:
    """Measure how many floating-point operations a second a product of two square matrices reaches, at best.

    Args:
        device: where to multiply.

    Returns:
        Operations a second, with as many threads as PyTorch uses now.

    Example:
        >>> machine_peak(torch.device("cpu")) > 0
        True
    """
    left, right = (torch.ones(_PEAK_SIZE, _PEAK_SIZE, device=device) for _ in range(2))
    left @ right  # the first one sets things up
    return 2 * _PEAK_SIZE**3 / min(_seconds(lambda: left @ right, device) for _ in range(_PEAK_REPEATS))


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """Time a computation on a device."""

    def run_to_the_end() -> None:
        run()
        synchronise(device)

    synchronise(device)
    return timeit(run_to_the_end, number=1)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given: a GPU works on while Python reads the clock."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Storages(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch annotates no modes
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
    counter = FlopCounterMode(display=False, custom_mapping=_MISSING)
    with counter:
        run(probe, source, torch.ones_like(source, dtype=torch.bool), target)
    return shape.batch * counter.get_total_flops()


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
