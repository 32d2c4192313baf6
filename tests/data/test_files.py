"""Files of pairs are understood: formats, columns, tags, encodings, several files; they record and know themselves."""

import gzip
import json
import pickle
import sys
from collections import Counter
from pathlib import Path

import pytest

from selfattn.data.corpus import CleaningOptions, read_corpus
from selfattn.data.pairs import Pair
from selfattn.data.readers.groups import named_sets
from selfattn.data.readers.lines import LearnedFile, checked_encoding, lines_of, read_texts
from selfattn.data.readers.pairs import PairFiles, read_pairs
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.data.splits import book_split, seen_in
from selfattn.errors import SettingError, UserError
from selfattn.runs.task import task_of_settings
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation

ROWS = [RawPair(1, "Go.", "가."), RawPair(2, "Hi, all.", "안녕.")]


def write(path, content):
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content", "columns", "first"),
    [
        ("a.tsv", "Go.\t가.\nHi, all.\t안녕.\n", None, 1),
        ("a.txt", "\ufeffGo.\t가.\tby me\r\nHi, all.\t안녕.\tby you", None, 1),
        ("a.tsv", "가.\tGo.\n안녕.\tHi, all.\n", ("2", "1"), 1),
        ("a.tsv", "id\tko\ten\n1\t가.\tGo.\n2\t안녕.\tHi, all.\n", ("en", "ko"), 2),
        ("a.csv", 'source,target\nGo.,가.\n"Hi, all.",안녕.\n', None, 2),
        ("a.csv", 'Go.,가.\r\n"Hi, all.",안녕.\r\n', ("1", "2"), 1),
        ("a.jsonl", '{"source": "Go.", "target": "가."}\n{"id": 3, "target": "안녕.", "source": "Hi, all."}', None, 1),
        ("date.txt", "Go.     _가.\nHi, all._안녕.  \n", None, 1),
        ("scan.txt", "IN: Go. OUT: 가.\nIN: Hi, all. OUT: 안녕.\n", None, 1),
        ("a", '{"translation": {"en": "Go.", "ko": "가."}}\n{"en": "Hi, all.", "ko": "안녕."}\n', ("en", "ko"), 1),
    ],
)
def test_every_format_gives_the_same_pairs(tmp_path, name, content, columns, first, ending):
    path = write(tmp_path / (name + ending), content)
    expected = [RawPair(row.line + first - 1, row.source, row.target) for row in ROWS]
    assert list(PairFiles((path,), columns).records()) == expected


def test_parallel_files_go_line_by_line(tmp_path):
    source = write(tmp_path / "a.en", "Go.\r\nHi, all.\r\n")
    target = write(tmp_path / "a.ko.gz", "가.\n안녕.")
    assert list(PairFiles((source, target)).records()) == ROWS
    assert PairFiles((write(tmp_path / "a.csv", "id;target;source\n1;b;a\n"),)).about() == [
        "a.csv: CSV, columns 'source' and 'target' of 3 (others can be chosen), first pair 'a' → 'b'"
    ]


BAD_JSON = """{"source": "a", "target": "b"}
{"source": "a"
[1]
{"source": "a"}
{"source": 1, "target": "b"}
"""


