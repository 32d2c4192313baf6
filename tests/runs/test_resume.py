"""A training that is killed, stopped politely, or diverges, goes on with the same command: to the same bits.

Kept weights are averaged; the loss may be the deciding measure.
"""

import itertools
import os
import shutil
import signal
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
import training_parts as parts
from safetensors.torch import load_file
from training_parts import StopAt, Stopped

from selfattn.codec import write
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import decode_texts
from selfattn.errors import SettingError, UserError
from selfattn.files import ASIDE
from selfattn.processes import Stopped as Interrupted
from selfattn.processes import first_interrupt, polling
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.load import average_kept, build_model, kept_name, kept_steps
from selfattn.runs.train import train as train_on
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Criterion
from selfattn.training.observer import EpochReport, Observer, StopAtStep
from selfattn.training.step import check_finite
from selfattn.training.weights import mean_of, named_weights

# 23 examples in batches of 4 are 6 batches, in steps of 2 batches 3 steps an epoch.
FORCED = TrainingConfig(epochs=3, batch_size=4, accumulate=2, lr=0.01, average="ema")  # a step is one pass
SHORT = replace(FORCED, epochs=1, accumulate=6)  # one step
FULL = replace(FORCED, teacher_forcing=0.9, teacher_forcing_end=0.4)
LAST = TrainingConfig(max_steps=8, batch_size=4, average="last", average_last=2, validate_every=3)
KEPT = replace(LAST, validate_every=1)
STREAM = replace(FORCED, max_steps=10, validate_every=4)
TOKENS = TrainingConfig(epochs=2, batch_size=4, max_tokens=36)  # 7 steps an epoch
TWO_PASSES = TrainingConfig(max_steps=7, batch_size=8, r_drop=0.5, schedule="cosine", precision="bfloat16")
PATIENCE = TrainingConfig(epochs=9, batch_size=23, lr=1e-8, patience=2, average="last")  # ends in the third epoch
EPOCHS = TrainingConfig(epochs=3, batch_size=8, lr=0.01, average="ema", ema_decay=0.9)  # of three steps each
EVERY_3 = TrainingConfig(max_steps=8, batch_size=4, lr=0.01, validate_every=3)
OFTEN = replace(EPOCHS, epochs=3, batch_size=12, validate_every=1, average="last", average_last=2)


class Asks(StopAt):
    """Asks its own process to stop: at a step, or at a step of decoding in a validation, counted over all of them."""

    def __init__(self, step=0, call=0):
        super().__init__(step)
        self.call = call

    def _reach(self, event, step):
        if (event, step) == (self.event, self.step):
            os.kill(os.getpid(), signal.SIGINT)

    def requests_stop(self):
        self.call -= 1
        if self.call == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return False


def fit_until(stop, out, config, **settings):
    """Train until the training is stopped: at once, or, where it is asked to stop, politely."""
    polite = StopAtStep()
    end = (KeyboardInterrupt, "the same command with `resume` goes on") if isinstance(stop, Asks) else (Stopped, "^$")
    with first_interrupt(polite.request), pytest.raises(end[0], match=end[1]):
        parts.fit_small(out, config, observers=[stop, polite], **settings)


