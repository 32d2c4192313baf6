"""`selfattn predict`: lines in, outputs out, in their order, with memory that grows neither with them nor with one."""

from __future__ import annotations

import codecs
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

from selfattn.codec import short
from selfattn.console import say, visible
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import NOTHING, Output
from selfattn.errors import SettingError, UserError
from selfattn.files import writing
from selfattn.registry import TASKS
from selfattn.runs.directory import RunConfig
from selfattn.runs.run import Run

TooLong = Literal["empty", "cut"]

_BYTES_A_TOKEN = 64  # a line with more bytes than so many for each token is too long, whatever the tokens are
_CHUNK, _CHARACTERS = 1024, 1 << 20  # lines that are read, predicted and written together, and their characters
_BLOCK = 1 << 16
_SHOWN = 10  # of many
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors put it in front


@dataclass(frozen=True)
class Line:
    """A line of the input.

    Attributes:
        text: without its end; of a line that is longer than may be held, the beginning.
        whole: whether the text is all of it.
    """

    text: str
    whole: bool = True


def predict_stream(
    run: Run,
    source: BinaryIO,
    target: BinaryIO,
    options: DecodingOptions,
    *,
    max_input: int | None = None,
    too_long: TooLong = "empty",
    check: bool = False,
    numbered: bool = False,
) -> None:
    """Write the outputs for each line. Progress, and what the model could not read, is said on standard error.

    Where the source is a terminal, each line is answered before the next is read.

    Args:
        run: the model.
        source: UTF-8; a line ends with a newline and nothing else.
        target: where the outputs go, in UTF-8.
        options: how to decode.
        max_input: most tokens of a line, its end counted; default what :func:`input_limit` says.
        too_long: what becomes of a longer one: its output is empty, or the model reads what fits of it.
        check: tell which outputs cannot be right, as the task says; default False.
        numbered: put the number of the line and the score before each output; default False.

    Raises:
        UserError: the input is not UTF-8 or cannot be read (what stands before the broken line is written then), the
            outputs cannot be written, or a length is beyond the model.
        KeyboardInterrupt: with a text that says how far it came.
    """
    limit = input_limit(run.config, options, max_input)
    lines = bounded_lines(source, max(_BLOCK, _BYTES_A_TOKEN * limit))
    progress, unknown, count = _Progress(), Counter[str](), 0
    problems: list[str] = []
    wrong = 0
    try:
        for chunk in _chunks(lines, 1 if source.isatty() else _CHUNK):
            texts: list[str | None] = []  # None: nothing is read of it
            for line in chunk:
                fits = _fits(run, line, limit)
                text = line.text if fits else _cut(run, line.text, limit) if too_long == "cut" else None
                texts.append(text)
                if not fits:
                    progress.interrupt()
                    far = "" if line.whole else "far "  # its tokens are not counted
                    done = "its output is empty" if text is None else f"cut to its first {len(text):,} characters"
                    place = f"standard input:{count + len(texts)}"
                    say(f"{place}: {far}longer than {limit:,} tokens (--max-input); {done}")
            taken = ["" if text is None else text for text in texts]
            unknown += run.unknown(taken)
            decoded = run.decode(taken, options, first=count)
            outputs = [[NOTHING] if text is None else own for text, own in zip(texts, decoded, strict=True)]
            if check:
                found = _problems(run, taken, outputs, count + 1)
                problems, wrong = [*problems, *found][:_SHOWN], wrong + len(found)
            with writing("standard output", "make room and try again"):
                target.write(_rows(outputs, count + 1 if numbered else None, shown=target.isatty()))
                target.flush()
            count += len(chunk)
            progress.show(count)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the outputs of {count:,} lines are written") from None
    finally:
        progress.interrupt()
    if unknown:
        say(unknown_line(unknown))
    if problems:
        more = ", ..." if wrong > len(problems) else ""
        say(f"{wrong:,} outputs cannot be right: {', '.join(problems)}{more}")


def unknown_line(unknown: Counter[str]) -> str:
    """Say which characters a model does not know.

    Example:
        >>> unknown_line(Counter("ßß"))
        "2 characters that the model does not know, 1 different: 'ß' 2"
    """
    shown = ", ".join(f"{character!r} {times:,}" for character, times in unknown.most_common(_SHOWN))
    return f"{unknown.total():,} characters that the model does not know, {len(unknown):,} different: {shown}"


def _problems(run: Run, texts: Sequence[str], outputs: Sequence[Sequence[Output]], first: int) -> list[str]:
    """Which of the outputs cannot be right, and why; of an empty input nothing is expected."""
    kind = TASKS[run.config.task]
    return [
        f"line {number}: {short(output.text)} {problem}"
        for number, (text, own) in enumerate(zip(texts, outputs, strict=True), first)
        if text.strip()
        for output in own
        if (problem := kind.problem(output.text, run.config.data))
    ]


def input_limit(config: RunConfig, options: DecodingOptions, asked: int | None = None) -> int:
    """Say how many tokens an input may have, its end counted.

    Args:
        config: of the run.
        options: how outputs are decoded; a decoder-only model has its positions for input and output together.
        asked: by the user; default nothing.

    Raises:
        UserError: more is asked for than the model can read or write, or an input of less than one token.
    """
    if asked is not None and asked < 1:
        raise SettingError(f"`max_input`: expected a whole number of at least 1, got {asked}")
    readable, writable = _limits(config, config.max_length if options.max_length is None else options.max_length)
    if writable is not None and options.max_length is not None and options.max_length > writable:
        raise SettingError(
            f"`max_length`: an output of {options.max_length} tokens is longer than the model can write; give at most "
            f"{writable}"
        )
    if readable is not None and asked is not None and asked > readable:
        raise SettingError(f"`max_input` {asked}: the model can read {readable} tokens; give no more")
    usual = TASKS[config.task].max_input
    return asked or (usual if readable is None else min(usual, readable))


