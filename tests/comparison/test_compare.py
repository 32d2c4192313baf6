"""The main job, small: every file it writes, every figure against its source; planted cheats are seen; costs."""

import json
import random
import shutil
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
import torch
from forging import differing

import selfattn
from selfattn.attention import layer
from selfattn.comparison import costs, trainings
from selfattn.comparison import testing as examine
from selfattn.comparison.analysis import ALL, Analysis
from selfattn.comparison.compare import compare
from selfattn.comparison.costs import by_turns, step_seconds
from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import PlannedModel
from selfattn.comparison.preparation import match_models, resolve_models
from selfattn.comparison.record import changed_settings
from selfattn.comparison.report import write_comparison
from selfattn.comparison.tested import Prediction, RunOutputs
from selfattn.comparison.testing import batch_shape, measure_cost
from selfattn.data.dates.source import DateSource, EmbeddedDates
from selfattn.data.pairs import Example, Pair, encode_pairs
from selfattn.errors import UserError
from selfattn.evaluation.buckets import ItemScores, by_tag
from selfattn.evaluation.cost import BatchShape, count_flops
from selfattn.evaluation.gates import overfitting
from selfattn.evaluation.metrics import WordErrorRate
from selfattn.models.build import body, build, parameters
from selfattn.models.config import override
from selfattn.models.families import PRESETS, get_preset
from selfattn.report.sections.quality import interval_note
from selfattn.report.verdict import badges, question, verdict
from selfattn.results.record import read_record
from selfattn.runs.directory import CURVE, METRICS, WEIGHTS, RunDirectory
from selfattn.runs.fit import _Keeper
from selfattn.runs.heads import layers_with_heads
from selfattn.runs.load import load
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.runs.task import TaskData
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import CurveReport
from selfattn.training.weights import ExponentialAverage

MODELS = ("rnn-plain", "rnn-attention", "transformer")
TEST_ITEMS = 20


@pytest.fixture(scope="module")
def compared(tmp_path_factory, tiny, small):
    out = tmp_path_factory.mktemp("compare") / "dates"
    settings = [f"{model}:{setting}" for model in MODELS for setting in small[model]]
    settings.append("transformer:decoder.num_layers=1")
    with pytest.MonkeyPatch.context() as patch:
        # Models as small as these need more steps to know anything by heart than a test has time for.
        patch.setattr(examine, "overfitting", partial(overfitting, steps=10))
        patch.setattr("selfattn.data.dates.source._PROBES", 5)
        options = {"seeds": 1, "test_items": TEST_ITEMS, "apart": True, "tune": False}
        compare("dates", models=MODELS, out=out, set=tuple(settings), **options, **tiny)
    return out, read_record(out / "results.json")


def test_the_files_of_a_comparison_and_the_page_on_which_its_models_answer(compared, tmp_path):
    out, record = compared
    reports = "demo.html packed.tar.xz report.html report.md results.json"
    plans = ".ledger.jsonl.lock .lock plan.json costs.json ledger.jsonl logs runs"
    assert {path.name for path in out.iterdir()} == {*plans.split(), *reports.split()}
    assert [model.run_dirs for model in record.models] == [(f"runs/{name}-seed0",) for name in MODELS]
    page = (out / "demo.html").read_text(encoding="utf-8")
    ranked = [model.name for model in sorted(record.models, key=lambda model: -model.metrics["exact_match"].mean)]
    assert sorted(MODELS, key=lambda name: page.index(f'"name":"{name}"')) == ranked
    assert record.demo
    assert '<a href="demo.html">' in (out / "report.html").read_text(encoding="utf-8")
    assert "(demo.html)" in (out / "report.md").read_text(encoding="utf-8")

    gone = shutil.copytree(out, tmp_path / "gone")  # a report can be made again without weights, its page cannot
    for weights in gone.rglob("*.safetensors"):
        weights.unlink()
    again, files = write_comparison(gone, tmp_path / "again")
    assert (again.demo, (tmp_path / "again" / "demo.html").exists()) == (False, False)
    assert "demo.html" not in files.html.read_text(encoding="utf-8")


