"""The commands that work on trained runs and on comparisons; each is a function of the library."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from selfattn.cli.options import Files, Names, Numbers, changed_settings, parameters_of, takes
from selfattn.data.pairs import Pair
from selfattn.data.readers.groups import refuse_turned
from selfattn.data.readers.lines import checked_encoding
from selfattn.data.readers.pairs import read_pairs
from selfattn.data.readers.recorded import recorded_reading
from selfattn.data.readers.records import chosen_columns
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError, all_visible, say, visible
from selfattn.models.presets import PRESETS
from selfattn.settings import check_conditions, command_line, needs
from selfattn.words.messages import LANGS, SOURCE

Lang: TypeAlias = Literal[LANGS]  # type: ignore[valid-type]  # one for each folder of catalogues
_BASIC = ("beam", "sample", "n_best", "max_length")
# Without --n-best, each input has one output line without a number in front.
_DECODING = parameters_of(DecodingOptions, defaults={"n_best": None}, group="Decoding", basic=_BASIC)
_ALIGN = (
    needs("`data`", lambda options: options.data, "columns", "encoding", "layer", "head", "shift", "words"),
    needs("`gold`", lambda options: options.gold, "sentences", "base"),
)


def _load(*runs: Path, **options: Any) -> Any:
    """Load runs. Only now is torch imported."""
    from selfattn.runs.run import load

    return load(*runs, **options)


def _pairs(run: Any, data: Sequence[Path], columns: Sequence[str], encoding: str | None) -> list[Pair]:
    """Read pairs; a run's own files as it read them, unless something else is requested."""
    refuse_turned(data, chosen_columns(columns), _languages(run))
    reading = recorded_reading(run.config.data, data, chosen_columns(columns), checked_encoding(encoding))
    return read_pairs(*data, columns=reading[0], encoding=reading[1])


def _languages(run: Any) -> tuple[str, str] | None:
    """Return the languages of a run's sources and targets; None for another task than translation."""
    languages = tuple(str(run.config.data.get(f"{side}_language", "")) for side in ("source", "target"))
    return (languages[0], languages[1]) if all(languages) else None


def _say_unknown(run: Any, pairs: Sequence[Pair]) -> None:
    """Say which characters of pairs a run does not know: their targets are scored as what the model cannot write."""
    from selfattn.runs.vocabulary import unknown_characters

    sources = unknown_characters("sources", [run.clean(pair.source) for pair in pairs], run.tokenizer.source)
    targets = unknown_characters("targets", [pair.target for pair in pairs], run.tokenizer.target)
    for line in [*sources, *targets]:
        say(line)


def report(
    comparison: Path,
    /,
    *,
    out: Path,
    lang: Lang = SOURCE,
    figures: Path | None = None,
    tables: Path | None = None,
) -> None:
    """Write the report of a comparison again. Nothing is trained.

    Args:
        comparison: Directory of a comparison.
        out: Directory for the report.
        lang: Language of the report and of the printed summary.
        figures: Directory for every chart as SVG, PNG and PDF.
        tables: Directory for every table as CSV.
    """
    from rich.console import Console

    from selfattn.comparison.report import write_comparison
    from selfattn.report.render.terminal import print_summary
    from selfattn.report.write import write_figures, write_tables

    record, files = write_comparison(comparison, out, lang)
    for folder, write in ((figures, write_figures), (tables, write_tables)):
        if folder is not None:
            written = write(record, folder, lang)
            say(f"{len(written)} files in {folder}")
            if write is write_figures and not any(path.suffix == ".png" for path in written):
                say("PNG and PDF need CairoSVG: pip install 'selfattn[figures]'")
    print_summary(record, Console(highlight=False), files.html, lang)


def verify(report: Path, /, *, items: int | None = None) -> None:
    """Verify a report: decode its runs again, or score its archived outputs again, and compare every figure.

    Print one line per run and figure. Exit code: 0 if all agree, 1 if something differs.

    Args:
        report: Directory of a comparison or of a report, or the record, such as results.json.
        items: Decode only this number of test pairs of each run, drawn at random. Default: all.
    """
    from selfattn.comparison.verify import verify as verify_report

    differing = values = 0
    for finding in verify_report(report, items):
        print(visible(finding.line))
        differing = differing + bool(finding.differences)
        values = values + finding.values
    print(f"{values:,} values compared: " + (f"{differing} figures differ" if differing else "all agree"))
    if differing:
        raise SystemExit(1)


