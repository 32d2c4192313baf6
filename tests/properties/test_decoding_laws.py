"""What every way of decoding holds for every model: `zoo` and `state_variant` come from conftest.py."""

import functools
import math
from random import Random

import pytest
import torch

from selfattn.data.batches import Batch
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import NO_PENALTY, LengthPenalty
from selfattn.decoding.greedy import greedy, sample
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.scoring import score_targets
from selfattn.models.build import build
from selfattn.streams import generator

BOS, EOS, VOCAB = 1, 2, 4
PRIMES = (1, 2, 3, 5)
PENALTIES = (NO_PENALTY, LengthPenalty(0.6), LengthPenalty(1.0, offset=0))


@functools.cache
def tiny(zoo, variant, dtype=torch.float64):
    """The variant with four tokens, and with weights that make some of them likely."""
    model = build(zoo.variants[variant], vocab_size=VOCAB, pad_id=0, seed=0).to(dtype).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=draw, dtype=dtype)
            else:
                parameter *= 2.0
    return model


def drawn(variant, count):
    draw = Random(variant)
    return draw.sample(PRIMES, count), draw.randrange(2**16), draw.choice(PENALTIES)


def sources(lengths, seed):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    drawn = torch.randint(0, VOCAB, mask.shape, generator=torch.Generator().manual_seed(seed))
    return drawn.masked_fill(~mask, 0), mask


def assert_same(together, alone):
    assert [(one.ids, one.finished) for one in together] == [(one.ids, one.finished) for one in alone]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-9)


def test_a_batch_gives_what_each_sentence_gives_alone(zoo, state_variant):
    lengths, seed, penalty = drawn(state_variant, 3)
    model, (source, mask) = tiny(zoo, state_variant), sources(lengths, seed)
    limits = [1 + (seed + length) % 5 for length in lengths]
    ends = {"bos_id": BOS, "eos_id": EOS}
    rows = [(source[[row], :length], mask[[row], :length]) for row, length in enumerate(lengths)]

    search = ends | {"beam_size": 3, "n_best": 2, "length_penalty": penalty}
    together = beam_search(model, source, mask, max_length=limits, **search)
    alone = [beam_search(model, *row, max_length=limit, **search) for row, limit in zip(rows, limits, strict=True)]
    for found, (expected,) in zip(together, alone, strict=True):
        assert_same(found, expected)

    drawing = ends | {"options": DecodingOptions(sample=True, temperature=1.3, top_k=3)}
    sampled = sample(model, source, mask, max_length=limits, generator=generator(seed, "sampling"), **drawing)
    drawing["generator"] = generator(seed, "sampling")
    alone = [sample(model, *row, max_length=limit, **drawing)[0] for row, limit in zip(rows, limits, strict=True)]
    assert_same(sampled, alone)
    written = greedy(model, source, mask, max_length=5, **ends)
    assert_same(written, [greedy(model, *row, max_length=5, **ends)[0] for row in rows])


def as_targets(found):
    """Padded ``target_in``, ``target_out`` and mask of what was written."""
    said = [[*one.ids, EOS] if one.finished else one.ids for one in found]
    width = max(map(len, said))
    target_out = torch.tensor([ids + [0] * (width - len(ids)) for ids in said])
    target_in = torch.tensor([[BOS, *ids[:-1]] + [0] * (width - len(ids)) for ids in said])
    return target_in, target_out, torch.arange(width) < torch.tensor([[len(ids)] for ids in said])


def test_what_is_written_has_the_probability_it_is_said_to_have(zoo, state_variant):
    """By teacher forcing: so the caches belonged to the right beginnings all the way."""
    lengths, seed, _ = drawn(state_variant, 2)
    model, (source, mask) = tiny(zoo, state_variant), sources(lengths, seed)
    ends = {"bos_id": BOS, "eos_id": EOS, "max_length": 5}

    def check(found, rows):
        said = [one.log_probability for one in found]
        scored = score_targets(model, Batch(source[rows], mask[rows], *as_targets(found), rows)).double().sum(dim=-1)
        assert scored.tolist() == pytest.approx(said, abs=1e-9)

    every_row = list(range(len(lengths)))
    written = greedy(model, source, mask, **ends)
    check(written, every_row)
    check(sample(model, source, mask, generator=generator(seed, "sampling"), **ends), every_row)
    found = beam_search(model, source, mask, beam_size=3, n_best=3, **ends)
    check([one for sentence in found for one in sentence], [row for row, own in enumerate(found) for _ in own])

    one_beam = [own[0] for own in beam_search(model, source, mask, beam_size=1, **ends)]
    assert_same(one_beam, written)
    options = DecodingOptions(sample=True, top_k=1)
    assert sample(model, source, mask, generator=generator(seed, "sampling"), options=options, **ends) == written


def test_half_precision_runs_and_equal_rows_agree(zoo):
    """In bfloat16 many logits are equal: who wins must not depend on the place in the batch."""
    model = tiny(zoo, "preset transformer", torch.bfloat16)
    source, mask = sources([5, 3], 0)
    source, mask = source[[0, 1, 0, 1, 0]], mask[[0, 1, 0, 1, 0]]
    ends = {"bos_id": BOS, "eos_id": EOS, "max_length": 7}
    greedily = greedy(model, source, mask, **ends)
    assert beam_search(model, source, mask, beam_size=1, **ends) == [[one] for one in greedily]
    assert all(math.isfinite(one.score) for one in greedily)
    first, second, *others = beam_search(model, source, mask, beam_size=3, n_best=3, **ends)
    assert others == [first, second, first]
