"""Attention against gold and against what an output depends on; gold links, files, the alignment error rate."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from selfattn.data.dates.source import DateSource
from selfattn.data.pairs import Example, Span, encode_pairs
from selfattn.errors import UserError
from selfattn.evaluation import attention
from selfattn.evaluation.attention import (
    AttentionReading,
    agreement,
    best_head,
    by_blocking,
    by_gradient,
    diagonal_counts,
    gold_from_spans,
    score_attention,
    to_words,
    token_links,
    word_links,
)
from selfattn.evaluation.links import AlignmentCounts, GoldPair, Links, count_alignment, read_gold
from selfattn.models.build import build
from selfattn.models.families import PRESETS
from selfattn.models.protocol import AttentionMaps
from selfattn.tokenizers.listed import CharTokenizer


class Words(CharTokenizer):
    """One token a word: words are single letters, and spaces are no tokens."""

    def encode(self, text):
        return super().encode(text.replace(" ", ""))

    def spans(self, text):
        return [(place, place + 1) for place, character in enumerate(text) if character != " "]


class Told(torch.nn.Module):
    """As much of a model as is asked: it attends as it is told, by one tensor ``[h t s]`` a layer, to every source."""

    device = torch.device("cpu")

    def __init__(self, *maps):
        super().__init__()
        self.maps = maps

    def attention_maps(self, source, target_in, **_):
        return AttentionMaps((), (), tuple(weights.expand(len(source), -1, -1, -1) for weights in self.maps))


def told(*layers):
    """A model with these layers of heads ``[h t s]``."""
    return Told(*(torch.as_tensor(heads) for heads in layers))


def pair(source, target, links=None):
    return GoldPair(tuple(source.split()), tuple(target.split()), links or Links())


def test_attention_is_summed_over_the_source_and_averaged_over_the_target():
    """Characters ``ab c`` and ``d ef``, each with ``<eos>``: a space belongs to the word behind it."""
    weights = [
        # a,   b,    ' ',  c,   <eos>
        [0.30, 0.30, 0.00, 0.4, 0.0],  # d: its largest weight is on c, its largest sum on ab
        [0.00, 0.00, 0.30, 0.1, 0.6],  # ' ', of the word ef
        [0.35, 0.30, 0.15, 0.1, 0.1],  # e: for ab
        [0.00, 0.05, 0.50, 0.4, 0.1],  # f: for c; the mean of the three is on c
        [1.00, 0.00, 0.00, 0.0, 0.0],  # <eos>
    ]
    found = word_links(told([weights]), CharTokenizer("abcdef "), [pair("ab c", "d ef")])
    assert found[AttentionReading(0, 0, False)] == found[AttentionReading(0, None, False)] == [{(0, 0), (1, 1)}]
    # Shifted, d has the row of the space, and ef those of e, f and <eos>.
    assert found[AttentionReading(0, 0, True)] == [{(1, 0), (0, 1)}]


def test_a_word_without_a_token_and_attention_to_nothing_give_no_link():
    weights = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    assert to_words(weights, [0, 2], [1, 2]).tolist() == [[0, 0, 0], [0.5, 0, 0.5], [0, 0, 1]]
    assert word_links(told([[[0.0, 1.0], [0.0, 1.0]]]), Words("ab"), [pair("a", "b")])[
        AttentionReading(0, 0, False)
    ] == [set()]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_two_files_and_one_hold_the_same(tmp_path):
    sentences = write(tmp_path / "text", "a  b ||| c d  \n")
    links = write(tmp_path / "links", "1-1 2p2\n")
    together = write(tmp_path / "both.tsv", "a b\tc d\t0-0 1p1\n")
    assert read_gold(links, sentences=sentences) == read_gold(together)
    apart = [write(tmp_path / "text.src", "a  b\n"), write(tmp_path / "text.tgt", "c d  \n")]
    assert read_gold(links, sentences=apart) == read_gold(together)
    assert read_gold(together)[0].links == Links(frozenset({(0, 0)}), frozenset({(1, 1)}))
    assert read_gold(write(links, "a b c\tc d\t1-1\n"), base=1)[0].links.sure == {(0, 0)}
    assert read_gold(links, base=0)[0].links.sure == {(1, 1)}
    assert read_gold(write(links, "a\tb\t\n"))[0].links == Links()


BAD_GOLD = [  # links, sentences in one file or two, and what is said
    ("a b c\tc d\t1-1\n", [], "the links could count from 0 or from 1; say which"),
    ("a\tb\t0-1\n", [], r"gold:1: 0-1: outside its sentences of 1 and 1 words"),
    ("a\tb\n", [], r"gold:1: expected source, target and links, with tabs between; got 2 columns"),
    ("a\t \t0-0\n", [], r"gold:1: a sentence without a word"),
    ("a\tb\t0-0\na\tb\tx\n", [], r"gold:2: 'x' is not a link; write i-j \(sure\) or ipj \(possible\), such as 0-2"),
    ("a\tb\t" + "9" * 5000 + "\n", [], ":1: '9{40}' is not a link; write"),
    ("a\tb\t" + "9" * 5000 + "-0\n", [], ":1: '9{40}' is not a link; write"),
    ("a\tb\t٣-0\n", [], ":1: '٣-0' is not a link"),  # digits of other scripts are no positions
    ("0-0\n0-0\n", ["a ||| b\n"], r"has 1 line and .* 2; expected links for each pair"),
    ("0-0\n0-0\n", ["b\nb\n", "a\n"], r"text1 has 1 line and .* 2; expected links for each pair"),
    ("0-0\n", ["b\n"] * 3, "expected one file, or one of sources and one of targets; got 3"),
    ("0-0\n", ["a | b\n"], r"text0:1: expected source \|\|\| target"),
]


@pytest.mark.parametrize(("links", "texts", "message"), BAD_GOLD, ids=[message for *_, message in BAD_GOLD])
def test_bad_gold_is_said_in_a_line(tmp_path, links, texts, message):
    gold = write(tmp_path / "gold", links)
    files = [write(tmp_path / f"text{number}", text) for number, text in enumerate(texts)]
    with pytest.raises(UserError, match=message):
        read_gold(gold, sentences=files[0] if len(files) == 1 else files)
    with pytest.raises(UserError, match="gold: is given twice"):
        read_gold(gold, sentences=[gold, gold])


# Attention against gold: shares, entropy and alignments, by hand and on whole models


EOS = 2


def score(maps, gold):
    """Score the maps ``[h t s]`` of one example, one a layer."""
    t, s = gold.shape
    example = Example([5] * (s - 1) + [EOS], [6] * (t - 1) + [EOS])
    return score_attention(told(*maps), [example], [gold])


def gold_of_links(links, source_tokens, target_tokens):
    gold = torch.zeros(target_tokens, source_tokens, dtype=torch.bool)
    for source, target in links:
        gold[target, source] = True
    return gold


# Two source words and <eos>, two target words and <eos>; the first comes from the second, the second from the first.
CROSSED = gold_of_links({(1, 0), (0, 1)}, 3, 3)
RIGHT = torch.tensor([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
LATE = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])  # the same, one row later


def test_heads_and_their_mean_by_hand():
    scores = score([torch.stack([LATE, RIGHT]), torch.stack([LATE, LATE])], CROSSED)
    assert [(head.layer, head.head) for head in scores.heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(mean.layer, mean.head) for mean in scores.means] == [(0, None), (1, None)]
    late, right = scores.heads[:2]
    assert (right.gold_share, right.aer) == ((0.5 + 1.0) / 2, 0)
    assert right.eos_share == pytest.approx((0.25 + 0 + 1) / 3)
    entropy = (0.25 * math.log(4) + 0.5 * math.log(2) + 0.25 * math.log(4)) / 3  # the other two rows are certain
    assert right.entropy == pytest.approx(entropy)
    assert right.entropy_share == pytest.approx(entropy / math.log(3))
    # Shifted rows are those of the steps that read a token. Of its own, the first row of the late head looks at nothing
    # but <eos>, which links nothing; the second at the second word, which is wrong.
    assert (late.shifted_gold_share, late.shifted_aer) == (right.gold_share, right.aer)
    assert (late.gold_share, late.aer) == ((0.0 + 0.25) / 2, 1)
    assert best_head(scores) == (0, 1)
    assert best_head(scores, shifted=True) == (0, 0)  # the first of equals
    assert scores.means[0].gold_share == pytest.approx((0.75 + 0.125) / 2)
    assert scores.means[0].entropy > (late.entropy + right.entropy) / 2  # mixing heads spreads them
    assert replace(scores.means[1], head=0) == scores.heads[2]
    # A decoder-only model spends some of its attention on the target; the shares are of what the source gets.
    (half,) = score([RIGHT[None] / 2], CROSSED).heads
    assert replace(half, head=1) == right
    (nothing,) = score([RIGHT[None] * 0], CROSSED).heads
    assert nothing.gold_share == nothing.entropy == nothing.eos_share == 0


def test_examples_are_added_up_whatever_the_batches(monkeypatch):
    """Also where lengths differ: what stands in the padding has no part in it."""
    pairs = DateSource(split="test").pairs(7)
    tokenizer = CharTokenizer([pair.source + pair.target for pair in pairs])
    examples = encode_pairs(pairs, tokenizer)
    gold = [gold_from_spans(pair.spans, characters(len(pair.source)), characters(len(pair.target))) for pair in pairs]
    plain = attention.source_shares
    for name in ("rnn-multi-head", "decoder-only"):
        model = build(PRESETS[name].config, vocab_size=len(tokenizer), pad_id=0, seed=0).double().train()
        scores = []
        for size in (1, 3, 7):
            monkeypatch.setattr(attention, "source_shares", partial(plain, batch_size=size))
            heads = score_attention(model, examples, gold).heads
            scores.append([value for head in heads for value in vars(head).values()])
        assert model.training
        assert scores[1:] == [pytest.approx(scores[0])] * 2


def characters(length):
    """The place of every character of a text, and of ``<eos>`` behind them."""
    return [(place, min(place + 1, length)) for place in range(length + 1)]


def test_the_diagonal_by_hand():
    straight = gold_of_links({(0, 0), (1, 1), (2, 1)}, 4, 3)  # the middles of both target words are in words 0 and 2
    assert diagonal_counts([straight, CROSSED]) == AlignmentCounts(links=4, in_possible=2)


def test_spans_reach_every_token_that_they_touch():
    """Tokens of several characters: ``No|vem|ber`` and the month."""
    gold = gold_from_spans([Span("month", (1, 4), (5, 7))], [(0, 2), (2, 5), (5, 8), (8, 8)], [(0, 5), (5, 7), (7, 7)])
    assert gold.int().tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert not gold_from_spans([], characters(2), characters(1)).any()


# "5 6 7 <eos>" with the target "8 9 <eos>": each row is a step, each column a source token.
FIRST = [[0.1, 0.6, 0.2, 0.1], [0.3, 0.2, 0.1, 0.4], [0.1, 0.1, 0.8, 0.0]]  # 9 looks at <eos>, and of the words at 5
SECOND = [[0.7, 0.1, 0.1, 0.1], [0.0, 0.1, 0.9, 0.0], [0.0, 1.0, 0.0, 0.0]]
THIRD = [[0.1, 0.1, 0.8, 0.0], [0.0, 0.3, 0.7, 0.0], [0.5, 0.5, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"layer": 0}, [(1, 0), (0, 1)]),
        ({"layer": 0, "shifted": True}, [(0, 0), (2, 1)]),
        ({"layer": 1, "head": 0}, [(0, 0), (2, 1)]),
        ({"layer": 1, "head": 1}, [(2, 0), (2, 1)]),
        ({"layer": 1, "head": 1, "shifted": True}, [(2, 0), (0, 1)]),  # the lower of equal ones
        ({}, [(2, 0), (2, 1)]),  # the last layer's mean: 0.45 at 7, 0.4 at 5
        ({"layer": -2}, [(1, 0), (0, 1)]),
        ({"layer": 2}, "layer must be from -2 to 1, got 2"),
        ({"head": 2}, "head must be from 0 to 1, got 2"),
    ],
)
def test_links_by_hand(settings, expected):
    model, example = told([FIRST], [SECOND, THIRD]), Example([5, 6, 7, EOS], [8, 9, EOS])
    if isinstance(expected, list):
        assert token_links(model, [example], **settings) == [expected]
        return
    with pytest.raises(ValueError, match=expected):
        token_links(model, [example], **settings)
    with pytest.raises(ValueError, match="Told has no attention to its source"):
        token_links(told(), [example])


# Gold links and the alignment error rate


def test_error_rate_by_hand():
    """Och and Ney 2003: four links, of which one is sure, two more are possible and one is wrong; two are sure."""
    gold = Links(sure=frozenset({(0, 0), (3, 3)}), possible=frozenset({(1, 1), (1, 2)}))
    counts = count_alignment([{(0, 0), (1, 1), (1, 2), (2, 2)}], [gold])
    assert counts == AlignmentCounts(links=4, sure=2, in_sure=1, in_possible=3)
    rates = {"aer": 1 - (1 + 3) / (4 + 2), "precision": 3 / 4, "recall": 1 / 2}
    assert counts.figures == pytest.approx(rates | {"links": 4})


@pytest.mark.parametrize(("name", "pairs", "sure", "extra"), [("enfr", 447, 4038, 13400), ("roen", 248, 6198, 0)])
def test_real_gold_has_the_counts_of_its_description(shared_data, tmp_path, name, pairs, sure, extra):
    sentences, path = (shared_data(f"alignments/{name}/{name}.{ending}") for ending in ("src-tgt", "gold"))
    gold = [pair.links for pair in read_gold(path, sentences=sentences, base=1)]
    counts = len(gold), sum(len(links.sure) for links in gold), sum(len(links.possible - links.sure) for links in gold)
    assert counts == (pairs, sure, extra)
    assert count_alignment([links.possible for links in gold], gold).aer == 0
    with pytest.raises(UserError, match=r"does this file count from 1\?"):
        read_gold(path, sentences=sentences, base=0)
    sides = zip(*(line.split(" ||| ") for line in sentences.read_text(encoding="utf-8").splitlines()), strict=True)
    apart = [write(tmp_path / ending, "\n".join(side) + "\n") for ending, side in zip(("s", "t"), sides, strict=True)]
    assert [pair.links for pair in read_gold(path, sentences=apart)] == gold


# What an output depends on, and how far attention agrees: against independent computations

SOURCE_IDS, TARGET_IDS = torch.tensor([5, 6, 7, 8, 2]), torch.tensor([9, 4, 2])
TARGET_IN = torch.tensor([1, 9, 4])
NAMES = ("rnn-plain", "transformer-rope", "decoder-only", "rnn-encoder-transformer-decoder")


def small(name):
    return build(PRESETS[name].config, vocab_size=11, pad_id=0, seed=3)


def probabilities(model, source, mask=None):
    mask = torch.ones_like(source, dtype=torch.bool) if mask is None else mask
    return model.eval()(source[None], TARGET_IN[None], source_mask=mask[None]).softmax(dim=-1)[0].detach()


@pytest.mark.parametrize("name", NAMES)
def test_blocking_is_the_change_without_the_token(name):
    model = small(name)
    found = by_blocking(model, SOURCE_IDS, TARGET_IN)
    whole = probabilities(model, SOURCE_IDS)
    for place in range(len(SOURCE_IDS)):
        if model.takes_gaps:
            without = probabilities(model, SOURCE_IDS, torch.arange(len(SOURCE_IDS)) != place)
        else:  # a recurrent encoder reads a source that never had it
            without = probabilities(model, torch.cat([SOURCE_IDS[:place], SOURCE_IDS[place + 1 :]]))
        torch.testing.assert_close(found[:, place], 0.5 * (whole - without).abs().sum(dim=-1), atol=1e-6, rtol=1e-4)
    assert found.max() > 1e-4


def log_probabilities(model, place, scale):
    """Of the target's tokens, when the embedding of one source token is so much longer."""

    def grow(_, inputs, output):
        if inputs[0].shape != (1, len(SOURCE_IDS)) or not torch.equal(inputs[0][0], SOURCE_IDS):
            return output
        factor = torch.ones(len(SOURCE_IDS), 1, dtype=output.dtype)
        factor[place] = scale
        return output * factor

    tables = [part for part in model.modules() if isinstance(part, torch.nn.Embedding)]
    hooks = [table.register_forward_hook(grow) for table in tables]
    memory = model.encode(SOURCE_IDS[None], torch.ones(1, len(SOURCE_IDS), dtype=torch.bool))
    for hook in hooks:
        hook.remove()
    logits = model.advance(TARGET_IN[None], model.start(memory))[0].logits()[0]
    return logits.log_softmax(dim=-1)[torch.arange(len(TARGET_IDS)), TARGET_IDS].detach()


