"""Lines of text files: unpacked as the name says, decoded, one after the other.

The text is UTF-8, unless a byte order mark or the user says otherwise. Bytes that cannot be decoded become lone
surrogates (``surrogateescape``), so that a bad byte matters only in a text that is used.
"""

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from selfattn.data.pairs import clean_text, compose
from selfattn.errors import SettingError, UserError, say
from selfattn.files import open_regular, reading, sha256_of
from selfattn.tokenizers.kept import KeptSearch

PACKED = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}
"""Endings of packed files, in any case, and what packed them."""
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_OFFICE_ADVICE = "is a document of an office program; save it as CSV in UTF-8"
_OFFICE = (b"[Content_Types].xml", b"mimetypeapplication/vnd.oasis")  # the first file of such a zip archive
# Beginnings of files that cannot be read as they are.
_MAGIC = {
    b"\x1f\x8b": "packed with gzip; let its name end in .gz",
    b"BZh": "packed with bzip2; let its name end in .bz2",
    b"\xfd7zXZ\x00": "packed with xz; let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "packed with Zstandard; unpack it (zstd -d)",
    b"PK\x03\x04": "packed with zip; let its name end in .zip",
    b"PAR1": "is parquet; read its folder with `hub`, or write it as CSV",
    b"ARROW1": "is an Arrow file; read its folder with `hub`, or write it as CSV",
    b"SQLite format 3": "is a database; write its table as CSV",
    b"%PDF-": "is a PDF; write its text, one a line",
    b"\xd0\xcf\x11\xe0": _OFFICE_ADVICE,
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive; unpack it, and name its files",
    b"Rar!": "is a RAR archive; unpack it, and name its files",
}
# Beginnings of documents with markup, and what to do about them.
_DOCUMENTS = {
    re.compile(pattern, re.I | re.S): advice
    for pattern, advice in {
        r"((<\?xml|<!doctype).{0,999})?<(srcset|refset|tstset|mteval|doc)\s[^<>]*=": "SGML or XML with segments; "
        "write the text of each <seg>, one a line",
        r"<url>[^<\n]*</url>\s": "a file with tags, as train.tags of IWSLT; take out the lines that begin with a tag",
        r"(<\?xml.{0,999})?<tmx\s": "a translation memory (TMX); write its pairs as TSV, one a line",
        r"(<\?xml.{0,999})?<xliff\s": "XLIFF; write its pairs as TSV, one a line",
        r"<\?xml|<!doctype|<html[^<>]*>\s*<(head|body)": "a document in XML or HTML; write its texts, one a line",
        r"\d+\s*\n(\d+:)?\d+:\d+[,.]\d+ --> ": "subtitles with times; write the texts alone, one a line",
        r"WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}": "subtitles with times; write the texts alone, one a line",
        r'(#[^\n]*\n|\r?\n)*msgid\s+"': "a catalogue of gettext (PO); write its pairs as TSV, one a line",
    }.items()
}
_TAR = slice(257, 262)  # where "ustar" stands in a tar archive
_NO_DATA = ("_", ".", "readme", "license", "licence")  # beginnings of names that hold no pairs, such as _about.txt
_START = 512  # bytes that tell what a file is
_HEAD_BYTES = 1 << 20  # bytes that the first lines are taken from
_HEAD = 1_000  # lines that tell how a file is understood
_BLOCK = 1 << 16  # bytes that are held against UTF-8
_TOGETHER = 1 << 14  # characters that are divided into lines together
_LONGEST = 64 << 20  # characters of a line; a few megabytes of gzip unpack to gigabytes
_REPORTED = 5_000_000  # lines between two reports of progress
_COUNTED = 1 << 20  # bytes whose lines are counted together
_SEARCHED = 100_000  # lines that are searched for bytes that are not UTF-8
_SAMPLE = 200  # such lines that an encoding is guessed from
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Encodings that a file may be guessed to be in: those that people still have. Of several that say the same, the first.
_USUAL = ("cp1252", "cp1250", "cp1251", "mac_roman", "euc_jp", "cp932", "cp949", "gb18030", "big5")
_FURTHER = ("cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874", "iso8859_2", "koi8_r", "mac_cyrillic")
_ISO_2022 = {b"\x1b$B": "iso2022_jp", b"\x1b$@": "iso2022_jp", b"\x1b$)C": "iso2022_kr"}
_NO_CHARACTERS = {"idna", "punycode", "raw_unicode_escape", "unicode_escape", "undefined", "mbcs", "oem"}
_NO_TEXT = re.compile("[\x00\x80-\x84\x86-\x9f]")  # control characters that show that the encoding is another
BAD_BYTE = re.compile("[\udc80-\udcff]")
"""A byte that could not be decoded."""


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
    if ending == ".zip":
        with named_errors(path), zipfile.ZipFile(path) as archive:
            return Path(_member(path, archive))
    return path if ending is None else path.with_suffix("")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file inside a ``with`` block, unpacked as its name says.

    Raises:
        UserError: the file is missing, a directory, a pipe, damaged, or not what its name says.
    """
    with named_errors(path), open_regular(path) as raw, _unpacked(path, raw) as file:
        yield file


def _unpacked(path: Path, raw: BinaryIO) -> BinaryIO:
    """Return what an open file holds, unpacked as its name says."""
    ending = packing(path)
    unpacked: Any = raw
    if ending == ".zip":
        archive = zipfile.ZipFile(raw)
        unpacked = archive.open(_member(path, archive))
    elif ending is not None:
        unpacked = _OPENERS[ending](raw)
    return unpacked  # type: ignore[no-any-return]  # each opener has a type of its own


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
    with open_bytes(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a `UserError` inside a ``with`` block."""
    kind = PACKED.get(packing(path) or "", "")
    damages = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
    try:
        str(path).encode()
        with reading(path, "check the path"):
            try:
                yield
            except Exception as error:
                is_plain = isinstance(error, OSError) and (error.errno is not None or not kind)
                if not is_plain and isinstance(error, (OSError, *damages)):
                    raise UserError(f"{path}: not a whole {kind} file ({error}); fetch or pack it again") from None
                if kind == "zip" and isinstance(error, RuntimeError):
                    raise UserError(f"{path}: cannot be unpacked ({error}); unpack it, and name its file") from None
                raise
    except UnicodeEncodeError:
        raise UserError(f"{str(path)!a}: the path is not UTF-8; rename the file or its folder") from None


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the name of the only file of data in a zip archive."""
    names = archive.namelist()
    if "[Content_Types].xml" in names:
        raise UserError(f"{path}: {_OFFICE_ADVICE}")
    data = [
        name
        for name in names
        if not (name.endswith("/") or "__MACOSX" in name or Path(name).name.lower().startswith(_NO_DATA))
    ]
    if len(data) != 1:
        first_names = ", ".join(data[:4]) + (", ..." if len(data) > 4 else "")
        contents = f"{len(data)} files in the archive ({first_names})" if data else "no file of data in the archive"
        raise UserError(f"{path}: {contents}; unpack it, and name its file{'s' * bool(data)}")
    return data[0]


def checked_encoding(name: str | None) -> str | None:
    """Return the name of an encoding as Python spells it; None for None and for UTF-8, which is the default.

    Raises:
        SettingError: Python knows no such encoding of text.

    Example:
        >>> checked_encoding("Latin-1"), checked_encoding("UTF8"), checked_encoding(None)
        ('iso8859-1', None, None)
    """
    if name is None:
        return None
    try:
        canonical = codecs.lookup(name).name
        "".encode(canonical)  # LookupError where it encodes no text, as rot13 and base64
    except (LookupError, ValueError):
        canonical = "undefined"
    if canonical in _NO_CHARACTERS:
        raise SettingError(f"`encoding` {name}: unknown; expected one such as latin-1, cp1252, cp949 or shift_jis")
    return None if canonical == "utf-8" else canonical


def lines_of(path: Path, encoding: str | None = None) -> Iterator[str]:
    r"""Read the lines of a file, without their ends; it is unpacked as its name says, and opened once.

    A line ends with ``\n`` or ``\r\n`` and nothing else. A byte order mark in front is taken off.

    Args:
        path: the file.
        encoding: from `checked_encoding`; default that of its byte order mark, or UTF-8.

    Raises:
        UserError: the file is missing, a directory, a pipe, damaged, empty, no text, or not what its name says; it is
            a document with markup, of which not every line is a text; its encoding is surely another; in the given
            encoding it has control characters, which no text has; or a line of it is longer than memory should hold.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"one\r\ntwo")
        ...     list(lines_of(path))
        ['one', 'two']
    """
    return chain.from_iterable(_blocks_of(path, encoding))


def _blocks_of(path: Path, encoding: str | None) -> Iterator[list[str]]:
    """Read the lines of a file, many at a time; see `lines_of`."""
    with open_bytes(path) as file:
        used = _encoding_of(path, file.read(_BLOCK), encoding)
        file.seek(0)
        with io.TextIOWrapper(file, used, "surrogateescape", newline="\n") as text:
            yield from _checked_lines(path, text, used, is_given=encoding is not None)


def _checked_lines(path: Path, text: io.TextIOBase, used: str, *, is_given: bool) -> Iterator[list[str]]:
    """Read the lines of a decoded file, many at a time, and refuse what is no line of text."""
    number = 0
    try:
        while block := text.read(_TOGETHER):
            block += text.readline(_LONGEST)  # the rest of the last line, or one more
            if number == 0:
                block = block.removeprefix("\ufeff")
                if "\n" not in block and block.count("\r") > 1:
                    raise UserError(f"{path}: its lines end in \\r alone, as on old Macs; save it with \\n")
            if is_given and (control := _NO_TEXT.search(block)):
                place = f"{path}:{number + 1 + block.count(chr(10), 0, control.start())}"
                finding = f"{place}: read as {used}, it has the control character {control[0]!a}"
                raise UserError(f"{finding}; give the `encoding` that it is in, such as cp1252 or utf-16-le")
            lines = block.removesuffix("\n").split("\n")
            if "\r" in block:
                lines = [line.removesuffix("\r") for line in lines]
            number += len(lines)
            if len(lines[-1]) >= _LONGEST:
                yield lines[:-1]
                raise UserError(f"{path}:{number}: longer than {_LONGEST >> 20} MiB; give one text a line")
            for report in range((number - len(lines)) // _REPORTED, number // _REPORTED):
                say(f"{path}: {(report + 1) * _REPORTED:,} lines read so far")
            yield lines
    except UnicodeError as error:
        raise _undecoded(path, used, number + 1, error) from None


def _undecoded(path: Path, used: str, line: int, error: UnicodeError) -> UserError:
    """Return the message about bytes that ``surrogateescape`` has no place for, or a missing byte order mark."""
    reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
    return UserError(f"{path}: near line {line}: not valid {used} ({reason}); save it as UTF-8")


@dataclass(frozen=True)
class LearnedFile:
    """A file of text, and what one pass through it has told.

    Attributes:
        path: of the file.
        encoding: that it is read in; None for that of its byte order mark, or UTF-8.
        name: of what it holds, see `inner_name`.
        sha256: of the file as it lies there (packed, where it is packed).
        content_sha256: of what it holds, unpacked.
        count: its lines.
        head: its first lines, at most 1,000.
    """

    path: Path
    encoding: str | None
    name: Path
    sha256: str
    content_sha256: str
    count: int
    head: tuple[str, ...]

    @classmethod
    def learn(cls, path: Path, encoding: str | None = None) -> "LearnedFile":
        r"""Go through a file once.

        Args:
            path: of the file.
            encoding: from `checked_encoding`.

        Raises:
            UserError: see `lines_of`; only the beginning is held against what texts look like.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = Path(folder, "a.txt")
            ...     _ = path.write_bytes(b"one\r\ntwo")
            ...     file = LearnedFile.learn(path)
            ...     file.count, file.head
            (2, ('one', 'two'))
        """
        content = hashlib.sha256()
        with named_errors(path), open_regular(path) as raw:
            packed = hashlib.file_digest(raw, "sha256") if packing(path) else None
            raw.seek(0)
            with _unpacked(path, raw) as file:
                name = Path(file.name) if packing(path) == ".zip" else inner_name(path)
                block = file.read(_HEAD_BYTES)
                used = _encoding_of(path, block[:_BLOCK], encoding)
                decoder = codecs.getincrementaldecoder(used)("surrogateescape")
                is_whole = len(block) < _HEAD_BYTES
                decodes = "\n".encode(used) != b"\n"  # a line feed is several bytes
                newline: Any = "\n" if decodes else b"\n"
                try:
                    text = decoder.decode(block)
                    text += decoder.decode(b"", final=is_whole)
                    count = text.count("\n")
                    is_ended = text.endswith("\n")
                    while block:
                        content.update(block)
                        if block := file.read(_COUNTED):
                            further: Any = decoder.decode(block) if decodes else block
                            count += further.count(newline)
                            is_ended = further.endswith(newline)
                except UnicodeError as error:
                    raise _undecoded(path, used, 1, error) from None
        lines = _checked_lines(path, io.StringIO(text, newline="\n"), used, is_given=encoding is not None)
        head = list(islice(chain.from_iterable(lines), _HEAD))
        if not is_whole and 1 < len(head) < _HEAD and not text.endswith("\n"):
            head.pop()  # cut
        digest = content.hexdigest()
        sha256 = packed.hexdigest() if packed else digest
        return cls(path, encoding, name, sha256, digest, count + (not is_ended), tuple(head))

    def lines(self) -> Iterator[str]:
        """Read all lines; see `lines_of`."""
        return lines_of(self.path, self.encoding)


def _encoding_of(path: Path, block: bytes, encoding: str | None) -> str:
    """Return the encoding of a file; refuse a file that is empty, surely no text, or surely in another encoding."""
    start = block[:_START]
    if not start:
        raise UserError(f"{path}: the file is empty; give at least one line")
    if start.startswith(b"PK") and any(name in block for name in _OFFICE):
        raise UserError(f"{path}: {_OFFICE_ADVICE}")
    for mark, advice in _MAGIC.items():
        if start.startswith(mark):
            raise UserError(f"{path}: {advice}")
    if start[_TAR] == b"ustar":
        raise UserError(f"{path}: is a tar archive; unpack it, and name its files")
    marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
    _refuse_markup(path, block.decode(encoding or marked or "utf-8", "replace").lstrip("\ufeff \r\n"))
    if encoding is None:
        other = next((name for mark, name in _ISO_2022.items() if mark in start), None)
        if marked is None and 3 * start.count(0) > len(start) > 1:
            other = "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
        if other is not None:
            name = "UTF-16" if other.startswith("utf") else other
            raise UserError(f"{path}: {name}, not UTF-8; save the file as UTF-8, or give `encoding` {other}")
        return marked or "utf-8"
    if marked is not None and not encoding.startswith(marked):
        raise UserError(f"{path}: begins with the mark of {marked.upper()}, so it is not {encoding}; convert the file")
    if not encoding.startswith("utf") and _is_utf8(block):
        raise UserError(f"{path}: is UTF-8, not {encoding}; leave `encoding` out, or convert the files that need it")
    return encoding


def _refuse_markup(path: Path, start: str) -> None:
    """Refuse a document with markup, of which lines are tags, times or keys, and no texts."""
    for pattern, kind in _DOCUMENTS.items():
        if pattern.match(start):
            raise UserError(f"{path}: is {kind}")


def _is_utf8(block: bytes) -> bool:
    """Return whether the first bytes of a file are valid UTF-8 with some character that is not ASCII."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(block)
    except UnicodeDecodeError:
        return False
    return not block.isascii() and b"\x1b" not in block  # ISO-2022 is ASCII with escapes


