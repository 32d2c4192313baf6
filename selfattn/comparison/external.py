"""Reports on systems that were trained elsewhere, by their outputs or by their scores: write and verify them again."""

import shutil
from pathlib import Path

from selfattn.comparison import outputs, scores
from selfattn.comparison.packed import PACKED, unpacked
from selfattn.comparison.report import check_out
from selfattn.errors import UserError
from selfattn.experiments.plan import PLAN
from selfattn.files import make_directory
from selfattn.report.write import RESULTS, ReportFiles, write_report
from selfattn.results.record import Record, read_record
from selfattn.words.messages import SOURCE


def is_external(folder: Path) -> bool:
    """Return whether a directory holds a comparison of outputs or of scores, which has no plan and no runs."""
    results = folder / RESULTS
    return not (folder / PLAN).exists() and results.is_file() and not read_record(results).trained


def read_external(folder: Path) -> outputs.Judged | scores.Packed | None:
    """Read what was packed, and is unpacked in a directory; None where it is a comparison of trained runs.

    Raises:
        UserError: what is there is damaged.
    """
    if (folder / outputs.JUDGED).is_file():
        return outputs.Judged.unpacked(folder)
    return scores.Packed.unpacked(folder) if (folder / scores.JUDGED).is_file() else None


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
    check_out(out, record.command)
    with unpacked(folder / PACKED) as (files, sha256):
        judged = read_external(files) if sha256 == record.outputs_sha256 else None
        if judged is None:
            raise UserError(f"{folder / PACKED}: is not that of {folder / RESULTS}; compare again")
    make_directory(out)
    if not out.samefile(folder):
        shutil.copy(folder / PACKED, out / PACKED)
    return record, write_report(record, out, lang, judged.outputs())
