"""`selfattn predict`: lines in, outputs out, in order, in constant memory."""

import codecs
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Literal, NamedTuple

from rich.console import Console

from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import NOTHING, Output
from selfattn.errors import SettingError, UserError, say, visible
from selfattn.files import writing
from selfattn.registry import TASKS
from selfattn.runs.directory import RunConfig
from selfattn.runs.run import Run

TooLong = Literal["empty", "cut"]

_BYTES_A_TOKEN = 64  # a line with more bytes per token is too long, whatever the tokens are
_CHUNK, _CHARACTERS = 1024, 1 << 20  # lines that are read, predicted and written together, and their characters
_BLOCK = 1 << 16
_SHOWN = 10  # of many


class Line(NamedTuple):
    """A line of the input.

    Attributes:
        text: the line without its end, or the beginning of a line that is too long to hold.
        is_complete: whether ``text`` is the full line.
    """

    text: str
    is_complete: bool = True


def predict_stream(
    run: Run,
    source: BinaryIO,
    target: BinaryIO,
    options: DecodingOptions,
    *,
    max_input: int | None = None,
    too_long: TooLong = "empty",
    numbered: bool = False,
) -> None:
    """Write the outputs for each line.

    Progress, unknown characters, and outputs that the task knows to be wrong are reported on standard error.

    If the source is a terminal, each line is answered before the next is read.

    Args:
        run: the model.
        source: UTF-8 text; only a newline ends a line.
        target: where the outputs are written, in UTF-8.
        options: how to decode.
        max_input: longest line in tokens, with the end token; default :func:`input_limit`.
        too_long: leave the output of a longer line empty, or cut the line to the tokens that fit.
        numbered: write the line number and the score before each output. Default False.

    Raises:
        UserError: the input is not UTF-8 or cannot be read (the outputs of earlier lines are written first), the
            outputs cannot be written, or a length exceeds the model's.
        KeyboardInterrupt: the message says how many lines are done.
    """
    limit = input_limit(run.config, options, max_input)
    lines = bounded_lines(source, max(_BLOCK, _BYTES_A_TOKEN * limit))
    unknown, count = Counter[str](), 0
    console, started = Console(stderr=True), time.monotonic()
    status = console.status("")
    try:
        if console.is_terminal and not target.isatty():
            status.start()
        for chunk in _chunks(lines, 1 if source.isatty() else _CHUNK):
            readable: list[str | None] = []  # None: the line is not read
            for number, line in enumerate(chunk, count + 1):
                fits = _fits(run, line, limit)
                text = line.text if fits else _cut(run, line.text, limit) if too_long == "cut" else None
                readable.append(text)
                if not fits:
                    done = "its output is empty" if text is None else f"cut to its first {len(text):,} characters"
                    say(f"standard input:{number}: longer than {limit:,} tokens (--max-input); {done}")
            texts = [text or "" for text in readable]
            unknown += run.unknown(texts)
            decoded = run.decode(texts, options, first=count)
            outputs = [[NOTHING] if text is None else row for text, row in zip(readable, decoded, strict=True)]
            with writing("standard output", "free some space and try again"):
                target.write(_rows(outputs, count + 1 if numbered else None, shown=target.isatty()))
                target.flush()
            count += len(chunk)
            speed = count / max(time.monotonic() - started, 1e-9)
            status.update(f"{count:,} lines, {speed:,.1f} a second")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the outputs of {count:,} lines are written") from None
    finally:
        status.stop()
    if unknown:
        say(unknown_line(unknown))


def unknown_line(unknown: Counter[str]) -> str:
    """List the characters that a model does not know.

    Example:
        >>> unknown_line(Counter("ßß"))
        "2 characters that the model does not know, 1 different: 'ß' 2"
    """
    shown = ", ".join(f"{character!r} {times:,}" for character, times in unknown.most_common(_SHOWN))
    return f"{unknown.total():,} characters that the model does not know, {len(unknown):,} different: {shown}"


