"""A training that is stopped and goes on ends as if it had never stopped, bit for bit; kept weights are averaged."""

import itertools
import os
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
import training_parts as parts
from safetensors.torch import load_file
from training_parts import StopAt, Stopped

from selfattn.codec import write
from selfattn.errors import SettingError, UserError
from selfattn.files import ASIDE
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.load import average_kept, build_model, kept_name, kept_steps
from selfattn.runs.train import train as train_on
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Criterion
from selfattn.training.observer import EpochReport
from selfattn.training.weights import mean_of, named_weights

# 23 examples in batches of 4 are 6 batches, in steps of 2 batches 3 steps an epoch.
FORCED = TrainingConfig(epochs=3, batch_size=4, accumulate=2, lr=0.01, average="ema")  # a step is one pass
FULL = replace(FORCED, teacher_forcing=0.9, teacher_forcing_end=0.4)
LAST = TrainingConfig(max_steps=8, batch_size=4, average="last", average_last=2, validate_every=3)
KEPT = replace(LAST, validate_every=1)
STREAM = replace(FORCED, max_steps=10, validate_every=4)
CONFIGS = {
    "plain": TrainingConfig(epochs=2, batch_size=4, max_tokens=18),
    "two passes": TrainingConfig(max_steps=7, batch_size=8, r_drop=0.5, schedule="cosine", precision="bfloat16"),
    "patience": TrainingConfig(epochs=9, batch_size=8, lr=1e-8, patience=2, average="last"),
}