def test_every_figure_is_that_of_the_runs_on_unseen_dates(compared):
    out, record = compared
    assert (record.task, record.test_items) == ("dates", TEST_ITEMS)
    assert (record.settings["locales"], record.settings["epochs"]) == (["en_US"], 2)
    costs = json.loads((out / "costs.json").read_text())["models"]
    pairs = DateSource(["en_US"], seed=0, split="test").pairs(TEST_ITEMS)
    for model in record.models:
        cost, run = costs[model.name], selfattn.load(out / model.run_dirs[0])
        outputs = run.predict([pair.source for pair in pairs])
        share = sum(o == pair.target for o, pair in zip(outputs, pairs, strict=True)) / TEST_ITEMS
        assert (model.metrics["exact_match"].runs, model.metrics["exact_match"].mean) == ((share,), share)
        assert model.parameters == RunDirectory(run.path).record().parameters
        assert model.attention == PRESETS[model.name].attention
        (curve,) = model.curves
        assert len(curve.points) == 10
        assert model.timing.train_seconds.runs == (cost["step_seconds"] * curve.points[-1].step,)
        assert model.timing.predict_ms.runs == (cost["predict_ms"],)
        assert model.timing.predict_batch_ms.runs == (cost["predict_batch_ms"],)
    parts = {group.name: group.buckets for group in record.buckets}
    assert sum(part.items for part in parts["format"]) == TEST_ITEMS
    assert all(set(part.models) == set(MODELS) for group in parts.values() for part in group)
    assert {(pair.first, pair.second) for pair in record.pairs} == {*combinations(MODELS, 2)}
    assert 0 < len(record.differences) <= 40
    for difference in record.differences:
        assert difference.source in {pair.source for pair in pairs}
        assert set(difference.predictions) == set(MODELS)
        assert len(set(difference.predictions.values())) > 1


def test_a_run_is_the_same_alone_and_in_a_comparison(compared, train, small, tmp_path):
    out, _ = compared
    for model, more in (("transformer", ("decoder.num_layers=1",)), ("rnn-plain", ())):
        alone = train(model, tmp_path / model, set=(*small[model], *more))
        inside = selfattn.load(out / "runs" / f"{model}-seed0")
        assert replace(alone.config, options=inside.config.options, made_by="compare") == inside.config
        there = inside.model.state_dict()
        assert all(torch.equal(there[name], weight) for name, weight in alone.model.state_dict().items())


def test_attention_of_both_families_stands_beside_the_gold_spans(compared):
    examples = compared[1].attention.examples
    assert len({example.format for example in examples}) == len(examples) == 2
    for example in examples:
        assert set(example.models) == {"rnn-attention", "transformer"}
        assert {span.field for span in example.gold} == {"year", "month", "day"}
        for shown in example.models.values():
            assert [*shown.source_tokens] == [*example.source, "<eos>"]
            assert [*shown.target_tokens] == [*shown.prediction, "<eos>"]
            assert {one.kind for one in shown.maps} == {"cross", "blocking", "gradient"}
            for one in shown.maps:
                assert all(0 <= weight <= 1 for row in one.weights for weight in row)
                sums = [sum(row) for row in one.weights if one.kind != "blocking"]  # whose cells stand alone
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
    small = ("encoder.dim=16", "decoder.dim=16", "encoder.num_layers=1")
    record, files = compare("dates", models=("transformer-delta",), set=small, out=tmp_path / "out", **training)
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


