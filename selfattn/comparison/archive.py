"""Keep the outputs of all runs beside a report, in one compressed file, from which every score can be computed again.

The first line says which runs and data there are (:class:`Head`). Every other line is a test pair with what each run
wrote for it (:class:`Item`).
"""

import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from selfattn.codec import Plain, decode, line_of, parse, refuse_newer
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answer, Answered
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_atomically, writing

ARCHIVE = "outputs.jsonl.gz"
_SCHEMA = 1
_LARGEST = 1 << 30  # bytes, uncompressed
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
        write_atomically(path, lambda file: file.write_bytes(gzip.compress(content, mtime=0)))
    return hashlib.sha256(content).hexdigest()


def read_archive(path: Path) -> tuple[str, Mapping[str, object], RunTable[Answered]]:
    """Read an archive: the SHA-256 of its lines, the settings of the data, and the outputs of all runs.

    Raises:
        UserError: it is missing or damaged, or of a newer version.
    """
    try:
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(read_bytes(path, advice=_ADVICE, most=_LARGEST), _LARGEST)
        if not unpacker.eof:
            raise ValueError("cut short, or too large")
        head, *lines = map(parse, content.splitlines())
    except (zlib.error, ValueError) as error:
        raise UserError(f"{path}: is not an archive of outputs ({error}); {_ADVICE}") from None
    refuse_newer(head, _SCHEMA, file=path)
    contents = decode(Head, head, file=f"{path}:1", advice=_ADVICE)
    items = [decode(Item, line, file=f"{path}:{number}", advice=_ADVICE) for number, line in enumerate(lines, 2)]
    if not (contents.runs and items and all(len(item.outputs) == len(contents.runs) for item in items)):
        raise UserError(f"{path}: does not hold an output of every run for every item; {_ADVICE}")
    runs = ((run.budget, run.model, _answered(contents, place, items)) for place, run in enumerate(contents.runs))
    return hashlib.sha256(content).hexdigest(), contents.data, RunTable.gather(runs)


def _answered(head: Head, place: int, items: Sequence[Item]) -> Answered:
    """Return the outputs of the run at a place of the archive."""
    run = head.runs[place]
    probes: dict[str, list[Answer]] = {item.probe: [] for item in items}
    for item in items:
        finished = place not in item.unfinished
        answer = Answer(item.source, item.target, item.tag, item.spans, item.outputs[place], finished)
        probes[item.probe].append(answer)
    answers = probes.pop("", [])
    return Answered(run.seed, run.failed, answers, probes, head.words)
