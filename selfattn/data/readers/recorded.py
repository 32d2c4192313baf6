"""How a run's own files were read, so that later commands read them in the same way."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.data.readers.containers import file_sha256
from selfattn.data.readers.lines import checked_encoding
from selfattn.data.readers.records import Columns, chosen_columns
from selfattn.errors import UserError, described


def recorded_reading(
    settings: Mapping[str, Any], paths: Sequence[Path], columns: Columns, encoding: str | None
) -> tuple[Columns, str | None]:
    """Return the columns and the encoding of files: as requested, else as the run read them, if they are its own.

    Args:
        settings: of the run's data.
        paths: the files, recognised by their content.
        columns: as requested; None where nothing was.
        encoding: likewise, from `checked_encoding`.

    Raises:
        UserError: a file cannot be read, or the settings are broken.
    """
    if columns is not None and encoding is not None:
        return columns, encoding
    try:
        parts = [settings, *settings.get("sources", {}).values()]
        checksums = []
        for part in parts:
            files = [*(part.get("files") or ()), *(part.get("further_files") or ())]
            checksums.append({part.get("sha256"), part.get("target_sha256"), *(file["sha256"] for file in files)})
    except (AttributeError, LookupError, TypeError) as error:  # JSON values of another form
        raise UserError(f"the settings of the run's data are broken ({described(error)}); train again") from None
    for part, known in zip(parts, checksums, strict=True):
        if part.get("columns") is None and part.get("encoding") is None:
            continue
        if paths and all(file_sha256(path) in known for path in paths):
            columns = columns or chosen_columns(part.get("columns") or ())
            return columns, encoding or checked_encoding(part.get("encoding"))
    return columns, encoding
