"""The command line. Each command is a function of the library with its settings from a typed dataclass.

Nothing that needs torch is imported before a command that needs it runs, so that help comes at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfattn.cli.app import make_app, run_app
from selfattn.cli.compare_options import COMPARE_DATES, CompareDates, ReportOptions
from selfattn.cli.given_options import GivenFiles, chosen_columns
from selfattn.cli.settings import (
    DECODING_DEFAULTS,
    Decoding,
    MaybeWhole,
    Names,
    TrainDates,
    TrainLM,
    Whole,
)
from selfattn.cli.tokenizer_options import INSPECT_DEFAULTS, InspectTokenizer, TrainTokenizer
from selfattn.cli.translation_options import COMPARE_TRANSLATION, CompareTranslation, TrainTranslation
from selfattn.console import say
from selfattn.errors import UserError
from selfattn.models.presets import PRESETS

app = make_app("selfattn", help="Build, train, look inside and compare attention models.")
compare = make_app("compare", help="Train several models on the same data and set them side by side: the main job.")
train = make_app("train", help="Train one model.")
tokenizer = make_app("tokenizer", help="Train a tokenizer, or look at one.")
app.command(compare)
app.command(train)
app.command(tokenizer)


@compare.command(name="dates")
def compare_dates(options: CompareDates = COMPARE_DATES) -> None:
    """Compare models on dates: train each, test on unseen dates, write report.html, report.md and results.json."""
    from selfattn.comparison.engine import compare_command

    compare_command(options)


@compare.command(name="translation")
def compare_translation(options: CompareTranslation = COMPARE_TRANSLATION) -> None:
    """Compare models on translation: train each, test on unseen sentences, write the report.

    Without files, on phrases of CLDR (dates, times, spans of time, units, prices, numbers, lists of names), which have
    no end and need no download.
    """
    from selfattn.tasks.translation import compare_command

    compare_command(options)


@train.command(name="translation")
def train_translation(options: TrainTranslation) -> None:
    """Train one model to translate; without files, on phrases of CLDR."""
    from selfattn.tasks.translation import train_command

    train_command(options)


@app.command
def report(*runs: Path, options: ReportOptions) -> None:
    """Write the report of a comparison again, or one of runs from several; no model is run.

    Args:
        runs: a comparison's directory; or directories of runs that comparisons have tested, and of comparisons.
    """
    from rich.console import Console

    from selfattn.comparison.again import report as make_report
    from selfattn.report.render.terminal import print_summary

    if not runs:
        raise UserError("report: name a comparison, or runs that one has tested")
    record, files = make_report(runs, options)
    print_summary(record, Console(highlight=False), files.html)


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
    data: GivenFiles = (),
    columns: Names = (),
    beam: Whole = 1,
    length_penalty: float = 0.0,
    json_: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Test a run on pairs it has not been trained on; a language model on a text, by perplexity.

    Args:
        run: the run directory.
        data: two parallel files, or one file of pairs (TSV, CSV, JSON lines or the book's), plain or .gz; of the book's
            file, and of the file the run was trained on, the test part. For a language model a text, one text a line.
            Where not given, the test part of what the run was trained on.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
        beam: beam search with so many hypotheses at each step; 1 is greedy.
        length_penalty: alpha of the beam's length penalty; see `selfattn predict --help`.
        json_: print everything as one JSON object.
    """
    options = Decoding(beam=beam, length_penalty=length_penalty).options()
    from selfattn.runs.evaluate import evaluate_run, evaluation_lines
    from selfattn.runs.run import load

    found = evaluate_run(load(run), data, options, columns=chosen_columns(columns))
    print(json.dumps(found, indent=2, ensure_ascii=False) if json_ else "\n".join(evaluation_lines(found)))


@app.command
def predict(
    run: Path,
    /,
    decoding: Decoding = DECODING_DEFAULTS,
    *,
    max_input: MaybeWhole = None,
    too_long: Literal["empty", "cut"] = "empty",
) -> None:
    """Read lines from standard input, write the model's output for each to standard output, in their order.

    One line gives one line, if --n-best is not given; an empty line gives an empty line. A language model takes each
    line, even an empty one, as the beginning of a text, and writes it with its continuation. Memory grows neither with
    the number of lines nor with their length.

    Args:
        run: the run directory.
        decoding: how.
        max_input: most tokens of a line, its end counted. Longer ones are told on standard error, with their numbers.
            Where not given, 1,024, of a language model 65,536, or as many as the model can read where that is less.
        too_long: what becomes of a longer line: its output is empty, or it is cut to the tokens that fit.
    """
    options = decoding.options()
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None:
            raise UserError(f"standard {name} is closed; leave it open, or redirect it to a file")
    from selfattn.runs.run import load
    from selfattn.runs.stream import predict_stream

    predict_stream(
        load(run),
        sys.stdin.buffer,
        sys.stdout.buffer,
        options,
        max_input=max_input,
        too_long=too_long,
        numbered=decoding.n_best is not None,
        at_once=sys.stdin.isatty(),
    )


