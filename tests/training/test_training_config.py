"""Training settings check themselves and travel as JSON; the command line offers them all."""

import json
import typing
from dataclasses import fields, replace
from typing import Any

import pytest

from selfattn.cli.options import options_of
from selfattn.codec import decode, encode
from selfattn.errors import UserError
from selfattn.settings import changed
from selfattn.training.config import TrainingConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("epochs", 1.5), ("epochs", True), ("epochs", None), ("items_per_epoch", 0), ("batch_size", -1),
        ("max_tokens", 0), ("validation_items", 0), ("seed", 0.5), ("lr", 0.0), ("lr", -1e-3), ("lr", float("nan")),
        ("lr", float("inf")), ("lr", "fast"), ("schedule", "steps"), ("warmup", 1.0), ("warmup", -0.1),
        ("weight_decay", -1.0), ("clip_norm", -1.0), ("clip_norm", float("nan")), ("label_smoothing", 1.0),
        ("precision", "float16"), ("target_exact_match", 0.0), ("target_exact_match", 1.5), ("betas", (0.9,)),
        ("betas", (0.9, 1.0)), ("betas", "ab"),
        ("max_steps", 0), ("accumulate", 0), ("accumulate", None), ("warmup_steps", -1), ("warmup_steps", 0.5),
        ("r_drop", -1.0), ("average", "mean"), ("average", None), ("ema_decay", 1.0), ("ema_decay", -0.1),
        ("average_last", 0), ("validate_every", 0), ("patience", 0), ("schedule", "one"),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(UserError, match=f"^{name}: expected .*, got ") as caught:
        TrainingConfig(**{name: value})  # type: ignore[arg-type]  # a setting of any type
    assert "\n" not in str(caught.value)


def test_it_travels_as_json() -> None:
    config = TrainingConfig(seed=-3, lr=1, schedule="cosine", betas=(0.8, 0.9), items_per_epoch=7, target_exact_match=1)
    assert decode(TrainingConfig, json.loads(json.dumps(encode(config))), file="x", advice="y") == config


def test_the_options_are_the_settings_without_those_that_a_run_has_of_its_own() -> None:
    settings = typing.get_type_hints(TrainingConfig)
    made: Any = options_of(TrainingConfig, leave_out=("seed", "betas"), all_open=True)
    options = typing.get_type_hints(made)
    assert set(settings) - set(options) == {"seed", "betas"}
    assert set(options) < set(settings)
    assert all(options[name] == settings[name] | None for name in options)
    assert all(field.default is None for field in fields(made))


def test_only_what_is_given_replaces_the_recipe() -> None:
    recipe = TrainingConfig(lr=0.5, epochs=7)
    made: Any = options_of(TrainingConfig, leave_out=("seed", "betas"), all_open=True)
    assert replace(recipe, **changed(made())) == recipe
    assert replace(recipe, **changed(made(clip_norm=0.0))) == TrainingConfig(lr=0.5, epochs=7, clip_norm=0.0)
    with pytest.raises(UserError, match="epochs: expected"):
        replace(recipe, **changed(made(epochs=0)))
