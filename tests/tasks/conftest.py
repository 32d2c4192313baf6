"""Small trained runs, and the command line called from inside."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from selfattn.cli.main import main
from selfattn.runs.run import Run
from selfattn.runs.train import train as train_on


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]
Train = Callable[..., Run]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run `selfattn` with these arguments, and perhaps something on standard input."""

    def call(*arguments: object, stdin: str | bytes = "") -> Done:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = 0
        capsys.readouterr()
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 1
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    """A training that ends at once."""
    return {"epochs": 2, "items_per_epoch": 300, "batch_size": 64, "validation_items": 20}


@pytest.fixture(scope="session")
def small() -> dict[str, tuple[str, ...]]:
    """Settings that make three models small."""
    return {
        "transformer": ("encoder.dim=16", "decoder.dim=16", "encoder.num_layers=1"),
        "rnn-plain": ("encoder.hidden_dim=16", "decoder.hidden_dim=16"),
        "rnn-attention": ("encoder.hidden_dim=16", "decoder.hidden_dim=16"),
    }


@pytest.fixture(scope="session")
def train(tiny: dict[str, Any], small: dict[str, tuple[str, ...]]) -> Train:
    """Train a small model into a directory, with these options changed."""

    def call(model: str, out: Path, **changes: object) -> Run:
        training: Any = changes.pop("training", tiny)
        settings: dict[str, Any] = {"model": model, "out": out, "set": small[model]}
        return train_on("dates", **settings | training | changes)

    return call


@pytest.fixture(scope="session")
def runs(train: Train, small: dict[str, tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One small run of each kind; do not change their directories."""
    folder = tmp_path_factory.mktemp("runs")
    return {model: train(model, folder / model) for model in small}