def checkpoint_of(out):
    file = CheckpointFile(out / CHECKPOINT)
    return file.parse(file.read() or b"")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of a training that nothing stops; not to be changed."""

    @cache
    def of(config, **settings):
        return parts.fit_small(tmp_path_factory.mktemp("whole") / "run", config, **settings).path

    return of


@pytest.fixture
def run(whole, tmp_path):
    """A copy of the training SHORT."""
    return Path(shutil.copytree(whole(SHORT), tmp_path / "run"))


# What is trained, how, and where it is stopped, again and again.
STOPS = {
    # Behind a validation metrics and weights are written, and the checkpoint, here twice the first one, is not.
    "scheduled sampling": (FULL, {}, [StopAt(1), StopAt(3, "validated"), StopAt(6, "validated"), StopAt(8)]),
    "rnn-attention": (FULL, {"save_every": 1, "model": "rnn-attention"}, [StopAt(4), StopAt(8)]),
    "decoder-only": (FORCED, {"save_every": 1, "model": "decoder-only"}, [StopAt(4), StopAt(8)]),
    "batches by tokens": (TOKENS, {"save_every": 2}, [StopAt(7)]),
    "two passes": (TWO_PASSES, {"save_every": 2}, [StopAt(3)]),
    "patience": (PATIENCE, {}, [StopAt(3)]),
    # The last checkpoint is that of the last step: no epoch begins again that would plan the validations.
    "last weights": (LAST, {"save_every": 1}, [StopAt(4), StopAt(8, "validated")]),
    "kept weights": (KEPT, {"keep": 3}, [
        StopAt(2), StopAt(4, "validation_ended"), StopAt(5), StopAt(8, "validation_ended"),
    ]),
    "a stream": (STREAM, {"stream": True, "save_every": 1}, [StopAt(3), StopAt(8)]),  # then in its last epoch
    "asked": (EPOCHS, {}, [Asks(1), Asks(3), Asks(9)]),
    "asked, validated every 3": (EVERY_3, {}, [Asks(3), Asks(4), Asks(8)]),
}  # fmt: skip


@pytest.mark.parametrize("case", STOPS)
def test_a_stopped_training_goes_on_and_ends_the_same(tmp_path, whole, case):
    config, settings, stops = STOPS[case]
    out, watcher = tmp_path / "run", StopAt(99)
    for stop in stops:
        fit_until(stop, out, config, resume=stop is not stops[0], **settings)
        if isinstance(stop, Asks):
            assert RunDirectory(out).record().status == "interrupted"
            assert checkpoint_of(out).progress.step == stop.step
    parts.fit_small(out, config, resume=True, observers=[watcher], **settings)
    save_every = settings.get("save_every")
    if save_every == 1 and stops[-1].event == "stepped":
        for before, after in itertools.pairwise([*stops, watcher]):
            assert after.steps[0] == before.step  # and not at the beginning
    same = {name: value for name, value in settings.items() if name != "save_every"}
    assert parts.outcome(out) == parts.outcome(whole(config, **same))


@pytest.mark.parametrize(("config", "calls"), [(EPOCHS, (1, 16)), (EVERY_3, (4,)), (OFTEN, (16,))])
def test_stopped_in_a_validation_it_validates_again(tmp_path, monkeypatch, config, calls):
    def measure(model, loss, processes):
        outputs = decode_texts(model, data.tokenizer, ["abc", "d", "ef"], max_length=9, processes=processes)
        return {"perplexity": float(sum(len(best[0].text) for best in outputs))}

    data = replace(parts.training_set(), criterion=Criterion(measure, "perplexity", False))
    monkeypatch.setattr(parts, "training_set", lambda stream: data)
    parts.fit_small(tmp_path / "whole", config)
    for call in calls:
        out = tmp_path / str(call)
        fit_until(Asks(call=call), out, config)
        assert checkpoint_of(out).progress.since_tokens  # the validation is still due
        parts.fit_small(out, config, resume=True)
        assert parts.outcome(out) == parts.outcome(tmp_path / "whole")


@pytest.mark.parametrize("beam", [1, 2])
def test_decoding_stops_at_a_step(runs, beam):
    answers = iter([False, False, True])
    with pytest.raises(Interrupted), polling(lambda: next(answers)):
        runs["transformer"].predict(["May 1, 2001"] * 3, DecodingOptions(beam=beam))
    assert next(answers, None) is None  # at the third step, none later


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_interrupt_does_not_wait_nor_does_one_before_the_first_step(number):
    stop, before = StopAtStep(), signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), first_interrupt(stop.request):
            os.kill(os.getpid(), number)
        with first_interrupt(stop.request):
            stop.started(1, 1)
            os.kill(os.getpid(), number)
            assert stop.is_requested
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.default_int_handler
        signal.signal(number, signal.SIG_IGN)  # as under nohup: what is ignored stays ignored
        with first_interrupt(StopAtStep().request):
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_resuming_a_finished_run_is_a_success_that_says_so(run, capsys):
    first, outcome = RunDirectory(run).config(), parts.outcome(run)
    again = parts.fit_small(run, SHORT, resume=True)
    assert "run: this run is finished (finished); nothing is left to do" in capsys.readouterr().err
    assert again.config == first
    assert parts.outcome(run) == outcome
    with pytest.raises(UserError, match=r"begun with training\.seed = 0, now asked for 1"):
        parts.fit_small(run, replace(SHORT, seed=1), resume=True)
    directory = RunDirectory(run)  # killed after its last step
    directory.write_record(replace(directory.record(), status="running"))
    watcher = StopAt(99)
    parts.fit_small(run, SHORT, resume=True, observers=[watcher])
    assert watcher.steps == []
    assert parts.outcome(run) == outcome


@pytest.mark.parametrize(("length", "before", "after"), [("epochs", 3, 6), ("max_steps", 4, 8)])
def test_a_finished_run_is_lengthened(whole, tmp_path, capsys, length, before, after):
    short = replace(FORCED, epochs=1, schedule="cosine", max_steps=before if length == "max_steps" else None)
    long = replace(short, **{length: 2 * getattr(short, length)})
    watcher = StopAt(99)
    run = parts.fit_small(tmp_path / "run", short).path
    parts.fit_small(run, long, resume=True, observers=[watcher])
    assert watcher.steps == list(range(before + 1, after + 1))
    assert watcher.begun == [(None if long.max_steps else 2, after)]
    directory = RunDirectory(run)
    assert (directory.config().training, directory.record().status) == (long, "finished")
    assert directory.record().command.endswith(" --resume")
    lines, new = directory.metrics(), RunDirectory(whole(long)).metrics()
    assert [line.step for line in lines][-1] == new[-1].step == after
    assert lines[-1].lr == new[-1].lr  # the longer schedule
    assert "the result is not that of" in capsys.readouterr().err
    (run / CHECKPOINT).unlink()
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: no such file; start a new training"):
        parts.fit_small(run, replace(long, **{length: 99}), resume=True)
    with pytest.raises(UserError, match=rf"begun with training\.{length} = "):
        parts.fit_small(run, short, resume=True)


def test_a_lengthened_run_killed_at_any_of_its_first_writes_is_lengthened_again(whole, tmp_path, monkeypatch):
    long = replace(SHORT, epochs=2)

    def copy(name):
        return Path(shutil.copytree(whole(SHORT), tmp_path / name))

    lengthened = parts.fit_small(copy("whole"), long, resume=True).path
    for place in range(1, 6):
        move, count = os.replace, itertools.count(1)

        def die(aside, path, move=move, count=count, place=place):
            if next(count) >= place:
                raise Stopped
            move(aside, path)

        killed = copy(f"killed {place}")
        with monkeypatch.context() as patch:
            patch.setattr("os.replace", die)
            with pytest.raises(Stopped):
                parts.fit_small(killed, long, resume=True)
        parts.fit_small(killed, long, resume=True)
        assert parts.outcome(killed) == parts.outcome(lengthened)
        assert RunDirectory(killed).record().command.count(" && ") == 1


def test_another_tokenizer_is_named(tmp_path):
    fit_until(StopAt(4), tmp_path / "run", FORCED)
    path = tmp_path / "run" / "tokenizer" / "char.json"
    path.write_text(path.read_text().replace("i", "j"))
    with pytest.raises(UserError, match="tokenizer: not the tokenizer of these data"):
        parts.fit_small(tmp_path / "run", FORCED, resume=True)


def test_where_nothing_has_begun_it_begins(run, tmp_path):
    outcome, killed = parts.outcome(run), RunDirectory(run)
    parts.fit_small(tmp_path / "new", SHORT, resume=True)
    record = replace(killed.record(), status="running", files={})  # as it is before the settings are written
    for name in ("config.json", "metrics.jsonl", "model.safetensors", "last"):
        remove = shutil.rmtree if name == "last" else os.remove
        remove(run / name)
    write(run / "run.json", record, checksum=True)
    (run / "tokenizer" / f".char.json.7{ASIDE}").write_text("{")
    parts.fit_small(run, SHORT, resume=True)
    assert parts.outcome(run) == parts.outcome(tmp_path / "new") == outcome


def test_the_checkpoint_of_another_model_is_named_in_one_line(tmp_path):
    for name, model in (("run", "transformer"), ("rnn", "rnn-attention")):
        fit_until(StopAt(5), tmp_path / name, FORCED, model=model, save_every=2)
    path = tmp_path / "run" / CHECKPOINT
    path.write_bytes((tmp_path / "rnn" / CHECKPOINT).read_bytes())
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: ") as caught:
        parts.fit_small(tmp_path / "run", FORCED, resume=True)
    assert "\n" not in str(caught.value)


def test_the_best_weights_are_known_after_a_stop(tmp_path, monkeypatch):
    found = iter((1.0, 2.0, 3.0) * 2)  # the first validation is the best
    monkeypatch.setattr(parts, "figures", lambda model, loss, _: {"perplexity": next(found)})
    three = replace(SHORT, epochs=3)
    parts.fit_small(tmp_path / "whole", three)
    fit_until(StopAt(3), tmp_path / "run", three)
    run = parts.fit_small(tmp_path / "run", three, resume=True)
    assert parts.outcome(tmp_path / "run") == parts.outcome(tmp_path / "whole")
    best = load_file(tmp_path / "whole" / "model.safetensors")
    assert all(torch.equal(run.model.state_dict()[name], weight) for name, weight in best.items())


# A training that diverges


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
        parts.fit_small(run, EPOCHS, save_every=1, observers=[Diverges()])
    assert directory.record().status == "failed"
    for changes, reason in (
        ({"lr": 0.02}, r"begun with training.lr = 0.01, now asked for 0.02"),
        ({"lr": 0.001, "batch_size": 5}, r"begun with training.batch_size = 8, now asked for 5"),
    ):
        with pytest.raises(UserError, match=reason):
            parts.fit_small(run, replace(EPOCHS, **changes), resume=True)
    assert directory.config().training.lr == 0.01
    parts.fit_small(run, replace(EPOCHS, lr=0.001), resume=True)
    assert (directory.record().status, directory.config().training.lr) == ("finished", 0.001)
    assert [report.epoch for report in directory.metrics()] == [1, 2, 3]
    assert directory.metrics()[-1].lr <= 0.001


def test_weights_that_are_no_numbers_are_never_gone_on_from(tmp_path):
    """The step is too large for float32; the loss of the next step would tell, behind the checkpoint of this one."""
    config = replace(EPOCHS, average="none", lr=1e39, warmup=0.0, schedule="constant")
    with pytest.raises(UserError, match=r"the size of \S+ became (inf|nan) at step 1; lower the learning rate"):
        parts.fit_small(tmp_path / "run", config, save_every=1)
    parts.fit_small(tmp_path / "run", replace(config, lr=0.001), resume=True, save_every=1)
    assert RunDirectory(tmp_path / "run").record().status == "finished"


# Kept validations: the last ones, averaged into a run; the loss as deciding measure


def weights_in(run, file):
    """Read a file of weights by the names of the model's tensors."""
    directory = RunDirectory(run)
    model = build_model(directory.config().model, directory.tokenizer(), 0)
    directory.load_weights(model, file)
    return named_weights(model)


