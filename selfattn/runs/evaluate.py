"""Evaluate, score and align with a run, and write the results as lines."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from selfattn.data.pairs import Example, Pair, encode_pairs
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.readers.rows import chosen_columns
from selfattn.decoding.options import GREEDY, DecodingOptions, Output
from selfattn.decoding.scoring import TargetScore, text_examples
from selfattn.distributed import Processes
from selfattn.errors import SettingError, UserError, number_of, say, visible
from selfattn.evaluation.attention import AttentionReading, report_alignment, word_links
from selfattn.evaluation.links import GoldPair, Link, to_pharaoh
from selfattn.evaluation.metrics import BITS_PER_CHARACTER, PERPLEXITY, write_counts
from selfattn.registry import METRICS
from selfattn.runs.ledger import record_access
from selfattn.runs.measure import measure_run
from selfattn.runs.run import Run
from selfattn.runs.task import decided_by
from selfattn.runs.training_set import make_training_set
from selfattn.settings import as_declared
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.loop import validation_of
from selfattn.words.messages import SOURCE, catalogue, message, name_key, text_of


def evaluate_run(
    run: Run,
    data: Path | Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    *,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
    tag: str | None = None,
    metric: str | None = None,
    against: Run | None = None,
) -> dict[str, Any]:
    """Test a run on unseen data, as its task defines; the ledger of its comparison notes the access.

    Args:
        run: of any task.
        data: see `selfattn.data.readers.pairs.read_pairs`; for a language model one file of texts. Default: the test
            data of the run.
        options: how to decode; default greedily.
        columns: of source and target, by name or by number from 1; see there.
        encoding: of the files; see there.
        tag: name or number of the column that divides the pairs into groups; see there.
        metric: names of further metrics, separated by commas; default those of the task.
        against: another run of the task, tested on the same items; default none.

    Raises:
        UserError: the data are not usable, the metric is unknown, the other run is of another task, or decoding is
            requested of a language model.
    """
    paths = as_declared("data", data, tuple[Path, ...])
    files = PairFiles(paths, chosen_columns(columns or ()), encoding, tag)
    for name in ("columns", "tag", "encoding"):
        if getattr(files, name) is not None and not data:
            raise SettingError(f"`{name}` is for files of pairs: give one with `data`, or leave it out")
    if tag is not None and not run.takes_pairs:
        raise SettingError("`tag`: a language model is measured on texts without columns; leave it out")
    if metric is not None and not run.takes_pairs:
        raise SettingError("`metric`: a language model is measured by perplexity; leave it out")
    files = files.read_as(run.config.data)
    task = run.task
    if metric is not None:
        names = metric.split(",")
        task, *_ = [decided_by(task, name) for name in names]  # or the line that says what is wrong with one
        task.further_metrics = tuple(names[1:])
    if against is not None:
        if not run.takes_pairs or against.config.task != run.config.task:
            raise SettingError("`against`: expected two runs of one task, trained on pairs")
        if not data and run.config.data != against.config.data:
            say(f"{against.path}: was trained on other data, and may have seen the test items of {run.path}")
    results = measure_run(task, run, files, options, against)
    tested = [run] if against is None else [run, against]
    if not data:
        command = "selfattn evaluate " + " --against ".join(str(tested_run.path) for tested_run in tested)
        for tested_run in tested:
            record_access(tested_run.path, command)
    return results


def evaluation_lines(results: Mapping[str, Any], lang: str = SOURCE) -> Iterator[str]:
    """Write the output of :func:`evaluate_run` as lines.

    Args:
        results: of the evaluation.
        lang: the language.
    """
    for line in _lines(results, lang):
        yield text_of(line, lang).replace("\u00a0%", " %")


def _lines(results: Mapping[str, Any], lang: str) -> Iterator[str]:
    def text(key: str, count: int = 0) -> str:
        return message(key, count=f"{count:,}").say(lang)

    metrics = results["metrics"]
    head = {"model": results["model"], "data": results["data"], "count": f"{results['items']:,}"}
    yield message("evaluate.head", **head).say(lang)
    against = results.get("against")
    if against:
        yield message("evaluate.against", model=against["model"], run=against["run"]).say(lang)
    if PERPLEXITY in metrics:
        tokens = text("evaluate.tokens", results["tokens"])
        yield _line(text("evaluate.perplexity"), f"{metrics[PERPLEXITY]:.4f}  {tokens}")
        characters = text("evaluate.characters", results["characters"])
        yield _line(text("evaluate.bits"), f"{metrics[BITS_PER_CHARACTER]:.4f}  {characters}")
    for name, value in metrics.items() if PERPLEXITY not in metrics else ():
        signature = results.get("signatures", {}).get(name)
        ends = results["intervals"].get(name)
        behind = f"  ({signature})" if signature else ""
        label = catalogue(lang).get(name_key("metric", name), name.replace("_", " "))
        is_share = METRICS[name].unit == "share"
        if against:
            other = _score(against["metrics"][name], against["intervals"][name], is_share)
            p = against["p"][name]
            difference = f"{(100 if is_share else 1) * (value - against['metrics'][name]):+.2f}"
            p_text = "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"
            if against["equal"] == results["items"]:
                p_text = text("evaluate.identical")
            values = {"difference": difference, "other": other.lstrip(), "p": p_text}
            key = "evaluate.test"
            if METRICS[name].unit != "number":
                key = "evaluate.test.unit"
                values["unit"] = text(f"difference.{METRICS[name].unit}")
            test = message(key, **values).say(lang)
            behind = f"  {test}{behind}"
        yield _line(label, _score(value, ends, is_share) + behind)
        for part, key in (("unseen", "evaluate.unseen"), ("unseen_casefold", "evaluate.unseen.casefold")):
            if name in results.get(part, {}):
                yield _line("", f"{_percent(results[part][name]['mean'])}  {text(key, results[part]['items'])}")
    for name, key in (
        ("unknown_characters", "evaluate.unknown"),
        ("unknown_words", "evaluate.unknown.words"),
        ("cut_off", "evaluate.cut"),
    ):
        if results.get(name):
            yield text(key, results[name])
    if against:
        yield text("evaluate.tests")
    for name, part in results.get("by_format", {}).items():
        shares = "  ".join(_percent(part[metric]["mean"]) for metric in part if metric != "items")
        yield f"{shares}  {name} ({part['items']:,})"


def _line(name: str, values: str) -> str:
    return f"{name}{' ' * max(1, 22 - cell_len(name))}{values}"


def _score(value: float, ends: Sequence[float] | None, is_share: bool) -> str:
    """Write a score with its interval, shares in percent."""
    score, *texts = (_percent(number) if is_share else f"{number:6.2f}" for number in (value, *(ends or ())))
    return f"{score}  [{', '.join(texts)}]" if texts else score


def _percent(share: float) -> str:
    return f"{100 * share:6.2f}\u00a0%"


def alignment_lines(run: Run, pairs: Sequence[Pair], links: Sequence[Sequence[Link]], *, words: bool) -> Iterator[str]:
    """Write the links of each pair as a line: links i-j, the parts of the source, those of the target, between tabs.

    Parts are tokens or words with spaces between; a space inside a token is written as ▁.

    Args:
        run: that has linked the pairs.
        pairs: sources and targets.
        links: of each pair, from :meth:`selfattn.runs.run.Run.align`.
        words: whether words are linked, not tokens.
    """
    for pair, of_pair in zip(pairs, links, strict=True):
        sides = run.aligned_parts(pair, words=words)
        texts = [" ".join(visible(part.replace(" ", "▁").replace("\t", "▁")) for part in side) for side in sides]
        yield "\t".join([to_pharaoh(of_pair), *texts])


def align_against_gold(run: Run, gold: Sequence[GoldPair]) -> dict[str, Any]:
    """Compare the attention of a run, read as word alignments in every way, with gold links.

    Args:
        run: a model with attention, from the gold's sources to its targets.
        gold: sentence pairs with links.

    Returns:
        Plain JSON values, see :func:`selfattn.evaluation.attention.report_alignment`.

    Raises:
        UserError: there are no pairs, or no links, the model has no attention to its source, or a sentence is too long
            for it.
    """
    if not any(pair.links.possible for pair in gold):
        raise UserError("align: no sentence pairs with gold links; give at least one")
    with run.of_pairs("align"):
        links = word_links(run.model, run.tokenizer, gold)
    if not links:
        raise UserError(f"{run.path}: {run.config.preset} has no attention to its source; try a model that has")
    return report_alignment(links, gold)


def gold_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Write the results of :func:`align_against_gold` as a table: a line for each layer, head and shift."""
    possible = report["possible"] - report["sure"]
    yield f"{number_of(report['pairs'], 'sentence pair')}, {report['sure']:,} sure and {possible:,} possible links"
    yield "AER: alignment error rate, lower is better; shift 1: the step that reads a token, not the one that writes it"
    yield ""
    yield f"{'':<16}  {'head':>4}  shift     AER  precision  recall  links"
    for way in report["ways"]:
        head = "mean" if way["head"] is None else way["head"]
        yield f"layer {way['layer']:<10}  {head:>4}  {int(way['shifted']):>5}  {_figures_line(way)}"
    yield f"{'diagonal, no model':<29}  {_figures_line(report['diagonal'])}"
    yield f"best here: {AttentionReading(**report['best'])}"