def evaluate(
    run: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    encoding: str | None = None,
    beam: int = 1,
    length_penalty: float = 0.0,
    metric: str | None = None,
    against: Path | None = None,
    lang: Lang = SOURCE,
    json_: Annotated[bool, Parameter("--json")] = False,
) -> dict[str, Any] | Iterable[str]:
    """Test a run on unseen pairs, or measure the perplexity of a language model on a text.

    Scores have 95 % intervals. --against tests whether the difference from another run may be chance.

    Args:
        run: Run directory.
        data: Files of pairs, source and target files in turn, or a text. Default: the test part of the run's data.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        beam: Beam size. 1: greedy decoding.
        length_penalty: Exponent of the beam's length penalty (Wu et al. 2016). 0: none.
        metric: Additional metric by name, built-in (such as bleu) or from a plugin.
        against: Another run of the same task, tested on the same pairs.
        lang: Language of the printed lines.
        json_: Print the results as one JSON object.
    """
    options = DecodingOptions(beam=beam, length_penalty=length_penalty)
    if json_ and lang != SOURCE:
        raise UserError("--lang has no effect beside --json: leave one of them out")
    from selfattn.runs.evaluate import evaluate_run, evaluation_lines

    loaded = _load(run)
    other = None if against is None else _load(against)
    reading: dict[str, Any] = {"columns": chosen_columns(columns), "encoding": checked_encoding(encoding)}
    result = evaluate_run(loaded, data, options, **reading, metric=metric, against=other)
    return result if json_ else evaluation_lines(result, lang)


@takes(*_DECODING)
def predict(*runs: Path, engine: Literal["torch", "onnx", "ctranslate2"] = "torch", **decoding: Any) -> None:
    """Read lines from standard input and write the model's output for each to standard output.

    Every input line gives one output line, in the same order. A language model continues each line. Several runs with
    the same task and vocabulary predict together: their probabilities are averaged. Memory use does not grow with the
    input.

    Args:
        runs: Run directory. Several runs predict together.
        engine: Library that computes. onnx and ctranslate2 export the run once, to RUN-onnx or RUN-ctranslate2.
    """
    if not runs:
        raise UserError("predict: name a RUN, the directory of a trained model, or several to average")
    options = DecodingOptions(**changed_settings(decoding, _DECODING))
    if sys.stdin is None:
        raise UserError("standard input is closed; leave it open, or redirect it to a file")
    from selfattn.cli.stream import predict_stream

    run = _load(*runs, engine=engine)
    predict_stream(run, sys.stdin.buffer, sys.stdout.buffer, options, numbered=decoding.get("n_best") is not None)


def score(run: Path, /, *, data: Files, columns: Names = (), encoding: str | None = None) -> Iterable[str]:
    """Print the log-probability of given targets, one line per pair.

    Each line has three columns, separated by tabs: log-probability of the target, number of its tokens including the
    end token, and log-probability per token.

    Args:
        run: Run directory.
        data: Files of pairs (TSV, CSV, JSON lines), or source and target files in turn, plain or packed.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
    """
    from selfattn.runs.evaluate import score_lines

    loaded = _load(run)
    pairs = _pairs(loaded, data, columns, encoding)
    _say_unknown(loaded, pairs)
    return score_lines(loaded.score(pairs))


def align(
    run: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    encoding: str | None = None,
    layer: int = -1,
    head: int | None = None,
    shift: Literal[0, 1] = 0,
    words: bool = False,
    gold: Path | None = None,
    sentences: Files = (),
    base: Literal[0, 1] | None = None,
) -> Iterable[str]:
    """Align targets with their sources by attention, or measure the alignment error rate.

    --data prints one line per pair, in three columns between tabs: links i-j (Pharaoh format), source tokens, target
    tokens. Target token j attends most to source token i; both are counted from 0. ▁ is a space inside a token.
    --gold prints the alignment error rate of every layer and head.

    Args:
        run: Run directory.
        data: Files of pairs (TSV, CSV, JSON lines), or source and target files in turn, plain or packed.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        layer: Layer, counted from 0. -1 is the last.
        head: Head, counted from 0. Default: the mean of the layer's heads.
        shift: Decoding step to take the attention from: 0 is the step that writes token j, 1 the step that reads it.
        words: Link words, which are what stands between spaces, instead of tokens.
        gold: File of correct word links, i-j (sure) or ipj (possible), one sentence pair per line.
        sentences: Tokenised sentences of --gold: one file of source ||| target, or two parallel files.
        base: First word index in --gold, 0 or 1. Default: detected.
    """
    from selfattn.evaluation.alignment.links import read_gold
    from selfattn.runs.evaluate import align_against_gold, alignment_lines, gold_lines

    if bool(data) == (gold is not None):
        raise UserError("align: give --data to write links, or --gold to measure errors")
    options: dict[str, Any] = {"data": data, "columns": columns, "encoding": encoding, "words": words, "shift": shift}
    options |= {"layer": layer != -1, "head": head is not None}
    options |= {"gold": gold, "sentences": sentences, "base": base is not None}
    check_conditions([name for name in options if options[name]], SimpleNamespace(**options), _ALIGN)
    if gold is None:
        loaded = _load(run)
        pairs = _pairs(loaded, data, columns, encoding)
        _say_unknown(loaded, pairs)
        return alignment_lines(loaded, pairs, layer=layer, head=head, shifted=shift == 1, words=words)
    loaded = _load(run)
    refuse_turned(sentences, languages=_languages(loaded))
    return gold_lines(align_against_gold(loaded, read_gold(gold, sentences=sentences, base=base)))


