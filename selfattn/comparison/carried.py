"""A comparison whose runs are gone: its outputs, plan and ledger as they were; figures are computed anew from these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from selfattn.codec import Plain, encode, read, read_json
from selfattn.comparison.measured import measure
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.seal import PUBLISHED, digest_of
from selfattn.comparison.tested import Answer, Answered
from selfattn.errors import UserError
from selfattn.results.record import Record

CARRIED = "carried.json"
_ADVICE = "take the report from where it was published"


@dataclass(frozen=True)
class CarriedRun(Plain):
    """The outputs of a run.

    Attributes:
        model: its name.
        seed: of the training.
        budget: share of the training.
        failed: whether the training diverged.
        answers: every test pair with its output.
        probes: answers to further pairs.
    """

    model: str
    seed: int
    budget: float
    failed: bool
    answers: tuple[Answer, ...]
    probes: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Carried(Plain):
    """What is left of a comparison.

    Attributes:
        frame: its record; what follows from the outputs is left out. Curves, costs, attention, gates of models and the
            check of the plan are carried over.
        data: settings of the training data.
        runs: in the order of the record.
        words: see :class:`selfattn.comparison.tested.TestResult`.
    """

    frame: Record
    data: Mapping[str, object]
    runs: tuple[CarriedRun, ...]
    words: Mapping[str, int] = field(default_factory=dict)

    def outputs(self) -> RunTable[Answered]:
        """Return the outputs of all runs."""
        rows = []
        for run in self.runs:
            rows.append((run.budget, run.model, Answered(run.seed, run.failed, run.answers, run.probes, self.words)))
        return RunTable.gather(rows)

    def record(self) -> Record:
        """Compute every figure of the record that follows from the outputs.

        Raises:
            UserError: the test items, or the runs, are not those of the plan.
        """
        outputs = self.outputs()
        seal = self.frame.seal
        runs = {model.name: model.seeds for model in self.frame.models}
        if {name: tuple(run.seed for run in of_model) for name, of_model in outputs.main.items()} != runs:
            raise UserError(f"{CARRIED}: has other runs than its record; {_ADVICE}")
        if seal is None or not seal.is_true or encode(seal.decides.get("test")) != digest_of(outputs.first.pairs):
            raise UserError(f"{CARRIED}: has other test items than the sealed plan; {_ADVICE}")
        return measure(self.frame, self.data, outputs)


def read_carried(folder: Path) -> Carried | None:
    """Return what was carried over; None where runs were packed.

    Raises:
        UserError: it is damaged.
    """
    path = folder / CARRIED
    return read(Carried, path, advice=_ADVICE) if path.is_file() else None


def is_published(sha256: str) -> bool:
    """Whether a packed comparison is one of those that were carried over for the documentation: nobody else may."""
    known: dict[str, dict[str, str]] = read_json(PUBLISHED, advice="install selfattn again")
    return any(plan.get("packed") == sha256 for plan in known.values())