def _figures_line(figures: Mapping[str, Any]) -> str:
    shares = (figures["aer"], figures["precision"], figures["recall"])
    aer, precision, recall = ("-" if value is None else f"{value:.1%}" for value in shares)
    return f"{aer:>6}  {precision:>9}  {recall:>6}  {figures['links']:>5}"


def answer(
    run: Run, pairs: Sequence[Pair], options: DecodingOptions = GREEDY, *, targets: Sequence[str] = ()
) -> list[Output]:
    """Return the best output of a run for each test item.

    Args:
        run: its outputs for texts, which are items without a source, are their counts (`write_counts`).
        pairs: the items.
        options: how to decode; default greedily.
        targets: right outputs, see `Run.decode`.
    """
    if run.takes_pairs:
        outputs = run.decode([pair.source for pair in pairs], options, targets=targets)
        return [best for best, *_ in outputs]
    return list(map(_counted, run.score_texts([pair.target for pair in pairs])))


def validate(run: Run, metric: str) -> float:
    """Return the metric of a run on its validation items."""
    data = make_training_set(decided_by(run.task, metric), run.config.training, tokenizer=run.tokenizer)
    _, measures = validation_of(run.model, data.validation, run.config.training, data.criterion, Processes())
    return measures[metric]


def uniform_outputs(pairs: Sequence[Pair], tokenizer: Tokenizer) -> list[Output]:
    """Return the outputs of a language model for which all tokens are equally probable: of a training that diverged."""
    counts = [len(tokenizer.encode(pair.target)) + 1 for pair in pairs]
    return [_counted(TargetScore(-count * math.log(len(tokenizer)), count)) for count in counts]


def _counted(score: TargetScore) -> Output:
    return Output(write_counts(score), None, score.log_probability, True)


def examples_of(run: Run, pairs: Sequence[Pair]) -> Sequence[Example]:
    """Return test items as ids; texts in the windows that the run was trained on."""
    if run.takes_pairs:
        return encode_pairs(pairs, run.tokenizer)
    return text_examples([pair.target for pair in pairs], run.tokenizer, run.config.max_length)
