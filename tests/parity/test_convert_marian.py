"""The Marian architecture against ``transformers`` with random weights: logits, attention, greedy, beam, round trip."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.convert.marian import Marian, from_marian, to_marian
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import LengthPenalty
from tests.fixtures.marian import EOS, PAD, VOCAB, theirs

transformers = pytest.importorskip("transformers", reason="compares with transformers, which is not installed")

# Long enough for every target here to end by itself.
LONGEST = 40


def converted(model: Any) -> Marian:
    return from_marian(model.state_dict(), model.config.to_dict())


KINDS: dict[str, dict[str, Any]] = {
    "published": {},
    "relu": {"seed": 47, "activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
    "unscaled": {"seed": 47, "scale_embedding": False},
    "two vocabularies": {
        "seed": 129,
        "share_encoder_decoder_embeddings": False,
        "vocab_size": 23,
        "decoder_vocab_size": VOCAB,
    },
    "untied output": {"seed": 211, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
}
kinds = pytest.mark.parametrize("kind", KINDS)

LENGTHS = torch.tensor([5, 7, 2, 3])
MASK = torch.arange(7) < LENGTHS[:, None]


def texts(seed: int = 3) -> Tensor:
    """Sources that end with <eos>, padded on the right."""
    drawn = torch.randint(1, PAD, MASK.shape, generator=torch.Generator().manual_seed(seed))
    drawn[torch.arange(len(LENGTHS)), LENGTHS - 1] = EOS
    return drawn.masked_fill(~MASK, PAD)


def prefixes() -> Tensor:
    """Targets as a decoder reads them: they begin with the padding token."""
    drawn = torch.randint(1, PAD, (len(LENGTHS), 6), generator=torch.Generator().manual_seed(4))
    return torch.cat([torch.full((len(LENGTHS), 1), PAD), drawn], dim=1)


@kinds
@torch.no_grad()
def test_logits_and_attention_weights(kind: str) -> None:
    reference = theirs(**KINDS[kind])
    model = converted(reference).model
    source, target = texts(), prefixes()
    expected = reference(input_ids=source, attention_mask=MASK.long(), decoder_input_ids=target, output_attentions=True)
    torch.testing.assert_close(model(source, target, source_mask=MASK), expected.logits, rtol=1e-4, atol=1e-4)
    maps = model.attention_maps(source, target, source_mask=MASK)
    real = MASK[:, None, :, None].expand_as(maps.encoder[0])  # theirs has rows for padding too
    for ours, attentions in (
        (maps.encoder, expected.encoder_attentions),
        (maps.decoder, expected.decoder_attentions),
        (maps.cross, expected.cross_attentions),
    ):
        assert len(ours) == len(attentions) > 0
        for layer, attention in zip(ours, attentions, strict=True):
            if ours is maps.encoder:
                attention = attention.where(real[:, :1].expand_as(attention), layer)
            torch.testing.assert_close(layer, attention, rtol=1e-4, atol=1e-5)


def cut(sequences: Tensor) -> list[list[int]]:
    """What generate() returned, without the start, <eos> and what lies behind it."""
    rows = [row[1:] for row in sequences.tolist()]
    assert all(EOS in row for row in rows), "a target did not end: this would test nothing"
    return [row[: row.index(EOS)] for row in rows]


@pytest.mark.parametrize(
    ("kind", "alpha"), [*((kind, 1.0) for kind in KINDS), *(("published", alpha) for alpha in (0.0, 0.6, -0.5))]
)
@torch.no_grad()
def test_beam(kind: str, alpha: float) -> None:
    """All four of four hypotheses, and their scores."""
    reference = theirs(**KINDS[kind])
    marian = converted(reference)
    found = beam_search(
        marian.model,
        texts(),
        MASK,
        bos_id=marian.ids.start_id,
        eos_id=marian.ids.eos_id,
        max_length=LONGEST,
        beam_size=4,
        n_best=4,
        length_penalty=LengthPenalty(alpha, offset=0),
    )
    expected = reference.generate(
        input_ids=texts(),
        attention_mask=MASK.long(),
        num_beams=4,
        num_return_sequences=4,
        length_penalty=alpha,
        early_stopping="never",
        max_new_tokens=LONGEST,
        return_dict_in_generate=True,
        output_scores=True,
    )
    hypotheses = [hypothesis for sentence in found for hypothesis in sentence]
    assert [hypothesis.ids for hypothesis in hypotheses] == cut(expected.sequences)
    assert all(hypothesis.finished for hypothesis in hypotheses)
    torch.testing.assert_close(
        torch.tensor([hypothesis.score for hypothesis in hypotheses]), expected.sequences_scores, rtol=1e-4, atol=1e-4
    )


@kinds
def test_there_and_back(kind: str) -> None:
    """Every number, bit for bit, under every name; and what comes back loads without a complaint."""
    reference = theirs(**KINDS[kind])
    state, config = to_marian(converted(reference))
    assert state.keys() == reference.state_dict().keys()
    for name, tensor in reference.state_dict().items():
        assert state[name].dtype == tensor.dtype
        assert torch.equal(state[name], tensor), name
    again = transformers.MarianConfig(**config)
    for name in config:
        ours, before = getattr(again, name), getattr(reference.config, name)
        assert ours == before or name == "architectures", name
    transformers.MarianMTModel(again).load_state_dict(state)


def test_training_gives_the_same_gradients() -> None:
    """Of a loss on the logits, in float64; tied matrices collect theirs from three places."""
    reference = theirs(dropout=0.0).double()
    marian = converted(reference)
    weights = torch.randn(len(LENGTHS), 7, VOCAB, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    expected = reference(input_ids=texts(), attention_mask=MASK.long(), decoder_input_ids=prefixes()).logits
    (expected * weights).sum().backward()
    (marian.model(texts(), prefixes(), source_mask=MASK) * weights).sum().backward()
    holder = copy.deepcopy(marian)
    for slot, parameter in zip(holder.model.parameters(), marian.model.parameters(), strict=True):
        assert parameter.grad is not None
        slot.data = parameter.grad
    moved, _ = to_marian(holder)
    for name, parameter in reference.named_parameters():
        if "embed_positions" not in name:
            torch.testing.assert_close(moved[name], parameter.grad, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: n + m)
