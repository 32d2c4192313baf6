"""A training that is stopped, or diverges, goes on with the same command: to the same bits, or with a lower rate."""

import os
import signal
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import training_parts as parts

from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import decode_texts
from selfattn.errors import UserError
from selfattn.processes import Stopped, first_interrupt, polling
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Criterion
from selfattn.training.observer import Observer, StopAtStep
from selfattn.training.step import check_finite

CONFIG = TrainingConfig(epochs=4, batch_size=4, lr=0.01)
CONFIGS = {
    "epochs": replace(CONFIG, epochs=3, average="ema", ema_decay=0.9),  # of six steps each
    "every 5 steps": TrainingConfig(max_steps=18, batch_size=4, lr=0.01, validate_every=5),
    "last": replace(CONFIG, epochs=5, batch_size=12, validate_every=1, average="last", average_last=2),
}


class Asks(Observer):
    """Interrupts its own process at a step, or at a step of a validation, counted over all of them."""

    def __init__(self, step=0, call=0):
        self.step, self.call = step, call

    def stepped(self, report):
        if report.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)

    def requests_stop(self):
        self.call -= 1
        if self.call == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return False


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a training comes to; validated by its loss or, as the tests that ask for it do, by decoding."""

    @cache
    def of(name, decodes):
        out = tmp_path_factory.mktemp("whole") / "run"
        parts.fit_small(out, CONFIGS[name])
        return parts.outcome(out)

    return of


def stop_and_go_on(out, name, asks):
    """Interrupt a training; its progress at the interrupt. Then it is gone on with."""
    stop = StopAtStep()
    refused = pytest.raises(KeyboardInterrupt, match="the same command with `resume` goes on")
    with first_interrupt(stop.request), refused:
        parts.fit_small(out, CONFIGS[name], observers=[asks, stop])
    assert RunDirectory(out).record().status == "interrupted"
    checkpoints = CheckpointFile(out / CHECKPOINT)
    progress = checkpoints.parse(checkpoints.read() or b"").progress
    parts.fit_small(out, CONFIGS[name], resume=True)
    return progress


@pytest.mark.parametrize(("name", "step"), [*product(["epochs"], (1, 6, 18)), *product(["every 5 steps"], (5, 6, 18))])
def test_stopped_at_a_step_it_goes_on_from_there(tmp_path, undisturbed, name, step):
    assert stop_and_go_on(tmp_path / "run", name, Asks(step)).step == step
    assert parts.outcome(tmp_path / "run") == undisturbed(name, False)


@pytest.mark.parametrize("call", [1, 4, 7, 16])
@pytest.mark.parametrize("name", CONFIGS)
def test_stopped_in_a_validation(tmp_path, monkeypatch, undisturbed, name, call):
    """It validates again."""

    def measure(model, loss, processes):
        outputs = decode_texts(model, data.tokenizer, ["abc", "d", "ef"], max_length=9, processes=processes)
        return {"perplexity": float(sum(len(best[0].text) for best in outputs))}

    data = replace(parts.training_set(), criterion=Criterion(measure, "perplexity", False))
    monkeypatch.setattr(parts, "training_set", lambda stream: data)
    expected = undisturbed(name, True)
    assert stop_and_go_on(tmp_path / "run", name, Asks(call=call)).since_tokens  # the validation is still due
    assert parts.outcome(tmp_path / "run") == expected


@pytest.mark.parametrize("beam", [1, 2])
def test_decoding_stops_at_a_step(runs, beam):
    answers = iter([False, False, True])
    with pytest.raises(Stopped), polling(lambda: next(answers)):
        runs["transformer"].predict(["May 1, 2001"] * 3, DecodingOptions(beam=beam))
    assert next(answers, None) is None  # at the third step, none later


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_one_does_not_wait(number):
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


def test_before_the_first_step_it_does_not_wait_either_and_what_is_ignored_stays_ignored():
    with pytest.raises(KeyboardInterrupt), first_interrupt(StopAtStep().request):
        os.kill(os.getpid(), signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup
    try:
        with first_interrupt(StopAtStep().request):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("precision", "also"), [("float32", False), ("bfloat16", True)])
def test_the_advice_fits_the_precision(precision, also):
    with pytest.raises(UserError, match="the loss became nan at step 3; lower the learning rate") as caught:
        check_finite("loss", float("nan"), 3, 0.5, precision)
    assert str(caught.value).endswith(", or train anew in float32") == also
    assert "--lr, now 0.5), with --resume from the last checkpoint" in caught.value.as_options()


def test_it_goes_on_with_a_lower_rate_and_with_nothing_else_changed(tmp_path):
    class Diverges(Observer):
        def validated(self, *_):
            raise UserError("training: the loss became nan")

    run, directory = tmp_path / "run", RunDirectory(tmp_path / "run")
    with pytest.raises(UserError, match="became nan"):
        parts.fit_small(run, CONFIG, save_every=1, observers=[Diverges()])
    assert directory.record().status == "failed"
    for changes, reason in (
        ({"lr": 0.02}, r"begun with training.lr = 0.01, now asked for 0.02"),
        ({"lr": 0.001, "batch_size": 5}, r"begun with training.batch_size = 4, now asked for 5"),
    ):
        with pytest.raises(UserError, match=reason):
            parts.fit_small(run, replace(CONFIG, **changes), resume=True)
    assert directory.config().training.lr == 0.01
    parts.fit_small(run, replace(CONFIG, lr=0.001), resume=True)
    assert (directory.record().status, directory.config().training.lr) == ("finished", 0.001)
    assert [report.epoch for report in directory.metrics()] == [1, 2, 3, 4]
    assert directory.metrics()[-1].lr <= 0.001


def test_weights_that_are_no_numbers_are_never_gone_on_from(tmp_path):
    """The step is too large for float32; the loss of the next step would tell, behind the checkpoint of this one."""
    config = replace(CONFIG, lr=1e39, warmup=0.0, schedule="constant")
    with pytest.raises(UserError, match=r"the size of \S+ became (inf|nan) at step 1; lower the learning rate"):
        parts.fit_small(tmp_path / "run", config, save_every=1)
    parts.fit_small(tmp_path / "run", replace(config, lr=0.001), resume=True, save_every=1)
    assert RunDirectory(tmp_path / "run").record().status == "finished"
