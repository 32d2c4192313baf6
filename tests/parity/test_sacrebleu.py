"""Scores of translations against sacreBLEU itself: whole corpora, parts of them, its signatures, its paired tests."""

import gzip
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from selfattn import score_table
from selfattn.errors import UserError
from selfattn.evaluation.metrics import make_metric, ratio
from selfattn.evaluation.significance import score_counts
from selfattn.evaluation.translation_metrics import (
    Bleu,
    Chrf,
    LowercasedBleu,
    Ter,
    bleu_tokeniser,
    moses_tokens,
    randomisation_test,
    script_warning,
    translation_metrics,
)
from selfattn.evaluation.variances import sign_flip_p

WORDS = ["ein", "Hund", "rennt", "über", "die", "Wiese", ",", "eine", "Frau", "am", "U-Bahn-Schild", ".", "Zwei"]
sentences = st.lists(st.sampled_from(WORDS), max_size=11).map(" ".join)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=7)


def paired_sacrebleu(first, second, references, metric, samples, kind="ar"):
    """Test two systems, one run each, by approximate randomisation (Riezler and Maxwell 2005) or the bootstrap."""
    systems = [("first", metric.prepare(first)), ("second", metric.prepare(second))]
    theirs = {metric.name: metric.sacrebleu}
    _, columns = PairedTest(systems, theirs, [metric.prepare(references)], test_type=kind, n_samples=samples)()
    (p,) = [result.p_value for column in columns.values() for result in column if isinstance(result, Result)][1:]
    return p


def test_intervals_and_the_paired_test_are_those_of_sacrebleu():
    references, first, second = corpus(0), corpus(1), corpus(2)
    first[:40], second[:30] = references[:40], references[:30]
    for metric in (Bleu("de"), Chrf(), Ter(), LowercasedBleu("de")):
        counts = [metric.counts(outputs, references) for outputs in (first, second)]
        if isinstance(metric, Bleu | Ter):  # one in which more is better, and one in which less is
            tested = metric.tested(counts)
            theirs = paired_sacrebleu(first, second, references, metric, 10_000)
            # TER has few values, and so ties, which sacreBLEU leaves out.
            assert tested.p >= theirs if isinstance(metric, Ter) else tested.p == theirs
            assert tested.signature.startswith("nrefs:1|bs:1000|ar:10000|seed:12345|case:")
        alone = metric.tested(counts[:1])
        score = metric.sacrebleu.corpus_score(metric.prepare(first), [metric.prepare(references)], n_bootstrap=1000)
        assert alone.ends[0] == pytest.approx((score._mean - score._ci, score._mean + score._ci), abs=1e-4)
        assert alone.p is None
        if not isinstance(metric, LowercasedBleu):
            assert alone.signature == str(metric.sacrebleu.get_signature())


SENTENCES = [f"the dog number {number} runs over a green field" for number in range(100)]


def worse(count):
    """The sentences, the first of them with a word exchanged."""
    return [text.replace("runs", "walks") for text in SENTENCES[:count]] + SENTENCES[count:]


@pytest.mark.parametrize(
    ("name", "changed"),
    [("bleu", changed) for changed in (0, 1, 2, 5, 14, 15)]
    + [("chrf", 2), ("ter", 2), ("bleu_lowercased_tokenised", 2)],
)
def test_outputs_changed_in_one_way_have_the_p_of_a_sign_test(name, changed):
    metric = make_metric(name, "en")
    tested = metric.tested([metric.counts(outputs, SENTENCES) for outputs in (worse(0), worse(changed))])
    # Of all 2^k exchanges two give a difference that large: none, and all.
    exact = min(1.0, 2 * 0.5**changed)
    assert all(high <= 100 for _, high in tested.ends) or name == "ter"
    if changed <= 14:
        assert tested.p == exact
        assert "|ar:exact|" in tested.signature
    else:
        larger = tested.p * 10_001 - 1  # of 10,000 shuffles; the expected number is below 1
        assert larger == pytest.approx(round(larger))
        assert larger <= 4
        assert "|ar:10000|" in tested.signature