@pytest.mark.parametrize(
    ("name", "content", "last", "found"),
    [
        ("a.tsv", "a\tb\nc\n\ng\th\n", RawPair(4, "g", "h"), [BadRecord(2, "1 column(s), not 2")]),
        ("a.csv", "source,target\na,b\nd,e,f\n", None, [BadRecord(3, "3 column(s), not 2")]),
        ("a.txt", "a_b\nc\n\nd_e\n", None, [BadRecord(2, "no separator (_) between input and target")]),
        ("a.csv", 'source,target\n"a"x,b\nc,d\n', None, [BadRecord(2, "',' expected after '\"'")]),
        ("a.csv", 'source,target\na,b\n"c,d\ne,f\n', None, [BadRecord(3, "unexpected end of data", lines=2)]),
        ("a.jsonl", BAD_JSON + "[" * 100_000 + f'\n{{"source": {"9" * 5000}}}\n', None, [
            BadRecord(2, "not valid JSON (Expecting ',' delimiter)"),
            BadRecord(3, "not a JSON object"),
            BadRecord(4, "no 'source' and 'target'"),
            BadRecord(5, "not two texts"),
            BadRecord(6, "not valid JSON (nested too deep)"),
            BadRecord(7, "not valid JSON (a number of 5000 digits)"),
        ]),
        # bytes that are not UTF-8 are left to cleaning, and blank lines are rows without text
        ("a.tsv", b"c\td\tby \xfe\na\xff\tb\tby \xfe\n", RawPair(2, "a\udcff", "b"), []),
        ("a.tsv", "\n" * 3, RawPair(3, "", ""), []),
        ("a.tsv", "\n" * 500 + "a\tb\n", RawPair(501, "a", "b"), []),
    ],
)  # fmt: skip
def test_broken_records_are_told_apart(tmp_path, name, content, last, found):
    records = list(PairFiles((write(tmp_path / name, content),)).records())
    assert [record for record in records if isinstance(record, BadRecord)] == found
    assert last in (None, records[-1])


def test_an_open_quote_does_not_swallow_the_file(tmp_path):
    content = 'source,target\n"open,x\n' + "some text,some more text\n" * 10_000 + "last,one\n"
    first, *records = PairFiles((write(tmp_path / "a.csv", content),)).records()
    assert (isinstance(first, BadRecord), first.line) == (True, 2)
    assert first.lines + len(records) == 10_002  # nothing is lost uncounted
    assert all(isinstance(record, RawPair) for record in records)
    assert records[-1] == RawPair(10_003, "last", "one")


TEXTS = [(f"The café number {n}", f"Größe für Straße {n}") for n in range(300)]
PAIRS = [Pair(source, target) for source, target in TEXTS]
TSV = "".join(f"{source}\t{target}\n" for source, target in TEXTS)


@pytest.mark.parametrize(
    ("name", "data", "columns"),
    [
        *((f"{mark}.csv", TSV.replace("\t", mark), ("1", "2")) for mark in ",;|\t" if mark != "\t"),
        ("semicolon.csv", "source;target\n" + TSV.replace("\t", ";"), None),
        ("tab.CSV", "Source\tTarget\n" + TSV, None),
        ("excel.csv", "sep=|\nsource|target\n" + TSV.replace("\t", "|"), None),
        ("quoted.csv", 'en;de\n"' + TSV.replace("\t", '";"').replace("\n", '"\n"')[:-1], ("EN", "De")),
        ("heading.tsv", "Source\tTARGET\n" + TSV, None),
        ("named.tsv", "English\tGerman\n" + TSV, ("English", "German")),
        ("a.txt", "#separator:tab\n#html:false\n" + TSV, None),
        ("b.txt", "#separator:Comma\n#guid column:1\n" + "".join(f'7,"{a}",{b}\n' for a, b in TEXTS), None),
        ("c.txt", "#separator:tab\n#columns:x\tDe\tEn\n" + "".join(f"x\t{b}\t{a}\n" for a, b in TEXTS), ("En", "De")),
        ("fast.align", TSV.replace("\t", " ||| "), None),
        ("upper.JSONL", "".join(f'{{"source": "{a}", "target": "{b}"}}\n' for a, b in TEXTS), None),
    ],
)
def test_separators_headings_and_endings_are_understood(tmp_path, name, data, columns):
    assert read_pairs(write(tmp_path / name, data), columns=columns) == PAIRS


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_byte_order_mark_says_the_encoding(tmp_path, encoding):
    assert read_pairs(write(tmp_path / "a.tsv", TSV.encode(encoding))) == PAIRS
    assert read_texts(write(tmp_path / "a.txt", "Größe\n".encode(encoding))) == ["Größe"]
    with pytest.raises(UserError, match=r"begins with the mark of UTF-.*, so it is not cp1252; convert the file"):
        read_pairs(tmp_path / "a.tsv", encoding="cp1252")


