"""The commands that work on trained runs and on comparisons; each is a function of the library."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from selfattn.cli.options import Files, MaybeWhole, Names, Whole, options_of
from selfattn.console import all_visible, say, visible
from selfattn.decoding.options import DecodingOptions, WeightPrecision
from selfattn.errors import UserError
from selfattn.models.presets import PRESETS
from selfattn.words.catalogue import LANGS, SOURCE

Lang: TypeAlias = Literal[LANGS]  # type: ignore[valid-type]  # one for each folder of catalogues
Json: TypeAlias = Annotated[bool, Parameter("--json")]
# Where no number of outputs is given, one is written for each input, and no number in front.
Decoding: Any = options_of(DecodingOptions, defaults={"n_best": None})
AS_THEY_ARE = Decoding()


def _print(found: dict[str, Any] | Iterable[str]) -> None:
    """Print values as one JSON object, or lines; what acts on a terminal is made visible where there is one."""
    text = json.dumps(found, indent=2, ensure_ascii=False) if isinstance(found, dict) else "\n".join(found)
    is_shown = sys.stdout is not None and sys.stdout.isatty()
    print(visible(text) if is_shown else text)


def report(
    *runs: Path, out: Path, lang: Lang = SOURCE, declared: Names = (), figures: Names = (), tables: Names = ()
) -> None:
    """Write the report of a comparison again, or one of runs from several; no model is run.

    Args:
        runs: a comparison's directory; or directories of runs that comparisons have tested, and of comparisons.
        out: where the report is written.
        lang: language in which it opens, and of the summary printed here.
        declared: settings of the training in which the runs differ on purpose, separated by commas; the report says so.
            Any other difference that was not tuned for leaves "not comparable".
        figures: also write every chart as a file of its own, for a paper: svg, pdf, or both with a comma between.
        tables: also write every table as a file of its own: csv, tex, or both with a comma between.
    """
    from rich.console import Console

    from selfattn.comparison.again import report as make_report
    from selfattn.report.render.paper import check_forms, write_paper
    from selfattn.report.render.terminal import print_summary

    check_forms(figures, tables)
    if not runs:
        raise UserError("report: name a comparison, or runs that one has tested")
    record, files = make_report(runs, out, lang, declared)
    if written := write_paper(record, out, figures, tables, lang):
        say(f"{len(written)} files in {written[0].parent}")
    print_summary(record, Console(highlight=False), files.html, lang)


def evaluate(
    run: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    beam: Whole = 1,
    length_penalty: float = 0.0,
    precision: WeightPrecision = "float32",
    lang: Lang = SOURCE,
    json_: Json = False,
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
        precision: of the weights: bfloat16 where the processor computes in it, or int8 in large linear layers. Faster
            where those are most of the work, with nearly the same outputs.
        lang: language of what is printed.
        json_: print everything as one JSON object.
    """
    options = DecodingOptions(beam=beam, length_penalty=length_penalty)
    from selfattn.data.readers.pair_files import chosen_columns
    from selfattn.runs.evaluate import evaluate_run, evaluation_lines
    from selfattn.runs.run import load

    found = evaluate_run(load(run, precision=precision), data, options, columns=chosen_columns(columns))
    _print(found if json_ else evaluation_lines(found, lang))


def predict(
    *runs: Path,
    decoding: Decoding = AS_THEY_ARE,
    precision: WeightPrecision = "float32",
    max_input: MaybeWhole = None,
    too_long: Literal["empty", "cut"] = "empty",
    check: Annotated[bool, Parameter(negative="--no-check")] = True,
) -> None:
    """Read lines from standard input, write the model's output for each to standard output, in their order.

    One line gives one line, if --n-best is not given; an empty line gives an empty line. A language model takes each
    line, even an empty one, as the beginning of a text, and writes it with its continuation. Memory grows neither with
    the number of lines nor with their length.

    Several runs of one task and vocabulary, of any family, write together: each token is chosen by the mean of their
    probabilities.

    Args:
        runs: run directories.
        decoding: how.
        precision: of the weights: bfloat16 where the processor computes in it, or int8 in large linear layers. Faster
            where those are most of the work, with nearly the same outputs.
        max_input: most tokens of a line, its end counted. Longer ones are told on standard error, with their numbers.
            Where not given, 1,024, of a language model 65,536, or as many as the model can read where that is less.
        too_long: what becomes of a longer line: its output is empty, or it is cut to the tokens that fit.
        check: say on standard error which outputs cannot be right, where the task can tell; they are written all the
            same.
    """
    if not runs:
        raise UserError("predict: name a RUN, the directory of a trained model, or several to average")
    options = DecodingOptions(**vars(decoding) | {"n_best": 1 if decoding.n_best is None else decoding.n_best})
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None:
            raise UserError(f"standard {name} is closed; leave it open, or redirect it to a file")
    from selfattn.cli.stream import predict_stream
    from selfattn.runs.run import load

    given, taken, numbered = sys.stdin.buffer, sys.stdout.buffer, decoding.n_best is not None
    loaded = load(*runs, precision=precision)
    predict_stream(
        loaded, given, taken, options, max_input=max_input, too_long=too_long, check=check, numbered=numbered
    )


