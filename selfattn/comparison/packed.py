"""What is packed beside a report, and the record that is made of it again."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from selfattn.codec import Plain, encode, read
from selfattn.comparison import outputs, scores
from selfattn.comparison.analysis import measure
from selfattn.comparison.check import pairs_digest, read_published
from selfattn.comparison.plan import ComparisonPlan, read_plan
from selfattn.comparison.record import make_record
from selfattn.comparison.report import PACKED, check_report_place, unpack
from selfattn.comparison.tested import RunOnDisk, RunOutputs, RunTable, by_model, read_runs
from selfattn.errors import UserError
from selfattn.evaluation.gates import output_gates
from selfattn.evaluation.metrics import make_metric
from selfattn.experiments.plan import PLAN
from selfattn.files import make_directory
from selfattn.report.sections.models import DEMO
from selfattn.report.write import RESULTS, ReportFiles, write_report
from selfattn.results.record import Gate, Record, read_record
from selfattn.runs.task import task_of_settings
from selfattn.words.messages import SOURCE

CARRIED = "carried.json"
_OUTPUT_GATES = ("endings", "repetition", "variety")
_ADVICE = "take the report from where it was published"


def record_of(folder: Path, sha256: str) -> Record:
    """Make the record again of what was packed, with every score computed from the outputs.

    Args:
        folder: see :func:`selfattn.comparison.report.unpack`.
        sha256: of what is packed.
    """
    if external := read_external(folder):
        return replace(external.record(), outputs_sha256=sha256)
    if carried := read_carried(folder):
        record = carried.record()
        gates = _gates_again(record.gates, carried.outputs())
        # Those that were carried over for the documentation; nobody else may.
        is_published = any(plan.get("packed") == sha256 for plan in read_published().values())
        return replace(record, gates=gates, carried=is_published, outputs_sha256=sha256)
    plan = read_plan(folder)
    runs = read_runs(folder, plan)
    outputs = runs.map(lambda run: replace(run.outputs, scores={}))
    return replace(made_again(folder, plan, runs, outputs), outputs_sha256=sha256)


def made_again(folder: Path, plan: ComparisonPlan, runs: RunTable[RunOnDisk], outputs: RunTable[RunOutputs]) -> Record:
    """Make the record again of a comparison and of new outputs of its runs."""
    again = make_record(folder, runs, plan, outputs)
    gates = _gates_again(again.gates, outputs)
    return replace(again, gates=gates, demo=(folder / DEMO).is_file())


def _gates_again(gates: Sequence[Gate], outputs: RunTable[RunOutputs]) -> tuple[Gate, ...]:
    """Compute the gates on outputs again; all others stay as they are."""
    again = list(gates)
    for place, gate in enumerate(gates):
        run = next((run for run in outputs.main.get(gate.model, ()) if run.seed == (gate.seed or 0)), None)
        if gate.name in _OUTPUT_GATES and run is not None:
            finished = [answer.finished for answer in run.answers]
            computed = output_gates(run.texts, [pair.target for pair in run.pairs], finished)
            new = next(other for other in computed if other.name == gate.name)
            again[place] = replace(gate, value=new.value, passed=new.passed)
    return tuple(again)


@dataclass(frozen=True)
class CarriedRun(RunOutputs):
    """The outputs of a run, with its place in the table of runs.

    Attributes:
        model: its name.
        budget: share of the training.
    """

    model: str = field(kw_only=True)
    budget: float = field(kw_only=True)


@dataclass(frozen=True)
class Carried(Plain):
    """What is left of a comparison.

    Attributes:
        frame: its record; what follows from the outputs is left out. Curves, costs, attention, gates of models and the
            check of the plan are carried over.
        data: settings of the training data.
        runs: in the order of the record.
        words: see :class:`selfattn.comparison.tested.RunSummary`.
    """

    frame: Record
    data: Mapping[str, Any]
    runs: tuple[CarriedRun, ...]
    words: Mapping[str, int] = field(default_factory=dict)

    def outputs(self) -> RunTable[RunOutputs]:
        """Return the outputs of all runs."""
        table = RunTable[RunOutputs].gather((run.budget, run.model, run) for run in self.runs)
        return table.map(lambda run: replace(run, words=self.words, scores={}))

    def record(self) -> Record:
        """Compute every figure of the record that follows from the outputs.

        Raises:
            UserError: the test items, or the runs, are not those of the plan.
        """
        outputs = self.outputs()
        seal = self.frame.seal
        runs = {model.name: list(model.seeds) for model in self.frame.models}
        if by_model(outputs.main, lambda run: run.seed) != runs:
            raise UserError(f"{CARRIED}: has other runs than its record; {_ADVICE}")
        if seal is None or not seal.is_true or encode(seal.decides.get("test")) != pairs_digest(outputs.first.pairs):
            raise UserError(f"{CARRIED}: has other test items than the sealed plan; {_ADVICE}")
        task = task_of_settings(self.frame.task, self.data, "results.json")
        names = dict.fromkeys((self.frame.headline.metric, *self.frame.units))
        metrics = [make_metric(name, task.language) for name in names]
        return measure(self.frame, task, outputs, metrics, self.data.get("further_tests", ()))


def read_carried(folder: Path) -> Carried | None:
    """Return what was carried over; None where runs were packed.

    Raises:
        UserError: it is damaged.
    """
    path = folder / CARRIED
    return read(Carried, path, advice=_ADVICE) if path.is_file() else None


def is_external(folder: Path) -> bool:
    """Return whether a directory holds a comparison of outputs or of scores, which has no plan and no runs."""
    results = folder / RESULTS
    return not (folder / PLAN).exists() and results.is_file() and not read_record(results).trained


def read_external(folder: Path) -> outputs.Judged | scores.JudgedScores | None:
    """Read what was packed, and is unpacked in a directory; None where it is a comparison of trained runs.

    Raises:
        UserError: what is there is damaged.
    """
    if (folder / outputs.JUDGED).is_file():
        return outputs.Judged.unpack(folder)
    return scores.JudgedScores.unpack(folder) if (folder / scores.JUDGED).is_file() else None


def rewrite_external(folder: Path, out: Path, lang: str = SOURCE) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison of outputs or scores again, from its record and what is packed beside it.

    Args:
        folder: of the comparison.
        out: directory for the report; an older one of the same comparison is replaced.
        lang: language of the report.

    Raises:
        UserError: what is packed does not belong to the record, or the report cannot be written.
    """
    record = read_record(folder / RESULTS)
    check_report_place(out, record.command)
    with unpack(folder / PACKED) as (files, sha256):
        judged = read_external(files) if sha256 == record.outputs_sha256 else None
        if judged is None:
            raise UserError(f"{folder / PACKED}: is not that of {folder / RESULTS}; compare again")
    make_directory(out)
    if not out.samefile(folder):
        shutil.copy(folder / PACKED, out / PACKED)
    return record, write_report(record, out, lang, judged.outputs())
