"""The first interrupt lets a step come to its end and saves it; the second does not wait."""

import os
import signal
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import training_parts as parts

from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import decode_texts
from selfattn.interrupts import Stopped, first_interrupt, polled
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.run import Run
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import Observer, StepReport, StopAtStep
from selfattn.training.validation import Criterion

CONFIGS = {
    "epochs": TrainingConfig(epochs=3, batch_size=4, lr=0.01, average="ema", ema_decay=0.9),
    "every 5 steps": TrainingConfig(max_steps=18, batch_size=4, lr=0.01, validate_every=5),
}


class Asks(Observer):
    """Interrupts its own process at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, report: StepReport) -> None:
        if report.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


class AsksWhileDecoding(Observer):
    """Interrupts its own process at a step of a validation, counted over all of them."""

    def __init__(self, call: int) -> None:
        self.calls = call

    def requests_stop(self) -> bool:
        self.calls -= 1
        if self.calls == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return False


pytestmark = pytest.mark.usefixtures("interrupts_arrive")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the trainings come to undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    for name, config in CONFIGS.items():
        parts.fit_small(folder / name, config)
    return {name: parts.outcome(folder / name) for name in CONFIGS}


@pytest.mark.parametrize(  # an epoch has six steps
    ("name", "step"), [*product(["epochs"], (1, 6, 18)), *product(["every 5 steps"], (5, 6, 18))]
)
def test_stopped_at_a_step_it_goes_on_from_there(
    tmp_path: Path, outcomes: dict[str, Any], name: str, step: int
) -> None:
    config, stop = CONFIGS[name], StopAtStep()
    with (
        first_interrupt(stop.request),
        pytest.raises(KeyboardInterrupt, match="the same command with `resume` goes on"),
    ):
        parts.fit_small(tmp_path / "run", config, observers=[Asks(step), stop])
    checkpoints = CheckpointFile(tmp_path / "run" / CHECKPOINT)
    assert checkpoints.parse(checkpoints.read() or b"").progress.step == step
    assert RunDirectory(tmp_path / "run").record().status == "interrupted"
    parts.fit_small(tmp_path / "run", config, resume=True)
    assert parts.outcome(tmp_path / "run") == outcomes[name]


@pytest.fixture
def decoding_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate by decoding."""

    def measure(model: Any, loss: float, processes: Any) -> dict[str, float]:
        outputs = decode_texts(model, data.tokenizer, ["abc", "d", "ef"], max_length=9, processes=processes)
        return {"perplexity": float(sum(len(best[0].text) for best in outputs))}

    data = parts.training_set()
    data = replace(data, criterion=Criterion(measure, "perplexity", False))
    monkeypatch.setattr(parts, "training_set", lambda stream: data)


@pytest.mark.usefixtures("decoding_data")
@pytest.mark.parametrize("call", [1, 4, 7, 16])
@pytest.mark.parametrize("name", ["epochs", "every 5 steps", "last"])
def test_stopped_in_a_validation_it_validates_again(tmp_path: Path, name: str, call: int) -> None:
    last = TrainingConfig(epochs=5, batch_size=12, lr=0.01, validate_every=1, average="last", average_last=2)
    config = (CONFIGS | {"last": last})[name]
    parts.fit_small(tmp_path / "undisturbed", config)
    stop = StopAtStep()
    with first_interrupt(stop.request), pytest.raises(KeyboardInterrupt):
        parts.fit_small(tmp_path / "run", config, observers=[AsksWhileDecoding(call), stop])
    checkpoints = CheckpointFile(tmp_path / "run" / CHECKPOINT)
    assert checkpoints.parse(checkpoints.read() or b"").progress.since_tokens  # the validation is still due
    parts.fit_small(tmp_path / "run", config, resume=True)
    assert parts.outcome(tmp_path / "run") == parts.outcome(tmp_path / "undisturbed")


@pytest.mark.parametrize("beam", [1, 2])
def test_decoding_stops_at_a_step(runs: dict[str, Run], beam: int) -> None:
    answers = iter([False, False, True])
    with pytest.raises(Stopped), polled(lambda: next(answers)):
        runs["transformer"].predict(["May 1, 2001"] * 3, DecodingOptions(beam=beam))
    assert next(answers, None) is None  # at the third step, none later


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_one_does_not_wait(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    stop, before = StopAtStep(), signal.getsignal(number)
    signal.signal(number, signal.default_int_handler)
    try:
        with first_interrupt(stop.request):
            stop.started(1, 1)
            os.kill(os.getpid(), number)
            assert stop.is_requested
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_before_the_first_step_it_does_not_wait_either() -> None:
    with pytest.raises(KeyboardInterrupt), first_interrupt(StopAtStep().request):
        os.kill(os.getpid(), signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup
    try:
        with first_interrupt(StopAtStep().request):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
