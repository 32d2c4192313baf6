"""Models as two ONNX files, for any program that runs ONNX: `encoder.onnx` and `step.onnx`.

`encoder.onnx` maps `source [b s]` and `source_mask [b s]` to the tensors `state.*`. `step.onnx` maps `token [b]` and
those tensors to `logits [b v]` and to `next.state.*`, the tensors that a step changes; the others stay. Both also
return `weights.*`, the attention weights `[b h i j]` of each layer by its name. Rows, source and steps are dynamic.
"""

import copy
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention import DeltaAttention, MultiHeadAttention
from selfattn.attention.masks import unread
from selfattn.convert.plain import check_plain
from selfattn.errors import UserError, describe_error
from selfattn.files import write_atomically
from selfattn.layers.recurrent import named_tensors, with_tensors
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq, joined_rows
from selfattn.streams import global_state

ENCODER = "encoder.onnx"
STEP = "step.onnx"
ONE_SEQUENCE = "reads_one_sequence"
TRACE = "pkg.torch.onnx.stack_trace"
_SIZES = (2, 5, 2), (3, 7, 4)  # rows, tokens and steps of two examples; axes that differ are dynamic
_DYNAMIC = torch.export.Dim.DYNAMIC


class Graph(nn.Module):
    """One of the two graphs of a model, as torch.export reads it.

    Args:
        model: from :func:`exportable`.
        first: example of a complete state before the first step.
        compute: :func:`start` or :func:`step`.
    """

    def __init__(self, model: Seq2Seq, first: DecoderState, compute: Callable[..., dict[str, Tensor]]) -> None:
        super().__init__()
        self.model = model
        self.first = first
        self.compute = compute

    def forward(self, ids: Tensor, other: Any) -> dict[str, Tensor]:
        """Return the tensors of the graph, and the attention weights ``[b h i j]`` of every layer."""
        with watch_weights(self.model) as weights:
            return self.compute(self.model, self.first, ids, other) | weights


def start(model: Seq2Seq, first: DecoderState, source: Tensor, source_mask: Tensor) -> dict[str, Tensor]:
    """Map ids ``[b s]`` and mask ``[b s]`` to the tensors of the state before the first step."""
    state = complete_state(model.start(model.encode(source, source_mask)), first, source.shape[0])
    # Cloned: an output that is also an input, or another output, would share its name.
    return {name: tensor.clone() for name, tensor in named_tensors(state)}


