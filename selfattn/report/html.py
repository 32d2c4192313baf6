"""Render a report, or the attention of one input, as one HTML file: no network, no other file.

The page can change its language: every text on it is registered in all languages under an id. The weights of its
attention explorer are rounded to three decimals and packed into text, most of them in one character. Examples are left
out from the end when the page would grow too large; it says how many.
"""

import json
import re
from collections.abc import Iterable
from itertools import chain, product
from typing import Any

from markupsafe import Markup

from selfattn.data.pairs import Span
from selfattn.errors import all_visible
from selfattn.report.blocks import AttentionExplorer, Cell, Document, Styled
from selfattn.report.pictures import (
    Signs,
    asset,
    attention_svg,
    curves,
    digest,
    embed_json,
    label_margin,
    pieces,
    shown,
    templates,
    token_places,
    visual_order,
    width,
)
from selfattn.results.record import AttentionExample, ModelAttention
from selfattn.words.messages import LANGS, SOURCE, Message, TextLike, catalogue, message, text_of, texts_of

_MOST = 1_700_000  # characters of JSON; keeps the page under 3 MB
_ROUNDING = 1e-3  # weights are kept with four decimals
# Printable ASCII that JSON and HTML leave as it is. A code for each thousandth: one character, from 78 on two; the last
# twelve characters announce a second one.
_SYMBOLS = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"\\<>')
_HALF_LINE = 26  # columns of half a line on a phone
_WORD = 20  # columns of what cannot be broken, such as an interval
_PARTICLE = re.compile(r"(?<=[%)\]”’])(?=[가-힣])")
_SPLIT = re.compile(r"(?<=\d) (?=%)|(?<=[<≤≥=]) (?=\d)|(?<=\bp) (?=[<=])|(?<=[✓✗○◐]) |(?<=^–) ")
_CODES = [*_SYMBOLS[:-12], *map("".join, product(_SYMBOLS[-12:], _SYMBOLS))]


def html_of(page: Document, lang: str = SOURCE) -> str:
    """Render a document as a self-contained page; the same document gives the same text.

    Args:
        page: the document, such as that of a comparison (:func:`selfattn.report.write.document`).
        lang: the language that the page opens in; the others are in it too.
    """
    blocks = chain.from_iterable(part.blocks for part in page.parts)
    maps = next((block for block in blocks if isinstance(block, AttentionExplorer)), None)
    return _render("report", lang, Signs(page.names), maps or AttentionExplorer((), ()), **vars(page))


def render_attention(maps: AttentionExplorer, lang: str = SOURCE) -> str:
    """Render attention as a page of its own, small enough for a notebook.

    Args:
        maps: an example and its models.
        lang: the language that the page opens in; the others are in it too.
    """
    return _render("attention", lang, Signs(maps.models), all_visible(maps), title=message("head.attention"))


def _render(template: str, lang: str, signs: Signs, maps: AttentionExplorer, **context: object) -> str:
    translator = Translator(lang)
    script = asset("page.js") + asset("explorer.js")
    explorer = explorer_data(maps, signs)
    words = {code: {key: text for key, text in catalogue(code).items() if key.startswith("x.")} for code in LANGS}
    context |= {
        "langs": {code: catalogue(code)["language"] for code in LANGS},
        "lang": lang,
        "w": translator,
        "message": message,
        "signs": signs,
        "kind": lambda block: type(block).__name__,
        "pieces": pieces,
        "curves_of": curves,
        "margin_of": label_margin,
        "whole_options": whole_options,
        "block": maps,
        "heat": lambda block: Markup(attention_svg(block.values, block.columns, block.rows)),
        "explorer": explorer,
        "legend": _legend(explorer),
        "css": Markup(asset("report.css")),
        "script": Markup(script),
        "script_hash": digest(script),
        # Called at the end of the page, for only then its words are known.
        "data": lambda: embed_json({"texts": translator.table, "langs": LANGS, "words": words, "explorer": explorer}),
    }
    return templates().get_template(f"{template}.html.j2").render(context) + "\n"


