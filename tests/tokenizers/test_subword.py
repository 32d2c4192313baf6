"""Subwords: ids, samples and files; counted words and texts together give the same as texts one by one."""

import random
import re
from collections import Counter
from math import exp

import pytest
import sentencepiece

from selfattn.errors import UserError
from selfattn.tokenizers import subword as subword_training
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

TEXTS = ["the lowest tower", "the newer flower", "a new low", "오늘은 11월 13일", "내일은 12월 2일"] * 7
KINDS = ("unigram", "bpe")


def train(texts=TEXTS, **settings):
    clip = settings.pop("clip", True)
    return SubwordTokenizer.train(texts, SubwordSettings(**settings), clip=clip)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_sentencepiece(kind, tmp_path):
    tokenizer = train(kind=kind)
    tokenizer.save(tmp_path)
    plain = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "subword.model"))
    for text in [*TEXTS, " the  new ", "각\n", "<unk>", "▅"]:
        assert tokenizer.encode(text) == plain.encode(text), text
        assert tokenizer.decode(plain.encode(text)) == text
    assert len(tokenizer) == len(plain)


def test_the_same_texts_give_the_same_bytes_in_any_order():
    for kind in KINDS:
        shuffled = random.Random(0).sample(TEXTS, len(TEXTS))
        assert train(kind=kind).model == train(kind=kind).model == train(shuffled, kind=kind).model


def test_many_texts_are_drawn_from_evenly(monkeypatch):
    texts = [chr(ord("a") + number) for number in range(20)]
    monkeypatch.setattr("selfattn.tokenizers.subword._MOST_TEXTS", 5)
    tokenizer = train(texts)
    known = [number for number, text in enumerate(texts) if not tokenizer.unknown(text)]
    assert len(known) == 5
    assert known != [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("vocab_size", "step"), [(9000, 1), (99, -1)])
def test_a_vocabulary_of_the_wrong_size_says_how_large_it_can_be(kind, vocab_size, step):
    with pytest.raises(UserError, match=r"subwords: (V|v)ocab.*; choose ") as error:
        train(kind=kind, vocab_size=vocab_size, clip=False)
    limit = int(re.findall(r"[0-9]+", str(error.value))[-1])
    if step > 0:
        assert len(train(kind=kind, vocab_size=vocab_size, clip=True)) == limit
    assert len(train(kind=kind, vocab_size=limit, clip=False)) == limit
    with pytest.raises(UserError, match=rf" {limit}\b"):
        train(kind=kind, vocab_size=limit + step, clip=False)


def test_no_text_and_a_vocabulary_beyond_all_bounds():
    for texts in ([], ["", ""], ["\0", "▁", "▅", "\ud800"]):
        with pytest.raises(UserError, match="there is no text to train on"):
            train(texts)
    for vocab_size in (0, 2**25):
        with pytest.raises(UserError, match=f"vocab_size is {vocab_size}; choose from 5 to 16,777,216"):
            train(vocab_size=vocab_size)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_sentencepiece_would_drop_or_stumble_over(kind, capfd):
    # As they are, the first four would be left out without a word, and the last would end the training.
    texts = ["alpha\0alpha", "beta▅beta", "gamma▁gamma", "delta\ud800delta", "long" * 2000, "<unk> <eos> <0xE3>"]
    tokenizer = train(texts * 9, kind=kind)
    assert tokenizer.unknown("alpha beta gamma delta") == {}
    assert tokenizer.decode(tokenizer.encode("<unk> <0xE3>")) == "<unk> <0xE3>"
    assert tokenizer.eos_id not in tokenizer.encode("<eos>")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_unigram_sampling_follows_the_distribution(alpha):
    tokenizer = train()
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    ids = {model.id_to_piece(number): number for number in range(260, len(model))}

    def segmentations(rest):
        found = [()] if not rest else []
        for end in range(1, len(rest) + 1):
            if rest[:end] in ids:
                found += [(ids[rest[:end]], *others) for others in segmentations(rest[end:])]
        return found

    weights = {way: exp(alpha * sum(map(model.get_score, way))) for way in segmentations("▁flower")}
    total, draws = sum(weights.values()), 4000
    counts = Counter(tuple(tokenizer.sample("flower", seed, alpha)) for seed in range(draws))
    assert len(weights) > 3
    assert set(counts) <= set(weights)
    for way, weight in weights.items():
        expected = draws * weight / total
        assert abs(counts[way] - expected) < 5 * max(1.0, expected) ** 0.5


def test_bpe_dropout_by_hand():
    # One merge: "▁" and "a"; it is left out with probability alpha.
    tokenizer = train(["a"] * 9, kind="bpe")
    assert tokenizer.pieces(tokenizer.encode("a")) == ["␣a"]
    dropped = sum(len(tokenizer.sample("a", seed, alpha=0.25)) == 2 for seed in range(4000))
    assert abs(dropped - 1000) < 5 * 750**0.5


CHANCE = random.Random(3)
WORDS = [
    "new", "newer", "lowest", "é", "한국어", "2009", "12.5", "<unk>", "a<pad>b", "<0x41>", "x\u2581y", "\u2585",
    "\ud800",
]  # fmt: skip
ODD = [" ".join(CHANCE.choices(WORDS, k=CHANCE.randrange(8))) for _ in range(300)]
ODD += ["", " ", "  ", "a ", " a", "a  b", "a\x00b c", "e\u3000f\u00a0g", "new\nlow"]


@pytest.mark.parametrize("kind", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("texts", [ODD, [*ODD, "a\tb"]], ids=["odd", "with tabs"])
def test_counted_words_give_the_model_of_the_texts(texts, kind, monkeypatch):
    settings = SubwordSettings("bpe", 300, *kind)  # byte fallback, split digits
    vocabulary = SubwordTokenizer.train(texts, settings, clip=True).vocabulary
    monkeypatch.setattr(subword_training, "word_counts", lambda texts: {})
    assert list(vocabulary.items()) == list(SubwordTokenizer.train(texts, settings, clip=True).vocabulary.items())


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_words_are_counted_alike_in_blocks_of_any_size(size, monkeypatch):
    expected = Counter[str]()
    for text in ODD:
        words = text.split(" ")
        expected.update(words if all(words) else [text])
    del expected[""]
    monkeypatch.setattr(subword_training, "_BLOCK", size)
    monkeypatch.setattr(subword_training, "_CUT", re.compile("(?!)"))  # cuts nowhere
    assert subword_training.word_counts(ODD) == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("most_words", [0, 200_000])
def test_texts_are_encoded_together_as_one_by_one(kind, most_words, monkeypatch):
    monkeypatch.setattr("selfattn.tokenizers.subword._MOST_WORDS", most_words)
    monkeypatch.setattr("selfattn.tokenizers.subword._BLOCK", 50)
    tokenizer = SubwordTokenizer.train(ODD, SubwordSettings(kind, 300), clip=True)
    assert [*map(list, tokenizer.encode_all(ODD))] == [tokenizer.encode(text) for text in ODD]
