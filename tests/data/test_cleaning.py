import pytest

from selfattn.data.corpus import CleaningOptions, Tally, clean_rows, is_unlikely
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.errors import UserError


def test_each_row_is_kept_or_counted_for_the_first_step_that_meets_it() -> None:
    rows: list[RawPair | BadRecord] = [
        RawPair(1, "good", "gut"),
        BadRecord(2, "1 column(s), not 2", lines=3),
        RawPair(5, "bad \udcff", "ok"),
        RawPair(6, "  ", ""),
        RawPair(7, "text", "\x00\u00a0"),
        RawPair(8, "x" * 11, "y"),
        RawPair(9, " e\u0301 ", "t\x00"),
        RawPair(10, "\ud800", ""),
    ]
    tally = Tally("train", "f")
    kept = list(clean_rows(rows, CleaningOptions(max_characters=10), tally, limited=True))
    assert kept == [RawPair(1, "good", "gut"), RawPair(9, "é", "t")]
    assert tally.lines(len(kept), {"test": 1}) == [
        "train: 10 read, 2 kept, 8 left out, 1 moved to test",
        "  left out, broken: 3 (first f:2 1 column(s), not 2)",
        "  left out, invalid UTF-8: 2 (first f:5)",
        "  left out, empty: 2 (first f:6)",
        "  left out, too long: 1 (first f:8 11 characters)",
    ]
    with pytest.raises(UserError, match=r"f: no pair is left for train after cleaning \(broken: 3 \(first f:2 1"):
        tally.refuse_empty(0)


@pytest.mark.parametrize(
    ("source", "target", "bad"),
    # 30 characters let expect 15, both with 10 added: from 25 / 4 to 25 * 4, without the 10: up to 90
    [(30, 1, False), (30, 15, False), (30, 90, False), (30, 91, True), (140, 10, False), (141, 10, True)],
)
def test_lengths_are_held_against_what_the_source_lets_expect(source: int, target: int, bad: bool) -> None:
    assert is_unlikely(RawPair(1, "s" * source, "t" * target), 0.5, 4.0) == bad
