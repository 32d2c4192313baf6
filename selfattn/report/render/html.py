"""The report as one HTML file: no network, no other file, readable without JavaScript.

The page can change its language: every text on it is registered in all languages under an id.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from selfattn.report.blocks import AttentionExplorer
from selfattn.report.contents import Document, document
from selfattn.report.drawing.charts import curves, label_margin
from selfattn.report.drawing.diff import pieces
from selfattn.report.drawing.palette import Signs
from selfattn.report.pages import asset, digest, embedded, templates
from selfattn.report.render.explorer import explorer_data, still_maps
from selfattn.results.record import Record
from selfattn.words.catalogue import LANGS, SOURCE, catalogue
from selfattn.words.messages import Message, Said


def render_html(record: Record, lang: str = SOURCE) -> str:
    """Render a comparison as a self-contained page; the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language that the page opens in; the others are in it too.

    Returns:
        The HTML document.
    """
    return html_of(document(record), lang)


def html_of(page: Document, lang: str = SOURCE) -> str:
    """Render a page; the same one gives the same text.

    Args:
        page: what it shows.
        lang: the language that the page opens in; the others are in it too.
    """
    signs, translator = Signs(page.names), Translator(lang)
    maps = next((block for part in page.parts for block in part.blocks if isinstance(block, AttentionExplorer)), None)
    explorer = explorer_data(maps, signs) if maps else {"total": 0, "models": [], "examples": []}
    script = asset("page.js") + asset("explorer.js")
    context = {
        "langs": {lang: catalogue(lang)["language"] for lang in LANGS},
        "lang": lang,
        "w": translator,
        "signs": signs,
        "kind": lambda block: type(block).__name__,
        "pieces": pieces,
        "curves_of": curves,
        "margin_of": label_margin,
        "still": [(name, said, Markup(svg)) for name, said, svg in still_maps(maps)] if maps else [],
        "explorer": explorer,
        "css": Markup(asset("report.css")),
        "script": Markup(script),
        "script_hash": digest(script),
        # Called at the end of the page, for only then its words are known.
        "data": lambda: embedded(
            {"texts": translator.table, "langs": LANGS, "words": explorer_words(), "explorer": explorer}
        ),
        "version": page.version,
        "verdict": page.verdict,
        "first": page.first,
        "parts": page.parts,
        "has_contents": page.has_contents,
    }
    return templates().get_template("report.html.j2").render(context) + "\n"


def explorer_words() -> dict[str, dict[str, str]]:
    """The words that the page's script says, by language."""
    return {lang: {key: text for key, text in catalogue(lang).items() if key.startswith("x.")} for lang in LANGS}


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
        """A message by its key, as a span."""
        return self.text(Message(key, values))

    def text(self, text: Said) -> Markup:
        """A message as a span; any other text as it is."""
        if not isinstance(text, Message):
            return escape(text)
        return Markup('<span data-w="{}">{}</span>').format(self.id(text), text.say(self.lang))

    def attr(self, name: str, text: Said) -> Markup:
        """An attribute whose value is a message, or any other text."""
        if not isinstance(text, Message):
            return Markup('{}="{}"').format(name, text)
        return Markup('{}="{}" data-wa="{} {}"').format(name, text.say(self.lang), name, self.id(text))

    def key(self, name: str, key: str) -> Markup:
        """An attribute whose value is a message without values, by its key."""
        return self.attr(name, Message(key))

    def id(self, message: Message) -> int:
        """The id under which the page finds the message in every language."""
        texts = tuple(message.say(lang) for lang in LANGS)
        return self._ids.setdefault(texts, len(self._ids))

    @property
    def table(self) -> list[tuple[str, ...]]:
        """All registered messages by id, one text a language in the order of `LANGS`."""
        return list(self._ids)
