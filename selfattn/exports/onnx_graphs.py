"""The two graphs of a model as modules that torch.onnx can read: what comes before the first step, and one step."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.exports.state_tensors import completed, tensors_of, with_tensors
from selfattn.models.protocol import DecoderState, Seq2Seq


class StartGraph(nn.Module):
    """From sources to the state before the first step.

    Args:
        model: of the protocol, as :func:`exportable` makes it.
        first: an example of a complete state before the first step.
    """

    def __init__(self, model: Seq2Seq, first: DecoderState) -> None:
        super().__init__()
        self.model, self.first = model, first

    def forward(self, source: Tensor, source_mask: Tensor) -> dict[str, Tensor]:
        """Map ids ``[b s]`` and mask ``[b s]`` to the tensors of the state and the encoder's weights ``[b h s s]``."""
        with watched(self.model) as weights:
            state = self.model.start(self.model.encode(source, source_mask))
        whole = completed(state, self.first, source.shape[0])
        # An output that is an input, or another output as well, would share its name.
        return {name: one.clone() for name, one in tensors_of(whole)} | weights


class StepGraph(nn.Module):
    """One step.

    Args:
        model: as above.
        first: as above.
    """

    def __init__(self, model: Seq2Seq, first: DecoderState) -> None:
        super().__init__()
        self.model, self.first = model, first

    def forward(self, token: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Map tokens ``[b]`` and a state to ``logits [b v]``, what is next of the state, and weights ``[b h 1 j]``."""
        with watched(self.model) as weights:
            logits, new = self.model.step(token, with_tensors(self.first, iter(state.values())))
        changed = {f"next.{name}": one for name, one in tensors_of(new) if one is not state[name]}
        return {"logits": logits} | changed | weights


@contextmanager
def watched(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the weights of every attention that is called meanwhile, by the names of the layers."""
    found: dict[str, Tensor] = {}
    handles = []

    def ask(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return given, named | {"need_weights": True}

    for name, layer in model.named_modules():
        if isinstance(layer, MultiHeadAttention):

            def keep(module: nn.Module, given: Any, made: Any, name: str = name) -> None:
                found[f"weights.{name}"] = made.weights

            handles += [layer.register_forward_pre_hook(ask, with_kwargs=True), layer.register_forward_hook(keep)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


class Recurrent(nn.Module):
    """An LSTM or GRU of one layer and direction as ONNX's operator of that name, which reads any number of steps.

    torch.export would write out the steps of its example, and no other number. Only for a graph that is exported.

    Args:
        rnn: whose weights it takes.
    """

    w: Tensor
    r: Tensor
    b: Tensor

    def __init__(self, rnn: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.kind = "LSTM" if isinstance(rnn, nn.LSTM) else "GRU"
        self.hidden_dim = rnn.hidden_size
        self.takes_lengths = self.kind == "LSTM"  # its cells stand nowhere but in its last parts
        # The order of the gates: torch has input, forget, cell, output and reset, update, new.
        order = (0, 3, 1, 2) if self.kind == "LSTM" else (1, 0, 2)

        def in_order(weight: Tensor) -> Tensor:
            parts = weight.detach().chunk(len(order))
            return torch.cat([parts[place] for place in order])

        own: dict[str, Any] = dict(rnn.named_parameters())
        self.register_buffer("w", in_order(own["weight_ih_l0"])[None])
        self.register_buffer("r", in_order(own["weight_hh_l0"])[None])
        self.register_buffer("b", torch.cat([in_order(own["bias_ih_l0"]), in_order(own["bias_hh_l0"])])[None])

    def forward(self, x: Tensor, start: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Read ``[b t d]``; return outputs ``[b t hidden]`` and the last parts ``[1 b hidden]``, as torch's do."""
        starts = [None] if start is None else list(start) if isinstance(start, tuple) else [start]
        sizes = x.shape[1], 1, x.shape[0], self.hidden_dim
        number = None if lengths is None else lengths.to(torch.int32)
        attributes: dict[str, Any] = {"hidden_size": self.hidden_dim}
        if self.kind == "GRU":
            attributes["linear_before_reset"] = 1
        count = 3 if self.kind == "LSTM" else 2
        outputs, *last = torch.onnx.ops.symbolic_multi_out(
            self.kind,
            (x.transpose(0, 1), self.w, self.r, self.b, number, *starts),
            attributes,
            dtypes=[x.dtype] * count,
            shapes=[sizes, *[sizes[1:]] * (count - 1)],
        )
        return outputs[:, 0].transpose(0, 1), tuple(last) if len(last) > 1 else last[0]


def exportable(model: Seq2Seq) -> Seq2Seq:
    """Return a copy of a model, in evaluation mode and on the CPU, that torch.onnx can read."""
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, (nn.LSTM, nn.GRU)):
                setattr(module, name, Recurrent(part))
    return model
