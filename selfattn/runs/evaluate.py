"""What a run makes of given data, measured and written in lines for people: `evaluate`, `score`, `align`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from selfattn.data.pairs import Pair
from selfattn.decoding.alignment import Link, to_pharaoh
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.decoding.scoring import TargetScore
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.alignment.error_rate import AlignmentCounts
from selfattn.evaluation.alignment.links import GoldPair
from selfattn.evaluation.alignment.word_alignment import AlignmentReport, Directed, Way, report_alignment, word_links
from selfattn.registry import METRICS
from selfattn.runs.ledger import note_look
from selfattn.runs.run import Run
from selfattn.settings import as_declared
from selfattn.words.catalogue import SOURCE, catalogue
from selfattn.words.messages import message


def evaluate_run(
    run: Run,
    data: Path | Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    *,
    columns: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Test a run on what it has not been trained on, as its task says; a comparison's ledger says that it was.

    Args:
        run: of any task.
        data: two parallel files or one file of pairs, for a language model one of texts; default what the run was
            trained on has to offer.
        options: how to decode; default greedily.
        columns: of source and target, by name or by number from 1; see `selfattn.data.readers.pair_files.read_pairs`.

    Raises:
        UserError: the data are not usable, or a language model is asked to decode.
    """
    if columns is not None and not data:
        raise SettingError("`columns` is for files of pairs: give one with `data`, or leave it out")
    found = run.task.evaluate(run, as_declared("data", data, tuple[Path, ...]), options, columns)
    if not data:
        note_look(run.path, f"selfattn evaluate {run.path}")
    return found


def evaluation_lines(found: Mapping[str, Any], lang: str = SOURCE) -> Iterator[str]:
    """Write what :func:`evaluate_run` gives as lines.

    Args:
        found: the figures.
        lang: the language.
    """

    def told(key: str, count: int = 0) -> str:
        return message(key, count=f"{count:,}").say(lang)

    metrics = found["metrics"]
    head = {"model": found["model"], "data": found["data"], "count": f"{found['items']:,}"}
    yield message("evaluate.head", **head).say(lang)
    if "perplexity" in metrics:
        tokens = told("evaluate.tokens", found["tokens"])
        yield _line(told("evaluate.perplexity"), f"{metrics['perplexity']:.4f}  {tokens}")
        characters = told("evaluate.characters", found["characters"])
        yield _line(told("evaluate.bits"), f"{metrics['bits_per_character']:.4f}  {characters}")
        if found["empty_lines"]:
            yield told("evaluate.empty", found["empty_lines"])
    for name, value in metrics.items() if "perplexity" not in metrics else ():
        signature, ends = found.get("signatures", {}).get(name), found["intervals"].get(name)
        behind = f"  ({signature})" if signature else ""
        shown = catalogue(lang).get(f"metric.{name}", name.replace("_", " "))
        if METRICS[name].unit == "points":
            yield _line(shown, f"{value:6.2f}{behind}")
            continue
        interval = f"  [{_percent(ends[0])}, {_percent(ends[1])}]" if ends else ""
        yield _line(shown, f"{_percent(value)}{interval}{behind}")
        for part, key in (("unseen", "evaluate.unseen"), ("unseen_casefold", "evaluate.unseen.casefold")):
            if name in found.get(part, {}):
                yield _line("", f"{_percent(found[part][name]['mean'])}  {told(key, found[part]['items'])}")
    if found["unknown_characters"]:
        yield told("evaluate.unknown", found["unknown_characters"])
    for name, part in found.get("by_format", {}).items():
        figures = "  ".join(_percent(part[metric]["mean"]) for metric in part if metric != "items")
        yield f"{figures}  {name} ({part['items']:,})"


def _line(name: str, figures: str) -> str:
    return f"{name}{' ' * max(1, 22 - cell_len(name))}{figures}"


def _percent(share: float) -> str:
    return f"{100 * share:6.2f} %"


def score_lines(scores: Sequence[TargetScore]) -> Iterator[str]:
    """Write each score as a line: log-probability, tokens, log-probability a token, tabs between.

    Example:
        >>> list(score_lines([TargetScore(-3.0, 2)]))
        ['-3.000000\\t2\\t-1.500000']
    """
    for one in scores:
        yield f"{one.log_probability:.6f}\t{one.tokens}\t{one.per_token:.6f}"


def score_summary(run: Run, data: Sequence[Path], scores: Sequence[TargetScore]) -> dict[str, Any]:
    """Put the scores of all pairs together, as plain JSON values.

    Args:
        run: the one that gave the scores.
        data: the files that the pairs are from.
        scores: at least one.
    """
    total, tokens = math.fsum(one.log_probability for one in scores), sum(one.tokens for one in scores)
    return run.about(" ".join(map(str, data))) | {
        "items": len(scores),
        "tokens": tokens,
        "log_probability": total,
        "per_token": total / tokens,
        "perplexity": math.exp(-total / tokens),
    }