def test_seen_compares_source_and_target():
    train = [Pair("May 1", "a"), Pair("STRASSE", "b")]
    test = [Pair("May 1", "a"), Pair("may 1", "a"), Pair("May 1", "other"), Pair("straße", "b")]
    assert seen_in(test, train) == [True, False, False, False]
    assert seen_in(test, train, casefold=True) == [True, True, False, True]


def test_the_split_of_the_book_is_reproduced_line_by_line(shared_data):
    pairs = read_pairs(shared_data("dates/date.txt"))
    assert len(pairs) == 50_000
    # Numbered by tag, so that each test pair can be traced to its line.
    numbered = [Pair(pair.source, pair.target, tag=str(line)) for line, pair in enumerate(pairs, 1)]
    train, test = book_split(numbered)
    rows = shared_data("dates/book_split_test.tsv").read_text(encoding="ascii").splitlines()[1:]
    expected = [tuple(map(int, row.split("\t"))) for row in rows]
    columns = ([int(pair.tag) for pair in test], seen_in(test, train), seen_in(test, train, casefold=True))
    assert list(zip(*columns, strict=True)) == expected
    assert [column.count(False) for column in columns[1:]] == [3_595, 2_562]


PARTS = {
    ".tsv": "Go{n}.\tVa{n} !\n",
    ".csv": "source,target\nGo{n}.,Va{n} !\n",
    ".jsonl": '{{"source": "Go{n}.", "target": "Va{n} !"}}\n',
    ".txt": "Go{n}.\tVa{n} !\tby a friend\n",  # as from Tatoeba
    ".dat": '{{"source": "Go{n}.", "target": "Va{n} !"}}\n',
    ".book": "Go{n}.  _Va{n} !\n" * 2,
    ".scan": "IN: Go{n}. OUT: Va{n} !\n",
    ".en-ko{n}.txt": "Go{n}.  _Va{n} !\n" * 2,  # neither script nor country: no language
}


@pytest.mark.parametrize("second", PARTS)
@pytest.mark.parametrize("first", PARTS)
def test_files_that_hold_pairs_are_one_corpus(tmp_path, first, second):
    paths = [
        write(tmp_path / f"part{n}{ending.format(n=n)}", PARTS[ending].format(n=n))
        for n, ending in enumerate((first, second), 1)
    ]
    pairs = read_pairs(*paths)
    assert list(dict.fromkeys(pairs)) == [Pair("Go1.", "Va1 !"), Pair("Go2.", "Va2 !")]


def test_pairs_of_files_are_one_corpus_and_places_name_their_file(tmp_path):
    contents = {"a.en": "Go.\nHi.\n", "a.de": "Los.\n \n", "b.en.txt": "Run!\n", "b.de.txt": "Lauf!\n"}
    paths = [write(tmp_path / name, content) for name, content in contents.items()]
    corpus = {"train": paths, "valid": paths[:2], "test": paths[:2]}
    files = {name: PairFiles(tuple(part)) for name, part in corpus.items()}
    splits = read_corpus(files, ("en", "de"), cleaning=CleaningOptions(overlap=False))
    assert list(splits.parts["train"]) == [Pair("Go.", "Los."), Pair("Run!", "Lauf!")]
    assert "  left out, empty: 1 (first a.en, a.de:2)" in splits.notes


def test_texts_with_stray_tabs_and_braces_are_sides_if_their_names_say_so(tmp_path):
    paths = write(tmp_path / "a.en", "a\tb\n{c\nd_e\n"), write(tmp_path / "a.de", "{}\n2\n3\n")
    assert [tuple(file.path for file in group) for group in PairFiles(paths).groups] == [paths]


TAGGED = [("a", "1", "x"), ("b", "2", ""), ("c", "3", " y ")]
TAGGED_PAIRS = [Pair("a", "1", "x"), Pair("b", "2"), Pair("c", "3", "y")]


def table(path, rows, separator="\t"):
    return write(path, "".join(separator.join(row) + "\n" for row in rows))


