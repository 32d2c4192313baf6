"""A model as two ONNX files, for any program that runs ONNX: `encoder.onnx` and `step.onnx`.

`encoder.onnx` maps `source [b s]` and `source_mask [b s]` to the tensors `state.*`; `step.onnx` maps `token [b]` and
those tensors to `logits [b v]` and to `next.state.*`, those that a step changes; the others stay as they are. Both also
give `weights.*`, the attention weights `[b h i j]` of each layer by its name. Rows, source and steps may be any
number.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from selfattn.attention.masks import unread
from selfattn.errors import UserError
from selfattn.exports.onnx_graphs import StartGraph, StepGraph, exportable
from selfattn.exports.state_tensors import completed, first_of, tensors_of
from selfattn.files import write_atomically
from selfattn.models.protocol import DecoderState, Seq2Seq

ENCODER, STEP = "encoder.onnx", "step.onnx"
ONE_SEQUENCE = "reads_one_sequence"
_SIZES = (2, 5, 2), (3, 7, 4)  # rows, tokens and steps of two examples: what differs between them is of any length
_DYNAMIC = torch.export.Dim.DYNAMIC


def to_onnx(model: Seq2Seq, folder: Path) -> None:
    """Write a model as `encoder.onnx` and `step.onnx`.

    Args:
        model: of any family.
        folder: where they go; it is there.

    Raises:
        UserError: a package is missing, or the model computes something that ONNX cannot say.
    """
    try:
        import onnx  # noqa: F401  # whether it is there
        import onnxscript  # noqa: F401  # likewise
    except ImportError as error:
        raise UserError(f"onnx: the package {error.name} is missing; pip install 'selfattn[onnx]'") from None
    # With gradients a cache is joined, without them it grows in place, which a graph cannot say.
    with _quiet(), torch.enable_grad(), unread():
        first, *examples = _examples(model)
        graph = exportable(model)
        source = torch.ones(_SIZES[-1][:2], dtype=torch.int64)
        both = {0: _DYNAMIC, 1: _DYNAMIC}
        _write(
            StartGraph(graph, first), (source, source > 0), (both, both), ["source", "source_mask"], folder / ENCODER
        )
        small, large = (dict(tensors_of(example)) for example in examples)
        axes: dict[str, dict[int, Any]] = {
            name: {axis: _DYNAMIC for axis, size in enumerate(one.shape) if size != small[name].shape[axis]}
            for name, one in large.items()
        }
        given = source[:, 0], large
        _write(StepGraph(graph, first), given, ({0: _DYNAMIC}, axes), ["token", *large], folder / STEP)


def _examples(model: Seq2Seq) -> tuple[DecoderState, DecoderState, DecoderState]:
    """Return a complete state before the first step, and two after some steps, of different sizes."""
    found = []
    for rows, length, steps in _SIZES:
        source = torch.ones(rows, length, dtype=torch.int64)
        before = state = model.start(model.encode(source, source > 0))
        passed = []
        for _ in range(steps):
            _, state = model.step(source[:, 0], state)
            passed.append(state)
        first = first_of(*passed[:2])
        found += [completed(before, first, rows), passed[-1]]
    return found[0], found[1], found[3]


def _write(
    graph: StartGraph | StepGraph, given: tuple[Any, ...], axes: tuple[Any, ...], inputs: list[str], path: Path
) -> None:
    program = torch.export.export(graph, given, dynamic_shapes=axes, strict=False)
    made = torch.onnx.export(program, input_names=inputs, output_names=list(graph(*given)), dynamo=True, verbose=False)
    assert made is not None
    made.model.metadata_props[ONE_SEQUENCE] = str(graph.model.reads_one_sequence)
    write_atomically(path, lambda aside: made.save(aside))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the exporter says of itself, such as of packages that are not there, from those who export."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