def test_dates_of_one_day_are_one_item(finished, tmp_path, monkeypatch):
    """A test that is short of days gives no narrow intervals, and says so."""
    plain = read_record(finished / "results.json")
    monkeypatch.setattr(Dates, "repeats", lambda self, pair: pair.target[:2])
    record, files = write_comparison(finished, tmp_path / "centuries")
    assert (record.interval.repeated, plain.interval.repeated) == (18, 0)
    items = record.test_items
    assert f"{items} items in {items - 18} clusters" in " ".join(files.markdown.read_text().split())
    assert f"(항목 {items}개, 묶음 {items - 18}개)" in interval_note(record).say("ko")


@pytest.mark.usefixtures("no_page")
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

    with pytest.raises(UserError, match=r"parameters outside embeddings: transformer has .*`apart`"):
        compare("dates", out=tmp_path / "out", **TOO_LARGE)
    assert not (tmp_path / "out").exists()
    known = [pair for split in ("train", "test") for pair in DateSource(["en_US"], seed=0, split=split).pairs(20)]
    monkeypatch.setattr(layer.MultiHeadAttention, "attend_with", staticmethod(leaky))
    monkeypatch.setattr(Run, "decode", collapsed)
    monkeypatch.setattr(EmbeddedDates, "test", lambda self, count: known)
    record, _ = compare("dates", out=tmp_path / "out", apart=True, **TOO_LARGE)
    caught, honest = (
        {(gate.name, gate.model) for gate in one.gates if not gate.passed}
        for one in (record, read_record(finished / "results.json"))
    )
    assert {("causal", "transformer"), ("variety", "transformer"), ("overlap", "")} <= caught
    assert ("causal", "rnn-attention") not in caught
    assert not {"causal", "overlap"} & {name for name, _ in honest}
    (overlap,) = [gate for gate in record.gates if gate.name == "overlap"]
    assert overlap.value == pytest.approx(0.5)
    (sizes,) = [gate for gate in record.gates if gate.name == "matched budgets"]
    assert "asked for" in sizes.reason
    assert "ot comparable" in (tmp_path / "out/report.md").read_text().partition("|")[0]


def test_changed_models_stand_on_the_first_screen_and_are_not_called_by_the_name_of_their_preset(finished):
    record = read_record(finished / "results.json")
    first, second = record.models
    alone = replace(second, changes={**second.changes, "decoder.score": "additive"}, preset="luong-bidirectional")
    usual = replace(record, models=tuple(replace(model, changes={}) for model in record.models))
    changed, other, none = (
        {badge.text.say("en") for badge in badges(one)}
        for one in (record, replace(record, models=(first, alone)), usual)
    )
    assert "all models changed: decoder.hidden_dim 8, encoder.hidden_dim 8" in changed
    assert {"rnn-attention alone changed: decoder.score additive", "rnn-attention is a luong-bidirectional"} <= other
    assert not any("changed" in text for text in none)
    assert question(record).say("en").startswith("Do")
    assert "the RNN with attention" not in verdict(record).lead.say("en")
    assert "the RNN with attention" in verdict(usual).lead.say("en")


def test_widths_that_were_chosen_to_match_are_no_changes():
    config = override(PRESETS["transformer"].config, {"encoder.dim": 64, "encoder.position": "rotary"})
    planned = PlannedModel("transformer", config)
    assert changed_settings(Dates(), planned, is_sized=True) == {"encoder.position": "rotary"}
    assert changed_settings(Dates(), planned, is_sized=False) == {"encoder.dim": "64", "encoder.position": "rotary"}
    usual = replace(planned, config=Dates().size(PRESETS["transformer"].config))
    assert changed_settings(Dates(), usual, is_sized=False) == {}


# Points between validations, heads, further test sets


