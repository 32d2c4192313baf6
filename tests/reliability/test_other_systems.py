"""What can be seen here of Windows and macOS: what they refuse is refused, what they do not have is taken away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import selfattn
from selfattn.files import write_text
from selfattn.runs.predictor import export_format

pytest.importorskip("fcntl", reason="simulates what it does not have")
if not Path("/proc/self/maps").exists():
    pytest.skip("needs /proc", allow_module_level=True)

from like_windows import like_windows, refused_names

TINY = ("--epochs", 1, "--items-per-epoch", 64, "--validation-items", 4)
SMALL = ("--set", "encoder.hidden_dim=8", "--set", "decoder.hidden_dim=8")


@pytest.fixture(autouse=True)
def windows():
    with like_windows():
        yield


def test_the_simulation_refuses_what_windows_refuses(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"1234")
    with path.open("rb") as file:
        with pytest.raises(OSError, match="fsync"):
            os.fsync(file.fileno())
        with pytest.raises(PermissionError, match="replace"):
            write_text(path, "new")
        with pytest.raises(PermissionError, match="rename"):
            tmp_path.rename(tmp_path.with_name("b"))
    write_text(path, "new")
    for name in ("a:b", "x", "X"):
        (tmp_path / name).touch()
    assert len(refused_names(tmp_path)) == 2


def test_a_comparison_begun_and_gone_on_with(cli, tmp_path):
    out = tmp_path / "out"
    options = (*["compare", "dates", "--models", "a=rnn-plain", "--quick", "--test-items", "4"], *TINY, *SMALL)
    cli(*options, "--out", out).success()
    loaded = selfattn.load(out / "runs" / "a-seed0")  # may be held by a user's program
    (out / "runs" / "a-seed0" / "test.json").unlink()
    cli(*options, "--out", out, "--resume").success()
    cli("report", out, "--out", out, "--figures", out / "figures", "--tables", out / "tables").success()
    assert loaded.predict(["1 May 1999"])
    assert refused_names(tmp_path) == []


def test_a_training_that_is_refused_leaves_nothing(cli, tmp_path):
    run = ("train", "dates", "--model", "rnn-plain", *TINY, *SMALL, "--out", tmp_path / "run")
    assert "give fewer" in cli(*run, "--warmup-steps", 10**6).refusal()
    assert list(tmp_path.iterdir()) == []
    cli(*run).success()
    cli(*run).refusal()
    cli(*run, "--resume").success()


def test_a_run_leaves(runs, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    out = tmp_path / "out"
    out.mkdir()  # an empty directory may be there
    assert export_format(runs["transformer"].export("ctranslate2", out)) == "ctranslate2"
    assert refused_names(tmp_path) == []


WITHOUT = """
import os, signal, sys
import datasets, joblib.externals.loky, multiprocess, torch  # they ask what system this is, and are tried elsewhere

for name in ("pwd", "grp", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("fork", "geteuid", "killpg", "mkfifo", "sched_getaffinity", "sysconf"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
"""


@pytest.mark.reliability
def test_a_training_where_posix_is_not(tmp_path):
    program = WITHOUT + (
        "import importlib, pkgutil, selfattn\n"
        "for found in pkgutil.walk_packages(selfattn.__path__, 'selfattn.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "from selfattn.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [*("train", "dates", "--model", "rnn-plain"), *TINY, *SMALL, "--out", tmp_path / "run"]
    program_and_words = [sys.executable, "-c", program, *map(str, command)]
    done = subprocess.run(program_and_words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert selfattn.load(tmp_path / "run").predict(["1 May 1999"])
