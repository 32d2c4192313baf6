"""The main job, small: every file it writes, every figure against its source; planted cheats are seen."""

import json
import shutil
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
import torch

import selfattn
from selfattn.attention import layer
from selfattn.comparison import testing as examine
from selfattn.comparison.compare import compare
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import PlannedModel
from selfattn.comparison.preparation import resolve_models
from selfattn.comparison.record import changed_settings
from selfattn.comparison.report import write_comparison
from selfattn.data.dates.source import DateSource, EmbeddedDates
from selfattn.errors import UserError
from selfattn.evaluation.gates import overfitting
from selfattn.models.config import override
from selfattn.models.families import PRESETS
from selfattn.report.sections.quality import interval_note
from selfattn.report.verdict import badges, question, verdict
from selfattn.results.record import read_record
from selfattn.runs.directory import RunDirectory
from selfattn.runs.run import Run
from selfattn.tasks.dates import Dates

MODELS = ("rnn-plain", "rnn-attention", "transformer")
TEST_ITEMS = 40


@pytest.fixture(scope="module")
def compared(tmp_path_factory, tiny, small):
    out = tmp_path_factory.mktemp("compare") / "dates"
    settings = tuple(f"{model}:{setting}" for model in MODELS for setting in small[model])
    with pytest.MonkeyPatch.context() as patch:
        # Models as small as these need more steps to know anything by heart than a test has time for.
        patch.setattr(examine, "overfitting", partial(overfitting, steps=10))
        patch.setattr("selfattn.data.dates.source._PROBES", 5)
        options = {"seeds": 1, "test_items": TEST_ITEMS, "apart": True, "tune": False}
        compare("dates", models=MODELS, out=out, set=settings, **options, **tiny)
    return out, json.loads((out / "results.json").read_text(encoding="utf-8"))


def test_three_files_and_the_runs(compared):
    out, results = compared
    reports = "demo.html packed.tar.xz report.html report.md results.json"
    plans = ".ledger.jsonl.lock .lock plan.json costs.json ledger.jsonl logs runs"
    assert {path.name for path in out.iterdir()} == {*plans.split(), *reports.split()}
    assert sorted(path.name for path in (out / "runs").iterdir()) == sorted(f"{model}-seed0" for model in MODELS)
    assert [model["run_dirs"] for model in results["models"]] == [[f"runs/{name}-seed0"] for name in MODELS]


def test_the_report_leads_to_a_page_on_which_its_models_answer(compared, tmp_path):
    out, results = compared
    ranked = sorted(MODELS, key=lambda name: -results["models"][MODELS.index(name)]["metrics"]["exact_match"]["mean"])
    page = (out / "demo.html").read_text(encoding="utf-8")
    assert sorted(MODELS, key=lambda name: page.index(f'"name":"{name}"')) == ranked
    assert read_record(out / "results.json").demo
    assert '<a href="demo.html">' in (out / "report.html").read_text(encoding="utf-8")
    assert "(demo.html)" in (out / "report.md").read_text(encoding="utf-8")

    gone = shutil.copytree(out, tmp_path / "gone")  # a report can be made again without weights, its page cannot
    for weights in gone.rglob("*.safetensors"):
        weights.unlink()
    record, files = write_comparison(gone, tmp_path / "again")
    assert not record.demo
    assert "demo.html" not in files.html.read_text(encoding="utf-8")
    assert not (tmp_path / "again" / "demo.html").exists()


def test_every_figure_is_that_of_the_runs_on_unseen_dates(compared):
    out, results = compared
    record = read_record(out / "results.json")
    assert (record.task, record.test_items) == ("dates", TEST_ITEMS)
    assert record.settings["locales"] == ["en_US"]
    assert record.settings["epochs"] == 2
    costs = json.loads((out / "costs.json").read_text())["models"]
    pairs = DateSource(["en_US"], seed=0, split="test").pairs(TEST_ITEMS)
    for model in results["models"]:
        cost, place = costs[model["name"]], out / model["run_dirs"][0]
        outputs = selfattn.load(place).predict([pair.source for pair in pairs])
        share = sum(o == pair.target for o, pair in zip(outputs, pairs, strict=True)) / TEST_ITEMS
        assert (model["metrics"]["exact_match"]["runs"], model["metrics"]["exact_match"]["mean"]) == ([share], share)
        assert model["parameters"] == RunDirectory(place).record().parameters
        assert model["attention"] == PRESETS[model["name"]].attention
        steps = [curve["points"][-1]["step"] for curve in model["curves"]]
        assert model["timing"]["train_seconds"]["runs"] == [cost["step_seconds"] * count for count in steps]
        assert model["timing"]["predict_ms"]["runs"] == [cost["predict_ms"]]
        assert model["timing"]["predict_batch_ms"]["runs"] == [cost["predict_batch_ms"]]
        assert [len(curve["points"]) for curve in model["curves"]] == [10]
    parts = {group["name"]: group["buckets"] for group in results["buckets"]}
    assert sum(part["items"] for part in parts["format"]) == TEST_ITEMS
    assert all(set(part["models"]) == set(MODELS) for group in parts.values() for part in group)
    assert {(pair["first"], pair["second"]) for pair in results["pairs"]} == {*combinations(MODELS, 2)}
    sources = {pair.source for pair in pairs}
    assert 0 < len(results["differences"]) <= 40
    for difference in results["differences"]:
        assert difference["source"] in sources
        assert set(difference["predictions"]) == set(MODELS)
        assert len(set(difference["predictions"].values())) > 1


