"""Bad input at every entry: what comes of it is a value, or one line that says what is wrong. Nothing else.

Cases are drawn from fixed seeds: texts of nasty characters, and valid files that were changed.
"""

import json
import os
import random
import shutil
from collections import Counter
from functools import partial

import pytest
from small_runs import Done, words

from selfattn.data.readers.lines import read_texts
from selfattn.data.readers.pairs import read_pairs
from selfattn.errors import UserError
from selfattn.evaluation.links import parse_links, read_gold
from selfattn.exports import onnx
from selfattn.files import write_text
from selfattn.runs.directory import RunDirectory
from selfattn.runs.train import train
from selfattn.tokenizers.listed import CharTokenizer

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
        path.write_bytes(bytes_like(content, chance))
        return read(path)

    return entry


def in_characters(chance):
    """Take a text apart and put it together again, as tests/properties do with subwords."""
    tokenizer, given = CharTokenizer("abcdefghij é한"), text(chance)
    ids = tokenizer.encode(given)
    assert all(0 <= start <= end <= len(given) for start, end in tokenizer.spans(given))
    assert len(tokenizer.pieces(ids)) == len(ids)
    return tokenizer.decode(ids), tokenizer.unknown(given), tokenizer.sample(given, chance.randrange(10), 0.1)


LINES = "a dog\tein Hund\t0-0 1-1\ntwo dogs run\tzwei Hunde laufen\t0-0 1p1 2-2\n" * 3
# Files of data, and how each is read; tests/properties read other forms of pairs, commands below files of runs.
NAMED = partial(read_pairs, columns=("source", "target"))
DATA = {
    "gold.tsv": (LINES, read_gold),
    "pairs.csv": ('source,target\n"a, dog",ein Hund\n"two\nlines",x\n', NAMED),
    "pairs.jsonl": ('{"source": "a", "target": "b"}\n{"translation": {"source": "b", "target": "c"}}\n', NAMED),
    "book.txt": ("september 27, 1994           _1994-09-27\naugust 19, 2003              _2003-08-19\n", read_pairs),
    "texts.txt": ("one\ntwo\n", read_texts),
    "notes.txt": ("#separator:tab\n#html:true\n" + LINES, read_pairs),
    "marked.txt": (LINES.encode("utf-16"), read_pairs),
    **{
        f"{encoding}.tsv": (LINES, partial(read_pairs, encoding=encoding))
        for encoding in ("iso8859-1", "cp949", "utf-16-le", "utf-7", "iso2022_jp", "hz")
    },
}


@pytest.fixture
def entries(tmp_path):
    """Every entry by name, on files of its own."""
    found = {"characters": in_characters, "links": lambda chance: parse_links(text(chance), lengths=(3, 3))}
    for name, (content, read) in DATA.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        found[name] = of_file(tmp_path / name, read)
    return found


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
    assert never_refused <= {"characters", "texts.txt", "book.txt"}


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


@pytest.mark.parametrize("count", [30, pytest.param(3000, marks=pytest.mark.reliability)])
def test_commands_on_damaged_files_without_checksums(cli, places, tmp_path, monkeypatch, count):
    """Whole commands: each succeeds, or says in one line what is wrong."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "none")
    monkeypatch.setattr(RunDirectory, "check", lambda *_: None)  # checksums would refuse everything
    if count < 1000:  # the graphs of an export take seconds
        monkeypatch.setattr(onnx, "_write", lambda *inputs: write_text(inputs[-1], "graph"))
    work = tmp_path / "work"

    def case(chance, number):
        name = chance.choice(list(places))
        shutil.copytree(places[name], work)
        files = [path for path in sorted(work.rglob("*")) if path.is_file() and path.suffix in SUFFIXES]
        path = chance.choice([file for file in files if file.suffix == chance.choice([".json", file.suffix])])
        content = path.read_bytes()
        tree = json.loads(content) if path.suffix == ".json" else None
        if isinstance(tree, dict):
            tree.pop("checksum", None)
        if tree and chance.random() < 0.8:
            path.write_text(json.dumps(json_like(tree, chance)), encoding="utf-8")
        else:
            path.write_bytes(bytes_like(json.dumps(tree).encode() if tree else content, chance))
        command = chance.choice(ON_A_COMPARISON if name == "comparison" else ON_A_RUN)
        line = words(command, RUN=work, TASK=name, PAIRS=tmp_path / "pairs.tsv", NEW=tmp_path / "new")
        yield f"{command} ({path.relative_to(work)})", partial(cli, *line, stdin="a dog 1 runs\n")
        for left in (work, *tmp_path.glob("new*")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    ends = sweep(count, case)
    assert min(ends["0"], ends["2"]) >= count // 15
