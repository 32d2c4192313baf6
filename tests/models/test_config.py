"""Model configurations check themselves, travel as JSON, are changed by dotted paths and sized for a budget."""

import dataclasses
import itertools
import json
import math
import typing
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from selfattn.errors import UserError
from selfattn.models.build import build, count_parameters, match, parameters, spread
from selfattn.models.config import Checked, config_from_dict, config_to_dict, override
from selfattn.models.families import (
    PRESETS,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    RNNDecoderConfig,
    RNNEncoderConfig,
    TransformerConfig,
    get_preset,
)
from selfattn.registry import Registry

RNN = EncoderDecoderConfig(encoder=RNNEncoderConfig(), decoder=RNNDecoderConfig())
HYBRID = EncoderDecoderConfig(
    encoder=TransformerConfig(), decoder=RNNDecoderConfig(initial_state="project", score="general")
)
MIXED = EncoderDecoderConfig(encoder=RNNEncoderConfig(direction="both"), decoder=TransformerConfig(num_kv_heads=1))
LONE = DecoderOnlyConfig(stack=TransformerConfig(norm="rms"), bidirectional_prefix=True, tie_output=True)
CONFIGS = {name: preset.config for name, preset in PRESETS.items()}
CONFIGS |= {"rnn": RNN, "hybrid": HYBRID, "mixed": MIXED, "lone": LONE}
KINDS = (RNNEncoderConfig, RNNDecoderConfig, TransformerConfig, EncoderDecoderConfig, DecoderOnlyConfig)


@pytest.mark.parametrize("name", CONFIGS)
def test_json_and_back(name):
    written = json.dumps(config_to_dict(CONFIGS[name]), allow_nan=False)
    assert config_from_dict(json.loads(written)) == CONFIGS[name]


def test_settings_that_are_fixed_now_are_written_and_read():
    """Hashes of published plans cover them; another value is refused."""
    written = config_to_dict(RNN)
    assert (written["encoder"]["handover"], written["decoder"]["score_dim"]) == ("hidden", None)
    with pytest.raises(UserError, match="rnn-encoder has no setting 'handover'"):
        config_from_dict(written | {"encoder": written["encoder"] | {"handover": "all"}})


def bad_values(annotation):
    if hasattr(annotation, "__metadata__"):
        if isinstance(annotation.__metadata__[0], Registry):  # the name of a part that is in a registry
            return [None, "nope", "", 3, True, ["dot"], {}]
        annotation = annotation.__origin__
    options = typing.get_args(annotation) if typing.get_origin(annotation) not in (None, Literal) else (annotation,)
    values = [] if type(None) in options else [None]
    for option in options:
        if option is bool:
            values += [0, 1, "true"]
        elif option is int:
            values += [0, -1, 1.5, 2.0, "3", True, math.nan, [1]]
        elif option is float:
            values += [-0.1, 1.0, 7, math.nan, math.inf, "0.1", False]
        elif typing.get_origin(option) is Literal:
            values += ["nope", "", 3, True, ["lstm"], {}]
        elif dataclasses.is_dataclass(option):
            values += ["transformer", {}, 3, RNN, TransformerConfig]
    if options == (RNNEncoderConfig, TransformerConfig):
        values.append(RNNDecoderConfig())
    if options == (RNNDecoderConfig, TransformerConfig):
        values.append(RNNEncoderConfig())
    assert len(values) > 2, annotation  # the kind of this field is known here
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_bad_values_are_named(kind):
    needed = {EncoderDecoderConfig: vars(RNN), DecoderOnlyConfig: vars(LONE)}.get(kind, {})
    for name, annotation in typing.get_type_hints(kind, include_extras=True).items():
        for value in bad_values(annotation) if typing.get_origin(annotation) is not typing.ClassVar else ():
            with pytest.raises(UserError, match=rf"^{kind.__name__}\.{name}: ") as caught:
                kind(**{**needed, name: value})
            assert "\n" not in str(caught.value)


def test_bounds_that_a_field_declares_are_checked():
    @dataclasses.dataclass(frozen=True)
    class Window(Checked):
        before: Annotated[int, Ge(0), Le(9)] = 0
        scale: Annotated[float, Gt(1), Lt(5)] | None = None

    assert Window(0).before == 0
    for settings, message in (
        ({"before": 10}, "Window.before: expected a whole number from 0 to 9, got 10"),
        ({"before": -1}, "Window.before: expected a whole number from 0 to 9, got -1"),
        ({"scale": 1.0}, r"Window.scale: expected a number in \(1, 5\), got 1.0"),
    ):
        with pytest.raises(UserError, match=message):
            Window(**settings)


