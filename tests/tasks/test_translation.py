"""Translation: the embedded phrases, files of every kind, the Hub, streams; training, prediction, comparison.

Data are given to every command in the same way: the same files, formats and columns, read by one reader.
"""

import gzip
import json
import lzma
import random
from dataclasses import replace

import pytest
import sacrebleu

import selfattn
from selfattn.comparison.compare import compare
from selfattn.data.phrases import CldrSource, EmbeddedPhrases
from selfattn.errors import UserError
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.task import task_of_run, task_of_settings
from selfattn.runs.train import train as train_on
from selfattn.tasks.translation import Translation

TINY = {"epochs": 1, "items_per_epoch": 200, "batch_size": 64, "validation_items": 20}
ALL = {"epochs": 1, "batch_size": 32, "validation_items": 10, "warmup_steps": 2, "max_tokens": 2000}
SMALL = ("encoder.dim=16", "decoder.dim=16", "encoder.ffn_dim=16", "decoder.ffn_dim=16", "encoder.num_layers=1",
         "decoder.num_layers=1")  # fmt: skip
HIDDEN = ("encoder.hidden_dim=16", "decoder.hidden_dim=16")
NUMBERS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")


def lines(count, start=0):
    """A little language: digits, and their names."""
    digits = [f"{number:05}" for number in range(start, start + 7 * count, 7)]
    return [(" ".join(text), " ".join(NUMBERS[int(digit)] for digit in text)) for text in digits]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for part, pairs in (("train", lines(150)), ("valid", lines(10, 50_000)), ("test", lines(10, 70_001))):
        (folder / f"{part}.en").write_text("".join(source + "\n" for source, _ in pairs))
        (folder / f"{part}.de").write_text("".join(target + "\n" for _, target in pairs))
        (folder / f"{part}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return folder


def parts(folder, *suffixes):
    return {
        "data" if part == "train" else part: tuple(folder / f"{part}.{suffix}" for suffix in suffixes)
        for part in ("train", "valid", "test")
    }


def train(out, **changes):
    training = changes.pop("training", TINY)
    return train_on("translation", out=out, **{"set": SMALL} | training | changes)


@pytest.fixture(scope="module")
def parallel(files, tmp_path_factory):
    """Trained on two files that go line by line."""
    out = tmp_path_factory.mktemp("parallel") / "run"
    return train(out, **parts(files, "en", "de"), target="German", training=ALL, vocab_size=300)


def test_one_file_is_divided_and_separate_vocabularies_and_sampling_work(tmp_path, files):
    given = {"data": (files / "train.tsv",), "target": "de", "training": ALL, "separate": True}
    run = train(tmp_path / "run", model="rnn-attention", set=HIDDEN, sampling=0.1, **given)
    tokenizer = selfattn.load(run.path).tokenizer
    assert len(tokenizer.source) != len(tokenizer.target)  # as many as each side's texts give
    assert len(run.attention("1 2 3").weights) == 1
    with pytest.raises(UserError, match=r"this model cannot be built: .*; leave `separate` out"):
        train(tmp_path / "no", model="decoder-only", set=("stack.dim=16",), **given)


def test_a_stream_trains_without_being_held(tmp_path, files, monkeypatch):
    training = {name: value for name, value in ALL.items() if name != "epochs"} | {"max_steps": 6, "validate_every": 3}
    run = train(tmp_path / "run", **parts(files, "tsv"), target="de", streaming=True, training=training, vocab_size=300)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 6]
    assert run.config.data["streaming"] is True
    assert evaluate_run(run)["items"] == 10
    monkeypatch.setattr(Translation, "splits", lambda *arguments: pytest.fail("read"))
    with pytest.raises(UserError, match="`max_steps`: the data are a stream of unknown length"):
        train(tmp_path / "without", **parts(files, "tsv"), target="de", streaming=True)


def test_a_directory_stands_for_the_hub(tmp_path, files):
    folder = tmp_path / "dataset"
    folder.mkdir()
    rows = [json.dumps({"en": source, "de": target}) for source, target in lines(200)]
    (folder / "train.jsonl").write_text("\n".join(rows))
    run = train(tmp_path / "run", hub=str(folder), source="en", target="de", training=ALL, vocab_size=300)
    assert run.config.data["sources"]["train"]["hub"] == str(folder)
    found = evaluate_run(run)
    assert (found["items"], found["data"]) == (10, f"{folder}, test part")


