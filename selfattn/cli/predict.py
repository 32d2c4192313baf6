"""The command ``selfattn predict``."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from selfattn.cli.options import Device, changed_settings, command, parameters_of, takes
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.settings import check_conditions, excludes, needs

MOST_LINES = 1_000_000
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
    chosen: dict[str, Any] = {"engine": engine, "align": align, "glossary": glossary, "prefixes": prefixes}
    chosen["prefix"] = prefix is not None  # an empty one, too
    check_conditions([name for name in chosen if chosen[name]], SimpleNamespace(**chosen), _PREDICT)
    from selfattn.cli.stream import predict_stream
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