@pytest.mark.usefixtures("one_thread")
def test_a_run_is_the_same_alone_and_in_a_comparison(compared, train, tmp_path):
    out, _ = compared
    for model in ("transformer", "rnn-plain"):
        alone, inside = train(model, tmp_path / model), selfattn.load(out / "runs" / f"{model}-seed0")
        assert replace(alone.config, options=inside.config.options, made_by="compare") == inside.config
        there = inside.model.state_dict()
        assert all(torch.equal(there[name], weight) for name, weight in alone.model.state_dict().items())


def test_attention_of_both_families_stands_beside_the_gold_spans(compared):
    _, results = compared
    examples = results["attention"]["examples"]
    assert len({example["format"] for example in examples}) == len(examples) == 2
    for example in examples:
        assert set(example["models"]) == {"rnn-attention", "transformer"}
        assert {span["field"] for span in example["gold"]} == {"year", "month", "day"}
        for shown in example["models"].values():
            assert shown["source_tokens"] == [*example["source"], "<eos>"]
            assert shown["target_tokens"] == [*shown["prediction"], "<eos>"]
            assert {one["kind"] for one in shown["maps"]} == {"cross", "blocking", "gradient"}
            for one in shown["maps"]:
                assert all(0 <= weight <= 1 for row in one["weights"] for weight in row)
                sums = [sum(row) for row in one["weights"] if one["kind"] != "blocking"]  # whose cells stand alone
                assert sums == pytest.approx([1.0] * len(sums), abs=0.01)


def test_the_command_ends_with_the_verdict_and_the_path(cli, tmp_path):
    out, models = tmp_path / "out", "compare dates --models rnn-plain --models again=rnn-plain --quick --seeds 1"
    short = "--epochs 1 --items-per-epoch 64 --validation-items 5 --test-items 12"
    done = cli(*f"{models} {short} --out {out}".split()).success()
    assert "rnn-plain" in done.out
    assert str(out / "report.html") in done.out.replace("\n", "")
    record = read_record(out / "results.json")
    assert record.settings["quick"] is True
    assert record.command == (
        f"selfattn compare dates --models rnn-plain,again=rnn-plain --seeds 1 --quick --out {out} --test-items 12 "
        "--epochs 1 --items-per-epoch 64 --validation-items 5"
    )
    again = cli("compare", "dates", "--quick", "--out", out)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "choose another --out" in again.err


def test_all_means_every_preset():
    assert list(resolve_models(Dates(), CompareOptions(models=("all",), out=Path("out")))) == list(PRESETS)
    with pytest.raises(UserError, match="model 'all' is not known"):
        resolve_models(Dates(), CompareOptions(models=("all", "transformer"), out=Path("out")))


def test_weights_of_the_delta_rule_below_zero_are_kept_and_the_page_says_how_they_are_drawn(tmp_path):
    training = {"epochs": 1, "items_per_epoch": 16, "validation_items": 5, "quick": True, "test_items": 4}
    record, files = compare("dates", models=("transformer-delta",), out=tmp_path / "out", **training)
    maps = record.attention.examples[0].models["transformer-delta"].maps
    assert min(weight for one in maps for row in one.weights for weight in row) < -0.01
    assert "Weights of the delta rule may be below 0" in files.html.read_text()


@pytest.mark.slow
def test_every_preset_takes_part(tmp_path):
    training = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5, "test_items": 20}
    record, files = compare("dates", models=("all",), quick=True, apart=True, out=tmp_path / "out", **training)
    assert [model.name for model in record.models] == list(PRESETS)
    shown = record.attention.examples[0].models
    assert set(shown) == {name for name, preset in PRESETS.items() if preset.attention}
    assert all(one.maps for one in shown.values())
    assert files.html.stat().st_size < 3_000_000


# Not fooled: cheats are planted and must be seen; copies and sizes are judged rightly