def _limits(config: RunConfig, output: int) -> tuple[int | None, int | None]:
    """Most tokens to read, where ``output`` tokens are to be written, and most to write; None where all will do."""
    limits = config.model.limits()
    if limits.together is None:
        return limits.source, limits.target
    if not TASKS[config.task].takes_pairs:  # of a beginning it reads half a context, the end
        return None, limits.together - max(1, config.max_length // 2)
    return max(1, limits.together - output), limits.together - 1


def bounded_lines(stream: BinaryIO, most: int) -> Iterator[Line]:
    r"""Read lines that end with a newline and nothing else, and hold no more than ``most`` bytes of any.

    A byte order mark in front is taken off. Of a line with ``most`` bytes or more the rest is read and let go.

    Args:
        stream: in UTF-8.
        most: bytes, at least 4.

    Raises:
        UserError: a line is not UTF-8, or cannot be read.

    Example:
        >>> import io
        >>> [line.text for line in bounded_lines(io.BytesIO(b"one\r\n\ntwo"), 100)]
        ['one', '', 'two']
        >>> list(bounded_lines(io.BytesIO(b"one\nand another"), 7))[1]
        Line(text='and ano', whole=False)
    """
    number = 0
    while part := _read(stream, most):
        number += 1
        decoder = codecs.getincrementaldecoder("utf-8")()
        whole = len(part) < most or part.endswith(b"\n")
        mark = len(_BYTE_ORDER_MARK) if number == 1 and part.startswith(_BYTE_ORDER_MARK) else 0
        text, done = _decoded(decoder, part[mark:], number, mark, final=whole), 0
        while not (whole or part.endswith(b"\n") or not part):
            done += len(part)
            part = _read(stream, _BLOCK)
            _decoded(decoder, part, number, done, final=not part or part.endswith(b"\n"))
        yield Line(text.removesuffix("\n").removesuffix("\r"), whole)


def _read(stream: BinaryIO, most: int) -> bytes:
    try:
        return stream.readline(most)
    except OSError as error:
        raise UserError(f"standard input: cannot be read ({error.strerror}); give lines of text") from None


def _decoded(decoder: codecs.IncrementalDecoder, part: bytes, number: int, before: int, *, final: bool) -> str:
    """Decode what follows ``before`` bytes of a line."""
    before -= len(decoder.getstate()[0])  # bytes of a character that is not complete yet
    try:
        return decoder.decode(part, final)
    except UnicodeDecodeError as error:
        raise UserError(f"standard input:{number}: not valid UTF-8 (byte {before + error.start + 1})") from None


def _chunks(lines: Iterable[Line], most: int) -> Iterator[list[Line]]:
    """Put lines together; those before an error come before it."""
    chunk: list[Line] = []
    characters = 0
    try:
        for line in lines:
            chunk.append(line)
            characters += len(line.text)
            if len(chunk) >= most or characters >= _CHARACTERS:
                yield chunk
                chunk, characters = [], 0
    except UserError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _fits(run: Run, line: Line, limit: int) -> bool:
    """Whether a line has at most so many tokens, its end counted."""
    # A character is at most four tokens, its bytes; there may be one for a space in front, and there is the end.
    return line.whole and (4 * len(line.text) + 2 <= limit or _tokens(run, line.text) < limit)


def _tokens(run: Run, text: str) -> int:
    return len(run.tokenizer.source.encode(unicodedata.normalize("NFC", text)))


def _cut(run: Run, text: str, limit: int) -> str:
    """The beginning of a text that has at most so many tokens, its end counted."""
    text = unicodedata.normalize("NFC", text)
    while _tokens(run, text) >= limit:
        spans = run.tokenizer.source.spans(text)
        text = text[: min(spans[limit - 1][0], len(text) - 1)]
    return text


def _rows(outputs: Sequence[Sequence[Output]], first: int | None, *, shown: bool) -> bytes:
    """The lines that are written: where ``first`` is given, with the numbers of the inputs from there, and scores; to a
    terminal, as text that does nothing to it."""
    rows = []
    for number, own in enumerate(outputs, first or 0):
        for output in own:
            front = "" if first is None else f"{number}\t{output.score:.6f}\t"
            text = output.text.replace("\n", " ")
            rows.append(front + (visible(text) if shown else text) + "\n")
    return "".join(rows).encode()


class _Progress:
    """How many lines are done, on standard error where that is a terminal."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.started = time.monotonic()
        self.is_shown = False

    def show(self, count: int) -> None:
        """Write the line of progress in the place of the one before."""
        if self.is_terminal:
            speed = count / max(time.monotonic() - self.started, 1e-9)
            print(f"\r{count:,} lines, {speed:,.1f} a second\033[K", end="", file=sys.stderr, flush=True)
            self.is_shown = True

    def interrupt(self) -> None:
        """Leave the line of progress, so that another can be written."""
        if self.is_shown:
            say("")
            self.is_shown = False
