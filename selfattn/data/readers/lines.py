"""Lines of text files, decoded. Lines are read one by one, so a file may be larger than memory.

The text is UTF-8, unless a byte order mark or the user says otherwise. Bytes that cannot be decoded become lone
surrogates (``surrogateescape``), so that a bad byte matters only in a text that is used.
"""

import codecs
import io
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from selfattn.data.readers.containers import opened, start_of
from selfattn.data.text import compose
from selfattn.errors import SettingError, UserError, say

_LONGEST = 64 << 20  # characters of a line; a few megabytes of gzip unpack to gigabytes
_REPORTED = 5_000_000  # lines between two reports of progress
_SEARCHED = 100_000  # lines that are searched for bytes that are not UTF-8
_SAMPLE = 200  # such lines that an encoding is guessed from
_BLOCK = 1 << 16  # bytes that are held against UTF-8
_COUNTED = 1 << 20  # bytes whose lines are counted together
_MARKS = {
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
        known = codecs.lookup(name).name
        "".encode(known)  # LookupError where it encodes no text, as rot13 and base64
    except (LookupError, ValueError):
        known = "undefined"
    if known in _NO_CHARACTERS:
        raise SettingError(f"`encoding` {name}: unknown; expected one such as latin-1, cp1252, cp949 or shift_jis")
    return None if known == "utf-8" else known


def lines_of(path: Path, encoding: str | None = None) -> Iterator[str]:
    r"""Read the lines of a file, without their ends; it is unpacked as its name says.

    A line ends with ``\n`` or ``\r\n`` and nothing else. A byte order mark in front is taken off.

    Args:
        path: the file.
        encoding: from `checked_encoding`; default that of its byte order mark, or UTF-8.

    Raises:
        UserError: the file is missing, a directory, a pipe, damaged, empty, no text, or not what its name says; its
            encoding is surely another; in the given encoding it has control characters, which no text has; or a line of
            it is longer than memory should hold.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"one\r\ntwo")
        ...     list(lines_of(path))
        ['one', 'two']
    """
    used = _encoding_of(path, encoding)
    number = 0
    try:
        with (
            opened(path) as file,
            io.TextIOWrapper(file, used, "surrogateescape", newline="\n") as text,
        ):
            while line := text.readline(_LONGEST):
                number += 1
                if len(line) == _LONGEST:
                    raise UserError(f"{path}:{number}: longer than {_LONGEST >> 20} MiB; give one text a line")
                if number == 1:
                    line = line.removeprefix("\ufeff")
                    if not line.endswith("\n") and line.count("\r") > 1:
                        raise UserError(f"{path}: its lines end in \\r alone, as on old Macs; save it with \\n")
                if encoding is not None and (control := _NO_TEXT.search(line)):
                    shown = f"{path}:{number}: read as {encoding}, it has the control character {control[0]!a}"
                    raise UserError(f"{shown}; give the `encoding` that it is in, such as cp1252 or utf-16-le")
                yield line.removesuffix("\n").removesuffix("\r")
                if number % _REPORTED == 0:
                    say(f"{path}: {number:,} lines read so far")
    except UnicodeError as error:  # surrogateescape has no place for it, or no byte order mark is there
        place = f"{path}: near line {number + 1}"
        reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise UserError(f"{place}: not valid {used} ({reason}); save it as UTF-8") from None


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


def count_lines(path: Path, encoding: str | None = None) -> int:
    """Count the lines of a file, as `lines_of` reads them; in most encodings without decoding them.

    Args:
        path: the file.
        encoding: see `lines_of`.

    Raises:
        UserError: `lines_of` refuses the beginning of the file.
    """
    next(lines_of(path, encoding))
    if "\n".encode(_encoding_of(path, encoding)) != b"\n":
        return sum(1 for _ in lines_of(path, encoding))
    ends = last = 0
    with opened(path) as file:
        while block := file.read(_COUNTED):
            ends += block.count(b"\n")
            last = block[-1]
    return ends + (last != ord("\n"))


def _encoding_of(path: Path, encoding: str | None) -> str:
    """Return the encoding of a file, and refuse one that is surely another."""
    start = start_of(path)
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    if encoding is None:
        if marked is None and 3 * start.count(0) > len(start) > 1:
            order = "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
            raise UserError(f"{path}: UTF-16, not UTF-8; save the file as UTF-8, or give `encoding` {order}")
        for mark, name in _ISO_2022.items():
            if mark in start:
                raise UserError(f"{path}: {name}, not UTF-8; save the file as UTF-8, or give `encoding` {name}")
        return marked or "utf-8"
    if marked is not None and not encoding.startswith(marked):
        raise UserError(f"{path}: begins with the mark of {marked.upper()}, so it is not {encoding}; convert the file")
    if not encoding.startswith("utf") and _is_utf8(path):
        raise UserError(f"{path}: is UTF-8, not {encoding}; leave `encoding` out, or convert the files that need it")
    return encoding


def _is_utf8(path: Path) -> bool:
    """Return whether the first bytes are valid UTF-8 with some character that is not ASCII."""
    with opened(path) as file:
        block = file.read(_BLOCK)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(block)
    except UnicodeDecodeError:
        return False
    return not block.isascii() and b"\x1b" not in block  # ISO-2022 is ASCII with escapes


def likely_encoding(path: Path) -> str | None:
    """Return the encoding that a file which is not UTF-8 is probably in; None where nothing speaks for one.

    It is a guess, for a message.
    """
    bad = (line for line in islice(lines_of(path), _SEARCHED) if BAD_BYTE.search(line))
    sample = "\n".join(islice(bad, _SAMPLE)).encode("utf-8", "surrogateescape")
    if not sample:
        return None
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=[*_USUAL, *_FURTHER]).best()
    if best is None:
        return None
    name: str = best.encoding
    text = sample.decode(name, "replace")
    return next((usual for usual in _USUAL if sample.decode(usual, "replace") == text), name)


def encoding_advice(path: Path, encoding: str | None) -> str:
    """Return what to do about a file that is not in the encoding it was read in."""
    if encoding is not None:
        return f"not valid {encoding}; give another `encoding`, or save the file as UTF-8"
    likely = likely_encoding(path)
    choice = f"give `encoding` {likely}, which it looks like" if likely else "give its `encoding`"
    return f"not valid UTF-8; save the file as UTF-8, or {choice}"


def read_text_lines(path: Path, encoding: str | None = None) -> list[str]:
    """Read the lines of a text.

    Args:
        path: the file.
        encoding: see `lines_of`.

    Raises:
        UserError: as of `lines_of`; or a byte cannot be decoded.
    """
    lines = []
    for number, line in enumerate(lines_of(path, encoding), 1):
        if BAD_BYTE.search(line):
            raise UserError(f"{path}:{number}: {encoding_advice(path, encoding)}")
        lines.append(line)
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
