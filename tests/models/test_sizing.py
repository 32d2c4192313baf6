"""Widths solved for a budget: near enough, in proportion, the same every time, or a plain refusal."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from selfattn.errors import UserError
from selfattn.models.build import build, count_parameters
from selfattn.models.config import ModelConfig
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig, RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.sizing import SizeRange, match, parameters, spread
from selfattn.models.transformer_config import TransformerConfig

VOCAB = 47
BUDGETS = (60_000, 2_000_000)


def count(config: ModelConfig) -> float:
    return parameters(config, VOCAB)


def widths(config: ModelConfig) -> dict[str, int]:
    names = ("dim", "hidden_dim", "embed_dim", "ffn_dim", "score_dim")
    parts = {part: value for part, value in asdict(config).items() if isinstance(value, dict)}
    return {f"{part}.{name}": values[name] for part, values in parts.items() for name in names if values.get(name)}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_sized(name: str) -> None:
    config = PRESETS[name].config
    for budget in BUDGETS:
        sized = match(config, budget, count)
        # Two models sized for one budget must not be further apart than 2 %.
        assert abs(count(sized) / budget - 1) <= 0.01, widths(sized)
        before, after = widths(config), widths(sized)
        factors = sorted(after[path] / before[path] for path in before)
        assert factors[-1] <= 1.6 * factors[0], (before, after)  # in proportion, but for what divisibility asks
        for path, width in before.items():  # what was equal still is
            equal = [other for other in before if before[other] == width and path.split(".")[1] == other.split(".")[1]]
            assert {after[other] for other in equal} == {after[path]}


def test_a_linear_measure_is_solved_exactly() -> None:
    """Any number that grows with the widths will do: here the width itself."""

    def measure(config: Any) -> float:
        return float(config.stack.ffn_dim)

    config = DecoderOnlyConfig(stack=TransformerConfig(dim=96, num_heads=4, ffn_dim=160))
    sized = match(config, 320, measure)
    assert (sized.stack.dim, sized.stack.ffn_dim) == (192, 320)  # type: ignore[union-attr]  # a decoder-only model


STACK = TransformerConfig(dim=64, num_heads=8, position="rotary", ffn_dim=96)
ODD: dict[str, ModelConfig] = {
    "rotary heads": DecoderOnlyConfig(stack=STACK),
    "sliced heads, both directions": EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=36, direction="both"),
        decoder=RNNDecoderConfig(hidden_dim=72, num_heads=8, score="dot"),
    ),
    "shared and tied": EncoderDecoderConfig(encoder=STACK, decoder=STACK, share_embeddings=True, tie_output=True),
    "tied without attention": EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=64, embed_dim=32),
        decoder=RNNDecoderConfig(hidden_dim=64, embed_dim=64, attention="none"),
        tie_output=True,
    ),
    "tied and peeky": EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=64, embed_dim=32),
        decoder=RNNDecoderConfig(hidden_dim=64, embed_dim=128, attention="peeky"),
        tie_output=True,
    ),
    "shared between families": EncoderDecoderConfig(
        encoder=replace(STACK, position="sinusoidal"),
        decoder=RNNDecoderConfig(hidden_dim=48, embed_dim=64, score="general", initial_state="project"),
        share_embeddings=True,
    ),
    "its own score width": EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=50),
        decoder=RNNDecoderConfig(
            hidden_dim=70, attention="bahdanau", score="additive", score_dim=20, initial_state="project"
        ),
    ),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("budget", [50_000, 300_000])
def test_settings_that_bind_widths_to_each_other(name: str, budget: int) -> None:
    sized = match(ODD[name], budget, count, tolerance=0.02)
    assert abs(count(sized) / budget - 1) <= 0.02
    model = build(sized, vocab_size=VOCAB, pad_id=0, seed=0)
    assert count_parameters(model)[1] == count(sized)


@pytest.mark.parametrize("budget", [0, -5, float("nan"), float("inf")])
def test_a_budget_is_a_number_above_0(budget: float) -> None:
    with pytest.raises(UserError, match="budget: expected a number above 0, got"):
        match(PRESETS["transformer"].config, budget, count)


def test_a_budget_too_small_is_refused_in_one_line() -> None:
    with pytest.raises(
        UserError, match=r"come within 1\.0 % of 100, the nearest is \d+; choose another budget"
    ) as told:
        match(PRESETS["transformer"].config, 100, count)
    assert "\n" not in str(told.value)


# --- how far apart ----------------------------------------------------------------------------------------------------


def test_spread_by_hand() -> None:
    assert spread({"a": 100, "b": 150, "c": 120}) == SizeRange("a", "b", 0.5)
    assert spread({"a": 7}) == SizeRange("a", "a", 0.0)
