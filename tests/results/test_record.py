"""The record: a good one survives reading and writing, a broken one is one line that names file and field."""

import copy
import dataclasses
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import report_records

from selfattn.codec import encode
from selfattn.errors import UserError
from selfattn.report.write import as_json
from selfattn.results.claims import ClaimsRecord
from selfattn.results.record import Attention, Record, record_from_dict

DOCS = Path(__file__).parents[2] / "docs" / "results-json.md"
BASE = report_records.rich()


def changed(path, value=...):
    """The record with the field at `path` (dots, numbers for lists) set to `value`, or removed."""
    record = copy.deepcopy(BASE)
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = record
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return record


@pytest.mark.parametrize("name", ["dates", "many_models", "hostile", "rich", "translation"])
def test_a_record_survives_reading_and_writing(name):
    record = report_records.read(name)
    assert encode(record) == json.loads(as_json(encode(record)))
    again = record_from_dict(json.loads(as_json(encode(record))))
    assert again == record


@pytest.mark.parametrize(
    ("path", "value", "where", "problem"),
    [
        ("schema", 1, "schema", "found 1, and this version reads 3 only; make it again: `selfattn report COMPARISON"),
        ("task", ..., "task", "is missing"),
        ("task", "\ud800", "content", "is not a JSON value"),
        ("colour", "red", "colour", "is not a field"),
        ("settings/rate", float("nan"), "content", "is not a JSON value"),
        ("models/1/name", "rnn-plain", "models", "stands twice"),
        ("models/0/metrics/exact_match/mean", ..., "models[0].metrics.exact_match.mean", "is missing"),
        ("models/0/metrics", {}, "models[0].metrics", "exact_match is missing"),
        ("pairs/0", ..., "pairs", "a test of rnn-plain and rnn-peeky in exact_match is missing"),
        ("pairs/0/first", "ghost", "pairs", "is missing|not the name of a model"),
        ("gates/0/model", "ghost", "gates", "not the name of a model"),
    ],
)
def test_a_broken_record_is_one_line_naming_file_and_field(path, value, where, problem):
    with pytest.raises(UserError) as caught:
        record_from_dict(changed(path, value), "out/results.json")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("out/results.json: ")
    assert where in message
    assert re.search(problem, message)


def test_a_loss_that_diverged_is_left_out_of_the_file():
    record = replace(report_records.read("dates"), buckets=(), pairs=(), attention=Attention(), differences=())
    model, curve = record.models[0], record.models[0].curves[0]
    curve = replace(curve, points=(replace(curve.points[0], train_loss=float("nan")),))
    text = as_json(encode(replace(record, models=(replace(model, curves=(curve,)),))))
    assert "NaN" not in text
    assert "train_loss" not in text
    assert record_from_dict(json.loads(text)).models[0].curves[0].points[0].train_loss is None


def fields_of(kind):
    """All fields of a dataclass and of those inside it, with whether each may be left out."""
    seen = {}
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            seen |= {f"{kind.__name__}.{field.name}": field} | fields_of(hints[field.name])
            # encode leaves out what is None, so that it has to be known without the file
            assert type(None) not in get_args(hints[field.name]) or field.default is None, field.name
    for argument in get_args(kind):
        seen |= fields_of(argument)
    return seen


def test_the_documentation_lists_every_field_and_none_is_none_where_it_is_missing():
    documented = set(re.findall(r"[`\"](\w+)[`\"]", DOCS.read_text(encoding="utf-8")))
    assert {name.partition(".")[2] for name in fields_of(Record)} - documented == set()
    assert fields_of(ClaimsRecord)
