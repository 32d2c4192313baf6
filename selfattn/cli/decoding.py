"""The commands in which a run is measured or looked into: evaluate, score, align, attention, heads."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from selfattn.cli.options import Device, Files, Names, Numbers, check_given, check_language, command
from selfattn.codec import encode
from selfattn.console import counting_steps
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError, all_visible, say, visible
from selfattn.ownership import check_ours
from selfattn.settings import needs
from selfattn.words.messages import SOURCE, Lang

_ALIGN = (
    needs("`data`", lambda options: options.data, "columns", "encoding", "layer", "head", "shift", "words"),
    needs("`gold`", lambda options: options.gold, "sentences", "base"),
)


def load_runs(*runs: Path, **options: Any) -> Any:
    """Load runs. Only now is torch imported."""
    from selfattn.runs.load import load

    return load(*runs, **options)


def _pairs(run: Any, data: Sequence[Path], columns: Sequence[str], encoding: str | None) -> Any:
    """Read pairs; a run's own files as it read them, unless something else is requested.

    A line says which characters the run does not know: their targets are scored as what the model cannot write.
    """
    from selfattn.data.readers.groups import refuse_swapped
    from selfattn.data.readers.pairs import PairFiles
    from selfattn.data.readers.rows import chosen_columns
    from selfattn.runs.predictor import unknown_characters

    files = PairFiles(tuple(data), chosen_columns(columns), encoding)
    refuse_swapped(files.paths, files.columns, _languages(run))
    pairs = files.read_as(run.config.data).read()
    sources = unknown_characters("sources", [run.clean(pair.source) for pair in pairs], run.tokenizer.source)
    targets = unknown_characters("targets", [pair.target for pair in pairs], run.tokenizer.target)
    for line in [*sources, *targets]:
        say(line)
    return pairs


def _languages(run: Any) -> tuple[str, str] | None:
    """Return the languages of a run's sources and targets; None for another task than translation."""
    languages = tuple(str(run.config.data.get(f"{side}_language", "")) for side in ("source", "target"))
    return (languages[0], languages[1]) if all(languages) else None


@command
def evaluate(
    run: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    tag: str | None = None,
    encoding: str | None = None,
    beam: int = 1,
    length_penalty: float = 0.0,
    metric: str | None = None,
    against: Path | None = None,
    lang: Lang = SOURCE,
    json_: Annotated[bool, Parameter("--json")] = False,
    device: Device = "cpu",
) -> dict[str, Any] | Iterable[str]:
    """Test a run on unseen pairs, or measure the perplexity of a language model on a text.

    Scores have 95 % intervals. --against tests whether the difference from another run may be chance.

    Args:
        run: Run directory.
        data: Files of pairs, source and target files in turn, or a text. Default: the test part of the run's data.
        columns: Source and target column, by name or number, separated by a comma.
        tag: Column, by name or number, that divides the pairs into groups, such as cases or languages.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        beam: Beam size. 1: greedy decoding.
        length_penalty: Exponent of the beam's length penalty (Wu et al. 2016). 0: none.
        metric: Additional metrics by name, separated by commas, built-in (such as bleu) or from a plugin.
        against: Another run of the same task, tested on the same pairs.
        lang: Language of the printed lines.
        json_: Print the results as one JSON object.
    """
    options = DecodingOptions(beam=beam, length_penalty=length_penalty)
    check_language(lang, json=json_)
    from selfattn.runs.evaluate import evaluate_run, evaluation_lines

    loaded = load_runs(run, device=device)
    other = None if against is None else load_runs(against, device=device)
    reading: dict[str, Any] = {"columns": columns, "encoding": encoding, "tag": tag}
    with counting_steps("evaluate"):
        result = evaluate_run(loaded, data, options, **reading, metric=metric, against=other)
    return result if json_ else evaluation_lines(result, lang)


@command
def score(
    run: Path, /, *, data: Files, columns: Names = (), encoding: str | None = None, device: Device = "cpu"
) -> Iterable[str]:
    """Print the log-probability of given targets, one line per pair.

    Each line has three columns, separated by tabs: log-probability of the target, number of its tokens including the
    end token, and log-probability per token.

    Args:
        run: Run directory.
        data: Files of pairs (TSV, CSV, JSON lines), or source and target files in turn, plain or packed.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
    """
    loaded = load_runs(run, device=device)
    for score in loaded.score(_pairs(loaded, data, columns, encoding)):
        yield f"{score.log_probability:.6f}\t{score.tokens}\t{score.per_token:.6f}"


