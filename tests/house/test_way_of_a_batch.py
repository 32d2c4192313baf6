"""CONTRIBUTING lists the way of a batch, from the command to the model: here it is walked, and held against the list."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from torch import nn

import selfattn
from selfattn.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(selfattn.__file__).parent
SMALL = ["--models", "rnn-attention,rnn-peeky", "--seeds", "1", "--test-items", "20", "--epochs", "1", "--items-per-epoch", "64",
         "--validation-items", "16", "--set", "encoder.hidden_dim=8", "--set", "decoder.hidden_dim=8", "--apart"]  # fmt: skip


class _Reached(Exception):
    """The model was called."""


def way_in_contributing() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index("## The way of a batch") :].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w./]+): (\w+)`", section, re.MULTILINE)


def frames() -> list[tuple[str, str]]:
    """The files and functions of the package that are at work, the outermost first; PyTorch's and rich's left out."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            found.append((str(path.relative_to(PACKAGE)), frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]