def step(model: Seq2Seq, first: DecoderState, token: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Map tokens ``[b]`` and a state to ``logits [b v]`` and the changes of the state."""
    logits, new = model.step(token, with_tensors(first, iter(state.values())))
    return {"logits": logits} | {
        f"next.{name}": tensor for name, tensor in named_tensors(new) if tensor is not state[name]
    }


@contextmanager
def watch_weights(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the weights of every attention inside a ``with`` block, by the names of the layers."""
    weights: dict[str, Tensor] = {}

    def request(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, named | {"need_weights": True}

    def keep(name: str, module: nn.Module, args: Any, attended: Any) -> None:
        weights[f"weights.{name}"] = attended.weights

    with ExitStack() as hooks:
        for name, layer in model.named_modules():
            if isinstance(layer, MultiHeadAttention):
                hooks.enter_context(layer.register_forward_pre_hook(request, with_kwargs=True))
                hooks.enter_context(layer.register_forward_hook(partial(keep, name)))
        yield weights


class Recurrent(nn.Module):
    """An LSTM or GRU of one layer and direction as the ONNX operator of that name, for any number of steps.

    torch.export would unroll the steps of its example. Only for a graph that is exported.

    Args:
        rnn: has the weights.

    Raises:
        ValueError: it is pruned or parametrised, or has a hook.
    """

    def __init__(self, rnn: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        check_plain(rnn, "onnx")
        self.hidden_dim = rnn.hidden_size
        self.is_lstm = isinstance(rnn, nn.LSTM)
        # ONNX's order of the gates; torch's is input, forget, cell, output and reset, update, new.
        order = (0, 3, 1, 2) if self.is_lstm else (1, 0, 2)

        def in_order(weight: Tensor) -> Tensor:
            parts = weight.detach().chunk(len(order))
            return torch.cat([parts[place] for place in order])

        weights: dict[str, Any] = dict(rnn.named_parameters())
        self.w = nn.Buffer(in_order(weights["weight_ih_l0"])[None])
        self.r = nn.Buffer(in_order(weights["weight_hh_l0"])[None])
        self.b = nn.Buffer(torch.cat([in_order(weights["bias_ih_l0"]), in_order(weights["bias_hh_l0"])])[None])

    def forward(self, x: Tensor, start: Any = None) -> tuple[Tensor, Any]:
        """Read ``[b t d]``; return outputs ``[b t hidden]`` and the final state ``[1 b hidden]``, as in torch."""
        starts = list(start) if isinstance(start, tuple) else [start]
        sizes = x.shape[1], 1, x.shape[0], self.hidden_dim
        kind, settings = ("LSTM", {}) if self.is_lstm else ("GRU", {"linear_before_reset": 1})
        shapes = [sizes, sizes[1:], sizes[1:]] if self.is_lstm else [sizes, sizes[1:]]
        inputs = (x.transpose(0, 1), self.w, self.r, self.b, None, *starts)
        dtypes = [x.dtype] * len(shapes)
        attributes: dict[str, Any] = {"hidden_size": self.hidden_dim, **settings}
        outputs, *last = torch.onnx.ops.symbolic_multi_out(kind, inputs, attributes, dtypes=dtypes, shapes=shapes)
        return outputs[:, 0].transpose(0, 1), tuple(last) if len(last) > 1 else last[0]


def exportable(model: Seq2Seq) -> Seq2Seq:
    """Return a copy of a model, on the CPU and in evaluation mode, that torch.onnx can read."""
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, (nn.LSTM, nn.GRU)):
                setattr(module, name, Recurrent(part))
    return model


def complete_state(state: Any, first: Any, rows: Any) -> Any:
    """Fill the gaps of a state before the first step: a cache without keys, zeros for other tensors.

    Args:
        state: before the first step.
        first: example of a complete state, from :func:`first_of`.
        rows: of the state.
    """

    present = dict(named_tensors(state))
    tensors = []
    for name, example in named_tensors(first):
        sizes = [rows, *example.shape[1:]] if example.shape != (0,) else [0]  # positions: no rows
        tensors.append(present[name] if name in present else example.new_zeros(sizes))
    return with_tensors(first, iter(tensors))


def first_of(once: Any, twice: Any) -> Any:
    """Return an example of a complete state before the first step, from the states after one step and after two.

    Axes that grow with each step are extrapolated back.

    Example:
        >>> import torch
        >>> first_of((torch.ones(3, 1), torch.ones(3)), (torch.ones(3, 2), torch.ones(3)))[0].shape
        torch.Size([3, 0])
    """
    pairs = zip(named_tensors(once), named_tensors(twice), strict=True)
    shapes = ((x, [2 * a - b for a, b in zip(x.shape, y.shape, strict=True)]) for (_, x), (_, y) in pairs)
    return with_tensors(once, (tensor.new_zeros(shape) for tensor, shape in shapes))


def to_onnx(model: Seq2Seq, folder: Path) -> None:
    """Write a model as `encoder.onnx` and `step.onnx`.

    Args:
        model: of any family.
        folder: an existing directory.

    Raises:
        UserError: a package is missing, or the model computes something that ONNX does not support.
    """
    for package in ("onnx", "onnxscript"):  # PyTorch's exporter needs both
        if find_spec(package) is None:
            raise UserError(f"onnx: the package {package} is missing; pip install 'selfattn[onnx]'")
    if any(isinstance(module, DeltaAttention) for module in model.modules()):
        raise UserError(
            "onnx: the delta rule solves systems of equations, which ONNX does not; take `attention` linear or softmax"
        )
    # With gradients a cache is concatenated; without them it grows in place, which a graph does not support.
    with _quiet(), torch.enable_grad(), unread():
        first, *examples = _examples(model)
        graph = exportable(model)
        source = torch.ones(_SIZES[-1][:2], dtype=torch.int64)
        both = {0: _DYNAMIC, 1: _DYNAMIC}
        inputs = ["source", "source_mask"]
        _write(Graph(graph, first, start), (source, source > 0), (both, both), inputs, folder / ENCODER)
        small, large = (dict(named_tensors(example)) for example in examples)
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
        states += [complete_state(before, first_of(*after[:2]), rows), after[-1]]
    return states[0], states[1], states[3]


def _write(graph: Graph, args: tuple[Any, ...], axes: tuple[Any, ...], inputs: list[str], path: Path) -> None:
    try:
        program = torch.export.export(graph, args, dynamic_shapes=axes, strict=False)
    except Exception as error:
        if type(graph.model).__module__.startswith("selfattn."):
            raise
        reason = f"{type(graph.model).__name__} has no graph ({describe_error(error)})"
        raise UserError(f"onnx: {reason}; no branch may read data") from error
    file = torch.onnx.export(program, input_names=inputs, output_names=list(graph(*args)), dynamo=True, verbose=False)
    assert file is not None
    file.model.metadata_props[ONE_SEQUENCE] = str(graph.model.reads_one_sequence)
    for node in file.model.graph.all_nodes():  # where in this machine's files each operation was written
        node.metadata_props.pop(TRACE, None)
    write_atomically(path, lambda aside: file.save(aside))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which reports missing packages and prints graphs, inside a ``with`` block."""
    with global_state():  # two threads that silence the process side by side would leave it silent
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings(action="ignore"), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield
        finally:
            logging.disable(before)


@dataclass(frozen=True)
class OnnxState(Memory, DecoderState):
    """A state as tensors.

    Attributes:
        tensors: in the order of the graph's inputs.
    """

    tensors: tuple[Tensor, ...]


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
        self.encoder = _session(folder / ENCODER)
        self.stepper = _session(folder / STEP)
        self.reads_one_sequence = self.stepper.get_modelmeta().custom_metadata_map.get(ONE_SEQUENCE) == "True"
        outputs = {tensor.name for tensor in self.stepper.get_outputs()}
        self.names = [tensor.name for tensor in self.stepper.get_inputs()][1:]
        self.changing = [name for name in self.names if f"next.{name}" in outputs]

    def encode(self, source: Tensor, source_mask: Tensor) -> OnnxState:
        """Run `encoder.onnx`."""
        return OnnxState(tuple(_run(self.encoder, self.names, {"source": source, "source_mask": source_mask})))

    def step(self, token: Tensor, state: OnnxState) -> tuple[Tensor, OnnxState]:
        """Run `step.onnx`."""
        (logits,), new = self._outputs_of_step(token, state, ["logits"])
        return logits, new

    def _outputs_of_step(self, token: Tensor, state: OnnxState, outputs: list[str]) -> tuple[list[Tensor], OnnxState]:
        """Run `step.onnx`; return these outputs, and the new state."""
        tensors = dict(zip(self.names, state.tensors, strict=True))
        changing = [f"next.{name}" for name in self.changing]
        values = _run(self.stepper, [*outputs, *changing], {"token": token} | tensors)
        tensors |= dict(zip(self.changing, values[len(outputs) :], strict=True))
        return values[: len(outputs)], OnnxState(tuple(tensors.values()))

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights, step by step, from the outputs `weights.*` of both graphs.

        Raises:
            ValueError: a layer's name does not end in ``self_attn`` or ``cross_attn``, which say what it attends to.
        """
        inputs = {"source": source, "source_mask": source_mask}
        names_of_encoder = _weights_of(self.encoder)
        tensors = _run(self.encoder, [*self.names, *names_of_encoder], inputs)
        state = OnnxState(tuple(tensors[: len(self.names)]))
        names = _weights_of(self.stepper)
        steps = []
        for token in target_in.unbind(dim=1):
            weights, state = self._outputs_of_step(token, state, names)
            steps.append(weights)
        is_one_sequence = names == names_of_encoder  # the same layers read both
        length = source.shape[1] if is_one_sequence else 0
        cross = []
        decoder = []
        for name, *rows in zip(names, *steps, strict=True):
            if name.endswith(".cross_attn"):
                cross.append(joined_rows(rows, dim=2))
            elif name.endswith(".self_attn"):
                if is_one_sequence:
                    cross.append(joined_rows([row[..., :length] for row in rows], dim=2))
                decoder.append(joined_rows([row[..., length:] for row in rows], dim=2))
            else:
                raise ValueError(
                    f"{name}: of an attention of that name nobody knows what it reads; load the run itself"
                )
        return AttentionMaps(tuple(tensors[len(self.names) :]), tuple(decoder), tuple(cross))


def _weights_of(session: Any) -> list[str]:
    return [tensor.name for tensor in session.get_outputs() if tensor.name.startswith("weights.")]


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise UserError(f"{path}: the package onnxruntime is missing; pip install 'selfattn[onnx]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base of their own
        raise UserError(f"{path}: onnxruntime cannot read it ({describe_error(error)}); export the run again") from None


def _run(session: Any, outputs: list[str], inputs: dict[str, Tensor]) -> list[Tensor]:
    arrays = {name: tensor.contiguous().numpy() for name, tensor in inputs.items()}
    try:
        return [torch.from_numpy(array) for array in session.run(outputs, arrays)]
    except Exception as error:  # such as a missing position
        raise ValueError(describe_error(error)) from None