def encoding_advice(path: Path, encoding: str | None) -> str:
    """Return what to do about a file that is not in the encoding it was read in; a guess at the right one helps."""
    if encoding is not None:
        return f"not valid {encoding}; give another `encoding`, or save the file as UTF-8"
    likely = likely_encoding(path)
    choice = "give its `encoding`" if likely is None else f"give `encoding` {likely}, which it looks like"
    return f"not valid UTF-8; save the file as UTF-8, or {choice}"


def likely_encoding(path: Path) -> str | None:
    """Return the encoding that a file looks like; None for UTF-8, and where nothing is likely.

    Raises:
        UserError: see `lines_of`.
    """
    with open_bytes(path) as file:
        used = _encoding_of(path, file.read(_BLOCK), None)
    if used != "utf-8":
        return used
    bad = (line for line in islice(lines_of(path), _SEARCHED) if BAD_BYTE.search(line))
    sample = "\n".join(islice(bad, _SAMPLE)).encode("utf-8", "surrogateescape")
    if not sample:
        return None
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=[*_USUAL, *_FURTHER]).best()
    if best is None:
        return None
    text = sample.decode(best.encoding, "replace")
    usual = (name for name in _USUAL if sample.decode(name, "replace") == text)
    return next(usual, best.encoding)


def whole_lines_of(path: Path) -> Iterator[str]:
    """Read the lines of a file of which every line matters, such as a glossary; see `lines_of`.

    Raises:
        UserError: a line is not UTF-8; and what `lines_of` raises.
    """
    for number, line in enumerate(lines_of(path), 1):
        if bad := BAD_BYTE.search(line):
            byte = ord(bad[0]) - 0xDC00
            raise UserError(f"{path}:{number}: not valid UTF-8 (byte 0x{byte:02x}); save the file as UTF-8")
        yield line


