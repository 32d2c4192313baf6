"""The attention explorer as a page of its own, for one input and one model: small enough for a notebook."""

from __future__ import annotations

from markupsafe import Markup

from selfattn.console import all_visible
from selfattn.report.blocks import AttentionExplorer
from selfattn.report.drawing.palette import Signs
from selfattn.report.pages import asset, digest, embedded, templates
from selfattn.report.render.explorer import explorer_data, still_maps
from selfattn.report.render.html import Translator, explorer_words
from selfattn.results.attention import AttentionExample, ModelAttention
from selfattn.words.catalogue import LANGS, SOURCE, catalogue
from selfattn.words.messages import message

_BUDGET = 1 << 30  # one example is never left out


def render_attention(source: str, found: ModelAttention, name: str, lang: str = SOURCE, *, still: bool = True) -> str:
    """Render one input with the attention of one model as a page without network or other files.

    Args:
        source: the input.
        found: tokens and maps.
        name: of the model.
        lang: the language that the page opens in; the others are in it too.
        still: also hold a picture for where no script runs; default True.
    """
    block = all_visible(AttentionExplorer((AttentionExample(source, "", models={name: found}),), (name,)))
    signs, translator, script = Signs([name]), Translator(lang), asset("page.js") + asset("explorer.js")
    explorer = explorer_data(block, signs, _BUDGET)
    context = {
        "langs": {one: catalogue(one)["language"] for one in LANGS},
        "lang": lang,
        "w": translator,
        "signs": signs,
        "block": block,
        "title": message("head.attention"),
        "still": [(model, said, Markup(svg)) for model, said, svg in (still_maps(block) if still else ())],
        "explorer": explorer,
        "css": Markup(asset("report.css")),
        "script": Markup(script),
        "script_hash": digest(script),
        "data": lambda: embedded(
            {"texts": translator.table, "langs": LANGS, "words": explorer_words(), "explorer": explorer}
        ),
    }
    return templates().get_template("attention.html.j2").render(context) + "\n"