def test_the_test_keeps_its_level_and_counts_ties():
    draw = np.random.default_rng(0)
    alarms = 0
    for _ in range(100):  # systems that are interchangeable item by item; the scores have many ties
        right = np.stack([draw.integers(0, 2, (2, 40)), np.ones((2, 40))], axis=-1)
        result = randomisation_test(right[0], right[1], ratio)
        exact = sign_flip_p((right[0] - right[1])[:, 0].astype(int))
        assert result.p == pytest.approx(exact, abs=1e-12 if result.shuffles is None else 0.025)
        alarms += result.p < 0.05
    assert alarms <= 10  # 5 expected at most; more than 10 once in 100 times


def corpus(seed, size=101):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 13))) for _ in range(size)]


def noisy(texts, share, seed=0):
    """The texts with this share of their words exchanged for others."""
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) if draw.random() < share else w for w in text.split(" ")) for text in texts]


@given(pairs)
def test_scores_are_those_of_sacrebleu(texts):
    hypotheses, references = [list(side) for side in zip(*texts, strict=True)]
    ours = (Bleu("de"), Bleu("th"), Chrf(), Ter())
    for metric, theirs in zip(ours, (BLEU(force=True), BLEU(tokenize="char", force=True), CHRF(), TER()), strict=True):
        expected = theirs.corpus_score(hypotheses, [references])
        assert metric.of(hypotheses, references) == pytest.approx(expected.score, rel=1e-12, abs=1e-12)
        assert metric.signature == str(theirs.get_signature())


@pytest.mark.parametrize("metric", [Bleu("de"), LowercasedBleu("de"), Chrf(), Ter()])
def test_sums_over_any_choice_of_sentences_give_its_score(metric):
    """What is drawn again and again by a bootstrap: many corpora at once, each as if it were scored alone."""
    references = corpus(0)
    hypotheses = noisy(references, 0.3)
    statistics = metric.counts(hypotheses, references)
    places = np.random.default_rng(0).integers(len(references), size=(17, 23))
    scores = metric.score(statistics[places].sum(axis=1))
    for row, score in zip(places, scores, strict=True):
        chosen = (metric.prepare([texts[place] for place in row]) for texts in (hypotheses, references))
        alone = metric.sacrebleu.corpus_score(next(chosen), [*chosen])
        assert score == pytest.approx(alone.score, rel=1e-12)


@given(pairs)
def test_old_bleu_is_unsmoothed_bleu_of_lowercased_moses_tokens(texts):
    hypotheses, references = [moses_tokens(side, language="de") for side in zip(*texts, strict=True)]
    theirs = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(hypotheses, [references])
    found = LowercasedBleu("de").of(*zip(*texts, strict=True))
    assert found == pytest.approx(theirs.score, rel=1e-12, abs=1e-12)


def test_without_their_programs_texts_are_cut_into_characters_and_chinese_has_no_old_score(monkeypatch):
    monkeypatch.setattr("selfattn.evaluation.translation_metrics.find_spec", lambda name: None)
    for language in ("ko", "ja_JP"):
        assert bleu_tokeniser(language) == "char"
        assert "|tok:char|" in Bleu(language).signature
    assert translation_metrics("zh") == ("bleu", "chrf", "ter")
    assert "|tok:zh|" in Bleu("zh").signature


def test_all_names_of_a_language_give_the_same_score():
    references = ["今日は雨が降っています。", "私は東京に住んでいます。", "彼女は本を読むのが好きです。"]
    outputs = ["今日は雨が降ってます。", "私は東京に住んでいる。", "彼女は本を読むのが好きだ。"]
    names = ("ja", "jpn", "ja_JP", "Japanese", "jpn_Jpan")
    scores = {name: make_metric("bleu", name).of(outputs, references) for name in names}
    assert set(scores.values()) == {scores["ja"]}
    assert scores["ja"] > 50
    assert bleu_tokeniser("kor_Hang") == bleu_tokeniser("ko")
    assert bleu_tokeniser("kor_Latn") == "13a"
    old = make_metric("bleu_lowercased_tokenised", "de_AT").signature
    assert old == LowercasedBleu("deu").signature == LowercasedBleu("de").signature
    assert old.startswith("nrefs:1|case:lc|eff:no|tok:moses-de-norm-sacremoses")
    assert "|smooth:none|" in old
    assert "tok:moses-en-" in LowercasedBleu("da").signature  # Moses has no rules for Danish
    with pytest.raises(UserError, match="unknown language 'jp'"):
        make_metric("chrf", "jp")