def test_evaluate_and_predict_and_score(cli, parallel, files):
    out = parallel.path
    assert selfattn.load(out).predict(["1 2 3 4 5"]) == parallel.predict(["1 2 3 4 5"])
    test = ("--data", files / "test.en", files / "test.de")
    found = json.loads(cli("evaluate", out, *test, "--json", "--beam", 2).out)
    assert (found["items"], found["beam"]) == (10, 2)
    assert set(found["metrics"]) >= {"bleu", "bleu_lowercased_tokenised", "chrf", "ter", "exact_match"}
    assert "tok:13a" in found["signatures"]["bleu"]
    assert cli("evaluate", out).out == cli("evaluate", out, *test).out
    predicted = cli("predict", out, "--beam", 2, "--n-best", 2, stdin="1 2 3\n4 5\n")
    assert [line.split("\t")[0] for line in predicted.out.splitlines()] == ["1", "1", "2", "2"]
    cli("score", out, "--data", files / "test.tsv").success()


def test_languages_are_known_or_refused_and_their_script_is_compared(cli, tmp_path, parallel, files, capsys):
    assert "BLEU cuts" not in cli("evaluate", parallel.path).success().err
    train(tmp_path / "korean", **parts(files, "en", "de"), target="kor", training=ALL, vocab_size=300)
    warning = "written in another script, but BLEU cuts text of 'kor'"
    assert warning in capsys.readouterr().err
    assert cli("evaluate", tmp_path / "korean").err.count(warning) == 1
    config = replace(parallel.config, task_options={"target": "jp"})
    with pytest.raises(UserError, match=r"config.json: task_options: `target`: unknown language 'jp'"):
        task_of_run(config, "config.json")


def test_a_comparison_on_phrases_needs_no_download(tmp_path, monkeypatch):
    monkeypatch.setattr(EmbeddedPhrases, "_sample", lambda phrases, *languages: CldrSource(*languages).pairs(500))
    brief = TINY | {"items_per_epoch": 32, "validation_items": 4}
    usual = Translation().usual_comparison()["models"]
    assert usual == ("rnn-attention", "transformer", "transformer-rope")
    models = usual[:2]
    record, files = compare("translation", models=models, out=tmp_path / "out", quick=True, test_items=6, **brief)
    assert [model.name for model in record.models] == [*models]
    assert record.matching.budget == "parameters"
    counts = [model.parameters_non_embedding or 0 for model in record.models]
    assert max(counts) / min(counts) <= 1.02
    assert {group.name for group in record.buckets} >= {"kind", "length", "field", "rare words"}
    assert set(record.models[0].metrics) >= {"exact_match", "bleu", "chrf", "ter"}
    assert files.html.stat().st_size < 3_000_000
    runs = [selfattn.load(path) for path in (tmp_path / "out/runs").iterdir()]
    assert all(run.config.task == "translation" for run in runs)
    assert runs[0].config.data == {"kind": "cldr", "source_language": "en", "target_language": "ko"}
    assert len(runs[0].predict([pair.source for pair in CldrSource("en", "ko", split="test").pairs(5)])) == 5


def test_a_comparison_on_files_is_about_bleu(tmp_path, files):
    hidden = ("luong-bidirectional:encoder.hidden_dim=8", "luong-bidirectional:decoder.hidden_dim=16")
    settings = (*(f"transformer:{setting}" for setting in SMALL), *hidden)
    (tmp_path / "sentences").write_text("1 2 3 ||| eins zwei drei\n" * 4)
    (tmp_path / "gold").write_text("1-1 2-2 3p3\n" * 4)
    record, _ = compare(
        "translation", gold=tmp_path / "gold", sentences=tmp_path / "sentences", base=1, out=tmp_path / "out",
        **parts(files, "en", "de"), target="de", vocab_size=300, set=settings, apart=True, match=None, beam=2,
        quick=True, items_per_epoch=16, **ALL | {"batch_size": 4},
    )  # fmt: skip
    assert (record.headline.metric, record.headline.kind) == ("bleu", "points")
    assert "tok:13a" in record.headline.signature
    assert record.signatures["chrf"] == str(sacrebleu.CHRF(references=[["a"]]).get_signature())
    assert set(record.signatures) == {"chrf", "ter", "bleu_lowercased_tokenised"}
    assert record.interval.method == "bootstrap"  # BLEU is no mean over items
    assert {pair.metric for pair in record.pairs} == {"bleu", "chrf"}
    for model in record.models:
        assert all(0 <= (head.aer or 0) <= 1 for head in model.alignment.heads)
        assert model.alignment.diagonal_aer == 0  # "1 2 3" and "eins zwei drei", word by word
    assert f"--data {files}/train.en {files}/train.de" in record.command


