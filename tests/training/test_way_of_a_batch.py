"""From the training loop to the model: as few functions as there are things to do, and none that only hands on."""

from __future__ import annotations

import traceback

import pytest
import torch
import training_parts as parts

from selfattn.decoding.texts import decode_texts
from selfattn.models.build import build
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import train_model
from selfattn.training.validation import Criterion

STEP = ["train_model", "run", "_train_to_validation", "_step", "step", "loss", "_loss", "batch_loss", "pre_logits"]
VALIDATION = ["train_model", "run", "_validate", "criterion", "decode_texts", "decode_sources", "greedy", "step"]


def test_from_the_loop_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = parts.training_set().tokenizer
    model = build(parts.TRANSFORMER, vocab_size=len(tokenizer), pad_id=0, seed=0)
    ways: dict[str, list[str]] = {}
    for name in ("pre_logits", "step"):
        own = getattr(model, name)

        def watched(*arguments: object, name: str = name, own: object = own, **named: object) -> object:
            frames = [frame for frame in traceback.extract_stack()[:-1] if "torch" not in frame.filename]
            names = [frame.name for frame in frames]
            ways.setdefault(name, [*names[names.index("train_model") :], name])
            assert callable(own)
            return own(*arguments, **named)

        monkeypatch.setattr(model, name, watched)

    def criterion(model: object, loss: float, _: object) -> dict[str, float]:
        assert isinstance(model, torch.nn.Module)
        found = decode_texts(model, tokenizer, ["abc"], max_length=3)  # type: ignore[arg-type]  # it is one of ours
        return {"finished": float(found[0][0].finished)}

    config = TrainingConfig(epochs=1, batch_size=4)
    rule = Criterion(criterion, "finished")
    train_model(
        model, lambda epoch: parts.examples(4, 0), parts.examples(2, 1), config, pad_id=0, bos_id=1, criterion=rule
    )
    assert ways == {"pre_logits": STEP, "step": VALIDATION}
