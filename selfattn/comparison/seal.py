"""The seal of a comparison: what is fixed before the first training, and whether a record keeps to it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.codec import decode, encode, fingerprint, read_json, short
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answer, Answered
from selfattn.comparison.trainings import Trainings
from selfattn.comparison.tuning import space_texts
from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions
from selfattn.models.config import config_to_dict
from selfattn.plugin_loading import changed_plugins, loaded_versions
from selfattn.results.plan import PlanCheck, Seal
from selfattn.results.record import Model, Record
from selfattn.runs.training_set import TestSet
from selfattn.training.config import TrainingConfig

# No decisions, or made later: tuning has a line of its own in the ledger.
NOT_SEALED = ("command", "seal", "trials", "tuned", "ended")
_IN_THE_RECORD = ("margin", "headline", "matching", "analysis")  # fields of plan and record of the same name
# Published comparisons by name, with the hash of their plan and when it was fixed.
PUBLISHED = Path(__file__).with_name("published.json")
_ADVICE = "take the report from where it was published"
Expected = Mapping[str, tuple[object, object]]  # values by name: as a record has them, and as they should be
_SHARED = 0.01  # of the test sources may be validation sources too, as real corpora repeat short sentences


def decisions(plan: ComparisonPlan, trainings: Trainings) -> dict[str, Any]:
    """Return everything that the results depend on, to be sealed before training."""
    data, tests = trainings.data(plan.first_seed)
    sources = {pair.source or pair.target for pair in tests.validation}
    shared = sum((pair.source or pair.target) in sources for pair in tests.pairs)
    validation = digest_of(tests.validation) | {"in_test": shared}
    return of_plan(plan) | {
        "recipe": {name: value for name, value in encode(trainings.recipe).items() if name != "seed"},
        "decoding": encode(trainings.task.decoding),
        "data": dict(data.settings),
        "test": digest_of(tests.pairs),
        "tested": digest_of_tests(tests),
        "validation": validation,
    }


def of_plan(plan: ComparisonPlan) -> dict[str, Any]:
    """Return what is sealed of a plan itself."""
    return {name: value for name, value in encode(plan).items() if name not in NOT_SEALED}


def digest_of(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return number and SHA-256 of pairs."""
    return {"items": len(pairs), "sha256": fingerprint([[pair.source, pair.target] for pair in pairs])}


def digest_of_tests(tests: TestSet | Answered) -> str:
    """Return the SHA-256 of all that is tested, with tags and spans, by which the tables divide it."""
    sets: dict[str, list[object]] = {"": [_described(pair) for pair in tests.pairs]}
    for name, items in tests.probes.items():
        sets[name] = [_described(item.pair if isinstance(item, Answer) else item) for item in items]
    return fingerprint(sets)


def _described(pair: Pair) -> list[object]:
    spans = [[span.field, list(span.source), list(span.target)] for span in pair.spans]
    return [pair.source, pair.target, pair.tag, spans]


def published(seal: Seal) -> str:
    """Return the name of the published comparison that had this plan before; empty where there is none."""
    known: dict[str, dict[str, str]] = read_json(PUBLISHED, advice="install selfattn again")
    plans = {plan["sha256"]: name for name, plan in known.items() if plan["created"] < seal.created}
    return str(plans.get(seal.sha256, ""))


def validation_in_test(seal: Seal) -> str:
    """Say how many test items are validation items too; empty where they are few."""
    validation = seal.decides.get("validation")
    test = seal.decides.get("test")
    if not isinstance(validation, Mapping) or not isinstance(test, Mapping):
        return ""
    count = int(validation.get("in_test", 0))
    return f"{count:,} of {test['items']:,} test items" if count > _SHARED * test["items"] else ""


def sealed_pair(record: Record) -> tuple[str, str] | None:
    """Return the two models that the sealed plan of a record is about; None where it has none."""
    pair = record.seal.decides.get("primary") if record.seal else None
    return (str(pair[0]), str(pair[1])) if isinstance(pair, list | tuple) else None


def apart(values: Expected, where: str = "plan") -> Iterator[str]:
    """Name the values in which a record differs from another place.

    Args:
        values: by name, each as the record has it and as it is expected.
        where: what the values are expected from; default the plan.
    """
    for name, (value, expected) in values.items():
        if value != expected:
            yield f"{name}: {short(value)} in the record, {short(expected)} in the {where}"


def unkept(record: Record, data: Mapping[str, object], outputs: RunTable[Answered]) -> Iterator[str]:
    """Name what a record says otherwise than its seal: settings that decide what is printed, and the test items.

    Args:
        record: with a plan, whose seal is looked at; older seals have fewer decisions.
        data: settings of the data in its archive.
        outputs: of its archive.
    """
    plan = record.plan
    if plan is None:
        return
    seal = plan.seal
    if seal is None or not seal.sha256:
        if not plan.departures:
            yield "there is none, and no departure says so"
        return
    if not seal.is_true:
        yield "sha256 is not that of the decisions"
    decides = seal.decides
    models: Any = decides.get("models", ())
    sealed = {**decides, "models": list(models)}  # their names
    values = _of_record(record) | {"test": digest_of(outputs.first.pairs), "tested": digest_of_tests(outputs.first)}
    values["data"] = {name: value for name, value in data.items() if name != "first"}  # which is of a budget
    values["budgets"] = sorted(outputs.budgets)
    yield from apart({name: (value, sealed[name]) for name, value in values.items() if name in decides})
    for model in record.models:
        yield from apart(_of_runs(model, decides))
    yield from apart(_of_settings(record, decides))
    needed = decode(dict[str, str], decides.get("plugins", {}), file="plan", advice=_ADVICE)
    if changed := changed_plugins(needed, needed | loaded_versions()):  # one that is not loaded decides no figure
        yield f"plugins: {', '.join(changed)} differ from those in the plan"
    yield from _fewer_runs(record, plan, decides)


