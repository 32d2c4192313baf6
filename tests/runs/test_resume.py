"""A training that is stopped and goes on ends as if it had never stopped, bit for bit."""

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import training_parts as parts
from safetensors.torch import load_file
from training_parts import StopAt, Stopped

from selfattn.codec import write
from selfattn.errors import UserError
from selfattn.files import ASIDE
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.training.config import TrainingConfig

# 23 examples in batches of 4 are 6 batches, in steps of 2 batches 3 steps an epoch.
FORCED = TrainingConfig(epochs=3, batch_size=4, accumulate=2, lr=0.01, average="ema")  # a step is one pass
FULL = replace(FORCED, teacher_forcing=0.9, teacher_forcing_end=0.4)
LAST = TrainingConfig(max_steps=8, batch_size=4, average="last", average_last=2, validate_every=3)
KEPT = replace(LAST, validate_every=1)
CONFIGS = {
    "plain": TrainingConfig(epochs=2, batch_size=4, max_tokens=18),
    "two passes": TrainingConfig(max_steps=7, batch_size=8, r_drop=0.5, schedule="cosine", precision="bfloat16"),
    "patience": TrainingConfig(epochs=9, batch_size=8, lr=1e-8, patience=2, average="last"),
}


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes longest in a small training: asking git what the commit is."""
    monkeypatch.setattr("selfattn.runs.fit.commit", lambda: None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training FULL without a stop; not to be changed."""
    out = tmp_path_factory.mktemp("full") / "run"
    parts.fit_small(out, FULL)
    return out


@pytest.fixture(scope="module")
def full(finished: Path) -> dict[str, Any]:
    return parts.outcome(finished)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of that training."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