def test_what_others_reached_is_known_by_the_test_pairs(shared_data):
    for source, target, test, known in (
        ("en", "de", "test_2016_flickr", ["transformer"]),
        ("de", "en", "test_2016_flickr", ["rnn with attention", "transformer"]),
        ("en", "de", "test_2017_flickr", []),
    ):
        small = "test_2017_flickr" if "2016" in test else "test_2016_flickr"  # of the training: only the test matters
        parts = {"data": small, "valid": "val", "test": test}
        files = {p: [shared_data(f"multi30k/{name}.{x}.gz") for x in (source, target)] for p, name in parts.items()}
        task = Translation(source=source, target=target, **files)
        assert sorted(task.published(task.splits(0).settings)) == known


TRAINING = {"max_steps": 2, "warmup_steps": 1, "batch_size": 16, "validation_items": 7}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt.gz"
    rows = "".join(f"{source}\t{target}\tby someone\n" for source, target in lines(150))
    path.write_bytes(gzip.compress(rows.encode()))
    return path


@pytest.fixture(scope="module")
def divided(corpus, tmp_path_factory):
    """Trained on one file, with parts held out of it."""
    given = {"target": "de", "vocab_size": 300, "held_out": 20, "split_seed": 3, "training": TRAINING}
    out = tmp_path_factory.mktemp("runs") / "run"
    return train(out, model="rnn-attention", set=HIDDEN, data=(corpus,), **given).path


# What stands behind --data for the same pairs; tests/data reads more forms of them.
WAYS = {
    "parallel": "a.en a.de.gz", "columns": "a.csv --columns en,de", "parts": "part1.tsv part2.TSV.xz",
    "latin-1": "latin.csv --encoding latin-1",
}  # fmt: skip


@pytest.mark.parametrize("command", ["evaluate", "score", "align"])
def test_every_command_reads_every_format_with_the_same_answer(cli, divided, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    pairs, answers = lines(9), {}
    rows = [f"{source}\t{target}\n" for source, target in pairs]
    for name, content in {
        "a.en": "".join(f"{source}\n" for source, _ in pairs).encode(),
        "a.de.gz": gzip.compress("".join(f"{target}\n" for _, target in pairs).encode()),
        "a.csv": ("de,id,en\n" + "".join(f"{target},7,{source}\n" for source, target in pairs)).encode(),
        "part1.tsv": "".join(rows[:4]).encode(),
        "part2.TSV.xz": lzma.compress("".join(rows[4:]).encode("utf-16")),
        "latin.csv": ("source;target\n" + "".join(rows).replace("\t", ";")).encode("latin-1"),
    }.items():
        (tmp_path / name).write_bytes(content)
    for name, given in WAYS.items():
        done = cli(command, divided, "--data", *given.split())
        assert (name, done.code, done.err) == (name, 0, "")
        answers[name] = done.out.split("\n", 1)[1] if command == "evaluate" else done.out
    assert len(set(answers.values())) == 1


def test_an_encoding_is_recorded_and_used_again(cli, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"größer {n};straße {n}\n" for n in range(60)), encoding="latin-1")
    reading = ("--data", path, "--columns", "1,2")
    small = ("--set", "encoder.hidden_dim=8", "--set", "decoder.hidden_dim=8", "--epochs", "1", "--held-out", "9")
    train = ("train", "translation", "--model", "rnn-attention", "--target", "de", *small)
    assert "or give --encoding cp1252" in cli(*train, *reading, "--out", tmp_path / "no").refusal()
    done = cli(*train, *reading, "--encoding", "latin-1", "--out", tmp_path / "run")
    assert "a.csv: CSV, columns 1 and 2 of 2, first pair 'größer 0' → 'straße 0'" in done.err
    for data in ((), reading, ("--data", path), (*reading, "--encoding", "ISO-8859-1")):
        assert "9 items" in cli("evaluate", tmp_path / "run", *data).out
    for command in ("score", "align"):  # which read the run's own file as the run did
        assert cli(command, tmp_path / "run", "--data", path).out.count("\n") == 60
    message = "--encoding cp1250: the run was trained on this file with iso8859-1; leave it out"
    assert message in cli("evaluate", tmp_path / "run", *reading, "--encoding", "cp1250").refusal()
    tokenizer = ("tokenizer", "train", path, "--columns", "1,2", "--kind", "characters", "--out", tmp_path / "tokens")
    assert "or give --encoding cp1252" in cli(*tokenizer).refusal()
    assert "ß" in cli(*tokenizer, "--encoding", "latin-1").out