@pytest.mark.parametrize(("language", "target", "written"), [
    ("de", "오늘은 비가 옵니다.", "Hangul"),
    ("ko", "Es regnet heute.", "another script"),
    ("zh", "今日は雨が降っています。", "Hiragana"),
    ("en", "今天下雨。", "Han"),
    ("ja", "วันนี้ฝนตก", "Thai"),
    ("", "วันนี้ฝนตก", "Thai"),
    ("ko", "`str.format()`을 쓰세요. See above.", None),
    ("ja", "東京都", None),
    ("zh", "这是 Python 的 range() 函数。", None),
    ("ru", "Сегодня дождь.", None),
    ("sr_Latn", "Danas je kiša.", None),
    ("de", "2008-11-13", None),
    ("und", "k ɔ ɹ", None),
])  # fmt: skip
def test_a_script_that_contradicts_the_tokeniser_is_said(language, target, written):
    warning = script_warning([target], language)
    if written is None:
        assert warning is None
    else:
        assert f"written in {written}, but BLEU" in str(warning)


# Of the tokenised files of Multi30k (https://github.com/multi30k/dataset, README): words by part and language.
MULTI30K_WORDS = {("test_2016_flickr", "en"): 12968, ("test_2017_mscoco", "de"): 5158, ("test_2017_mscoco", "fr"): 5710}


@pytest.mark.parametrize(("part", "language"), MULTI30K_WORDS)
def test_moses_tokens_are_as_many_as_in_the_tokenised_files(shared_data, part, language):
    with gzip.open(shared_data(f"multi30k/{part}.{language}.gz"), "rt", encoding="utf-8") as file:
        tokens = moses_tokens(file.read().removesuffix("\n").split("\n"), language=language)
    assert sum(len(text.split(" ")) for text in tokens) == MULTI30K_WORDS[part, language]


# Randomisation, and the bootstrap: it takes absolute differences, so that it counts the draws on one side alone.
PAIRED = pytest.mark.parametrize(("kind", "sides"), [("ar", 1), ("bs", 2)])


@pytest.mark.parametrize(
    ("metric", "noise", "seed", "kind", "sides", "within"),
    [
        (Bleu("de"), 0.26, 0, "ar", 1, 0.03), (Bleu("de"), 0.26, 4, "bs", 2, 0.03),
        (Bleu("de"), 0.2, 0, "ar", 1, 0.05),  # where nothing is clear
        (Chrf(), 0.26, 4, "ar", 1, 0.03), (Chrf(), 0.26, 0, "bs", 2, 0.03),
    ],
)  # fmt: skip
def test_where_draws_agree_on_the_sign_p_is_theirs(metric, noise, seed, kind, sides, within):
    references = corpus(seed)
    first, second = noisy(references, 0.2, seed + 10), noisy(references, noise, seed + 20)
    counts = metric.count_runs({"a": [first], "b": [second]}, references)
    ours = score_counts(counts, metric).comparison().between("a", "b").p
    theirs = paired_sacrebleu(first, second, references, metric, 2000, kind)
    assert ours == pytest.approx(sides * theirs, abs=within)


@PAIRED
@pytest.mark.parametrize("seed", range(2))
def test_a_table_of_sentence_scores_is_tested_as_their_corpus(seed, kind, sides):
    """References of ten words each: the error rate of the corpus is the mean over its sentences."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices("abcdefgh", k=10)) for _ in range(60)]
    outputs = {"first": noisy(references, 0.2, seed + 10), "second": noisy(references, 0.25, seed + 20)}
    rows = []
    for system, texts in outputs.items():
        for item, (text, reference) in enumerate(zip(texts, references, strict=True)):
            rows.append((system, item, "ter", Ter().sacrebleu.sentence_score(text, [reference]).score))
    columns = map(list, zip(*rows, strict=True))
    table = score_table(dict(zip(("system", "item", "metric", "score"), columns, strict=True)))
    for system, texts in outputs.items():
        assert table.estimates[system].mean == pytest.approx(Ter().of(texts, references))
    theirs = paired_sacrebleu(outputs["first"], outputs["second"], references, Ter(), 2000, kind)
    assert table.pairs[0].p == pytest.approx(sides * theirs, abs=0.03)
