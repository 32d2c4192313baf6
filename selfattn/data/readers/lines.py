"""Lines and texts of a file, plain or gzipped. Lines are read one by one, so a file may be larger than memory."""

import gzip
import hashlib
import os
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError, say
from selfattn.files import check_ends

_MOST = 64 << 20  # bytes of a line; a few megabytes of gzip unpack to gigabytes
_TOLD = 5_000_000  # lines between two that say how far it is
_START = 200  # bytes that tell what a file is


def lines_of(path: Path, advice: str = "give at least one line") -> Iterator[bytes]:
    r"""Read the lines of a file, without their ends; a name that ends in ``.gz`` is unpacked.

    A line ends with ``\n`` or ``\r\n`` and nothing else. A byte order mark in front is taken off.

    Args:
        path: the file.
        advice: what to do where it is empty, for the error message.

    Raises:
        UserError: the file is missing, a directory, a pipe, damaged, empty, or not what its name says; or a line of it
            is longer than memory should hold.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"one\r\ntwo")
        ...     list(lines_of(path))
        [b'one', b'two']
    """
    with _named_errors(path), (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        line, number = file.readline(_MOST), 1
        _check(path, line, advice)
        while line:
            if len(line) == _MOST:
                raise UserError(f"{path}:{number}: longer than {_MOST >> 20} MiB; give one text a line")
            bare = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            yield bare.removesuffix(b"\n").removesuffix(b"\r")
            line, number = file.readline(_MOST), number + 1
            if number % _TOLD == 0:
                say(f"{path}: {number:,} lines read so far")


def read_text_lines(path: Path, advice: str) -> list[str]:
    """Read the lines of a text in UTF-8, unpacked where its name ends in ``.gz``.

    Args:
        path: the file.
        advice: what to do where it is empty, for the error message.

    Raises:
        UserError: the file is missing, a directory, damaged or empty.
    """
    rows = list(lines_of(path, advice))
    if not any(row.strip() for row in rows):
        raise UserError(f"{path}: the file is empty; {advice}")
    lines = []
    for number, row in enumerate(rows, 1):
        try:
            lines.append(row.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}:{number}: not valid UTF-8 (byte {error.start + 1}); save it as UTF-8") from None
    return lines


@dataclass(frozen=True)
class TextFile:
    """The texts of a file.

    Attributes:
        lines: those with something in them, in their order.
        empty: how many lines had nothing or only spaces in them.
    """

    lines: list[str]
    empty: int


def read_texts(path: str | os.PathLike[str]) -> TextFile:
    """Read a file with one text a line.

    A name that ends in ``.gz`` is unpacked first. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the text is
    UTF-8, and put into Unicode's form NFC, as every input of a model is. Lines with nothing or only spaces in them are
    left out and counted.

    Args:
        path: the file.

    Raises:
        UserError: the file is missing, a directory, damaged, or has no text in it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "text.txt")
        ...     _ = path.write_text("To be,\\n\\nor not to be\\n")
        ...     read_texts(path)
        TextFile(lines=['To be,', 'or not to be'], empty=1)
    """
    path = Path(path)
    rows = read_text_lines(path, "give at least one line of text")
    lines = [unicodedata.normalize("NFC", row) for row in rows if row.strip()]
    if not lines:
        raise UserError(f"{path}: only spaces in it; give at least one line of text")
    return TextFile(lines, len(rows) - len(lines))


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it lies there (packed, where it is packed), in hexadecimal digits.

    Raises:
        UserError: the file is missing, a directory, or cannot be read.
    """
    with _named_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a `UserError`."""
    try:
        str(path).encode()
        check_ends(path, "what comes out of a pipe has to be written into one first")
        yield
    except UnicodeEncodeError:
        raise UserError(f"{str(path)!a}: the path is not UTF-8; rename the file or its folder") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory; name the file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error}); fetch or pack it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the file") from None


def _check(path: Path, first: bytes, advice: str) -> None:
    if not first:
        raise UserError(f"{path}: the file is empty; {advice}")
    if first.startswith(b"\x1f\x8b"):
        raise UserError(f"{path}: packed with gzip; let its name end in .gz")
    # UTF-16 has a byte order mark, or zeros where plain letters are.
    start = first[:_START]
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or 3 * start.count(0) > len(start) > 1:
        raise UserError(f"{path}: UTF-16, not UTF-8; save the file as UTF-8")
