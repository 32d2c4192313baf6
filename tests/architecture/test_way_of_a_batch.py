"""From a command to the model in few frames, through the files that CONTRIBUTING lists, in their order."""

import re
import traceback
from pathlib import Path

import pytest

import selfattn
from selfattn.cli.main import main
from selfattn.models.encoder_decoder import EncoderDecoder

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(selfattn.__file__).parent
FRAMES = 12
SMALL = (
    "--epochs 1 --items-per-epoch 8 --validation-items 4 --set encoder.hidden_dim=4 --set decoder.hidden_dim=4 --quick"
)
COMMANDS = {
    "compare": f"selfattn compare dates --models rnn-attention --seeds 1 --test-items 8 {SMALL}",
    "train": f"selfattn train dates --model rnn-attention {SMALL}",
}


class Stopped(Exception):  # noqa: N818  # no error: it ends the walk
    """The model was called."""


def listed(heading):
    """The files that CONTRIBUTING numbers under a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index(f"### {heading}") :].split("\n### ")[0].split("\n## ")[0]
    return re.findall(r"^\d+\. `selfattn/([\w/.]+)`", section, re.MULTILINE)


def walk(monkeypatch, out, command, method, *, through):
    """The package's files on the way from a command to a method of the model, one for each frame, outermost first."""
    walks = []

    def stop(self, *arguments, **named):
        frames = [frame for frame in traceback.extract_stack()[:-1] if PACKAGE in Path(frame.filename).parents]
        files = [Path(frame.filename).relative_to(PACKAGE).as_posix() for frame in frames]
        if through in files:
            walks.append(files)
            raise Stopped
        return original(self, *arguments, **named)

    original = getattr(EncoderDecoder, method)
    monkeypatch.setattr(EncoderDecoder, method, stop)
    monkeypatch.setattr("sys.argv", [*COMMANDS[command].split(), "--out", str(out)])
    with pytest.raises(Stopped):
        main()
    return walks[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_way_of_a_training_step(command, monkeypatch, tmp_path):
    files = walk(monkeypatch, tmp_path / "out", command, "pre_logits", through="training/step.py")
    assert len(files) <= FRAMES, files
    rest = iter(files)
    if command == "compare":
        assert all(file in rest for file in listed("A training step")), files


def test_the_way_of_a_validation(monkeypatch, tmp_path):
    files = walk(monkeypatch, tmp_path / "out", "train", "step", through="decoding/greedy.py")
    rest = iter(files)
    assert all(file in rest for file in listed("A validation")), files