def whole_words(text: str) -> str:
    """Keep in one line what belongs together: a number and its percent sign, a mark and its word, a Korean particle.

    Browsers would break the line between a Korean particle and the sign before it; a word joiner prevents that.

    Example:
        >>> whole_words("97%로"), whole_words("✓ holds for 95 % of"), whole_words("97 - 3"), whole_words("p < 0.05")
        ('97%\u2060로', '✓\xa0holds for 95\xa0% of', '97 - 3', 'p\xa0<\xa00.05')
    """
    return _SPLIT.sub("\u00a0", _PARTICLE.sub("\u2060", text))


def whole_options(command: str) -> Markup:
    """Return a command as HTML in which no line breaks inside the name of an option.

    Example:
        >>> print(whole_options("train --batch-size 64"))
        train <span class="option">--batch-size</span> 64
    """
    parts = re.split(r"(?<!\S)(--[\w-]+)", command)
    option = Markup('<span class="option">{}</span>')
    return Markup("").join(option.format(part) if place % 2 else part for place, part in enumerate(parts))


class Translator:
    """Puts messages into HTML in one language and remembers them in every language, for the page's own switch.

    Args:
        lang: the language that the page opens in.

    Example:
        >>> w = Translator("en")
        >>> print(w("col.items"))
        <span data-w="0">items</span>
        >>> w.table
        [('items', '항목 수')]
    """

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._ids: dict[tuple[str, ...], int] = {}

    def __call__(self, key: str, **values: str | int | Message) -> Markup:
        """Return a message by its key, as a span."""
        return self.text(Message(key, values))

    def text(self, text: TextLike) -> Markup:
        """Return a text as a span where it differs between languages, else as it is."""
        return self._put(text, "{text}", '<span data-w="{id}">{text}</span>')

    def inside(self, text: TextLike) -> Markup:
        """Return the end of a start tag, and the text of its element: pictures have no spans.

        Example:
            >>> w = Translator("ko")
            >>> print(Markup("<text x='0'") + w.inside("20\u00a0%") + Markup("</text>"))
            <text x='0' data-w="0">20%</text>
        """
        return self._put(text, ">{text}", ' data-w="{id}">{text}')

    def is_long(self, cell: Cell) -> bool:
        """Return whether the text of a cell needs a line of its own on a phone, in one of the languages."""
        text = cell.text if isinstance(cell, Styled) else getattr(cell, "target", cell)
        texts = [text_of(text, lang) for lang in LANGS] if isinstance(text, str | Message) else []
        return any(width(line) > _HALF_LINE or max(map(width, line.split(" "))) > _WORD for line in texts)

    def attr(self, name: str, text: TextLike) -> Markup:
        """Return an attribute whose value is a message, or any other text."""
        return self._put(text, f'{name}="{{text}}"', f'{name}="{{text}}" data-wa="{name} {{id}}"')

    def _put(self, text: TextLike, form: str, translated_form: str) -> Markup:
        """Put a text into one of two forms: of what is the same in all languages, and of what the page translates."""
        text = texts_of(text)
        if not isinstance(text, Message):
            return Markup(form).format(text=text)
        return Markup(translated_form).format(id=self.id(text), text=whole_words(text.say(self.lang)))

    def id(self, message: Message) -> int:
        """Return the id under which the page finds the message in every language."""
        texts = tuple(whole_words(message.say(lang)) for lang in LANGS)
        return self._ids.setdefault(texts, len(self._ids))

    @property
    def table(self) -> list[tuple[str, ...]]:
        """All registered messages by id, one text a language in the order of `LANGS`."""
        return list(self._ids)


# the attention explorer


