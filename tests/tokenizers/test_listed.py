"""Words and letters: nothing of a text is lost, and what is unknown is named."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece

from selfattn.data.pairs import Pair, plain_words
from selfattn.errors import UserError
from selfattn.tasks.translation import Translation
from selfattn.tokenizers.borrowed import PieceTokenizer
from selfattn.tokenizers.listed import WordTokenizer
from selfattn.tokenizers.load import SeparateTokenizer, load_tokenizer, open_tokenizer


def test_an_input_reaches_known_words_in_their_plain_form() -> None:
    assert plain_words("turn\u00a0left  ２ x", {"turn", "left", "2"}) == "turn left 2 x"
    assert plain_words("a  b", {"a", "b", ""}) == "a  b"
    assert plain_words("a\u00a0b", {"a\u00a0b"}) == "a\u00a0b"


@pytest.fixture
def model(tmp_path: Path) -> Path:
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


def test_a_model_of_another_program_is_used_as_it_is(model: Path, tmp_path: Path) -> None:
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


def test_a_tokenizer_that_is_not_there_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"`tokenizer` wrods: expected characters, letters, words, unigram, bpe, or the"
    ):
        open_tokenizer(Path("wrods"))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tc d\n" * 4)
    for side in ("source", "target"):
        task = Translation(data=(pairs,), **{f"{side}_tokenizer": Path("leters")})
        with pytest.raises(UserError, match=f"`{side}_tokenizer` leters: expected characters, letters, words"):
            task.tokenizer(SimpleNamespace(sample=lambda: [Pair("a b", "c d")]))  # type: ignore[arg-type]
    options = Translation(data=(pairs,), tokenizer="words", source_tokenizer="letters").options
    assert options.kinds == ("letters", "words")
    with pytest.raises(UserError, match="no tokenizer in it"):
        open_tokenizer(tmp_path)
    SeparateTokenizer(WordTokenizer(["a"]), WordTokenizer(["b"])).save(tmp_path / "run/tokenizer")
    assert open_tokenizer(tmp_path / "run").decode([4]) == "b"