@pytest.mark.parametrize("name", NAMES)
def test_gradient_times_input_is_the_slope_along_the_embedding(name):
    """By finite differences: the log-probability changes by g . e when one token's embedding grows."""
    model = small(name).double().eval()
    found = by_gradient(model, SOURCE_IDS, TARGET_IDS)
    up, down = (
        torch.stack([log_probabilities(model, place, scale) for place in range(len(SOURCE_IDS))], dim=1)
        for scale in (1 + 1e-5, 1 - 1e-5)
    )
    slopes = (up - down).abs() / 2e-5
    torch.testing.assert_close(found, (slopes / slopes.sum(dim=1, keepdim=True)).float(), atol=1e-4, rtol=1e-3)


def test_attention_that_is_what_the_output_depends_on_agrees_fully(monkeypatch):
    from selfattn.evaluation import attention as module

    model, example = small("transformer"), Example([5, 6, 7, 2], [9, 4, 2])
    assert agreement(small("rnn-plain"), [example]) is None  # it has no attention
    attention = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.05, 0.4, 0.3]])
    monkeypatch.setattr(module, "source_shares", lambda *_, **__: [(0, [attention[None]])])
    monkeypatch.setattr(module, "by_blocking", lambda *_: attention**2)
    monkeypatch.setattr(module, "by_gradient", lambda *_, **__: -attention)
    found = agreement(model, [example])
    means = [one and one.mean for one in (found.blocking, found.gradient, found.between)]
    assert means == pytest.approx([1, -1, -1])
