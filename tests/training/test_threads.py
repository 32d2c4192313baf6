"""Threads of one process: what belongs to the process is used by one training at a time."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread
from types import SimpleNamespace
from typing import Any

import cloudpickle
import torch

from selfattn.experiments import queue
from selfattn.experiments.progress import Logs
from selfattn.experiments.queue import Runner, Workers
from selfattn.models.build import build
from selfattn.runs.directory import WEIGHTS
from selfattn.streams import GlobalStream, training_lock

SETTINGS = ("encoder.dim=16", "decoder.dim=16", "encoder.num_layers=1", "encoder.dropout=0.3")


def at_once(actions):
    """Do each action in a thread of its own, all from the same moment on."""
    start = Barrier(len(actions))

    def act(action):
        start.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


def test_trainings_in_two_threads_are_those_one_after_the_other(
    train, runs, tiny, tmp_path,
    capsys,
):  # fmt: skip
    texts = ["May 1, 2001", "5/1/01"]
    expected = runs["rnn-attention"].predict(texts)

    def weights(name, seed):
        run = train("transformer", tmp_path / name, training=tiny | {"seed": seed, "set": SETTINGS})
        return (run.path / WEIGHTS).read_bytes()

    def outputs():
        return [runs["rnn-attention"].predict(texts) for _ in range(9)]

    one_by_one = [weights("alone-0", 0), weights("alone-1", 1)]
    torch.manual_seed(3)
    before = torch.get_rng_state()
    together = at_once([lambda: weights("a", 0), lambda: weights("b", 1), outputs])
    assert together == [*one_by_one, [expected] * 9]
    assert torch.equal(torch.get_rng_state(), before)
    assert "waits until another training of this process has ended" in capsys.readouterr().err


def test_models_that_are_built_at_once_are_those_one_after_the_other():
    def weights(seed):
        return torch.cat([w.flatten() for w in build("transformer", vocab_size=11, seed=seed).state_dict().values()])

    torch.manual_seed(3)
    before = torch.get_rng_state()
    expected = [weights(seed) for seed in range(4)]
    for _ in range(3):
        built = at_once([partial(weights, seed) for seed in range(4)])
        assert all(map(torch.equal, built, expected))
    assert torch.equal(torch.get_rng_state(), before)


def test_streams_of_several_threads_do_not_meet():
    def drawn(seed):
        stream = GlobalStream(torch.device("cpu"))
        stream.seed(seed)
        values = []
        for _ in range(50):
            with stream.drawing():
                values += torch.rand(3).tolist()
        return values

    expected = [drawn(seed) for seed in range(4)]
    assert at_once([partial(drawn, seed) for seed in range(4)]) == expected


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


def test_who_waits_says_so(capsys):
    is_alone, may_end = Event(), Event()

    def hold():
        with training_lock("first"), training_lock("first again"):
            is_alone.set()
            may_end.wait()

    holder = Thread(target=hold)
    holder.start()
    is_alone.wait()
    waiter = Thread(target=lambda: training_lock("runs/b").__enter__())
    waiter.start()
    while not (said := capsys.readouterr().err):
        pass
    may_end.set()
    holder.join()
    waiter.join()
    assert said.startswith("runs/b: waits until another training of this process has ended")