# What is trained, how, and where it is stopped: again and again where there are several places.
STOPS: dict[str, tuple[TrainingConfig, dict[str, Any], list[StopAt]]] = {
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
    "a stream": (replace(FORCED, max_steps=10, validate_every=4), {"stream": True, "save_every": 1}, [StopAt(3)]),
    "a stream's last epoch": (
        replace(FORCED, max_steps=10, validate_every=4),
        {"stream": True, "save_every": 1},
        [StopAt(8)],
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """What a training comes to that nothing stops."""

    @cache
    def of(config: TrainingConfig, **settings: Any) -> dict[str, Any]:
        out = tmp_path_factory.mktemp("whole") / "run"
        parts.fit_small(out, config, **settings)
        return parts.outcome(out)

    return of


@pytest.mark.parametrize("case", STOPS)
def test_a_stopped_training_goes_on_and_ends_the_same(
    tmp_path: Path, whole: Callable[..., dict[str, Any]], case: str
) -> None:
    config, settings, stops = STOPS[case]
    for number, stop in enumerate(stops):
        with pytest.raises(Stopped):
            parts.fit_small(tmp_path / "run", config, resume=number > 0, observers=[stop], **settings)
    watcher = StopAt(99)
    parts.fit_small(tmp_path / "run", config, resume=True, observers=[watcher], **settings)
    last = stops[-1]
    if settings.get("save_every") == 1 and last.event == "stepped":
        assert watcher.steps[0] == last.step  # and not at the beginning
    assert parts.outcome(tmp_path / "run") == whole(config, **settings)


def test_resuming_a_finished_run_is_a_success_that_says_so(
    run: Path, full: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    first = RunDirectory(run).config()
    again = parts.fit_small(run, FULL, resume=True)
    assert "run: this run is finished (finished); nothing is left to do" in capsys.readouterr().err
    assert again.config == first
    assert parts.outcome(run) == full
    with pytest.raises(UserError, match=r"begun with training\.seed = 0, now asked for 1"):
        parts.fit_small(run, replace(FULL, seed=1), resume=True)


@pytest.mark.parametrize("length", ["epochs", "max_steps"])
def test_a_finished_run_is_lengthened(tmp_path: Path, capsys: pytest.CaptureFixture[str], length: str) -> None:
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
def test_a_lengthened_run_killed_at_any_of_its_first_writes_is_lengthened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    short, long = replace(FORCED, epochs=1), replace(FORCED, epochs=2)
    for name in ("whole", "killed"):
        parts.fit_small(tmp_path / name, short)
    parts.fit_small(tmp_path / "whole", long, resume=True)
    move, count = os.replace, itertools.count(1)

    def die(aside: Path, path: Path) -> None:
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


def test_a_run_killed_after_its_last_step_is_ended(run: Path, full: dict[str, Any]) -> None:
    directory = RunDirectory(run)
    directory.write_record(replace(directory.record(), status="running"))
    watcher = StopAt(99)
    parts.fit_small(run, FULL, resume=True, observers=[watcher])
    assert watcher.steps == []
    assert parts.outcome(run) == full


def test_another_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", FORCED, observers=[StopAt(4)])
    path = tmp_path / "run" / "tokenizer" / "char.json"
    path.write_text(path.read_text().replace("i", "j"))
    with pytest.raises(UserError, match="tokenizer: not the tokenizer of these data"):
        parts.fit_small(tmp_path / "run", FORCED, resume=True)


def test_where_nothing_has_begun_it_begins(tmp_path: Path, full: dict[str, Any]) -> None:
    parts.fit_small(tmp_path / "new", FULL, resume=True)
    killed = RunDirectory(Path(shutil.copytree(tmp_path / "new", tmp_path / "killed")))
    record = replace(killed.record(), status="running", files={})  # as it is before the settings are written
    for name in ("config.json", "metrics.jsonl", "model.safetensors", "last"):
        remove = shutil.rmtree if name == "last" else os.remove
        remove(killed.path / name)
    write(killed.path / "run.json", record, checksum=True)
    (killed.path / "tokenizer" / f".char.json.7{ASIDE}").write_text("{")
    parts.fit_small(killed.path, FULL, resume=True)
    assert parts.outcome(tmp_path / "killed") == parts.outcome(tmp_path / "new") == full


def test_a_damaged_checkpoint_is_named_in_one_line(tmp_path: Path) -> None:
    for name, model in (("run", "transformer"), ("rnn", "rnn-attention")):
        with pytest.raises(Stopped):
            parts.fit_small(tmp_path / name, FORCED, model=model, save_every=2, observers=[StopAt(5)])
    path = tmp_path / "run" / CHECKPOINT
    for broken in (path.read_bytes()[:1000], b"", (tmp_path / "rnn" / CHECKPOINT).read_bytes()):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: ") as caught:
            parts.fit_small(tmp_path / "run", FORCED, resume=True)
        assert "\n" not in str(caught.value)


def test_the_last_and_the_best_weights_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter((2.0, 1.0, 3.0))
    monkeypatch.setattr(parts, "figures", lambda model, loss, _: {"perplexity": next(found)})
    parts.fit_small(tmp_path / "run", replace(FORCED, average="none"))
    best = load_file(tmp_path / "run" / "model.safetensors")
    kept = load_file(tmp_path / "run" / CHECKPOINT)
    names = {name for name in best if f"model/{name}" in kept}  # shared tensors may go by another name
    assert len(names) > 10
    assert all(torch.equal(kept[f"best/{name}"], best[name]) for name in names)
    assert any(not torch.equal(kept[f"model/{name}"], best[name]) for name in names)


def test_the_best_weights_are_known_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter((1.0, 2.0, 3.0) * 2)  # the first validation is the best
    monkeypatch.setattr(parts, "figures", lambda model, loss, _: {"perplexity": next(found)})
    parts.fit_small(tmp_path / "whole", FORCED)
    with pytest.raises(Stopped):
        parts.fit_small(tmp_path / "run", FORCED, observers=[StopAt(8)])
    run = parts.fit_small(tmp_path / "run", FORCED, resume=True)
    assert parts.outcome(tmp_path / "run") == parts.outcome(tmp_path / "whole")
    best = load_file(tmp_path / "whole" / "model.safetensors")
    assert all(torch.equal(run.model.state_dict()[name], weight) for name, weight in best.items())
