"""`selfattn predict`: lines in, outputs out, in order, in constant memory."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from rich.console import Console

from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import NOTHING, Output
from selfattn.errors import UserError, say, visible
from selfattn.files import writing
from selfattn.registry import TASKS
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.tokenizers.protocol import unit_of, unknown_line

_BYTES_A_TOKEN = 64  # a line with more bytes per token is too long, whatever the tokens are
_CHUNK = 1024  # lines that are read, predicted and written together
_CHARACTERS = 1 << 20  # most characters of these lines
_BLOCK = 1 << 16
REFUSED = replace(NOTHING)
"""The output for a line that is too long."""


def predict_stream(
    run: Run, source: BinaryIO, target: BinaryIO, options: DecodingOptions, *, numbered: bool = False
) -> None:
    """Write the outputs for each line.

    Progress, unknown characters or words, and lines that are too long are reported on standard error. If the source is
    a terminal, each line is answered before the next is read.

    Args:
        run: the model.
        source: UTF-8 text; only a newline ends a line.
        target: where the outputs are written, in UTF-8.
        options: how to decode.
        numbered: write the line number, the score and the state before each output. Default False.

    Raises:
        UserError: the input is not UTF-8 or cannot be read (the outputs of earlier lines are written first), the
            outputs cannot be written, or an output may become longer than the model can write.
        KeyboardInterrupt: the message says how many lines are done.
    """
    limit = input_limit(run.config, options)
    lines = bounded_lines(source, max(_BLOCK, _BYTES_A_TOKEN * limit))
    unknown = Counter[str]()
    count = 0
    cut_off = 0
    console = Console(stderr=True)
    started = time.monotonic()
    status = console.status("")
    try:
        if console.is_terminal and not target.isatty():
            status.start()
        for chunk in _chunks(lines, 1 if source.isatty() else _CHUNK):
            readable = [text if _fits(run, text, limit) else None for text in chunk]
            for number, text in enumerate(readable, count + 1):
                if text is None:
                    say(f"standard input:{number}: longer than {limit:,} tokens; its output is empty")
            texts = [text or "" for text in readable]
            unknown += run.unknown(texts)
            decoded = run.decode(texts, options, first=count)
            outputs = [[REFUSED] if text is None else row for text, row in zip(readable, decoded, strict=True)]
            with writing("standard output", "free some space and try again"):
                target.write(_rows(outputs, count + 1 if numbered else None, shown=target.isatty()))
                target.flush()
            count += len(chunk)
            cut_off += sum(not row[0].finished for row in outputs)
            speed = count / max(time.monotonic() - started, 1e-9)
            status.update(f"{count:,} lines, {speed:,.1f} a second")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the outputs of {count:,} lines are written") from None
    finally:
        status.stop()
    if unknown:
        say(unknown_line(unknown, unit_of(run.tokenizer.source)))
    if cut_off:
        say(f"{cut_off:,} of {count:,} outputs were cut off at the longest length allowed; --max-length sets it")


def input_limit(config: RunConfig, options: DecodingOptions) -> int:
    """Return the longest input in tokens, with the end token.

    Args:
        config: of the run.
        options: how outputs are decoded; a decoder-only model shares its positions between input and output.
    """
    limits = config.model.limits()
    task = TASKS[config.task]
    readable: int = task.max_input
    if limits.source is not None:
        readable = min(readable, limits.source)
    if limits.together is not None and task.takes_pairs:  # a language model reads the last half context of its input
        readable = min(readable, limits.together - (options.max_length or config.max_length))
    return max(1, readable)


def bounded_lines(stream: BinaryIO, most: int) -> Iterator[str | None]:
    r"""Read lines, holding at most ``most`` bytes of each; a longer line is None.

    Only a newline ends a line. A byte order mark at the beginning is removed.

    Args:
        stream: UTF-8.
        most: bytes.

    Raises:
        UserError: a line is not UTF-8, or cannot be read.

    Example:
        >>> import io
        >>> list(bounded_lines(io.BytesIO(b"one\r\n\ntwo"), 100)), list(bounded_lines(io.BytesIO(b"one\nand two"), 7))
        (['one', '', 'two'], ['one', None])
    """
    number = 1
    while part := _read(stream, most):
        if len(part) == most and not part.endswith(b"\n"):
            while part and not part.endswith(b"\n"):
                part = _read(stream, _BLOCK)
            yield None
        else:
            try:
                text = part.decode()
            except UnicodeDecodeError as error:
                raise UserError(f"standard input:{number}: not valid UTF-8 (byte {error.start + 1})") from None
            text = text.removeprefix("\ufeff") if number == 1 else text
            yield text.removesuffix("\n").removesuffix("\r")
        number += 1


def _read(stream: BinaryIO, most: int) -> bytes:
    try:
        return stream.readline(most)
    except OSError as error:
        raise UserError(f"standard input: cannot be read ({error.strerror}); give lines of text") from None


def _chunks(lines: Iterable[str | None], most: int) -> Iterator[list[str | None]]:
    """Group lines; the lines before an error come first."""
    chunk: list[str | None] = []
    characters = 0
    try:
        for line in lines:
            chunk.append(line)
            characters += len(line or "")
            if len(chunk) >= most or characters >= _CHARACTERS:
                yield chunk
                chunk = []
                characters = 0
    except UserError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _fits(run: Run, text: str | None, limit: int) -> bool:
    """Return whether a line has at most ``limit`` tokens, with the end token."""
    if text is None:
        return False
    # A character is at most four tokens, its bytes; add one for a leading space and one for the end.
    return 4 * len(text) + 2 <= limit or len(run.tokenizer.source.encode(run.clean(text))) < limit


def state_of(output: Output) -> str:
    """Name the state of an output: ``end`` (the model ended it), ``cut`` (cut off), ``empty`` or ``refused``.

    Example:
        >>> state_of(Output("2008-1", -0.5, -0.5, finished=False)), state_of(NOTHING)
        ('cut', 'empty')
    """
    if output is REFUSED:
        return "refused"
    if output.score is None:
        return "empty"
    return "end" if output.finished else "cut"


def _rows(outputs: Sequence[Sequence[Output]], first: int | None, *, shown: bool) -> bytes:
    """Return the lines to write, harmless on a terminal; with numbers from ``first``, scores and states if given."""
    rows = []
    for number, row in enumerate(outputs, first or 0):
        for output in row:
            score = "" if output.score is None else f"{output.score:.6f}"
            prefix = "" if first is None else f"{number}\t{score}\t{state_of(output)}\t"
            text = output.text.replace("\n", " ")
            rows.append(prefix + (visible(text) if shown else text) + "\n")
    return "".join(rows).encode()
