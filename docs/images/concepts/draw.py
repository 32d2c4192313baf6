"""Draw the pictures of the concepts page, in English and Korean: `python docs/images/concepts/draw.py`.

The heat maps of trained models come from the demo page beside: its models are read out of it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import safetensors.torch
import torch

from selfattn.attention import Sinusoidal, causal_mask, padding_mask
from selfattn.models.build import build
from selfattn.models.config import config_from_dict
from selfattn.report.pictures import shown

HERE = Path(__file__).parent
DEMO = HERE.parents[1] / "demo" / "dates.html"
TEXT = "thursday, november 13, 2008"
BLUE, ORANGE, INK, QUIET, RULE = "#0072b2", "#c44e00", "#1c1c1c", "#595959", "#c8c8c8"
FONT = "font-family='system-ui, Noto Sans KR, Apple SD Gothic Neo, Malgun Gothic, sans-serif'"
MONO = "font-family='ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace'"
CELL = 19
NOTHING = 0.005  # a smaller weight is drawn as nothing

WORDS = {
    "en": {
        "source": "input characters (keys)",
        "target": "output characters (queries)",
        "read": "characters read so far (keys)",
        "writing": "writing (last read)",
        "position": "position",
        "component": "component of the vector",
        "query": "query",
        "key": "key",
        "weight": "weight",
        "value": "value",
        "seen": "visible",
        "hidden": "hidden (score −∞)",
        "text": "text",
        "head": "head {n}",
        "encoder": "encoder: LSTM",
        "states": "hidden states hs",
        "sum": "context vector c = Σ a·h",
        "embedding": "embedding of the last token",
        "last": "last state of the encoder",
        "attention": "attention over hs",
        "output": "linear layer → logits",
        "textbook": "Textbook: AttentionDecoder",
        "luong": "Luong et al. 2015",
        "bahdanau": "Bahdanau et al. 2015",
        "plain": "Seq2seq (chapter 7)",
        "peeky": "PeekyDecoder (chapter 7)",
        "rnn": "LSTM → h",
        "gru": "GRU → h",
        "previous": "previous state h′",
        "maxout": "maxout [h; c; x] → logits",
        "block": "Transformer block (pre-norm)",
        "norm": "layer normalisation",
        "self": "self-attention (decoder: masked)",
        "cross": "cross-attention (decoder only)",
        "ffn": "feed-forward",
        "add": "+ input (residual connection)",
        "scores": "scores: a query with every key",
    },
    "ko": {
        "source": "입력 글자(키)",
        "target": "출력 글자(쿼리)",
        "read": "지금까지 읽은 글자(키)",
        "writing": "쓰는 글자(마지막으로 읽은 글자)",
        "position": "위치",
        "component": "벡터의 성분",
        "query": "쿼리",
        "key": "키",
        "weight": "가중치",
        "value": "값",
        "seen": "볼 수 있음",
        "hidden": "가림(점수 −∞)",
        "text": "문장",
        "head": "헤드 {n}",
        "encoder": "인코더: LSTM",
        "states": "은닉 상태 hs",
        "sum": "맥락 벡터 c = Σ a·h",
        "embedding": "마지막 토큰의 임베딩",
        "last": "인코더의 마지막 은닉 상태",
        "attention": "hs에 대한 어텐션",
        "output": "선형 변환 → 로짓",
        "textbook": "교과서: AttentionDecoder",
        "luong": "루옹 외 2015",
        "bahdanau": "바다나우 외 2015",
        "plain": "Seq2seq (7장)",
        "peeky": "PeekyDecoder (7장)",
        "rnn": "LSTM → h",
        "gru": "GRU → h",
        "previous": "이전 은닉 상태 h′",
        "maxout": "맥스아웃 [h; c; x] → 로짓",
        "block": "트랜스포머 블록(층 정규화가 앞)",
        "norm": "층 정규화",
        "self": "셀프 어텐션(디코더는 마스크)",
        "cross": "크로스 어텐션(디코더에만)",
        "ffn": "피드포워드",
        "add": "+ 입력(잔차 연결)",
        "scores": "점수: 쿼리와 모든 키",
    },
}


class Canvas:
    """An SVG picture on a white card, so that it can be read on a dark page as well."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = 0.0
        self.height = 0.0

    def reach(self, x: float, y: float) -> None:
        """Let the picture reach a point."""
        self.width = max(self.width, x)
        self.height = max(self.height, y)

    def box(self, x: float, y: float, w: float, h: float, fill: str, stroke: str = "none", title: str = "") -> None:
        """Draw a box."""
        self.reach(x + w, y + h)
        inner = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' rx='2' fill='{fill}' stroke='{stroke}'>"
            f"{inner}</rect>"
        )

    def text(
        self, x: float, y: float, line: str, anchor: str = "start", *, mono: bool = False, **style: object
    ) -> None:
        """Write a line of text."""
        size = style.get("size", 13)
        turned = f" transform='rotate(-90 {x:g} {y:g})'" if style.get("turned") else ""
        self.reach(x if anchor != "start" else x + len(line) * 7.0, y + 4)
        font = MONO if mono else FONT
        weight = " font-weight='600'" if style.get("bold") else ""
        fill = style.get("fill", INK)
        self.parts.append(
            f"<text x='{x:g}' y='{y:g}' {font} font-size='{size}' fill='{fill}' text-anchor='{anchor}'{weight}{turned}>"
            f"{escape(line)}</text>"
        )

    def line(self, *points: tuple[float, float], colour: str = QUIET) -> None:
        """Draw an arrow through points."""
        path = " ".join(f"{'ML'[k > 0]}{x:g} {y:g}" for k, (x, y) in enumerate(points))
        self.parts.append(f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.6' marker-end='url(#to)'/>")

    def save(self, name: str, title: str) -> None:
        """Write the picture to a file."""
        width = self.width + 16
        height = self.height + 14
        arrow = (
            "<defs><marker id='to' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='6' markerHeight='6' orient='auto'>"
            f"<path d='M0 0L8 4L0 8z' fill='{QUIET}'/></marker></defs>"
        )
        text = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}' "
            f"height='{height:g}' role='img'><title>{escape(title)}</title>{arrow}"
            f"<rect width='100%' height='100%' rx='8' fill='#fff'/>{''.join(self.parts)}</svg>\n"
        )
        (HERE / name).write_text(text, encoding="utf-8")


