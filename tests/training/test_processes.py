"""Devices, processes and threads: what belongs to a process is used by one training at a time."""

import re
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
import torch

from selfattn import distributed, processes
from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.distributed import Processes
from selfattn.errors import UserError
from selfattn.experiments import queue
from selfattn.experiments.progress import Logs
from selfattn.experiments.queue import Runner, Workers
from selfattn.models.build import build
from selfattn.processes import choose_device, is_main_process, rank_and_size
from selfattn.runs.directory import WEIGHTS, RunDirectory, check_is_free
from selfattn.streams import GlobalStream, training_lock
from selfattn.training.loop import train_model
from selfattn.training.step import rows_of

SETTINGS = ("encoder.dim=16", "decoder.dim=16", "encoder.num_layers=1", "encoder.dropout=0.3")
BRIEF = {"epochs": 2, "items_per_epoch": 80, "batch_size": 16, "validation_items": 4}


def test_auto_takes_what_is_there(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match="`device` cuda: torch sees no CUDA device; take cpu"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: taken[-1] if taken else 0)
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("cuda") == torch.device("cuda", 1)
    assert taken == [0, 1]
    monkeypatch.delenv("LOCAL_RANK")
    assert choose_device("auto") == torch.device("cuda", 1), "the one that this process has chosen"
    assert choose_device("cuda:0") == choose_device(torch.device("cuda", 0)) == torch.device("cuda", 0)
    with pytest.raises(UserError, match="`device` cuda:2: torch sees 2 CUDA devices, counted from 0"):
        choose_device("cuda:2")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UserError, match="`device` cuda: 3 processes on this host, but 2 CUDA devices; start fewer"):
        choose_device("auto")


