"""Attention of a model, to look at in a notebook, save in a file, or read as numbers."""

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from selfattn import codec
from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Pair, encode_pairs
from selfattn.errors import UserError
from selfattn.evaluation.attention import by_blocking, by_gradient
from selfattn.files import write_bytes, writing
from selfattn.models.inside import sharing_weights
from selfattn.models.protocol import Seq2Seq
from selfattn.ownership import check_ours
from selfattn.results.record import AttentionExample, AttentionMap, Kind, ModelAttention
from selfattn.runs.predictor import Predictor
from selfattn.tokenizers.protocol import BOS, PAD, SPECIALS, token_texts
from selfattn.words.messages import SOURCE, message

KINDS: tuple[Kind, ...] = get_args(Kind)
_MOST = 290_000  # characters that a notebook keeps


@dataclass(frozen=True, eq=False, repr=False)
class AttentionView:
    """The attention of a model while it wrote one output, or read one text. Draws itself in a notebook.

    Attributes:
        source: the input.
        prediction: the output.
        source_tokens: ``s`` of them, ``<eos>`` at the end.
        target_tokens: ``t`` of them, ``<eos>`` at the end.
        weights: from target to source, for each layer ``[h t s]``; ``weights[layer][head]`` has a row for each target
            token, from the step that wrote it. Empty for a model that only reads: its maps are ``encoder_weights``.
        encoder_weights: self-attention in the encoder, for each layer ``[h s s]``; empty where there is none.
        decoder_weights: self-attention in the decoder, for each layer ``[h t t]``; empty where there is none.
        blocking: how far each step's distribution moves without a source token, ``[t s]``, 0 to 1; None if not asked.
        gradient: shares of the source tokens in gradient times input, ``[t s]``; None if not asked, or not to be had.
        model: what the model is called.
        layers: numbers of the layers by kind of map (``cross``, ``encoder``, ``decoder``); default 0, 1, ...
        heads: numbers of the heads; default 0, 1, ...
        second: the source token with which the second of two sentences begins; None where there is one.
        is_shifted: whether row k of a map belongs to the step that wrote target token k, which had read the tokens
            before it; False where it belongs to the step that read token k. Default True.
        without: names of the layers that handed over no weights.
        lang: the language in which a notebook shows it, ``"en"`` or ``"ko"``; default English.

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
    blocking: Tensor | None = None
    gradient: Tensor | None = None
    model: str = "model"
    layers: Mapping[Kind, Sequence[int]] = field(default_factory=dict)
    heads: Sequence[int] = ()
    second: int | None = None
    is_shifted: bool = True
    without: Sequence[str] = ()
    lang: str = SOURCE

    @property
    def decoder_tokens(self) -> tuple[str, ...]:
        """The columns of ``decoder_weights``: what the decoder has read when it writes each target token.

        The first is the beginning of the sequence; row ``k`` writes ``target_tokens[k]`` and asks with
        ``decoder_tokens[k]``, the token that was read last.
        """
        return (SPECIALS[BOS], *self.target_tokens[:-1]) if self.is_shifted else self.target_tokens

    @property
    def axes(self) -> str:
        """What the rows and columns of :meth:`picture` are, in words."""
        return message("attention.axes.cross" if self.weights else "attention.axes.encoder").say(self.lang)

    @property
    def _main_maps(self) -> tuple[Kind, tuple[Tensor, ...], tuple[str, ...]]:
        """The kind of maps that is drawn, its weights and the tokens of its rows; its columns are source tokens."""
        if self.weights:
            return "cross", self.weights, self.target_tokens
        return "encoder", self.encoder_weights, self.source_tokens

    def _layer(self, kind: Kind, place: int) -> int:
        return self.layers[kind][place] if kind in self.layers else place

    def _head(self, place: int) -> int:
        return self.heads[place] if self.heads else place

    def __repr__(self) -> str:
        _, weights, _ = self._main_maps
        layers = len(weights)
        heads = len(weights[0]) if weights else 0
        counts = f"{layers} layer{'s' * (layers != 1)}, {heads} head{'s' * (heads != 1)}"
        return f"<AttentionView {self.prediction!r} ← {self.source!r}: {counts}>"

    def _drawn(self, layer: int | None, head: int | None) -> tuple[Tensor, str]:
        """Return the weights that are drawn, and what they are in words."""
        kind, weights, _ = self._main_maps
        if not weights:
            raise UserError("no attention was kept")
        layers = [self._layer(kind, place) for place in range(len(weights))]
        if layer is not None and layer not in layers:
            raise UserError(f"layer {layer}: the model has layers {layers[0]} to {layers[-1]}")
        place = len(layers) - 1 if layer is None else layers.index(layer)
        heads = [self._head(number) for number in range(len(weights[place]))]
        if head is not None and head not in heads:
            raise UserError(f"head {head}: the layer has heads {heads[0]} to {heads[-1]}")
        if head is None and len(heads) > 1:
            mean = message("attention.layer.mean", layer=layers[place], count=len(heads))
            return weights[place].mean(dim=0), mean.say(self.lang)
        head = heads[0] if head is None else head
        label = message("attention.layer.head", layer=layers[place], head=head).say(self.lang)
        return weights[place][heads.index(head)], label

    def picture(self, layer: int | None = None, head: int | None = None) -> Tensor:
        """Return the weights ``[t s]`` of one head, or the mean of a layer's heads; ``[s s]`` without a target.

        Args:
            layer: counted from 0; default the last.
            head: counted from 0; default the mean of all heads.

        Raises:
            UserError: there is no such layer or head.
        """
        return self._drawn(layer, head)[0]

    def caption(self, layer: int | None = None, head: int | None = None) -> str:
        """Say in words what :meth:`picture` shows."""
        return self._drawn(layer, head)[1]

    def maps(self, kinds: Sequence[str] = KINDS) -> ModelAttention:
        """Return the weights of these kinds as plain figures, as `results.json` has them.

        Args:
            kinds: of ``cross``, ``encoder``, ``decoder``, ``blocking`` and ``gradient``; default all.
        """
        weights_by_kind: dict[Kind, Sequence[Tensor]] = {
            "cross": self.weights,
            "encoder": self.encoder_weights,
            "decoder": self.decoder_weights,
            "blocking": () if self.blocking is None else (self.blocking[None],),
            "gradient": () if self.gradient is None else (self.gradient[None],),
        }
        maps = []
        for kind in (kind for kind in KINDS if kind in kinds):
            for layer, heads in enumerate(weights_by_kind[kind]):
                for head, weights in enumerate(heads.tolist()):
                    rows = tuple(tuple(round(weight, 4) for weight in row) for row in weights)
                    maps.append(AttentionMap(kind, self._layer(kind, layer), self._head(head), rows))
        return ModelAttention(self.prediction, self.source_tokens, self.target_tokens, tuple(maps))

    def to_json(self) -> str:
        """Write source, output, tokens and all maps as one JSON object, in the form of `results.json`."""
        return json.dumps({"source": self.source} | codec.encode(self.maps()), ensure_ascii=False)

    def to_html(self, lang: str | None = None) -> str:
        """Make a page of its own with the explorer of the report: layers, heads, kinds, heatmap or lines.

        Args:
            lang: the language that it opens in; default that of the view.
        """
        return self._page(self.maps(), self.lang if lang is None else lang)

    def to_svg(self, layer: int | None = None, head: int | None = None) -> str:
        """Draw :meth:`picture` as SVG.

        Args:
            layer: see :meth:`picture`.
            head: see :meth:`picture`.

        Raises:
            UserError: no such layer or head.
        """
        from selfattn.report.pictures import attention_svg

        weights, caption = self._drawn(layer, head)
        text = f"{self.source} → {self.prediction}" if self.prediction else self.source
        tokens = self.source_tokens, self._main_maps[2]
        weight = message("attention.weight").say(self.lang)
        meaning = f"{weight} · {self.axes}"
        return attention_svg(weights.tolist(), *tokens, title=f"{text} ({caption})", axes=meaning)

    def save(self, path: str | Path, layer: int | None = None, head: int | None = None) -> None:
        """Write :meth:`to_svg`, :meth:`to_html` or :meth:`to_json` to a file, by its ending.

        Args:
            path: ends in ``.svg``, ``.png`` (the picture at twice its size), ``.html`` or ``.json``.
            layer: of a picture; see :meth:`picture`.
            head: of a picture; see :meth:`picture`.

        Raises:
            UserError: another ending, a place that cannot be written to, no such layer or head, or CairoSVG is missing.
        """
        from selfattn.report.pictures import drawn_as

        path = Path(path)
        draw = partial(self.to_svg, layer, head)
        forms: dict[str, Callable[[], str]] = {".svg": draw, ".png": draw, ".html": self.to_html, ".json": self.to_json}
        if path.suffix not in forms:
            raise UserError(f"{path}: attention is saved as SVG, PNG, HTML or JSON; choose a name ending in .svg")
        check_ours(path, records=False)
        text = forms[path.suffix]().rstrip("\n") + "\n"
        data = drawn_as("png", text) if path.suffix == ".png" else text.encode()
        with writing(path, "choose another place"):
            write_bytes(path, data)

    def _repr_html_(self) -> str:
        """Show the explorer in a frame of less than 300 KB; further maps are left out, with a note."""
        full = kept = self.maps()
        while len(frame := self._frame(kept)) > _MOST and len(kept.maps) > 1:
            kept = replace(kept, maps=kept.maps[: (len(kept.maps) + 1) // 2])
        if len(frame) > _MOST:
            return f"<pre>{html.escape(repr(self))}: too large to be shown here; to_html() has all</pre>"
        left_out = len(full.maps) - len(kept.maps)
        return frame + f"<p>{len(kept.maps)} of {len(full.maps)} maps; to_html() has all</p>" * (left_out > 0)

    def _page(self, maps: ModelAttention, lang: str) -> str:
        from selfattn.report.blocks import AttentionExplorer
        from selfattn.report.html import render_attention

        example = AttentionExample(self.source, "", models={self.model: maps})
        page = AttentionExplorer((example,), (self.model,), self.second, self.is_shifted, tuple(self.without))
        return render_attention(page, lang)

    def _frame(self, maps: ModelAttention) -> str:
        high = min(24 * len(self._main_maps[2]) + 480, 950)
        page = self._page(maps, self.lang)
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="{html.escape(repr(self))}" '
            f'style="width:100%;height:{high}px;border:0"></iframe>'
        )


def batch_of_one(run: Predictor, source: str, target: str) -> Batch:
    """Return a single pair of texts as the model of a run reads it, on its device."""
    examples = encode_pairs([Pair(source, target)], run.tokenizer)
    return collate(examples, PAD, BOS, [0]).to(run.model.device)


def view_attention(run: Predictor, text: str, prediction: str, *, dependence: bool) -> AttentionView:
    """Return the attention of a model while it writes its output for a text.

    Args:
        run: computes with torch.
        text: the input, as the model reads it.
        prediction: the output of the model.
        dependence: also measure which source tokens the output depends on, by a pass for each.

    Raises:
        UserError: the model has no attention, or its weights overflow.
    """
    model: Seq2Seq = run.model
    tokenizer = run.tokenizer
    # The target is the model's output, so every row of weights belongs to one of its steps.
    batch = batch_of_one(run, text, prediction)
    with torch.inference_mode():
        maps = model.attention_maps(batch.source, batch.target_in, source_mask=batch.source_mask)
    if not all(weights.isfinite().all() for weights in (*maps.cross, *maps.encoder, *maps.decoder)):
        raise UserError(f"{run.path}: the weights of this model overflow; train again")
    if not maps.cross:
        raise UserError(f"{run.path}: {run.config.preset} has no attention to show; try a model that has")
    cross, encoder, decoder = (
        tuple(weights[0].float().cpu() for weights in layers) for layers in (maps.cross, maps.encoder, maps.decoder)
    )
    blocking = None
    gradient = None
    if dependence:
        unshared = sharing_weights(model)  # hooks and modes that other threads do not see
        blocking = by_blocking(unshared, batch.source[0], batch.target_in[0])
        gradient = by_gradient(unshared, batch.source[0], batch.target_out[0])
    tokens = token_texts(tokenizer.source, text), token_texts(tokenizer.target, prediction)
    return AttentionView(text, prediction, *tokens, cross, encoder, decoder, blocking, gradient, run.config.preset)