def test_cleaning_is_chosen_on_the_command_line(tmp_path):
    long, unequal = ("a" * 41, "b" * 41), ("eins", "x" * 90)
    train = [("one", "eins"), ("one", "eins"), long, unequal, ("two\u00a0!", "zwei"), ("known", "bekannt")]
    path, test = tmp_path / "a.tsv", tmp_path / "test.tsv"
    path.write_text("".join(map("{0[0]}\t{0[1]}\n".format, train)))
    test.write_text("known\tanders\n")
    valid = tmp_path / "valid.tsv"
    valid.write_text("known\tanders !\n")

    def kept(**options):
        data = Translation(data=(path,), valid=(valid,), test=(test,), **options).splits(0)
        return {f"{pair.source} {number}" for number, pair in enumerate(data.train(0, None))}

    usual = kept()
    assert usual == {"one 0", f"{long[0]} 1", "two\u00a0! 2"}
    assert kept(max_characters=40) == {"one 0", "two\u00a0! 1"}
    assert kept(max_characters=0, max_ratio=0) == {"one 0", f"{long[0]} 1", "eins 2", "two\u00a0! 3"}
    assert kept(keep_overlap=True) == usual | {"known 3"}
    assert len(kept(keep_duplicates=True)) == 4


def test_a_run_is_tested_on_what_was_held_out_for_it(cli, divided, corpus):
    done = cli("evaluate", divided, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["items"], found["data"]) == (20, f"{corpus}, test part")
    assert json.loads(cli("evaluate", divided, "--json", "--data", corpus).out) == found
    content = corpus.read_bytes()
    try:
        corpus.write_bytes(gzip.compress(gzip.decompress(content) + b"one\tmore\tby me\n" * 9))
        changed = cli("evaluate", divided).refusal()
        corpus.unlink()
        gone = cli("evaluate", divided).refusal()
    finally:
        corpus.write_bytes(content)
    assert "has changed since this run was trained; name pairs to test on: --data SOURCE TARGET" in changed
    assert "no such file; check the path" in gone


def test_the_library_takes_paths_as_the_command_line_does(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    given = [pairs, str(pairs), [pairs], (str(pairs),)]
    assert [Translation(data=data).options.data for data in given] == [(pairs,)] * 4
    for task, wrong in (("dates", 5), ("translation", [pairs, 5]), ("lm", [pairs])):
        with pytest.raises(UserError, match=r"^`data`: expected a path, got "):
            train_on(task, data=wrong, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"missing\.tsv: no such file"):
        compare("dates", data=tmp_path / "missing.tsv", models="transformer", out=str(tmp_path / "out"))


def test_files_of_few_pairs_get_fewer_subwords_and_smaller_batches(tmp_path):
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnop", k=6)) for _ in range(20_000)]
    pairs = [f"{source}\t{target}\n" for source, target in zip(words[::2], words[1::2], strict=True)]
    tasks = []
    for count in (9_999, 10_000):
        (tmp_path / f"{count}.tsv").write_text("".join(pairs[:count]), "utf-8")
        tasks.append(Translation(data=(tmp_path / f"{count}.tsv",), target="de"))
    assert [task.recipe(quick=False).max_tokens for task in tasks] == [1024, 4096]
    few, many = (len(task.tokenizer(task.splits(0))) for task in tasks)
    assert few == 2000 < many
    stated = Translation(data=(tmp_path / "9999.tsv",), target="de", vocab_size=500)
    assert len(stated.tokenizer(stated.splits(0))) == 500


def test_the_task_of_an_archive_reads_the_corpus_of_its_data(files):
    trained = Translation(source="en", target="de", **parts(files, "tsv")).splits(seed=0)
    again = task_of_settings("translation", trained.settings, "config.json").splits(seed=0)
    assert list(again.validation(10)) == list(trained.validation(10)) != []
    assert list(again.train(1, None)) == list(trained.train(1, None))
