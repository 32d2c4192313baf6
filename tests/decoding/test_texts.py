"""Texts in their order, continued, scored; what outputs may not be and must have: beginnings, n-grams, a glossary."""

import math
from functools import partial

import pytest
import torch
from fake_models import Writer
from zoo import stack

from selfattn.data.batches import Batch
from selfattn.data.pairs import Example
from selfattn.decoding import sources as module
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import NO_PENALTY, Restrictions
from selfattn.decoding.constrained import constrained_search
from selfattn.decoding.glossary import Glossary, missing, read_glossary
from selfattn.decoding.greedy import greedy, sample
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.scoring import score_targets, score_texts, score_tokens, text_examples
from selfattn.decoding.sources import decode_sources
from selfattn.decoding.texts import continue_texts, decode_texts
from selfattn.errors import SettingError, UserError
from selfattn.models.build import build
from selfattn.models.decoder_only import Continuation
from selfattn.models.families import DecoderOnlyConfig
from selfattn.streams import generator
from selfattn.tokenizers.listed import CharTokenizer, WordTokenizer

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


LETTERS = CharTokenizer("abcdefg")
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


# What outputs may not be and must have: forced beginnings, n-grams that may not repeat, words of a glossary


ENDS = {"bos_id": 1, "eos_id": 2}
SOURCES = [[5, 6, 2], [7, 2], [9, 8, 7, 2]]


def model(name="transformer"):
    """Return a model with peaked distributions, so that its outputs differ."""
    made = build(name, vocab_size=len(LETTERS), seed=3).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.5)
    return made


@pytest.mark.parametrize("name", ["transformer", "rnn-attention", "decoder-only"])
@pytest.mark.parametrize("beam", [1, 4])
def test_an_output_begins_as_requested_and_goes_on_as_the_model_would(name, beam):
    network = model(name)
    options = DecodingOptions(beam=beam)
    common = {"limits": [9, 9, 9], "streams": [0, 1, 2]}
    free = decode_sources(network, LETTERS, SOURCES, options, **common)
    # Its own beginning changes nothing; a greedy output never leaves it.
    own = [row[0].ids[:3] for row in free]
    same = decode_sources(network, LETTERS, SOURCES, options, prefixes=own, **common)
    assert [row[0].ids for row in same] == [row[0].ids for row in free]
    other = [[], [5, 4], [10]]
    rows = decode_sources(network, LETTERS, SOURCES, options, prefixes=other, **common)
    assert rows[0][0].ids == free[0][0].ids
    common = {"limits": [9], "streams": [2]}
    rows += decode_sources(network, LETTERS, SOURCES[2:], options, prefixes=[[10]], **common)  # none is without
    for (best, *_), prefix, source in zip(rows, [*other, [10]], [*SOURCES, SOURCES[2]], strict=True):
        assert best.ids[: len(prefix)] == prefix
        target = [*best.ids, 2] if best.finished else best.ids
        (scores,) = score_tokens(network, [Example(source, target)])
        assert math.fsum(scores) == pytest.approx(best.log_probability, abs=1e-4)  # that of the beginning included


