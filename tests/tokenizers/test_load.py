"""Whatever kind of tokenizer a directory holds, it is found; one for each side works as one for both does."""

import hashlib
import io
import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece

from selfattn.cli.tokenizer import inspect, train
from selfattn.data.pairs import Example, Pair, encode_pairs, plain_words, sample_pairs
from selfattn.errors import UserError
from selfattn.tasks.translation import Translation
from selfattn.tokenizers.borrowed import PieceTokenizer
from selfattn.tokenizers.listed import CharTokenizer, WordTokenizer
from selfattn.tokenizers.load import SeparateTokenizer, load_tokenizer, open_tokenizer, train_tokenizer
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

TEXTS = ["the lowest tower", "the newer flower"] * 7


def subwords():
    return SubwordTokenizer.train(TEXTS, clip=True)


FORMATS = Path(__file__).parents[1] / "fixtures/formats"


def test_committed_files_are_loaded_and_written_as_they_were(tmp_path):
    char = load_tokenizer(FORMATS / "tokenizer-char")
    assert (char.encode("Nov 13일"), len(char)) == ([13, 15, 16, 5, 9, 11, 21], 22)
    subword = load_tokenizer(FORMATS / "tokenizer-subword")
    assert (subword.encode("lowest new"), len(subword)) == ([15, 21], 60)
    separate = load_tokenizer(FORMATS / "tokenizer-separate")
    assert (separate.encode("cab"), separate.decode([15, 21])) == ([7, 5, 6], "lowest new")
    for name in ("tokenizer-char", "tokenizer-separate"):
        load_tokenizer(FORMATS / name).save(tmp_path / name)
        written = sorted(path.relative_to(tmp_path) for path in (tmp_path / name).rglob("*") if path.is_file())
        assert written == sorted(path.relative_to(FORMATS) for path in (FORMATS / name).rglob("*") if path.is_file())
        for path in written:
            one, other = ((folder / path).read_bytes() for folder in (tmp_path, FORMATS))
            if path.name == "subword.json":  # which tells the version of sentencepiece
                one, other = (json.dumps(json.loads(text) | {"sentencepiece": ""}).encode() for text in (one, other))
            assert one == other
    CharTokenizer("abc\ud800").save(tmp_path / "lone")
    assert load_tokenizer(tmp_path / "lone").encode("c\ud800") == CharTokenizer("abc\ud800").encode("c\ud800")


def test_each_side_has_ids_of_its_own():
    tokenizer = SeparateTokenizer(CharTokenizer("ab"), CharTokenizer("bxyz"))
    assert (len(tokenizer.source), len(tokenizer)) == (6, 8)
    assert (tokenizer.encode("b"), tokenizer.target.encode("b")) == ([5], [4])
    assert (tokenizer.decode([4]), tokenizer.pieces([4, 2])) == ("b", ["b", "<eos>"])
    assert (tokenizer.spans("ab"), tokenizer.unknown("ax")) == ([(0, 1), (1, 2)], {"x": 1})
    assert encode_pairs([Pair("ab", "b")], tokenizer) == [Example([4, 5, 2], [4, 2])]
    assert list(sample_pairs([Pair("ab", "b")], tokenizer, seed=0, epoch=0, alpha=0.1)) == [Example([4, 5, 2], [4, 2])]


def test_examples_are_cut_by_seed_epoch_and_number_alone():
    tokenizer = subwords()
    pairs = [Pair(text, text) for text in TEXTS]

    def cut(seed, epoch):
        return list(sample_pairs(pairs, tokenizer, seed=seed, epoch=epoch, alpha=0.1))

    first = cut(3, 1)
    assert first == cut(3, 1)
    assert first not in (cut(3, 2), cut(4, 1))
    assert any(example.source != example.target for example in first)
    assert [tokenizer.decode(example.source) for example in first] == TEXTS
    assert all(example.source[-1] == example.target[-1] == tokenizer.eos_id for example in first)


@pytest.mark.parametrize("tokenizer", [CharTokenizer("ab"), subwords()], ids=["char", "subword"])
def test_an_id_outside_the_vocabulary_is_an_error(tokenizer):
    for number in (-1, len(tokenizer)):
        for use in (tokenizer.decode, tokenizer.pieces):
            with pytest.raises(ValueError, match=f"token id {number} is outside the vocabulary"):
                use([4, number])


