"""A model that onnxruntime computes, as one of the protocol: every way of decoding works with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.errors import UserError
from selfattn.exports.onnx_export import ENCODER, ONE_SEQUENCE, STEP
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq


@dataclass(frozen=True)
class OnnxState(Memory, DecoderState):
    """The tensors of a state.

    Attributes:
        changing: those that every step gives anew, in the order of the graph.
        memory: those that stay as they are.
    """

    changing: tuple[Tensor, ...]
    memory: tuple[Tensor, ...]


class OnnxModel(Seq2Seq):
    """A model in a folder that :func:`~selfattn.exports.onnx_export.to_onnx` has written.

    It computes on the CPU, with as many threads as torch has when it is made.

    Args:
        folder: with `encoder.onnx` and `step.onnx`.

    Raises:
        UserError: onnxruntime is missing, or a file is missing or broken.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.encoder, self.stepper = _session(folder / ENCODER), _session(folder / STEP)
        self.reads_one_sequence = self.stepper.get_modelmeta().custom_metadata_map.get(ONE_SEQUENCE) == "True"
        inputs = [one.name for one in self.stepper.get_inputs()][1:]
        outputs = {one.name for one in self.stepper.get_outputs()}
        self.changing = [name for name in inputs if f"next.{name}" in outputs]
        self.memory = [name for name in inputs if f"next.{name}" not in outputs]
        self.outputs = ["logits", *(f"next.{name}" for name in self.changing)]

    def encode(self, source: Tensor, source_mask: Tensor) -> OnnxState:
        """Run `encoder.onnx`."""
        found = _run(self.encoder, [*self.changing, *self.memory], {"source": source, "source_mask": source_mask})
        return OnnxState(tuple(found[: len(self.changing)]), tuple(found[len(self.changing) :]))

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, OnnxState]:
        """Run `step.onnx`."""
        assert isinstance(state, OnnxState)
        given = dict(zip(self.changing, state.changing, strict=True)) | dict(
            zip(self.memory, state.memory, strict=True)
        )
        logits, *changed = _run(self.stepper, self.outputs, {"token": token} | given)
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
        raise ValueError("the graphs give attention as outputs `weights.*`; for a picture ask the run itself")


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


def _run(session: Any, outputs: list[str], given: dict[str, Tensor]) -> list[Tensor]:
    arrays = {name: tensor.contiguous().numpy() for name, tensor in given.items()}
    try:
        return [torch.from_numpy(array) for array in session.run(outputs, arrays)]
    except Exception as error:  # such as of a position that the model does not have
        raise ValueError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
