"""Files as they lie there: unpacked (gzip, bzip2, xz, Zstandard, zip archives of one file), and as they were before."""

import bz2
import gzip
import hashlib
import importlib
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from selfattn.errors import UserError
from selfattn.files import open_regular, sha256_of

PACKED = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard", ".zip": "zip"}
"""Endings of packed files, in any case, and what packed them."""

# Beginnings of files that cannot be read as they are.
_MARKS = {
    b"\x1f\x8b": "packed with gzip; let its name end in .gz",
    b"BZh": "packed with bzip2; let its name end in .bz2",
    b"\xfd7zXZ\x00": "packed with xz; let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "packed with Zstandard; let its name end in .zst",
    b"PK\x03\x04": "packed with zip; let its name end in .zip",
    b"PAR1": "is parquet; read its folder with `hub`, or write it as CSV",
    b"ARROW1": "is an Arrow file; read its folder with `hub`, or write it as CSV",
    b"SQLite format 3": "is a database; write its table as CSV",
    b"%PDF-": "is a PDF; write its text, one a line",
    b"\xd0\xcf\x11\xe0": "is a document of Office; save it as CSV in UTF-8",
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive; unpack it, and name its files",
    b"Rar!": "is a RAR archive; unpack it, and name its files",
}
_TAR = slice(257, 262)  # where "ustar" stands in a tar archive
_START = 512  # bytes that tell what a file is
_EVERY = 1000  # items between two looks at the files that they are read from
_NO_DATA = ("_", ".", "readme", "license", "licence")  # beginnings of names that hold no pairs, such as _about.txt

_T = TypeVar("_T")


def packing(path: Path) -> str | None:
    """Return the ending that says how a file is packed, in lower case; None for a plain file.

    Example:
        >>> packing(Path("a.TSV.GZ")), packing(Path("a.tsv"))
        ('.gz', None)
    """
    ending = path.suffix.lower()
    return ending if ending in PACKED else None


def inner_name(path: Path) -> Path:
    """Return the name of what a file holds: of a zip archive its file, of another packed file its name without ending.

    Raises:
        UserError: a zip archive is missing, damaged, or holds several files of data.

    Example:
        >>> inner_name(Path("data/a.en.gz"))
        PosixPath('data/a.en')
    """
    ending = packing(path)
    if ending is None:
        return path
    if ending != ".zip":
        return path.with_suffix("")
    with named_errors(path), zipfile.ZipFile(path) as archive:
        return Path(_member(path, archive))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file inside a ``with`` block, unpacked as its name says.

    Raises:
        UserError: the file is missing, a directory, a pipe, damaged, empty, or not what its name says; or nothing here
            reads it.
    """
    ending = packing(path)
    openers: dict[str | None, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    with named_errors(path), open_regular(path) as raw:
        if ending is None:
            yield raw
        elif ending == ".zip":
            with zipfile.ZipFile(raw) as archive, archive.open(_member(path, archive)) as member:
                yield member  # type: ignore[misc]  # reads as a file does
        else:
            opener = _zstandard(path).open if ending == ".zst" else openers[ending]
            with opener(raw, "rb") as file:
                yield file


def start_of(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked. A file that is empty, or surely no text, is refused.

    Raises:
        UserError: see `opened`.
    """
    with opened(path) as file:
        start = file.read(_START)
    if not start:
        raise UserError(f"{path}: the file is empty; give at least one line")
    for mark, advice in _MARKS.items():
        if start.startswith(mark):
            raise UserError(f"{path}: {advice}")
    if start[_TAR] == b"ustar":
        raise UserError(f"{path}: is a tar archive; unpack it, and name its files")
    return start


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it lies there (packed, where it is packed), in hexadecimal digits.

    Raises:
        UserError: the file is missing, a directory, or cannot be read.
    """
    with named_errors(path):
        return sha256_of(path)


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, unpacked.

    Raises:
        UserError: see `opened`.
    """
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto


@dataclass
class KnownFile:
    """A file with its checksum, and with what the file system said of it then.

    Attributes:
        path: of the file.
        sha256: of its content.
        state: size, time of the last change and number of the file.
    """

    path: Path
    sha256: str
    state: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Take the checksum of a file.

        Raises:
            UserError: the file is missing or cannot be read.
        """
        state = _state_of(path)  # before: a change while it is read shows later
        return cls(path, file_sha256(path), state)

    def check(self) -> None:
        """Check that the file has the content that it had. One that was only touched, or copied back, has it.

        Raises:
            UserError: it was changed or replaced, or is gone.
        """
        state = _state_of(self.path)
        if state != self.state:
            if file_sha256(self.path) != self.sha256:
                raise UserError(f"{self.path}: was changed while it was in use; restore it, or start again with it")
            self.state = state


def unchanged(items: Iterable[_T], files: Iterable[KnownFile]) -> Iterator[_T]:
    """Iterate over items that are read from files, as long as the files stay what they were.

    Raises:
        UserError: a file has changed.
    """
    files = list(files)
    for number, item in enumerate(items):
        if number % _EVERY == 0:
            for file in files:
                file.check()
        yield item
    for file in files:
        file.check()


def _state_of(path: Path) -> tuple[int, ...]:
    with named_errors(path):
        status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a `UserError` inside a ``with`` block."""
    kind = PACKED.get(packing(path) or "", "")
    try:
        str(path).encode()
        yield
    except UserError:
        raise
    except UnicodeEncodeError:
        raise UserError(f"{str(path)!a}: the path is not UTF-8; rename the file or its folder") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path") from None
    except OSError as error:
        if kind and error.errno is None:  # of gzip and bz2
            raise _damaged(path, kind, error) from None
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the file") from None
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise _damaged(path, kind, error) from None
    except (RuntimeError, NotImplementedError) as error:
        if kind != "zip":
            raise
        raise UserError(f"{path}: cannot be unpacked ({error}); unpack it, and name its file") from None
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # of a library that may be missing
            raise
        raise _damaged(path, kind, error) from None


def _damaged(path: Path, kind: str, error: Exception) -> UserError:
    return UserError(f"{path}: not a whole {kind} file ({error}); fetch or pack it again")


def _zstandard(path: Path) -> Any:
    """Return the module for Zstandard: of the standard library from Python 3.14, or its backport."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    advice = "pip install 'selfattn[zstd]', or unpack it (zstd -d)"
    raise UserError(f"{path}: Zstandard needs Python 3.14 or backports.zstd; {advice}")


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the name of the only file of data in a zip archive."""
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if "[Content_Types].xml" in names:
        raise UserError(f"{path}: is a document of Office; save it as CSV in UTF-8")
    data = [name for name in names if not Path(name).name.lower().startswith(_NO_DATA) and "__MACOSX" not in name]
    if not data:
        raise UserError(f"{path}: no file of data in the archive; unpack it, and name its file")
    if len(data) > 1:
        names_shown = ", ".join(data[:4]) + (", ..." if len(data) > 4 else "")
        raise UserError(f"{path}: {len(data)} files in the archive ({names_shown}); unpack it, and name its files")
    return data[0]
