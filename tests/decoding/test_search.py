"""Greedy decoding; beam search against a plain loop that never stops early; sampling against its distribution."""

import math
from functools import partial

import pytest
import torch
from fake_models import Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import LengthPenalty, chosen_log_probabilities, log_probabilities, top
from selfattn.decoding.greedy import greedy, sample, token_distribution
from selfattn.decoding.options import DecodingOptions, Hypothesis
from selfattn.errors import DivergedError
from selfattn.models.build import build
from selfattn.streams import generator

VOCAB, BOS, EOS, LONGEST = 5, 1, 2, 4
PREFIXES = sum(VOCAB**length for length in range(LONGEST))


def table_model(logits):
    """A model that looks its logits ``[sentence prefix v]`` up; the sentence's number is its source."""

    def write(source, read):
        code = torch.zeros(len(read), dtype=torch.int64)
        for token in read[:, 1:].T:
            code = code * VOCAB + token + 1
        return logits[source[:, 0], code]

    return Writer(write)


def search(table, sentences, **settings):
    model = table if isinstance(table, Writer) else table_model(table)
    source = torch.tensor(sentences)[:, None]
    mask = torch.ones_like(source, dtype=torch.bool)
    settings = {"max_length": LONGEST, "beam_size": 3} | settings
    return beam_search(model, source, mask, bos_id=BOS, eos_id=EOS, **settings)


def log_probs_after(table, prefix):
    code = 0
    for token in prefix:
        code = code * VOCAB + token + 1
    return chosen_log_probabilities(table[[code]], torch.arange(VOCAB)[None])[0].tolist()


def make(ids, total, finished, penalty):
    return Hypothesis(list(ids), total, total / penalty(len(ids) + finished), finished)


def to_the_end(table, longest, beam_size, n_best, penalty):
    """Beam search of one sentence, step by step to the longest length whatever was found."""
    beam = [((), 0.0)]
    found = []
    for _ in range(longest):
        candidates = [
            (total + log_prob, prefix, token)
            for prefix, total in beam
            for token, log_prob in enumerate(log_probs_after(table, prefix))
        ]
        candidates.sort(key=lambda candidate: -candidate[0])  # stable: earlier hypotheses, then lower ids, win a tie
        for total, prefix, token in candidates[:beam_size]:
            if token == EOS:
                found.append(make(prefix, total, True, penalty))
        beam = [((*prefix, token), total) for total, prefix, token in candidates if token != EOS][:beam_size]
    found += [make(prefix, total, False, penalty) for prefix, total in beam]
    found = [hypothesis for hypothesis in found if hypothesis.score > -math.inf]
    return sorted(found, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))[:n_best]


seeds = st.integers(0, 2**16)
scales = st.sampled_from((0.3, 1.0, 4.0))  # from nearly uniform to nearly certain
limits = st.integers(1, LONGEST)
penalties = st.builds(LengthPenalty, st.sampled_from((-0.7, 0.0, 0.6, 1.0, 2.0)), offset=st.sampled_from((0.0, 5.0)))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=seeds, scale=scales, penalty=penalties, beam_size=st.integers(1, 7))
def test_stopping_early_and_sharing_a_batch_change_nothing(data, seed, scale, penalty, beam_size):
    """Bit for bit: the loop to the end, sentence by sentence, is the same arithmetic."""
    draw = torch.Generator().manual_seed(seed)
    table = scale * torch.randn(3, PREFIXES, VOCAB, generator=draw, dtype=torch.float64)
    if data.draw(st.booleans(), label="ties"):
        table = (table / scale).round() * scale
    if data.draw(st.booleans(), label="tokens that cannot come"):
        table[:, :, 0] = -math.inf
        table[1, :, 3:] = -math.inf
    n_best = data.draw(st.integers(1, beam_size), label="n_best")
    sentences = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=4), label="sentences")
    longest = data.draw(st.lists(limits, min_size=len(sentences), max_size=len(sentences)), label="longest")
    found = search(table, sentences, max_length=longest, beam_size=beam_size, n_best=n_best, length_penalty=penalty)
    assert found == [
        to_the_end(table[number], limit, beam_size, n_best, penalty)
        for number, limit in zip(sentences, longest, strict=True)
    ]


