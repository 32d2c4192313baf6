"""`selfattn predict` as a part of a pipe: long lines, broken lines, readers and writers that go away."""

import io
import os
import signal
import subprocess
import sys
import threading
import unicodedata
from unittest.mock import Mock

import pytest

from selfattn.cli.main import main
from selfattn.cli.predict import Arriving, bounded_lines, input_limit, predict_stream
from selfattn.decoding.options import GREEDY
from selfattn.errors import UserError
from selfattn.models.families import PRESETS
from selfattn.runs.record import RunConfig
from selfattn.runs.task import TaskData
from selfattn.runs.train import with_settings
from selfattn.training.config import TrainingConfig

LONG = "5/4/99 " * 300  # 2,100 characters


class Measured(io.BytesIO):
    def read1(self, size=-1):
        assert 0 < size <= 1 << 16  # never more at once
        return super().read1(size)


@pytest.mark.parametrize("length", [6, 8, 9, 200_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_long_line_is_not_held_and_the_next_line_is_the_next(length, end):
    stream = Measured(b"one\n" + b"x" * length + end + (b"three\n" if end else b""))
    fits = length + len(end) <= 8 if end else length < 8
    long = "x" * length if fits else None
    assert list(bounded_lines(Arriving(stream), 8)) == (["one", long, "three"] if end else ["one", long])


@pytest.mark.parametrize("place", [0, 5, 6])
def test_what_is_not_utf8_names_line_and_byte(place):
    for broken in (b"\xff", "한".encode()[:2] + b"\n", "한".encode()[:1]):
        with pytest.raises(UserError, match=rf"standard input:2: not valid UTF-8 \(byte {place + 1}\)"):
            list(bounded_lines(Arriving(io.BytesIO(b"one\n" + b"x" * place + broken)), 9))


def test_a_byte_order_mark_is_taken_off_and_counted():
    mark = b"\xef\xbb\xbf"
    assert list(bounded_lines(Arriving(io.BytesIO(mark + b"a\n" + mark + b"b")), 8)) == ["a", "\ufeffb"]
    assert list(bounded_lines(Arriving(io.BytesIO(mark)), 8)) == [""]


@pytest.mark.parametrize(("text", "told"), [
    (b"\xef\xbb\xbf\xff", r"not valid UTF-8 \(byte 4\)"), ("one\ntwo\n".encode("utf-16-le"), ".*UTF-16"),
    (b"one\rtwo\rthree", r".*end in \\r alone"),
])  # fmt: skip
def test_lines_of_another_kind_are_refused(text, told):
    with pytest.raises(UserError, match=f"standard input:1: {told}"):
        list(bounded_lines(Arriving(io.BytesIO(text)), 100))


def test_a_line_that_is_too_long_keeps_its_place(cli, runs):
    run = runs["rnn-plain"]
    texts = ["May 1, 2001", LONG, "11/13/08", LONG * 40]
    done = cli("predict", run.path, stdin="\n".join(texts))
    right = run.predict([texts[0], texts[2]])
    assert (done.code, done.out) == (0, f"{right[0]}\n\n{right[1]}\n\n")
    said = "longer than 1,024 tokens; its output is empty"
    assert done.err.splitlines()[:2] == [f"standard input:{line}: {said}" for line in (2, 4)]
    numbered = cli("predict", run.path, "--n-best", 1, stdin="\n".join(texts)).out.splitlines()
    assert [line.split("\t")[0] for line in numbered] == ["1", "2", "3", "4"]
    assert numbered[1] == "2\t\trefused\t"


def test_tokens_are_counted_in_the_form_that_the_model_reads(cli, runs, monkeypatch):
    apart = unicodedata.normalize("NFD", "각" * 11)
    assert len(apart) == 33
    for limit, fits in ((12, True), (11, False)):
        monkeypatch.setattr("selfattn.cli.predict.input_limit", lambda *_, limit=limit: limit)
        assert ("longer" not in cli("predict", runs["transformer"].path, stdin=apart).err) == fits


class Once(io.BytesIO):
    """Remembers the sizes of what was written."""

    def __init__(self):
        super().__init__()
        self.written = []

    def write(self, data):
        self.written.append(bytes(data))
        return super().write(data)


def test_somebody_who_types_is_answered_line_by_line(runs):
    source, target = io.BytesIO(b"1/2/03\n\n4/5/06\n"), Once()
    source.isatty = lambda: True
    predict_stream(runs["rnn-plain"], source, target, GREEDY)
    assert len(target.written) == 3
    assert target.written[1] == b"\n"


def test_a_pipe_that_stays_open_is_answered_as_lines_come(runs):
    run = runs["rnn-plain"]
    answers = run.predict(["1/2/03", "4/5/06", "7/8/09"])
    command = [sys.executable, "-m", "selfattn.cli", "predict", str(run.path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **pipes, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        for text, expected in (("1/2/03\n", answers[:1]), ("4/5/06\n7/8/09\n", answers[1:])):
            process.stdin.write(text)
            process.stdin.flush()
            assert [process.stdout.readline().rstrip("\n") for _ in expected] == expected
        process.stdin.write("1/2/03")  # the last line may have no end
        process.stdin.close()
        assert process.stdout.read() == answers[0] + "\n"
        assert process.wait(60) == 0


class Pipe:
    """Hands over what each write put there."""

    def __init__(self, *parts):
        self.parts = [*parts, b""]
        self.number, end = os.pipe()
        os.close(end)

    def read1(self, size=-1):
        return self.parts.pop(0)

    def isatty(self):
        return False

    def fileno(self):
        return self.number


@pytest.mark.parametrize(("buffer", "sizes"), [(None, [2, 1, 1]), (1, [1, 1, 1, 1]), (3, [3, 1]), (9, [4])])
def test_lines_that_are_there_go_together(buffer, sizes, runs):
    source = Pipe(b"1/2/03\n4/5/06\n7/8", b"/09\n", b"1/1/11\n")
    target = Once()
    predict_stream(runs["rnn-plain"], source, target, GREEDY, buffer=buffer)
    os.close(source.number)
    assert [part.count(b"\n") for part in target.written] == sizes


@pytest.mark.parametrize(
    ("preset", "settings", "limit"),
    [
        ("transformer", (), TaskData.max_input),
        ("rnn-attention", (), TaskData.max_input),
        ("transformer", ("encoder.position=learned", "encoder.max_length=70"), 70),
        ("transformer", ("encoder.position=learned", "encoder.max_length=7000"), TaskData.max_input),
        ("transformer", ("decoder.position=learned", "decoder.max_length=70"), TaskData.max_input),
        ("rnn-attention", ("decoder.score=location", "decoder.max_source_length=50"), 50),
        ("decoder-only", ("stack.position=learned", "stack.max_length=70"), 50),
    ],
)
def test_no_more_is_read_than_there_are_positions_for(preset, settings, limit):
    model = with_settings(PRESETS[preset].config, settings)
    config = RunConfig("translation", preset, model, TrainingConfig(), {}, 20)
    assert input_limit(config, GREEDY) == limit


def test_what_stands_before_a_broken_line_is_written(cli, runs):
    run = runs["rnn-plain"]
    done = cli("predict", run.path, stdin=b"1/2/03\n4/5/06\n\xff\n7/8/09\n")
    assert done.out.splitlines() == run.predict(["1/2/03", "4/5/06"])
    assert (done.code, done.err) == (2, "error: standard input:3: not valid UTF-8 (byte 1)\n")


def test_an_interrupt_says_how_far_it_came(runs, monkeypatch):
    monkeypatch.setattr("selfattn.cli.predict._CHUNK", 2)

    source, target = io.BytesIO(), io.BytesIO()
    source.read1 = Mock(side_effect=[b"1/2/03\n"] * 5 + [KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt, match="the outputs of 4 lines are written"):
        predict_stream(runs["rnn-plain"], source, target, GREEDY)
    assert target.getvalue().count(b"\n") == 4


@pytest.mark.parametrize(
    ("times", "said", "lines"), [(1, "^the outputs of 2 lines", 2), (2, "^at least the outputs of 0", 0)]
)
def test_an_interrupt_waits_for_whole_lines(runs, monkeypatch, times, said, lines):
    monkeypatch.setattr("selfattn.cli.predict._CHUNK", 2)

    class Slow(io.BytesIO):
        def write(self, data, /):
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            return super().write(data)

    target = Slow()
    with pytest.raises(KeyboardInterrupt, match=said):
        predict_stream(runs["rnn-plain"], io.BytesIO(b"1/2/03\n" * 4), target, GREEDY)
    assert target.getvalue().count(b"\n") == lines


def test_standard_input_that_is_closed(runs, cli):
    said = cli("predict", runs["rnn-plain"].path, stdin=None).refusal()
    assert said == "error: standard input is closed; leave it open, or redirect it to a file\n"


def test_a_terminal_shows_what_it_can(runs, monkeypatch):
    shown = io.BytesIO()
    terminal = io.TextIOWrapper(shown, encoding="cp949")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", terminal)
    main(["attention", str(runs["rnn-attention"].path), "1 May 1999 é 월"])
    assert shown.getvalue().decode("cp949").startswith("1 May 1999 ? 월 → ")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes have another kind of non-blocking there")
def test_lines_of_a_pipe_that_does_not_block_are_whole():
    read, write = os.pipe()
    os.set_blocking(read, False)

    def write_rest():
        os.write(write, b"two\n")
        os.close(write)

    timer = threading.Timer(0.2, write_rest)
    os.write(write, b"one\nt")
    timer.start()
    with os.fdopen(read, "rb") as source:
        assert list(bounded_lines(Arriving(source), 100)) == ["one", "ttwo"]
    timer.join()
