"""A tokenizer for each side, in every command that reads a run; what a vocabulary lacks is said or refused.

Pretrained embeddings: rows of known tokens are those of the file, others stay; broken files are refused by line.
"""

import re
from unittest.mock import Mock

import pytest
import torch

from selfattn.data.pairs import Pair
from selfattn.demo.page import write_demo
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.config import override
from selfattn.models.families import get_preset
from selfattn.runs.directory import RunDirectory
from selfattn.runs.evaluate import evaluate_run, evaluation_lines
from selfattn.runs.load import load
from selfattn.runs.start import fill_tables, read_vectors
from selfattn.runs.train import train
from selfattn.tokenizers.listed import CharTokenizer, WordTokenizer

LETTERS = {"a": "a̠", "k": "kʰ", "t": "t͡ɕʰ", "n": "n"}
SMALL = ("encoder.hidden_dim=16", "decoder.hidden_dim=16")


def pairs(path, count=120):
    words = ["".join("aktn"[(n // 4**place) % 4] for place in range(4)) for n in range(count)]
    path.write_text("".join(f"{word}\t{' '.join(LETTERS[x] for x in word)}\n" for word in words), "utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phones")
    return train(
        "translation", source="und", target="und", data=pairs(folder / "a.tsv"), model="rnn-attention", epochs=1,
        set=SMALL, source_tokenizer="characters", target_tokenizer="words", held_out=10, out=folder / "run",
        metric="word_error_rate",
    )  # fmt: skip


def test_a_phone_is_one_token_everywhere(run, tmp_path):
    tokenizer = load(run.path).tokenizer
    assert isinstance(tokenizer.source, CharTokenizer)
    assert isinstance(tokenizer.target, WordTokenizer)
    assert tokenizer.target.words == sorted(LETTERS.values())
    assert run.config.max_length == 2 * 5
    assert list(RunDirectory(run.path).metrics()[0].measures) == ["word_error_rate", "bleu", "exact_match"]
    assert {part for text in run.predict(["akn", "ttt"]) for part in text.split()} <= set(LETTERS.values())
    pair = Pair("tak", "t͡ɕʰ a̠ kʰ")
    assert run.score([pair])[0].tokens == 4
    assert run.aligned_parts(pair)[1] == ("t͡ɕʰ", " a̠", " kʰ")
    assert all(source < 3 and target < 3 for source, target in run.align([pair])[0])
    assert run.attention("tan").target_tokens[-1] == "<eos>"
    write_demo([run], tmp_path / "demo.html")
    assert '"words"' in (tmp_path / "demo.html").read_text("utf-8")


def test_unknown_words_are_named_as_unknown_characters_are(run, tmp_path, capsys):
    file = tmp_path / "b.tsv"
    file.write_text("tak\tt͡ɕʰ a̠ q q\nzak\tn\n", "utf-8")
    results = evaluate_run(run, [file])
    assert results["unknown_characters"] == 1
    message = "targets: 2 words that the model does not know, 1 different: 'q' 2 (40.0 % of all)"
    assert message in capsys.readouterr().err


def test_groups_of_a_file_are_those_of_its_column(run, cli, tmp_path):
    file = tmp_path / "gen.tsv"
    file.write_text("tak\tt͡ɕʰ a̠ kʰ\tshort\nka\tkʰ a̠\tshort\nnanana\tn a̠ n a̠ n a̠\tlong\n", "utf-8")
    results = evaluate_run(run, [file], tag="3", metric="macro_word_error_rate")
    assert {name: part["items"] for name, part in results["by_format"].items()} == {"long": 1, "short": 2}
    assert 0 <= results["metrics"]["macro_word_error_rate"] <= 1
    done = cli("evaluate", str(run.path), "--data", str(file), "--tag", "3")
    assert "short (2)" in done.out
    with pytest.raises(UserError, match="`tag` is for files of pairs"):
        evaluate_run(run, tag="3")


def test_words_that_a_source_lacks_are_counted(tmp_path):
    file = pairs(tmp_path / "a.tsv")
    turned = tmp_path / "turned.tsv"
    lines = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    turned.write_text("".join(f"{target}\t{source}\n" for source, target in lines), "utf-8")
    settings = {"source": "und", "target": "und", "data": turned, "epochs": 1, "set": SMALL}
    model = train("translation", model="rnn-plain", out=tmp_path / "run", tokenizer="words", **settings)
    (tmp_path / "c.tsv").write_text("kʰ  x a̠\takan\n", "utf-8")
    results = evaluate_run(model, [tmp_path / "c.tsv"])
    assert results["unknown_words"] == 1  # two spaces in a row are one
    assert "1 input word outside the vocabulary" in list(evaluation_lines(results))
    again = train("translation", model="rnn-plain", out=tmp_path / "again", tokenizer=tmp_path / "run", **settings)
    assert again.predict(["kʰ a̠"]) == model.predict(["kʰ a̠"])
    assert [*again.path.glob("tokenizer/*")] == [again.path / "tokenizer/words.json"]


def test_a_training_says_where_its_vocabulary_comes_from(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = pairs(tmp_path / "a.tsv")
    settings = {"source": "und", "target": "und", "data": file, "max_steps": 1, "set": SMALL}
    train("translation", model="rnn-plain", out="run", tokenizer="words", **settings)
    assert "target tokens" not in capsys.readouterr().err
    train("translation", model="rnn-plain", out="again", tokenizer="run", **settings)
    assert re.search(r"vocabulary: \d+ tokens, of run$", capsys.readouterr().err, re.MULTILINE)
    train("translation", model="rnn-plain", out="side", source_tokenizer="run", tokenizer="words", **settings)
    assert "target tokens, source: of run, target: learned from the training data" in capsys.readouterr().err
    train("translation", model="rnn-plain", out="further", init_from="run", **settings | {"set": ()})
    assert "tokens, those of the model that the training starts from" in capsys.readouterr().err


# A training that starts from another run says what its vocabulary lacks, and refuses options that it decides


def day_pairs(path, target):
    path.write_text("".join(f"day {n}\t{target}{n}\n" for n in range(120)), "utf-8")
    return path


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subwords")
    return train(
        "translation", target="de", data=day_pairs(folder / "a.tsv", "Tag "), model="rnn-plain", epochs=1, set=SMALL,
        vocab_size=280, out=folder / "run",
    )  # fmt: skip


def test_targets_that_a_run_cannot_write_are_refused(runs, tmp_path, capsys):
    settings = {"data": day_pairs(tmp_path / "a.tsv", "日"), "init_from": runs["rnn-plain"].path, "epochs": 1}
    with pytest.raises(UserError, match=r"target tokens are unknown to it; targets: .* '日' .* `allow_unknown`$"):
        train("dates", out=tmp_path / "refused", **settings)
    assert not (tmp_path / "refused").exists()
    train("dates", out=tmp_path / "run", allow_unknown=True, **settings)
    said = capsys.readouterr().err
    assert "training targets: " in said
    assert "validation targets: " in said
    assert "--allow-unknown" in RunDirectory(tmp_path / "run").record().command


def test_a_language_model_refuses_unknown_characters_too(tmp_path):
    for name, letters in (("a", "abc"), ("b", "xyz")):
        (tmp_path / name).write_text("".join(f"{letters}{n}\n" for n in range(40)), "utf-8")
    settings = {"epochs": 1, "set": ("stack.dim=16", "stack.num_layers=1")}
    train("lm", data=tmp_path / "a", out=tmp_path / "first", **settings)
    with pytest.raises(UserError, match="of the target tokens are unknown to it"):
        train("lm", data=tmp_path / "b", out=tmp_path / "run", init_from=tmp_path / "first", epochs=1)


def test_settings_of_tokens_are_those_of_the_first_run(subwords, tmp_path):
    settings = {"target": "de", "init_from": subwords.path, "data": day_pairs(tmp_path / "a.tsv", "Tag ")}
    with pytest.raises(UserError, match=r"`vocab_size` 400: the tokens are those of `init_from` \(`vocab_size` 280\)"):
        train("translation", out=tmp_path / "run", vocab_size=400, **settings)
    run = train("translation", out=tmp_path / "run", epochs=1, tokenizer="bpe", vocab_size=280, **settings)
    assert len(run.tokenizer) == 280


def test_score_and_align_and_evaluate_say_what_is_unknown(cli, runs, tmp_path):
    data = tmp_path / "a.tsv"
    data.write_text("May 1, 2001 ☃\t2001☀\n", "utf-8")
    sources = "sources: 1 character that the model does not know, 1 different: '☃' 1 (7.7 % of all)\n"
    targets = "targets: 1 character that the model does not know, 1 different: '☀' 1 (20.0 % of all)\n"
    for command in ("score", "align"):
        done = cli(command, runs["rnn-attention"].path, "--data", data).success()
        assert done.err == sources + targets
    done = cli("evaluate", runs["rnn-attention"].path, "--data", data)
    assert (done.code, done.err) == (0, targets)


# Pretrained embeddings

TOKENIZER = WordTokenizer(["red house green"])
GOOD = "red 1 2 3\nhouse -1 0.5 2e-1\nunseen 1 1 1\nNew York 4 5 6\n"


def model():
    config = override(get_preset("rnn-attention").config, {"encoder.embed_dim": 3, "decoder.embed_dim": 3})
    return build(config, vocab_size=len(TOKENIZER))


@pytest.mark.parametrize("head", ["", "4 3\n"])
@pytest.mark.parametrize("side", ["both", "source", "target"])
def test_rows_are_those_of_the_file(tmp_path, monkeypatch, head, side):
    file = tmp_path / "vectors.txt"
    file.write_text(head + GOOD)
    counted = Mock(side_effect=read_vectors)
    monkeypatch.setattr("selfattn.runs.start.read_vectors", counted)
    before, after = model(), model()
    lines = fill_tables(after, TOKENIZER, {side: file})
    assert (len(lines), counted.call_count) == (2 if side == "both" else 1, 1)  # the file is read once for both tables
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
def test_broken_files_are_refused(tmp_path, text, message):
    file = tmp_path / "vectors.txt"
    file.write_bytes(text)
    widths = ("encoder.embed_dim=3", "decoder.embed_dim=3")
    with pytest.raises(UserError, match=re.escape(message)):
        train("dates", model="rnn-plain", set=widths, epochs=1, embeddings=file, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
