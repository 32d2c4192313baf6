"""What is under version control: no weights, checkpoints or runs beside the fixtures."""

import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_A_RUN = ("*.safetensors", "*.pt", "*.pth", "*.ckpt", "*.onnx", ".lock", "*.lock", "run.json", "metrics.jsonl")


def test_no_run_is_tracked_outside_the_fixtures() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs git and its repository")
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [PurePosixPath(name) for name in names if not name.startswith("tests/fixtures/")]
    assert [str(path) for path in paths if any(path.match(pattern) for pattern in OF_A_RUN)] == []
