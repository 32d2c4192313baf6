"""One cleaning for training and for every use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.data.dates.source import EmbeddedDates, formats_of
from selfattn.data.pairs import Pair, clean_text, plain_text, unclean, without_marks
from selfattn.data.phrases import EmbeddedPhrases
from selfattn.data.splits import EndlessSplits
from selfattn.errors import UserError
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.task import TaskData
from selfattn.runs.train import train
from selfattn.runs.training_set import make_training_set
from selfattn.training.config import TrainingConfig

DIRTY = (" {}", "{}  ", "\t{}", "{}\r\n", "\ufeff{}", "{}\x00", "\u00a0{}", "\u2028{}\u3000")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("  a  b  ", "a  b"),
        ("a\u00a0b\u202f!", "a\u00a0b\u202f!"),  # no-break spaces belong to the text
        ("\u3000あ\u00a0", "あ"),
        ("a\tb\nc\r\nd", "a b c  d"),
        ("a\x85b\u2028c\x1fd", "a b c d"),
        ("a\x00b\x07\x7f\x9fc", "abc"),
        ("\ufeffa\ufeffb", "ab"),
        ("e\x00\u0301", "é"),  # they meet only when the control character is gone
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국"),  # conjoining jamo
        ("ㅋㅋ ㅎ", "ㅋㅋ ㅎ"),  # compatibility jamo
        ("Ａ１ ﾊ ½", "Ａ１ ﾊ ½"),  # full and half width, a fraction
        ("क\u200dष", "क\u200dष"),  # a joiner is part of the spelling
    ],
)
def test_a_text_is_cleaned(text, clean):
    assert clean_text(text) == clean_text(clean) == clean


@given(st.text(st.characters(codec="utf-8")))
def test_a_clean_text_stays_as_it_is(text):
    clean = clean_text(text)
    assert clean_text(clean) == clean
    assert all(clean_text(way.format(clean)) == clean for way in DIRTY)


@pytest.mark.parametrize(
    ("text", "clean", "unknown"),
    [
        ("cafe\u0301, May 1, 2001", "caf\u00e9, May 1, 2001", {"\u00e9": 1}),
        ("\u200f\u0661\u0661/\u0661\u0663/\uff10\uff18", "11/13/08", {}),  # digits of other scripts
    ],
)
def test_every_use_of_a_run_cleans_as_training_does(runs, text, clean, unknown):
    run = runs["transformer"]
    expected = run.attention(clean, dependence=False)
    for way in DIRTY:
        dirty = way.format(text)
        pairs = [Pair(dirty, way.format("2001-05-01"))]
        assert run.clean(dirty) == clean
        assert run.predict([dirty]) == run.predict([clean])
        assert run.score(pairs) == run.score([Pair(clean, "2001-05-01")])
        assert run.align(pairs) == run.align([Pair(clean, "2001-05-01")])
        assert run.unknown([dirty]) == run.unknown([clean]) == unknown
        view = run.attention(dirty, dependence=False)
        assert (view.source, view.source_tokens) == (clean, expected.source_tokens)
        assert (view.weights[-1] == expected.weights[-1]).all()


@pytest.mark.parametrize(
    ("text", "known", "plain"),
    [
        ("\u0661\u0663/\u0661\u0661/\u0662\u0660\u0660\u0668", "0123456789/", "13/11/2008"),
        ("\u06f1\u06f3", "0123456789", "13"),
        ("\uff11\uff13\u6708", "0123456789\u6708", "13\u6708"),
        ("13\u200f/11\u200f", "0123456789/", "13/11"),
        ("13\u200f/11", "0123456789/\u200f", "13\u200f/11"),  # an older run learned the marks
        ("13\u202fh\u00a05", "0123456789h ", "13 h 5"),
        ("\u0f21\u0f23", "\u0f21\u0f23", "\u0f21\u0f23"),  # Tibetan dates are written with these
        ("\u00b2 \u2460 \u4e09", "0123456789 ", "\u00b2 \u2460 \u4e09"),  # no decimal digits
    ],
)
def test_characters_that_a_vocabulary_lacks_get_their_plain_form(text, known, plain):
    assert plain_text(text, known) == plain


def test_a_training_says_which_years_a_locale_does_not_cover():
    notes = EmbeddedDates(("th_TH", "fa_IR", "ar_SA", "en_US"), 0).notes
    assert [note.partition(":")[0] for note in notes] == ["th_TH", "fa_IR", "ar_SA"]
    for note, calendar in zip(notes, ("Buddhist", "Persian", "Islamic"), strict=True):
        assert f"a model reads {calendar} years" in note


def test_a_test_file_gives_the_same_with_and_without_its_name(tmp_path):
    lines = [f"day {n}\t{n % 7}-{n}\n" for n in range(150)]
    train_file = tmp_path / "train.tsv"
    train_file.write_text("".join(lines[:120]), "utf-8")
    test_file = tmp_path / "test.tsv"
    test_file.write_text("".join([" day 3 \tx\n", "\n", "no tab\n", *lines[120:]]), "utf-8")
    valid_file = tmp_path / "valid.tsv"
    valid_file.write_text("".join(lines[118:]), "utf-8")
    run = train(
        "translation", data=train_file, valid=valid_file, test=test_file, tokenizer="characters", target="de",
        model="rnn-plain", out=tmp_path / "run", epochs=1, set=("encoder.hidden_dim=16", "decoder.hidden_dim=16"),
    )  # fmt: skip
    result = evaluate_run(run)
    assert result["items"] == 31  # the empty line and the broken one are left out
    assert evaluate_run(run, [test_file]) == result
    with pytest.raises(UserError, match=r"^`columns` 2,1: the run was trained on this file with the default"):
        evaluate_run(run, [test_file], columns=("2", "1"))


def test_generated_texts_are_clean():
    """They have no marks of direction either, which cleaning would leave."""
    for locale in ("ar_EG", "fa_IR", "fr_FR", "he_IL", "ko_KR", "th_TH"):
        patterns = [pattern for form in formats_of(locale) for pattern in form.patterns]
        texts = [text for pattern in patterns for piece in pattern.pieces for text in piece.texts]
        assert [text for text in texts if clean_text(without_marks(f"a{text}a")) != f"a{text}a"] == []
    assert unclean(EmbeddedPhrases("en", "fr", 0).train(0, 300)) is None


def test_pairs_of_a_plugin_are_cleaned_or_refused():
    class Spaced(TaskData):
        name = "spaced"

        def pair(self, chance):
            return Pair(f" {chance.random()} ", "\ta\n")

    class UncleanSplits(EndlessSplits):
        def sample(self):
            return [Pair("a ", "b")]

        def draw(self, part, seed, epoch, count):
            return self.sample() * count

    splits = Spaced().splits(seed=0)
    assert unclean([*splits.train(0, 20), *splits.validation(5)]) is None
    with pytest.raises(UserError, match=r"'a ', 'b': not clean, .* clean them by selfattn\.plugin\.clean_pair"):
        make_training_set(Spaced(), TrainingConfig(items_per_epoch=9), UncleanSplits({}, "x", 0))
