"""Symbols that are never divided: in front of any tokenizer, with tokens of their own, and copied from the source."""

import os
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, Literal, Self

from selfattn import codec
from selfattn.errors import UserError
from selfattn.tokenizers.listed import WordTokenizer
from selfattn.tokenizers.protocol import BOS, EOS, PAD, Tokenizer, Unit, checked_id, printable, unit_of

FILE_NAME = "kept.json"
_FIRST_MARK = 0xF0000  # private characters stand for what a pattern has found, until it is put back
_MOST = 1000
_SHOWN = 100  # characters of a pattern in a message
_CALL = re.compile(r"(?<!\\)\(\?(R|0)\)")  # of the whole pattern inside itself
_MOST_WRITTEN = 100_000  # parts, with counts written out as the library does; each takes some 0.4 kB
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)[\d,]*\}|.", re.DOTALL)  # with a count, or not
_SECONDS = 5.0  # of the processor, for a text; a search takes far below a millisecond


@dataclass(frozen=True)
class KeptFile(codec.Plain):
    """The content of ``kept.json``; the tokenizer of everything else lies beside it.

    Attributes:
        tokenizer: the kind of tokenizer.
        version: of the format.
        lines: symbols and patterns.
    """

    tokenizer: Literal["kept"]
    version: Literal[1]
    lines: tuple[str, ...]


class KeptTokenizer(Tokenizer):
    r"""A tokenizer, and tokens for symbols that are never divided.

    A line is a symbol, or a regular expression between slashes. A symbol is one token, wherever it stands in a text;
    of tokens that are words, it is one only as a whole word. Everything that a pattern finds is the same token: a
    placeholder, which says that something of this kind stands there. :meth:`restore` puts back what the source has.

    Args:
        base: of everything else; one for both sides.
        lines: symbols and patterns.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.
        marks: what :meth:`decode` writes for a find of a pattern.

    Raises:
        UserError: a line cannot be used; the message says why.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = KeptTokenizer(CharTokenizer("se :)"), ["(c)", r"/https?:\S+/"])
        >>> source = "see (c) http://a.b"
        >>> ids = tokenizer.encode(source)
        >>> tokenizer.pieces(ids)
        ['s', 'e', 'e', '␣', '(c)', '␣', '/https?:\\S+/']
        >>> tokenizer.restore(tokenizer.decode(ids), source)
        'see (c) http://a.b'
    """

    def __init__(self, base: Tokenizer, lines: Sequence[str]) -> None:
        self.base = base
        self.lines = tuple(lines)
        self.unit: Unit = unit_of(base)
        self._of_words = isinstance(base, WordTokenizer)
        self._search = KeptSearch(self.lines)
        self._texts = [chr(_FIRST_MARK + place) if is_pattern(line) else line for place, line in enumerate(self.lines)]
        self.marks = {text for text, line in zip(self._texts, self.lines, strict=True) if is_pattern(line)}
        if self._of_words and (spaced := [line for line in self.lines if not is_pattern(line) and " " in line]):
            raise UserError(f"kept symbols: {spaced[0]!r} has a space, and no word has; leave it out, or take subwords")

    def __len__(self) -> int:
        """Return the size of the vocabulary: that of the base, then a token for each line."""
        return len(self.base) + len(self.lines)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text."""
        ids: list[int] = []
        for start, end, number in self._cut(text):
            ids += [number] if number is not None else self._encoded(text[start:end])
        return ids

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return a random segmentation, in which symbols are not divided either."""
        if self._of_words:
            return self.encode(text)
        ids: list[int] = []
        for start, end, number in self._cut(text):
            ids += [number] if number is not None else self.base.sample(text[start:end], seed, alpha)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; a private character for what a pattern had found, see :meth:`restore`.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        first = len(self.base)
        parts: list[str] = []
        for are_kept, group in groupby(ids, lambda number: number >= first):
            run = list(group)
            if are_kept:
                parts += [self._texts[checked_id(number, len(self)) - first] for number in run]
            elif any(number not in (PAD, BOS, EOS) for number in run):
                parts.append(self.base.decode(run))
        return (" " if self._of_words else "").join(parts)

    def kept_in(self, text: str) -> set[str]:
        """Return what is not divided in a text: its symbols, and what patterns find."""
        return {text[start:end] for start, end, number in self._cut(text) if number is not None}

    def restore(self, text: str, source: str) -> str:
        """Put back what patterns find in a source: the first of a pattern's places gets its first find, and so on.

        Args:
            text: from :meth:`decode`.
            source: the text that it was written for. Where it has too few, U+FFFD stands in the text.
        """
        if self.marks.isdisjoint(text):
            return text
        finds: dict[str, list[str]] = {text: [] for text in self._texts}
        for start, end, number in self._cut(source):
            if number is not None:
                finds[self._texts[number - len(self.base)]].append(source[start:end])
        next_find = {mark: chain(finds[mark], repeat("\N{REPLACEMENT CHARACTER}")) for mark in self.marks}
        return "".join(next(next_find[character]) if character in self.marks else character for character in text)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: for a symbol itself, for a placeholder its pattern.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        first = len(self.base)
        names = []
        for number in ids:
            is_kept = first <= number < len(self)
            names.append(printable(self.lines[number - first]) if is_kept else self.base.pieces([number])[0])
        return names

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``."""
        if self._of_words:
            return self.base.spans(text)
        spans: list[tuple[int, int]] = []
        for start, end, number in self._cut(text):
            inside = [(0, end - start)] if number is not None else self.base.spans(text[start:end])
            spans += [(start + first, start + last) for first, last in inside]
        return spans

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters, or words, of the texts that are neither in the vocabulary nor of a symbol."""
        counts = Counter[str]()
        for text in texts:
            for start, end, number in self._cut(text):
                if number is None:
                    counts += self.base.unknown(text[start:end])
        return counts

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``kept.json``, and the files of the base beside it.

        Args:
            directory: created if it is missing.
        """
        self.base.save(directory)
        codec.write(Path(directory) / FILE_NAME, KeptFile("kept", 1, self.lines))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Refuse: :func:`selfattn.tokenizers.load.load_tokenizer` knows the base that lies beside ``kept.json``.

        Raises:
            UserError: always.
        """
        raise UserError(f"{directory}: open it with selfattn.tokenizers.load.load_tokenizer, which also loads the base")

    def _encoded(self, text: str) -> list[int]:
        if isinstance(self.base, WordTokenizer):  # a single word, perhaps the empty one between two spaces
            return [self.base.known.get(text, self.unk_id)]
        return self.base.encode(text)

    def _cut(self, text: str) -> Iterator[tuple[int, int, int | None]]:
        """Yield start and end of each part of a text, and the token that it is; None for parts of the base."""
        if self._of_words:
            start = 0
            for word in text.split(" ") if text else []:
                match = self._search.full_match(word)
                yield start, start + len(word), None if match is None else self._number(match)
                start += len(word) + 1
            return
        place = 0
        for match in self._search.finds(text):
            if place < match.start():
                yield place, match.start(), None
            yield match.start(), match.end(), self._number(match)
            place = match.end()
        if place < len(text):
            yield place, len(text), None

    def _number(self, match: Any) -> int:
        return len(self.base) + int((match.lastgroup or "")[1:])


