"""Train, load, ask, look inside, evaluate: small, but the whole way."""

import json
import math
from dataclasses import replace

import pytest
import torch

import selfattn
from selfattn.cli.main import main
from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.task import TaskData


def test_a_run_comes_back_as_it_was_and_the_record_says_what_it_was(runs):
    for run in runs.values():
        loaded = selfattn.load(run.path)
        assert loaded.config == run.config
        assert not loaded.model.training
        assert all(map(torch.equal, loaded.model.parameters(), run.model.parameters()))
        texts = ["May 1, 2001", "", "11/13/08"]
        assert loaded.predict(texts) == run.predict(texts)
    run = runs["transformer"]
    directory = RunDirectory(run.path)
    record, metrics = directory.record(), directory.metrics()
    assert (record.status, record.seed) == ("finished", 0)
    assert record.parameters == sum(parameter.numel() for parameter in run.model.parameters())
    assert record.machine["threads"] == torch.get_num_threads()
    assert record.versions["torch"] == torch.__version__
    assert [report.epoch for report in metrics] == [1, 2]
    assert metrics[-1].step == 2 * math.ceil(300 / 64)
    assert metrics[-1].tokens == 2 * 300 * 11


def test_the_command_in_the_record_makes_the_same_run(runs, tmp_path):
    run = runs["rnn-plain"]
    main(RunDirectory(run.path).record().command.replace(str(run.path), str(tmp_path / "again")).split()[1:])
    again = selfattn.load(tmp_path / "again")
    assert all(map(torch.equal, again.model.parameters(), run.model.parameters()))


def test_attention_has_tokens_on_both_axes(runs, tmp_path):
    text = "May 1, 2001 ☃"
    for name, heads in (("transformer", 4), ("rnn-attention", 1)):
        view = runs[name].attention(text)
        assert view.prediction == runs[name].predict([text])[0]
        assert view.source_tokens == (*"May 1, 2001 ", "<unk>", "<eos>")
        assert view.target_tokens == (*view.prediction, "<eos>")
        s, t = len(view.source_tokens), len(view.target_tokens)
        assert all(weights.shape == (heads, t, s) for weights in view.weights)
        for layer in view.weights:
            torch.testing.assert_close(layer.sum(dim=-1), torch.ones(heads, t))
        torch.testing.assert_close(view.picture(), view.weights[-1].mean(dim=0))
        assert torch.equal(view.picture(layer=0, head=heads - 1), view.weights[0][heads - 1])
        assert len(repr(view)) < 200
        for depends in (view.blocking, view.gradient):
            assert depends.shape == (t, s)
        view.save(tmp_path / f"{name}.svg")
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")
    view = runs["transformer"].attention("5/1/01")
    assert view.encoder_weights[0].shape == (4, 7, 7)
    assert view.decoder_weights[0].shape[1] == view.decoder_weights[0].shape[2]


def test_a_notebook_keeps_little_however_large_the_maps(runs):
    view = runs["transformer"].attention("May 1, 2001")
    t, s = 30, 60
    weights = {"weights": (torch.rand(8, t, s),) * 6, "blocking": torch.rand(t, s), "gradient": torch.rand(t, s)}
    large = replace(view, source_tokens=("<b>",) * s, target_tokens=("y",) * t, **weights)
    shown = large._repr_html_()
    assert len(shown) < 300_000
    assert large.to_html().count('"kind":"cross"') == 48
    assert "<b>" not in shown.replace("&lt;", "")


def test_evaluation_of_embedded_dates(runs, monkeypatch):
    assert runs["rnn-plain"].task.test_items(quick=False) == 5000
    monkeypatch.setattr("selfattn.tasks.dates.Dates.test_items", lambda self, quick: 300)
    found = evaluate_run(runs["rnn-plain"])
    assert (found["task"], found["model"], found["items"]) == ("dates", "rnn-plain", 300)
    assert 0 <= found["metrics"]["exact_match"] <= 1
    assert sum(part["items"] for part in found["by_format"].values()) == 300
    assert "unseen" not in found
    json.dumps(found, allow_nan=False)


def test_a_table_of_pairs_is_dealt_by_source_and_evaluated_on_its_test_part(tmp_path, train):
    training = {"epochs": 1, "batch_size": 64, "validation_items": 20}
    path, other = tmp_path / "days.tsv", tmp_path / "other.tsv"
    rows = [f"day {n} of {n % 7}\t{n % 7}-{n}\n" for n in range(300)]
    path.write_text("".join(rows * 2))
    other.write_text("".join(rows[:30]))
    run = train("rnn-plain", tmp_path / "run", data=(path,), training=training)
    found = evaluate_run(run)
    assert found["items"] == 60
    assert found == evaluate_run(run, [path]) | {"data": found["data"]}
    assert found["unseen"]["items"] == 60  # a source that stands in the file twice is in one part only
    assert evaluate_run(run, [other])["items"] == 30


def test_the_books_file_has_its_own_split(shared_data, tmp_path, train):
    path = shared_data("dates/date.txt")
    training = {"epochs": 1, "items_per_epoch": 200, "batch_size": 64, "validation_items": 20}
    run = train("rnn-plain", tmp_path / "run", data=(path,), training=training)
    found = evaluate_run(run, [path], DecodingOptions(max_length=1))
    assert (found["items"], found["unseen"]["items"], found["unseen_casefold"]["items"]) == (5000, 3595, 2562)
    assert found["by_format"] == {}


def test_withheld_years_travel_with_a_run(tmp_path, train, monkeypatch):
    monkeypatch.setattr("selfattn.data.dates.source._SAMPLE", 1000)
    run = train("rnn-plain", tmp_path / "run", withhold_years=("2050-2059", "1943"))
    loaded = selfattn.load(run.path)
    years = [1943, *range(2050, 2060)]
    assert loaded.task.splits(0).settings["withheld_years"] == years
    shown = {int(pair.target[:4]) for pair in loaded.task.splits(0).test(1000)}
    assert shown.isdisjoint(years)
    assert set(loaded.task.splits(0).probes()) == {"unseen years", "withheld years", "unseen formats"}


def test_a_task_may_give_a_finite_list(tmp_path):
    class Capitals(TaskData):
        """Write a word in capitals."""

        name = "capitals"

        def pairs(self):
            return [Pair(f"word {number}", f"WORD {number}") for number in range(120)]

    splits = Capitals().splits(seed=1, validation_items=5)
    parts = [list(splits.train(0, None)), splits.validation(5), splits.test(None)]
    assert [len(part) for part in parts] == [103, 5, 12]
    assert len({pair.source for part in parts for pair in part}) == 120
    assert len(list(splits.train(0, 500))) == 500
    assert splits.test(None) == Capitals().splits(seed=2).test(None) == Capitals().held_out().pairs
    with pytest.raises(UserError, match="1 pair, too few for three parts"):
        type("Short", (Capitals,), {"pairs": lambda self: [Pair("a", "A")]})().splits(0)