SCRIPTS = {
    "Chinese": [chr(0x4E00 + n) + chr(0x4E00 + 7 * n % 3001) for n in range(3001)],
    "Korean": [chr(0xAC00 + n) + " " + chr(0xAC00 + 5 * n % 2503) for n in range(2503)],
    "emoji": [chr(0x1F600 + n) + "\u200d" for n in range(64)],
    "a text": ["a"],
}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", SCRIPTS.values(), ids=SCRIPTS)
def test_the_default_size_follows_the_characters(texts, kind):
    characters = set("".join(texts)) - {" "}
    tokenizer = train_tokenizer(kind, texts, most=2000)
    assert tokenizer.unknown(*texts) == {}  # each character is a piece
    assert tokenizer.decode(tokenizer.encode(texts[-1])) == texts[-1]
    needed = 4 + 256 + 1 + len(characters)  # special tokens, bytes, the space
    assert needed <= len(tokenizer) <= max(2000, needed + 1000)
    with pytest.raises(UserError, match=f"every character of the texts is a piece; choose {needed:,} or more"):
        train_tokenizer(kind, texts, vocab_size=needed - 1)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_damaged_model_with_the_right_checksum_is_refused_or_works(kind, tmp_path):
    tokenizer = SubwordTokenizer.train(["a dog ein Hund", "two dogs"] * 60, SubwordSettings(kind, 285), clip=True)
    tokenizer.save(tmp_path)
    path = tmp_path / "subword.json"
    record = json.loads(path.read_text())
    refusals = []
    for number in range(60):
        chance = random.Random(number)
        start = chance.randrange(len(tokenizer.model))
        changed = bytes(chance.choices(range(256), k=chance.randrange(1, 4)))
        model = tokenizer.model[:start] + changed + tokenizer.model[start + chance.randrange(4) :]
        (tmp_path / "subword.model").write_bytes(model)
        path.write_text(json.dumps(record | {"sha256": hashlib.sha256(model).hexdigest()}))
        try:
            damaged = load_tokenizer(tmp_path)
        except UserError as error:
            refusals.append(str(error))
        else:
            assert damaged.decode(damaged.encode("two dogs é")) == "two dogs é"
    assert all(refusal.startswith(f"{tmp_path / 'subword.model'}: damaged") for refusal in refusals)
    assert len(refusals) > 30


CHAR = {"tokenizer": "char", "version": 1, "characters": "ab"}
WORDS = {"tokenizer": "words", "version": 1}
OF_WORDS = "words.json: not a vocabulary of words, version 1; restore"
# The file, its content (None: there is none; an object: changes of what a training wrote), and what the line says.
BROKEN = [
    ("char.json", b"\xff\xfe", "char.json:"),
    ("char.json", b"null", "char.json: not a vocabulary of characters"),
    ("char.json", CHAR | {"version": 2}, "char.json: version 2, this version reads 1: a newer selfattn wrote it"),
    ("char.json", CHAR | {"characters": ["a"]}, "char.json: not a vocabulary of characters, version 1; restore"),
    ("char.json", CHAR | {"characters": "ba"}, "char.json: not a vocabulary of characters, version 1; restore"),
    ("letters.json", {"tokenizer": "letters", "version": 1, "letters": "\uac00"}, "letters.json: not a vocabulary of"),
    *(("words.json", WORDS | {"words": words}, OF_WORDS) for words in (
        ["b", "a"], ["a", "a"], ["a b"], ["a", 3], "ab", {"a": 1},
    )),
    ("subword.model", None, "subword.model: no such file; restore"),
    ("subword.json", b"{", "subword.json:1: is not JSON"),
    ("subword.json", {"version": 2}, "subword.json: version 2, this version reads 1: a newer selfattn wrote it"),
    ("subword.json", {"settings": {"kind": "word"}}, "subword.json: settings.kind: expected 'unigram' or 'bpe'"),
    ("subword.model", b"junk", "subword.model: not the file that subword.json speaks of"),
    ("other.json", b"{}", ": no tokenizer in it"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=str)
def test_a_broken_file_is_one_line_that_names_it(tmp_path, name, content, message):
    if name.startswith("subword"):
        subwords().save(tmp_path)
    path = tmp_path / name
    if isinstance(content, dict):
        before = json.loads(path.read_bytes()) if path.exists() else {}
        content = json.dumps(before | content).encode()
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(message)) as error:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


# Words, letters, and models of other programs: nothing of a text is lost, and what is unknown is named


def test_an_input_reaches_known_words_in_their_plain_form():
    assert plain_words("turn\u00a0left  ２ x", {"turn", "left", "2"}) == "turn left 2 x"
    assert plain_words("a  b", {"a", "b", ""}) == "a  b"
    assert plain_words("a\u00a0b", {"a\u00a0b"}) == "a\u00a0b"


@pytest.fixture
def model(tmp_path):
    """A SentencePiece model as others make them: with NFKC, <unk> as 0, no padding."""
    written = io.BytesIO()
    texts = iter(["hello ﬁne world 12"] * 20 + ["low lower lowest"] * 20)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts, model_writer=written, vocab_size=40, hard_vocab_limit=False, minloglevel=3
    )
    path = tmp_path / "spm" / "their.model"
    path.parent.mkdir()
    path.write_bytes(written.getvalue())
    return path