def chain(*steps):
    """One sentence whose next token depends on how many there are already; what is left goes to token 0."""
    table = torch.empty(1, PREFIXES, VOCAB, dtype=torch.float64)
    start = 0
    for length, step in enumerate(steps):
        row = [step.get(token, 0.0) for token in range(VOCAB)]
        row[0] += 1 - sum(row)
        table[:, start : start + VOCAB**length] = torch.tensor(row, dtype=torch.float64).log()
        start += VOCAB**length
    return table


# <eos> at once has probability 0.5; else 3, 3, 3 and then <eos> nearly surely: 0.4 for four tokens.
LATE = chain({EOS: 0.5, 3: 0.4}, {3: 0.999}, {3: 0.999}, {EOS: 0.999})


@pytest.mark.parametrize(
    ("alpha", "longest", "n_best", "steps"),
    [
        (0.0, 4, 1, [1]),  # what goes on has 0.4 at most: less than 0.5, and it can only fall
        (-1.0, 4, 1, [1]),
        (1.0, 4, 1, [1, 3, 3, 3]),  # log 0.4 over 4 tokens would be better, and is
        (1.0, 1, 1, [1]),
        (0.3, 2, 1, [1]),  # log(0.4) / 2 ** 0.3 is below log(0.5)
        (0.5, 2, 1, [1, 3]),  # log(0.4) / 2 ** 0.5 is above: worth another look
        (0.3, 4, 1, [1, 3, 3, 3]),
        (0.1, 4, 1, [1]),  # log(0.4) / 4 ** 0.1 is not
        (0.0, 4, 2, [1, 3, 3, 3]),  # as many as are wanted
    ],
)
def test_it_stops_as_soon_as_nothing_better_comes(alpha, longest, n_best, steps):
    model = table_model(LATE)
    search(model, [0], max_length=longest, n_best=n_best, length_penalty=LengthPenalty(alpha, offset=0))
    assert model.rows == steps


SOURCE, MASK = torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool)
BAD_LENGTH = "max_length: expected a number of at least 1, or one for each source; got"
BAD_SOURCE = r"expected sources \[b s\] and their mask, int64 and bool"


@pytest.mark.parametrize("decode", [greedy, partial(beam_search, beam_size=2)])
def test_bad_lengths_and_sources_are_named(decode):
    for source, mask, max_length, message in (
        (SOURCE, MASK, 0, BAD_LENGTH),
        (SOURCE, MASK, [2, 3, 4], BAD_LENGTH),
        (SOURCE[:0], MASK[:0], 3, BAD_SOURCE),
        (SOURCE.float(), MASK, 3, BAD_SOURCE),
        (SOURCE[0], MASK[0], 3, BAD_SOURCE),
        (SOURCE, MASK.T, 3, BAD_SOURCE),
        (SOURCE, MASK.float(), 3, BAD_SOURCE),
    ):
        with pytest.raises(ValueError, match=message):
            decode(table_model(LATE), source, mask, bos_id=BOS, eos_id=EOS, max_length=max_length)


SIZE = 11
LENGTHS = (5, 2, 7, 3, 1)


