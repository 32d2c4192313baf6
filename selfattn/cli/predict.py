"""The command ``selfattn predict``: lines in, outputs out, in order, in constant memory."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import json
import os
import select
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from selfattn.cli.options import Device, changed_settings, check_given, command, parameters_of, takes
from selfattn.console import has_terminal
from selfattn.decoding.options import NOTHING, DecodingOptions, Output
from selfattn.errors import UserError, number_of, say, visible
from selfattn.files import writing
from selfattn.processes import first_interrupt
from selfattn.registry import TASKS
from selfattn.settings import excludes, needs, shown

if TYPE_CHECKING:
    from selfattn.decoding.glossary import Glossary
    from selfattn.runs.predictor import OutputDetails, Predictor
    from selfattn.runs.record import RunConfig

MOST_LINES = 1_000_000
_BYTES_A_TOKEN = 64  # a line with more bytes per token is too long, whatever the tokens are
_CHUNK = 1024  # most lines that are predicted and written together
_CHARACTERS = 1 << 20  # most characters of these lines
_BLOCK = 1 << 16
REFUSED = replace(NOTHING)
"""The output for a line that is too long."""
_BASIC = ("beam", "sample", "n_best", "max_length")
# Without --n-best, each input has one output line without a number in front.
_DECODING = parameters_of(DecodingOptions, defaults={"n_best": None}, group="Decoding", basic=_BASIC)
_PREDICT = (
    excludes("`prefixes`", lambda options: options.prefixes, "prefix"),
    needs("`engine` torch or onnx", lambda options: options.engine != "ctranslate2", "align", "glossary"),
)


@command
@takes(*_DECODING)
def predict(
    *runs: Path,
    engine: Literal["torch", "onnx", "ctranslate2"] = "torch",
    device: Device = "cpu",
    buffer: int | None = None,
    align: bool = False,
    token_scores: bool = False,
    prefix: str | None = None,
    prefixes: Path | None = None,
    glossary: Path | None = None,
    **decoding: Any,
) -> None:
    """Read lines from standard input and write the model's output for each to standard output.

    Every input line gives one output line, in the same order. A language model continues each line. Several runs with
    the same task and vocabulary predict together: their probabilities are averaged. Memory use does not grow with the
    input. Lines of a pipe are answered as they come; --buffer waits for several.

    Args:
        runs: Run directory. Several runs predict together.
        engine: Library that computes. onnx and ctranslate2 export the run once, to RUN-onnx or RUN-ctranslate2.
        buffer: Lines to wait for and predict together, for throughput. Default: those that are there, at most 1,024.
        align: Write JSON lines with the tokens of each output and their links to source tokens, as align has them.
        token_scores: Write JSON lines with the tokens of each output and the log-probability of each.
        prefix: Text that every output begins with.
        prefixes: File with a line for each input line: what its output begins with, perhaps nothing.
        glossary: File with a source term, a tab, and the words that its output must have, on each line. Needs --beam.
    """
    if not runs:
        raise UserError("predict: name a RUN, the directory of a trained model, or several to average")
    options = DecodingOptions(**changed_settings(decoding, _DECODING))
    if buffer is not None and not 1 <= buffer <= MOST_LINES:
        raise UserError(f"--buffer {buffer}: expected a number of lines from 1 to {MOST_LINES:,}")
    if sys.stdin is None:
        raise UserError("standard input is closed; leave it open, or redirect it to a file")
    has_prefix = prefix is not None  # an empty one, too
    check_given(_PREDICT, engine=engine, align=align, glossary=glossary, prefixes=prefixes, prefix=has_prefix)
    from selfattn.data.readers.lines import whole_lines_of
    from selfattn.decoding.glossary import read_glossary
    from selfattn.runs.predictor import open_compared

    words = None if glossary is None else read_glossary(glossary)
    beginning = prefix if prefixes is None else whole_lines_of(prefixes)
    if engine == "ctranslate2":  # refuse before anything is exported
        from selfattn.exports.ctranslate2_engine import check_options

        check_options(options, has_prefixes=beginning is not None)
    run = None
    if engine == "ctranslate2" and len(runs) == 1 and device == "cpu":
        run = open_compared(runs[0], options.beam)
    if run is None:
        from selfattn.runs.load import load  # and torch

        run = load(*runs, engine=engine, device=device)
    numbered = decoding.get("n_best") is not None
    source: Any = sys.stdin.buffer  # which has read1
    predict_stream(
        run,
        source,
        sys.stdout.buffer,
        options,
        numbered=numbered,
        buffer=buffer,
        align=align,
        token_scores=token_scores,
        prefix=beginning,
        glossary=words,
    )


def predict_stream(
    run: "Predictor",
    source: BufferedIOBase,
    target: BinaryIO,
    options: DecodingOptions,
    *,
    numbered: bool = False,
    buffer: int | None = None,
    align: bool = False,
    token_scores: bool = False,
    prefix: str | Iterator[str] | None = None,
    glossary: "Glossary | None" = None,
) -> None:
    """Write the outputs for each line.

    Progress, unknown characters or words, and lines that are too long are reported on standard error. If the source is
    a terminal, each line is answered before the next is read. From a pipe, the lines that are there are predicted
    together and answered before more are waited for; so another program may wait for each answer.

    Args:
        run: the model.
        source: UTF-8 text; only a newline ends a line.
        target: where the outputs are written, in UTF-8.
        options: how to decode.
        numbered: write the line number, the score and the state before each output. Default False.
        buffer: wait for this number of lines, and predict them together; default see above, and 1,024 from a file.
        align: write each output as a JSON object with its tokens and their links to the source. Default False.
        token_scores: write each output as a JSON object with its tokens and their log-probabilities. Default False.
        prefix: what the outputs begin with: a text for all, or for each line one. Default nothing.
        glossary: words that outputs must have. A line whose output lacks some is named. Default none.

    Raises:
        UserError: the input is not UTF-8 or cannot be read (the outputs of earlier lines are written first), the
            outputs cannot be written, an output may become longer than the model can write, or there are not as many
            prefixes as lines.
        KeyboardInterrupt: the message says how many lines are done.
    """
    from selfattn.decoding.glossary import missing
    from selfattn.runs.predictor import output_details
    from selfattn.tokenizers.protocol import unit_of, unknown_line

    limit = input_limit(run.config, options)
    beginnings: str | list[str] | None
    arriving = Arriving(source)
    lines = bounded_lines(arriving, max(_BLOCK, _BYTES_A_TOKEN * limit))
    waits = buffer is not None or _is_file(source)
    chunk_lines = buffer or (1 if source.isatty() else _CHUNK)
    unknown = Counter[str]()
    count = 0
    cut_off = 0
    started = time.monotonic()
    is_detailed = align or token_scores
    on_terminal = target.isatty()
    interrupts = threading.Event()
    is_writing = False  # then the first interrupt waits for the whole lines
    status: Any = None
    if has_terminal() and not on_terminal:
        from rich.console import Console

        status = Console(stderr=True).status("")
    try:
        with status or nullcontext():
            for chunk in _chunks(lines, chunk_lines, lambda: waits or arriving.has_line):
                readable = [text if _fits(run, text, limit) else None for text in chunk]
                for number, text in enumerate(readable, count + 1):
                    if text is None:
                        say(f"standard input:{number}: longer than {limit:,} tokens; its output is empty")
                texts = [text or "" for text in readable]
                unknown += run.unknown(texts)
                if prefix is None or isinstance(prefix, str):
                    beginnings = prefix
                else:
                    beginnings = list(islice(prefix, len(texts)))
                    if len(beginnings) < len(texts):
                        number = count + len(beginnings) + 1
                        raise UserError(f"--prefixes: line {number:,} of the input has no prefix; add a line")
                decoded = run.decode(
                    texts, options, first=count, prefix=beginnings, glossary=glossary, scored=numbered or is_detailed
                )
                outputs = [[REFUSED] if text is None else row for text, row in zip(readable, decoded, strict=True)]
                details: Sequence[Sequence[OutputDetails]] = [[] for _ in texts]
                if is_detailed:
                    details = output_details(run, texts, outputs, align=align, token_scores=token_scores)
                rows: list[str] = []
                for number, (text, row, of_row) in enumerate(zip(texts, outputs, details, strict=True), count + 1):
                    if glossary is not None and (words := missing(glossary.required(text), row[0].text)):
                        listed = ", ".join(map(shown, words))
                        say(f"standard input:{number}: the output was cut off without {listed} of the glossary")
                    rows += output_lines(number, row, of_row, numbered=numbered, on_terminal=on_terminal)
                is_writing = True
                with writing("standard output", "free some space and try again"), first_interrupt(interrupts.set):
                    target.write("".join(rows).encode())
                    target.flush()
                is_writing = False
                count += len(chunk)
                cut_off += sum(not row[0].finished for row in outputs)
                speed = count / max(time.monotonic() - started, 1e-9)
                if interrupts.is_set():
                    raise KeyboardInterrupt
                if status is not None:
                    status.update(f"{number_of(count, 'line')}, {speed:,.1f} a second")
    except KeyboardInterrupt:
        least = "at least " if is_writing else ""
        raise KeyboardInterrupt(f"{least}the outputs of {number_of(count, 'line')} are written") from None
    if isinstance(prefix, Iterator) and next(prefix, None) is not None:
        raise UserError(f"--prefixes: has more lines than the input, which has {count:,}; give one for each")
    if unknown:
        say(unknown_line(unknown, unit_of(run.tokenizer.source)))
    if cut_off:
        share = f"{cut_off:,} of {number_of(count, 'output')}"
        say(f"{share} cut off at the longest length allowed; --max-length sets it")


def input_limit(config: "RunConfig", options: DecodingOptions) -> int:
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


class Arriving:
    """A stream whose lines can be read as they arrive.

    Args:
        source: of bytes.

    Example:
        >>> import io
        >>> arriving = Arriving(io.BytesIO(b"one\\ntwo\\n"))
        >>> arriving.has_line, arriving.readline(100), arriving.has_line
        (False, b'one\\n', True)
    """

    def __init__(self, source: BufferedIOBase) -> None:
        self._source: Any = source  # with `raw`, where it is a pipe
        self._held = b""

    @property
    def has_line(self) -> bool:
        """Whether a line is there, so that nothing has to be waited for."""
        return b"\n" in self._held

    def readline(self, max_bytes: int) -> bytes:
        """Return the next line, or ``most`` bytes of a longer one; b"" at the end.

        Raises:
            UserError: it cannot be read.
        """
        parts = [self._held]
        length = len(self._held)
        while b"\n" not in parts[-1] and length < max_bytes:
            try:
                part = self._read(min(_BLOCK, max_bytes - length))
            except OSError as error:
                raise UserError(f"standard input: cannot be read ({error.strerror}); give lines of text") from None
            if not part:
                break
            parts.append(part)
            length += len(part)
        held = b"".join(parts)
        end = min(held.find(b"\n") + 1 or len(held), max_bytes)
        self._held = held[end:]
        return held[:end]

    def _read(self, size: int) -> bytes:
        """Return what is there, at most ``size`` bytes; wait where nothing is there; b"" at the end.

        Of a pipe that does not block, `read1` returns b"" where nothing is there *now*, as it does at the end.
        """
        part: bytes = self._source.read1(size)
        if part or not _is_non_blocking(self._source):
            return part
        now: bytes | None = None
        while now is None:
            select.select([self._source], [], [])
            now = self._source.raw.read(size)  # None where nothing is there, b"" at the end alone
        return now


def _is_non_blocking(source: BufferedIOBase) -> bool:
    """Whether the source is a pipe that another program has made non-blocking."""
    try:
        return not os.get_blocking(source.fileno())
    except (OSError, AttributeError):  # a stream in memory; a system without such pipes
        return False


def _is_file(source: BufferedIOBase) -> bool:
    """Whether everything is there: a file on a disk, or a stream in memory."""
    try:
        return stat.S_ISREG(os.fstat(source.fileno()).st_mode)
    except OSError:
        return True


def bounded_lines(stream: Arriving, max_bytes: int) -> Iterator[str | None]:
    r"""Read lines, holding at most ``most`` bytes of each; a longer line is None.

    Only a newline ends a line. A byte order mark at the beginning is removed.

    Args:
        stream: UTF-8.
        max_bytes: bytes; at least 1.

    Raises:
        UserError: a line is not UTF-8, or cannot be read; or lines end in ``\r`` alone.

    Example:
        >>> import io
        >>> list(bounded_lines(Arriving(io.BytesIO(b"one\r\n\ntwo")), 100))
        ['one', '', 'two']
        >>> list(bounded_lines(Arriving(io.BytesIO(b"one\nand two")), 7))
        ['one', None]
    """
    number = 1
    while part := stream.readline(max_bytes):
        if len(part) == max_bytes and not part.endswith(b"\n"):
            while part and not part.endswith(b"\n"):
                part = stream.readline(_BLOCK)
            yield None
        else:
            try:
                text = part.decode()
            except UnicodeDecodeError as error:
                raise UserError(f"standard input:{number}: not valid UTF-8 (byte {error.start + 1})") from None
            if 3 * part.count(0) > len(part):
                raise UserError(f"standard input:{number}: UTF-16, not UTF-8; convert it, such as with iconv")
            if not part.endswith(b"\n") and part.count(b"\r") > 1:
                raise UserError(f"standard input:{number}: lines end in \\r alone; end them with \\n")
            text = text.removeprefix("\ufeff") if number == 1 else text
            yield text.removesuffix("\n").removesuffix("\r")
        number += 1


def _chunks(lines: Iterable[str | None], max_lines: int, is_more: Callable[[], bool]) -> Iterator[list[str | None]]:
    """Group lines; the lines before an error come first.

    Args:
        lines: as they are read.
        max_lines: lines in a group.
        is_more: whether to read another line into a group that has fewer.
    """
    chunk: list[str | None] = []
    characters = 0
    try:
        for line in lines:
            chunk.append(line)
            characters += len(line or "")
            if len(chunk) >= max_lines or characters >= _CHARACTERS or not is_more():
                yield chunk
                chunk = []
                characters = 0
    except UserError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _fits(run: "Predictor", text: str | None, limit: int) -> bool:
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


def output_lines(
    number: int, row: Sequence[Output], details: "Sequence[OutputDetails]", *, numbered: bool, on_terminal: bool
) -> Iterator[str]:
    """Write the outputs for an input line, one a line, harmless on a terminal.

    Args:
        number: of the input line.
        row: its outputs.
        details: of each output, which is written as a JSON object then; none for a text.
        numbered: write the number, the score and the state before each text.
        on_terminal: write for a terminal: JSON in ASCII, texts without control characters.

    Example:
        >>> from selfattn.runs.predictor import OutputDetails
        >>> output = Output("a", -0.75, -0.75, True, (4,))
        >>> details = OutputDetails(("1",), ("a", "<eos>"), (-0.5, -0.25), None)
        >>> print(*output_lines(1, [output], [details], numbered=False, on_terminal=False), end="")
        {"line": 1, "state": "end", "score": -0.75, "output": "a", "source_tokens": ["1"], "tokens": ["a", "<eos>"], \
"token_scores": [-0.5, -0.25]}
    """
    for place, output in enumerate(row):
        state = state_of(output)
        if details:
            values = {"line": number, "state": state, "score": output.score, "output": output.text}
            values |= {name: value for name, value in vars(details[place]).items() if value is not None}
            line = json.dumps(values, ensure_ascii=on_terminal)
        else:
            text = output.text.replace("\n", " ")
            line = visible(text) if on_terminal else text
        if numbered and not details:
            score = "" if output.score is None else f"{output.score:.6f}"
            line = f"{number}\t{score}\t{state}\t{line}"
        yield f"{line}\n"
