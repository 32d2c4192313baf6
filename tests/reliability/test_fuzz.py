"""Bad input at every entry: what comes of it is a value, or one line that says what is wrong. Nothing else.

Cases are drawn from fixed seeds: texts of nasty characters, and valid files that were changed. A file of JSON is
changed at a random place of its tree, as often as in its bytes, and has no checksum that would catch the change.
"""

import gzip
import hashlib
import json
import os
import random
import shutil
from collections import Counter
from functools import partial

import pytest
from small_runs import Done, words

from selfattn.codec import fingerprint
from selfattn.comparison.plan import read_plan
from selfattn.data.readers.lines import read_texts
from selfattn.data.readers.pairs import read_pairs
from selfattn.errors import UserError
from selfattn.evaluation.links import parse_links, read_gold
from selfattn.results.record import read_record
from selfattn.runs.directory import RunDirectory
from selfattn.runs.train import train
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.tokenizers.load import load_tokenizer
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

NASTY = (
    *"aé한ａ\x00\x01\t\n\r\x1b\x7f\x85\u200b\u200f\u202e\u2028\u2029\ufeff\ufffd😀\U0010ffff",
    *("\ud800", "e\u0301", "👩‍👩‍👧", "<s>", "</s>", "▁", " ", '"', ",", "\\", "{}", "[[[["),
    *("||| ", "1-2", "0p3", "99999999999999999999-1"),
)
VALUES = (
    None, True, -1, 0, 1, 10**12, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", "../../x", "/", "a" * 5000,
    "\x1b[31m", "\ud800",    [], {}, [[]], {"": None}, [0] * 1000,
)  # fmt: skip


def text(chance):
    """A text of up to thirty nasty pieces."""
    return "".join(chance.choices(NASTY, k=chance.randrange(30)))


def argument(chance):
    """A text as a shell can hand it over: no null, and bytes that are no UTF-8 as Python takes them in."""
    return os.fsdecode(text(chance).replace("\x00", "").encode(errors="surrogatepass"))


def bytes_like(content, chance):
    """A content with a few changes: a byte set, a piece left out, said twice, or put in."""
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(content) + 1)
        end = min(len(content), start + chance.choice((0, 1, 1, 5, 50)))
        byte, piece = bytes([chance.randrange(256)]), text(chance).encode(errors="surrogatepass")
        own = chance.choice((b"", byte, piece, content[start:end] * 2))
        content = content[:start] + own + content[end:]
    return content


def json_like(value, chance):
    """A JSON value with another value, one key less or one more at a random place of it."""
    places = [value]
    for place in places:
        inner = place.values() if isinstance(place, dict) else place if isinstance(place, list) else ()
        places += [one for one in inner if isinstance(one, dict | list) and one]
    place = chance.choice(places)
    key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
    what = chance.random()
    if what < 0.1:
        del place[key]
    elif what < 0.2 and isinstance(place, dict):
        place[chance.choice(("x", "", "__class__", str(key) + " "))] = chance.choice(VALUES)
    else:
        place[key] = chance.choice(VALUES)
    return value


def of_file(path, read):
    """An entry that reads a changed form of a file, at its place."""
    content = path.read_bytes()

    def entry(chance):
        if path.suffix == ".json" and chance.random() < 0.5:
            tree = json.loads(content)
            tree.pop("checksum", None)
            path.write_text(json.dumps(json_like(tree, chance)), encoding="utf-8")
        else:
            path.write_bytes(bytes_like(content, chance))
        try:
            return read(path)
        finally:
            path.write_bytes(content)

    return entry


def on_text(tokenizer):
    """An entry that takes a text apart and puts it together again."""

    def entry(chance):
        given = text(chance)
        ids = tokenizer.encode(given)
        assert all(0 <= start <= end <= len(given) for start, end in tokenizer.spans(given))
        assert len(tokenizer.pieces(ids)) == len(ids)
        return tokenizer.decode(ids), tokenizer.unknown(given), tokenizer.sample(given, chance.randrange(10), 0.1)

    return entry