def sources():
    drawn = torch.randint(3, SIZE, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return drawn.masked_fill(~mask, 0), mask


def test_finished_sentences_leave_the_batch_and_the_order_is_kept():
    def write(source, read):
        """The source's tokens one after the other, then 2."""
        script = torch.nn.functional.pad(source, (0, 1))[:, read.shape[1] - 1]
        return torch.nn.functional.one_hot(torch.where(script == 0, 2, script), SIZE).float() * 100

    model = Writer(write)
    source = torch.tensor([[5, 6, 7], [8, 0, 0], [0, 0, 0], [9, 10, 0]])
    found = greedy(model, source, source != 0, bos_id=1, eos_id=2, max_length=10)
    assert [one.ids for one in found] == [[5, 6, 7], [8], [], [9, 10]]
    assert [one.finished for one in found] == [True] * 4
    assert [one.score for one in found] == pytest.approx([0.0] * 4, abs=1e-6)
    assert model.rows == [4, 3, 2, 1]


def test_without_scores_the_same_tokens_are_written_and_nothing_is_summed(monkeypatch):
    model = build("transformer", vocab_size=SIZE, seed=0)
    source, mask = sources()
    write = partial(greedy, model, source, mask, bos_id=BOS, eos_id=2, max_length=9)
    expected = write()
    monkeypatch.setattr("selfattn.decoding.greedy.chosen_log_probabilities", None)
    found = write(scored=False)
    assert [(one.ids, one.finished) for one in found] == [(one.ids, one.finished) for one in expected]
    assert all(math.isnan(one.score) and math.isnan(one.log_probability) for one in found)


DECODERS = (
    partial(greedy, scored=False),
    partial(beam_search, beam_size=3),
    partial(sample, generator=torch.Generator()),
)


@pytest.mark.parametrize("decode", [greedy, *DECODERS])
def test_weights_that_overflow_on_an_input_are_named(decode):
    model = build("transformer", vocab_size=SIZE)
    torch.nn.init.constant_(model.decoder.output.bias, torch.inf)
    source, mask = sources()
    with pytest.raises(DivergedError, match="the weights of this model overflow on this input"):
        decode(model, source, mask, bos_id=BOS, eos_id=2, max_length=3)


# Sampling


PROBABILITIES = torch.tensor([[0.30, 0.05, 0.10, 0.20, 0.05, 0.30]], dtype=torch.float64)


def fixed(logits):
    """A model with the same logits ``[sentence v]`` at every step."""
    return Writer(lambda source, read: logits[source[:, 0]])


def drawing(**settings):
    return DecodingOptions(sample=True, **settings)


def draw(logits, sentences, chance, max_length=7):
    source, ids = torch.tensor(sentences)[:, None], {"bos_id": BOS, "eos_id": EOS, "options": drawing()}
    return sample(fixed(logits), source, source >= 0, max_length=max_length, generator=chance, **ids)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.30, 0.05, 0.10, 0.20, 0.05, 0.30]),
        ({"top_k": 1}, [1, 0, 0, 0, 0, 0]),  # of equally probable ones the lower id
        ({"top_k": 3}, [3 / 8, 0, 0, 2 / 8, 0, 3 / 8]),
        ({"top_k": 5}, [6 / 19, 1 / 19, 2 / 19, 4 / 19, 0, 6 / 19]),
        ({"top_k": 99}, [0.30, 0.05, 0.10, 0.20, 0.05, 0.30]),
        ({"top_p": 0.29}, [1, 0, 0, 0, 0, 0]),
        ({"top_p": 0.31}, [1 / 2, 0, 0, 0, 0, 1 / 2]),
        ({"top_p": 0.61}, [3 / 8, 0, 0, 2 / 8, 0, 3 / 8]),
        ({"top_p": 0.92}, [6 / 19, 1 / 19, 2 / 19, 4 / 19, 0, 6 / 19]),
        ({"top_p": 1.0}, [0.30, 0.05, 0.10, 0.20, 0.05, 0.30]),
        ({"top_k": 3, "top_p": 0.70}, [1 / 2, 0, 0, 0, 0, 1 / 2]),  # 3/8 + 3/8 reach 0.7; 0.3 + 0.3 would not
        ({"top_k": 2, "top_p": 1.0}, [1 / 2, 0, 0, 0, 0, 1 / 2]),
        ({"temperature": 0.5}, [0.09, 0.0025, 0.01, 0.04, 0.0025, 0.09]),  # squares, not yet summing to 1
        ({"temperature": 1e-310}, [1 / 2, 0, 0, 0, 0, 1 / 2]),  # no power overflows
        ({"temperature": 1e300}, [1 / 6] * 6),
        ({"temperature": 0.5, "top_k": 3}, [9 / 22, 0, 0, 4 / 22, 0, 9 / 22]),
        ({"temperature": 0.5, "top_p": 0.80}, [9 / 22, 0, 0, 4 / 22, 0, 9 / 22]),  # 9/23.5 twice is less
    ],
)
def test_the_distribution_by_hand(settings, expected):
    row = torch.tensor(expected, dtype=torch.float64)
    found = token_distribution(PROBABILITIES.log() + 3.0, drawing(**settings))  # a constant in the logits plays no part
    torch.testing.assert_close(found, (row / row.sum())[None])
    assert found.dtype == torch.float64
    assert ((found > 0) == (row > 0)).all()


