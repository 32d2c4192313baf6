"""Pack what a report was made of into one file beside it, and open it again: verifying makes the report once more."""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from selfattn.comparison.costs import COSTS
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.tested import ANSWERS, RESULT
from selfattn.comparison.tuning import planned_trials
from selfattn.errors import UserError
from selfattn.experiments.plan import PLAN
from selfattn.files import read_bytes, write_bytes, writing
from selfattn.runs.directory import CONFIG, CURVE, METRICS, RECORD
from selfattn.runs.ledger import LEDGER

PACKED = "packed.tar.xz"
_OF_A_RUN = (RECORD, CONFIG, METRICS, CURVE, RESULT, ANSWERS)
_LARGEST = 1 << 30  # bytes, unpacked
_ADVICE = "take it from where the report was published, or write the report again"


def files_of(comparison: Path, plan: ComparisonPlan) -> dict[str, bytes]:
    """Return all files of a comparison but weights: plan, ledger, times, runs and trials, by path inside of it."""
    trainings = [*chain.from_iterable(planned_trials(plan).values()), *plan.runs()]
    names = [PLAN, LEDGER, COSTS, *(f"{each.path}/{name}" for each in trainings for name in _OF_A_RUN)]
    return {name: (comparison / name).read_bytes() for name in names if (comparison / name).is_file()}


def pack(files: Mapping[str, bytes], path: Path) -> str:
    """Pack files by name, and return the SHA-256 of what is packed; the same files give the same bytes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    with writing(path):
        write_bytes(path, lzma.compress(content.getvalue()))
    return hashlib.sha256(content.getvalue()).hexdigest()


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, str]]:
    """Unpack files into a directory that is removed afterwards.

    Returns:
        The directory, and the SHA-256 of what is packed.

    Raises:
        UserError: the file is missing, damaged, or larger than any of ours.
    """
    with TemporaryDirectory() as folder:
        try:
            content = lzma.LZMADecompressor().decompress(read_bytes(path, advice=_ADVICE), _LARGEST)
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(folder, filter="data")
        except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
            raise UserError(f"{path}: is not packed by selfattn ({error}); {_ADVICE}") from None
        yield Path(folder), hashlib.sha256(content).hexdigest()
