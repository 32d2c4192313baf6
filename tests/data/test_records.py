import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import file_sha256, lines_of
from selfattn.data.readers.pairs import PairFiles, read_pairs
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.data.splits import book_split, seen
from selfattn.errors import UserError

BOOK = "september 27, 1994           _1994-09-27\n2/10/93                      _1993-02-10\n"
ROWS = [RawPair(1, "Go.", "가."), RawPair(2, "Hi, all.", "안녕.")]


def write(path: Path, content: str | bytes) -> Path:
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
        ("a", '{"translation": {"en": "Go.", "ko": "가."}}\n{"en": "Hi, all.", "ko": "안녕."}\n', ("en", "ko"), 1),
    ],
)
def test_every_format_gives_the_same_pairs(
    tmp_path: Path, name: str, content: str, columns: tuple[str, str] | None, first: int, ending: str
) -> None:
    path = write(tmp_path / (name + ending), content)
    expected = [RawPair(row.line + first - 1, row.source, row.target) for row in ROWS]
    assert list(PairFiles((path,), columns).records()) == expected


def test_parallel_files_go_line_by_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", "Go.\r\nHi, all.\r\n")
    target = write(tmp_path / "a.ko.gz", "가.\n안녕.")
    assert list(PairFiles((source, target)).records()) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "columns", "found"),
    [
        ("a.tsv", "a\tb\nc\n\ng\th\n", None, [BadRecord(2, "1 column(s), not 2")]),
        ("a.csv", "source,target\na,b\nd,e,f\n", None, [BadRecord(3, "3 column(s), not 2")]),
        ("a.txt", "a_b\nc\n\nd_e\n", None, [BadRecord(2, "no separator (_) between input and target")]),
        ("a.csv", 'source,target\n"a"x,b\nc,d\n', None, [BadRecord(2, "',' expected after '\"'")]),
        ("a.csv", 'source,target\na,b\n"c,d\ne,f\n', None, [BadRecord(3, "unexpected end of data", lines=2)]),
        (
            "a.jsonl",
            '{"source": "a", "target": "b"}\n{"source": "a"\n[1]\n{"source": "a"}\n{"source": 1, "target": "b"}\n'
            f'{"[" * 100_000}\n{{"source": {"9" * 5000}}}\n',
            None,
            [
                BadRecord(2, "not valid JSON (Expecting ',' delimiter)"),
                BadRecord(3, "not a JSON object"),
                BadRecord(4, "no 'source' and 'target'"),
                BadRecord(5, "not two texts"),
                BadRecord(6, "not valid JSON (nested too deep)"),
                BadRecord(7, "not valid JSON (a number of 5000 digits)"),
            ],
        ),
    ],
)
def test_broken_records_are_told_apart(
    tmp_path: Path, name: str, content: str, columns: tuple[str, str] | None, found: list[BadRecord]
) -> None:
    records = list(PairFiles((write(tmp_path / name, content),), columns).records())
    assert [record for record in records if isinstance(record, BadRecord)] == found


def test_an_open_quote_does_not_swallow_the_file(tmp_path: Path) -> None:
    content = "source,target\n" + '"open,x\n' + "some text,some more text\n" * 10_000 + "last,one\n"
    records = list(PairFiles((write(tmp_path / "a.csv", content),)).records())
    faults = [record for record in records if isinstance(record, BadRecord)]
    assert len(faults) == 1
    assert faults[0].line == 2
    assert faults[0].lines + len(records) - 1 == 10_002  # nothing is lost uncounted
    assert records[-1] == RawPair(10_003, "last", "one")


def test_blank_lines_alone_are_rows_without_text(tmp_path: Path) -> None:
    assert list(PairFiles((write(tmp_path / "a.tsv", "\n" * 3),)).records()) == [RawPair(n, "", "") for n in (1, 2, 3)]
    later = list(PairFiles((write(tmp_path / "a.tsv", "\n" * 500 + "a\tb\n"),)).records())
    assert later[-1] == RawPair(501, "a", "b")


