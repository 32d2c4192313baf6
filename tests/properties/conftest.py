"""A zoo of small models for the property tests: every preset, shrunk, and every setting of every family at least once.

A test with an argument ``variant``, or ``decoder_only_variant``, runs once for each name; the fixture ``zoo`` makes
the models, each once a session.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.models.build import build
from selfattn.models.config import ModelConfig, override
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig

VOCAB, PAD, BOS = 23, 0, 1


def shrink(config: ModelConfig) -> ModelConfig:
    """Make any preset small, leaving alone what it is made of: layers, heads, directions, scores."""
    names = ("stack",) if isinstance(config, DecoderOnlyConfig) else ("encoder", "decoder")
    parts = {name: getattr(config, name) for name in names}
    width = 4 * max(getattr(part, "num_heads", 1) for part in parts.values())  # one for both: they may share it
    settings: dict[str, Any] = {}
    for name, part in parts.items():
        if isinstance(part, TransformerConfig):
            settings |= {f"{name}.dim": width, f"{name}.ffn_dim": 11, f"{name}.max_length": 61}
        else:
            both = getattr(part, "direction", "forward") == "both"
            settings |= {f"{name}.hidden_dim": width // 2 if both else width, f"{name}.embed_dim": 8}
    return override(config, settings)  # type: ignore[no-any-return]  # override() keeps the kind


def _rnn(encoder: dict[str, Any], decoder: dict[str, Any], **shared: Any) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(
        encoder=RNNEncoderConfig(**{"embed_dim": 5, "hidden_dim": 6} | encoder),
        decoder=RNNDecoderConfig(**{"embed_dim": 7, "hidden_dim": 6} | decoder),
        **shared,
    )


def _stack(**settings: Any) -> TransformerConfig:
    return TransformerConfig(**{"dim": 8, "num_heads": 2, "num_layers": 2, "ffn_dim": 11, "max_length": 61} | settings)


def _transformer(*, shared: dict[str, Any] | None = None, **settings: Any) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(encoder=_stack(**settings), decoder=_stack(**settings), **(shared or {}))


def _hybrid(encoder: str, decoder: dict[str, Any]) -> EncoderDecoderConfig:
    rnn = RNNEncoderConfig(embed_dim=5, hidden_dim=3, direction="both", num_layers=2)
    if encoder == "rnn":
        return EncoderDecoderConfig(encoder=rnn, decoder=_stack(**decoder))
    writer = RNNDecoderConfig(**{"embed_dim": 7, "hidden_dim": 6, "initial_state": "project"} | decoder)
    return EncoderDecoderConfig(encoder=_stack(), decoder=writer)


POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi", "t5")
BOTH = {"direction": "both", "hidden_dim": 3}
DEEP = {"num_layers": 2, "residual": True}
GRU = {"cell": "gru"}

VARIANTS: dict[str, ModelConfig] = (
    {f"preset {name}": shrink(preset.config) for name, preset in PRESETS.items()}
    | {
        "plain gru deep": _rnn(GRU | DEEP, GRU | DEEP | {"attention": "none"}),
        "peeky zero": _rnn({}, {"attention": "peeky", "initial_state": "zero"}),
        "peeky both all": _rnn(BOTH | {"handover": "all"}, {"attention": "peeky"}),
        "peeky gru project": _rnn(GRU, GRU | {"attention": "peeky", "initial_state": "project", "hidden_dim": 5}),
        "textbook backward all deep": _rnn({"direction": "backward", "handover": "all"} | DEEP, DEEP),
        "textbook both deep more layers": _rnn(BOTH | DEEP, {"num_layers": 3, "initial_state": "project"}),
        "textbook gru from lstm": _rnn({"handover": "all"}, GRU),
        "textbook sliced heads": _rnn({}, {"num_heads": 2}),
        "textbook projected heads": _rnn(BOTH, {"num_heads": 3, "project": True, "score": "scaled_dot"}),
        "luong input feeding deep": _rnn(DEEP, DEEP | {"attention": "luong", "input_feeding": True}),
        "luong zero feeding": _rnn(GRU, GRU | {"attention": "luong", "input_feeding": True, "initial_state": "zero"}),
        "luong projected additive": _rnn(
            {}, {"attention": "luong", "num_heads": 2, "project": True, "score": "additive"}
        ),
        "bahdanau gru": _rnn(
            GRU | BOTH, GRU | {"attention": "bahdanau", "score": "additive", "score_dim": 5, "initial_state": "project"}
        ),
        "bahdanau lstm zero deep": _rnn({}, {"attention": "bahdanau", "initial_state": "zero"} | DEEP),
        "luong shared tied": _rnn({"embed_dim": 7}, {"attention": "luong"}, share_embeddings=True, tie_output=True),
        "bahdanau tied": _rnn({}, {"attention": "bahdanau"}, tie_output=True),
    }
    | {
        f"luong {score}": _rnn({}, {"attention": "luong", "score": score})
        for score in ("dot", "scaled_dot", "general", "concat", "additive", "location")
    }
    | {f"transformer {position}": _transformer(position=position) for position in POSITIONS}
    | {
        "transformer post-norm gelu": _transformer(norm_first=False, activation="gelu"),
        "transformer rms swiglu": _transformer(norm="rms", activation="swiglu"),
        "transformer halves silu": _transformer(sinusoid_layout="halves", scale_embedding=False, activation="silu"),
        "transformer gqa rotary": _transformer(dim=16, num_heads=4, num_kv_heads=2, position="rotary"),
        "transformer mqa alibi": _transformer(dim=12, num_heads=3, num_kv_heads=1, position="alibi"),
        "transformer qk-norm": _transformer(qk_norm=True),
        "transformer window": _transformer(window=2, position="rotary"),
        "transformer window t5": _transformer(window=3, position="t5"),
        "transformer shared tied": _transformer(shared={"share_embeddings": True, "tie_output": True}),
        "transformer additive": _transformer(score="additive"),
        "transformer location": _transformer(score="location"),
        "transformer general": _transformer(score="general", num_kv_heads=1),
    }
    | {f"decoder-only {position}": DecoderOnlyConfig(stack=_stack(position=position)) for position in POSITIONS}
    | {
        "decoder-only prefix": DecoderOnlyConfig(stack=_stack(), bidirectional_prefix=True),
        "decoder-only prefix t5 tied": DecoderOnlyConfig(
            stack=_stack(position="t5"), bidirectional_prefix=True, tie_output=True
        ),
        "decoder-only prefix window": DecoderOnlyConfig(
            stack=_stack(position="rotary", window=3), bidirectional_prefix=True
        ),
        "decoder-only window": DecoderOnlyConfig(stack=_stack(position="alibi", window=2)),
        "decoder-only modern": DecoderOnlyConfig(
            stack=_stack(position="rotary", norm="rms", activation="swiglu", num_kv_heads=1, qk_norm=True)
        ),
        "decoder-only post-norm concat": DecoderOnlyConfig(stack=_stack(norm_first=False, score="concat")),
        "transformer + plain": _hybrid("transformer", {"attention": "none"}),
        "transformer + peeky": _hybrid("transformer", {"attention": "peeky"}),
        "transformer + textbook": _hybrid("transformer", {"score": "general", "initial_state": "zero"}),
        "transformer + luong": _hybrid(
            "transformer", {"attention": "luong", "input_feeding": True, "num_heads": 2, "project": True}
        ),
        "transformer + bahdanau": _hybrid("transformer", {"attention": "bahdanau", "score": "additive"} | GRU),
        "rnn + transformer": _hybrid("rnn", {"position": "learned"}),
        "rnn + transformer window": _hybrid("rnn", {"position": "t5", "window": 2, "num_kv_heads": 1}),
    }
)


@dataclass(frozen=True)
class Case:
    """One batch.

    Attributes:
        source: ``[b s]``, padded on the right with anything at all.
        source_mask: ``[b s]``.
        target: ``[b t]``, beginning with BOS.
        lengths: of the sources.
    """

    source: Tensor
    source_mask: Tensor
    target: Tensor
    lengths: list[int]

    def pick(self, rows: list[int]) -> Case:
        return Case(self.source[rows], self.source_mask[rows], self.target[rows], [self.lengths[row] for row in rows])

    def padded(self, width: int, fill: int) -> Case:
        """Cut or fill the source's padding so that it is ``width`` wide."""
        narrow = self.source[:, :width].masked_fill(~self.source_mask[:, :width], fill)
        extra = narrow.new_full((len(narrow), max(0, width - narrow.shape[1])), fill)
        mask = torch.arange(width) < torch.tensor(self.lengths)[:, None]
        return Case(torch.cat([narrow, extra], dim=1), mask, self.target, self.lengths)