def test_a_tag_is_read_by_name_and_by_number(tmp_path):
    rows = [("source", "target", "kind"), *TAGGED]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(dict(zip(rows[0], row, strict=True))) for row in TAGGED))
    files = [(table(tmp_path / "named.tsv", rows), "kind 3"), (table(tmp_path / "named.csv", rows, ","), "kind 3")]
    files += [(table(tmp_path / "bare.tsv", TAGGED), "3"), (tmp_path / "a.jsonl", "kind")]
    for path, tags in files:
        assert [read_pairs(path, tag=tag) for tag in tags.split()] == [TAGGED_PAIRS] * len(tags.split())


def test_a_name_stands_before_the_first_file_of_its_set(tmp_path, monkeypatch):
    def sets(*texts):
        return {name: list(map(str, paths)) for name, paths in named_sets([Path(x) for x in texts], "test").items()}

    assert sets("iid=a.tsv", "gen=b.en", "b.de") == {"iid": ["a.tsv"], "gen": ["b.en", "b.de"]}
    assert sets("a.tsv", "b/c=d.tsv") == {"": ["a.tsv", "b/c=d.tsv"]}
    assert sets() == {}
    with pytest.raises(SettingError, match="`test` iid: given twice"):
        sets("iid=a.tsv", "iid=b.tsv")
    with pytest.raises(SettingError, match=r"`test` a.tsv: has no name, but another set has; write NAME=a.tsv"):
        sets("a.tsv", "gen=b.tsv")
    monkeypatch.chdir(tmp_path)
    Path("a=b.tsv").touch()
    assert sets("a=b.tsv") == {"": ["a=b.tsv"]}


def corpus(folder, **options):
    rows = [(f"s{n}", f"t{n}") for n in range(300)]
    tagged = [(f"v{n}", f"w{n}", "even" if n % 2 == 0 else "odd") for n in range(60)]
    files = {"data": (table(folder / "train.tsv", [*rows, ("v50", "other")]),)}
    files["valid"] = (table(folder / "valid.tsv", [(f"x{n}", f"y{n}") for n in range(9)]),)
    first, second = table(folder / "a.tsv", tagged[:40]), table(folder / "b.tsv", tagged[40:])
    files["test"] = (f"iid={first}", f"gen={second}")
    return Translation(target="und", source="und", tag="3", **files | options)


def test_the_first_set_decides_and_the_others_are_tested_beside_it(tmp_path):
    splits = corpus(tmp_path).splits(0)
    assert len(splits.test(None)) == 40
    assert {pair.tag for pair in splits.test(None)} == {"even", "odd"}
    assert {name: len(pairs) for name, pairs in splits.further_tests().items()} == {"gen": 20}
    assert splits.settings["test_set"] == "iid"
    assert splits.settings["parts"]["test gen"]["pairs"] == 20
    assert "test set iid decides; further test sets: gen" in splits.notes
    assert len(splits.train(0, None)) == 300  # no training pair is in a further set
    assert {pair.tag for pair in splits.validation(9)} == {""}  # a validation file may lack the column
    again = task_of_settings("translation", splits.settings, "run").held_out()
    assert list(again.pairs) == splits.test(None)


# How often files are opened, and what they say of themselves


OPENED, HOOKED = Counter(), []


def count_opens():
    """Count how often each file is opened from now on. A hook cannot be taken off, so there is one for all tests."""

    def hook(event, arguments):
        if event == "open":
            OPENED[str(arguments[0])] += 1

    if not HOOKED:
        sys.addaudithook(hook)
        HOOKED.append(True)
    OPENED.clear()
    return OPENED


def parallel(folder, name, texts):
    sides = zip(("en", "de"), zip(*texts, strict=True), strict=True)
    return tuple(
        write(folder / f"{name}.{language}", "".join(f"{text}\n" for text in side)) for language, side in sides
    )