def input_limit(config: RunConfig, options: DecodingOptions, requested: int | None = None) -> int:
    """Return the longest input in tokens, with the end token.

    Args:
        config: of the run.
        options: how outputs are decoded; a decoder-only model shares its positions between input and output.
        requested: limit set by the user; default none.

    Raises:
        SettingError: the limit is below 1, or exceeds what the model can read or write.
    """
    if requested is not None and requested < 1:
        raise SettingError(f"`max_input`: expected a whole number of at least 1, got {requested}")
    limits, output = config.model.limits(), options.max_length
    task = TASKS[config.task]
    readable, writable = limits.source, limits.target
    if limits.together is not None and task.takes_pairs:
        readable = max(1, limits.together - (config.max_length if output is None else output))
        writable = limits.together - 1
    elif limits.together is not None:  # a language model reads the last half context of its input
        readable, writable = None, limits.together - max(1, config.max_length // 2)
    if writable is not None and output is not None and output > writable:
        raise SettingError(f"`max_length` {output}: longer than the model can write; give at most {writable}")
    if readable is not None and requested is not None and requested > readable:
        raise SettingError(f"`max_input` {requested}: the model can read {readable} tokens; give no more")
    return requested or (task.max_input if readable is None else min(task.max_input, readable))


def bounded_lines(stream: BinaryIO, most: int) -> Iterator[Line]:
    r"""Read lines, holding at most ``most`` bytes of each; the rest of a longer line is skipped.

    Only a newline ends a line. A byte order mark at the beginning is removed.

    Args:
        stream: UTF-8.
        most: bytes, at least 4.

    Raises:
        UserError: a line is not UTF-8, or cannot be read.

    Example:
        >>> import io
        >>> [line.text for line in bounded_lines(io.BytesIO(b"one\r\n\ntwo"), 100)]
        ['one', '', 'two']
        >>> list(bounded_lines(io.BytesIO(b"one\nand another"), 7))[1]
        Line(text='and ano', is_complete=False)
    """
    number = 1
    while part := _read(stream, most):
        is_complete = len(part) < most or part.endswith(b"\n")
        try:
            text = codecs.getincrementaldecoder("utf-8")().decode(part, final=is_complete)
        except UnicodeDecodeError as error:
            raise UserError(f"standard input:{number}: not valid UTF-8 (byte {error.start + 1})") from None
        while not (is_complete or part.endswith(b"\n") or not part):
            part = _read(stream, _BLOCK)
        text = text.removeprefix("\ufeff") if number == 1 else text
        yield Line(text.removesuffix("\n").removesuffix("\r"), is_complete)
        number += 1


def _read(stream: BinaryIO, most: int) -> bytes:
    try:
        return stream.readline(most)
    except OSError as error:
        raise UserError(f"standard input: cannot be read ({error.strerror}); give lines of text") from None


def _chunks(lines: Iterable[Line], most: int) -> Iterator[list[Line]]:
    """Group lines; the lines before an error come first."""
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
    """Return whether a line has at most ``limit`` tokens, with the end token."""
    # A character is at most four tokens, its bytes; add one for a leading space and one for the end.
    return line.is_complete and (4 * len(line.text) + 2 <= limit or _tokens(run, line.text) < limit)


def _tokens(run: Run, text: str) -> int:
    return len(run.tokenizer.source.encode(unicodedata.normalize("NFC", text)))


def _cut(run: Run, text: str, limit: int) -> str:
    """Return the beginning of a text that has at most ``limit`` tokens, with the end token."""
    text = unicodedata.normalize("NFC", text)
    while _tokens(run, text) >= limit:
        spans = run.tokenizer.source.spans(text)
        text = text[: min(spans[limit - 1][0], len(text) - 1)]
    return text


def _rows(outputs: Sequence[Sequence[Output]], first: int | None, *, shown: bool) -> bytes:
    """Return the lines to write, with line numbers from ``first`` and scores if it is given; harmless on a terminal."""
    rows = []
    for number, row in enumerate(outputs, first or 0):
        for output in row:
            prefix = "" if first is None else f"{number}\t{output.score:.6f}\t"
            text = output.text.replace("\n", " ")
            rows.append(prefix + (visible(text) if shown else text) + "\n")
    return "".join(rows).encode()