class Zoo:
    """The models, each built once, in evaluation mode; tests must not change them."""

    variants = VARIANTS
    pad, vocab = PAD, VOCAB

    @staticmethod
    @functools.cache
    def model(variant: str, dtype: torch.dtype = torch.float64) -> Seq2Seq:
        return Zoo.fresh(VARIANTS[variant]).to(dtype).eval()

    @staticmethod
    def fresh(config: ModelConfig, seed: int = 0) -> Seq2Seq:
        model = build(config, vocab_size=VOCAB, pad_id=PAD, seed=seed)
        with torch.no_grad():  # first values leave biases at zero and norms at one, where mistakes do not show
            draw = torch.Generator().manual_seed(seed)
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter += 0.3 * torch.randn(parameter.shape, generator=draw)
                else:
                    parameter *= 1.5
        return model

    @staticmethod
    def case(lengths: list[int], t: int, seed: int) -> Case:
        draw = torch.Generator().manual_seed(seed)
        s = max(lengths)
        source = torch.randint(3, VOCAB, (len(lengths), s), generator=draw)
        target = torch.randint(3, VOCAB, (len(lengths), t), generator=draw)
        target[:, 0] = BOS
        return Case(source, torch.arange(s) < torch.tensor(lengths)[:, None], target, lengths)

    @staticmethod
    def dropping(variant: str, p: float) -> ModelConfig:
        """The variant with every dropout there is."""
        config = VARIANTS[variant]
        parts = ("stack",) if isinstance(config, DecoderOnlyConfig) else ("encoder", "decoder")
        names = [f"{part}.{name}" for part in parts for name in vars(getattr(config, part)) if name.endswith("dropout")]
        return override(config, dict.fromkeys(names, p))  # type: ignore[no-any-return]  # override() keeps the kind

    @staticmethod
    def untied(variant: str) -> ModelConfig:
        return replace(VARIANTS[variant], tie_output=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", VARIANTS)
    if "decoder_only_variant" in metafunc.fixturenames:
        names = [name for name, config in VARIANTS.items() if isinstance(config, DecoderOnlyConfig)]
        metafunc.parametrize("decoder_only_variant", names)


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo()
