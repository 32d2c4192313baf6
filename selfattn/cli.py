"""The command line. Each command is a function of the library with its settings from a typed dataclass.

Nothing that needs torch is imported before a command that needs it runs, so that help comes at once.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import Parameter

from selfattn.errors import UserError
from selfattn.models.presets import PRESETS
from selfattn.tasks.command import make_app, run_app, say
from selfattn.tasks.options import (
    COMPARE_DEFAULTS,
    DECODING_DEFAULTS,
    CompareDates,
    Decoding,
    MaybeWhole,
    TrainDates,
    TrainLM,
    Whole,
)

_CHUNK = 1024  # lines that are read, predicted and written together

app = make_app("selfattn", help="Build, train, look inside and compare attention models.")
compare = make_app("compare", help="Train several models on the same data and set them side by side: the main job.")
train = make_app("train", help="Train one model.")
app.command(compare)
app.command(train)


@compare.command(name="dates")
def compare_dates(options: CompareDates = COMPARE_DEFAULTS) -> None:
    """Compare models on dates: train each, test on unseen dates, write report.html, report.md and results.json."""
    from selfattn.tasks.compare import compare_command

    compare_command(options)


@train.command(name="dates")
def train_dates(options: TrainDates) -> None:
    """Train one model to write dates in ISO form.

    The embedded dates come from CLDR and have no end; training and test share no day. Years are 1900 to 2099; a
    two-digit year is read as POSIX does: 69-99 as 19xx, 00-68 as 20xx.
    """
    from selfattn.tasks.dates import train_command

    train_command(options)


@train.command(name="lm")
def train_lm(options: TrainLM) -> None:
    """Train a language model on the characters of a text file.

    The best weights are those of the lowest perplexity on the validation. A line of more than --context characters is
    cut into windows.
    """
    from selfattn.tasks.lm import train_command

    train_command(options)


@app.command
def evaluate(
    run: Path,
    /,
    *,
    data: Path | None = None,
    beam: Whole = 1,
    length_penalty: float = 0.0,
    json_: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Test a run on pairs it has not been trained on; a language model on a text, by perplexity.

    Args:
        run: the run directory.
        data: pairs from this file; of the book's file, and of the file the run was trained on, the test part. For a
            language model a text, one text a line.
        beam: beam search with so many hypotheses at each step; 1 is greedy.
        length_penalty: alpha of the beam's length penalty; see `selfattn predict --help`.
        json_: print everything as one JSON object.
    """
    options = Decoding(beam=beam, length_penalty=length_penalty).options()
    from selfattn.tasks.evaluate import evaluate_run, evaluation_lines
    from selfattn.tasks.run import load

    found = evaluate_run(load(run), data, options)
    print(json.dumps(found, indent=2, ensure_ascii=False) if json_ else "\n".join(evaluation_lines(found)))


@app.command
def predict(run: Path, /, decoding: Decoding = DECODING_DEFAULTS) -> None:
    """Read lines from standard input, write the model's output for each to standard output, in their order.

    One line gives one line, if --n-best is not given; an empty line gives an empty line. A language model takes each
    line, even an empty one, as the beginning of a text, and writes it with its continuation. Memory does not grow with
    the input.

    Args:
        run: the run directory.
        decoding: how.
    """
    options = decoding.options()
    from selfattn.tasks.run import load

    loaded = load(run)
    unknown = Counter[str]()
    count = 0
    for chunk in _chunks(_lines(sys.stdin.buffer)):
        unknown += loaded.unknown(chunk)
        for number, outputs in enumerate(loaded.decode(chunk, options, first=count), count + 1):
            for output in outputs:
                front = "" if decoding.n_best is None else f"{number}\t{output.score:.6f}\t"
                sys.stdout.write(front + output.text.replace("\n", " ") + "\n")
        sys.stdout.flush()
        count += len(chunk)
        if sys.stderr.isatty():
            print(f"\r{count:,} lines", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        say("")
    if unknown:
        shown = ", ".join(f"{character!r} {times:,}" for character, times in unknown.most_common(10))
        say(f"{unknown.total():,} characters that the model does not know, {len(unknown):,} different: {shown}")


@app.command
def score(run: Path, /, *, data: Path, json_: Annotated[bool, Parameter("--json")] = False) -> None:
    """Say how probable given targets are: for each pair a line with three figures, tabs between.

    They are the natural log-probability of the whole target, its number of tokens (its end counted), and the
    log-probability a token.

    Args:
        run: the run directory.
        data: pairs: the book's format, TSV or JSON lines, plain or .gz.
        json_: print a summary of all pairs, with the perplexity, as one JSON object instead.
    """
    from selfattn.data.files import read_pairs
    from selfattn.tasks.given import score_lines, score_summary
    from selfattn.tasks.run import load

    loaded = load(run)
    scores = loaded.score(read_pairs(data))
    if json_:
        print(json.dumps(score_summary(loaded, data, scores), indent=2, ensure_ascii=False))
    else:
        print("\n".join(score_lines(scores)))


@app.command
def align(run: Path, /, *, data: Path, layer: Whole = -1, head: str = "mean", shift: Whole = 0) -> None:
    """Align given targets with their sources by attention: for each pair a line of links i-j (Pharaoh format).

    The model is made to write the target; each target token j is linked to the source token i that it attends to most.
    Positions are those of tokens, counted from 0: for a model of characters, characters, spaces among them.

    Args:
        run: the run directory.
        data: pairs: the book's format, TSV or JSON lines, plain or .gz.
        layer: counted from 0, or from the end: -1 is the last.
        head: counted from 0, or mean: the mean of the layer's heads.
        shift: 0 takes the attention of the step that writes token j, 1 that of the step that reads it.
    """
    from selfattn.tasks.given import align_lines
    from selfattn.tasks.run import load

    print("\n".join(align_lines(load(run), data, layer=layer, head=head, shift=shift)))


@app.command
def attention(
    run: Path, text: str, /, *, save: Path | None = None, layer: MaybeWhole = None, head: MaybeWhole = None
) -> None:
    """Show what a model attends to while it writes the output for a text.

    Args:
        run: the run directory.
        text: the input.
        save: write the picture to this .svg file as well.
        layer: counted from 0; the last where none is given.
        head: counted from 0; the mean of the layer's heads where none is given.
    """
    from rich.console import Console

    from selfattn.report.attention_text import attention_text
    from selfattn.tasks.run import load

    view = load(run).attention(text)
    picture = view.picture(layer, head).tolist()
    if save is not None:
        view.save(save, layer, head)
    console = Console(highlight=False)
    console.print(f"{view.source} → {view.prediction}   ({view.caption(layer, head)})", markup=False, soft_wrap=True)
    console.print(attention_text(picture, view.source_tokens, view.target_tokens, columns=min(console.width, 120)))
    if save is not None:
        say(f"saved as {save}")


@app.command
def models() -> None:
    """List every named model: what it is, and whose it is."""
    width = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
        print(f"{name:<{width}}  {preset.summary} ({preset.source})")


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Read lines that end with a newline and nothing else."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise UserError(f"standard input:{number}: not valid UTF-8 (byte {error.start + 1})") from None


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def main() -> None:
    """Run the command line of this process."""
    run_app(app)


if __name__ == "__main__":
    main()