def is_pattern(line: str) -> bool:
    """Return whether a line is a regular expression, which stands between slashes.

    Example:
        >>> is_pattern("/[0-9]+/"), is_pattern("and/or"), is_pattern("/")
        (True, False, False)
    """
    return len(line) > 2 and line.startswith("/") and line.endswith("/")


class KeptSearch:
    r"""Finds kept symbols in texts: long symbols first, then patterns in their order.

    Patterns are those of the library `regex`, whose search can be stopped: a pattern with nested repetition, such as
    ``(?:a+)+b``, may take longer for a text than anybody waits. Its word characters ``\w`` are those of Unicode, with
    the vowel signs of Devanagari, Thai and others; ``re`` of Python has another set.

    Args:
        lines: symbols and patterns.

    Raises:
        UserError: a line is empty or stands twice, or a pattern is wrong, too large, has groups or flags, calls itself,
            or finds an empty text.

    Example:
        >>> [match[0] for match in KeptSearch(["(c)", "/[0-9]+/"]).finds("(c) 1984, 2001")]
        ['(c)', '1984', '2001']
    """

    def __init__(self, lines: Sequence[str]) -> None:
        if not 0 < len(lines) <= _MOST:
            raise UserError(f"kept symbols: {len(lines):,} lines; give from 1 to {_MOST:,}")
        groups: list[str] = []
        for place, line in enumerate(lines):
            if not line or line in lines[:place]:
                raise UserError(f"kept symbols: line {place + 1} is empty or stands above; leave it out")
            if is_pattern(line):
                _check_pattern(line)
            text = f"{chr(_FIRST_MARK + place)}|{line[1:-1]}" if is_pattern(line) else re.escape(line)
            groups.append(f"(?P<l{place}>{text})")
        if sum(_written_out(line[1:-1]) for line in lines if is_pattern(line)) > _MOST_WRITTEN:
            raise UserError("kept symbols: the counts of all patterns together are too large; give fewer, or smaller")
        self._lines = tuple(lines)
        # Long symbols first, then patterns in their order.
        order = sorted(range(len(lines)), key=lambda place: 0 if is_pattern(lines[place]) else -len(lines[place]))
        self._pattern = _compiled("|".join(groups[place] for place in order), "all lines together")

    def finds(self, text: str) -> list[Any]:
        """Return the matches in a text, without empty ones, such as a word's boundary.

        Raises:
            UserError: the search takes too long; the message names the pattern.
        """
        try:
            return [match for match in self._pattern.finditer(text, timeout=_SECONDS) if match[0]]
        except TimeoutError:
            raise self._too_slow(text) from None

    def full_match(self, word: str) -> Any:
        """Return the match that is the whole word; None where there is none, and for an empty word.

        Raises:
            UserError: the search takes too long; the message names the pattern.
        """
        try:
            return self._pattern.fullmatch(word, timeout=_SECONDS) if word else None
        except TimeoutError:
            raise self._too_slow(word) from None

    def _too_slow(self, text: str) -> UserError:
        slow = ", ".join(line for line in self._lines if is_pattern(line) and _is_slow(line, text))
        reason = f"more than {_SECONDS:g} s for {reprlib.repr(text)}"
        return UserError(f"kept symbols: {slow or 'the patterns'}: {reason}; write no repetition inside another")