@app.command
def score(
    run: Path, /, *, data: GivenFiles, columns: Names = (), json_: Annotated[bool, Parameter("--json")] = False
) -> None:
    """Say how probable given targets are: for each pair a line with three figures, tabs between.

    They are the natural log-probability of the whole target, its number of tokens (its end counted), and the
    log-probability a token.

    Args:
        run: the run directory.
        data: two parallel files, or one file of pairs (TSV, CSV, JSON lines or the book's), plain or .gz.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
        json_: print a summary of all pairs, with the perplexity, as one JSON object instead.
    """
    from selfattn.data.readers.pair_files import read_pairs
    from selfattn.runs.pair_outputs import score_lines, score_summary
    from selfattn.runs.run import load

    loaded = load(run)
    scores = loaded.score(read_pairs(*data, columns=chosen_columns(columns)))
    if json_:
        print(json.dumps(score_summary(loaded, data, scores), indent=2, ensure_ascii=False))
    else:
        print("\n".join(score_lines(scores)))


@app.command
def align(
    run: Path,
    /,
    *,
    data: GivenFiles = (),
    columns: Names = (),
    layer: Whole = -1,
    head: str = "mean",
    shift: Whole = 0,
    gold: Path | None = None,
    sentences: Path | None = None,
    base: Literal[0, 1] | None = None,
    reverse: Path | None = None,
    json_: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Align given targets with their sources by attention, or hold that alignment against gold.

    With --data: for each pair a line of links i-j (Pharaoh format). The model is made to write the target; each target
    token j is linked to the source token i that it attends to most. Positions are those of tokens, counted from 0: for
    a model of characters, characters, spaces among them.

    With --gold: the alignment error rate of every layer and head, against links between words.

    Args:
        run: the run directory.
        data: two parallel files, or one file of pairs (TSV, CSV, JSON lines or the book's), plain or .gz.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
        layer: counted from 0, or from the end: -1 is the last.
        head: counted from 0, or mean: the mean of the layer's heads.
        shift: 0 takes the attention of the step that writes token j, 1 that of the step that reads it.
        gold: links i-j (sure) and ipj (possible), one pair a line; or source, target and links with tabs between.
        sentences: the words of the pairs that --gold links: source ||| target.
        base: what the gold counts words from; where not given, found out from the links.
        reverse: a run of the other direction; both alignments are then also put together.
        json_: print the report on the gold as one JSON object.
    """
    from selfattn.runs.pair_outputs import align_against_gold, align_lines, gold_json, gold_lines
    from selfattn.runs.run import load

    if bool(data) == (gold is not None):
        raise UserError("align: give --data to write links, or --gold to hold them against gold")
    if gold is None:
        from selfattn.data.readers.pair_files import read_pairs

        asked = read_pairs(*data, columns=chosen_columns(columns))
        print("\n".join(align_lines(load(run), asked, layer=layer, head=head, shift=shift)))
        return
    from selfattn.evaluation.alignment.gold_files import read_gold

    if columns:
        raise UserError("--columns goes with --data: leave it out, or give pairs instead of --gold")
    pairs = read_gold(gold, sentences=sentences, base=base)
    report = align_against_gold(load(run), pairs, reverse=None if reverse is None else load(reverse))
    print(json.dumps(gold_json(report), indent=2) if json_ else "\n".join(gold_lines(report)))


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

    from selfattn.report.drawing.attention_text import attention_text
    from selfattn.runs.run import load

    view = load(run).attention(text)
    picture = view.picture(layer, head).tolist()
    if save is not None:
        view.save(save, layer, head)
    console = Console(highlight=False)
    console.print(f"{view.source} → {view.prediction}   ({view.caption(layer, head)})", markup=False, soft_wrap=True)
    console.print(attention_text(picture, view.source_tokens, view.target_tokens, columns=min(console.width, 120)))
    if save is not None:
        say(f"saved as {save}")


@tokenizer.command(name="train")
def train_tokenizer(*data: Path, options: TrainTokenizer) -> None:
    """Train a tokenizer on files and print its card.

    Args:
        data: files of pairs (TSV, CSV or JSON lines), whose two sides then share the vocabulary, or of one text a line,
            plain or .gz.
    """
    from selfattn.cli.tokenizer import train_command

    train_command(data, options)


@tokenizer.command(name="inspect")
def inspect_tokenizer(path: Path, /, options: InspectTokenizer = INSPECT_DEFAULTS) -> None:
    """Print the card of a tokenizer: size, coverage, tokens per word, unknown rate, how texts are cut.

    Args:
        path: a run directory, or a tokenizer's own.
    """
    from selfattn.cli.tokenizer import inspect_command

    inspect_command(path, options)


@app.command
def models() -> None:
    """List every named model: what it is, and whose it is."""
    width = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
        print(f"{name:<{width}}  {preset.summary} ({preset.source})")


def main() -> None:
    """Run the command line of this process."""
    run_app(app)


if __name__ == "__main__":
    main()
