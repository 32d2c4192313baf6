"""What a run makes of given pairs, as lines: `selfattn score` and `selfattn align`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from selfattn.data.files import read_pairs
from selfattn.decoding.alignment import to_pharaoh
from selfattn.errors import UserError
from selfattn.evaluation.forced import TargetScore
from selfattn.tasks.run import Run


def score_lines(scores: Sequence[TargetScore]) -> Iterator[str]:
    """Write each score as a line: log-probability, tokens, log-probability a token, tabs between.

    Example:
        >>> list(score_lines([TargetScore(-3.0, 2)]))
        ['-3.000000\\t2\\t-1.500000']
    """
    for one in scores:
        yield f"{one.log_probability:.6f}\t{one.tokens}\t{one.per_token:.6f}"


def score_summary(run: Run, data: Path, scores: Sequence[TargetScore]) -> dict[str, Any]:
    """Put the scores of all pairs together, as plain JSON values.

    Args:
        run: the one that gave the scores.
        data: where the pairs are from.
        scores: at least one.
    """
    total, tokens = math.fsum(one.log_probability for one in scores), sum(one.tokens for one in scores)
    return {
        "task": run.config.task,
        "run": str(run.path),
        "model": run.config.preset,
        "data": str(data),
        "items": len(scores),
        "tokens": tokens,
        "log_probability": total,
        "per_token": total / tokens,
        "perplexity": math.exp(-total / tokens),
    }


def align_lines(run: Run, data: Path, *, layer: int, head: str, shift: int) -> Iterator[str]:
    """Write the links of each pair as a line in Pharaoh format.

    Args:
        run: a model with attention.
        data: pairs.
        layer: counted from 0, or from the end where negative.
        head: a number from 0, or ``mean``.
        shift: 0 or 1.

    Raises:
        UserError: a setting is out of its range, or the model has no attention to its source.
    """
    if shift not in (0, 1):
        raise UserError(f"--shift: expected 0 or 1, got {shift}")
    if head != "mean" and not head.isdecimal():
        raise UserError(f"--head: expected a whole number from 0, or mean; got {head}")
    number = None if head == "mean" else int(head)
    links = run.align(read_pairs(data), layer=layer, head=number, shifted=shift == 1)
    return map(to_pharaoh, links)
