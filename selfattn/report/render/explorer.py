"""Prepare what the page's attention explorer needs: tokens as drawn, their order, gold cells, weights.

Weights are rounded to three decimals and packed into text, most of them in one character. Examples are left out from
the end when the page would grow too large; it says how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from selfattn.report.blocks import AttentionExplorer
from selfattn.report.drawing.attention import gold_cells
from selfattn.report.drawing.palette import Signs
from selfattn.report.drawing.tokens import drawn, shown, visual_order, width
from selfattn.results.attention import AttentionExample, ModelAttention

_MOST = 1_700_000  # characters of JSON; keeps the page under 3 MB
# Printable ASCII that JSON and HTML leave as it is. A code for each thousandth: one character, from 78 on two; the last
# twelve characters announce a second one.
_SYMBOLS = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"\\<>')
_CODES = [*_SYMBOLS[:-12], *(first + second for first in _SYMBOLS[-12:] for second in _SYMBOLS)]


def explorer_data(maps: AttentionExplorer, signs: Signs) -> dict[str, Any]:
    """Return as many examples as fit, in the order given.

    Args:
        maps: the examples and the models to show.
        signs: of the models.

    Returns:
        `{"total": examples there are, "models": [...], "examples": [...]}`.
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
    return {"total": len(maps.examples), "models": models, "examples": examples}


def pack(weights: Iterable[Iterable[float]]) -> str:
    """Return weights row by row as text: thousandths up to 77 as one character, greater ones as two.

    Example:
        >>> pack([[0.0, 0.001, 0.0772], [0.078, 1.0, 0.5]])
        '!#rs!}8wc'
    """
    return "".join(_CODES[round(1000 * min(1.0, max(0.0, weight)))] for row in weights for weight in row)


def _example(example: AttentionExample, names: Iterable[str]) -> dict[str, Any]:
    models = {name: model for name in names if (model := example.models.get(name)) and model.maps}
    return {
        "source": example.source,
        "target": example.target or next((model.prediction for model in models.values()), ""),
        "format": example.format,
        "hasGold": bool(example.gold),
        "models": {name: _model(example, model) for name, model in models.items()},
    }


def _model(example: AttentionExample, model: ModelAttention) -> dict[str, Any]:
    # Gold spans are no places where the prediction is not as long as the target.
    spans = example.gold if len(model.prediction) == len(example.target) else None
    cells = ((span.field, gold_cells(span, model.source_tokens, model.target_tokens)) for span in spans or ())
    return {
        "prediction": model.prediction,
        "right": model.prediction == example.target if example.target else None,
        "source": _axis(model.source_tokens),
        "target": _axis(model.target_tokens),
        "gold": None if spans is None else [{"field": name, "rows": r, "columns": c} for name, (r, c) in cells],
        "maps": [{"kind": m.kind, "layer": m.layer, "head": m.head, "weights": pack(m.weights)} for m in model.maps],
    }


def _axis(tokens: tuple[str, ...]) -> dict[str, Any]:
    named = [shown(token) for token in tokens]
    widest = max(map(width, named), default=1)
    return {"tokens": named, "drawn": drawn(tokens), "order": visual_order(tokens), "width": widest}