def test_a_number_in_double_precision_chooses_the_first_token_whose_sum_is_above_it():
    logits = torch.randn(1, 997, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (hypothesis,) = draw(logits, [0], generator(5, "sampling"), max_length=50)
    numbers = torch.rand(50, generator=generator(5, "sampling"), dtype=torch.float64)
    sums = logits.softmax(dim=-1)[0].cumsum(dim=0)
    expected = [int((sums <= number).sum()) for number in numbers]
    assert hypothesis.ids == expected[: len(hypothesis.ids)]
    assert len(hypothesis.ids) > 20


def test_what_has_no_probability_is_never_drawn_not_even_at_zero(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda count, **_: torch.zeros(count, dtype=torch.float64))
    never_first = torch.tensor([[0.0, 0.0, 0.0, 0.5, 0.5]]).log()
    (found,) = draw(never_first, [0], generator(0, "sampling"), max_length=2)
    assert found.ids == [3, 3]


# The best of each row, whatever the ties and the neighbours


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(1, 14),
    rows=st.integers(1, 5),
    width=st.sampled_from((11, 70, 650, 12_000)),  # shorter than one block, of some, and of too many for one call
    values=st.sampled_from((4, 900)),
)
def test_top_is_the_beginning_of_a_stable_sort(seed, count, rows, width, values):
    scores = torch.randint(values, (rows, width), generator=torch.Generator().manual_seed(seed)).float()
    scores[scores == 1] = -math.inf
    if rows > 3:
        scores[0] = -math.inf
    expected = scores.sort(dim=-1, descending=True, stable=True)
    found, ids = top(scores, count)
    assert torch.equal(ids, expected.indices[:, :count])
    assert torch.equal(found, expected.values[:, :count])


def test_sums_in_parts_have_the_bits_of_torch_logsumexp():
    logits = 9 * torch.randn(41, 8009, generator=torch.Generator().manual_seed(0))
    logits[3] = -math.inf
    logits[5, 7] = math.inf
    logits[6, 8] = math.nan
    ids = torch.tensor([[7, 8]]).expand(41, 2)
    expected = logits[:, 7:9] - logits.logsumexp(dim=-1, keepdim=True)
    alone = chosen_log_probabilities(logits[7:8], ids[7:8])
    assert torch.equal(chosen_log_probabilities(logits, ids)[7:8], alone)  # its neighbours are not felt
    for largest in (None, logits.amax(dim=-1, keepdim=True)):
        found = chosen_log_probabilities(logits, ids, largest)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_log_probabilities_are_float32_or_wider(dtype):
    found = log_probabilities(torch.tensor([[0.0, 0.0, 0.0, -math.inf]], dtype=dtype))
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found[0, :3], torch.full((3,), -math.log(3), dtype=found.dtype))
    assert found[0, 3] == -math.inf
