"""Read regular files alone, write atomically, lock directories, and turn errors of files into one line."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path

from selfattn.errors import UserError

LOCK = ".lock"
ASIDE = ".selfattn.tmp"  # end of the name of what is being written
HALF_WRITTEN = f".*{ASIDE}"
_NO_PIPE = "what comes out of a pipe has to be written into a file first"
_PATIENCE = 2.0  # seconds in which a worker notices the end of its parent


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside ``path`` and move it into place, so that readers see the old file or the new one.

    Args:
        path: of the file; its directory must exist.
        write: writes the file at a given path.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{ASIDE}")
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


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes, atomically.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def write_text(path: Path, text: str) -> None:
    r"""Write a text in UTF-8 with ``\n`` line ends, atomically.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def append_line(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix.

    Raises:
        OSError: the line cannot be written, or the file is a link or no regular file; nothing was.
    """
    data = line.encode()
    with open_to_append(path) as file:
        written = file.write(data)
        if written < len(data):  # no half a line
            file.truncate(file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())


def open_to_append(path: Path) -> FileIO:
    """Open a file to append to it, without a buffer; it is made where there is none.

    Raises:
        OSError: it is a link, which may have come with foreign files, or no regular file, or cannot be opened.
    """
    check_no_link(path)
    file = os.fdopen(_open_at_once(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab", buffering=0)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a file", str(path))
    return file


def check_no_link(path: Path) -> None:
    """Refuse to write through a link, which may have come with foreign files.

    Raises:
        OSError: it is a link.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "is a link", str(path))


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Lock a directory for this process inside a ``with`` block; it is made if needed. Readers need no lock.

    Ask first whether the directory is ours: what a killed process has half written there is removed. The system
    releases the lock however the process ends; the file ``.lock`` stays, empty.

    Raises:
        UserError: another process holds the lock for two seconds, or the directory cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=_PATIENCE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_no_link(folder / LOCK)
        if (folder / LOCK).exists() and not is_lock(folder / LOCK):
            raise OSError(errno.EEXIST, f"{LOCK} is not a lock of selfattn", str(folder))
        lock.acquire()
        for remains in folder.rglob(HALF_WRITTEN):
            if remains.is_file() or remains.is_symlink():
                remains.unlink(missing_ok=True)
    except Timeout:
        raise UserError(f"{folder}: another process is at work here; wait for it, or choose another `out`") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another `out`") from None
    try:
        yield
    finally:
        lock.release()


def is_lock(path: Path) -> bool:
    """Whether a file may be the lock of a directory: it is empty."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size == 0


def beside(folder: Path, ending: str) -> Path:
    """Return a path beside a directory, named after it, such as ``runs/a-onnx`` beside ``runs/a``.

    Args:
        folder: also ``.`` or ``..``, whose name the path itself does not say.
        ending: of the name.

    Example:
        >>> beside(Path("runs/a"), "onnx").as_posix(), beside(Path("."), "onnx").parent == Path.cwd().parent
        ('runs/a-onnx', True)
    """
    full = folder.resolve()
    return (folder if folder.name not in ("", "..") else full).with_name(f"{full.name}-{ending}")


def names_in(folder: Path) -> set[str]:
    """Return the names of what lies in a directory, without a lock and without files that are being written.

    Raises:
        OSError: there is no such directory, or it cannot be read.
    """
    names = set()
    for path in folder.iterdir():
        is_left_out = is_lock(path) if path.name == LOCK else path.match(HALF_WRITTEN) and not path.is_dir()
        if not is_left_out:
            names.add(path.name)
    return names


def _open_at_once(path: Path, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o666)


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read it. Every file that others may have made is opened here.

    Raises:
        UserError: it is a pipe, a socket, a device or a directory, for which a reader might wait for ever.
        OSError: it cannot be opened.
    """
    mode = path.stat().st_mode  # before it is opened: a device may act on that
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: is not a file; {_NO_PIPE}")
    file = os.fdopen(_open_at_once(path, os.O_RDONLY), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it has changed since
        file.close()
        raise UserError(f"{path}: is not a file; {_NO_PIPE}")
    return file


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits.

    Raises:
        UserError: it is a pipe or the like.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bytes(path: Path, *, advice: str, max_bytes: int | None = None) -> bytes:
    """Read a file.

    Args:
        path: of the file.
        advice: what the user should do about an error.
        max_bytes: bytes that it may have; default any number.

    Raises:
        UserError: it is missing, cannot be read, is a pipe or the like, or is larger.
    """
    with reading(path, advice), open_regular(path) as file:
        if max_bytes is None:
            return file.read()
        is_larger = os.fstat(file.fileno()).st_size > max_bytes
        data = b"" if is_larger else file.read(max_bytes + 1)
    if is_larger or len(data) > max_bytes:
        raise UserError(f"{path}: is larger than {max_bytes >> 20} MiB; {advice}")
    return data


@contextmanager
def reading(path: Path, advice: str) -> Iterator[None]:
    """Turn errors of reading a file inside a ``with`` block into one line.

    Args:
        path: of the file, for the message.
        advice: what the user should do.

    Raises:
        UserError: it is missing, or cannot be read.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); {advice}") from None


def make_directory(path: Path) -> None:
    """Make a directory for files that a user asked for, where it is not there yet.

    Raises:
        UserError: it cannot be made.
    """
    with writing(path, "choose another place"):
        path.mkdir(parents=True, exist_ok=True)


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