@pytest.fixture
def entries(copy, tmp_path, monkeypatch):
    """Every entry by name, on files of its own."""
    lines = ["a dog\tein Hund\t0-0 1-1", "two dogs run\tzwei Hunde laufen\t0-0 1p1 2-2"] * 3
    subword = SubwordTokenizer.train(lines * 20, SubwordSettings(vocab_size=285))
    subword.save(tmp_path / "subword")
    folder = tmp_path / "files"
    folder.mkdir()
    contents = {
        "gold.tsv": "\n".join(lines),
        "pairs.tsv": "\n".join(lines),
        "pairs.csv": 'source,target\n"a, dog",ein Hund\n"two\nlines",x\n',
        "pairs.jsonl": '{"source": "a dog", "target": "ein Hund"}\n{"translation": {"source": "b", "target": "c"}}\n',
        "book.txt": "september 27, 1994           _1994-09-27\naugust 19, 2003              _2003-08-19\n",
        "texts.txt": "one\ntwo\n",
        "notes.txt": "#separator:tab\n#html:true\n" + "\n".join(lines),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "packed.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (folder / "marked.txt").write_text("\n".join(lines), encoding="utf-16")
    run = copy / "runs" / "plain-seed0"
    monkeypatch.setattr(RunDirectory, "check", lambda *_: None)  # checksums would refuse everything
    return {
        "characters": on_text(CharTokenizer("abcdefghij é한")),
        "subwords": on_text(subword),
        "links": lambda chance: parse_links(text(chance), lengths=(3, 3)),
        "gold file": of_file(folder / "gold.tsv", read_gold),
        "pairs.tsv": of_file(folder / "pairs.tsv", read_pairs),
        "pairs.csv": of_file(folder / "pairs.csv", lambda path: read_pairs(path, columns=("source", "target"))),
        **{
            f"pairs in {encoding}": of_file(folder / "pairs.tsv", partial(read_pairs, encoding=encoding))
            for encoding in ("iso8859-1", "cp949", "utf-16-le", "utf-7", "iso2022_jp", "hz")
        },
        **{name: of_file(folder / name, read_pairs) for name in ("packed.tsv.gz", "marked.txt", "notes.txt")},
        "pairs.jsonl": of_file(folder / "pairs.jsonl", lambda path: read_pairs(path, columns=("source", "target"))),
        "book": of_file(folder / "book.txt", read_pairs),
        "texts": of_file(folder / "texts.txt", read_texts),
        "plan": of_file(copy / "plan.json", lambda path: read_plan(path.parent)),
        "results": of_file(copy / "results.json", read_record),
        "configuration": of_file(run / "config.json", lambda path: RunDirectory(path.parent).config()),
        "record of a run": of_file(run / "run.json", lambda path: RunDirectory(path.parent).record()),
        "metrics": of_file(run / "metrics.jsonl", lambda path: RunDirectory(path.parent).metrics()),
        "vocabulary": of_file(run / "tokenizer" / "char.json", lambda path: load_tokenizer(path.parent)),
        "subword model": of_file(tmp_path / "subword" / "subword.model", lambda path: load_tokenizer(path.parent)),
    }


def sweep(count, case):
    """Make so many cases, and count how they end: a value, a refusal in one short line, or an exit code.

    A case gives calls by their names. All that end in another way are told together, each with the first case of it.
    """
    ends = Counter()
    bad = {}
    for number in range(count):
        for name, call in case(random.Random(number), number):
            said = ""
            try:
                done = call()
                end = str(done.code) if isinstance(done, Done) else "value"
                if isinstance(done, Done):
                    lines = done.err.count("error: ") if done.code == 2 else 1
                    is_known = done.code in (0, 2) or (done.code == 1 and name.startswith("verify"))
                    said = "" if is_known and lines == 1 and "Traceback" not in done.err else repr(done)
            except UserError as error:
                end, text = "refused", str(error)
                said = "" if text.strip() and "\n" not in text and len(text) <= 1000 else f"{text[:200]!r}"
            except Exception as error:  # what the test is about
                end = said = f"{type(error).__name__}: {str(error)[:200]}"
            if said:
                bad.setdefault(f"{name}: {said}", number)
            ends[end if end.isdigit() else f"{name}: {end}"] += 1
    print(f"{count} cases: {dict(ends)}")
    assert not bad, "\n".join(f"case {number}, {said}" for said, number in bad.items())
    return ends


@pytest.mark.parametrize("count", [25, pytest.param(6000, marks=pytest.mark.reliability)])
def test_what_comes_in_is_read_or_refused_in_one_line(entries, count):
    ends = sweep(count, lambda chance, number: (
        (name, partial(entry, random.Random(f"{name}/{number}"))) for name, entry in entries.items()
    ))  # fmt: skip
    never_refused = {name for name in entries if not ends[f"{name}: refused"]}
    assert never_refused <= {"characters", "subwords", "texts", "book"}


OPTIONS = {
    "predict": "--beam --length-penalty --n-best --sample --temperature --top-k --top-p --seed --max-length --check",
    "attention": "--layer --head --target --too-long",
    "score": "--data --data --columns",
    "align": "--data --data --layer --head --shift --gold --base",
    "report": "--lang --figures --tables",
    "tokenizer": "--x --vocab-size",
    "models": "--x",
    "claims": "--lang --x",
}


@pytest.mark.parametrize("count", [40, pytest.param(5000, marks=pytest.mark.reliability)])
def test_no_command_line_ends_in_a_traceback(cli, copy, tmp_path, monkeypatch, count):
    """Of commands that train nothing, with options and values that fit or do not."""
    monkeypatch.chdir(tmp_path)  # where some commands write
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("4 March 2031\t2031-03-04\n12/05/1999\t1999-12-05\n", encoding="utf-8")

    def case(chance, number):
        command = chance.choice(list(OPTIONS))
        place = copy if command == "report" else copy / "runs" / "plain-seed0"
        line = [command, *([] if command in ("models", "claims") else [place])]
        line += [argument(chance)] if command == "attention" else []
        line += ["--out", tmp_path / "out"] if command == "report" else []
        for _ in range(chance.randrange(4)):
            nasty = argument(chance)
            option = chance.choice(OPTIONS[command].split())
            fitting = pairs if option == "--data" else chance.choice(("0", "1", "2", "0.5", "json", "ko"))
            other = chance.choice(("-1", "nan", "1e9", "10000000000", "", tmp_path / "no", nasty))
            line += [option, *[chance.choice((fitting, fitting, other))][: chance.choice((0, 1, 1, 1, 1))]]
        yield repr(line), partial(cli, *line, stdin=text(chance).encode(errors="surrogatepass"))

    ends = sweep(count, case)
    assert min(ends["0"], ends["2"]) >= count // 15


def mended(folder):
    """Write the checksums of runs, records and models of sentencepiece again, where these can be read at all."""
    for path in folder.rglob("subword.json"):
        content = (path.parent / "subword.model").read_bytes()
        seal(path, {"sha256": hashlib.sha256(content).hexdigest()}, checksum=False)
    for path in folder.rglob("run.json"):
        files = {}
        for file in sorted(path.parent.rglob("*")):
            if file.is_file() and file.name not in ("run.json", ".lock"):
                files[file.relative_to(path.parent).as_posix()] = [hashlib.sha256(file.read_bytes()).hexdigest()]
        seal(path, {"files": files})
    for path in folder.rglob("*.json"):
        seal(path, {})


def seal(path, changes, checksum=True):
    """Change a JSON file, and write its checksum again if it had one."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or not ({"checksum", *changes} & values.keys()):
            return
        if changes.keys() <= values.keys():
            values |= changes
        if checksum:
            values.pop("checksum", None)
            values["checksum"] = fingerprint(json.loads(json.dumps(values)))
        path.write_text(json.dumps(values), encoding="utf-8")
    except (ValueError, RecursionError):
        return


SUFFIXES = (".json", ".jsonl", ".gz", ".model", ".safetensors")
ON_A_RUN = (
    "predict RUN", "predict RUN --beam 2", "evaluate RUN", "score RUN --data PAIRS", "align RUN --data PAIRS",
    "attention RUN text --save NEW.json", "demo RUN --out NEW.html", "export RUN --to onnx --out NEW",
    "push RUN a/b --no-test", "tokenizer inspect RUN --text text", "train TASK --config RUN --resume --out RUN",
    "train TASK --init-from RUN --max-steps 1 --validation-items 4 --out NEW", "report RUN --out NEW",
)  # fmt: skip
ON_A_COMPARISON = (
    "verify RUN", "report RUN --out NEW --tables NEW.tables", "claims page RUN --out NEW",
    "compare dates --quick --models rnn-plain --max-steps 1 --jobs 1 --resume --out RUN",
)  # fmt: skip


@pytest.fixture
def places(copy, tmp_path):
    """A run with characters, a run with subwords, and a comparison, by the task's name or ``comparison``."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a dog {n} runs\tein Hund {n} läuft\n" for n in range(200)), encoding="utf-8")
    train(
        "translation", model="rnn-plain", out=tmp_path / "translation", data=(pairs,), tokenizer="bpe", vocab_size=290,
        max_steps=1, validation_items=4, set=("encoder.hidden_dim=8", "decoder.hidden_dim=8"),
    )  # fmt: skip
    shutil.copytree(copy / "runs" / "plain-seed0", tmp_path / "dates")
    return {"dates": tmp_path / "dates", "translation": tmp_path / "translation", "comparison": copy}


@pytest.mark.parametrize("count", [12, pytest.param(3000, marks=pytest.mark.reliability)])
def test_commands_on_damaged_files_with_mended_checksums(cli, places, tmp_path, monkeypatch, count):
    """Whole commands: each succeeds, or says in one line what is wrong."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "none")
    work = tmp_path / "work"

    def case(chance, number):
        name = chance.choice(list(places))
        shutil.copytree(places[name], work)
        files = [path for path in sorted(work.rglob("*")) if path.is_file() and path.suffix in SUFFIXES]
        path = chance.choice([file for file in files if file.suffix == chance.choice([".json", file.suffix])])
        content = path.read_bytes()
        if path.suffix == ".json" and chance.random() < 0.8:
            path.write_text(json.dumps(json_like(json.loads(content), chance)), encoding="utf-8")
        else:
            path.write_bytes(bytes_like(content, chance))
        mended(work)
        command = chance.choice(ON_A_COMPARISON if name == "comparison" else ON_A_RUN)
        line = words(command, RUN=work, TASK=name, PAIRS=tmp_path / "pairs.tsv", NEW=tmp_path / "new")
        yield f"{command} ({path.relative_to(work)})", partial(cli, *line, stdin="a dog 1 runs\n")
        for left in (work, *tmp_path.glob("new*")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    ends = sweep(count, case)
    assert min(ends["0"], ends["2"]) >= count // 15
