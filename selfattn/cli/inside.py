"""The command that looks inside a trained model."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from selfattn.cli.options import Device, Files, Names, command
from selfattn.codec import encode
from selfattn.console import steps_counted
from selfattn.data.readers.lines import checked_encoding
from selfattn.data.readers.rows import chosen_columns
from selfattn.errors import UserError, say
from selfattn.ownership import check_ours


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
    from selfattn.evaluation.metrics.metric import make_metric
    from selfattn.files import write_text, writing
    from selfattn.runs.heads import head_lines, heads_svg, score_heads
    from selfattn.runs.load import load
    from selfattn.runs.task_metrics import metric_names

    loaded = load(run, device=device)
    task = loaded.task
    pairs = task.held_out(data, chosen_columns(columns), checked_encoding(encoding)).pairs[: items or None]
    with steps_counted("heads"):
        scores = score_heads(loaded, pairs, make_metric(metric or metric_names(task)[0], task.language), to)
    if save is not None:
        with writing(save, "choose another place"):
            write_text(save, heads_svg(scores) + "\n")
        say(f"saved as {save}")
    return dict(encode(scores)) if json_ else head_lines(scores)
