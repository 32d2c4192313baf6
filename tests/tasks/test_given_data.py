"""Data are given to every command in the same way: the same files, formats and columns, read by one reader."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfattn.errors import UserError
from selfattn.runs.run import Run
from selfattn.runs.train import train as train_on
from selfattn.tasks.translation import Translation

Cli = Callable[..., Any]
Train = Callable[..., Run]
NUMBERS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
TRAINING = {"max_steps": 2, "warmup_steps": 1, "batch_size": 16, "validation_items": 7}
COLUMNS = ("--columns", "en,de")


def sentences(count: int) -> list[tuple[str, str]]:
    """Digits and their names; every third sentence has a second translation, with another ending."""
    pairs = []
    for number in range(count):
        digits = f"{1009 * number % 100_000:05}"
        names = " ".join(NUMBERS[int(digit)] for digit in digits)
        pairs.append((" ".join(digits), names))
        if number % 3 == 0:
            pairs.append((" ".join(digits) + ".", names + " !"))
            pairs.append((" ".join(digits), "oder " + names))
    return pairs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt.gz"
    rows = "".join(f"{source}\t{target}\tby someone\n" for source, target in sentences(150))
    path.write_bytes(gzip.compress(rows.encode()))
    return path


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on one file, with parts held out of it."""
    trained = train_on(
        "translation",
        model="rnn-attention",
        out=tmp_path_factory.mktemp("runs") / "run",
        set=("encoder.hidden_dim=16", "decoder.hidden_dim=16"),
        data=(corpus,),
        target="de",
        vocab_size=300,
        held_out=20,
        split_seed=3,
        **TRAINING,
    )
    return trained.path


def every_way(folder: Path, pairs: list[tuple[str, str]]) -> dict[str, list[object]]:
    """Write the same pairs in every way that they can be given; return what stands behind --data for each."""
    sources, targets = zip(*pairs, strict=True)
    table = io.StringIO()
    csv.writer(table).writerows([("de", "id", "en"), *((target, 7, source) for source, target in pairs)])
    nested = [json.dumps({"translation": {"en": source, "de": target}}) for source, target in pairs]
    flat = [json.dumps({"source": source, "target": target, "id": 7}) for source, target in pairs]
    contents = {
        "a.en": "\n".join(sources),
        "a.de.gz": "\n".join(targets),
        "a.tsv": "\n".join(map("\t".join, pairs)),
        "attributed.txt.gz": "\n".join(f"{source}\t{target}\tme" for source, target in pairs),
        "header.tsv": "\n".join(["id\tde\ten", *(f"7\t{target}\t{source}" for source, target in pairs)]),
        "a.csv": table.getvalue().removesuffix("\n"),
        "nested.jsonl.gz": "\n".join(nested),
        "flat.jsonl": "\n".join(flat),
        "book.txt": "\n".join(f"{source:<20}_{target}" for source, target in pairs),
    }
    for name, content in contents.items():
        data = (content + "\n").encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    named: dict[str, list[object]] = {name: [folder / name] for name in contents if name not in ("a.en", "a.de.gz")}
    for name in ("header.tsv", "a.csv", "nested.jsonl.gz"):
        named[name] += COLUMNS
    return named | {"parallel": [folder / "a.en", folder / "a.de.gz"]}


@pytest.mark.parametrize("command", ["evaluate", "score", "align"])
def test_every_command_reads_every_format_with_the_same_answer(
    cli: Cli, run: Path, tmp_path: Path, command: str
) -> None:
    answers = {}
    for name, given in every_way(tmp_path, sentences(9)).items():
        if (command, name) == ("evaluate", "book.txt"):
            continue  # a file to be split, for the task it is of
        done = cli(command, run, "--data", *given)
        assert (name, done.code, done.err) == (name, 0, "")
        answers[name] = done.out.split("\n", 1)[1] if command == "evaluate" else done.out
    assert len(set(answers.values())) == 1


def test_cleaning_is_chosen_on_the_command_line(tmp_path: Path) -> None:
    long, unequal = ("a" * 41, "b" * 41), ("eins", "x" * 90)
    train = [("one", "eins"), ("one", "eins"), long, unequal, ("two\u00a0!", "zwei"), ("known", "bekannt")]
    path, test = tmp_path / "a.tsv", tmp_path / "test.tsv"
    path.write_text("".join(map("{0[0]}\t{0[1]}\n".format, train)))
    test.write_text("known\tanders\n")

    def kept(**options: Any) -> set[str]:
        data = Translation(data=(path,), valid=(test,), test=(test,), **options).splits(0)
        assert "test: 1 of its pairs shared with train (1 by source, 0 by target)" in data.notes
        return {f"{pair.source} {number}" for number, pair in enumerate(data.train(0, None))}

    usual = kept()
    assert usual == {"one 0", f"{long[0]} 1", "two\u00a0! 2"}
    assert kept(max_characters=40) == {"one 0", "two\u00a0! 1"}
    assert kept(max_characters=0, max_ratio=0) == {"one 0", f"{long[0]} 1", "eins 2", "two\u00a0! 3"}
    assert kept(keep_overlap=True) == usual | {"known 3"}
    assert len(kept(keep_duplicates=True)) == 4


