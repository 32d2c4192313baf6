"""Test a run of any task, and say the figures in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import SettingError
from selfattn.registry import METRICS

if TYPE_CHECKING:
    from selfattn.runs.run import Run


def evaluate_run(
    run: Run,
    data: Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    *,
    columns: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Test a run on what it has not been trained on, as its task says.

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
    return run.task.evaluate(run, data, options, columns)


def evaluation_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Write what :func:`evaluate_run` gives as lines."""
    metrics = found["metrics"]
    yield f"{found['model']} on {found['data']}: {found['items']:,} items"
    if "perplexity" in metrics:
        yield f"perplexity            {metrics['perplexity']:.4f}  a token ({found['tokens']:,}, ends of lines counted)"
        yield f"bits a character      {metrics['bits_per_character']:.4f}  ({found['characters']:,} characters)"
        if found["empty_lines"]:
            yield f"{found['empty_lines']:,} empty lines skipped"
    else:
        for name, value in metrics.items():
            yield from _metric_lines(found, name, value)
    if found["unknown_characters"]:
        yield f"{found['unknown_characters']:,} characters of the input that the model does not know"
    for name, part in found.get("by_format", {}).items():
        figures = "  ".join(_percent(part[metric]["mean"]) for metric in part if metric != "items")
        yield f"{figures}  {name} ({part['items']:,})"


def _metric_lines(found: Mapping[str, Any], name: str, value: float) -> Iterator[str]:
    """One metric, with its interval and signature where it has them, and what it is where nothing was seen before."""
    signature = found.get("signatures", {}).get(name)
    behind = f"  ({signature})" if signature else ""
    if METRICS[name].unit == "points":
        yield f"{name:<21} {value:6.2f}{behind}"
        return
    ends = found["intervals"].get(name)
    interval = f"  [{_percent(ends[0])}, {_percent(ends[1])}]" if ends else ""
    yield f"{name.replace('_', ' '):<22}{_percent(value)}{interval}{behind}"
    for part_name, words in (("unseen", "not in training"), ("unseen_casefold", "not in training, case ignored")):
        part = found.get(part_name)
        if part and name in part:
            yield f"{'':<22}{_percent(part[name]['mean'])}  on {part['items']:,} {words}"


def _percent(share: float) -> str:
    return f"{100 * share:6.2f} %"
