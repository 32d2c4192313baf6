"""Pretrained embeddings: rows of known tokens are those of the file, others stay; broken files are refused by line."""

from unittest.mock import Mock

import pytest
import torch

from selfattn.models.build import build
from selfattn.models.config import override
from selfattn.models.families import get_preset
from selfattn.runs.start import fill_tables, read_vectors
from selfattn.tokenizers.listed import WordTokenizer

TOKENIZER = WordTokenizer(["red house green"])
GOOD = "red 1 2 3\nhouse -1 0.5 2e-1\nunseen 1 1 1\nNew York 4 5 6\n"


def model():
    config = override(get_preset("rnn-attention").config, {"encoder.embed_dim": 3, "decoder.embed_dim": 3})
    return build(config, vocab_size=len(TOKENIZER))


@pytest.mark.parametrize("head", ["", "4 3\n"])
@pytest.mark.parametrize("side", ["both", "source", "target"])
def test_rows_are_those_of_the_file(tmp_path, head, side):
    file = tmp_path / "vectors.txt"
    file.write_text(head + GOOD)
    before = model()
    after = model()
    lines = fill_tables(after, TOKENIZER, {side: file})
    assert all("2 of 3 tokens have a vector in vectors.txt" in line for line in lines)
    for name, part in (("source", "encoder"), ("target", "decoder")):
        old = getattr(before, part).embed.tokens.weight
        new = getattr(after, part).embed.tokens.weight
        if side in ("both", name):
            red, house, green = (TOKENIZER.encode(word)[0] for word in ("red", "house", "green"))
            assert new[red].tolist() == [1.0, 2.0, 3.0]
            assert torch.equal(new[house], torch.tensor([-1.0, 0.5, 0.2]))
            assert torch.equal(new[green], old[green])
            assert torch.equal(new[:4], old[:4])
        else:
            assert torch.equal(new, old)


def test_a_file_is_read_once_for_both_tables(tmp_path, monkeypatch):
    file = tmp_path / "vectors.txt"
    file.write_text(GOOD)
    counted = Mock(side_effect=read_vectors)
    monkeypatch.setattr("selfattn.runs.start.read_vectors", counted)
    assert len(fill_tables(model(), TOKENIZER, {"both": file})) == 2
    assert counted.call_count == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"red 1 2 3\nhouse 1 2\n", ":2: has 2 cells behind the name, others 3"),
        (b"red 1 2 3 4\n", ":1: 4 numbers, but the model's table has width 3"),
        (b"red 1 2 3\nhouse 1 x 3\n", ":2: expected 3 numbers behind the name"),
        (b"red 1 nan 3\n", ":1: a number is not finite"),
        (b"red 1 2 3\n\xff 1 2 3\n", ":2: is not UTF-8"),
        (b"2 3\nred 1 2 3\n", "has 1 vector, but its first line says 2"),
        (b"1 9\nred 1 2 3\n", ":1: vectors of width 9, but the model's table has 3"),
        (b"other 1 2 3\n", "has a vector for none of the tokens"),
        (b"", "is empty"),
        (b"red " + b"1 " * (1 << 19) + b"\n", ":1: longer than 1 MiB; name a text file of word2vec or GloVe"),
    ],
)
def test_broken_files_are_refused(tmp_path, cli, text, message):
    file = tmp_path / "vectors.txt"
    file.write_bytes(text)
    widths = ("--set", "encoder.embed_dim=3", "--set", "decoder.embed_dim=3", "--model", "rnn-plain")
    small = ("--items-per-epoch", 32, "--validation-items", 8, "--epochs", 1)
    done = cli("train", "dates", *small, *widths, "--embeddings", file, "--out", tmp_path / "run")
    assert message in done.refusal()
    assert not (tmp_path / "run").exists()
