"""Test a run of any task, and say the figures in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import UserError
from selfattn.runs.run import Run
from selfattn.tasks.dates import evaluate_dates
from selfattn.tasks.lm import evaluate_lm
from selfattn.tasks.translation import evaluate_translation


def evaluate_run(
    run: Run,
    data: Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    *,
    columns: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Test a run: a language model by perplexity, any other by its outputs.

    Args:
        run: of any task.
        data: two parallel files or one file of pairs, for a language model one of texts; default what the run was
            trained on has to offer.
        options: how to decode; default greedily.
        columns: of source and target, by name or by number from 1; see `selfattn.data.readers.pair_files.read_pairs`.

    Raises:
        UserError: the data are not usable, or a language model is asked to decode.
    """
    if columns is not None and (run.is_language_model or not data):
        raise UserError("--columns is for files of pairs: give one with --data, or leave it out")
    if run.config.task == "translation":
        return evaluate_translation(run, data, options, columns)
    if not run.is_language_model:
        return evaluate_dates(run, data, options, columns)
    if len(data) > 1:
        raise UserError(f"--data: a language model is tested on one file of texts, got {len(data)}")
    if options != GREEDY:
        raise UserError("evaluate: a language model is measured by perplexity, nothing is decoded; leave --beam out")
    return evaluate_lm(run, data[0] if data else None)


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
        low, high = found["intervals"]["exact_match"]
        yield f"exact match           {_percent(metrics['exact_match'])}  [{_percent(low)}, {_percent(high)}]"
        for name, words in (("unseen", "not in training"), ("unseen_casefold", "not in training, case ignored")):
            if part := found.get(name):
                yield f"                      {_percent(part['exact_match']['mean'])}  on {part['items']:,} {words}"
        yield f"character error rate  {_percent(metrics['character_error_rate'])}"
        for name, signature in found.get("signatures", {}).items():
            yield f"{name:<21} {metrics[name]:6.2f}  ({signature})"
    if found["unknown_characters"]:
        yield f"{found['unknown_characters']:,} characters of the input that the model does not know"
    for name, part in found.get("by_format", {}).items():
        yield f"{_percent(part['exact_match']['mean'])}  {name} ({part['items']:,})"


def _percent(share: float) -> str:
    return f"{100 * share:6.2f} %"
