"""Kept validations: the last ones, averaged into a run; the loss as deciding measure."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import training_parts as parts
from safetensors.torch import load_file
from small_runs import Cli, Train
from training_parts import StopAt, Stopped

from selfattn.errors import SettingError, UserError
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.load import average_kept, build_model, kept_name, kept_steps
from selfattn.runs.run import Run
from selfattn.runs.train import train as train_on
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Criterion
from selfattn.training.observer import EpochReport
from selfattn.training.weights import mean_of, named_weights

CONFIG = TrainingConfig(max_steps=8, batch_size=4, average="last", average_last=2, validate_every=1)


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfattn.runs.fit.commit", lambda: None)


def kept(run: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {file.name: load_file(file) for file in sorted((run / "kept").iterdir())}


def weights_in(run: Path, file: str) -> dict[str, torch.Tensor]:
    """Read a file of weights by the names of the model's tensors."""
    directory = RunDirectory(run)
    model = build_model(directory.config().model, directory.tokenizer(), 0)
    directory.load_weights(model, file)
    return named_weights(model)


def test_the_mean_of_kept_weights_is_the_average_of_the_training(tmp_path: Path) -> None:
    parts.fit_small(tmp_path / "run", CONFIG, keep=3)
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


def test_weights_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    config = replace(CONFIG, validate_every=2)
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", config, keep=2, observers=[StopAt(4, "validation_ended")])
    assert kept_steps(RunDirectory(tmp_path / "run")) == [2, 4]
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", config, keep=2, resume=True, observers=[StopAt(3)])
    assert kept_steps(RunDirectory(tmp_path / "run")) == [2]


def test_averages_are_refused_in_a_line(cli: Cli, runs: dict[str, Run], train: Train, tmp_path: Path) -> None:
    none = cli("average", runs["rnn-plain"].path, "--out", tmp_path / "a")
    assert "keeps no weights of its validations; train with --keep, such as --keep 5" in none.refusal()
    run = train("rnn-plain", tmp_path / "run", keep=5).path
    more = cli("average", run, "--last", 3, "--out", tmp_path / "a")
    assert "--last 3: expected 1 to 2, the validations that " in more.refusal()
    assert "expected 1 to 2" in cli("average", run, "--last", 0, "--out", tmp_path / "a").refusal()
    assert "already holds a run" in cli("average", run, "--out", run).refusal()
    assert "no such run directory" in cli("average", tmp_path / "absent").refusal()
    done = cli("average", run)
    assert done.code == 0, done.err
    assert "run-average: the mean of 2 validations, at steps 5, 10; try: selfattn evaluate " in done.err
    single = cli("average", run, "--last", 1, "--out", tmp_path / "single")
    assert "single: the weights of one validation, at step 10; try: " in single.err
    assert cli("predict", tmp_path / "run-average", stdin="1/2/03\n").code == 0
    file = run / kept_name(5)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="was changed or damaged"):
        average_kept(run, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_the_lowest_loss_decides(cli: Cli, train: Train, tmp_path: Path) -> None:
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