@command
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
    device: Device = "cpu",
) -> Iterable[str]:
    """Align targets with their sources by attention, or measure the alignment error rate.

    --data prints one line per pair, in three columns between tabs: links i-j (Pharaoh format), source tokens, target
    tokens. Target token j attends most to source token i; both are counted from 0. ▁ is a space inside a token.
    --gold prints the alignment error rate of every layer and head.

    Args:
        run: Run directory, or a Marian model of Hugging Face (opus-mt): a directory or hf://OWNER/NAME.
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
    from selfattn.data.readers.groups import refuse_swapped
    from selfattn.evaluation.links import read_gold
    from selfattn.runs.evaluate import align_against_gold, alignment_lines, gold_lines

    if bool(data) == (gold is not None):
        raise UserError("align: give --data to write links, or --gold to measure errors")
    given: dict[str, Any] = {"data": data, "columns": columns, "encoding": encoding, "words": words, "shift": shift}
    given |= {"layer": layer != -1, "head": head is not None}
    check_given(_ALIGN, **given, gold=gold, sentences=sentences, base=base is not None)
    from selfattn.runs.start import open_model

    loaded = open_model(run, device)
    if gold is None:
        pairs = _pairs(loaded, data, columns, encoding)
        links = loaded.align(pairs, layer=layer, head=head, shifted=shift == 1, words=words)
        return alignment_lines(loaded, pairs, links, words=words)
    refuse_swapped(sentences, languages=_languages(loaded))
    return gold_lines(align_against_gold(loaded, read_gold(gold, sentences=sentences, base=base)))


@command
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
    device: Device = "cpu",
    lang: Lang = SOURCE,
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
        lang: Language of the picture, the page and what is printed.
    """
    from rich.console import Console

    from selfattn.report.pictures import attention_text
    from selfattn.runs.directory import RECORD
    from selfattn.tokenizers.protocol import Unit, unit_of, unknown_line

    unknown = Counter[str]()
    unit: Unit = "characters"
    model = None
    if not (run / RECORD).exists():
        from selfattn.integrations.explorer import explore, foreign_model  # which load torch's compiler

        model = foreign_model(run)
    if model is not None:
        if device != "cpu":
            raise UserError("--device is for runs: a Hugging Face model computes on the CPU here; leave it out")
        view = explore(*model, text, target, layers=layers, heads=heads)
    elif target is not None:
        raise UserError("--target is for Hugging Face models: a run writes its own output; leave it out")
    elif layers is not None or heads is not None:
        raise UserError("--layers and --heads are for Hugging Face models: of a run, choose --layer and --head")
    else:
        loaded = load_runs(run, device=device)
        unknown = loaded.unknown([text])
        unit = unit_of(loaded.tokenizer.source)
        view = loaded.attention(text, dependence=save is not None and save.suffix in (".json", ".html"))
    view = replace(view, lang=lang)
    picture = view.picture(layer, head).tolist()
    if save is not None:
        view.save(save, layer, head)
    console = Console(highlight=False)
    heading = f"{view.source} → {view.prediction}" if view.prediction else view.source
    console.print(visible(f"{heading}   ({view.caption(layer, head)})"), markup=False, soft_wrap=True)
    columns = all_visible(view.source_tokens)
    rows = all_visible(view.target_tokens or view.source_tokens)
    console.print(view.axes, markup=False, highlight=False)
    console.print(attention_text(picture, columns, rows, columns=min(console.width, 120)))
    if unknown:
        say(unknown_line(unknown, unit))
    if save is not None:
        say(f"saved as {save}")


@command
def heads(
    run: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    encoding: str | None = None,
    metric: str | None = None,
    items: int = 500,
    to: Literal["zero", "mean", "uniform"] = "zero",
    save: Path | None = None,
    json_: Annotated[bool, Parameter("--json")] = False,
    device: Device = "cpu",
) -> dict[str, Any] | Iterable[str]:
    """Measure a model without each of its attention heads (Michel et al. 2019).

    Prints one line per head: the score without it, the difference from the whole model, and the p-value of a paired
    test, corrected for the number of heads.

    Args:
        run: Run directory.
        data: Files of pairs, or source and target files in turn. Default: the test part of the run's data.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        metric: Metric by name. Default: the one that decides for the task.
        items: Number of pairs, from the first on. 0: all.
        to: What replaces a head: output 0, its mean output, or uniform weights.
        save: File to write: a picture (.svg) with a row per layer, darker where more of the score is lost.
        json_: Print the results as one JSON object.
    """
    if items < 0:
        raise UserError(f"`items` {items}: expected a whole number of at least 0")
    if save is not None:
        if save.suffix != ".svg":
            raise UserError(f"{save}: the picture is written as SVG; choose a name ending in .svg")
        check_ours(save, records=False)
    from selfattn.data.readers.pairs import PairFiles
    from selfattn.data.readers.rows import chosen_columns
    from selfattn.evaluation.metrics import make_metric
    from selfattn.files import write_text, writing
    from selfattn.runs.heads import head_lines, heads_svg, score_heads
    from selfattn.runs.task import metric_names

    loaded = load_runs(run, device=device)
    task = loaded.task
    pairs = task.held_out(PairFiles(data, chosen_columns(columns), encoding)).pairs[: items or None]
    with counting_steps("heads"):
        scores = score_heads(loaded, pairs, make_metric(metric or metric_names(task)[0], task.language), to)
    if save is not None:
        with writing(save, "choose another place"):
            write_text(save, heads_svg(scores) + "\n")
        say(f"saved as {save}")
    return dict(encode(scores)) if json_ else head_lines(scores)
