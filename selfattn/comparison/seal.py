"""The seal of a comparison: what is fixed before the first training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.codec import decode, encode, fingerprint, read_json
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.tested import Answer, Answered
from selfattn.comparison.trainings import Trainings
from selfattn.data.pairs import Pair
from selfattn.results.plan import Seal
from selfattn.results.record import Record
from selfattn.runs.training_set import TestSet
from selfattn.training.config import TrainingConfig

# No decisions, or made later: tuning has a line of its own in the ledger.
NOT_SEALED = ("command", "seal", "trials", "tuned")
# Published comparisons by name, with the hash of their plan and when it was fixed.
PUBLISHED = Path(__file__).with_name("published.json")
_ADVICE = "take the report from where it was published"
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


def recipe_in(decides: Mapping[str, Any], **settings: Any) -> TrainingConfig:
    """Return the recipe in the decisions of a seal, with settings of a run in place of its own."""
    return decode(TrainingConfig, {**decides.get("recipe", {}), **settings}, file="plan", advice=_ADVICE)