@pytest.mark.parametrize("streaming", [False, True])
def test_each_file_of_a_corpus_is_opened_twice_before_training(tmp_path, streaming):
    rows = {"data": TEXTS[:280], "valid": TEXTS[280:290], "test": TEXTS[290:]}
    parts = {name: parallel(tmp_path, name, texts) for name, texts in rows.items()}
    opened = count_opens()
    task = Translation(target="de", streaming=streaming, tokenizer="characters", keep_duplicates=False, **parts)
    task.recipe(quick=False)
    splits = task.splits(0)
    task.tokenizer(splits)
    passes = 2 + 2 * streaming  # a stream is read for its length ratio, for the vocabulary, and then in every epoch
    for part, paths in parts.items():
        for path in paths:
            assert 1 < opened[str(path)] <= (passes if part == "data" else 2), path


def test_dates_of_a_file_are_opened_twice(tmp_path):
    path = table(tmp_path / "a.csv", [("source", "target"), *TEXTS], ",")
    opened = count_opens()
    splits = Dates(data=path).splits(0)
    assert len(splits.test(None)) == 30
    assert opened[str(path)] == 2


def test_files_record_themselves_and_are_known_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "id\ten\tde\n" + "".join(f"{n}\t{a}\t{b}\n" for n, (a, b) in enumerate(TEXTS))
    Path("a.tsv").write_text(text, encoding="cp1252")
    files = PairFiles((Path("a.tsv"),), ("en", "de"), "CP1252", "id")
    settings = json.loads(json.dumps(files.settings))
    described = {"path": "a.tsv", "sha256": LearnedFile.learn(Path("a.tsv"), "cp1252").sha256}
    assert settings == {"files": [described], "columns": ["en", "de"], "encoding": "cp1252", "tag": "id"}
    assert PairFiles.from_settings(settings) == files
    assert pickle.loads(pickle.dumps(files)) == files
    Path("b.tsv").write_bytes(Path("a.tsv").read_bytes())
    copy = PairFiles((Path("b.tsv"),))
    assert copy.are_those_of(settings)
    assert copy.read_as({"sources": {"train": settings}}) == PairFiles(copy.paths, ("en", "de"), "cp1252")
    assert copy.read_as({}) == copy
    assert [(pair.source, pair.target) for pair in files.read()] == TEXTS
    Path("b.tsv").write_text("other\ttext\n")
    assert not PairFiles((Path("b.tsv"),)).are_those_of(settings)


def test_old_runs_for_dates_are_known_again():
    old = {"path": "a.en", "sha256": "0", "target_path": "a.de", "target_sha256": "1", "encoding": "cp949"}
    old |= {"further_files": [{"path": "b.en", "sha256": "2"}], "columns": None}
    assert PairFiles.from_settings(old) == PairFiles((Path("a.en"), Path("a.de"), Path("b.en")), None, "cp949")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp949"])
def test_the_first_lines_are_cut_at_a_line(tmp_path, encoding, monkeypatch):
    monkeypatch.setattr("selfattn.data.readers.lines._HEAD_BYTES", 37)
    lines = [f"하나 {n}" for n in range(99)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding=encoding)
    file = LearnedFile.learn(tmp_path / "a.txt", "cp949" if encoding == "cp949" else None)
    assert file.count == 99
    assert 1 < len(file.head) < 9
    assert list(file.head) == lines[: len(file.head)]


ENDINGS = ["one", "one\n", "one\r\n\r\ntwo", "\n\n", "\ufeffone\ntwo\n", "one\x0bb\u2028c\rd\n", "é한\n" * 3 + "€"]


@pytest.mark.parametrize("text", ENDINGS)
@pytest.mark.parametrize("encoding", [None, "utf-16", "utf-16-le", "utf-32-be", "cp949", "cp037", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_counted_without_decoding_them(text, encoding, packed, tmp_path, monkeypatch):
    monkeypatch.setattr("selfattn.data.readers.lines._COUNTED", 3)
    monkeypatch.setattr("selfattn.data.readers.lines._HEAD_BYTES", 8)
    path = tmp_path / ("a.txt.gz" if packed else "a.txt")
    content = text.encode(encoding or "utf-8", "replace")
    path.write_bytes(gzip.compress(content) if packed else content)
    used = checked_encoding(encoding)
    assert LearnedFile.learn(path, used).count == len(list(lines_of(path, used)))
