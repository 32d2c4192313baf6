"""The cost of using a model: time to the first token and for each further token, and peak memory."""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from selfattn.decoding.greedy import greedy
from selfattn.models.protocol import Seq2Seq
from selfattn.results.cost import DecodingCost

NO_END = -1  # as eos_id: an id that no model can write, so that every target gets its full length

Decode = Callable[[Seq2Seq, Tensor, Tensor, int], object]


def greedy_to_length(model: Seq2Seq, source: Tensor, source_mask: Tensor, length: int) -> object:
    """Decode greedily to a given length and ignore ``<eos>``: a :data:`Decode` to be timed."""
    return greedy(model, source, source_mask, bos_id=1, eos_id=NO_END, max_length=length)


def decoding_times(
    model: Seq2Seq,
    *,
    vocab_size: int,
    source_length: int,
    target_lengths: Sequence[int],
    batch: int = 1,
    decode: Decode = greedy_to_length,
    method: str = "greedy",
    repeats: int = 5,
) -> list[DecodingCost]:
    """Time decoding against the target's length.

    The decoder runs once for one token and once for all of them. The difference, divided by the further tokens, is the
    time per token; the median counts. It is 0 for targets of one token. If steps get slower as the prefix grows,
    ``token_ms`` grows with the length.

    Args:
        model: any model of the protocol, on any device.
        vocab_size: its number of tokens; sources are drawn from it, always the same.
        source_length: tokens of each source.
        target_lengths: how many tokens to write; each gives one result.
        batch: sources decoded together; default 1.
        decode: ``decode(model, source, source_mask, length)`` writes exactly ``length`` tokens, by any search; default
            greedily.
        method: what to call the search in the results; default ``greedy``.
        repeats: measurements of each, of which the median counts; default 5.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["rnn-plain"].config, vocab_size=11, pad_id=0, seed=0)
        >>> times = decoding_times(model, vocab_size=11, source_length=5, target_lengths=[2, 3], repeats=1)
        >>> [time.length for time in times], times[0].first_ms > 0
        ([2, 3], True)
    """
    device = next(model.parameters()).device
    draw = torch.Generator().manual_seed(0)
    source = torch.randint(vocab_size, (batch, source_length), generator=draw).to(device)
    source_mask = torch.ones_like(source, dtype=torch.bool)

    def seconds(length: int) -> float:
        synchronise(device)
        started = time.perf_counter()
        decode(model, source, source_mask, length)
        synchronise(device)
        return time.perf_counter() - started

    seconds(1)  # warms up
    times = []
    for length in target_lengths:
        # One token and all of them by turns, so that a busy moment of the machine meets both.
        pairs = [(seconds(1), seconds(length)) for _ in range(repeats)]
        first = statistics.median(short for short, _ in pairs)
        further = statistics.median((full - short) / max(1, length - 1) for short, full in pairs)
        times.append(DecodingCost(method, batch, length, 1000 * first, 1000 * further if length > 1 else 0.0))
    return times


def peak_memory(run: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Measure how much more memory tensors hold at the worst moment of a computation than before it.

    On the CPU, the storage of every tensor that an operation returns is tracked until it is freed; scratch space inside
    an operation is not seen. On a GPU, PyTorch's allocator counts.

    Args:
        run: what to measure, such as a training step. Run it once before, so that gradients and the optimizer's state
            are not counted.
        device: where it computes; default the CPU.

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
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return int(torch.cuda.max_memory_allocated(device) - before)
    storages = _Storages()
    with storages:
        run()
    return storages.peak


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
        key, size = storage._cdata, storage.nbytes()
        if key in self._watched:
            return

        def died(_: object) -> None:
            del self._watched[key]
            self.held -= size

        self._watched[key] = weakref.ref(storage, died)
        self.held += size
        self.peak = max(self.peak, self.held)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given: a GPU works on while Python reads the clock."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
