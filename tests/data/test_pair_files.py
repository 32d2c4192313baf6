from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from selfattn.data.pairs import Pair
from selfattn.data.readers.records import read_pairs
from selfattn.data.splits import book_split, seen
from selfattn.errors import UserError

DATES = Path(__file__).parents[2].parent / "shared" / "data" / "dates"
needs_data = pytest.mark.skipif(not DATES.is_dir(), reason=f"{DATES} is not there")

BOOK = b"september 27, 1994           _1994-09-27\n2/10/93                      _1993-02-10\n"
BOOK_PAIRS = [Pair("september 27, 1994", "1994-09-27"), Pair("2/10/93", "1993-02-10")]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\n", b"c\n", "a.en has 2 lines and"),
        (b"a\n\n", b"c\nd\n", "a.de:2: the source is empty; mend the line, or take it out"),
        (b"a\nb\n", b"c\n \n", "a.de:2: the target is empty; "),
        (b"a\nb\n", b"c\n\xff\n", "a.de:2: not valid UTF-8 in the target; save"),
        (b"a\n", b"", "a.de: the file is empty"),
    ],
)
def test_bad_parallel_files(tmp_path: Path, source: bytes, target: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_pairs(write(tmp_path / "a.en", source), write(tmp_path / "a.de", target))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_sum_file_of_the_book_has_its_target_padded(tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path / "addition.txt", b"16+75  _91  \n")) == [Pair("16+75", "91")]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "a\u2028b\x0bc\x85d\te\rf\n".encode())
    assert read_pairs(path) == [Pair("a\u2028b\x0bc\x85d", "e\rf")]


def test_the_text_of_a_tsv_is_kept_as_it_is(tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path / "pairs.tsv", b" a_b \t c\n")) == [Pair(" a_b ", " c")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b"", "empty.txt: the file is empty"),
        ("empty.txt.gz", b"", "empty.txt.gz: the file is empty"),
        ("blank.txt", b"\n \n", "blank.txt: neither TSV, CSV, JSON lines nor input_target"),
        ("blank.tsv", b"\n \n", "blank.tsv:1: the source is empty"),
        ("head.csv", b"source,target\n", "head.csv: no pairs in it"),
        ("date.txt", BOOK + b"3/4/05 2005-03-04\n", "date.txt:3: no separator (_) between input and target"),
        ("date.txt", BOOK + b"\n", "date.txt:3: the source is empty"),
        ("date.txt", b"   _1994-09-27\n", "date.txt:1: the source is empty"),
        ("date.txt", BOOK + b"3/4/05  _\n", "date.txt:3: the target is empty"),
        ("date.txt", b"a_b\n\xff_c\n", "date.txt:2: not valid UTF-8 in the source; save"),
    ],
)
def test_bad_content_is_one_line_with_file_and_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_pairs(write(tmp_path / name, content))
    assert str(error.value).startswith(f"{tmp_path}/{message}")
    assert "; " in str(error.value)  # and what to do
    assert "\n" not in str(error.value)


def test_the_split_is_a_tenth_and_loses_nothing() -> None:
    pairs = [Pair(str(number), "x") for number in range(37)]
    train, test = book_split(pairs)
    assert (len(train), len(test)) == (34, 3)
    assert sorted(train + test, key=lambda pair: int(pair.source)) == pairs
    assert book_split(pairs) == (train, test)


def test_too_few_pairs_to_split() -> None:
    with pytest.raises(UserError, match="9 pairs are too few to split"):
        book_split([Pair("a", "b")] * 9)


def test_seen_compares_source_and_target() -> None:
    train = [Pair("May 1", "a"), Pair("STRASSE", "b")]
    test = [Pair("May 1", "a"), Pair("may 1", "a"), Pair("May 1", "other"), Pair("straße", "b")]
    assert seen(test, train) == [True, False, False, False]
    assert seen(test, train, casefold=True) == [True, True, False, True]


@needs_data
def test_the_split_of_the_book_is_reproduced_line_by_line() -> None:
    pairs = read_pairs(DATES / "date.txt")
    assert len(pairs) == 50_000
    # Numbered by tag, so that each test pair can be traced to its line.
    numbered = [Pair(pair.source, pair.target, tag=str(line)) for line, pair in enumerate(pairs, 1)]
    train, test = book_split(numbered)
    rows = (DATES / "book_split_test.tsv").read_text(encoding="ascii").splitlines()[1:]
    expected = [tuple(map(int, row.split("\t"))) for row in rows]
    columns = ([int(pair.tag) for pair in test], seen(test, train), seen(test, train, casefold=True))
    assert list(zip(*columns, strict=True)) == expected
    assert [column.count(False) for column in columns[1:]] == [3_595, 2_562]


@needs_data
def test_the_other_file_of_the_book() -> None:
    pairs = read_pairs(DATES / "addition.txt")
    assert len(pairs) == 50_000
    assert all(sum(map(int, pair.source.split("+"))) == int(pair.target) for pair in pairs)
