"""One directory, one writer: a second one is told so and disturbs nothing, and a killed one holds nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import training_parts as parts

from selfattn.comparison.compare import compare
from selfattn.errors import UserError
from selfattn.files import ASIDE, LOCK, in_use
from selfattn.runs.directory import RunDirectory
from selfattn.training.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("one_thread")
CONFIG = TrainingConfig(epochs=3, batch_size=4, lr=0.01)
HOLD = "from selfattn.files import in_use, Path; import sys\nwith in_use(Path(sys.argv[1])): print(flush=True), input()"


def test_a_second_process_is_told_and_disturbs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, config = tmp_path / "run", parts.fit_small(tmp_path / "run", CONFIG).config
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        half = run / f".metrics.jsonl.1{ASIDE}"
        half.touch()  # as the other one writes it
        monkeypatch.setattr("selfattn.files._PATIENCE", 0.1)
        with pytest.raises(UserError, match="run: another process is at work here; wait for it"):
            parts.fit_small(run, CONFIG, resume=True)
        assert half.exists()
        assert process.poll() is None
        assert RunDirectory(run).config() == config  # whoever reads need not wait
        process.kill()
    with in_use(run):  # it holds nothing any more
        assert not half.exists()


def test_a_comparison_is_held_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfattn.files._PATIENCE", 0.1)
    with in_use(tmp_path / "out"), pytest.raises(UserError, match="out: another process is at work here; wait for it"):
        compare("dates", out=tmp_path / "out", models=("plain=rnn-plain",), quick=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]


def test_a_comparison_that_was_killed_as_it_wrote_is_resumed(tmp_path: Path) -> None:
    """Before it had a plan, and at the end."""
    out = tmp_path / "comparison"
    settings = {"models": ("plain=rnn-plain",), "quick": True, "items_per_epoch": 64, "validation_items": 5}
    settings |= {"set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"), "epochs": 1, "test_items": 4}
    out.mkdir()
    (out / f".plan.json.7{ASIDE}").touch()
    compare("dates", out=out, resume=True, **settings)
    assert not list(out.rglob(".*.tmp"))
    for place in (out, out / "logs", out / "runs" / "plain-seed0"):
        place.mkdir(exist_ok=True)
        (place / f".report.html.7{ASIDE}").touch()
    compare("dates", out=out, resume=True, **settings)
    assert not list(out.rglob(".*.tmp"))


def test_metrics_of_before_the_first_checkpoint_are_not_written_twice(tmp_path: Path) -> None:
    parts.fit_small(tmp_path / "run", CONFIG)
    directory = RunDirectory(tmp_path / "run")
    steps = [report.step for report in directory.metrics()]
    directory.write_metrics(directory.metrics()[:1])  # killed behind the first line and before the checkpoint
    (tmp_path / "run" / "last" / "checkpoint.safetensors").unlink()
    directory.update(status="running")
    parts.fit_small(tmp_path / "run", CONFIG, resume=True)
    assert [report.step for report in directory.metrics()] == steps


SIZES = "--epochs 6 --items-per-epoch 640 --batch-size 16 --validation-items 5"
SIZES += " --set encoder.hidden_dim=8 --set decoder.hidden_dim=8 --device cpu"
TRAIN = f"train dates --model rnn-plain {SIZES} --out"
COMPARE = f"compare dates --models plain=rnn-plain --quick --test-items 4 --jobs 1 {SIZES} --out"
LIMIT = 120.0


def words(command: str, out: Path) -> list[str]:
    """The command on a directory, which stands at its end where it does not say."""
    return [str(out) if word == "OUT" else word for word in (command if "OUT" in command else f"{command} OUT").split()]


def begin(command: str, out: Path) -> subprocess.Popen[str]:
    begun = [sys.executable, "-m", "selfattn.cli", *words(command, out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(begun, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)


def ended(process: subprocess.Popen[str]) -> int:
    """Wait for the end, which is a good one or one line."""
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode in (0, 2), said
    assert "Traceback" not in said
    assert process.returncode == 0 or said.splitlines()[-1].startswith("error: "), said
    return process.returncode


def what_came(out: Path) -> dict[str, Any]:
    """What a run or a comparison has come to: weights, metrics, answers."""
    runs = [path.parent for path in sorted(out.rglob("config.json"))]
    answers = [path.read_bytes() for path in sorted(out.rglob("test.jsonl"))]
    return {"runs": [parts.outcome(run) for run in runs], "answers": answers}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What a training or a comparison comes to that has its directory for itself."""

    @cache
    def of(kind: str) -> dict[str, Any]:
        out = tmp_path_factory.mktemp("undisturbed") / kind
        assert ended(begin({"train": TRAIN, "compare": COMPARE}[kind], out)) == 0
        return what_came(out)

    return lambda command: of(command.split()[0])


@pytest.mark.reliability
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TRAIN, f"{TRAIN} OUT --resume"),
        (TRAIN, TRAIN),
        (f"{TRAIN} OUT --resume", f"{TRAIN} OUT --resume"),
        (TRAIN, COMPARE),
        (COMPARE, COMPARE),
        (COMPARE, f"{COMPARE} OUT --resume"),
        (f"{COMPARE} OUT --resume", f"{COMPARE} OUT --resume"),
    ],
)
def test_of_two_that_begin_at_once_one_does_it(
    tmp_path: Path, undisturbed: Callable[[str], dict[str, Any]], first: str, second: str
) -> None:
    out = tmp_path / "out"
    with begin(first, out) as one, begin(second, out) as other:
        codes = [ended(one), ended(other)]
    assert 0 in codes
    assert what_came(out) == undisturbed(first if codes[0] == 0 else second)
    assert not list(out.rglob(".*.tmp"))