def explorer_data(maps: AttentionExplorer, signs: Signs) -> dict[str, Any]:
    """Return as many examples as fit, in the order given.

    Args:
        maps: the examples and the models to show.
        signs: of the models.

    Returns:
        `{"total": examples there are, "models": [...], "examples": [...], "second": ..., "isShifted": ...}`.
    """
    models = [{"name": name, "colour": signs[name].colour, "path": signs[name].path} for name in maps.models]
    examples: list[dict[str, Any]] = []
    used = 0
    for example in maps.examples:
        data = _example(example, maps.models)
        used += len(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
        if used > _MOST and examples:
            break
        examples.append(data)
    page = {"second": maps.second, "isShifted": maps.is_shifted}
    return {"total": len(maps.examples), "models": models, "examples": examples} | page


def pack(weights: Iterable[Iterable[float]]) -> str:
    """Return weights row by row as text: thousandths up to 77 as one character, greater ones as two.

    Example:
        >>> pack([[0.0, 0.001, 0.0772], [0.078, 1.0, 0.5]])
        '!#rs!}8wc'
    """
    flat = chain.from_iterable(weights)
    return "".join(_CODES[round(1000 * min(1.0, max(0.0, weight)))] for weight in flat)


def _legend(explorer: dict[str, Any]) -> list[Message]:
    """Return the sentences that explain what the maps show, and no others."""
    kinds: set[str] = set()
    tokens: set[str] = set()
    for model in chain.from_iterable(example["models"].values() for example in explorer["examples"]):
        kinds |= {shown_map["kind"] for shown_map in model["maps"]}
        tokens.update(model["source"]["tokens"], model["target"]["tokens"])
    if "decoder" in kinds and explorer["isShifted"]:
        tokens.add("⊢")
    shows = {
        "attention.note": True,
        "attention.note.depends": bool({"blocking", "gradient"} & kinds),
        "attention.note.space": any("␣" in token for token in tokens),
        "attention.note.end": "⏎" in tokens,
        "attention.note.beginning": "⊢" in tokens,
        "attention.note.gold": any(example["hasGold"] for example in explorer["examples"]),
        "attention.note.beyond": any(example["isBeyond"] for example in explorer["examples"]),
    }
    return [message(key) for key, is_shown in shows.items() if is_shown]


def _example(example: AttentionExample, names: Iterable[str]) -> dict[str, Any]:
    models = {name: model for name in names if (model := example.models.get(name)) and model.maps}
    maps = chain.from_iterable(model.maps for model in models.values())
    weights = chain.from_iterable(row for shown_map in maps for row in shown_map.weights)
    return {
        "source": example.source,
        "target": example.target or next((model.prediction for model in models.values()), ""),
        "format": example.format,
        "hasGold": bool(example.gold),
        "isBeyond": any(not -_ROUNDING < weight < 1 + _ROUNDING for weight in weights),
        "models": {name: _model(example, model) for name, model in models.items()},
    }


def _model(example: AttentionExample, model: ModelAttention) -> dict[str, Any]:
    # Gold spans are no places where the prediction is not as long as the target.
    spans = example.gold if len(model.prediction) == len(example.target) else None
    return {
        "prediction": model.prediction,
        "right": model.prediction == example.target if example.target else None,
        "source": _axis(model.source_tokens),
        "target": _axis(model.target_tokens),
        "gold": None if spans is None else [_gold(span, model) for span in spans],
        "maps": [{"kind": m.kind, "layer": m.layer, "head": m.head, "weights": pack(m.weights)} for m in model.maps],
    }


def _gold(span: Span, model: ModelAttention) -> dict[str, Any]:
    """Return the rows and columns of a map that a gold span covers."""
    rows = token_places(model.target_tokens, *span.target)
    columns = token_places(model.source_tokens, *span.source)
    return {"field": span.field, "rows": rows, "columns": columns}


def _axis(tokens: tuple[str, ...]) -> dict[str, Any]:
    named = [shown(token) for token in tokens]
    return {"tokens": named, "order": visual_order(tokens), "width": max(map(width, named), default=1)}
