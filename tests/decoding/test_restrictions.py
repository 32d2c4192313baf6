"""What outputs may not be and must have: forced beginnings, n-grams that may not repeat, words of a glossary."""

import math
from functools import partial

import pytest
import torch

from selfattn.data.pairs import Example
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import NO_PENALTY, Restrictions
from selfattn.decoding.constrained import constrained_search
from selfattn.decoding.glossary import Glossary, missing, read_glossary
from selfattn.decoding.greedy import greedy, sample
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.scoring import score_tokens
from selfattn.decoding.sources import decode_sources
from selfattn.decoding.texts import decode_texts
from selfattn.errors import SettingError, UserError
from selfattn.models.build import build
from selfattn.streams import generator
from selfattn.tokenizers.listed import CharTokenizer, WordTokenizer

ENDS = {"bos_id": 1, "eos_id": 2}
LETTERS = CharTokenizer("abcdefg")
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
