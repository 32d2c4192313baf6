"""What models cost, as tables: time, floating-point operations, memory, disk, and decoding by length."""

from __future__ import annotations

from selfattn.figures.cost import DecodingCost
from selfattn.figures.record import Model, Record
from selfattn.report.drawing.numbers import NONE, amount, compact, measure_text, share_text
from selfattn.report.render.grid import Cell, Column, Grid, Line, Noted
from selfattn.report.sections.summary import TIMES
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import message

_SIZES = (
    "training_flops",
    "training_flops_per_token",
    "decoding_flops_per_token",
    "peak_share",
    "training_bytes",
    "weights_bytes",
    "run_bytes",
)


def cost_grid(record: Record) -> Grid:
    """Times of training and prediction, mean and range over seeds."""
    columns = (Column(message("col.model"), numeric=False), *(Column(message(f"cost.{name}")) for name in TIMES))
    lines = []
    for model in ranked(record):
        cells = tuple(_cell(model, name, measure_text(getattr(model.timing, name))) for name in TIMES)
        lines.append(Line((model.name, *cells), model.name))
    return Grid("times", columns, tuple(lines))


def size_grid(record: Record) -> Grid:
    """Operations, memory and disk; columns without any figure are left out."""
    names = [name for name in _SIZES if any(getattr(model.cost, name) is not None for model in record.models)]
    columns = (Column(message("col.model"), numeric=False), *(Column(message(f"cost.{name}")) for name in names))
    lines = tuple(
        Line((model.name, *(_cell(model, name, _size(model, name)) for name in names)), model.name)
        for model in ranked(record)
    )
    return Grid("sizes", columns, lines if names else ())


def decoding_grid(record: Record) -> Grid:
    """By method, batch and length, for each model the time to the first token and for each further one."""
    order = [model for model in ranked(record) if model.cost.decoding]
    methods = list(dict.fromkeys(one.method for model in order for one in model.cost.decoding))
    keys = {_key(one) for model in order for one in model.cost.decoding}
    columns = tuple(Column(message(f"decoding.{name}"), numeric=name != "method") for name in _HEADS)
    columns += tuple(Column(model.name, model=True) for model in order)
    lines = []
    for method, batch, length in sorted(keys, key=lambda key: (methods.index(key[0]), *key[1:])):
        times = [next((one for one in m.cost.decoding if _key(one) == (method, batch, length)), None) for m in order]
        lines.append(Line((method, str(batch), str(length), *map(_time, times))))
    return Grid("decoding", columns, tuple(lines))


_HEADS = ("method", "batch", "length")


def _key(one: DecodingCost) -> tuple[str, int, int]:
    return one.method, one.batch, one.length


def _time(one: DecodingCost | None) -> str:
    return NONE if one is None else f"{amount(one.first_ms)} + {amount(one.token_ms)}"


def _size(model: Model, name: str) -> str:
    value = getattr(model.cost, name)
    if name == "peak_share":
        return share_text(value)
    return compact(value, "B" if name.endswith("bytes") else "")


def _cell(model: Model, name: str, text: str) -> Cell:
    if text != NONE:
        return text
    given = model.not_measured.get(name)
    return Noted(text, message("reason.given", text=given) if given else message("reason.none"))
