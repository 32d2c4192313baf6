"""From trained and tested runs, as they lie on disk, to the record that a report is made from."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from selfattn.comparison.buckets import make_buckets
from selfattn.comparison.gates import make_gates
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.metrics.metric import make_metric
from selfattn.evaluation.statistics.intervals import interval_method
from selfattn.evaluation.statistics.significance import compare_outputs
from selfattn.figures.alignment import HeadAlignment, ModelAlignment
from selfattn.figures.attention import Attention, AttentionExample, AttentionMap, ModelAttention
from selfattn.figures.cost import Cost, DecodingCost, MeanOverRuns, Timing
from selfattn.figures.curves import Curve, Point
from selfattn.figures.gates import Floor
from selfattn.figures.pairs import Comparison
from selfattn.figures.quality import Estimate, Headline
from selfattn.figures.record import SCHEMA, UNMATCHED, Difference, Matching, Model, Record, TuningTrial
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS, Preset, get_preset
from selfattn.runs.directory import RunRecord
from selfattn.runs.task import task_of
from selfattn.runs.testing import Tested

_DIFFERENCES = 40
_POINT = ("epoch", "step", "tokens", "seconds", "train_loss", "valid_loss")
_NOT_DATA = ("kind", "validation_items")


@dataclass(frozen=True)
class Frame:
    """What a comparison is besides its runs.

    Attributes:
        command: makes the same again.
        headline: what the verdict is about.
        quick: whether the trainings were small ones.
        matching: what the models were sized for.
        trials: of each model's tuning.
        space: what tuning searched.
        floor: what others reached, where the user has said so.
    """

    command: str
    headline: Headline
    quick: bool = False
    matching: Matching = UNMATCHED
    trials: Mapping[str, tuple[TuningTrial, ...]] = field(default_factory=dict)
    space: Mapping[str, str] = field(default_factory=dict)
    floor: Floor | None = None


def make_record(
    models: Mapping[str, Sequence[Tested]], frame: Frame, few: Mapping[int, Mapping[str, Tested]] | None = None
) -> Record:
    """Put runs together.

    Args:
        models: for each model its runs, seed after seed; all tested on the same pairs.
        frame: of the comparison.
        few: runs that were trained on so few pairs only, by their number and the model's name.

    Raises:
        UserError: runs were not tested on the same pairs.
    """
    firsts = {name: runs[0] for name, runs in models.items()}
    first = next(iter(firsts.values()))
    pairs = first.pairs
    for runs in models.values():
        for run in runs:
            if run.config.task != first.config.task or run.pairs != pairs:
                raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; compare runs of one test")
    shared = _shared([_training(run) for run in firsts.values()])
    predictions = {name: [run.outputs for run in runs] for name, runs in models.items()}
    task = task_of(first.config.task, first.config.data, str(first.path))
    language = task.language
    metrics = {name: make_metric(name, language) for name in (frame.headline.metric, *first.figures["scores"])}
    metric = metrics[frame.headline.metric]
    references = [pair.target for pair in pairs]
    # Beside the metric that decides, others: two scores that agree are worth more than one.
    tested = [metric, *(make_metric(name, language) for name in metric.beside)]
    comparison, *further = [compare_outputs(predictions, references, one) for one in tested]
    data = {name: value for name, value in first.config.data.items() if name not in _NOT_DATA}
    decoding = first.figures["decoding"]
    tuning = {"tuning_space": dict(frame.space)} if frame.space else {}
    return Record(
        schema=SCHEMA,
        task=first.config.task,
        created=max(run.figures["created"] for runs in models.values() for run in runs),
        command=frame.command,
        environment=_environment(first.record),
        settings=data | {"quick": frame.quick} | decoding | shared | tuning,
        test_items=len(pairs),
        models=tuple(_model(name, runs, shared, comparison, frame) for name, runs in models.items()),
        headline=frame.headline,
        interval=interval_method(comparison.estimates[next(iter(models))].over),
        pairs=tuple(pair for found in (comparison, *further) for pair in found.pairs),
        gates=make_gates(models, frame.matching, frame.floor),
        matching=frame.matching,
        buckets=make_buckets(models, few or {}, metric, task.tag_name),
        attention=Attention(_examples(firsts, pairs)),
        differences=_differences(firsts, pairs),
        subject=task.subject(),
        units={name: one.unit for name, one in metrics.items()},
    )


def _environment(record: RunRecord) -> Mapping[str, str | int | float | None]:
    versions, machine = record.versions, record.machine
    found = {name: versions[name] for name in ("selfattn", "python", "torch", "babel", "cldr")}
    return found | {name: machine[name] for name in ("platform", "cpu", "cores", "threads")} | {"commit": record.commit}


def _training(run: Tested) -> dict[str, Any]:
    """How a run was trained, but for the seed, as plain JSON values."""
    values = asdict(run.config.training)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if name != "seed"}


def _shared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is the same for all."""
    return {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}


