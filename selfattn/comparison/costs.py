"""What a training step costs, timed by turns and alone when all trainings are done, so that no neighbour counts.

A training among others takes as long as they let it. Steps times the median step are the seconds that it would take
undisturbed; the wall clock stands in the record of every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from selfattn import codec
from selfattn.codec import Plain
from selfattn.comparison.diagnostics import batch_shape
from selfattn.comparison.matching import step_seconds
from selfattn.comparison.plan import Plan
from selfattn.comparison.running.jobs import Jobs
from selfattn.files import writing

COSTS = "costs.json"
_ADVICE = "remove it, and compare with `resume`: steps are timed again"


@dataclass(frozen=True)
class StepCosts(Plain):
    """Seconds of a training step of each model, the median of some."""

    step_seconds: Mapping[str, float]


def time_steps(jobs: Jobs, plan: Plan) -> None:
    """Time a training step of every model, unless that is done; not where trainings are on a GPU.

    Args:
        jobs: of the comparison, whose data say how large a batch is.
        plan: has the models.

    Raises:
        UserError: what was found cannot be written.
    """
    path = jobs.options.out / COSTS
    if path.exists() or torch.cuda.is_available():
        return
    data = jobs.training_set(0)
    shape = batch_shape(data.validation, jobs.recipe.batch_size)
    found = step_seconds(
        {name: model.model for name, model in plan.models.items()},
        vocab_size=len(data.tokenizer),
        shape=shape,
        training=replace(jobs.recipe, accumulate=1),
    )
    with writing(path):
        codec.write(path, StepCosts({name: jobs.recipe.accumulate * seconds for name, seconds in found.items()}))


def read_step_seconds(comparison: Path) -> Mapping[str, float]:
    """Return the seconds of a step of each model; nothing where steps were not timed.

    Raises:
        UserError: the file is broken.
    """
    path = comparison / COSTS
    return codec.read(StepCosts, path, advice=_ADVICE).step_seconds if path.exists() else {}
