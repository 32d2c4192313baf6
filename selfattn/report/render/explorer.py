"""What the attention explorer of the page needs, as one JSON object: tokens as drawn, their order, gold cells, weights.

Weights are rounded to three decimals and packed into text, most of them in one character. Examples are left out from
the end when the object would grow over its budget; the page says how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from selfattn.data.pairs import Span
from selfattn.report.blocks import AttentionExplorer
from selfattn.report.drawing.attention_svg import attention_svg, gold_cells
from selfattn.report.drawing.palette import Signs
from selfattn.report.drawing.tokens import drawn, shown, visual_order, width
from selfattn.results.attention import AttentionExample, ModelAttention

BUDGET = 1_700_000  # characters of JSON; keeps the page under 3 MB
STILL = 4  # models whose map is shown where nothing can be chosen
# Printable ASCII that JSON and HTML leave as it is; the last twelve announce a second character.
SYMBOLS = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"\\<>')
SINGLES = len(SYMBOLS) - 12


def explorer_data(maps: AttentionExplorer, signs: Signs, budget: int = BUDGET) -> dict[str, Any]:
    """Examples for the explorer, as many as fit, in the order given.

    Args:
        maps: the examples and the models to show.
        signs: of the models.
        budget: most characters of JSON.

    Returns:
        `{"total": examples there are, "models": [...], "examples": [...]}`.
    """
    models = [{"name": name, "colour": signs[name].colour, "path": signs[name].path} for name in maps.models]
    examples: list[dict[str, Any]] = []
    used = 0
    for example in maps.examples:
        one = _example(example, maps.models)
        used += len(json.dumps(one, ensure_ascii=False, separators=(",", ":")))
        if used > budget and examples:
            break
        examples.append(one)
    return {"total": len(maps.examples), "models": models, "examples": examples}


def first_maps(maps: AttentionExplorer) -> list[tuple[str, ModelAttention, list[list[float]]]]:
    """The first example for where nothing can be chosen: by model the mean over the heads of its last layer."""
    found = []
    for name in maps.models:
        one = maps.examples[0].models.get(name)
        cross = [each for each in one.maps if each.kind == "cross"] if one else []
        if one and cross:
            heads = [each.weights for each in cross if each.layer == max(other.layer for other in cross)]
            mean = [[sum(cells) / len(heads) for cells in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]
            found.append((name, one, mean))
    return found[:STILL]


def still_maps(maps: AttentionExplorer) -> list[tuple[str, str, str]]:
    """The same as pictures for pages without JavaScript: model, prediction, picture."""
    found = []
    for name, one, weights in first_maps(maps):
        gold = _gold(maps.examples[0], one)
        found.append((name, one.prediction, attention_svg(weights, one.source_tokens, one.target_tokens, gold)))
    return found


def pack(weights: Iterable[Iterable[float]]) -> str:
    """Weights row by row as text: thousandths up to 77 as one character, greater ones as two.

    Example:
        >>> pack([[0.0, 0.001, 0.0772], [0.078, 1.0, 0.5]])
        '!#rs!}8wc'
    """
    return "".join(_symbols(round(1000 * min(1.0, max(0.0, weight)))) for row in weights for weight in row)


def _symbols(thousandths: int) -> str:
    if thousandths < SINGLES:
        return SYMBOLS[thousandths]
    high, low = divmod(thousandths - SINGLES, len(SYMBOLS))
    return SYMBOLS[SINGLES + high] + SYMBOLS[low]


def _gold(example: AttentionExample, found: ModelAttention) -> tuple[Span, ...] | None:
    """The spans of an example; None where they are no places in the prediction, which is not as long as the target."""
    return example.gold if len(found.prediction) == len(example.target) else None


def _example(example: AttentionExample, names: Iterable[str]) -> dict[str, Any]:
    shown_models = {name: one for name in names if (one := example.models.get(name)) and one.maps}
    return {
        "source": example.source,
        "target": example.target or next((one.prediction for one in shown_models.values()), ""),
        "format": example.format,
        "hasGold": bool(example.gold),
        "models": {name: _model(example, found) for name, found in shown_models.items()},
    }


def _model(example: AttentionExample, found: ModelAttention) -> dict[str, Any]:
    spans = _gold(example, found)
    cells = ((span.field, gold_cells(span, found.source_tokens, found.target_tokens)) for span in spans or ())
    return {
        "prediction": found.prediction,
        "right": found.prediction == example.target if example.target else None,
        "source": _axis(found.source_tokens),
        "target": _axis(found.target_tokens),
        "gold": None if spans is None else [{"field": name, "rows": r, "columns": c} for name, (r, c) in cells],
        "maps": [
            {"kind": one.kind, "layer": one.layer, "head": one.head, "weights": pack(one.weights)} for one in found.maps
        ],
    }


def _axis(tokens: tuple[str, ...]) -> dict[str, Any]:
    named = [shown(token) for token in tokens]
    return {
        "tokens": named,
        "drawn": drawn(tokens),
        "order": visual_order(tokens),
        "width": max(map(width, named), default=1),
    }
