"""The seal of a comparison: what is fixed before the first training, and whether a record keeps to it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from selfattn.codec import encode, fingerprint
from selfattn.comparison.plan import Plan
from selfattn.comparison.trainings import Trainings
from selfattn.data.pairs import Pair
from selfattn.results.plan import Seal
from selfattn.results.record import Model, Record

# No decisions, or made later: tuning has a line of its own in the ledger.
NOT_SEALED = ("command", "seal", "trials", "tuned", "ended")
_IN_THE_RECORD = ("margin", "headline", "matching", "analysis")  # fields of plan and record of the same name
_SHARED = 0.01  # of the test sources may be validation sources too, as real corpora repeat short sentences


def decisions(plan: Plan, trainings: Trainings) -> dict[str, Any]:
    """Return everything that the results depend on, to be sealed before training."""
    data, tests = trainings.data(plan.first_seed)
    sources = {pair.source for pair in tests.validation}
    validation = digest_of(tests.validation) | {"in_test": sum(pair.source in sources for pair in tests.pairs)}
    return of_plan(plan) | {
        "recipe": {name: value for name, value in encode(trainings.recipe).items() if name != "seed"},
        "decoding": encode(trainings.task.decoding),
        "data": dict(data.settings),
        "test": digest_of(tests.pairs),
        "validation": validation,
    }


def of_plan(plan: Plan) -> dict[str, Any]:
    """Return what is sealed of a plan itself."""
    return {name: value for name, value in encode(plan).items() if name not in NOT_SEALED}


def digest_of(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return number and SHA-256 of pairs."""
    return {"items": len(pairs), "sha256": fingerprint([[pair.source, pair.target] for pair in pairs])}


def is_whole(seal: Seal) -> bool:
    """Whether the hash of a seal is that of its decisions."""
    return fingerprint(encode(dict(seal.decides))) == seal.sha256


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
    seal = record.plan.seal if record.plan else None
    pair = seal.decides.get("primary") if seal else None
    return (str(pair[0]), str(pair[1])) if isinstance(pair, list | tuple) else None


def unkept(record: Record, pairs: Sequence[Pair]) -> Iterator[str]:
    """Name what a record says otherwise than its seal: settings that decide what is printed, and the test items.

    Args:
        record: whose seal is looked at; older seals have fewer decisions.
        pairs: the test items of its outputs.
    """
    seal = record.plan.seal if record.plan else None
    if record.plan is None or seal is None or not seal.sha256:
        return
    if not is_whole(seal):
        yield "sha256 is not that of the decisions"
    decides = seal.decides
    values: dict[str, object] = {name: encode(getattr(record, name)) for name in _IN_THE_RECORD}
    values |= {"task": record.task, "quick": record.settings.get("quick"), "pilot": record.plan.pilot}
    values["models"] = [model.name for model in record.models]
    values["test"] = digest_of(pairs)
    if record.interim is not None:
        values |= {"looks": list(record.interim.looks), "bounds": list(record.interim.bounds)}
    for name, value in values.items():
        sealed = decides.get(name)
        if name == "models" and isinstance(sealed, Mapping):
            sealed = list(sealed)
        if name in decides and sealed != value:
            yield f"{name}: {value} in the record, {sealed} in the plan"
    for model in record.models:
        yield from _other_runs(model, decides)


def _other_runs(model: Model, decides: Mapping[str, Any]) -> Iterator[str]:
    """Name what differs between the runs of a model and those that were planned."""
    first = decides.get("first_seed", 0)
    if model.seeds != tuple(range(first, first + len(model.seeds))):
        yield f"seeds of {model.name}: {model.seeds}"
    tunings = int(decides.get("tunings", 1))
    planned = tuple((seed - first) % tunings for seed in model.seeds) if tunings > 1 else ()
    if model.tunings != planned:
        yield f"tunings of {model.name}: {model.tunings} in the record, {planned} in the plan"
