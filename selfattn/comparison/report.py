"""The report of a comparison, and the packed file of what it is made of."""

import hashlib
import io
import lzma
import platform
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from selfattn import __version__
from selfattn.comparison.costs import COSTS
from selfattn.comparison.plan import ComparisonPlan, planned_trials, read_plan
from selfattn.comparison.record import make_record, outputs_of
from selfattn.comparison.tested import ANSWERS, RESULT, RunOutputs, RunTable, read_runs
from selfattn.demo.page import EXAMPLES, write_best
from selfattn.errors import SettingError, UserError
from selfattn.experiments.plan import PLAN
from selfattn.files import make_directory, read_bytes, write_bytes, writing
from selfattn.ownership import check_ours
from selfattn.report.blocks import Outputs
from selfattn.report.ranking import ranked
from selfattn.report.sections.models import DEMO
from selfattn.report.write import RESULTS, ReportFiles, check_report, write_report
from selfattn.results.record import SCHEMA, Model, Record, read_record
from selfattn.runs.directory import CONFIG, CURVE, METRICS, RECORD
from selfattn.runs.ledger import LEDGER
from selfattn.words.messages import SOURCE

PACKED = "packed.tar.xz"
Published: TypeAlias = tuple[Record, ReportFiles]
"""A record, and the paths of the files of its report."""

_OF_A_RUN = (RECORD, CONFIG, METRICS, CURVE, RESULT, ANSWERS)

_LARGEST = 1 << 30  # bytes, unpacked

_PACKED_ADVICE = "take it from where the report was published, or write the report again"


def write_comparison(comparison: Path, out: Path, lang: str = SOURCE) -> Published:
    """Write the report of a comparison from its tested runs on disk; the same runs give the same bytes.

    The demo page and the packed comparison are written beside it.

    Args:
        comparison: its directory.
        out: where to write the report; an older one of ours there is replaced.
        lang: language in which the report opens, such as `ko`.

    Returns:
        The record, and the paths of the report's files.

    Raises:
        UserError: a run is missing or broken, or the report cannot be written.
    """
    plan = read_plan(comparison)
    if (out / PLAN).exists() and not out.samefile(comparison):
        raise UserError(f"{out}: holds another comparison; choose another `out` for the report of {comparison}")
    check_free_of_others(out)
    runs = read_runs(comparison, plan)
    record = make_record(comparison, runs, plan)
    make_directory(out)
    best = {model.name: runs.finished(model.name) for model in ranked(record)}
    examples = [(pair.source, pair.target) for pair in runs.first.outputs.pairs[:EXAMPLES]]
    paths = {name: run.path for name, run in best.items()}
    demo = write_best(paths, out / DEMO, lang, examples, [model.name for model in record.models])
    files = packed_files(comparison, plan, demo=demo)  # whether there is one is part of the record
    record = replace(record, outputs_sha256=pack(files, out / PACKED), demo=demo)
    return record, write_report(record, out, lang, outputs_for_sections(outputs_of(runs)))


def outputs_for_sections(table: RunTable[RunOutputs]) -> Outputs:
    """Return what sections of plugins see of the outputs."""
    pairs = table.first.pairs
    written = {name: tuple(tuple(run.texts) for run in runs) for name, runs in table.main.items()}
    return Outputs(tuple(pair.source for pair in pairs), tuple(pair.target for pair in pairs), written)


def made_now(command: str) -> dict[str, Any]:
    """Return what says how and when results of systems that were trained elsewhere are judged, by field of a record."""
    created = datetime.now().astimezone().isoformat(timespec="seconds")
    versions = {"selfattn": __version__, "python": platform.python_version()}
    return {"command": command, "created": created, "environment": versions}


def external_record(
    task: str, runs: Mapping[str, Sequence[str]], settings: Mapping[str, object], **made: Any
) -> Record:
    """Return the record of systems that were trained elsewhere, without what is measured; their runs count from 1.

    Args:
        task: name of what is judged.
        runs: names of the runs of each system.
        settings: of the comparison.
        made: see :func:`made_now`, and further fields of the record.
    """
    models = []
    for name, labels in runs.items():
        seeds = tuple(range(1, len(labels) + 1))
        models.append(Model(name, False, 0, seeds, {}, run_dirs=tuple(labels)))
    return Record(
        SCHEMA,
        task,
        settings=settings,
        test_items=1,
        models=tuple(models),
        trained=False,
        **made,
    )