def test_override_changes_what_it_names_and_nothing_else():
    changed = override(RNN, {"encoder.hidden_dim": 7, "decoder.hidden_dim": 7, "share_embeddings": True})
    assert changed == EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=7), decoder=RNNDecoderConfig(hidden_dim=7), share_embeddings=True
    )
    assert RNN.encoder.hidden_dim == 128
    assert override(RNN, {}) == RNN


# Widths solved for a budget: near enough, in proportion, the same every time, or a plain refusal


VOCAB = 47
BUDGETS = (60_000, 2_000_000)


def count(config):
    return parameters(config, VOCAB)


ONE = get_preset("decoder-only").config
GRU = get_preset("decoder-only-rnn").config
NOT_TOGETHER = [
    (RNN, {"decoder.input_feeding": True}, "`set` decoder.input_feeding: only with attention 'luong'"),
    (RNN, {"decoder.num_heads": 2}, "`set` decoder.num_heads: several heads need projections; set project"),
    (RNN, {"decoder.num_heads": 3}, "`set` decoder.num_heads: 3 does not divide hidden_dim 128"),
    (RNN, {"share_embeddings": True, "encoder.embed_dim": 5}, "`set` share_embeddings: .* 5, .* 32"),
    (RNN, {"encoder.hidden_dim": 64}, "`set` decoder.initial_state: .* width 128, got 1 and 64"),
    (RNN, {"encoder.direction": "both"}, "`set` decoder.initial_state: .* width 128, got 1 and 256"),
    (RNN, {"decoder.num_layers": 2}, "`set` decoder.initial_state: .* num_layers 2 .*, got 1 and"),
    (HYBRID, {"decoder.initial_state": "copy"}, "`set` decoder.initial_state: .* needs an RNN enc"),
    (HYBRID, {"decoder.score": "dot"}, "`set` decoder.score: 'dot' .* 64 .* 128; use 'general'"),
    (HYBRID, {"decoder.score": "scaled_dot"}, "`set` decoder.score: 'scaled_dot' needs equal"),
    (RNN, {"tie_output": True}, "`set` tie_output: .*'textbook' .* width 256, .* has 32"),
    (RNN, {"tie_output": True, "decoder.attention": "none"}, "tie_output: .*'none' .* width 128, .* has 32"),
    (RNN, {"tie_output": True, "decoder.attention": "peeky"}, "tie_output: .*'peeky' .* width 256, .* has 32"),
    (MIXED, {"decoder.num_heads": 5}, "`set` decoder.num_heads: 5 does not divide dim 64"),
    (LONE, {"stack.num_kv_heads": 3}, "`set` stack.num_kv_heads: 3 does not divide num_heads 4"),
    (LONE, {"stack.dim": 5, "stack.num_heads": 1}, "`set` stack.dim: sinusoidal .* multiple of 2, got 5"),
    (LONE, {"stack.dim": 12, "stack.position": "rotary"}, "`set` stack.dim: rotary .* multiple of 8, got 12"),
    (LONE, {"stack.score": "location"}, "`set` stack.score: 'location'"),
    (GRU, {"stack.cell": "lstm"}, "stack.cell: expected gru, got 'lstm'"),
    (GRU, {"stack.direction": "both"}, "stack.direction: expected forward, got 'both'"),
    (ONE, {"stack.hybrid": True}, "stack.hybrid: every second block has softmax attention; set attention to another"),
    (ONE, {"stack.attention": "linear", "stack.score": "dot"}, "stack.score: has no effect with attention 'linear'; l"),
    (ONE, {"stack.attention": "linear", "stack.position": "rotary"}, "expected none, sinusoidal, learned, alibi, ret"),
    (ONE, {"stack.attention": "delta", "stack.position": "alibi"}, "'delta' expected none, sinusoidal, learned, got"),
    (ONE, {"stack.attention": "quick"}, "attention: attention 'quick' is not known; known: softmax, linear, delta"),
    # names
    (RNN, {"hidden_dim": 3}, "`set` hidden_dim: there is no setting 'hidden_dim' here; there is decoder, encoder, "),
    (RNN, {"encoder.hidden": 3}, "`set` encoder.hidden: there is no setting 'hidden' here; there is cell, direction, "),
    (RNN, {"encoder": 3}, "`set` encoder: 'encoder' is a group of settings"),
    (RNN, {"": 3}, "`set` : there is no setting ''"),
    (RNN, {"encoder.hidden_dim.x": 3}, "`set` encoder.hidden_dim.x: 'hidden_dim' is one setting"),
    (RNN, {"encoder.output_dim": 3}, "`set` encoder.output_dim: there is no setting"),
]
OF_RNN = {"kind": "encoder-decoder", "encoder": {"kind": "rnn-decoder"}, "decoder": {"kind": "rnn-decoder"}}
BAD_JSON = [
    ({}, "run/config.json: kind None is unknown; known: decoder-only, encoder-decoder, "),
    ({"kind": "rnn"}, "run/config.json: kind 'rnn' is unknown"),
    ([], "run/config.json: expected an object"),
    ({"kind": "transformer", "dimm": 3}, "run/config.json: transformer has no setting 'dimm'; it has .*dim"),
    ({"kind": "transformer", "dim": "64"}, "dim: expected a whole number from 1 to 1,048,576, got '64'"),
    ({"kind": "decoder-only"}, "run/config.json: .*stack"),
    ({"kind": "decoder-only", "stack": {"dim": 3}}, "run/config.json: kind None is unknown"),
    ({"kind": "decoder-only", "stack": 3}, "DecoderOnlyConfig.stack: expected TransformerConfig, got 3"),
    (OF_RNN, "EncoderDecoderConfig.encoder: expected RNNEncoderConfig or TransformerConfig, got RNNDecoderConfig"),
]
SIZES = [(size, "size: expected a number above 0, got") for size in (0, -5, math.nan, math.inf)]
SIZES += [(100, r"come within 1\.0 % of 100, the nearest is \d+; change its layers")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(override, config, settings), message) for config, settings, message in NOT_TOGETHER),
        *((partial(config_from_dict, data, "run/config.json"), message) for data, message in BAD_JSON),
        *((partial(match, PRESETS["transformer"].config, size, count), message) for size, message in SIZES),
    ],
)
def test_what_cannot_be_is_named_in_a_line(make, message):
    with pytest.raises(UserError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def widths(config):
    names = ("dim", "hidden_dim", "embed_dim", "ffn_dim")
    parts = {part: value for part, value in asdict(config).items() if isinstance(value, dict)}
    return {f"{part}.{name}": values[name] for part, values in parts.items() for name in names if values.get(name)}


@pytest.mark.parametrize(("name", "budget"), list(zip(list(PRESETS)[::2], itertools.cycle(BUDGETS))))
def test_presets_can_be_sized(name, budget):
    config = PRESETS[name].config
    sized = match(config, budget, count)
    # Two models sized for one budget must not be further apart than 2 %.
    assert abs(count(sized) / budget - 1) <= 0.01, widths(sized)
    before, after = widths(config), widths(sized)
    factors = sorted(after[path] / before[path] for path in before)
    assert factors[-1] <= 1.6 * factors[0], (before, after)  # in proportion, but for what divisibility asks
    for path, width in before.items():  # what was equal still is
        equal = [other for other in before if before[other] == width and path.split(".")[1] == other.split(".")[1]]
        assert {after[other] for other in equal} == {after[path]}


def test_a_linear_measure_is_solved_exactly():
    """Any number that grows with the widths will do: here the width itself."""

    def measure(config):
        return float(config.stack.ffn_dim)

    config = DecoderOnlyConfig(stack=TransformerConfig(dim=96, num_heads=4, ffn_dim=160))
    sized = match(config, 320, measure)
    assert (sized.stack.dim, sized.stack.ffn_dim) == (192, 320)


STACK = TransformerConfig(dim=64, num_heads=8, position="rotary", ffn_dim=96)
ODD = {
    "rotary heads": DecoderOnlyConfig(stack=STACK),
    "heads, both directions": EncoderDecoderConfig(
        encoder=RNNEncoderConfig(hidden_dim=36, direction="both"),
        decoder=RNNDecoderConfig(hidden_dim=72, num_heads=8, project=True),
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
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("budget", [50_000, 300_000])
def test_settings_that_bind_widths_to_each_other(name, budget):
    sized = match(ODD[name], budget, count)
    assert abs(count(sized) / budget - 1) <= 0.01
    model = build(sized, vocab_size=VOCAB, pad_id=0, seed=0)
    assert count_parameters(model)[1] == count(sized)


def test_spread_by_hand():
    assert spread({"a": 100, "b": 150, "c": 120}) == ("a", "b", 0.5)
    assert spread({"a": 7}) == ("a", "a", 0.0)


def test_a_setting_that_was_renamed_keeps_its_name_in_the_json():
    """Hashes of published plans cover the JSON, and old commands name the setting as it was."""
    config = get_preset("decoder-only-linear").config
    values = config_to_dict(config)
    assert values["stack"]["state"] == "linear"
    assert "attention" not in values["stack"]
    assert config_from_dict(values) == config
    assert override(get_preset("decoder-only").config, {"stack.state": "delta"}).stack.attention == "delta"
    assert "state" not in config_to_dict(get_preset("decoder-only").config)["stack"]
