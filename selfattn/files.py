"""Files that are there whole or not at all, and errors that name them: the one place that writes."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from selfattn.errors import UserError

LOCK, HALF_WRITTEN = ".lock", ".*.tmp"  # what files are called that nobody reads; the second while they are written
_PATIENCE = 2.0  # seconds in which a worker sees that its parent is gone, and ends


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then move it into place: readers see the old file or the new one.

    What a killed process had half written of it is taken away.

    Args:
        path: where the file is to be; its directory must be there.
        write: makes the file at the path it is given.

    Raises:
        OSError: the disk does not take it; what was there is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    clear_half_written(path.parent.glob(f".{glob.escape(path.name)}{HALF_WRITTEN[1:]}"))
    try:
        temporary.unlink(missing_ok=True)  # a link that came with files of others would lead elsewhere
        with temporary.open("xb"):
            mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)  # safetensors makes files that nobody else can read
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def clear_half_written(found: Iterable[Path]) -> None:
    """Take away those of the files ``.NAME.PID.tmp`` whose writer lives no more on this machine.

    On Windows, which does not say who lives, none is.
    """
    with suppress(OSError):  # no right to: they disturb nobody
        for path in found:
            if (writer := path.suffixes[-2:-1]) and writer[0][1:].isdecimal() and _is_gone(int(writer[0][1:])):
                path.unlink(missing_ok=True)


def _is_gone(process: int) -> bool:
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return False
    try:
        os.kill(process, 0)
    except PermissionError:  # somebody else's
        return False
    except (ProcessLookupError, OverflowError):
        return True
    return False


def write_text(path: Path, text: str) -> None:
    r"""Write a text in UTF-8 with ``\n`` at the ends of its lines, atomically.

    Raises:
        OSError: the disk does not take it; what was there is still there.
    """
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def append_line(path: Path, line: str) -> None:
    """Add a line to a file in one go, so that processes which do so at once do not mix theirs.

    Raises:
        OSError: the disk does not take it.
    """
    data = line.encode()
    _check_no_link(path)
    with path.open("ab", buffering=0) as file:
        written = file.write(data)
        if written < len(data):  # half a line would be read by nobody
            file.truncate(file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold a directory for this process alone, made where there is none; whoever only reads it does not ask.

    The system lets go of it however the process ends; the file ``.lock`` stays and means nothing by itself.

    Raises:
        UserError: another process holds it, also two seconds later; or it cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=_PATIENCE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_no_link(folder / LOCK)
        lock.acquire()
    except Timeout:
        raise UserError(f"{folder}: another process is at work here; wait for it, or choose another `out`") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another `out`") from None
    try:
        yield
    finally:
        lock.release()


def _check_no_link(path: Path) -> None:
    """Refuse to write through a link, which may have come with files of others and lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "is a link", str(path))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_ends(path: Path, advice: str, most: int | None = None) -> None:
    """Check, before a file is read, that it has an end: a pipe or a device may have none.

    Args:
        path: of the file; there may be nothing.
        advice: what to do where it has none.
        most: bytes that it may have; default any number.

    Raises:
        UserError: it is a pipe, a device or the like; or it is larger.
        OSError: it cannot be looked at.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UserError(f"{path}: is not a file; {advice}")
    if most is not None and path.is_file() and path.stat().st_size > most:
        raise UserError(f"{path}: is larger than {most >> 20} MiB; {advice}")


def read_bytes(path: Path, *, advice: str, most: int | None = None) -> bytes:
    """Read a whole file.

    Args:
        path: where it is.
        advice: what to do where it cannot be read.
        most: bytes that it may have; default any number.

    Raises:
        UserError: there is none, it cannot be read, or it is larger.
    """
    try:
        check_ends(path, advice, most)
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {advice}") from None


@contextmanager
def writing(place: Path | str, advice: str = "make room and go on with `resume`") -> Iterator[None]:
    """Turn what the disk does not take into one line; what is there is whole, for files are replaced at once.

    Args:
        place: what is written to.
        advice: what to do then.

    Raises:
        UserError: it cannot be written.
        BrokenPipeError: nobody reads it any more.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        from safetensors import SafetensorError

        if not isinstance(error, OSError | SafetensorError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{place}: cannot be written ({reason}); {advice}") from None