def publish(
    record: Record, files: Mapping[str, bytes], out: Path, lang: str, outputs: Outputs | None = None
) -> Published:
    """Write the report of systems that were trained elsewhere, with what its record is a function of beside it.

    Args:
        record: the results, judged.
        files: from which the same is made again, by name.
        out: directory for the report; an older one of the same comparison is replaced.
        lang: language in which the report opens.
        outputs: for sections of plugins; default unknown.
    """
    make_directory(out)
    record = replace(record, outputs_sha256=pack(files, out / PACKED))
    return record, write_report(record, out, lang, outputs)


def check_report_place(out: Path, command: str) -> None:
    """Refuse a directory with another experiment, or with the report of another comparison.

    Args:
        out: where a report is to be written.
        command: of its comparison, which is not made from runs.

    Raises:
        UserError: there is something else.
    """
    check_free_of_others(out)
    advice = "choose another `out`"
    if (out / PLAN).exists():
        raise SettingError(f"{out}: holds an experiment with its plan; {advice}")
    results = out / RESULTS
    if results.exists() and read_record(results).command != command:
        raise SettingError(f"{out}: holds the report of another comparison; {advice}")


def check_free_of_others(out: Path) -> None:
    """Check that a report with its demo page and its packed comparison may be written into a directory.

    Raises:
        UserError: there is a file of one of their names that selfattn did not write.
    """
    check_report(out)
    for name in (PACKED, DEMO):
        check_ours(out / name)


def has_demo(comparison: Path) -> bool:
    """Whether there is a demo page, of which what is packed has the name alone."""
    return (comparison / DEMO).is_file()


def packed_files(comparison: Path, plan: ComparisonPlan, *, demo: bool) -> dict[str, bytes]:
    """Return all files of a comparison but weights: plan, ledger, times, runs and trials, by path inside of it.

    Args:
        comparison: its directory.
        plan: of the comparison.
        demo: whether there is a demo page, which is part of the record; the page itself is left out.
    """
    trainings = [*chain.from_iterable(planned_trials(plan).values()), *plan.runs()]
    names = [PLAN, LEDGER, COSTS]
    for training in trainings:
        names += [f"{training.path}/{name}" for name in _OF_A_RUN]
    files = {name: (comparison / name).read_bytes() for name in names if (comparison / name).is_file()}
    return files | ({DEMO: b""} if demo else {})


def pack(files: Mapping[str, bytes], path: Path) -> str:
    """Pack files by name, and return the SHA-256 of what is packed; the same files give the same bytes."""
    content = archive(files)
    with writing(path):
        write_bytes(path, lzma.compress(content))
    return hashlib.sha256(content).hexdigest()


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return what is packed of files by name, before it is compressed."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return content.getvalue()


@contextmanager
def unpack(path: Path) -> Iterator[tuple[Path, str]]:
    """Unpack files into a directory that is removed afterwards.

    Returns:
        The directory, and the SHA-256 of what is packed.

    Raises:
        UserError: the file is missing, damaged, or larger than any of ours.
    """
    with TemporaryDirectory() as folder:
        try:
            reader = lzma.LZMADecompressor()
            content = reader.decompress(read_bytes(path, advice=_PACKED_ADVICE), _LARGEST)
            if not reader.eof:
                raise EOFError("its end is missing, or it is larger than any of ours")
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
                for member in tar:
                    _extract(tar, member, Path(folder).resolve())
        except (lzma.LZMAError, tarfile.TarError, EOFError, OSError, ValueError) as error:
            raise UserError(f"{path}: is not packed by selfattn ({error}); {_PACKED_ADVICE}") from None
        yield Path(folder), hashlib.sha256(content).hexdigest()


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a file of an archive; the filters of `tarfile`, which refuse the same, came with Python 3.11.4."""
    path = (folder / member.name).resolve()
    file = tar.extractfile(member) if member.isfile() and folder in path.parents else None
    if file is None:
        raise tarfile.ExtractError(f"{member.name}: is no file inside of it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.read())