def test_points_between_validations_change_no_bit(finished, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(trainings, "_CURVE_POINTS", 0)
    one = settings | {"models": MODELS[:1], "seeds": 1, "budgets": (1.0,)}
    record, _ = compare("dates", out=tmp_path / "out", **one)
    (run,) = record.models[0].run_dirs
    with_points, without = (RunDirectory(folder / run) for folder in (finished, tmp_path / "out"))
    assert with_points.record().files[WEIGHTS] == without.record().files[WEIGHTS]
    assert [report.measures for report in with_points.metrics()] == [r.measures for r in without.metrics()]
    assert not (without.path / CURVE).exists()
    drawn = read_record(finished / "results.json")
    assert drawn.settings["curve_items"] == 100
    assert "curve_items" not in record.settings
    points = drawn.models[0].curves[0].points
    assert [point.step for point in points] == list(range(1, 9))  # of 8 steps, validations after 4 and 8
    assert all(point.valid is not None for point in points)
    assert [point.step for point in points if point.valid_loss is not None] == [4, 8]


def test_points_behind_the_checkpoint_are_measured_again(copy):
    directory = RunDirectory(copy / "runs" / "rnn-plain-seed5")
    assert [point.step for point in directory.curve()] == list(range(1, 8))
    keeper = _Keeper(directory, is_new=False, keep=0)
    keeper.resumed(5, (), None)
    keeper.measured(CurveReport(1, 6, 60, 1.0, 0.5))
    assert [point.step for point in directory.curve()] == list(range(1, 7))
    assert (directory.path / METRICS).is_file()


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("transformer", True), ("rnn-attention", True), ("decoder-only", True), ("rnn-plain", False),
        ("transformer-linear", False),
    ],
)  # fmt: skip
def test_which_models_have_heads_that_can_be_left_out(preset, expected, tmp_path):
    """In a decoder, linear attention computes all heads in one state."""
    model = build(preset, vocab_size=11).eval()
    config = RunConfig("dates", preset, get_preset(preset).config, TrainingConfig(), {}, 8)
    assert bool(layers_with_heads(Run(tmp_path, config, model, CharTokenizer("abcdefg")))) is expected


@pytest.mark.slow
def test_heads_of_the_first_seed_are_scored(tmp_path):
    """Of a comparison that is not quick, where heads can be left out alone."""
    settings = {"epochs": 1, "items_per_epoch": 32, "batch_size": 16, "validation_items": 6, "test_items": 6}
    models = ("transformer", "transformer-linear", "rnn-plain", "rnn-attention")
    record, files = compare("dates", out=tmp_path / "out", models=models, seeds=2, tune=False, jobs=1, **settings)
    scored = {model.name: model.heads for model in record.models if model.heads}
    assert list(scored) == ["transformer", "rnn-attention"]
    heads = scored["transformer"]
    assert (heads.items, heads.to, len(heads.heads)) == (6, "zero", 12)
    assert all(head.difference == pytest.approx(head.score - heads.score) for head in heads.heads)
    for page in (files.html, files.html.with_suffix(".md")):
        assert "decoder.layers.0.cross_attn" in page.read_text()
    assert differing(tmp_path / "out") == []


PAIRS = [Pair(f"s{n}", f"t{n}", tag="xyz"[n % 3]) for n in range(90)]


def outputs_of(seed, right):
    chance = random.Random(f"{seed}/{right}")
    texts = [pair.target if chance.random() < right else "-" for pair in PAIRS]
    answers = [Prediction(p.source, p.target, p.tag, (), text, True) for p, text in zip(PAIRS, texts, strict=True)]
    return RunOutputs(seed, False, answers, {}, {})


def groups():
    runs = {name: [outputs_of(seed, right) for seed in range(4)] for name, right in (("good", 0.9), ("poor", 0.3))}
    analysis = Analysis(WordErrorRate(), TaskData(), tunings=None, failed={})
    return analysis.further("gen", runs)


def test_a_further_set_has_a_table_for_each_metric_with_tests_of_the_models():
    first, second = groups()
    assert [first.metric, second.metric] == ["word_error_rate", "phone_error_rate"]
    complete, *tags = first.buckets
    assert (complete.name, complete.items) == (ALL, 90)
    assert complete.pairs[0].word == "better"
    assert [(tag.name, tag.items, tag.pairs) for tag in tags] == [("x", 30, ()), ("y", 30, ()), ("z", 30, ())]


