"""What a model attended to, for looking at: in a notebook, in a file, or as numbers."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from selfattn.errors import UserError
from selfattn.files import write_text, writing
from selfattn.report.drawing.attention_svg import attention_svg


@dataclass(frozen=True, eq=False, repr=False)
class AttentionView:
    """The attention of a model while it wrote one output. Draws itself in a notebook.

    Attributes:
        source: the input.
        prediction: the output.
        source_tokens: ``s`` of them, ``<eos>`` at the end.
        target_tokens: ``t`` of them, ``<eos>`` at the end.
        weights: from target to source, for each layer ``[h t s]``; ``weights[layer][head]`` has a row for each target
            token, from the step that wrote it.
        encoder_weights: self-attention in the encoder, for each layer ``[h s s]``; empty where there is none.
        decoder_weights: self-attention in the decoder, for each layer ``[h t t]``; empty where there is none.

    Example:
        >>> import torch
        >>> weights = (torch.tensor([[[0.9, 0.1]], [[0.5, 0.5]]]),)
        >>> view = AttentionView("a", "b", ("a", "<eos>"), ("b",), weights, (), ())
        >>> view.picture(layer=0, head=1).tolist(), view.picture().tolist()
        ([[0.5, 0.5]], [[0.699999988079071, 0.30000001192092896]])
        >>> view.to_svg().startswith("<svg")
        True
        >>> view
        <AttentionView 'b' ← 'a': 1 layer, 2 heads>
    """

    source: str
    prediction: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: tuple[Tensor, ...]
    encoder_weights: tuple[Tensor, ...]
    decoder_weights: tuple[Tensor, ...]

    def __repr__(self) -> str:
        layers, heads = len(self.weights), len(self.weights[0]) if self.weights else 0
        counts = f"{layers} layer{'s' * (layers != 1)}, {heads} head{'s' * (heads != 1)}"
        return f"<AttentionView {self.prediction!r} ← {self.source!r}: {counts}>"

    def picture(self, layer: int | None = None, head: int | None = None) -> Tensor:
        """Return the weights ``[t s]`` of one head, or the mean of a layer's heads.

        Args:
            layer: counted from 0; default the last.
            head: counted from 0; default the mean of all heads.

        Raises:
            UserError: there is no such layer or head.
        """
        layers = len(self.weights)
        if layer is not None and not 0 <= layer < layers:
            raise UserError(f"layer {layer}: the model has layers 0 to {layers - 1}")
        chosen = self.weights[-1 if layer is None else layer]
        if head is None:
            return chosen.mean(dim=0)
        if not 0 <= head < len(chosen):
            raise UserError(f"head {head}: the layer has heads 0 to {len(chosen) - 1}")
        return chosen[head]

    def caption(self, layer: int | None = None, head: int | None = None) -> str:
        """Say in words what :meth:`picture` shows."""
        number = len(self.weights) - 1 if layer is None else layer
        heads = len(self.weights[number])
        return f"layer {number}, " + (f"mean of {heads} heads" if head is None and heads > 1 else f"head {head or 0}")

    def to_svg(self, layer: int | None = None, head: int | None = None) -> str:
        """Draw :meth:`picture` as SVG."""
        weights = self.picture(layer, head)
        title = f"{self.source} → {self.prediction} ({self.caption(layer, head)})"
        return attention_svg(weights.tolist(), self.source_tokens, self.target_tokens, title=title)

    def save(self, path: str | Path, layer: int | None = None, head: int | None = None) -> None:
        """Write :meth:`to_svg` to a file.

        Args:
            path: must end in ``.svg``.
            layer: see :meth:`picture`.
            head: see :meth:`picture`.

        Raises:
            UserError: another ending, a place that cannot be written to, or no such layer or head.
        """
        path = Path(path)
        if path.suffix != ".svg":
            raise UserError(f"{path}: attention is saved as SVG; choose a name that ends in .svg")
        drawing = self.to_svg(layer, head)
        with writing(path, "choose another place"):
            write_text(path, drawing + "\n")

    def _repr_html_(self) -> str:
        """Draw every head of every layer, one row a layer."""
        rows = []
        for layer, weights in enumerate(self.weights):
            drawings = [
                f"<figure style='margin:0'><figcaption>layer {layer}, head {head}</figcaption>"
                f"{attention_svg(one.tolist(), self.source_tokens, self.target_tokens)}</figure>"
                for head, one in enumerate(weights)
            ]
            rows.append(f"<div style='display:flex;flex-wrap:wrap;gap:1em'>{''.join(drawings)}</div>")
        line = f"<p><code>{html.escape(self.source)}</code> → <code>{html.escape(self.prediction)}</code></p>"
        return line + "".join(rows)