SMALL = (
    "transformer:encoder.dim=16", "transformer:decoder.dim=16", "transformer:encoder.ffn_dim=16",
    "rnn-attention:encoder.hidden_dim=16", "rnn-attention:decoder.hidden_dim=16",
)  # fmt: skip
TOO_LARGE = {
    "models": ("rnn-attention", "transformer"), "set": (*SMALL, "transformer:encoder.ffn_dim=400"), "test_items": 40,
    "quick": True, "epochs": 1, "items_per_epoch": 64, "batch_size": 64, "validation_items": 20,
}  # fmt: skip


def failed(record):
    return {(gate.name, gate.model) for gate in record.gates if not gate.passed}


def badge_texts(record):
    return [badge.text.say("en") for badge in badges(record)]


def test_dates_of_one_day_are_one_item(finished, tmp_path, monkeypatch):
    """A test that is short of days gives no narrow intervals, and says so."""
    plain, _ = write_comparison(finished, tmp_path / "plain")
    monkeypatch.setattr(Dates, "repeats", lambda self, pair: pair.target[:2])
    record, files = write_comparison(finished, tmp_path / "centuries")
    assert (record.interval.repeated, plain.interval.repeated) == (18, 0)
    items = record.test_items
    assert f"{items} items in {items - 18} clusters" in " ".join(files.markdown.read_text().split())
    assert f"(항목 {items}개, 묶음 {items - 18}개)" in interval_note(record).say("ko")


def test_a_model_of_twice_the_size_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"parameters outside embeddings: transformer has .*`apart`"):
        compare("dates", out=tmp_path / "refused", **TOO_LARGE)
    assert not (tmp_path / "refused").exists()


def test_planted_cheats_are_caught(tmp_path, finished, monkeypatch):
    """The Transformer is twice as large, reads the future and collapses; the first epoch shows half of the test."""
    attend, decode = layer.attend_checked, Run.decode

    def leaky(*arguments, mask=None, **settings):
        return attend(*arguments, mask=mask and replace(mask, causal=False), **settings)

    def collapsed(self, *arguments, **settings):
        results = decode(self, *arguments, **settings)
        if self.config.preset != "transformer":
            return results
        return [[replace(output, text="2000-01-01") for output in outputs] for outputs in results]

    known = [pair for split in ("train", "test") for pair in DateSource(["en_US"], seed=0, split=split).pairs(20)]
    monkeypatch.setattr(layer.MultiHeadAttention, "attend_with", staticmethod(leaky))
    monkeypatch.setattr(Run, "decode", collapsed)
    monkeypatch.setattr(EmbeddedDates, "test", lambda self, count: known)
    record, _ = compare("dates", out=tmp_path / "out", apart=True, **TOO_LARGE)
    planted = {("causal", "transformer"), ("variety", "transformer"), ("overlap", "")}
    assert planted <= failed(record)
    assert ("causal", "rnn-attention") not in failed(record)
    assert not {"causal", "overlap"} & {name for name, _ in failed(read_record(finished / "results.json"))}
    (overlap,) = [gate for gate in record.gates if gate.name == "overlap"]
    assert overlap.value == pytest.approx(0.5)
    (sizes,) = [gate for gate in record.gates if gate.name == "matched budgets"]
    assert "asked for" in sizes.reason
    assert "ot comparable" in (tmp_path / "out/report.md").read_text().partition("|")[0]


def test_changed_models_stand_on_the_first_screen_and_are_not_called_by_the_name_of_their_preset(finished):
    record = read_record(finished / "results.json")
    assert "all models changed: decoder.hidden_dim 8, encoder.hidden_dim 8" in badge_texts(record)
    assert question(record).say("en").startswith("Do")
    assert "the RNN with attention" not in verdict(record).lead.say("en")
    first, second = record.models
    alone = replace(second, changes={**second.changes, "decoder.score": "additive"}, preset="luong-bidirectional")
    shown = badge_texts(replace(record, models=(first, alone)))
    assert {"rnn-attention alone changed: decoder.score additive", "rnn-attention is a luong-bidirectional"} <= {*shown}
    usual = replace(record, models=tuple(replace(model, changes={}) for model in record.models))
    assert "the RNN with attention" in verdict(usual).lead.say("en")
    assert not any("changed" in text for text in badge_texts(usual))


def test_widths_that_were_chosen_to_match_are_no_changes():
    config = override(PRESETS["transformer"].config, {"encoder.dim": 64, "encoder.position": "rotary"})
    planned = PlannedModel("transformer", config)
    assert changed_settings(Dates(), planned, is_sized=True) == {"encoder.position": "rotary"}
    assert changed_settings(Dates(), planned, is_sized=False) == {"encoder.dim": "64", "encoder.position": "rotary"}
    usual = replace(planned, config=Dates().size(PRESETS["transformer"].config))
    assert changed_settings(Dates(), usual, is_sized=False) == {}
