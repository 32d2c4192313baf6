"""Whether selfattn wrote what lies at a path: asked before it is written over, appended to or deleted.

The content answers, never the name alone: the form of our JSON files and their checksums, and marks in our pages and
pictures. New directories are written beside their place and moved there, so that they are complete or not there.
"""

import lzma
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

from selfattn.codec import has_checksum, parse, write
from selfattn.errors import UserError
from selfattn.files import ASIDE, LOCK, in_use, names_in, open_regular, writing

MARKDOWN_MARK = "\n<!-- selfattn -->\n"  # at the end
PDF_MARK = b"%selfattn\n"  # at the end, a comment there
PNG_MARK = b"Software\0selfattn"  # a text of the file
_START = 4096  # bytes that tell what a file is
_LARGEST = 64 << 20  # bytes of a JSON file
_DIRECTORIES = ("run.json", "plan.json")  # records of a run and of an experiment
_PART = "part.json"  # says what the directory of a killed process was to become

# Fields of our JSON files; several have a checksum as well.
_FIELDS = (
    {"schema", "task", "preset", "model", "training", "data", "max_length"},
    {"status", "created", "command", "seed", "parameters", "versions", "machine"},
    {"schema", "task", "command", "environment", "models", "pairs", "test_items"},
    {"schema", "command", "environment", "claims", "begun"},
    {"schema", "command", "seal"},
    {"tokenizer", "version", "characters"},
    {"tokenizer", "version", "settings", "sha256"},
    {"source", "prediction", "source_tokens", "target_tokens", "maps"},
)
_SAVED_ATTENTION = _FIELDS[-1]  # which is no record: it may be saved again
_PACKED = (b"plan.json", b"outputs.json", b"given.json")  # the first file of what is packed
_MARKS = (b'<meta name="generator" content="selfattn', PNG_MARK)
_PICTURES = (
    b'<svg xmlns="http://www.w3.org/2000/svg" class="attention-map" role="img"',
    b'<svg xmlns="http://www.w3.org/2000/svg" role="img"',
)


def is_ours(path: Path) -> bool:
    """Say whether selfattn wrote a file, or a directory with a run or an experiment.

    Args:
        path: of the file or directory; False where there is none.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "plan.json")
        ...     before = path.write_text("{}"), is_ours(path)
        ...     write(path, {"a": 1}, checksum=True)
        ...     before[1], is_ours(path), is_ours(path.parent)
        (False, True, True)
    """
    if path.is_dir():
        return any(is_ours(path / name) for name in _DIRECTORIES)
    return _kind_of(path) is not None


def _kind_of(path: Path) -> Literal["record", "page"] | None:
    """Return what a file of ours is: a record, or a page, a picture or the like; None for another file."""
    try:
        with open_regular(path) as file:
            data = file.read(_LARGEST)
            end = (data[-len(MARKDOWN_MARK) :] + file.read())[-len(MARKDOWN_MARK) :]
    except (OSError, UserError):
        return None
    if data[:1] == b"{":
        return _kind_of_json(data)
    if data.startswith(b"\xfd7zXZ"):
        with suppress(lzma.LZMAError):
            first_file = lzma.LZMADecompressor().decompress(data, 100).partition(b"\0")[0]
            return "record" if first_file in _PACKED else None
    start = data[:_START]
    is_picture = start.startswith(_PICTURES) and b"font-family=" in start
    has_mark = any(mark in start for mark in _MARKS) or end.endswith((MARKDOWN_MARK.encode(), PDF_MARK))
    return "page" if is_picture or has_mark else None


def _kind_of_json(data: bytes) -> Literal["record", "page"] | None:
    """Return what JSON of ours is, or its first line where each line is a value."""
    for text in (data, data.partition(b"\n")[0]):
        with suppress(ValueError):
            values: Any = parse(text)
            if not has_checksum(values) and not any(fields <= values.keys() for fields in _FIELDS):
                return None
            return "page" if values.keys() >= _SAVED_ATTENTION else "record"
    return None


def is_record(path: Path) -> bool:
    """Say whether a file is a record of a run, a tokenizer or an experiment, which no page or picture may replace.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "run.json")
        ...     write(path, {"a": 1}, checksum=True)
        ...     is_record(path), is_record(path.with_name("new.json"))
        (True, False)
    """
    return not path.is_dir() and _kind_of(path) == "record"


def check_ours(path: Path, *starts: bytes, records: bool = True) -> None:
    """Check that a file may be written over: there is none, it is empty, or selfattn wrote it.

    Args:
        path: of the file.
        starts: beginnings of a format that has no mark of ours, such as the heads of a table.
        records: whether a record of a run or an experiment may be written over as well.

    Raises:
        UserError: it is another file, a directory, a device or a link that leads nowhere.
    """
    if not os.path.lexists(path):  # or it cannot be asked, and writing will say why
        return
    if not os.path.isfile(path):
        kind = "a directory" if os.path.isdir(path) else "not a file"
        if not os.path.exists(path):
            kind = "a link that leads nowhere"
        raise UserError(f"{path}: is {kind}; choose another place")
    try:
        with open_regular(path) as file:
            start = file.read(max(map(len, starts), default=1))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); choose another place") from None
    if start and not start.startswith(starts) and not is_ours(path):
        raise UserError(f"{path}: selfattn did not write this file; remove it, or choose another place")
    if not records and is_record(path):
        raise UserError(f"{path}: belongs to a run or an experiment; choose another place")


@contextmanager
def new_directory(out: Path, advice: str = "choose another `out`") -> Iterator[Path]:
    """Give a directory to write into, and put it in place of ``out`` when the ``with`` block ends without an error.

    A process that is killed leaves what :func:`remove_remains` removes.

    Args:
        out: must not exist, or be empty; a link to an empty directory stays a link.
        advice: what the user should do where it cannot be written.

    Raises:
        UserError: it cannot be written; see also :func:`selfattn.files.in_use`.
    """
    place = out
    out = Path(os.path.realpath(out))  # which, unlike `Path.resolve`, leaves links that lead in a circle to be refused
    with writing(place, advice):
        out.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.", suffix=ASIDE) as aside,
            in_use(Path(aside)),
        ):
            write(Path(aside, _PART), {"part_of": out.name}, checksum=True)
            folder = Path(aside, out.name)
            folder.mkdir()
            yield folder
            if out.exists():
                out.rmdir()
            folder.rename(out)


def remove_remains(out: Path) -> None:
    """Remove what killed processes left beside a directory that they made with :func:`new_directory`.

    Call it before the directory is refused because it is there: a process may be killed after it was complete.
    """
    out = Path(os.path.realpath(out))
    with suppress(OSError):
        for remains in out.parent.iterdir():
            is_aside = remains.name.startswith(f".{out.name}.") and remains.name.endswith(ASIDE)
            if is_aside and not remains.is_symlink():
                _remove_part(remains, out.name)


def _remove_part(folder: Path, name: str) -> None:
    """Remove the unfinished directory of a process that was killed; one that is at work holds its lock."""
    from filelock import FileLock

    # A process that is killed while it removes the directory itself may leave one without a lock.
    lock = FileLock(folder / LOCK, timeout=0) if (folder / LOCK).exists() else nullcontext()
    with suppress(OSError), lock:  # a lock that another process holds is a TimeoutError
        if not names_in(folder) or (is_ours(folder / _PART) and names_in(folder) <= {_PART, name}):
            shutil.rmtree(folder)
