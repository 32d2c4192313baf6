"""Symbols that are never divided: whole tokens in front of every tokenizer, and copied from the source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.data.readers.lines import read_kept
from selfattn.decoding.options import Hypothesis
from selfattn.decoding.texts import to_output
from selfattn.demo.page import page_tokens
from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load
from selfattn.runs.predictor import output_tokens
from selfattn.runs.train import train
from selfattn.tokenizers.kept import KeptSearch, KeptTokenizer, without_kept
from selfattn.tokenizers.listed import CharTokenizer, LetterTokenizer, WordTokenizer
from selfattn.tokenizers.load import SeparateTokenizer, load_tokenizer
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

LINES = ("<br>", "Kim", "Kim Lee", r"/https?:\S+/", "/[0-9]+/")
TEXTS = ["ask Kim now", "see  it all", "is it here"] * 9
WORDS = st.sampled_from(["ask", "it", "Kim", "<br>", "http://a.b/c", "1984", "", "7", "now", "is"])
BASES = {
    "characters": lambda: CharTokenizer(TEXTS),
    "letters": lambda: LetterTokenizer(TEXTS),
    "words": lambda: WordTokenizer([*TEXTS, "a  b"]),
    "bpe": lambda: SubwordTokenizer.train(TEXTS, SubwordSettings("bpe", 300), clip=True),
    "unigram": lambda: SubwordTokenizer.train(TEXTS, SubwordSettings("unigram", 300), clip=True),
}
KEPT = {name: KeptTokenizer(make(), [line for line in LINES if line != "Kim Lee"]) for name, make in BASES.items()}


@pytest.mark.parametrize("name", BASES)
@given(words=st.lists(WORDS, max_size=6))
def test_symbols_are_whole_and_nothing_of_a_text_is_lost(name, words):
    tokenizer = KEPT[name]
    text = " ".join(words)
    ids = tokenizer.encode(text)
    assert tokenizer.restore(tokenizer.decode(ids), text) == text
    symbols = {"Kim": "Kim", "<br>": "<br>", "http://a.b/c": r"/https?:\S+/", "1984": "/[0-9]+/", "7": "/[0-9]+/"}
    whole = [symbols[word] for word in words if word in symbols]
    assert [piece for piece in tokenizer.pieces(ids) if piece in tokenizer.lines] == whole
    assert tokenizer.encode(tokenizer.decode(ids)) == ids
    spans = tokenizer.spans(text)
    assert len(spans) == len(ids)
    assert "".join(text[start:end] for start, end in spans) == text
    assert tokenizer.decode([*ids, tokenizer.eos_id]) == tokenizer.decode(ids)


def test_samples_do_not_divide_symbols_and_a_page_has_none():
    tokenizer, text = KEPT["bpe"], "ask Kim now 12"
    ids = tokenizer.sample(text, seed=1, alpha=1.0)
    assert len(ids) > len(tokenizer.encode(text))
    assert tokenizer.restore(tokenizer.decode(ids), text) == text
    assert [piece for piece in tokenizer.pieces(ids) if piece in tokenizer.lines] == ["Kim", "/[0-9]+/"]
    with pytest.raises(UserError, match="a page cannot run kept symbols; train a run without `keep_symbols` for it"):
        page_tokens(tokenizer)


def test_long_symbols_come_first_and_words_are_whole():
    tokenizer = KeptTokenizer(CharTokenizer("x "), LINES)
    assert tokenizer.pieces(tokenizer.encode("Kim Lee x<br>xKim")) == ["Kim␣Lee", "␣", "x", "<br>", "x", "Kim"]
    assert tokenizer.unknown("xKim 12y").most_common() == [("y", 1)]
    words = KEPT["words"]
    assert words.unknown("ask Kims Kim 12 12x").most_common() == [("Kims", 1), ("12x", 1)]
    with pytest.raises(UserError, match="'Kim Lee' has a space, and no word has"):
        KeptTokenizer(WordTokenizer(["a"]), LINES)


@pytest.mark.parametrize("name", BASES)
def test_a_saved_tokenizer_is_the_same(name, tmp_path):
    tokenizer = KEPT[name]
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, KeptTokenizer)
    assert loaded.lines == tokenizer.lines
    assert (loaded.encode("ask Kim 12"), len(loaded)) == (tokenizer.encode("ask Kim 12"), len(tokenizer))
    SeparateTokenizer(tokenizer, CharTokenizer("ab")).save(tmp_path / "both")
    assert load_tokenizer(tmp_path / "both").source.encode("Kim") == tokenizer.encode("Kim")


def test_what_a_pattern_has_found_is_copied_in_order():
    tokenizer = KEPT["characters"]
    ids = tokenizer.encode("now 1: 2 http://x 3")
    source = "is 84 all http://a.b/c 7"
    output = to_output(Hypothesis(ids, -1.0, -1.0, finished=True), tokenizer, source=source)
    assert output.text == "now 84\N{REPLACEMENT CHARACTER} 7 http://a.b/c \N{REPLACEMENT CHARACTER}"
    assert list(output.ids) == ids
    names = output_tokens(tokenizer, output)
    assert [name for name in names if name.startswith("/")] == [*["/[0-9]+/"] * 2, r"/https?:\S+/", "/[0-9]+/"]


NESTED = [
    "(?:(?:a{60000}){60000}){60000}", r"(?:[{)\]]\d{400}){300,}", "a{6000000}", "(?:(?:(?:a{1000}){1000}){0}b)",
    "(?:(?:ab){400}){300}?", "(?:a{400}|b){400}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((f"/{pattern}/\n", "kept symbols: /.*: more than 100,000 parts by its counts; write") for pattern in NESTED),
        ("", "has no text|is empty|0 lines"),
        ("a\na\n", "line 2 is empty or stands above"),
        ("/(/\n", "no regular expression"),
        ("a\ncaf\udcff\n", r"symbols\.txt:2: not valid UTF-8 \(byte 0xff\); save the file as UTF-8"),
        ("/(a)b/\n", "has groups or flags"),
        ("/a*/\n", "finds nothing"),
        ("/(?i)a/\n", "has groups or flags"),
        ("//\n", r"//: a pattern without content; write one between the slashes, such as /\[/\]\{2\}/ for //"),
        ("/b(?i)a/\n", "has groups or flags"),
        ("/a(?R)?/\n", "has groups or flags"),
        ("/a{99999999999}/\n", r"/a\{99999999999\}/: more than 100,000 parts by its counts; write smaller ones"),
        (f"/{'(?:' * 3000}a{')' * 3000}/\n", r"symbols: .{20,60}: no regular expression of .*too large, or parenth"),
    ],
)
def test_lines_that_cannot_be_used_are_refused(content, message, tmp_path):
    file = tmp_path / "symbols.txt"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_kept(file)


def test_counts_of_all_patterns_are_bounded_together():
    assert KeptSearch(["/(?:a{200}){200}/", r"/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/", "/[]a{9]{9}/", r"/\{9}/"])
    with pytest.raises(UserError, match="the counts of all patterns together are too large; give fewer, or smaller"):
        KeptSearch([f"/{letter}(?:a{{200}}){{200}}/" for letter in "abc"])


def test_a_pattern_that_searches_for_ages_is_refused(monkeypatch):
    assert KeptSearch(["/(?:a+)+b/"]).finds("a" * 60 + "cb") == []  # `re` does not come to an end
    monkeypatch.setattr("selfattn.tokenizers.kept._SECONDS", 0.05)
    for base in (CharTokenizer("abc"), WordTokenizer(["a"])):
        with pytest.raises(UserError, match=r"kept symbols: /\(\?:a\|a\)\+b/: more than 0.05 s for 'aaa.*'; write no"):
            KeptTokenizer(base, ["/[0-9]+/", "/(?:a|a)+b/"]).encode("a" * 40 + "cb")


def test_the_base_learns_from_what_is_left():
    assert list(without_kept(["ask Kim now 12", "7"], LINES, of_words=False)) == ["ask", "now"]
    assert list(without_kept(["ask Kim now 12x"], LINES, of_words=True)) == ["ask now 12x"]


def test_a_run_keeps_its_symbols(tmp_path):
    data = tmp_path / "pairs.tsv"
    words = [*map(str, range(40)), "Kim"]
    data.write_text("".join(f"ask {word} now\tnow ask {word}\n" for word in words))
    file = tmp_path / "symbols.txt"
    file.write_text("Kim\n/[0-9]+/\n\N{FULLWIDTH DIGIT ONE}D\n", "utf-8")
    options = {"data": (data,), "keep_symbols": file, "keep_duplicates": True, "held_out": 3, "keep_overlap": True}
    tiny = {"epochs": 1, "items_per_epoch": 20, "batch_size": 8, "set": ("encoder.dim=16", "decoder.dim=16")}
    common = {"model": "transformer", "source": "en", "target": "en"}
    run = train("translation", **common, tokenizer="characters", out=tmp_path / "run", **options, **tiny)
    loaded = load(tmp_path / "run")
    assert loaded.tokenizer.pieces(loaded.tokenizer.encode("Kim 84"))[::2] == ["Kim", "/[0-9]+/"]
    wide = "\N{FULLWIDTH DIGIT ONE}D"
    assert loaded.clean(f"ask {wide} \N{FULLWIDTH DIGIT TWO}") == f"ask {wide} 2"  # the symbol stays as it is
    assert loaded.predict(["ask 84 now"], max_length=4) == run.predict(["ask 84 now"], max_length=4)
    file.write_text("Lee\n")
    fine = {"init_from": tmp_path / "run", "out": tmp_path / "fine"}
    with pytest.raises(SettingError, match="`keep_symbols`"):
        train("translation", **common, **fine, **options, **tiny | {"set": ()})