def test_intervals_of_groups_hold_together():
    runs = {"good": [outputs_of(seed, 0.9).texts for seed in range(4)]}
    scores = ItemScores(WordErrorRate(), WordErrorRate().count_runs(runs, PAIRS))
    together = [bucket.models["good"] for bucket in groups()[0].buckets[1:]]
    assert together == [bucket.models["good"] for bucket in scores.parts(by_tag(PAIRS), alpha=0.05 / 3)]
    for bucket, corrected in zip(scores.parts(by_tag(PAIRS)), together, strict=True):
        narrow = bucket.models["good"]
        assert narrow.mean == corrected.mean
        assert (corrected.low or 0) < (narrow.low or 0)


@pytest.mark.slow
def test_a_comparison_names_the_set_that_decides_and_verifies(tmp_path):
    def table(name, numbers):
        """More kinds of words than the source has; even and odd numbers are tagged."""
        words = {n: " ".join(digit + "ab"[place % 2] for place, digit in enumerate(str(n))) for n in numbers}
        rows = (f"{n}\t{text}\t{'odd' if n % 2 else 'even'}\n" for n, text in words.items())
        (tmp_path / name).write_text("".join(rows))
        return tmp_path / name

    files = {"data": table("train.tsv", range(1000, 1400)), "valid": table("valid.tsv", range(1400, 1440))}
    tests = (f"iid={table('a.tsv', range(1440, 1480))}", f"gen={table('b.tsv', range(20000, 20030))}")
    record, _ = compare(
        "translation", source="und", target="und", test=tests, tag="3", source_tokenizer="characters",
        target_tokenizer="words", models=("rnn-attention", "rnn-plain"), seeds=1, epochs=1, tune=False,
        set=("encoder.hidden_dim=16", "decoder.hidden_dim=16"), out=tmp_path / "out", jobs=1, **files,
    )  # fmt: skip
    assert json.loads((tmp_path / "out/plan.json").read_text())["test_set"] == "iid"
    assert record.test_items == 40
    further = [group for group in record.buckets if group.name == "gen"]
    assert [bucket.items for bucket in further[0].buckets] == [30, 15, 15]
    assert "### Test set gen" in (tmp_path / "out/report.md").read_text("utf-8")
    assert differing(tmp_path / "out") == []


# What models take: time by turns and in a whole step, parameters of a body, operations of a training


def test_all_are_asked_in_every_turn_and_the_first_turns_do_not_count(monkeypatch):
    monkeypatch.setattr(costs, "_WARM_UP", 2)
    ask = Mock()
    taken = by_turns({name: partial(ask, name) for name in "ab"}, 3)
    assert ask.call_args_list == [call(name, turn) for turn in (-2, -1, 0, 1, 2) for name in "ab"]
    assert min(taken.values()) >= 0


def test_a_timed_step_is_one_of_the_training(monkeypatch):
    """Of as many batches as are accumulated, with the average of the weights, halfway through the schedule."""
    steps, averaged, take = [], [], costs.take_steps

    def spy(stepper, groups, *, first, total_steps, **more):
        def counted():
            for group in groups:
                steps.append((len(group), first / total_steps, replace(stepper.config, lr=0.1)))
                yield group

        return take(stepper, counted(), first=first, total_steps=total_steps, **more)

    monkeypatch.setattr(costs, "take_steps", spy)
    monkeypatch.setattr(ExponentialAverage, "stepped", lambda self: averaged.append(1))
    training = TrainingConfig(
        accumulate=3, clip_norm=0.5, average="ema", warmup_steps=5000, lr=0.1, r_drop=0.5, precision="bfloat16",
        batch_size=2,
    )  # fmt: skip
    data = SimpleNamespace(tokenizer=range(11), validation=[Example([1] * 3, [1] * 5)])
    options = SimpleNamespace(device="auto")
    trainings = SimpleNamespace(recipe=training, first_seed=0, options=options, data=lambda _: (data,))
    before, config = torch.get_rng_state(), PRESETS["transformer"].config
    seconds = step_seconds({"a": (config, training), "b": (config, training)}, trainings)
    assert min(seconds.values()) > 0
    assert steps == [(3, 0.5, training)] * (2 * (costs._STEPS + costs._WARM_UP))
    assert len(averaged) == len(steps)
    assert torch.equal(before, torch.get_rng_state())