def read_text_lines(path: Path, encoding: str | None = None) -> list[str]:
    """Read the lines of a text.

    Raises:
        UserError: as of `lines_of`; or a byte cannot be decoded.
    """
    lines = list(lines_of(path, encoding))
    for number, line in enumerate(lines, 1):
        if BAD_BYTE.search(line):
            raise UserError(f"{path}:{number}: {encoding_advice(path, encoding)}")
    return lines


def read_texts(path: str | os.PathLike[str], encoding: str | None = None) -> list[str]:
    """Read a file with one text a line.

    It is unpacked as its name says. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the text is put into
    Unicode's form NFC, as every input of a model is. Lines with nothing or only spaces in them are left out.

    Args:
        path: the file.
        encoding: see `lines_of`.

    Raises:
        UserError: as of `read_text_lines`; or there is no text in the file.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "text.txt")
        ...     _ = path.write_text("To be,\\n\\nor not to be\\n")
        ...     read_texts(path)
        ['To be,', 'or not to be']
    """
    lines = [compose(row) for row in read_text_lines(Path(path), encoding) if row.strip()]
    if not lines:
        raise UserError(f"{path}: only spaces in it; give at least one line of text")
    return lines


def read_kept(path: Path) -> tuple[str, ...]:
    """Read symbols and patterns, one a line, see :class:`selfattn.tokenizers.kept.KeptTokenizer`.

    Empty lines count for nothing. Symbols are cleaned as the texts of a training are.

    Raises:
        UserError: the file cannot be read, or a line cannot be used.
    """
    lines = tuple(line for line in map(clean_text, whole_lines_of(path)) if line)
    if "//" in lines:
        advice = "write one between the slashes, such as /[/]{2}/ for //"
        raise UserError(f"{path}: //: a pattern without content; {advice}")
    try:
        KeptSearch(lines)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return lines
