"""A language model on plain text: train, measure, continue; small, but the whole way."""

import gzip
import json
import math

import pytest

import selfattn
from selfattn.runs.directory import RunDirectory
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.train import train as train_on

SMALL = ("stack.dim=16", "stack.ffn_dim=24", "stack.num_layers=1")
LINES = [f"{name} saw {other} {where}." for name in ("Ann", "Ben", "Cy") for other in ("a cat", "two dogs", "me")
         for where in ("at home", "in town", "by the sea", "again")]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join([*LINES, "", "  ", *LINES]) + "\n")
    return path


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    training = {"epochs": 3, "batch_size": 16, "lr": 0.02}
    out = tmp_path_factory.mktemp("lm") / "run"
    return train_on("lm", out=out, data=text, context=16, set=SMALL, **training)


def test_it_learns_and_keeps_the_lowest_perplexity(run):
    directory = RunDirectory(run.path)
    metrics, settings = directory.metrics(), run.config.data
    assert all(one.measures["perplexity"] == pytest.approx(math.exp(one.valid_loss)) for one in metrics)
    assert metrics[-1].measures["perplexity"] < len(run.tokenizer) / 2
    assert directory.record().status == "finished"
    assert directory.record().command.startswith("selfattn train lm --out ")
    # A tenth of the different lines are held out, with all that repeat them; empty lines do not count.
    assert (settings["lines"], settings["valid_lines"]) == (66, 6)


def test_the_best_epoch_is_kept_and_measured_the_same_from_disk(text, tmp_path):
    valid = tmp_path / "valid.txt.gz"
    valid.write_bytes(gzip.compress(b"Ann saw two dogs in town.\nBen saw me.\n"))
    training = {"epochs": 3, "batch_size": 16, "lr": 0.05, "schedule": "constant"}
    train_on("lm", out=tmp_path / "run", data=text, valid=valid, context=16, set=SMALL, **training)
    best = min(report.measures["perplexity"] for report in RunDirectory(tmp_path / "run").metrics())
    found = evaluate_run(selfattn.load(tmp_path / "run"), [valid])
    assert found["metrics"]["perplexity"] == pytest.approx(best, rel=1e-4)
    assert (found["items"], found["characters"], found["tokens"]) == (2, 36, 38)
    assert found["metrics"]["bits_per_character"] == pytest.approx(math.log2(best) * 38 / 36, rel=1e-4)


def test_predict_continues_every_line(cli, run):
    texts = ["Ann saw", "", "Q"]
    done = cli("predict", run.path, stdin="\n".join(texts) + "\n")
    assert done.out.splitlines() == run.predict(texts)
    assert all(line.startswith(begun) for line, begun in zip(done.out.splitlines(), texts, strict=True))
    assert "'Q' 1" in done.err
    best = cli("predict", run.path, "--beam", 3, "--n-best", 2, stdin="Ann saw\n").out.splitlines()
    assert [line.split("\t")[0] for line in best] == ["1", "1"]
    assert all(line.split("\t")[3].startswith("Ann saw") for line in best)


def test_subwords_and_what_the_commands_say(cli, text, tmp_path):
    options = ("--tokenizer", "bpe", "--vocab-size", 300, "--epochs", 3, "--batch-size", 16, "--lr", 0.02)
    model = [word for setting in SMALL for word in ("--set", setting)]
    done = cli("train", "lm", "--data", text, *options, "--context", 16, *model, "--out", tmp_path / "run").success()
    assert "texts: 66 for training, 6 for validation, first '" in done.err
    assert " tokens, learned from the training data" in done.err
    run = selfattn.load(tmp_path / "run")
    assert len(run.tokenizer) == 300
    assert len(run.tokenizer.encode(LINES[0])) < len(LINES[0])
    found = json.loads(cli("evaluate", run.path, "--data", text, "--json").out)
    assert (found["task"], found["items"], found["unknown_characters"]) == ("lm", 72, 0)
    assert set(found["metrics"]) == {"perplexity", "bits_per_character", "loss"}
    assert f"{found['metrics']['perplexity']:.4f}" in cli("evaluate", run.path, "--data", text).out
    per_token, per_character = found["metrics"]["loss"], found["metrics"]["bits_per_character"]
    assert per_character == pytest.approx(per_token / math.log(2) * found["tokens"] / found["characters"])
    (line,) = run.predict(["Ann saw"])
    assert line.startswith("Ann saw ")  # the space that subwords drop at the start of a text is not lost