def has_repeated(ids, n):
    ngrams = [tuple(ids[place : place + n]) for place in range(len(ids) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_comes_twice(n):
    network = model()
    source = torch.tensor([[5, 6, 2], [7, 7, 2], [9, 8, 2]])
    sides = (network, source, source != 0)
    unbegun, short = [[] for _ in SOURCES], [[1] for _ in SOURCES]
    common = {"max_length": 14, "restrictions": Restrictions(unbegun, short, n), **ENDS}
    rows = greedy(*sides, **common)
    rows += [row[0] for row in beam_search(*sides, beam_size=3, **common)]
    rows += sample(*sides, generator=generator(0, "sampling"), **common)
    free = greedy(*sides, max_length=14, **ENDS)
    assert any(has_repeated(each.ids, n) for each in free)
    assert not any(has_repeated(each.ids, n) for each in rows)


def test_a_requested_beginning_may_repeat_itself():
    source = torch.tensor([[5, 6, 2]])
    restrictions = Restrictions([[4, 4, 4]], [[1]], no_repeat_ngram=1)
    (output,) = greedy(model(), source, source != 0, max_length=9, restrictions=restrictions, **ENDS)
    assert output.ids[:3] == [4, 4, 4]
    assert not has_repeated(output.ids[2:], 1)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_masks_are_those_of_transformers(n):
    transformers = pytest.importorskip("transformers", reason="needs the extra [transformers]")
    processor = transformers.NoRepeatNGramLogitsProcessor(n)
    torch.manual_seed(0)
    for length in range(9):
        written = torch.randint(4, 8, (16, length))
        logits = torch.randn(16, 9)
        restrictions = Restrictions([[]], [[1]], n)
        begun = torch.cat([torch.ones(16, 1, dtype=torch.int64), written], dim=1)
        assert torch.equal(restrictions.masked(logits, written, [0] * 16), processor(begun, logits))


def test_texts_of_different_lengths_may_stand_before():
    restrictions = Restrictions([[], []], [[1, 4, 5], [1]], no_repeat_ngram=2)
    masked = restrictions.masked(torch.zeros(2, 7), torch.tensor([[4], [4]]), [0, 1])
    assert masked.isinf().nonzero().tolist() == [[0, 5]]  # 4 5 stands before the first alone


WORDS = WordTokenizer(["a b c d e f g"])
SPACED = CharTokenizer("abc d")


@pytest.mark.parametrize("name", ["transformer", "rnn-attention", "decoder-only"])
@pytest.mark.parametrize("tokenizer", [WORDS, SPACED], ids=["words", "characters"])
@pytest.mark.parametrize("required", ["d", "b d", "c a b"])
def test_every_output_has_its_words(name, tokenizer, required):
    model = build(name, vocab_size=len(tokenizer), seed=2).eval()
    glossary = Glossary({"a": required, "b": "c"})
    texts = ["a b", "c", "b", "a", "c d"]
    words = [glossary.required(text) for text in texts]
    assert words == [[required, "c"], [], ["c"], [required], []]
    options = DecodingOptions(beam=4)
    free = decode_texts(model, tokenizer, texts, options, max_length=14)
    found = decode_texts(model, tokenizer, texts, options, max_length=14, required=words)
    for of_text, row, other in zip(words, found, free, strict=True):
        assert missing(of_text, row[0].text) == []  # here also where it was cut off
        if not missing(of_text, other[0].text):
            assert row == other  # nothing to do: the same to the last bit


def test_a_wide_beam_finds_the_best_target_with_the_words():
    tokenizer = WordTokenizer(["a b"])
    model = build("transformer", vocab_size=len(tokenizer), seed=1).eval()
    source = torch.tensor([[5, 4, 2]])
    common = {"tokenizer": tokenizer, "max_length": 4, "beam_size": 300, "length_penalty": NO_PENALTY}
    sides = (model, source, source != 0)
    (every,) = constrained_search(*sides, required=[[]], n_best=300, **common)
    best = next(each for each in every if each.finished and not missing(["b a"], tokenizer.decode(each.ids)))
    (row,) = constrained_search(*sides, required=[["b a"]], n_best=1, **common)
    assert (row[0].ids, row[0].score) == (best.ids, pytest.approx(best.score))


def test_an_output_to_which_nothing_can_be_added_is_cut_off():
    tokenizer = CharTokenizer("a")
    model = build("transformer", vocab_size=len(tokenizer), seed=2).eval()
    source = torch.tensor([[4, 2]])
    common = {"tokenizer": tokenizer, "max_length": 12, "beam_size": 2, "length_penalty": NO_PENALTY, "n_best": 1}
    restrictions = Restrictions([[]], [[1]], no_repeat_ngram=1)
    (row,) = constrained_search(model, source, source != 0, required=[["aa"]], restrictions=restrictions, **common)
    assert len(row) == 1
    assert not row[0].finished
    assert len(set(row[0].ids)) == len(row[0].ids)


def test_words_stand_alone_where_letters_have_capitals():
    assert missing(["cat", "고양이", "5"], "cats 고양이가 15") == ["cat", "5"]
    assert missing(["cat"], "concat a cat.") == []
    glossary = Glossary({"dog": "Hund", "hot dog": "Hotdog", "Hot": "heiß"})
    assert glossary.required("A hot dog, a dog, dogs") == ["Hotdog", "Hund"]


def test_predict_with_a_glossary(cli, runs, tmp_path):
    run = runs["transformer"]
    file = tmp_path / "glossary.tsv"
    file.write_text("May\t77\n\n")
    stdin = "11/13/08\nMay 1, 2001\n"
    free = cli("predict", run.path, "--beam", 4, stdin=stdin).out.splitlines()
    done = cli("predict", run.path, "--beam", 4, "--glossary", file, stdin=stdin)
    lines = done.out.splitlines()
    assert lines[0] == free[0]
    assert missing(["77"], lines[1]) == []
    assert run.predict(stdin.splitlines(), beam=4, glossary=read_glossary(file)) == lines
    short = cli("predict", run.path, "--beam", 4, "--max-length", 2, "--glossary", file, stdin="11/13/08\nMay 1\n")
    assert ("standard input:2: the output was cut off without '77' of the glossary" in short.err) == (
        missing(["77"], short.out.splitlines()[1]) != []
    )


@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_engines_have_a_glossary_or_refuse_it(runs, exported_run, engine):
    run, exported = runs["transformer"], exported_run("transformer", engine)
    glossary = Glossary({"May": "77"})
    predict = partial(exported.predict, ["May 1"], beam=3, glossary=glossary)
    if engine == "ctranslate2":
        with pytest.raises(UserError, match="`glossary`: not for CTranslate2"):
            predict()
    else:
        assert predict() == run.predict(["May 1"], beam=3, glossary=glossary)
    with pytest.raises(SettingError, match="needs a beam"):
        run.predict(["May 1"], glossary=glossary)