@pytest.fixture(autouse=True)
def _no_git(monkeypatch):
    """Leave out what takes longest in a small training: asking git what the commit is."""
    monkeypatch.setattr("selfattn.runs.fit.commit", lambda: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of a training that nothing stops; not to be changed."""

    @cache
    def of(config, **settings):
        return parts.fit_small(tmp_path_factory.mktemp("whole") / "run", config, **settings).path

    return of


@pytest.fixture
def run(whole, tmp_path):
    """A copy of the training FULL."""
    return Path(shutil.copytree(whole(FULL), tmp_path / "run"))


# What is trained, how, and where it is stopped: again and again where there are several places.
STOPS = {
    "before the first checkpoint": (FULL, {"save_every": 2}, [StopAt(1)]),
    "scheduled sampling": (FULL, {"save_every": 2}, [StopAt(3)]),
    "before the last step": (FULL, {"save_every": 2}, [StopAt(8)]),
    "rnn-attention": (FULL, {"save_every": 1, "model": "rnn-attention"}, [StopAt(1), StopAt(4), StopAt(8)]),
    "decoder-only": (FULL, {"save_every": 1, "model": "decoder-only"}, [StopAt(1), StopAt(4), StopAt(8)]),
    "plain": (CONFIGS["plain"], {"save_every": 2}, [StopAt(14)]),
    "two passes": (CONFIGS["two passes"], {"save_every": 2}, [StopAt(3)]),
    "patience": (CONFIGS["patience"], {"save_every": 2}, [StopAt(9)]),
    "last weights": (LAST, {"save_every": 2}, [StopAt(4)]),
    # Metrics and weights are written, and the checkpoint, perhaps the first one, is not.
    "behind the first validation": (FULL, {}, [StopAt(3, "validated")]),
    "behind a validation": (FULL, {}, [StopAt(6, "validated")]),
    # The checkpoint is that of the last step: no epoch begins again that would plan the validations.
    "in the last validation": (LAST, {"save_every": 1}, [StopAt(8, "validated")]),
    "kept weights": (KEPT, {"keep": 3}, [StopAt(2), StopAt(4, "validation_ended"), StopAt(5)]),
    "the last kept weights": (KEPT, {"keep": 3}, [StopAt(8, "validation_ended")]),
    "a stream": (STREAM, {"stream": True, "save_every": 1}, [StopAt(3)]),
    "a stream's last epoch": (STREAM, {"stream": True, "save_every": 1}, [StopAt(8)]),
}


@pytest.mark.parametrize("case", STOPS)
def test_a_stopped_training_goes_on_and_ends_the_same(tmp_path, whole, case):
    config, settings, stops = STOPS[case]
    for number, stop in enumerate(stops):
        with pytest.raises(Stopped):
            parts.fit_small(tmp_path / "run", config, resume=number > 0, observers=[stop], **settings)
    watcher = StopAt(99)
    parts.fit_small(tmp_path / "run", config, resume=True, observers=[watcher], **settings)
    last = stops[-1]
    if settings.get("save_every") == 1 and last.event == "stepped":
        assert watcher.steps[0] == last.step  # and not at the beginning
    assert parts.outcome(tmp_path / "run") == parts.outcome(whole(config, **settings))


def test_resuming_a_finished_run_is_a_success_that_says_so(run, capsys):
    first, outcome = RunDirectory(run).config(), parts.outcome(run)
    again = parts.fit_small(run, FULL, resume=True)
    assert "run: this run is finished (finished); nothing is left to do" in capsys.readouterr().err
    assert again.config == first
    assert parts.outcome(run) == outcome
    with pytest.raises(UserError, match=r"begun with training\.seed = 0, now asked for 1"):
        parts.fit_small(run, replace(FULL, seed=1), resume=True)
    directory = RunDirectory(run)  # killed after its last step
    directory.write_record(replace(directory.record(), status="running"))
    watcher = StopAt(99)
    parts.fit_small(run, FULL, resume=True, observers=[watcher])
    assert watcher.steps == []
    assert parts.outcome(run) == outcome


@pytest.mark.parametrize("length", ["epochs", "max_steps"])
def test_a_finished_run_is_lengthened(tmp_path, capsys, length):
    short = replace(FORCED, schedule="cosine", max_steps=7 if length == "max_steps" else None)
    long = replace(short, **{length: 2 * getattr(short, length)})
    watcher = StopAt(99)
    parts.fit_small(tmp_path / "run", short)
    parts.fit_small(tmp_path / "run", long, resume=True, observers=[watcher])
    before, after = (short.max_steps, long.max_steps) if short.max_steps and long.max_steps else (9, 18)
    assert watcher.steps == list(range(before + 1, after + 1))
    assert watcher.begun == [(None if long.max_steps else 6, after)]
    directory = RunDirectory(tmp_path / "run")
    assert (directory.config().training, directory.record().status) == (long, "finished")
    assert directory.record().command.endswith(" --resume")
    lines = directory.metrics()
    parts.fit_small(tmp_path / "new", long)
    new = RunDirectory(tmp_path / "new").metrics()
    assert [line.step for line in lines][-1] == new[-1].step == after
    assert lines[-1].lr == new[-1].lr  # the longer schedule
    assert "the result is not that of" in capsys.readouterr().err
    (tmp_path / "run" / CHECKPOINT).unlink()
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: no such file; start a new training"):
        parts.fit_small(tmp_path / "run", replace(long, **{length: 99}), resume=True)
    with pytest.raises(UserError, match=rf"begun with training\.{length} = "):
        parts.fit_small(tmp_path / "run", short, resume=True)


@pytest.mark.parametrize("place", range(1, 6))
def test_a_lengthened_run_killed_at_any_of_its_first_writes_is_lengthened_again(tmp_path, monkeypatch, place):
    short, long = replace(FORCED, epochs=1), replace(FORCED, epochs=2)
    for name in ("whole", "killed"):
        parts.fit_small(tmp_path / name, short)
    parts.fit_small(tmp_path / "whole", long, resume=True)
    move, count = os.replace, itertools.count(1)

    def die(aside, path):
        if next(count) >= place:
            raise Stopped
        move(aside, path)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", die)
        with pytest.raises(Stopped):
            parts.fit_small(tmp_path / "killed", long, resume=True)
    parts.fit_small(tmp_path / "killed", long, resume=True)
    assert parts.outcome(tmp_path / "killed") == parts.outcome(tmp_path / "whole")
    assert RunDirectory(tmp_path / "killed").record().command.count(" && ") == 1


def test_another_tokenizer_is_named(tmp_path):
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", FORCED, observers=[StopAt(4)])
    path = tmp_path / "run" / "tokenizer" / "char.json"
    path.write_text(path.read_text().replace("i", "j"))
    with pytest.raises(UserError, match="tokenizer: not the tokenizer of these data"):
        parts.fit_small(tmp_path / "run", FORCED, resume=True)


def test_where_nothing_has_begun_it_begins(run, tmp_path):
    outcome, killed = parts.outcome(run), RunDirectory(run)
    parts.fit_small(tmp_path / "new", FULL, resume=True)
    record = replace(killed.record(), status="running", files={})  # as it is before the settings are written
    for name in ("config.json", "metrics.jsonl", "model.safetensors", "last"):
        remove = shutil.rmtree if name == "last" else os.remove
        remove(run / name)
    write(run / "run.json", record, checksum=True)
    (run / "tokenizer" / f".char.json.7{ASIDE}").write_text("{")
    parts.fit_small(run, FULL, resume=True)
    assert parts.outcome(run) == parts.outcome(tmp_path / "new") == outcome


def test_a_damaged_checkpoint_is_named_in_one_line(tmp_path):
    for name, model in (("run", "transformer"), ("rnn", "rnn-attention")):
        with pytest.raises(Stopped):
            parts.fit_small(tmp_path / name, FORCED, model=model, save_every=2, observers=[StopAt(5)])
    path = tmp_path / "run" / CHECKPOINT
    for broken in (path.read_bytes()[:1000], b"", (tmp_path / "rnn" / CHECKPOINT).read_bytes()):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: ") as caught:
            parts.fit_small(tmp_path / "run", FORCED, resume=True)
        assert "\n" not in str(caught.value)


def test_the_last_and_the_best_weights_are_both_kept(tmp_path, monkeypatch):
    found = iter((2.0, 1.0, 3.0))
    monkeypatch.setattr(parts, "figures", lambda model, loss, _: {"perplexity": next(found)})
    parts.fit_small(tmp_path / "run", replace(FORCED, average="none"))
    best = load_file(tmp_path / "run" / "model.safetensors")
    kept = load_file(tmp_path / "run" / CHECKPOINT)
    names = {name for name in best if f"model/{name}" in kept}  # shared tensors may go by another name
    assert len(names) > 10
    assert all(torch.equal(kept[f"best/{name}"], best[name]) for name in names)
    assert any(not torch.equal(kept[f"model/{name}"], best[name]) for name in names)


def test_the_best_weights_are_known_after_a_stop(tmp_path, monkeypatch):
    found = iter((1.0, 2.0, 3.0) * 2)  # the first validation is the best
    monkeypatch.setattr(parts, "figures", lambda model, loss, _: {"perplexity": next(found)})
    parts.fit_small(tmp_path / "whole", FORCED)
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", FORCED, observers=[StopAt(8)])
    run = parts.fit_small(tmp_path / "run", FORCED, resume=True)
    assert parts.outcome(tmp_path / "run") == parts.outcome(tmp_path / "whole")
    best = load_file(tmp_path / "whole" / "model.safetensors")
    assert all(torch.equal(run.model.state_dict()[name], weight) for name, weight in best.items())


# Kept validations: the last ones, averaged into a run; the loss as deciding measure

AVERAGED = TrainingConfig(max_steps=8, batch_size=4, average="last", average_last=2, validate_every=1)


def kept(run):
    return {file.name: load_file(file) for file in sorted((run / "kept").iterdir())}


def weights_in(run, file):
    """Read a file of weights by the names of the model's tensors."""
    directory = RunDirectory(run)
    model = build_model(directory.config().model, directory.tokenizer(), 0)
    directory.load_weights(model, file)
    return named_weights(model)


def test_the_mean_of_kept_weights_is_the_average_of_the_training(tmp_path):
    parts.fit_small(tmp_path / "run", AVERAGED, keep=3)
    assert list(kept(tmp_path / "run")) == [f"step-0000000{step}.safetensors" for step in (6, 7, 8)]
    listed = {name for name in RunDirectory(tmp_path / "run").record().files if name.startswith("kept/")}
    assert listed == {kept_name(step) for step in (6, 7, 8)}
    file = CheckpointFile(tmp_path / "run" / CHECKPOINT)
    state = file.parse(file.read() or b"")
    average = state.part("average")
    history = [{name[2:]: tensor for name, tensor in average.items() if name[0] == place} for place in "01"]
    assert average_kept(tmp_path / "run", tmp_path / "mean", last=2) == [7, 8]
    averaged = weights_in(tmp_path / "mean", "model.safetensors")
    for name, tensor in mean_of(history).items():
        assert torch.equal(averaged[name], tensor), name
    last = weights_in(tmp_path / "run", kept_name(8))
    assert all(torch.equal(tensor, last[name]) for name, tensor in state.part("model").items())
    record = RunDirectory(tmp_path / "mean").record()
    assert (record.averaged, record.status) == ((7, 8), "finished")
    assert record.command.endswith("mean --last 2")


def test_weights_after_the_checkpoint_are_dropped(tmp_path):
    config = replace(AVERAGED, validate_every=2)
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", config, keep=2, observers=[StopAt(4, "validation_ended")])
    assert kept_steps(RunDirectory(tmp_path / "run")) == [2, 4]
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", config, keep=2, resume=True, observers=[StopAt(3)])
    assert kept_steps(RunDirectory(tmp_path / "run")) == [2]


def test_averages_are_refused_in_a_line(cli, runs, train, tmp_path):
    none = cli("average", runs["rnn-plain"].path, "--out", tmp_path / "a")
    assert "keeps no weights of its validations; train with --keep, such as --keep 5" in none.refusal()
    run = train("rnn-plain", tmp_path / "run", keep=5).path
    more = cli("average", run, "--last", 3, "--out", tmp_path / "a")
    assert "--last 3: expected 1 to 2, the validations that " in more.refusal()
    assert "expected 1 to 2" in cli("average", run, "--last", 0, "--out", tmp_path / "a").refusal()
    assert "already holds a run" in cli("average", run, "--out", run).refusal()
    assert "no such run directory" in cli("average", tmp_path / "absent").refusal()
    done = cli("average", run).success()
    assert "run-average: the mean of 2 validations, at steps 5, 10; try: selfattn evaluate " in done.err
    single = cli("average", run, "--last", 1, "--out", tmp_path / "single")
    assert "single: the weights of one validation, at step 10; try: " in single.err
    cli("predict", tmp_path / "run-average", stdin="1/2/03\n").success()
    file = run / kept_name(5)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="was changed or damaged"):
        average_kept(run, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_the_lowest_loss_decides(cli, train, tmp_path):
    criterion = Criterion(lambda model, loss, processes: {"accuracy": loss}, "accuracy", part=lambda model, all: 0.0)
    low, high = (EpochReport(1, 2, 3, 4.0, 5.0, loss, 7.0, 8.0, {"accuracy": loss}) for loss in (1.0, 2.0))
    assert criterion.value(high) > criterion.value(low)
    assert criterion.by_loss().value(low) > criterion.by_loss().value(high)
    assert criterion.by_loss().part is None

    small = {"epochs": 2, "items_per_epoch": 32, "batch_size": 16, "validation_items": 8}
    with pytest.raises(UserError, match="`target_exact_match`: loss chooses the best weights here"):
        train("rnn-plain", tmp_path / "target", metric="loss", training=small | {"target_exact_match": 0.5})
    assert train("rnn-plain", tmp_path / "loss", metric="loss", training=small).config.metric == "loss"
    with pytest.raises(UserError, match=r"begun with metric = 'loss', now asked for nothing"):
        train("rnn-plain", tmp_path / "loss", training=small | {"epochs": 3}, resume=True)
    same = train("rnn-plain", tmp_path / "same", metric="exact_match", training=small)
    assert same.config.metric is None  # the first metric of the task
    with pytest.raises(SettingError, match="`metric`: perplexity decides for a language model, as its loss would"):
        train_on("lm", out=tmp_path / "lm", metric="loss")
    unknown = cli("train", "dates", "--metric", "los", "--out", tmp_path / "los")
    assert "metric 'los' is not known" in unknown.refusal()
    assert "loss is the lowest validation loss" in unknown.err
