"""Write files atomically, lock directories, and turn errors of files into one line."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from selfattn.errors import UserError

LOCK, HALF_WRITTEN = ".lock", ".*.tmp"  # the second while a file is written
_PATIENCE = 2.0  # seconds in which a worker notices the end of its parent


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside ``path`` and move it into place, so that readers see the old file or the new one.

    Args:
        path: of the file; its directory must exist.
        write: writes the file at a given path.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # a link that came with foreign files would lead elsewhere
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


def write_text(path: Path, text: str) -> None:
    r"""Write a text in UTF-8 with ``\n`` line ends, atomically.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def append_line(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix.

    Raises:
        OSError: the line cannot be written; nothing was.
    """
    data = line.encode()
    _check_no_link(path)
    with path.open("ab", buffering=0) as file:
        written = file.write(data)
        if written < len(data):  # no half a line
            file.truncate(file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Lock a directory for this process inside a ``with`` block; it is made if needed. Readers need no lock.

    Files that a killed process has half written are removed. The system releases the lock however the process ends;
    the file ``.lock`` stays.

    Raises:
        UserError: another process holds the lock for two seconds, or the directory cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=_PATIENCE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_no_link(folder / LOCK)
        lock.acquire()
        for remains in folder.rglob(HALF_WRITTEN):
            remains.unlink(missing_ok=True)
    except Timeout:
        raise UserError(f"{folder}: another process is at work here; wait for it, or choose another `out`") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another `out`") from None
    try:
        yield
    finally:
        lock.release()


def _check_no_link(path: Path) -> None:
    """Refuse to write through a link, which may have come with foreign files."""
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
    """Check that a path is a regular file or a directory, and not too large; it need not exist.

    Args:
        path: of the file.
        advice: what the user should do about an error.
        most: bytes that it may have; default any number.

    Raises:
        UserError: it is a pipe, a device or the like, or larger.
        OSError: it cannot be examined.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UserError(f"{path}: is not a file; {advice}")
    if most is not None and path.is_file() and path.stat().st_size > most:
        raise UserError(f"{path}: is larger than {most >> 20} MiB; {advice}")


def read_bytes(path: Path, *, advice: str, most: int | None = None) -> bytes:
    """Read a file.

    Args:
        path: of the file.
        advice: what the user should do about an error.
        most: bytes that it may have; default any number.

    Raises:
        UserError: it is missing, cannot be read, or is larger.
    """
    try:
        check_ends(path, advice, most)
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {advice}") from None


@contextmanager
def writing(place: Path | str, advice: str = "free some space and `resume`") -> Iterator[None]:
    """Turn errors of writing inside a ``with`` block into one line.

    Args:
        place: file or directory, for the message.
        advice: what the user should do.

    Raises:
        UserError: it cannot be written.
        BrokenPipeError: the reader of a pipe is gone.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        from safetensors import SafetensorError

        if not isinstance(error, OSError | SafetensorError | UnicodeEncodeError):  # the last: a path that is not UTF-8
            raise
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise UserError(f"{place}: cannot be written ({reason}); {advice}") from None
