"""What the attention explorer of the page needs, as one JSON object: tokens as drawn, their order, gold cells, weights.

Weights are rounded to three decimals and packed into text, most of them in one character. Examples are left out from
the end when the object would grow over its budget; the page says how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from selfattn.figures.attention import AttentionExample, AttentionMap, ModelAttention
from selfattn.figures.record import Record
from selfattn.report.drawing.attention_svg import attention_svg, gold_cells
from selfattn.report.drawing.palette import signs
from selfattn.report.drawing.tokens import drawn, shown, visual_order, width
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import Message, message

BUDGET = 1_700_000  # characters of JSON; keeps the page under 3 MB
STILL = 4  # models whose map is shown without JavaScript
# Printable ASCII that JSON and HTML leave as it is; the last twelve announce a second character.
SYMBOLS = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"\\<>')
SINGLES = len(SYMBOLS) - 12


def explorer_data(record: Record, budget: int = BUDGET) -> dict[str, Any]:
    """Examples for the explorer, as many as fit, in the order of the record.

    Args:
        record: the comparison.
        budget: most characters of JSON.

    Returns:
        `{"total": examples in the record, "models": [...], "examples": [...]}`; no examples when no model has maps.
    """
    sign = signs([model.name for model in record.models])
    with_maps = [m.name for m in ranked(record) if any(_maps(example, m.name) for example in record.attention.examples)]
    models = [{"name": n, "colour": sign[n].colour, "path": sign[n].path} for n in with_maps]
    examples: list[dict[str, Any]] = []
    used = 0
    for example in record.attention.examples if with_maps else ():
        one = _example(example, with_maps)
        used += len(json.dumps(one, ensure_ascii=False, separators=(",", ":")))
        if used > budget and examples:
            break
        examples.append(one)
    return {"total": len(record.attention.examples), "models": models, "examples": examples}


def still_maps(record: Record) -> list[tuple[str, str, str]]:
    """The first example for pages without JavaScript: model, prediction, picture (mean over the last layer's heads)."""
    for example in record.attention.examples[:1]:
        names = [m.name for m in ranked(record) if any(one.kind == "cross" for one in _maps(example, m.name))]
        shown = {name: example.models[name] for name in names[:STILL]}
        return [(name, found.prediction, _still(example, found)) for name, found in shown.items()]
    return []


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


def without_maps(record: Record) -> Message | None:
    """The sentence that names the models that have no attention to show."""
    names = [model.name for model in record.models if not model.attention]
    return message("attention.none", names=", ".join(names)) if names else None


def _maps(example: AttentionExample, name: str) -> tuple[AttentionMap, ...]:
    return example.models[name].maps if name in example.models else ()


def _still(example: AttentionExample, found: ModelAttention) -> str:
    last = max(one.layer for one in found.maps if one.kind == "cross")
    heads = [one.weights for one in found.maps if one.kind == "cross" and one.layer == last]
    mean = [[sum(cells) / len(heads) for cells in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]
    gold = example.gold if gold_fits(example, found) else ()
    return attention_svg(mean, found.source_tokens, found.target_tokens, gold)


def gold_fits(example: AttentionExample, found: ModelAttention) -> bool:
    """Whether places in the target are places in the prediction: only when both are of the same length."""
    return len(found.prediction) == len(example.target)


def _example(example: AttentionExample, names: list[str]) -> dict[str, Any]:
    shown_models = {name: example.models[name] for name in names if _maps(example, name)}
    return {
        "source": example.source,
        "target": example.target,
        "format": example.format,
        "hasGold": bool(example.gold),
        "models": {name: _model(example, found) for name, found in shown_models.items()},
    }


def _model(example: AttentionExample, found: ModelAttention) -> dict[str, Any]:
    gold = None
    if gold_fits(example, found):
        gold = []
        for span in example.gold:
            rows, columns = gold_cells(span, found.source_tokens, found.target_tokens)
            gold.append({"field": span.field, "rows": rows, "columns": columns})
    return {
        "prediction": found.prediction,
        "right": found.prediction == example.target,
        "source": _axis(found.source_tokens),
        "target": _axis(found.target_tokens),
        "gold": gold,
        "maps": [
            {
                "kind": one.kind,
                "layer": one.layer,
                "head": one.head,
                "weights": pack(one.weights),
            }
            for one in found.maps
        ],
    }


def _axis(tokens: tuple[str, ...]) -> dict[str, Any]:
    order = visual_order(tokens)
    return {
        "tokens": [shown(token) for token in tokens],
        "drawn": drawn(tokens),
        "order": order,
        "width": max((width(shown(token)) for token in tokens), default=1),
    }