def score(
    run: Path,
    /,
    *,
    data: Files,
    columns: Names = (),
    precision: WeightPrecision = "float32",
    json_: Json = False,
) -> None:
    """Say how probable given targets are: for each pair a line with three figures, tabs between.

    They are the natural log-probability of the whole target, its number of tokens (its end counted), and the
    log-probability a token.

    Args:
        run: the run directory.
        data: two parallel files, or one file of pairs (TSV, CSV, JSON lines or the book's), plain or .gz.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
        precision: see `selfattn predict --help`.
        json_: print a summary of all pairs, with the perplexity, as one JSON object instead.
    """
    from selfattn.data.readers.pair_files import chosen_columns, read_pairs
    from selfattn.runs.evaluate import score_lines, score_summary
    from selfattn.runs.run import load

    loaded = load(run, precision=precision)
    scores = loaded.score(read_pairs(*data, columns=chosen_columns(columns)))
    _print(score_summary(loaded, data, scores) if json_ else score_lines(scores))


def align(
    run: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    layer: Whole = -1,
    head: str = "mean",
    shift: Whole = 0,
    gold: Path | None = None,
    sentences: Path | None = None,
    base: Literal[0, 1] | None = None,
    reverse: Path | None = None,
    json_: Json = False,
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
    from selfattn.runs.evaluate import align_against_gold, align_lines, gold_json, gold_lines
    from selfattn.runs.run import load

    if bool(data) == (gold is not None):
        raise UserError("align: give --data to write links, or --gold to hold them against gold")
    if gold is None:
        from selfattn.data.readers.pair_files import chosen_columns, read_pairs

        asked = read_pairs(*data, columns=chosen_columns(columns))
        _print(align_lines(load(run), asked, layer=layer, head=head, shift=shift))
        return
    from selfattn.evaluation.alignment.links import read_gold

    if columns:
        raise UserError("--columns goes with --data: leave it out, or give pairs instead of --gold")
    pairs = read_gold(gold, sentences=sentences, base=base)
    report = align_against_gold(load(run), pairs, reverse=None if reverse is None else load(reverse))
    _print(gold_json(report) if json_ else gold_lines(report))


def attention(
    run: Path,
    text: str,
    /,
    *,
    save: Path | None = None,
    layer: MaybeWhole = None,
    head: MaybeWhole = None,
    all_heads: bool = False,
    format: Literal["text", "json", "html", "svg"] = "text",
) -> None:
    """Show what a model attends to while it writes the output for a text, and what the output depends on.

    Args:
        run: the run directory.
        text: the input.
        save: a file to write as well: a picture (.svg), the explorer of the report (.html), or all figures (.json).
        layer: counted from 0; the last where none is given.
        head: counted from 0; the mean of the layer's heads where none is given.
        all_heads: a picture of every head of every layer.
        format: what is printed: a map in characters, or what --save would write to a file of this kind.
    """
    from rich.console import Console

    from selfattn.cli.stream import unknown_line
    from selfattn.report.drawing.attention_text import attention_text
    from selfattn.runs.run import load

    loaded = load(run)
    view = loaded.attention(text, dependence=format in _WHOLE or (save is not None and save.suffix[1:] in _WHOLE))
    picture = view.picture(layer, head).tolist()
    if save is not None:
        view.save(save, layer, head, every=all_heads)
    if format == "text":
        console = Console(highlight=False)
        head_line = visible(f"{view.source} → {view.prediction}   ({view.caption(layer, head)})")
        console.print(head_line, markup=False, soft_wrap=True)
        source, target = all_visible(view.source_tokens), all_visible(view.target_tokens)
        console.print(attention_text(picture, source, target, columns=min(console.width, 120)))
    else:
        _print([view.to(format, layer, head, every=all_heads).rstrip("\n")])
    if unknown := loaded.unknown([text]):
        say(unknown_line(unknown))
    if save is not None:
        say(f"saved as {save}")


_WHOLE = ("json", "html")  # forms that say what the output depends on


def models() -> None:
    """List every named model: what it is, and whose it is."""
    width = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
        print(f"{name:<{width}}  {preset.summary} ({preset.source})")


def demo(
    *runs: Path, out: Path = Path("demo.html"), lang: Lang = SOURCE, example: tuple[str, ...] = (), half: bool = False
) -> None:
    """Write a page on which a reader types and the models answer, step by step and side by side.

    One HTML file: the models run in the reader's browser, without network or server. For models of characters.

    Args:
        runs: run directories.
        out: the page; replaced where it is there.
        lang: language in which it opens.
        example: an input to begin with; may be given several times. Where none is given, some of the test of the first
            run that a comparison has tested, with their right outputs.
        half: weights in half the space, for each model whose outputs for the examples stay the same.
    """
    from selfattn.comparison.testing import Tested, is_tested
    from selfattn.demo.page import EXAMPLES, write_demo
    from selfattn.runs.run import load

    examples = [(text, "") for text in example]
    if not examples:
        tested = [answer.pair for run in runs if is_tested(run) for answer in Tested(run).answers][:EXAMPLES]
        examples = [(pair.source, pair.target) for pair in tested]
    write_demo([load(run) for run in runs], out, lang, examples, half=half)
    say(f"{out}: open it in a browser")


COMMANDS = (report, evaluate, predict, score, align, attention, demo, models)