def _of_record(record: Record) -> dict[str, object]:
    """Return what a record says of the decisions, as plain values."""
    values: dict[str, object] = {name: encode(getattr(record, name)) for name in _IN_THE_RECORD}
    values |= {"task": record.task, "quick": record.settings.get("quick")}
    values["pilot"] = record.plan.pilot if record.plan else None
    values["models"] = [model.name for model in record.models]
    if record.interim is not None:
        values |= {"looks": list(record.interim.looks), "bounds": list(record.interim.bounds)}
    if record.tuning is not None:
        values |= {"tuning_trials": record.tuning.trials, "tunings": record.tuning.tunings}
        values["tuning_seed"] = record.tuning.seed
    return values


def _of_runs(model: Model, decides: Mapping[str, Any]) -> Expected:
    """Return seeds and tunings of a model's runs, beside those that were planned."""
    first = decides.get("first_seed", 0)
    tunings = int(decides.get("tunings", 1))
    planned = tuple((seed - first) % tunings for seed in model.seeds) if tunings > 1 else ()
    return {
        f"seeds of {model.name}": (model.seeds, tuple(range(first, first + len(model.seeds)))),
        f"tunings of {model.name}": (model.tunings, planned),
    }


def recipe_in(decides: Mapping[str, Any], **settings: Any) -> TrainingConfig:
    """Return the recipe in the decisions of a seal, with settings of a run in place of its own."""
    return decode(TrainingConfig, {**decides.get("recipe", {}), **settings}, file="plan", advice=_ADVICE)


def planned_in(decides: Mapping[str, Any]) -> ComparisonPlan | None:
    """Return the plan in the decisions of a seal; None of an older one, which has other fields."""
    if "tunings" not in decides:
        return None
    names = [field.name for field in fields(ComparisonPlan) if field.name in decides]
    return decode(
        ComparisonPlan, {name: decides[name] for name in names} | {"command": ""}, file="plan", advice=_ADVICE
    )


def _of_settings(record: Record, decides: Mapping[str, Any]) -> Expected:
    """Return the settings of models, training, decoding and tuning in a record, beside those that were planned."""
    plan = planned_in(decides)
    if plan is None:
        return {}
    decoding = decode(DecodingOptions, decides.get("decoding", {}), file="plan", advice=_ADVICE)
    ranges = space_texts(plan)
    tuned = set(chain.from_iterable(ranges.values()))
    values: dict[str, tuple[object, object]] = {}
    if record.tuning is not None:
        values["space"] = (encode(record.tuning.space), ranges)
    if tuned <= TrainingConfig.__dataclass_fields__.keys():  # else probabilities are those of the choice in the ledger
        for model in record.models:
            if model.name in plan.models:
                config = {name: value for name, value in model.config.items() if name != "training"}
                values[f"model {model.name}"] = (config, config_to_dict(plan.models[model.name].config))
    loose = tuned | {"max_steps", "warmup_steps"}  # which follow from a budget
    loose = loose.union(*(model.training for model in plan.models.values()))
    fixed = encode(dict(vars(decoding)) | dict(vars(recipe_in(decides))))
    for name, value in record.settings.items():
        if name in fixed and name not in loose:
            values[f"settings.{name}"] = (value, fixed[name])
    return values


def _fewer_runs(record: Record, plan: PlanCheck, decides: Mapping[str, Any]) -> Iterator[str]:
    """Name runs of the plan that a record lacks, unless a planned look ended it or a departure says so."""
    looks = decides.get("looks")
    looks = looks if isinstance(looks, list | tuple) else ()
    if looks and record.interim is None:
        yield f"looks: none in the record, {looks} in the plan"
    kinds = {departure.kind for departure in plan.departures}
    planned = record.interim.ended if record.interim else decides.get("seeds")
    fewest = min(len(model.seeds) for model in record.models)
    if (plan.seeds or fewest, plan.planned_seeds or planned) != (fewest, planned):
        yield f"seeds: {plan.seeds} of {plan.planned_seeds} in the record, {fewest} of {planned} were run"
    is_end = fewest == planned and (record.interim is None or planned in looks)
    if not is_end and not kinds & {"plan", "missing"}:
        yield f"seeds: {fewest} in the record, {decides.get('seeds')} in the plan"
    names = {Path(path).name for path in chain.from_iterable(model.run_dirs for model in record.models)}
    tested = {entry.run for entry in plan.entries if entry.run}
    if names - tested and not kinds & {"ledger", "unrecorded"}:
        yield f"entries: {', '.join(sorted(names - tested))} not in the ledger"