def test_a_run_is_tested_on_what_was_held_out_for_it(cli: Cli, run: Path, corpus: Path) -> None:
    done = cli("evaluate", run, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["items"] == 20
    assert found["data"] == f"{corpus}, test part"
    again = json.loads(cli("evaluate", run, "--json", "--data", corpus).out)
    assert again == found


def test_a_corpus_that_is_no_longer_there_or_the_same(cli: Cli, run: Path, corpus: Path) -> None:
    content = corpus.read_bytes()
    try:
        corpus.write_bytes(gzip.compress(gzip.decompress(content) + b"one\tmore\tby me\n" * 9))
        changed = cli("evaluate", run)
        corpus.unlink()
        gone = cli("evaluate", run)
    finally:
        corpus.write_bytes(content)
    for done, said in ((changed, "has changed since this run was trained"), (gone, "no such file")):
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert said in done.err
        assert "--data SOURCE TARGET" in done.err


def test_dates_are_read_in_the_same_way(cli: Cli, train: Train, tmp_path: Path) -> None:
    pairs = [(f"day {number}", f"{number:03}") for number in range(150)]
    ways = every_way(tmp_path, pairs)
    training = {"epochs": 1, "batch_size": 64, "validation_items": 10}
    settings = {"data": tuple(ways["parallel"]), "training": training}
    run = train("rnn-plain", tmp_path / "two", **settings)
    table = train("rnn-plain", tmp_path / "one", data=(tmp_path / "a.csv",), columns=("en", "de"), training=training)
    assert run.predict(["day 7"]) == table.predict(["day 7"])
    for path, given in ((run.path, ways["parallel"]), (table.path, ways["a.csv"])):
        own, named = cli("evaluate", path, "--json"), cli("evaluate", path, "--json", "--data", *given)
        assert (own.code, named.code) == (0, 0)
        assert json.loads(own.out)["items"] == json.loads(named.out)["items"] == 15
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"x\n" * 150))
    changed = cli("evaluate", run.path)
    assert (changed.code, changed.err.count("\n")) == (2, 1)
    assert "a.de.gz: has changed since this run was trained" in changed.err


BAD: list[tuple[tuple[str, ...], str]] = [
    (("evaluate", "RUN", "--data", "a.csv", "--columns", "en"), "--columns en: expected two different ones"),
    (("evaluate", "RUN", "--columns", "en,de"), "--columns is for files of pairs: give one with --data"),
    (("evaluate", "RUN", "--data", "a.en", "a.de.gz", *COLUMNS), "--columns is for one file of pairs"),
    (("score", "RUN", "--data", "quote.csv"), "quote.csv:3: unexpected end of data; mend the line"),
    (("align", "RUN", "--gold", "a.en", *COLUMNS), "--columns goes with --data"),
    (("tokenizer", "train", "a.en", "--out", "new", *COLUMNS), "--columns is for files of pairs: give one"),
    (("train", "dates", "--out", "new", *COLUMNS), "--columns is for files of pairs: give one with --data"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"), BAD, ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else ""
)
def test_bad_data_in_one_line(
    cli: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    every_way(tmp_path, sentences(9))
    (tmp_path / "quote.csv").write_text('source,target\na,b\n"c,d\n')
    monkeypatch.chdir(tmp_path)
    done = cli(*(run if argument == "RUN" else argument for argument in arguments))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err
    assert not (tmp_path / "new").exists()


def test_the_library_takes_paths_as_the_command_line_does(tmp_path: Path) -> None:
    from selfattn.comparison.compare import compare
    from selfattn.runs.evaluate import evaluate_run

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a} {b}\t{b}-{a}\n" for a in range(9) for b in range(9)), encoding="utf-8")
    given: list[Any] = [pairs, str(pairs), [pairs], (str(pairs),)]
    assert [Translation(data=one).options.data for one in given] == [(pairs,)] * 4
    out = str(tmp_path / "run")
    run = train_on("dates", data=pairs, out=out, set="encoder.dropout=0.1", model="rnn-attention", **TRAINING)
    assert (str(run.path), run.task.options.data) == (out, (pairs,))
    assert evaluate_run(run, pairs) == evaluate_run(run, [pairs])
    for task, wrong in (("dates", 5), ("translation", [pairs, 5]), ("lm", [pairs])):
        with pytest.raises(UserError, match=r"^`data`: expected a path, got "):
            train_on(task, data=wrong, out=out)
    with pytest.raises(UserError, match=r"missing\.tsv: no such file"):
        compare("dates", data=tmp_path / "missing.tsv", models="transformer", out=str(tmp_path / "out"))
