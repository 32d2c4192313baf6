"""A tokenizer for each side, in every command that reads a run; what a vocabulary lacks is said or refused."""

import re

import pytest

from selfattn.cli.decoding import align, score
from selfattn.data.pairs import Pair
from selfattn.demo.page import write_demo
from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory
from selfattn.runs.evaluate import evaluate_run, evaluation_lines
from selfattn.runs.load import load
from selfattn.runs.train import train
from selfattn.tasks.translation import Translation
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
    list(score(run.path, data=(file,)))
    list(align(run.path, data=(file,)))
    assert capsys.readouterr().err.count(message) == 2


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


def test_tokens_that_contradict_each_other_are_refused(tmp_path):
    data = pairs(tmp_path / "a.tsv")
    for settings, message in (
        ({"tokenizer": "words", "source_tokenizer": "bpe", "target_tokenizer": "words"}, "`tokenizer` has no effect"),
        ({"source_tokenizer": "words", "separate": True}, "`separate` has no effect beside a tokenizer for each side"),
        ({"tokenizer": "words", "vocab_size": 300}, "`vocab_size` goes with `tokenizer` bpe"),
        ({"tokenizer": "words", "sampling": 0.1}, "`sampling` goes with `tokenizer` bpe"),
        ({"tokenizer": tmp_path, "separate": True}, "`separate` has no effect beside a directory as `tokenizer`"),
    ):
        with pytest.raises(UserError, match=message):
            Translation(data=(data,), **settings)


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tokenizer": "unigram"}, r"`tokenizer` unigram: the tokens are those of `init_from` \(`tokenizer` bpe\)"),
        ({"vocab_size": 400}, r"`vocab_size` 400: the tokens are those of `init_from` \(`vocab_size` 280\)"),
        ({"separate": True}, r"`separate` True: the tokens are those of `init_from` \(`separate` False\)"),
        ({"model": "transformer"}, "`model` transformer: the model is that of `init_from`"),
        ({"init_from": "rnn-plain", "sampling": 0.1}, "`sampling`: the tokens of `init_from` have one segmentation"),
    ],
)
def test_what_the_first_run_decides_is_refused_beside_it(runs, subwords, tmp_path, given, message):
    start = runs.get(given.get("init_from", ""), subwords).path
    settings = {"target": "de", "data": day_pairs(tmp_path / "a.tsv", "Tag "), **given, "init_from": start}
    with pytest.raises(UserError, match=message):
        train("translation", out=tmp_path / "run", **settings)


def test_equal_settings_of_tokens_are_accepted(subwords, tmp_path):
    settings = {"target": "de", "init_from": subwords.path, "data": day_pairs(tmp_path / "a.tsv", "Tag ")}
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