def align_lines(run: Run, pairs: Sequence[Pair], *, layer: int, head: str, shift: int) -> Iterator[str]:
    """Write the links of each pair as a line in Pharaoh format.

    Args:
        run: a model with attention.
        pairs: sources and what is to be written for them.
        layer: counted from 0, or from the end where negative.
        head: a number from 0, or ``mean``.
        shift: 0 or 1.

    Raises:
        UserError: a setting is out of its range, or the model has no attention to its source.
    """
    if shift not in (0, 1):
        raise SettingError(f"`shift`: expected 0 or 1, got {shift}")
    if head != "mean" and not head.isdecimal():
        raise SettingError(f"`head`: expected a whole number from 0, or mean; got {head}")
    number = None if head == "mean" else int(head)
    links = run.align(pairs, layer=layer, head=number, shifted=shift == 1)
    return map(to_pharaoh, links)


def align_against_gold(
    run: Run,
    gold: Sequence[GoldPair],
    *,
    reverse: Run | None = None,
    way: Way | None = None,
    reverse_way: Way | None = None,
) -> AlignmentReport:
    """Read the attention of a run as word alignments in every way, and hold them against gold.

    Args:
        run: a model with attention, from the gold's sources to its targets.
        gold: sentence pairs with links.
        reverse: a model of the other direction; default none, and nothing is symmetrised.
        way: whose links to join with those of the other direction; default the one with the lowest error on these
            very pairs. For an honest figure choose it on other pairs.
        reverse_way: likewise, of the other direction.

    Raises:
        UserError: no pairs, a model has no attention to its source or not such a head, or a sentence is longer than
            it can read.
    """
    if not gold:
        raise UserError("align: no sentence pairs with gold links; give at least one")
    backward = None if reverse is None else _word_links(reverse, [pair.turned() for pair in gold])
    forward = _word_links(run, gold)
    try:
        return report_alignment(forward, gold, backward=backward, way=way, backward_way=reverse_way)
    except ValueError as error:
        raise UserError(f"align: {error}; leave the head open, and all are listed") from error


def gold_lines(report: AlignmentReport) -> Iterator[str]:
    """Write alignments against gold as a table: a line for each layer, head and shift.

    Args:
        report: from `align_against_gold`.
    """
    yield f"{report.pairs:,} sentence pairs, {report.sure:,} sure and {report.possible - report.sure:,} possible links"
    yield "AER: alignment error rate, lower is better; shift 1: the step that reads a token, not the one that writes it"
    directions = [("source to target", report.forward)]
    if report.backward is not None:
        directions.append(("target to source", report.backward))
    for name, directed in directions:
        yield ""
        yield f"{name:<16}  {'head':>4}  shift  {_HEAD}"
        for way, counts in directed.counts.items():
            head = "mean" if way.head is None else way.head
            yield f"layer {way.layer:<10}  {head:>4}  {int(way.shifted):>5}  {_figures(counts)}"
        yield f"{'diagonal, no model':<29}  {_figures(directed.diagonal)}"
        yield f"{'best here' if directed.by_gold else 'chosen'}: {directed.chosen}"
    if report.symmetrised:
        yield ""
        yield f"{'both directions':<29}  {_HEAD}"
        for method, counts in report.symmetrised.items():
            yield f"{method:<29}  {_figures(counts)}"


def gold_json(report: AlignmentReport) -> dict[str, Any]:
    """Return alignments against gold as plain JSON values; what cannot be computed is null.

    Args:
        report: from `align_against_gold`.
    """

    def directed(one: Directed) -> dict[str, Any]:
        return {
            "ways": [way._asdict() | _counts_json(counts) for way, counts in one.counts.items()],
            "chosen": one.chosen._asdict(),
            "chosen_by_gold": one.by_gold,
            "diagonal": _counts_json(one.diagonal),
        }

    return vars(report) | {
        "forward": directed(report.forward),
        "backward": None if report.backward is None else directed(report.backward),
        "symmetrised": {method: _counts_json(counts) for method, counts in report.symmetrised.items()},
    }


_HEAD = "   AER  precision  recall  links"


def _word_links(run: Run, gold: Sequence[GoldPair]) -> dict[Way, list[set[Link]]]:
    with run.asked_of_pairs("align"):
        links = word_links(run.model, run.tokenizer, gold)
    if not links:
        raise UserError(f"{run.path}: {run.config.preset} has no attention to its source; try a model that has")
    return links


def _figures(counts: AlignmentCounts) -> str:
    aer, precision, recall = (
        "-" if value is None else f"{value:.1%}" for value in (counts.aer, counts.precision, counts.recall)
    )
    return f"{aer:>6}  {precision:>9}  {recall:>6}  {counts.links:>5}"


def _counts_json(counts: AlignmentCounts) -> dict[str, float | int | None]:
    return {"aer": counts.aer, "precision": counts.precision, "recall": counts.recall, "links": counts.links}
