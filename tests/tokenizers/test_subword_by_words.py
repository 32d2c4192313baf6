"""Words instead of texts make learning and encoding of BPE fast, and change nothing."""

import random
import re
from collections import Counter

import pytest

from selfattn.tokenizers import subword as subword_training
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

CHANCE = random.Random(3)
WORDS = [
    "new",
    "newer",
    "lowest",
    "é",
    "한국어",
    "2009",
    "12.5",
    "<unk>",
    "a<pad>b",
    "<0x41>",
    "x\u2581y",
    "\u2585",
    "\ud800",
]
TEXTS = [" ".join(CHANCE.choices(WORDS, k=CHANCE.randrange(8))) for _ in range(300)]
TEXTS += ["", " ", "  ", "a ", " a", "a  b", "a\x00b c", "e\u3000f\u00a0g", "new\nlow"]


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("split_digits", [True, False])
def test_counted_words_give_the_model_of_the_texts(
    byte_fallback: bool, split_digits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SubwordSettings("bpe", 300, byte_fallback, split_digits)
    vocabulary = SubwordTokenizer.train(TEXTS, settings, clip=True).vocabulary
    monkeypatch.setattr(subword_training, "word_counts", lambda texts: {})
    assert list(vocabulary.items()) == list(SubwordTokenizer.train(TEXTS, settings, clip=True).vocabulary.items())


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_words_are_counted_alike_in_blocks_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Counter[str]()
    for text in TEXTS:
        words = text.split(" ")
        expected.update(words if all(words) else [text])
    del expected[""]
    monkeypatch.setattr(subword_training, "_BLOCK", size)
    monkeypatch.setattr(subword_training, "_CUT", re.compile("(?!)"))  # cuts nowhere
    assert subword_training.word_counts(TEXTS) == expected


def test_texts_with_tabs_are_learned_from_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = subword_training.train_model([*TEXTS, "a\tb"], SubwordSettings("bpe", 300), clip=True)
    monkeypatch.setattr(subword_training, "word_counts", lambda texts: {})
    assert model == subword_training.train_model([*TEXTS, "a\tb"], SubwordSettings("bpe", 300), clip=True)[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("most_words", [0, 200_000])
def test_texts_are_encoded_together_as_one_by_one(
    kind: subword_training.SubwordKind, most_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfattn.tokenizers.subword._MOST_WORDS", most_words)
    monkeypatch.setattr("selfattn.tokenizers.subword._BLOCK", 50)
    tokenizer = SubwordTokenizer.train(TEXTS, SubwordSettings(kind, 300), clip=True)
    assert [*map(list, tokenizer.encode_all(TEXTS))] == [tokenizer.encode(text) for text in TEXTS]