def _is_slow(line: str, text: str) -> bool:
    import regex  # type: ignore[import-untyped]  # takes 20 ms; its types are a package of their own

    try:
        regex.compile(line[1:-1]).findall(text, timeout=_SECONDS / 2)
    except TimeoutError:
        return True
    return False


def _check_pattern(line: str) -> None:
    """Check a regular expression between slashes.

    Raises:
        UserError: see `KeptSearch`.
    """
    if _written_out(line[1:-1]) > _MOST_WRITTEN:
        shown = _shown(line)
        raise UserError(f"kept symbols: {shown}: more than {_MOST_WRITTEN:,} parts by its counts; write smaller ones")
    pattern = _compiled(line[1:-1], line)
    flags = _compiled("", line).flags
    if pattern.groups or pattern.flags != flags or _CALL.search(line) or pattern.fullmatch(""):
        raise UserError(f"kept symbols: {line}: has groups or flags, or finds nothing; write (?:...), and + for *")


def _compiled(text: str, line: str) -> Any:
    import regex

    try:
        return regex.compile(text)
    except regex.error as error:
        reason = str(error)
    except (RecursionError, OverflowError, MemoryError):
        reason = "too large, or parentheses too deep"
    raise UserError(f"kept symbols: {_shown(line)}: no regular expression of the library regex ({reason}); mend it")


def _shown(line: str) -> str:
    return reprlib.repr(line) if len(line) > _SHOWN else line


def _written_out(pattern: str) -> int:
    """Return how many parts a pattern has when ``a{3}`` is written ``aaa``: the library compiles them all.

    A count multiplies what stands before it, a character or a group; nested counts multiply one another.
    """
    sizes = [0]  # of the pattern, and of each group that is open
    last = 0  # what a count repeats
    for part in _PART.finditer(pattern):
        if part[0] == "(":
            sizes.append(0)
            last = 1
            continue
        if part[1]:
            last *= max(int(part[1][:10]) - 1, 0)
        elif part[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
        else:
            last = 1
        sizes[-1] += last
    return sum(sizes)


def without_kept(texts: Iterable[str], lines: Sequence[str], *, of_words: bool) -> Iterator[str]:
    """Yield what is left of texts without kept symbols: what the base is trained on.

    Args:
        texts: of the training data.
        lines: symbols and patterns.
        of_words: whether the base has words as tokens, of which whole ones are kept.
    """
    search = KeptSearch(lines)
    for text in texts:
        if of_words:
            yield " ".join(word for word in text.split(" ") if not search.full_match(word))
            continue
        place = 0
        for match in search.finds(text):
            part = text[place : match.start()]
            place = match.end()
            if part.strip():
                yield part.strip(" ")
        if text[place:].strip():
            yield text[place:].strip(" ")
