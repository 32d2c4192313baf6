"""Models as two ONNX files, for any program that runs ONNX: `encoder.onnx` and `step.onnx`.

`encoder.onnx` maps `source [b s]` and `source_mask [b s]` to the tensors `state.*`. `step.onnx` maps `token [b]` and
those tensors to `logits [b v]` and to `next.state.*`, the tensors that a step changes; the others stay. Both also
return `weights.*`, the attention weights `[b h i j]` of each layer by its name. Rows, source and steps are dynamic.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.attention.masks import unread
from selfattn.errors import UserError
from selfattn.exports.graphs import Graph, completed, exportable, first_of, start, step, tensors_of
from selfattn.files import write_atomically
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq

ENCODER, STEP = "encoder.onnx", "step.onnx"
ONE_SEQUENCE = "reads_one_sequence"
_SIZES = (2, 5, 2), (3, 7, 4)  # rows, tokens and steps of two examples; axes that differ are dynamic
_DYNAMIC = torch.export.Dim.DYNAMIC


def to_onnx(model: Seq2Seq, folder: Path) -> None:
    """Write a model as `encoder.onnx` and `step.onnx`.

    Args:
        model: of any family.
        folder: an existing directory.

    Raises:
        UserError: a package is missing, or the model computes something that ONNX does not support.
    """
    try:
        import onnx  # noqa: F401  # PyTorch's exporter needs both
        import onnxscript  # noqa: F401  # likewise
    except ImportError as error:
        raise UserError(f"onnx: the package {error.name} is missing; pip install 'selfattn[onnx]'") from None
    # With gradients a cache is concatenated; without them it grows in place, which a graph does not support.
    with _quiet(), torch.enable_grad(), unread():
        first, *examples = _examples(model)
        graph = exportable(model)
        source = torch.ones(_SIZES[-1][:2], dtype=torch.int64)
        both = {0: _DYNAMIC, 1: _DYNAMIC}
        inputs = ["source", "source_mask"]
        _write(Graph(graph, first, start), (source, source > 0), (both, both), inputs, folder / ENCODER)
        small, large = (dict(tensors_of(example)) for example in examples)
        axes: dict[str, dict[int, Any]] = {
            name: {axis: _DYNAMIC for axis, size in enumerate(tensor.shape) if size != small[name].shape[axis]}
            for name, tensor in large.items()
        }
        inputs = ["token", *large]
        _write(Graph(graph, first, step), (source[:, 0], large), ({0: _DYNAMIC}, axes), inputs, folder / STEP)


def _examples(model: Seq2Seq) -> tuple[DecoderState, DecoderState, DecoderState]:
    """Return a complete state before the first step, and two states after some steps, of different sizes."""
    states = []
    for rows, length, steps in _SIZES:
        source = torch.ones(rows, length, dtype=torch.int64)
        before = state = model.start(model.encode(source, source > 0))
        after = []
        for _ in range(steps):
            _, state = model.step(source[:, 0], state)
            after.append(state)
        states += [completed(before, first_of(*after[:2]), rows), after[-1]]
    return states[0], states[1], states[3]


def _write(graph: Graph, args: tuple[Any, ...], axes: tuple[Any, ...], inputs: list[str], path: Path) -> None:
    try:
        program = torch.export.export(graph, args, dynamic_shapes=axes, strict=False)
    except Exception as error:
        if type(graph.model).__module__.startswith("selfattn."):
            raise
        reason = f"{type(error).__name__}: {_first_line(error)}"
        raise UserError(
            f"onnx: {type(graph.model).__name__} has no graph ({reason}); no branch may read data"
        ) from error
    file = torch.onnx.export(program, input_names=inputs, output_names=list(graph(*args)), dynamo=True, verbose=False)
    assert file is not None
    file.model.metadata_props[ONE_SEQUENCE] = str(graph.model.reads_one_sequence)
    write_atomically(path, lambda aside: file.save(aside))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which reports missing packages and prints graphs, inside a ``with`` block."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class OnnxState(Memory, DecoderState):
    """A state as tensors.

    Attributes:
        changing: tensors that every step replaces, in the order of the graph.
        memory: tensors that stay.
    """

    changing: tuple[Tensor, ...]
    memory: tuple[Tensor, ...]


class OnnxModel(Seq2Seq):
    """A model that :func:`to_onnx` has written, computed by onnxruntime; every way of decoding works with it.

    It runs on the CPU, with as many threads as torch has when it is loaded.

    Args:
        folder: with `encoder.onnx` and `step.onnx`.

    Raises:
        UserError: onnxruntime is missing, or a file is missing or broken.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.encoder, self.stepper = _session(folder / ENCODER), _session(folder / STEP)
        self.reads_one_sequence = self.stepper.get_modelmeta().custom_metadata_map.get(ONE_SEQUENCE) == "True"
        inputs = [tensor.name for tensor in self.stepper.get_inputs()][1:]
        outputs = {tensor.name for tensor in self.stepper.get_outputs()}
        self.changing = [name for name in inputs if f"next.{name}" in outputs]
        self.memory = [name for name in inputs if f"next.{name}" not in outputs]
        self.outputs = ["logits", *(f"next.{name}" for name in self.changing)]

    def encode(self, source: Tensor, source_mask: Tensor) -> OnnxState:
        """Run `encoder.onnx`."""
        tensors = _run(self.encoder, [*self.changing, *self.memory], {"source": source, "source_mask": source_mask})
        return OnnxState(tuple(tensors[: len(self.changing)]), tuple(tensors[len(self.changing) :]))

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, OnnxState]:
        """Run `step.onnx`."""
        assert isinstance(state, OnnxState)
        names = (*self.changing, *self.memory)
        tensors = dict(zip(names, (*state.changing, *state.memory), strict=True))
        logits, *changed = _run(self.stepper, self.outputs, {"token": token} | tensors)
        return logits, OnnxState(tuple(changed), state.memory)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]``, step by step."""
        state, rows = self.encode(source, source_mask), []
        for token in target_in.unbind(dim=1):
            logits, state = self.step(token, state)
            rows.append(logits)
        return torch.stack(rows, dim=1)

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Refuse.

        Raises:
            ValueError: always.
        """
        raise ValueError("the graphs have attention as outputs `weights.*`; for a picture load the run itself")


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise UserError(f"{path}: the package onnxruntime is missing; pip install 'selfattn[onnx]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base of their own
        raise UserError(f"{path}: onnxruntime cannot read it ({_first_line(error)}); export the run again") from None


def _run(session: Any, outputs: list[str], inputs: dict[str, Tensor]) -> list[Tensor]:
    arrays = {name: tensor.contiguous().numpy() for name, tensor in inputs.items()}
    try:
        return [torch.from_numpy(array) for array in session.run(outputs, arrays)]
    except Exception as error:  # such as a missing position
        raise ValueError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
