"""A training that is killed with SIGKILL at moments that nobody chose, and goes on, ends as if never killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import training_parts as parts

from selfattn.training.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("one_thread")
PROGRAM = Path(__file__).parents[1] / "fixtures" / "training_parts.py"
CONFIG = TrainingConfig(
    epochs=40,
    batch_size=4,
    accumulate=2,
    lr=0.01,
    average="ema",
    ema_decay=0.9,
    teacher_forcing=0.9,
    teacher_forcing_end=0.4,
)
STEPS = 120
KILLS = 3


def train_and_kill(out: Path, chance: random.Random, most: int) -> tuple[int, int]:
    """Start the program and kill it after some steps; return the first step it made, and its exit code."""
    command = [sys.executable, str(PROGRAM), str(out), json.dumps(asdict(CONFIG)), "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        for _ in range(chance.randint(0, most)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        return first, process.wait(timeout=60)


def test_killed_again_and_again_it_ends_the_same(tmp_path: Path) -> None:
    parts.fit_small(tmp_path / "whole", CONFIG)
    seed = random.SystemRandom().randrange(2**32)
    print(f"moments of the kills: random.Random({seed})")  # shown when the test fails
    chance = random.Random(seed)
    firsts = []
    for _ in range(KILLS):
        first, code = train_and_kill(tmp_path / "run", chance, STEPS // KILLS - 5)
        assert code == -signal.SIGKILL
        firsts.append(first)
    assert firsts[0] == 1
    assert firsts == sorted(firsts)  # each begins where the one before had got to
    parts.fit_small(tmp_path / "run", CONFIG, resume=True)
    assert parts.outcome(tmp_path / "run") == parts.outcome(tmp_path / "whole")
    assert not list((tmp_path / "run").rglob(".*.tmp"))
