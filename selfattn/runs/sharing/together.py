"""Several runs asked as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from selfattn.decoding.texts import OwnSearch
from selfattn.errors import UserError
from selfattn.models.ensemble import Ensemble, EnsembleConfig
from selfattn.runs.directory import TOKENIZER, RunConfig, files_in

if TYPE_CHECKING:
    from selfattn.runs.run import Run


def together(runs: Sequence[Run]) -> tuple[RunConfig, Ensemble]:
    """Put runs together: the mean of their probabilities, and settings that hold for all of them.

    Args:
        runs: at least two.

    Raises:
        UserError: they are of different tasks, or do not share their vocabulary; or one gives no probabilities.
    """
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise UserError(
                f"{run.path}: was trained on {run.config.task}, {first.path} on {first.config.task}; runs that are "
                "asked together are of one task"
            )
        if files_in(run.path / TOKENIZER) != files_in(first.path / TOKENIZER):
            raise UserError(
                f"{run.path}: has another vocabulary than {first.path}; runs asked together share one, such as "
                "those of a comparison"
            )
    for run in runs:
        if isinstance(run.model, OwnSearch):
            raise UserError(f"{run.path}: gives no probabilities of each step; take the run that it was exported from")
    model = EnsembleConfig(tuple(run.config.model for run in runs))
    names = " + ".join(run.config.preset for run in runs)
    longest = min(run.config.max_length for run in runs)
    return replace(first.config, preset=names, model=model, max_length=longest), Ensemble([run.model for run in runs])
