"""What wrong settings cost: fresh runs with the chosen settings against trials that no choice has selected."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from selfattn.report.verdict.ranking import trial_score
from selfattn.results.quality import Curve
from selfattn.results.record import Model, Record, TuningTrial

FACTOR = 4.0  # from which on a learning rate is called wrong


@dataclass(frozen=True)
class Wrong:
    """Scores on validation items; None where there is nothing to average.

    Attributes:
        fresh: mean of the runs with the chosen settings, whose seeds no trial has.
        selected: mean of the trials that were chosen, which are too good for having been chosen.
        any_setting: mean of all trials: what to expect of settings drawn from the space.
        lost: what settings drawn from the space lose against fresh runs with the chosen ones.
        lost_by_rate: the same for trials of other tunings whose learning rate is wrong by `FACTOR` or more.
    """

    fresh: float | None
    selected: float | None
    any_setting: float | None
    lost: float | None
    lost_by_rate: float | None


def cost_of_wrong(record: Record, model: Model) -> Wrong:
    """Return what wrong settings cost a model at the largest budget.

    The trial that was chosen in a tuning is the best of several, and so too good: what is chosen is measured by fresh
    runs. Trials of another tuning were not chosen against it, so that their mean has no such bias.

    Args:
        record: of the comparison.
        model: with its trials and the learning curves of its runs.
    """
    trials = [trial for trial in model.trials if trial.budget is None]
    best = max if record.headline.better == "higher" else min
    runs: list[tuple[int, float]] = []
    for place, seed in enumerate(model.seeds):
        curve = next((curve for curve in model.curves if curve.seed == seed), None)
        valid = _validated(curve)
        if valid:
            tuning = model.tunings[place] if model.tunings else 0
            runs.append((tuning, best(valid)))
    fresh = fmean([score for _, score in runs]) if runs else None
    wrong: list[float] = []
    for tuning, score in runs:
        apart = _wrong_rates(record, trials, tuning)
        wrong += [score - other for other in apart]
    everything = _mean(record, trials)
    turn = 1 if record.headline.better == "higher" else -1
    lost = None if fresh is None or everything is None else turn * (fresh - everything)
    by_rate = turn * fmean(wrong) if wrong else None
    return Wrong(fresh, _mean(record, [trial for trial in trials if trial.chosen]), everything, lost, by_rate)


def _validated(curve: Curve | None) -> list[float]:
    """Return the scores of the validations; points between them are measured on few items."""
    points = [point for point in curve.points if point.valid is not None] if curve else []
    validations = [point for point in points if point.valid_loss is not None]
    return [point.valid for point in validations or points if point.valid is not None]


def _mean(record: Record, trials: Sequence[TuningTrial]) -> float | None:
    scores = [score for trial in trials if (score := trial_score(record, trial)) is not None]
    return fmean(scores) if scores else None


def _wrong_rates(record: Record, trials: Sequence[TuningTrial], tuning: int) -> list[float]:
    """Return the scores of the trials whose rate is far from the choice of a tuning, but for those of this tuning."""
    chosen = next((trial.settings.get("lr") for trial in trials if trial.chosen and trial.tuning == tuning), None)
    several = len({trial.tuning for trial in trials}) > 1
    scores: list[float] = []
    for trial in trials:
        rate = trial.settings.get("lr")
        if not isinstance(rate, float) or not isinstance(chosen, float) or (several and trial.tuning == tuning):
            continue
        score = trial_score(record, trial)
        if score is not None and max(rate / chosen, chosen / rate) >= FACTOR:
            scores.append(score)
    return scores
