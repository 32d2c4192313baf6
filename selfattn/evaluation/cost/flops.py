"""Count the floating-point operations of a model, and measure the peak rate of a machine.

Matrix products count, a multiplication and an addition as two operations. Softmax, norms, activations and look-ups are
left out, as usual (Kaplan et al. 2020, section 2.1). The count follows the mathematics, not the kernel: masked scores
count, and recomputed values do not count twice. So the number is the same on every device.

PyTorch's ``FlopCounterMode`` counts. This module adds formulas for three operations that it does not know on the CPU:
LSTM layers by oneDNN, fused attention, and matrix times vector.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from selfattn.errors import UserError
from selfattn.evaluation.cost.decoding import synchronise
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.sizing import parameters

Size = tuple[int, ...]

_LARGEST = 500_000_000  # parameters of a model that is built only to be counted: 2 GB


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
        shape: of the batch.
        forward: of ``forward``, all target positions at once.
        training: of ``forward`` and its gradients; the optimizer's few operations a parameter are left out.
        decoding: of writing the targets step by step: ``encode``, ``start`` and ``t`` times ``step``.
    """

    shape: BatchShape
    forward: int
    training: int
    decoding: int

    @property
    def training_per_token(self) -> float:
        """Operations of training for each target token."""
        return self.training / (self.shape.batch * self.shape.target)

    @property
    def decoding_per_token(self) -> float:
        """Operations of decoding for each target token, reading the source included."""
        return self.decoding / (self.shape.batch * self.shape.target)


def count_flops(model: Seq2Seq, shape: BatchShape) -> Flops:
    """Count what a model computes on a batch; nothing of the model is changed.

    Args:
        model: counted on a copy, in float32 on the CPU, in evaluation mode.
        shape: of the batch. Rows are independent, so one is counted, and multiplied.

    Raises:
        ValueError: a size is not positive.

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
        for token in target.unbind(dim=1):
            _, state = probe.step(token, state)

    # no_grad, not inference mode: there composite operations reach the counter undivided.
    with torch.no_grad():
        counts = _count(model, shape, forward), _count(model, shape, decoding)
    return Flops(shape, counts[0], _count(model, shape, _training), counts[1])


def training_flops(config: ModelConfig, vocab_size: int, shape: BatchShape) -> int:
    """Count the training of a model that is not built yet: a measure for :func:`selfattn.models.sizing.match`.

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


def machine_peak(
    *, device: str = "cpu", dtype: torch.dtype = torch.float32, size: int = 1024, seconds: float = 0.5
) -> float:
    """Measure how many floating-point operations a second a product of two square matrices reaches, at best.

    Args:
        device: where to multiply.
        dtype: of the matrices; default float32.
        size: of the matrices; default 1024.
        seconds: how long to go on; the fastest product counts. Default 0.5.

    Returns:
        Operations a second, with as many threads as PyTorch uses now.

    Example:
        >>> machine_peak(size=64, seconds=0.0) > 0
        True
    """
    left, right = (torch.ones(size, size, device=device, dtype=dtype) for _ in range(2))
    best, until = math.inf, time.perf_counter() + seconds
    left @ right  # the first one sets things up
    while True:
        synchronise(left.device)
        started = time.perf_counter()
        left @ right
        synchronise(left.device)
        ended = time.perf_counter()
        best = min(best, ended - started)
        if ended >= until:
            return 2 * size**3 / best


def _count(model: Seq2Seq, shape: BatchShape, run: Callable[[Seq2Seq, Tensor, Tensor, Tensor], None]) -> int:
    """Count what a copy of the model computes on one row, and multiply by the rows of the batch."""
    if min(shape.batch, shape.source, shape.target) < 1:
        raise ValueError(f"expected a batch with sizes of at least 1, got {shape}")
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
