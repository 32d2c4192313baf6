"""CONTRIBUTING lists the way of a batch, from the command to the model: here it is walked and held against the list."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest
from torch import Tensor

import selfattn
from selfattn.cli.main import main
from selfattn.models.encoder_decoder.model import EncoderDecoder

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(selfattn.__file__).parent
COMMAND = (
    "selfattn compare dates --models rnn-attention --seeds 1 --test-items 8 --epochs 1 --items-per-epoch 8 "
    "--validation-items 4 --set encoder.hidden_dim=4 --set decoder.hidden_dim=4 --quick"
)


class Stopped(Exception):  # noqa: N818  # no error: it ends the walk
    """The model was called."""


def listed(heading: str) -> list[tuple[str, str]]:
    """The numbered lines under a heading of CONTRIBUTING that begin with a file and a function."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index(f"### {heading}") :].split("\n### ")[0].split("\n## ")[0]
    return re.findall(r"^\d+\. `selfattn/([\w/.]+)`: `(\w+)`", section, re.MULTILINE)


def walked(monkeypatch: pytest.MonkeyPatch, out: Path, method: str, *, through: str) -> list[tuple[str, str]]:
    """The files and functions of the package on the way to a method of the model, the outermost first."""
    found: list[list[tuple[str, str]]] = []

    def watched(self: EncoderDecoder, *arguments: object, **named: object) -> Tensor:
        frames = [
            (Path(frame.filename).relative_to(PACKAGE).as_posix(), frame.name)
            for frame in traceback.extract_stack()[:-1]
            if PACKAGE in Path(frame.filename).parents
        ]
        if any(name == through for _, name in frames):
            found.append(frames)
            raise Stopped
        return own(self, *arguments, **named)

    own = getattr(EncoderDecoder, method)
    monkeypatch.setattr(EncoderDecoder, method, watched)
    monkeypatch.setattr("sys.argv", [*COMMAND.split(), "--out", str(out)])
    with pytest.raises(Stopped):
        main()
    return found[0]


def is_on_the_way(listed: list[tuple[str, str]], walked: list[tuple[str, str]]) -> bool:
    """Whether the walk comes by every stop of the list in its order."""
    rest = iter(walked)
    return bool(listed) and all(stop in rest for stop in listed)


def test_the_way_of_a_training_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    way = walked(monkeypatch, tmp_path / "out", "pre_logits", through="_step")
    stops = listed("A training step")
    assert len(stops) == 10
    assert is_on_the_way(stops, way), way
    assert len(way) <= 16, "frames that only hand on are left out"


def test_the_way_of_a_validation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    way = walked(monkeypatch, tmp_path / "out", "step", through="_validate")
    stops = listed("A validation")
    assert is_on_the_way(stops, way), way
    below = [name for _, name in way[[name for _, name in way].index("_validate") :]]
    assert len(below) <= 5, below  # from the loop to `model.step`
