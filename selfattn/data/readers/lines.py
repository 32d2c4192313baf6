"""Lines of a file, plain or gzipped, one after the other: a file may be larger than memory."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from selfattn.errors import UserError

_BLOCK = 1 << 20
_START = 200  # bytes that tell what a file is


def lines_of(path: Path, advice: str = "give at least one line") -> Iterator[bytes]:
    r"""Read the lines of a file, without their ends; a name that ends in ``.gz`` is unpacked.

    A line ends with ``\n`` or ``\r\n`` and nothing else. A byte order mark in front is taken off.

    Args:
        path: the file.
        advice: what to do where it is empty, for the error message.

    Raises:
        UserError: the file is missing, a directory, damaged, empty, or not what its name says.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"one\r\ntwo")
        ...     list(lines_of(path))
        [b'one', b'two']
    """
    with _opened(path) as file:
        first = file.readline()
        _check(path, first, advice)
        yield _bare(first.removeprefix(b"\xef\xbb\xbf"))
        for line in file:
            yield _bare(line)


def count_lines(path: Path) -> int:
    r"""Count the lines of a file as `lines_of` tells them apart.

    Raises:
        UserError: as `lines_of`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"one\ntwo")
        ...     count_lines(path)
        2
    """
    next(lines_of(path))
    count, last = 0, b"\n"
    with _opened(path) as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it lies there (packed, where it is packed), in hexadecimal digits.

    Raises:
        UserError: the file is missing, a directory, or cannot be read.
    """
    with _told(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with _told(path), path.open("rb") as file:
        if path.suffix == ".gz":
            with gzip.open(file) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield file


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into one line."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory; name the file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error}); fetch or pack it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


def _check(path: Path, first: bytes, advice: str) -> None:
    if not first:
        raise UserError(f"{path}: the file is empty; {advice}")
    if first.startswith(b"\x1f\x8b"):
        raise UserError(f"{path}: packed with gzip; let its name end in .gz")
    if looks_like_utf16(first):
        raise UserError(f"{path}: UTF-16, not UTF-8; save the file as UTF-8")


def looks_like_utf16(data: bytes) -> bool:
    r"""Tell UTF-16 by its byte order mark, or by the zeros that plain letters have there.

    Args:
        data: the beginning of a file.

    Example:
        >>> looks_like_utf16("one\n".encode("utf-16-le")), looks_like_utf16(b"one\n"), looks_like_utf16(b"o\0ne\n")
        (True, False, False)
    """
    start = data[:_START]
    return data.startswith((b"\xff\xfe", b"\xfe\xff")) or 3 * start.count(0) > len(start) > 1


def _bare(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")