def _model(name: str, runs: Sequence[Tested], shared: Mapping[str, Any], comparison: Comparison, frame: Frame) -> Model:
    first = runs[0]
    known = first.config.preset in PRESETS
    preset = get_preset(first.config.preset) if known else Preset("", "", lambda: first.config.model)
    own = {key: value for key, value in _training(first).items() if key not in shared}
    return Model(
        name=name,
        attention=bool(first.figures["attention"]) or preset.attention,
        parameters=first.record.parameters,
        seeds=tuple(run.seed for run in runs),
        metrics=_metrics(name, runs, comparison, frame.headline),
        summary=preset.summary,
        source=preset.source,
        parameters_non_embedding=first.record.parameters_non_embedding,
        timing=Timing(
            train_seconds=_measure(run.record.train_seconds for run in runs),
            tokens_per_second=_measure(run.metrics[-1].tokens / run.metrics[-1].seconds for run in runs),
            predict_ms=_measure(run.figures["predict_ms"] for run in runs),
            predict_batch_ms=_measure(1000 * run.figures["seconds"] / len(run.answers) for run in runs),
        ),
        cost=_cost(first),
        alignment=_alignment(first.figures["alignment"]),
        tuning=frame.trials.get(name, ()),
        curves=tuple(_curve(run, frame.headline) for run in runs),
        config=config_to_dict(first.config.model) | ({"training": own} if own else {}),
        run_dirs=tuple(f"runs/{run.path.name}" for run in runs),
    )


def _metrics(name: str, runs: Sequence[Tested], comparison: Comparison, headline: Headline) -> dict[str, Estimate]:
    """The headline with its interval, and every other metric as it is."""
    metrics = {headline.metric: comparison.estimates[name]}
    for metric in runs[0].figures["scores"]:
        if metric != headline.metric:
            values = tuple(float(run.figures["scores"][metric]) for run in runs)
            metrics[metric] = Estimate(statistics.mean(values), runs=values)
    return metrics


def _measure(values: Iterable[float]) -> MeanOverRuns:
    runs = tuple(values)
    return MeanOverRuns(statistics.mean(runs), runs)


def _cost(run: Tested) -> Cost:
    found: Mapping[str, Any] = run.figures["cost"]
    total = found["training_flops_per_token"] * run.metrics[-1].tokens
    peak = found.get("peak_flops")
    return Cost(
        training_flops=total,
        training_flops_per_token=found["training_flops_per_token"],
        decoding_flops_per_token=found["decoding_flops_per_token"],
        peak_share=None if peak is None else total / run.record.train_seconds / peak,
        training_bytes=found.get("training_bytes"),
        weights_bytes=found["weights_bytes"],
        run_bytes=found["run_bytes"],
        decoding=tuple(DecodingCost(**row) for row in found.get("decoding", ())),
    )


def _alignment(found: Mapping[str, Any] | None) -> ModelAlignment | None:
    if found is None:
        return None
    layer, head = found["best"]
    heads, means = (tuple(HeadAlignment(**row) for row in found[rows]) for rows in ("heads", "means"))
    return ModelAlignment(heads, means, (layer, head), found.get("diagonal_aer"))


def _curve(run: Tested, headline: Headline) -> Curve:
    per_token = run.figures["cost"]["training_flops_per_token"]
    return Curve(
        run.seed,
        tuple(
            Point(
                **{key: getattr(report, key) for key in _POINT},
                flops=per_token * report.tokens,
                valid=report.measures.get(headline.metric),
            )
            for report in run.metrics
        ),
    )


def _examples(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[AttentionExample, ...]:
    """The attention of all models that have it, side by side on the same pairs."""
    found: dict[int, dict[str, ModelAttention]] = {}
    for name, run in firsts.items():
        for shown in run.figures["attention"]:
            maps = tuple(
                AttentionMap("cross", layer, head, tuple(map(tuple, weights)))
                for layer, heads in enumerate(shown["cross"])
                for head, weights in enumerate(heads)
            )
            tokens = tuple(shown["source_tokens"]), tuple(shown["target_tokens"])
            found.setdefault(shown["place"], {})[name] = ModelAttention(shown["prediction"], *tokens, maps)
    return tuple(
        AttentionExample(pairs[place].source, pairs[place].target, pairs[place].tag, pairs[place].spans, shown)
        for place, shown in sorted(found.items())
    )


def _differences(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Test pairs on which the models do not agree: of every pattern of right and wrong some, rare patterns first."""
    outputs = {name: run.outputs for name, run in firsts.items()}
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        if len({own[place] for own in outputs.values()}) > 1:
            patterns.setdefault(tuple(own[place] == pair.target for own in outputs.values()), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    return tuple(
        Difference(
            pairs[place].source,
            pairs[place].target,
            pairs[place].tag,
            {name: own[place] for name, own in outputs.items()},
        )
        for place in chosen[:_DIFFERENCES]
    )