def test_a_model_of_another_program_is_used_as_it_is(model, tmp_path):
    reference = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for place in (model, model.parent):
        tokenizer = open_tokenizer(place)
        assert isinstance(tokenizer, PieceTokenizer)
        for text in ("hello ﬁne  world １２", "low", "", "newest"):
            ids = tokenizer.encode(text)
            pieces = [piece.replace(" ", "␣").replace("▁", "␣") for piece in reference.encode_as_pieces(text)]
            assert [a for a, b in zip(tokenizer.pieces(ids), pieces, strict=True) if b != a] in ([], ["<unk>"])
            assert len(tokenizer.spans(text)) == len(ids)
            if tokenizer.unk_id not in ids:
                assert tokenizer.decode(ids) == reference.decode(reference.encode(text))
        assert [*tokenizer.unknown("ß low ß")] == ["ß"]
    tokenizer.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").encode("low world") == tokenizer.encode("low world")
    (tmp_path / "saved/pieces.model").write_bytes(b"x")
    with pytest.raises(UserError, match=r"pieces.model: not the file that pieces.json speaks of"):
        load_tokenizer(tmp_path / "saved")


def test_a_tokenizer_that_is_not_there_is_refused_in_a_line(tmp_path):
    with pytest.raises(UserError, match=r"`tokenizer` wrods: expected characters, letters, words, unigram, bpe, or"):
        open_tokenizer(Path("wrods"))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tc d\n" * 4)
    for side in ("source", "target"):
        task = Translation(data=(pairs,), **{f"{side}_tokenizer": Path("leters")})
        with pytest.raises(UserError, match=f"`{side}_tokenizer` leters: expected characters, letters, words"):
            task.tokenizer(SimpleNamespace(sample=lambda: [Pair("a b", "c d")]))
    options = Translation(data=(pairs,), tokenizer="words", source_tokenizer="letters").options
    assert options.kinds == ("letters", "words")
    with pytest.raises(UserError, match="no tokenizer in it"):
        open_tokenizer(tmp_path)
    SeparateTokenizer(WordTokenizer(["a"]), WordTokenizer(["b"])).save(tmp_path / "run/tokenizer")
    assert open_tokenizer(tmp_path / "run").decode([4]) == "b"


# The commands: vocabularies are trained and looked into, one for both sides or one for each

SOURCE = ["the lowest tower", "the newer flower", "a new low"] * 4
TARGET = ["가장 낮은 탑", "더 새로운 꽃", "새 최저"] * 4


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in zip(SOURCE, TARGET, strict=True)))
    return path


@pytest.mark.parametrize("kind", ["characters", "unigram", "bpe"])
def test_one_vocabulary_for_both_sides(kind, pairs, tmp_path):
    description = train(pairs, out=tmp_path / "out", kind=kind)
    assert "24 texts, " in description
    assert "100.00 % of the characters\n" in description
    assert inspect(tmp_path / "out", data=(pairs,)) == description


def test_a_vocabulary_for_each_side(pairs, tmp_path):
    for name, texts in (("a.en", SOURCE), ("a.ko", TARGET)):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    sides = [tmp_path / "a.en", tmp_path / "a.ko"]
    for name, data in (("one", [pairs]), ("two", sides)):
        description = train(*data, out=tmp_path / name, separate=True)
        assert description.startswith("source\nvocabulary ")
        assert "\n\ntarget\nvocabulary " in description
        tokenizer = load_tokenizer(tmp_path / name)
        assert tokenizer.source.unknown("the 탑") == {"탑": 1}
        assert tokenizer.target.unknown("the 탑") == {"t": 1, "h": 1, "e": 1}
        assert inspect(tmp_path / name, data=(pairs,)) == description
        source, target = inspect(tmp_path / name, text=("새 꽃",)).split("\n\ntarget\n")
        assert "coverage    100.00 %" in target
        assert "coverage    100.00 %" not in source
        with pytest.raises(UserError, match="a vocabulary for each side; give files of pairs"):
            inspect(tmp_path / name, data=sides[:1])


def test_pieces_and_ids_are_printed_also_those_of_a_run(pairs, tmp_path):
    place = tmp_path / "run" / "tokenizer"
    train(pairs, out=place)
    *_, pieces, ids = inspect(place.parent, text=("the tower",), data=(pairs,)).splitlines()
    assert "".join(pieces.split()[1:]) == "␣the␣tower"
    assert [int(number) for number in ids.split()[1:]] == load_tokenizer(place).encode("the tower")
