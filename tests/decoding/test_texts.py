"""Texts in their order; language models that go on from a beginning; scores of given targets."""

import math
from functools import partial

import pytest
import torch
from fake_models import Writer
from zoo import stack

from selfattn.data.batches import Batch
from selfattn.decoding import sources as module
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.scoring import score_targets, score_texts, text_examples
from selfattn.decoding.texts import continue_texts, decode_texts
from selfattn.models.build import build
from selfattn.models.decoder_only import Continuation
from selfattn.models.families import DecoderOnlyConfig
from selfattn.tokenizers.listed import CharTokenizer

TOKENIZER = CharTokenizer(["abcdefg 0123456789"])


def predict(model, tokenizer, texts, **settings):
    return [found[0].text for found in decode_texts(model, tokenizer, texts, **settings)]


TEXTS = ["abc", "", "g" * 23, "a", "   ", "0123456789", "abc", "de fg"]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_order_is_kept_and_batches_change_nothing(batch_size, monkeypatch):
    model = build("rnn-attention", vocab_size=len(TOKENIZER), seed=1)
    monkeypatch.setattr(module, "HYPOTHESES", batch_size)
    found = predict(model, TOKENIZER, TEXTS, max_length=6)
    alone = [predict(model, TOKENIZER, [text], max_length=6)[0] for text in TEXTS]
    assert found == alone
    assert found[1] == found[4] == ""
    assert found[0] == found[6] != ""


@pytest.fixture
def rows(monkeypatch):
    """How many sentences each batch has that is decoded from now on."""
    counts = []

    def counting(decode, model, source, *args, **options):
        counts.append(len(source))
        return decode(model, source, *args, **options)

    for decode in (greedy, beam_search):
        monkeypatch.setattr(module, decode.__name__, partial(counting, decode))
    return counts


def test_long_texts_go_in_small_batches(rows, monkeypatch):
    model = build("transformer", vocab_size=len(TOKENIZER), seed=1)
    decode_texts(model, TOKENIZER, ["a", "bc"] * 32, DecodingOptions(beam=5), max_length=2)
    assert rows == [64]
    rows.clear()
    monkeypatch.setattr(module, "MAX_TOKENS", 60)
    texts = ["a" * 25, "b", "c", "d" * 25]
    assert len(predict(model, TOKENIZER, texts, max_length=2)) == 4
    assert rows == [2, 2]  # three rows of 26 + 1 tokens would be 81
    rows.clear()
    assert len(predict(model, TOKENIZER, ["a"] * 5, max_length=10, most_written=25)) == 5
    assert rows == [2, 2, 1]  # three outputs of 10 tokens would be 30


# A language model goes on from a beginning exactly as if it had read the whole text at once


LETTERS = CharTokenizer("abcdef")
POSITIONS = ("none", "sinusoidal", "rotary", "alibi", "t5")


def language_model(position="sinusoidal", *, prefix=False):
    config = DecoderOnlyConfig(stack=stack(position=position), bidirectional_prefix=prefix)
    return build(config, vocab_size=len(LETTERS), pad_id=0, seed=5).eval()


@pytest.mark.parametrize("position", [*POSITIONS, "gru"])
@torch.no_grad()
def test_it_goes_on_as_if_it_had_read_everything_at_once(position):
    model = build("decoder-only-rnn", vocab_size=len(LETTERS)) if position == "gru" else language_model(position)
    begun, rest = [[5, 6, 7], [], [8]], [[4, 9], [6, 5], [7, 7]]
    source = torch.tensor([row + [0] * (3 - len(row)) for row in begun])
    target_in = torch.tensor([[1, *row] for row in rest])
    mask = source > 0
    continuation = Continuation(model, bos_id=1).eval()
    found = continuation(source, target_in, source_mask=mask)
    state = continuation.start(continuation.encode(source, mask))
    for place in range(3):
        step, state = continuation.step(target_in[:, place], state)
        torch.testing.assert_close(step, found[:, place], rtol=1e-4, atol=1e-5)
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    for row, (beginning, end) in enumerate(zip(begun, rest, strict=True)):
        whole = model(nothing, torch.tensor([[1, *beginning, *end]]), source_mask=nothing > 0)
        torch.testing.assert_close(found[row], whole[0, len(beginning) :], rtol=1e-4, atol=1e-5)