def test_bytes_that_are_not_utf8_are_left_to_cleaning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"a\xff\tb\tby \xfe\nc\td\tby \xfe\n")
    assert list(PairFiles((path,)).records()) == [RawPair(1, "a\udcff", "b"), RawPair(2, "c", "d")]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.tsv", "", None, "a.tsv: the file is empty; give at least one line"),
        ("a.txt", "no columns\n", None, "neither TSV, CSV nor JSON lines; name it .tsv"),
        ("a.tsv", "one\ntwo\n", None, "a.tsv:1: 1 column(s) a line, so there is no column 2"),
        ("a.txt", "a_b\n", ("1", "2"), "a.txt: neither TSV, CSV nor JSON lines"),
        ("a.tsv", "a\tb\n", ("1", "3"), "a.tsv:1: 2 column(s) a line, so there is no column 3"),
        ("a.tsv", "a\tb\n", ("en", "ko"), "a.tsv:1: no columns 'en' and 'ko'; choose with `columns`: 'a', 'b'"),
        ("a.jsonl", '{"translation": {"en": "a", "ko": "b"}, "id": 1}', None, "with `columns`: 'id', 'en', 'ko'"),
        ("a.csv", b'"e\nn",\xff\na,b\n', None, "a.csv:1: not valid UTF-8; save the file as UTF-8, or give `encoding`"),
        ("a.tsv", gzip.compress(b"a\tb", mtime=0), None, "a.tsv: packed with gzip; let its name end in .gz"),
        ("a.tsv", "a\tb".encode("utf-16-le"), None, "save the file as UTF-8, or give `encoding` utf-16-le"),
        ("blank.tsv", b"\n \n", None, "blank.tsv:2: 1 column(s) a line, so there is no column 2"),
        ("head.csv", b"source,target\n", None, "head.csv: no pairs in it"),
        ("date.txt", BOOK + "3/4/05 2005-03-04\n", None, "date.txt:3: no separator (_) between input and target"),
        ("date.txt", BOOK + "3/4/05  _\n", None, "date.txt:3: the source or the target is empty"),
        ("date.txt", b"a_b\n\xff_c\n", None, "date.txt:2: not valid UTF-8; save"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(
    tmp_path: Path, name: str, content: str | bytes, columns: tuple[str, str] | None, message: str
) -> None:
    with pytest.raises(UserError) as error:
        read_pairs(write(tmp_path / name, content), columns=columns)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert re.search("; |, so", str(error.value))  # and what to do


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\n", b"c\n", "a.en has 2 lines and"),
        (b"a\n\n", b"c\nd\n", "a.de:2: the source or the target is empty; mend the line, or take it out"),
        (b"a\nb\n", b"c\n\xff\n", "a.de:2: not valid UTF-8; save"),
    ],
)
def test_bad_parallel_files(tmp_path: Path, source: bytes, target: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_pairs(write(tmp_path / "a.en", source), write(tmp_path / "a.de", target))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(bytes(range(256)) * 99)[:-20])
    (tmp_path / "plain.gz").write_bytes(b"a\tb\n")
    broken = {"none": "no such file", "": "Is a directory", "cut.gz": "whole gzip file", "plain.gz": "whole gzip file"}
    for name, message in broken.items():
        with pytest.raises(UserError, match=message):
            list(lines_of(tmp_path / name))
    with pytest.raises(UserError, match="no such file"):
        file_sha256(tmp_path / "none")


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "a\u2028b\x0bc\x85d\te\rf\n".encode())
    assert read_pairs(path) == [Pair("a b c d", "e f")]


def test_seen_compares_source_and_target() -> None:
    train = [Pair("May 1", "a"), Pair("STRASSE", "b")]
    test = [Pair("May 1", "a"), Pair("may 1", "a"), Pair("May 1", "other"), Pair("straße", "b")]
    assert seen(test, train) == [True, False, False, False]
    assert seen(test, train, casefold=True) == [True, True, False, True]


def test_the_split_of_the_book_is_reproduced_line_by_line(shared_data: Callable[[str], Path]) -> None:
    pairs = read_pairs(shared_data("dates/date.txt"))
    assert len(pairs) == 50_000
    # Numbered by tag, so that each test pair can be traced to its line.
    numbered = [Pair(pair.source, pair.target, tag=str(line)) for line, pair in enumerate(pairs, 1)]
    train, test = book_split(numbered)
    rows = shared_data("dates/book_split_test.tsv").read_text(encoding="ascii").splitlines()[1:]
    expected = [tuple(map(int, row.split("\t"))) for row in rows]
    columns = ([int(pair.tag) for pair in test], seen(test, train), seen(test, train, casefold=True))
    assert list(zip(*columns, strict=True)) == expected
    assert [column.count(False) for column in columns[1:]] == [3_595, 2_562]