def test_a_comparison_computes_where_it_is_told_to(cli, tmp_path):
    done = cli("compare", "dates", "--device", "cuda", "--quick", "--out", tmp_path / "out", "--plan-only")
    if not torch.cuda.is_available():
        assert (done.code, done.err) == (2, "error: --device cuda: torch sees no CUDA device; take cpu\n")


# An output matrix of its own is outside embeddings and yet no model: bodies are counted without it

ONE_LAYER = {"encoder.num_layers": 1, "decoder.num_layers": 1}
ONE_LAYERED = {name: override(PRESETS[name].config, ONE_LAYER) for name in ("rnn-attention", "transformer")}
UNTIED = {name: override(Translation(data="a.tsv").size(config), ONE_LAYER) for name, config in ONE_LAYERED.items()}


def sized(models=UNTIED, **options):
    given = CompareOptions(models=tuple(UNTIED), out=Path("none"), **options)
    return match_models(models, given, vocab_size=8_000, training=TrainingConfig(), shape=BatchShape(4, 5, 6))


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_body_has_no_axis_over_the_vocabulary(name):
    config = PRESETS[name].config
    counts = [parameters(config, words) for words in (40, 41, 1000)]
    assert counts[0] - 40 * (counts[1] - counts[0]) == body(config) == counts[2] - 1000 * (counts[1] - counts[0])


def test_an_untied_output_matrix_does_not_pass_for_a_model():
    """Both have 1.3 M outside embeddings; of the RNN's, nine tenths are the output matrix."""
    assert not UNTIED["rnn-attention"].tie_output
    with pytest.raises(UserError, match=r"outside embeddings.*vocabulary transformer has 1272.*`match` body"):
        sized(match="parameters")
    found, matching = sized(match="parameters", apart=True)
    assert max(matching.counts.values()) / min(matching.counts.values()) < 1.02
    assert body(found["transformer"]) > 10 * body(found["rnn-attention"])
    found, matching = sized(match="none", apart=True)
    assert (found, matching.budget, matching.target) == (UNTIED, "none", None)
    with pytest.raises(UserError, match="`apart` compares them all the same"):
        sized(match="none")
    found, matching = sized(match="body")
    assert matching.counts == {name: body(config) for name, config in found.items()}
    for counts in (matching.counts, sized(ONE_LAYERED, match="flops")[1].counts):
        assert max(counts.values()) / min(counts.values()) < 1.02


def test_both_passes_of_r_drop_and_padding_are_counted(finished):
    run = load(finished / "runs" / "rnn-plain-seed5")
    reports = RunDirectory(run.path).metrics()
    tests = SimpleNamespace(validation=Dates().splits(5, 5).validation(5))
    shape = batch_shape(encode_pairs(tests.validation, run.tokenizer), run.config.training)
    bare = count_flops(run.model, shape).training / (shape.batch * shape.target)
    once = measure_cost(run, tests, thorough=False)
    first, last = reports
    tokens = first.tokens / (1 - first.padding) + (last.tokens - first.tokens) / (1 - last.padding)
    assert min(first.padding, last.padding) > 0
    assert once.training_flops == pytest.approx(bare * tokens)
    run.config = replace(run.config, training=replace(run.config.training, r_drop=1.0))
    twice = measure_cost(run, tests, thorough=False)
    assert twice.training_flops == pytest.approx(2 * bare * tokens)
    assert twice.training_flops_per_token == pytest.approx(2 * once.training_flops_per_token)