def test_a_model_that_reads_in_both_directions_is_refused():
    with pytest.raises(ValueError, match="both directions"):
        Continuation(language_model(prefix=True), bos_id=1)


def test_samples_depend_on_the_seed_and_the_number_of_the_text_alone():
    model = language_model()
    options = DecodingOptions(sample=True, seed=4)
    texts = ["ab", "", "fade", "ab"]
    together = continue_texts(model, LETTERS, texts, options, context=12)
    apart = [
        continue_texts(model, LETTERS, [text], options, context=12, first=place)[0][0].text
        for place, text in enumerate(texts)
    ]
    assert [outputs[0].text for outputs in together] == apart
    assert all(text.startswith(begun) for text, begun in zip(apart, texts, strict=True))


def test_continuations_end_where_a_window_would(monkeypatch):
    given = []

    def recording(model, tokenizer, sources, *rest, **options):
        given.append((sources, options["limits"]))
        return [[] for _ in sources]

    monkeypatch.setattr(module, "decode_sources", recording)
    texts = ["", "abc", "abcdef" * 5]
    continue_texts(language_model(), LETTERS, texts, DecodingOptions(), context=10)
    continue_texts(language_model(), LETTERS, texts, DecodingOptions(max_length=2), context=10)
    (sources, limits), (_, short) = given
    # 10 characters of a window and its end; of the long beginning the last 5 are read.
    assert sources == [[], [4, 5, 6], [5, 6, 7, 8, 9]]
    assert (limits, short) == ([11, 8, 6], [2, 2, 2])


def test_windows_have_every_token_once_and_one_end():
    examples = text_examples(["abcde", "", "abcd", "a"], LETTERS, 2)
    assert [example.target for example in examples] == [[4, 5], [6, 7], [8, 2], [4, 5], [6, 7, 2], [4, 2]]
    assert all(example.source == [] for example in examples)


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary():
    model = language_model()
    with torch.no_grad():
        for parameter in model.output.parameters():
            parameter.zero_()
    found = score_texts(model, LETTERS, ["abc", "fade"], context=2)
    assert found.tokens == 9
    assert found.perplexity == pytest.approx(len(LETTERS))


# Scores of given targets, on a model whose logits are written by hand


EOS = 2


def test_what_stands_at_padding_is_not_read_and_scores_of_half_precision_are_float32():
    """Two sentences: "5 6 7 <eos>" with the target "8 9 <eos>", and "5 <eos>" with the target "8 <eos>"."""
    source, target_in = torch.tensor([[5, 6, 7, EOS], [5, EOS, 0, 0]]), torch.tensor([[1, 8, 9], [1, 8, 0]])
    target_out = torch.tensor([[8, 9, EOS], [8, EOS, -100]])
    rows = torch.full((2, 3, 11), 0.05)
    rows[0, 0, 8], rows[0, 1, 9], rows[0, 2, EOS] = 0.5, 0.25, 0.125
    rows[1, 0, 8], rows[1, 1, EOS], rows[1, 2] = 0.25, 0.5, math.nan
    rows[..., 0] += 1 - rows.sum(dim=-1)
    logits = rows.log().bfloat16()
    model = Writer(lambda _, read: logits[:, read.shape[1] - 1] * (math.nan if model.training else 1)).train()
    scores = score_targets(model, Batch(source, source != 0, target_in, target_out, target_out > 0, [0, 1]))
    halvings = torch.tensor([[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]])
    torch.testing.assert_close(scores, -math.log(2) * halvings, rtol=1e-2, atol=1e-2)
    assert (scores[1, 2], scores.dtype) == (0, torch.float32)
    assert model.training  # again: it is scored in evaluation mode
