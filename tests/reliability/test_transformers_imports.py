"""The links `tasks` and `tokenizers` at the top of the repository hide nobody else's packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("transformers", reason="transformers is not installed: nothing could be hidden")


def test_transformers_imports_beside_selfattn() -> None:
    program = (
        "import tokenizers, transformers, selfattn.tokenizers.char, selfattn.tasks.dates\n"
        "print(tokenizers.Tokenizer.__module__, transformers.MarianConfig.__name__)\n"
    )
    # `python -c` puts the working folder first on the path, as running a script from there would.
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["tokenizers", "MarianConfig"]), done.stderr
