"""Test a run of any task, and say the figures in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.data.splits import seen
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import SettingError
from selfattn.evaluation.metrics.evaluate import evaluate, format_json

if TYPE_CHECKING:
    from selfattn.runs.run import Run
    from selfattn.runs.task import Task


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


def evaluate_pairs(
    task: Task,
    run: Run,
    data: Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    columns: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Test a run on pairs that it has not been trained on.

    Args:
        task: of the run.
        run: any that was trained on pairs.
        data: files; see :meth:`selfattn.runs.task.Task.held_out`. Default: what the run was trained on.
        options: how to decode; default greedily.
        columns: of source and target in one file.

    Returns:
        Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``beam``, ``length_penalty``, ``items``,
        ``metrics``, ``signatures``, ``intervals``, ``interval``, ``by_format`` (where pairs have kinds),
        ``unknown_characters`` of the inputs, and where test pairs may repeat training pairs, the figures for those that
        do not: ``unseen`` (and ``unseen_casefold``, case ignored).

    Raises:
        UserError: the files, or the run's own data, are not usable.
    """
    asked = task.held_out(data, columns)
    pairs = asked.pairs
    evaluation = evaluate(lambda texts: run.predict(texts, options), pairs)
    scores = task.scores(evaluation.predictions, [pair.target for pair in pairs])
    plain = evaluation.to_json()
    found: dict[str, Any] = {
        "task": task.name,
        "run": str(run.path),
        "model": run.config.preset,
        "data": asked.name,
        "beam": options.beam,
        "length_penalty": options.length_penalty,
        **plain,
        "metrics": plain["metrics"] | scores,
        "unknown_characters": run.unknown([pair.source for pair in pairs]).total(),
    }
    if signatures := task.signatures():
        found["signatures"] = signatures
    for name, casefold in (("unseen", False), ("unseen_casefold", True)) if asked.known is not None else ():
        places = [k for k, was_seen in enumerate(seen(pairs, asked.known or (), casefold=casefold)) if not was_seen]
        if places:
            found[name] = format_json(len(places), evaluation.share(places))
    return found


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
