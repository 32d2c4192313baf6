"""One directory, one writer: a second one is told so and disturbs nothing, and a killed one holds nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import training_parts as parts

from selfattn.comparison.compare import compare
from selfattn.errors import UserError
from selfattn.files import LOCK, in_use
from selfattn.runs.directory import RunDirectory
from selfattn.training.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("one_thread")
PROGRAM = Path(__file__).parents[1] / "fixtures" / "training_parts.py"
CONFIG = TrainingConfig(epochs=400, batch_size=4, lr=0.01)


def test_a_second_process_is_told_and_disturbs_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "run"), json.dumps(asdict(CONFIG)), "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        half = tmp_path / "run" / ".metrics.jsonl.1.tmp"
        half.touch()  # as the other one writes it
        with pytest.raises(UserError, match="run: another process is at work here; wait for it"):
            parts.fit_small(tmp_path / "run", CONFIG, resume=True)
        assert half.exists()
        assert process.poll() is None
        assert RunDirectory(tmp_path / "run").config()  # whoever reads need not wait
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    with in_use(tmp_path / "run"):  # it holds nothing any more
        assert (tmp_path / "run" / LOCK).exists()


def test_a_comparison_is_held_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    settings = {"models": ("plain=rnn-plain",), "quick": True, "items_per_epoch": 64, "validation_items": 5}
    with in_use(out), pytest.raises(UserError, match="comparison: another process is at work here; wait for it"):
        compare("dates", out=out, **settings)
    assert [found.name for found in out.iterdir()] == [LOCK]


def test_metrics_of_before_the_first_checkpoint_are_not_written_twice(tmp_path: Path) -> None:
    config = TrainingConfig(epochs=3, batch_size=4, lr=0.01)
    parts.fit_small(tmp_path / "whole", config)
    parts.fit_small(tmp_path / "run", config)
    directory = RunDirectory(tmp_path / "run")
    directory.rewrite_metrics(directory.metrics()[:1])  # killed behind the first line and before the checkpoint
    (tmp_path / "run" / "last" / "checkpoint.safetensors").unlink()
    directory.update(status="running")
    parts.fit_small(tmp_path / "run", config, resume=True)
    assert [report.step for report in directory.metrics()] == [
        report.step for report in RunDirectory(tmp_path / "whole").metrics()
    ]