def attention(
    run: Path,
    text: str,
    /,
    *,
    save: Path | None = None,
    layer: int | None = None,
    head: int | None = None,
    target: str | None = None,
    layers: Numbers | None = None,
    heads: Numbers | None = None,
) -> None:
    """Show what a model attends to while it writes the output for a text.

    Args:
        run: Run directory, or a Hugging Face model: a directory or hf://ORG/NAME.
        text: Input text.
        save: File to write: a picture (.svg, .png), an interactive page (.html) or all weights (.json).
        layer: Layer of the picture, counted from 0. Default: the last.
        head: Head of the picture, counted from 0. Default: the mean of the layer's heads.
        target: For a Hugging Face model: its output, the second sentence or the continuation. Default: generated.
        layers: For a Hugging Face model: layers to keep, separated by commas. Default: all.
        heads: For a Hugging Face model: heads to keep, separated by commas. Default: all.
    """
    from rich.console import Console

    from selfattn.integrations.explorer import explore
    from selfattn.integrations.foreign import foreign_model
    from selfattn.report.drawing.attention import attention_text
    from selfattn.tokenizers.protocol import Unit, unit_of, unknown_line

    unknown = Counter[str]()
    unit: Unit = "characters"
    if model := foreign_model(run):
        view = explore(*model, text, target, layers=layers, heads=heads)
    elif target is not None:
        raise UserError("--target is for Hugging Face models: a run writes its own output; leave it out")
    elif layers is not None or heads is not None:
        raise UserError("--layers and --heads are for Hugging Face models: of a run, choose --layer and --head")
    else:
        loaded = _load(run)
        unknown = loaded.unknown([text])
        unit = unit_of(loaded.tokenizer.source)
        view = loaded.attention(text, dependence=save is not None and save.suffix in (".json", ".html"))
    picture = view.picture(layer, head).tolist()
    if save is not None:
        view.save(save, layer, head)
    console = Console(highlight=False)
    said = f"{view.source} → {view.prediction}" if view.prediction else view.source
    console.print(visible(f"{said}   ({view.caption(layer, head)})"), markup=False, soft_wrap=True)
    columns = all_visible(view.source_tokens)
    rows = all_visible(view.target_tokens or view.source_tokens)
    console.print(attention_text(picture, columns, rows, columns=min(console.width, 120)))
    if unknown:
        say(unknown_line(unknown, unit))
    if save is not None:
        say(f"saved as {save}")


def models() -> Iterable[str]:
    """List the named models with their sources."""
    width = max(map(len, PRESETS))
    return [f"{name:<{width}}  {preset.summary} ({preset.source})" for name, preset in PRESETS.items()]


def demo(*runs: Path, out: Path = Path("demo.html"), lang: Lang = SOURCE, example: tuple[str, ...] = ()) -> None:
    """Write a web page on which models answer typed input side by side.

    The page is one HTML file. The models run in the browser, without network or server.

    Args:
        runs: Run directories.
        out: File to write. An older demo page is replaced, any other file is not.
        lang: Language of the page.
        example: Example input. May be repeated. Default: test inputs of the first run that a comparison tested.
    """
    from selfattn.comparison.tested import Tested, is_tested
    from selfattn.demo.page import EXAMPLES, write_demo

    examples = [(text, "") for text in example]
    if not examples:
        tested = [answer.pair for run in runs if is_tested(run) for answer in Tested(run).answered.answers][:EXAMPLES]
        examples = [(pair.source, pair.target) for pair in tested]
    write_demo([_load(run) for run in runs], out, lang, examples)
    say(f"{out}: open it in a browser")


def export(
    run: Path,
    /,
    *,
    to: Literal["onnx", "ctranslate2"],
    out: Path | None = None,
    quantize: Literal["int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"] | None = None,
) -> None:
    """Export a run to ONNX or CTranslate2. `predict` and the library load the result like a run.

    --to onnx exports every model as two graphs, the encoder and one decoder step (pip install 'selfattn[onnx]').
    --to ctranslate2 exports Transformers with sinusoidal or learned positions (pip install 'selfattn[ctranslate2]').

    Args:
        run: Run directory.
        to: Format to export to.
        out: New directory. Default: RUN-FORMAT, such as runs/a-onnx.
        quantize: Number type of the stored weights, for ctranslate2 only. Default: unchanged.
    """
    path = _load(run).export(to, out or run.with_name(f"{run.resolve().name}-{to}"), quantize=quantize)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    say(f"{path}: {size / 1e6:.1f} MB; try: {command_line(f'predict {shlex.quote(str(path))}', {})}")


def push(
    run: Path, name: str, /, *, private: bool = False, test: Annotated[bool, Parameter(negative="--no-test")] = True
) -> None:
    """Publish a run on the Hugging Face Hub, with a model card. Others load it as hf://USER/NAME.

    Checkpoints, local paths and the machine's name are not uploaded. HF_ENDPOINT selects another Hub; HF_TOKEN or
    `hf auth login` identifies you.

    Args:
        run: Run directory.
        name: Repository, as USER/NAME. Created if it does not exist.
        private: Make a new repository private.
        test: Test the run first, for the scores in the model card.
    """
    say(f"hf://{name}: {_load(run).push(name, private=private, test=test)}")


COMMANDS = (report, verify, evaluate, predict, score, align, attention, demo, export, push, models)