def test_the_first_process_looks_whether_there_is_room(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("RANK", "1")  # of another program: torchrun sets WORLD_SIZE as well
    assert rank_and_size() == (0, 1)
    with pytest.raises(UserError, match="holds other files"):
        check_is_free(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="WORLD_SIZE=2 without MASTER_ADDR and MASTER_PORT: start the processes with t"):
        is_main_process()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert rank_and_size() == (1, 2)
    assert not is_main_process()
    check_is_free(tmp_path)
    for rank, count, reason in (("2", "2", "RANK=2 with WORLD_SIZE=2"), ("1", "1", "RANK=1 with WORLD_SIZE=1")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", count)
        with pytest.raises(UserError, match=reason):
            is_main_process()
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(UserError, match="RANK=first: expected a whole number"):
        is_main_process()


@pytest.mark.parametrize(("count", "rows"), [(1, 5), (2, 5), (3, 5), (7, 5), (4, 1)])
def test_the_rows_of_a_batch_are_dealt_out_once(count, rows):
    examples = [Example([4] * (n + 1), [5] * (n + 2)) for n in range(rows)]
    batch = collate(examples, 0, 1, range(rows))
    seen = []
    for rank in range(count):
        own, tokens = rows_of(batch, Processes(rank, count))
        if rank >= rows:  # it reads what counts for nothing
            assert tokens == 0
            continue
        assert tokens == sum(len(examples[place].target) for place in own.indices)
        assert own.indices == list(range(rows))[rank::count]
        for row, place in enumerate(own.indices):
            for name in ("source", "source_mask", "target_in", "target_out", "target_mask"):
                assert torch.equal(getattr(own, name)[row], getattr(batch, name)[place])
        seen += own.indices
    assert sorted(seen) == list(range(rows))


def test_who_waits_for_processes_that_never_come_says_so_in_minutes(monkeypatch):
    assert timedelta(minutes=5) >= distributed._MEETING
    monkeypatch.setattr(distributed, "_MEETING", timedelta(seconds=1))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(UserError, match=r"torch\.distributed: 2 processes could not meet: .*1/2 client") as caught:
        Processes.join(torch.device("cpu"))
    assert "\n" not in str(caught.value)


def test_threads_follow_from_the_size_of_the_model_alone(runs, train, tmp_path, monkeypatch):
    before, seen = torch.get_num_threads(), []

    def train_on_one(*arguments, **options):
        """On two threads that share a busy machine a small training takes a second."""
        seen.append(torch.get_num_threads())
        with processes.use_threads(1):
            return train_model(*arguments, **options)

    record = RunDirectory(runs["rnn-plain"].path).record()
    assert record.machine["threads"] == 1
    monkeypatch.setattr("selfattn.runs.fit.train_model", train_on_one)
    monkeypatch.setattr(processes, "LARGE_MODEL", record.parameters)
    train("rnn-plain", tmp_path / "large", training=BRIEF)
    assert RunDirectory(tmp_path / "large").record().machine["threads"] == 2
    assert (seen, torch.get_num_threads()) == ([2], before)


# Threads of one process


def at_once(actions):
    """Do each action in a thread of its own, all from the same moment on."""
    start = Barrier(len(actions))

    def act(action):
        start.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


def test_trainings_in_two_threads_are_those_one_after_the_other(train, runs, tmp_path, capsys):
    texts = ["May 1, 2001", "5/1/01"]
    expected = runs["rnn-attention"].predict(texts)

    def weights(name, seed):
        run = train("transformer", tmp_path / name, training=BRIEF | {"seed": seed, "set": SETTINGS})
        return (run.path / WEIGHTS).read_bytes()

    def outputs():
        return [runs["rnn-attention"].predict(texts) for _ in range(9)]

    one_by_one = [weights("alone-0", 0), weights("alone-1", 1)]
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with training_lock("nobody"), training_lock("waits: this thread has it"):
        pass
    together = at_once([lambda: weights("a", 0), lambda: weights("b", 1), outputs])
    assert together == [*one_by_one, [expected] * 9]
    assert torch.equal(torch.get_rng_state(), before)
    waits = re.findall("^(.*): waits until another training of this process has ended", capsys.readouterr().err, re.M)
    assert [Path(label) in (tmp_path / "a", tmp_path / "b") for label in waits] == [True]


def weights_of_a_model(seed):
    return [weight.tolist() for weight in build("transformer", vocab_size=11, seed=seed).state_dict().values()]


def numbers_of_a_stream(seed):
    stream = GlobalStream(torch.device("cpu"))
    stream.seed(seed)
    values = []
    for _ in range(50):
        with stream.drawing():
            values += torch.rand(3).tolist()
    return values


@pytest.mark.parametrize("draw", [weights_of_a_model, numbers_of_a_stream])
def test_what_is_drawn_in_several_threads_is_what_each_draws_alone(draw):
    before = torch.get_rng_state()
    expected = [draw(seed) for seed in range(4)]
    for _ in range(3):
        assert at_once([partial(draw, seed) for seed in range(4)]) == expected
    assert torch.equal(torch.get_rng_state(), before)


class Together(Runner[Any]):
    """Notes what belongs to the process while a trial runs."""

    def __init__(self, workers):
        self.workers = workers

    def is_done(self, trial):
        return False

    def run(self, trial, reporter):
        for _ in range(20):
            print(trial.label, file=sys.stderr)
            assert torch.get_num_threads() == self.workers.threads


def test_a_worker_with_threads_runs_one_trial_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stderr = sys.stderr
    calls = []
    for threads, name in enumerate("abc", 1):
        folder = tmp_path / name
        (folder / "logs").mkdir(parents=True)
        parcel = queue.pack(Together(Workers(folder, threads=threads)))
        trial = cloudpickle.dumps(SimpleNamespace(label=name))
        calls.append(partial(queue._run_in_worker, parcel, name, trial, str(folder), ""))
    at_once(calls)
    assert sys.stderr is stderr
    assert Path.cwd() == tmp_path
    for name in "abc":
        assert Logs(tmp_path / name).log(name).read_text().count(f"{name}\n") == 20
