"""From trained and tested runs to the record that a report is made from."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.evaluation.evaluate import Evaluation, places_by_tag
from selfattn.evaluation.intervals import LEVEL, METHOD, bootstrap_share
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS
from selfattn.report.record import (
    SCHEMA,
    Attention,
    AttentionExample,
    AttentionMap,
    Curve,
    Difference,
    Estimate,
    FormatScore,
    Interval,
    Measure,
    Model,
    ModelAttention,
    Point,
    Record,
    Timing,
)
from selfattn.tasks.run import Run

_EXAMPLES, _EXAMPLES_WITHOUT_FORMATS = 12, 6  # whose attention is shown
_DIFFERENCES = 40
_POINT = ("epoch", "step", "tokens", "seconds", "train_loss", "valid_loss", "valid_exact_match")


@dataclass(frozen=True)
class Trial:
    """One model, trained with one seed and tested.

    Attributes:
        directory: of the run, as seen from the report.
        run: the trained model.
        record: its ``run.json``.
        metrics: its ``metrics.jsonl``.
        evaluation: on the test pairs.
        predict_ms: median milliseconds for one input alone.
    """

    directory: str
    run: Run
    record: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    evaluation: Evaluation
    predict_ms: float

    @property
    def seed(self) -> int:
        """The seed that it was trained with."""
        return self.run.config.training.seed

    def training(self) -> dict[str, Any]:
        """How it was trained, but for the seed, as plain JSON values."""
        values = asdict(self.run.config.training)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if name != "seed"}


def make_record(trials: Sequence[Trial], *, command: str, quick: bool) -> Record:
    """Put trials together.

    Args:
        trials: of one task on one test, seed after seed, in each the models in the same order.
        command: makes the same again.
        quick: whether the trainings were small ones.
    """
    by_model: dict[str, list[Trial]] = {}
    for trial in trials:
        by_model.setdefault(trial.run.config.preset, []).append(trial)
    firsts = {name: own[0] for name, own in by_model.items()}
    shared = _shared([trial.training() for trial in firsts.values()])
    first = trials[0]
    data = {name: value for name, value in first.run.config.data.items() if name not in ("kind", "validation_items")}
    return Record(
        schema=SCHEMA,
        task=first.run.config.task,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        environment=_environment(first.record),
        settings=data | {"quick": quick} | shared,
        test_items=len(first.evaluation.pairs),
        models=tuple(_model(name, own, shared) for name, own in by_model.items()),
        interval=Interval(LEVEL, METHOD, over="items"),
        attention=Attention(_examples(firsts)),
        differences=_differences(firsts),
    )


def _environment(record: Mapping[str, Any]) -> dict[str, str | int | float | None]:
    versions, machine = record["versions"], record["machine"]
    found = {name: versions[name] for name in ("selfattn", "python", "torch", "babel", "cldr")}
    return (
        found | {name: machine[name] for name in ("platform", "cpu", "cores", "threads")} | {"commit": record["commit"]}
    )


def _shared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is the same for all."""
    return {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}


def _model(name: str, trials: Sequence[Trial], shared: Mapping[str, Any]) -> Model:
    preset, first = PRESETS[name], trials[0]
    own = {key: value for key, value in first.training().items() if key not in shared}
    right = [trial.evaluation.right for trial in trials]
    error_rates = tuple(trial.evaluation.character_error_rate for trial in trials)
    return Model(
        name=name,
        attention=preset.attention,
        parameters=first.record["parameters"],
        seeds=tuple(trial.seed for trial in trials),
        metrics={
            "exact_match": _estimate(right, range(len(right[0]))),
            "character_error_rate": Estimate(statistics.mean(error_rates), runs=error_rates),
        },
        summary=preset.summary,
        source=preset.source,
        parameters_non_embedding=first.record["parameters_non_embedding"],
        by_format={
            tag: FormatScore(len(places), _estimate(right, places))
            for tag, places in places_by_tag(first.evaluation.pairs).items()
        },
        timing=Timing(
            train_seconds=_measure(trial.record["train_seconds"] for trial in trials),
            tokens_per_second=_measure(t.metrics[-1]["tokens"] / t.metrics[-1]["seconds"] for t in trials),
            predict_ms=_measure(trial.predict_ms for trial in trials),
            predict_batch_ms=_measure(1000 * t.evaluation.seconds / len(t.evaluation.pairs) for t in trials),
        ),
        curves=tuple(
            Curve(trial.seed, tuple(Point(**{key: line[key] for key in _POINT}) for line in trial.metrics))
            for trial in trials
        ),
        config=config_to_dict(first.run.config.model) | ({"training": own} if own else {}),
        run_dirs=tuple(trial.directory for trial in trials),
    )


def _estimate(right: Sequence[Sequence[bool]], places: Sequence[int]) -> Estimate:
    chosen = [[run[place] for place in places] for run in right]
    interval = bootstrap_share(chosen)
    return Estimate(interval.mean, interval.low, interval.high, tuple(sum(run) / len(run) for run in chosen))


def _measure(values: Any) -> Measure:
    runs = tuple(values)
    return Measure(statistics.mean(runs), runs)


def _examples(trials: Mapping[str, Trial]) -> tuple[AttentionExample, ...]:
    """The first test pair of every format, or the first pairs of all, with the attention of all that have it."""
    pairs = next(iter(trials.values())).evaluation.pairs
    places = [places[0] for places in places_by_tag(pairs).values()] or list(range(_EXAMPLES_WITHOUT_FORMATS))
    chosen = [pairs[place] for place in places[:_EXAMPLES] if place < len(pairs)]
    runs = {name: trial.run for name, trial in trials.items() if PRESETS[name].attention}
    return tuple(_example(pair, runs) for pair in chosen) if runs else ()


def _example(pair: Pair, runs: Mapping[str, Run]) -> AttentionExample:
    found: dict[str, ModelAttention] = {}
    for name, run in runs.items():
        view = run.attention(pair.source)
        maps = tuple(
            AttentionMap("cross", layer, head, tuple(tuple(round(w, 4) for w in row) for row in one.tolist()))
            for layer, weights in enumerate(view.weights)
            for head, one in enumerate(weights)
        )
        found[name] = ModelAttention(view.prediction, view.source_tokens, view.target_tokens, maps)
    return AttentionExample(pair.source, pair.target, pair.tag, pair.spans, found)


def _differences(trials: Mapping[str, Trial]) -> tuple[Difference, ...]:
    """Test pairs on which the models do not agree: of every pattern of right and wrong some, rare patterns first."""
    evaluations = {name: trial.evaluation for name, trial in trials.items()}
    pairs = next(iter(evaluations.values())).pairs
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place in range(len(pairs)):
        if len({evaluation.predictions[place] for evaluation in evaluations.values()}) > 1:
            patterns.setdefault(tuple(e.right[place] for e in evaluations.values()), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    return tuple(
        Difference(
            pairs[place].source,
            pairs[place].target,
            pairs[place].tag,
            {name: evaluation.predictions[place] for name, evaluation in evaluations.items()},
        )
        for place in chosen[:_DIFFERENCES]
    )