def mixed(value: float) -> str:
    """Return blue for positive values up to 1, orange for negative ones, white for zero."""
    base = BLUE if value > 0 else ORANGE
    share = min(1.0, abs(value))
    parts = [round(255 + share * (int(base[k : k + 2], 16) - 255)) for k in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def heat(
    canvas: Canvas,
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    *,
    at: tuple[float, float] = (0, 0),
    legend: tuple[str, str, str] | None = None,
    numbers: bool = False,
    cell: float = CELL,
) -> None:
    """Draw a heat map with the names of both axes, and a legend of its colours."""
    left = at[0] + 34 + 8.2 * max(map(len, rows))
    top = at[1] + 48
    canvas.text(left, at[1] + 20, f"{titles[1]} →", fill=QUIET)
    if titles[0]:
        canvas.text(at[0] + 16, top + cell * len(rows), f"← {titles[0]}", fill=QUIET, turned=True)
    for j, name in enumerate(columns):
        canvas.text(left + cell * (j + 0.5), top - 6, name, "middle", mono=True, size=12)
    for i, (name, row) in enumerate(zip(rows, values, strict=True)):
        canvas.text(left - 6, top + cell * (i + 0.5) + 4, name, "end", mono=True, size=12)
        for j, value in enumerate(row):
            if abs(value) >= NOTHING:
                label = f"{name}, {columns[j]}: {value:.3f}"
                canvas.box(left + cell * j, top + cell * i, cell, cell, mixed(value), title=label)
            if numbers:
                canvas.text(left + cell * (j + 0.5), top + cell * (i + 0.5) + 4, f"{value:.2f}", "middle", size=11)
    end = top + cell * len(rows)
    right = left + cell * len(columns)
    canvas.reach(right, end)
    rules = [f"M{left + cell * j:g} {top:g}V{end:g}" for j in range(len(columns) + 1)]
    rules += [f"M{left:g} {top + cell * i:g}H{right:g}" for i in range(len(rows) + 1)]
    canvas.parts.append(f"<path d='{''.join(rules)}' stroke='{RULE}' fill='none'/>")
    if legend is not None:
        draw_legend(canvas, left, end + 14, *legend)


def draw_legend(canvas: Canvas, x: float, y: float, name: str, low: str, high: str) -> None:
    """Draw what the colours mean: a scale from low to high, or two boxes where there is nothing in between."""
    if not name:
        for text, value in ((low, 0.0), (high, 1.0)):
            canvas.box(x, y, 14, 14, mixed(value), RULE)
            canvas.text(x + 20, y + 11, text, fill=QUIET)
            x += 44 + 9 * len(text)
        return
    canvas.text(x, y + 11, f"{name}: {low}", fill=QUIET)
    x += 62 + 4 * len(name)
    lowest = -1.0 if low.startswith("−") else 0.0
    for k in range(11):
        canvas.box(x + 9 * k, y, 9, 14, mixed(lowest + (1 - lowest) * k / 10), RULE)
    canvas.text(x + 106, y + 11, high, fill=QUIET)


def stack(canvas: Canvas, x: float, title: str, boxes: Sequence[tuple[str, str]], width: float = 216) -> None:
    """Draw a column of boxes with arrows from each to the next; a box is a key and its text."""
    canvas.text(x, 24, title, bold=True)
    for k, (kind, text) in enumerate(boxes):
        y = 40 + 54 * k
        fill = {"in": "#eeeeee", "attn": "#cfe6f5", "rnn": "#fde3cc", "out": "#e4f0dc"}[kind]
        canvas.box(x, y, width, 32, fill, RULE)
        canvas.text(x + width / 2, y + 21, text, "middle")
        if k:
            canvas.line((x + width / 2, y - 21), (x + width / 2, y - 2))


def trained() -> dict[str, torch.nn.Module]:
    """The models of the demo page, with their characters."""
    models = {}
    for found in re.findall(r'<script type="application/json" class="model">(.*?)</script>', DEMO.read_text("utf-8")):
        payload = json.loads(found)
        characters = payload["source"]
        model = build(config_from_dict(payload["config"]), vocab_size=4 + len(characters), pad_id=0, seed=0)
        model.load_state_dict(safetensors.torch.load(base64.b64decode(payload["weights"])), strict=False)
        models[payload["name"]] = (model.eval(), characters)
    return models


def main() -> None:
    """Write every picture in both languages."""
    models = trained()
    for lang, w in WORDS.items():
        end = ".svg" if lang == "en" else f".{lang}.svg"

        canvas = Canvas()
        letters = ["n", "o", "v", "1", "3"]
        for j, letter in enumerate(letters):
            x = 30 + 92 * j
            canvas.text(x + 33, 150, letter, "middle", mono=True, size=15)
            canvas.line((x + 33, 134), (x + 33, 112))
            canvas.box(x, 76, 66, 34, "#fde3cc", RULE)
            canvas.text(x + 33, 98, "LSTM", "middle")
            canvas.line((x + 33, 74), (x + 33, 52))
            canvas.text(x + 33, 44, f"h{'₁₂₃₄₅'[j]}", "middle", size=15)
            if j:
                canvas.line((x - 24, 93), (x - 2, 93))
        canvas.box(22, 26, 456, 26, "none", BLUE)
        canvas.text(22, 18, w["states"] + " [b s d]", fill=BLUE)
        canvas.save(f"encoder{end}", w["encoder"])

        canvas = Canvas()
        a = [0.01, 0.02, 0.02, 0.05, 0.90]
        heat(canvas, [a], [w["weight"]], [f"h{k}" for k in "₁₂₃₄₅"], ("", w["states"]), numbers=True, cell=44)
        canvas.text(150, 118, w["sum"], bold=True)
        canvas.save(f"weighted-sum{end}", w["sum"])

        canvas = Canvas()
        for y, name, bars, texts in (
            (30, w["scores"], (0.0, 1.1, 0.7), ("ln 1", "ln 3", "ln 2")),
            (130, "exp", (1, 3, 2), ("1", "3", "2")),
            (230, w["weight"], (1, 3, 2), ("1/6", "3/6", "2/6")),
        ):
            canvas.text(16, y, name)
            for j, (size, text) in enumerate(zip(bars, texts, strict=True)):
                canvas.box(40 + 90 * j, y + 56 - 15 * size, 48, 15 * size + 1, BLUE)
                canvas.text(64 + 90 * j, y + 72, text, "middle")
        canvas.save(f"softmax{end}", "softmax")

        rnn, characters = models["rnn-attention"]
        transformer, _ = models["transformer"]
        source = torch.tensor([[characters.index(letter) + 4 for letter in TEXT] + [2]])
        written = "2008-11-13"
        target = torch.tensor([[1] + [characters.index(letter) + 4 for letter in written]])
        names = [shown(letter) for letter in TEXT] + ["⏎"]
        wrote = [*written, "⏎"]
        with torch.inference_mode():
            textbook = rnn.attention_maps(source, target, source_mask=source > 0)
            many = transformer.attention_maps(source, target, source_mask=source > 0)

        canvas = Canvas()
        legend = (w["weight"], "0", "1")
        heat(canvas, textbook.cross[0][0, 0].tolist(), wrote, names, (w["target"], w["source"]), legend=legend)
        canvas.save(f"time-attention{end}", "rnn-attention")

        canvas = Canvas()
        for h in range(4):
            at = (0 if h % 2 == 0 else 400, 270 * (h // 2) + 10)
            canvas.text(at[0] + 44, at[1] + 4, w["head"].format(n=h), bold=True)
            heat(
                canvas,
                many.cross[-1][0, h].tolist(),
                wrote,
                names,
                (w["query"], w["source"]),
                at=at,
                cell=12,
                legend=legend if h == 2 else None,
            )
        canvas.save(f"heads{end}", "transformer")

        canvas = Canvas()
        rows = [f"{new} ({'⊢' if k == 0 else written[k - 1]})" for k, new in enumerate(wrote)]
        weights = many.decoder[-1][0].mean(dim=0).tolist()
        heat(canvas, weights, rows, ["⊢", *written], (w["writing"], w["read"]), legend=legend)
        canvas.save(f"decoder-self{end}", "transformer")

        canvas = Canvas()
        visible = causal_mask(8, 8).reshape(8, 8).float()
        heat(
            canvas,
            visible.tolist(),
            list("12345678"),
            list("12345678"),
            (w["query"], w["key"]),
            legend=("", w["hidden"], w["seen"]),
        )
        canvas.save(f"causal{end}", w["hidden"])

        canvas = Canvas()
        visible = padding_mask(torch.tensor([17, 7]), 17).float()
        heat(
            canvas,
            visible.tolist(),
            [f"{w['text']} 1", f"{w['text']} 2"],
            [str(k % 10) for k in range(1, 18)],
            ("", w["key"]),
            legend=("", w["hidden"], w["seen"]),
        )
        canvas.save(f"padding{end}", w["hidden"])

        canvas = Canvas()
        waves = Sinusoidal(32)(torch.arange(20))
        heat(
            canvas,
            waves.tolist(),
            [str(k) for k in range(20)],
            [str(k % 10) for k in range(32)],
            (w["position"], w["component"]),
            cell=16,
            legend=(w["value"], "−1", "1"),
        )
        canvas.save(f"sinusoids{end}", w["position"])

        canvas = Canvas()
        stack(canvas, 16, w["plain"], [("in", w["last"]), ("rnn", w["rnn"]), ("out", w["output"])])
        stack(
            canvas,
            256,
            w["peeky"],
            [("in", w["last"]), ("rnn", "[h₀; x] → " + w["rnn"]), ("out", "[h₀; h] → " + w["output"])],
        )
        canvas.save(f"peeky{end}", w["peeky"])

        canvas = Canvas()
        columns = (
            (
                w["textbook"],
                [
                    ("in", w["embedding"] + " x"),
                    ("rnn", "x → " + w["rnn"]),
                    ("attn", w["attention"] + " → c"),
                    ("out", "[c; h] → " + w["output"]),
                ],
            ),
            (
                w["luong"],
                [
                    ("in", w["embedding"] + " x"),
                    ("rnn", "x → " + w["rnn"]),
                    ("attn", w["attention"] + " → c"),
                    ("attn", "tanh(W [c; h])"),
                    ("out", w["output"]),
                ],
            ),
            (
                w["bahdanau"],
                [
                    ("in", w["previous"]),
                    ("attn", w["attention"] + " → c"),
                    ("rnn", "[x; c] → " + w["gru"]),
                    ("out", w["maxout"]),
                ],
            ),
        )
        for k, (title, boxes) in enumerate(columns):
            stack(canvas, 16 + 250 * k, title, boxes, 232)
        canvas.save(f"decoders{end}", w["textbook"])

        canvas = Canvas()
        parts = [("in", "x")]
        for name in ("self", "cross", "ffn"):
            parts += [("in", w["norm"]), ("attn" if name != "ffn" else "rnn", w[name]), ("out", w["add"])]
        stack(canvas, 16, w["block"], parts, 260)
        canvas.save(f"block{end}", w["block"])


if __name__ == "__main__":
    main()
