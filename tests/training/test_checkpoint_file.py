"""A checkpoint's file and what is counted in it, by hand."""

import time

import pytest
import torch

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.errors import UserError
from selfattn.training import checkpoint as module
from selfattn.training.checkpoint import Checkpoint, CheckpointFile, TrainingProgress


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


def test_a_fiftieth_of_the_time_goes_into_checkpoints(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    file = CheckpointFile(tmp_path / "new" / "c.safetensors")
    clock.now = 129.0
    assert not file.is_due(1)
    clock.now = 130.0  # half a minute at least
    assert file.is_due(1)

    def slow(path, write):
        clock.now += 2.0

    monkeypatch.setattr(module, "write_atomically", slow)
    file.write(Checkpoint({}, TrainingProgress(), ()))  # takes 2 seconds: the next 100 seconds behind it
    clock.now = 231.0
    assert not file.is_due(2)
    clock.now = 232.0
    assert file.is_due(2)


def test_what_is_written_is_read_and_damage_is_told(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="`save_every`: expected a whole number of at least 1, got 0"):
        CheckpointFile(tmp_path / "c", every=0)
    file = CheckpointFile(tmp_path / "new" / "folder" / "c.safetensors", every=1)
    assert file.is_due(1)
    assert file.read() is None
    tensors = {"model/a": torch.arange(3.0).requires_grad_(), "model/b/c": torch.ones(2, 3).T, "best/a": torch.zeros(1)}
    file.write(Checkpoint(tensors, TrainingProgress(epoch=2, step=7, lr=0.5), ()))
    data = file.read()
    found = file.parse(data)
    assert found.progress == TrainingProgress(epoch=2, step=7, lr=0.5)
    assert found.part("model").keys() == {"a", "b/c"}
    assert torch.equal(found.part("model")["b/c"], torch.ones(3, 2))
    assert torch.equal(found.part("model")["a"], torch.arange(3.0))
    with pytest.raises(UserError, match=r"not a complete checkpoint \(its checksum differs"):
        file.parse(data[:-1] + b"\x40")
    with pytest.raises(UserError, match="not a complete checkpoint"):
        file.parse(data[:-1])
    monkeypatch.setattr(module, "VERSION", 0)
    with pytest.raises(UserError, match="version 1, this version reads 0: a newer selfattn wrote it"):
        file.parse(data)


def test_a_checksum_is_of_names_dtypes_and_shapes_too():
    four = [{"a": torch.zeros(2)}, {"b": torch.zeros(2)}, {"a": torch.zeros(2, 1)}, {"a": torch.zeros(2).int()}]
    assert len({module.digest_of("", tensors) for tensors in four}) == 4


def test_progress_by_hand(monkeypatch):
    clock, progress = Clock(monkeypatch), TrainingProgress()
    batch = collate([Example([5, 6, 7, 2], [8, 2]), Example([5, 2], [8, 9, 2])], 0, 1, [0, 1])  # 14 places, 3 empty
    with progress.timed():
        clock.now += 4.0
    progress.stepped(loss=2.0, tokens=10, batches=[batch])
    with progress.timed():
        clock.now += 1.0
    progress.stepped(loss=1.0, tokens=30, batches=[batch, batch])
    assert (progress.step, progress.position, progress.tokens, progress.seconds) == (2, 2, 40, 5.0)
    report = progress.report(0, 1.5, {"bleu": 3.0})
    assert (report.epoch, report.step, report.tokens, report.seconds) == (1, 2, 40, 5.0)
    assert (report.train_loss, report.valid_loss, report.measures) == (1.25, 1.5, {"bleu": 3.0})  # (20 + 30) / 40
    assert (report.tokens_per_second, report.padding) == (8.0, 9 / 42)
    progress.validated()
    with progress.timed():
        clock.now += 2.0
    progress.stepped(loss=0.5, tokens=4, batches=[batch])
    again = progress.report(0, 1.5, {})
    assert (again.step, again.tokens, again.seconds, again.train_loss) == (3, 44, 7.0, 0.5)
    assert (again.tokens_per_second, again.padding) == (2.0, 3 / 14)