def test_the_mean_of_kept_weights_is_the_average_of_the_training(whole, tmp_path):
    run, names = whole(KEPT, keep=3), [f"kept/step-0000000{step}.safetensors" for step in (6, 7, 8)]
    assert sorted(str(file.relative_to(run)) for file in (run / "kept").iterdir()) == names
    assert {name for name in RunDirectory(run).record().files if name.startswith("kept/")} == {*names}
    state = checkpoint_of(run)
    average = state.part("average")
    history = [{name[2:]: tensor for name, tensor in average.items() if name[0] == place} for place in "01"]
    assert average_kept(run, tmp_path / "mean", last=2) == [7, 8]
    averaged = weights_in(tmp_path / "mean", "model.safetensors")
    for name, tensor in mean_of(history).items():
        assert torch.equal(averaged[name], tensor), name
    last = weights_in(run, kept_name(8))
    assert all(torch.equal(tensor, last[name]) for name, tensor in state.part("model").items())
    record = RunDirectory(tmp_path / "mean").record()
    assert (record.averaged, record.status) == ((7, 8), "finished")
    assert record.command.endswith("mean --last 2")


def test_weights_after_the_checkpoint_are_dropped(tmp_path):
    config = replace(KEPT, validate_every=2)
    fit_until(StopAt(4, "validation_ended"), tmp_path / "run", config, keep=2)
    assert kept_steps(RunDirectory(tmp_path / "run")) == [2, 4]
    fit_until(StopAt(3), tmp_path / "run", config, keep=2, resume=True)
    assert kept_steps(RunDirectory(tmp_path / "run")) == [2]


def test_averages_are_refused_in_a_line(cli, train, tmp_path):
    run = train("rnn-plain", tmp_path / "run", keep=5).path
    more = cli("average", run, "--last", 3, "--out", tmp_path / "a")
    assert "--last 3: expected 1 to 2, the validations that " in more.refusal()
    assert "expected 1 to 2" in cli("average", run, "--last", 0, "--out", tmp_path / "a").refusal()
    assert "already holds a run" in cli("average", run, "--out", run).refusal()
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
