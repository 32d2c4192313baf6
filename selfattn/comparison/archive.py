"""Keep the outputs of all runs beside a report, in one compressed file, from which every score can be computed again.

The first line says which runs and data there are (:class:`Head`). Every other line is a test pair with what each run
wrote for it (:class:`Item`).
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from selfattn.codec import Plain, decode, line_of, parse, refuse_newer
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answer, Answered
from selfattn.errors import UserError
from selfattn.files import open_regular, reading, write_bytes, writing

T = TypeVar("T")

ARCHIVE = "outputs.jsonl.gz"
_SCHEMA = 1
_LARGEST = 1 << 30  # bytes, uncompressed
_LONGEST = 8 << 20  # bytes of a line
_ADVICE = "take it from where the report was published, or write the report again"


@dataclass(frozen=True)
class ArchivedRun(Plain):
    """A run of an archive.

    Attributes:
        model: its name.
        seed: of the training.
        budget: share of the training.
        failed: whether the training diverged.
    """

    model: str
    seed: int
    budget: float
    failed: bool = False


@dataclass(frozen=True)
class Head(Plain):
    """What an archive holds.

    Attributes:
        schema: version of the format.
        data: settings of the training data, of which the task is made again.
        runs: in the order of the outputs of every item.
        words: count of each word of the test targets in the training targets; empty where words do not matter.
    """

    schema: int
    data: Mapping[str, object]
    runs: tuple[ArchivedRun, ...]
    words: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Item(Plain):
    """A test pair with the outputs of all runs.

    Attributes:
        source: of the pair.
        target: of the pair.
        outputs: of all runs.
        tag: of the pair.
        spans: of the pair, see :class:`selfattn.comparison.tested.Answer`.
        unfinished: places of the runs that did not end their output.
        probe: name of the probe that the pair belongs to; empty for the test itself.
    """

    source: str
    target: str
    outputs: tuple[str, ...]
    tag: str = ""
    spans: tuple[tuple[str, tuple[int, int], tuple[int, int]], ...] = ()
    unfinished: tuple[int, ...] = ()
    probe: str = ""


def write_archive(path: Path, data: Mapping[str, object], outputs: RunTable[Answered]) -> str:
    """Write an archive, and return the SHA-256 of its uncompressed lines.

    Args:
        path: of the file; an older one is replaced.
        data: settings of the training data.
        outputs: of all runs.

    Raises:
        UserError: it cannot be written.
    """
    runs = outputs.all()
    heads: list[ArchivedRun] = []
    for cell in outputs.cells():
        heads += [ArchivedRun(cell.model, run.seed, cell.budget, run.failed) for run in cell.runs]
    lines = [line_of(Head(_SCHEMA, data, tuple(heads), runs[0].words))]
    for probe in ("", *runs[0].probes):
        for answers in zip(*(run.probes[probe] if probe else run.answers for run in runs), strict=True):
            first = answers[0]
            texts = tuple(answer.output for answer in answers)
            unfinished = tuple(place for place, answer in enumerate(answers) if not answer.finished)
            lines.append(line_of(Item(first.source, first.target, texts, first.tag, first.spans, unfinished, probe)))
    content = "".join(lines).encode()
    with writing(path):
        write_bytes(path, gzip.compress(content, mtime=0))
    return hashlib.sha256(content).hexdigest()


def archive_sha256(path: Path) -> str:
    """Return the SHA-256 of the uncompressed lines of an archive, without holding more than one of them.

    Raises:
        UserError: it is missing, damaged, or larger than any of ours.
    """
    digest = hashlib.sha256()
    for line in _lines_of(path):
        digest.update(line)
    return digest.hexdigest()


def read_archive(path: Path) -> tuple[Mapping[str, object], RunTable[Answered]]:
    """Read an archive line by line: the settings of the data, and the outputs of all runs.

    Raises:
        UserError: it is missing or damaged, or of a newer version.
    """
    lines = _lines_of(path)
    head = _parsed(Head, path, 1, next(lines, b""))
    texts: dict[str, str] = {}  # each once: most runs give the same outputs
    runs = [Answered(run.seed, run.failed, [], {}, head.words) for run in head.runs]
    answers: list[dict[str, list[Answer]]] = [{} for _ in runs]  # of each run, by probe
    number = 1
    for number, line in enumerate(lines, 2):
        item = _parsed(Item, path, number, line)
        if len(item.outputs) != len(runs):
            raise UserError(f"{path}:{number}: does not hold an output of every run; {_ADVICE}")
        for place, output in enumerate(item.outputs):
            text = texts.setdefault(output, output)
            finished = place not in item.unfinished
            answer = Answer(item.source, item.target, item.tag, item.spans, text, finished)
            answers[place].setdefault(item.probe, []).append(answer)
    if not runs or number == 1:
        raise UserError(f"{path}: does not hold an output of every run for every item; {_ADVICE}")
    answered = [replace(run, answers=by.pop("", []), probes=by) for run, by in zip(runs, answers, strict=True)]
    cells = ((run.budget, run.model, each) for run, each in zip(head.runs, answered, strict=True))
    return head.data, RunTable.gather(cells)


def _parsed(kind: type[T], path: Path, number: int, line: bytes) -> T:
    try:
        values = parse(line)
    except ValueError as error:
        raise UserError(f"{path}:{number}: is not an archive of outputs ({error}); {_ADVICE}") from None
    refuse_newer(values, _SCHEMA, file=path)
    return decode(kind, values, file=f"{path}:{number}", advice=_ADVICE)


def _lines_of(path: Path) -> Iterator[bytes]:
    """Unpack an archive line by line; what is larger than any of ours is not unpacked further."""
    total = 0
    try:
        with reading(path, _ADVICE), open_regular(path) as packed, gzip.GzipFile(fileobj=packed) as file:
            while line := file.readline(_LONGEST):
                total += len(line)
                if total > _LARGEST or len(line) == _LONGEST:
                    raise ValueError("too large")
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        reason = "cut short" if isinstance(error, EOFError) else error
        raise UserError(f"{path}: is not an archive of outputs ({reason}); {_ADVICE}") from None
