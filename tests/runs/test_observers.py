"""What a training tells its observers, which can stop it; its lines, that logging decides about."""

import io
import logging
import sys
import time

import pytest
from documented import program

import selfattn
from selfattn import console
from selfattn.errors import LINES, SettingError, begin_command_line, say
from selfattn.runs import fit as fit_module
from selfattn.runs.directory import RunDirectory
from selfattn.training.observer import Observer, StopTraining


class Diary(Observer):
    """Notes its calls; stops at one of them."""

    def __init__(self, stop_at=""):
        self.calls = []
        self.stop_at = stop_at

    def note(self, call):
        self.calls.append(call)
        if call == self.stop_at:
            raise StopTraining

    def started(self, epochs, steps):
        self.note("started")

    def stepped(self, report):
        self.note(f"step {report.step}")

    def validated(self, report, model, is_best):
        self.note(f"validated {report.step}")

    def ended(self, status, reports, model):
        assert not model.training
        self.note(f"{status} {len(reports)}")


STEPS = [f"step {k}" for k in range(11)]
FULL = ["started", *STEPS[1:6], "validated 5", *STEPS[6:], "validated 10", "finished 2"]
# Where an observer stops the training, and what the others hear of before.
STOPPED = {
    "step 3": [*FULL[:4], "validated 3"], "validated 5": FULL[:7], "started": [*FULL[:2], "validated 1"],
    "finished 2": FULL,
}  # fmt: skip


@pytest.mark.parametrize("stop_at", STOPPED)
def test_an_observer_stops_a_training_and_the_run_says_so(train, tmp_path, capsys, stop_at):
    first, second, again = Diary(stop_at), Diary(), Diary()
    run = train("rnn-plain", tmp_path / "run", observers=[first, second])
    ends = [] if STOPPED[stop_at] == FULL else ["stopped by an observer 1"]
    assert first.calls == second.calls == STOPPED[stop_at] + ends
    status = "stopped by an observer" if ends else "finished"
    assert RunDirectory(run.path).record().status == status
    assert len(selfattn.load(run.path).predict(["1 May 1999"])) == 1
    train("rnn-plain", run.path, observers=[again], resume=True)
    assert again.calls == []
    assert f"this run is finished ({status})" in capsys.readouterr().err


@pytest.mark.parametrize("observers", [None, Diary(), [print], [Diary]])
def test_what_is_no_observer_is_refused(train, tmp_path, observers):
    with pytest.raises(SettingError, match=r"^`observers`: expected a list of selfattn.Observer objects, got "):
        train("rnn-plain", tmp_path / "run", observers=observers)


def test_the_observer_of_the_how_to(train, tmp_path, monkeypatch):
    def train_small(task, *, model, out, observers):
        return train(model, tmp_path / out, observers=observers)

    monkeypatch.setattr(selfattn, "train", train_small, raising=False)
    names = {"__name__": "page"}
    exec(program("extend.md", "observer"), names)
    assert len(names["curve"].losses) == 10


# Lines: what they tell, and how far the work is


def test_logging_decides_about_the_lines(capsys, monkeypatch):
    monkeypatch.setattr(LINES, "is_command_line", False)
    monkeypatch.setattr(logging.getLogger("selfattn"), "propagate", True)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # a program that has not touched logging
    say("one")
    logging.disable()
    say("two")
    logging.disable(logging.NOTSET)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    say("three")
    assert (capsys.readouterr().err, stream.getvalue()) == ("one\n", "three\n")
    begin_command_line()  # which takes over
    say("four")
    assert (capsys.readouterr().err, stream.getvalue()) == ("four\n", "three\n")


def test_work_is_told_every_so_often_also_where_it_cannot_be_counted(capsys, monkeypatch):
    monkeypatch.setattr(console, "EVERY", 0.0)
    assert len(list(console.counting(range(600), "a.tsv: pairs", 600))) == 600
    lines = ["a.tsv: pairs: 0 of 600 so far", "a.tsv: pairs: 256 of 600 so far", "a.tsv: pairs: 512 of 600 so far"]
    assert capsys.readouterr().err.splitlines() == lines
    monkeypatch.setattr(console, "EVERY", 0.05)
    with console.waiting("learning the vocabulary"):
        time.sleep(0.3)
    assert set(capsys.readouterr().err.splitlines()) == {"learning the vocabulary: 0 s so far"}
    time.sleep(0.1)
    assert capsys.readouterr().err == ""  # it has ended


def test_a_terminal_has_bars(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with console.progress("outer", 9), console.progress("inner") as tell:  # as encoding is within a training
        tell(5)
    assert "outer" in terminal.getvalue()
    assert "inner" in terminal.getvalue()


def test_a_test_tells_how_far_it_is(cli, runs, monkeypatch):
    monkeypatch.setattr("selfattn.tasks.dates.Dates.test_items", lambda self, quick: 200)
    quiet = cli("evaluate", runs["rnn-plain"].path)
    assert quiet.err == ""
    monkeypatch.setattr(console, "EVERY", 0.0)
    done = cli("evaluate", runs["rnn-plain"].path)
    assert "evaluate: decoding steps: 2 so far\n" in done.err
    assert done.out == quiet.out


SMALL = "dates --model rnn-attention --items-per-epoch 16 --validation-items 8 --batch-size 8 --seed 1"


def test_a_training_tells_its_state(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(fit_module, "EVERY", 0.0)
    out = tmp_path / "run"
    command = ["train", *SMALL.split(), "--epochs", 4, "--lr", "1e-9", "--out", out]
    done = cli(*command, "--patience", 1, "--resume").success()
    assert f"{out}: holds no run yet, so a new training begins\n" in done.err
    assert "vocabulary: " in done.err
    assert "step 3 of 8" in done.err  # between validations
    assert "rnn-attention: stopped early at step " in done.err
    again = cli(*command, "--patience", 1, "--resume")
    assert "this run is finished (stopped early); a larger --patience lengthens it" in again.err
    longer = cli(*command, "--patience", 9, "--resume").success()
    assert "resumed from step " in longer.err
    assert "4/4" in longer.err
