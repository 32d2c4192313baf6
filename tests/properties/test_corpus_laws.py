import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfattn.data.corpus import (
    CleaningOptions,
    Tally,
    clean_rows,
    components_of,
    hold_out_components,
    is_unlikely,
    loose,
    read_corpus,
)
from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.data.splits import FiniteSplits
from selfattn.errors import UserError

# Much of what goes wrong: control characters, spaces of all kinds, jamo, combining marks, lone surrogates
pieces = st.sampled_from([*"ab .\t\x00\x85\u00a0\u3000\u2028\ufeff\u200b\u0301e\u1112\u1161\u11ab한ㅋ\udcff", "é"])
texts = st.lists(pieces, max_size=7).map("".join) | st.text(max_size=7)
options_ = st.builds(
    CleaningOptions,
    max_characters=st.none() | st.integers(1, 6),
    max_ratio=st.none() | st.floats(1, 3),
    duplicates=st.booleans(),
    overlap=st.booleans(),
)
rows_ = st.lists(
    st.builds(RawPair, st.just(0), texts, texts) | st.builds(BadRecord, st.just(0), st.just("x"), st.integers(1, 3)),
    max_size=11,
)


@given(rows_, options_, st.booleans())
def test_rows_are_kept_in_order_or_counted(
    rows: list[RawPair | BadRecord], options: CleaningOptions, limited: bool
) -> None:
    rows = [
        RawPair(n, row.source, row.target) if isinstance(row, RawPair) else BadRecord(n, "x", row.lines)
        for n, row in enumerate(rows)
    ]
    tally = Tally("train", "f")
    kept = list(clean_rows(rows, options, tally, limited=limited))
    assert tally.read == sum(row.lines if isinstance(row, BadRecord) else 1 for row in rows)
    assert tally.read == len(kept) + tally.dropped.total()
    lines = [row.line for row in kept]
    assert lines == sorted(lines)
    again = clean_rows(kept, options, Tally("train", "f"), limited=limited)
    assert list(again) == kept


def read(
    pairs: list[tuple[str, str]], valid: list[tuple[str, str]], test: list[tuple[str, str]], options: CleaningOptions
) -> FiniteSplits:
    """Read pairs as files of their own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, part in (("train", pairs), ("valid", valid), ("test", test)):
            paths.append(Path(folder, name + ".tsv"))
            lines = "".join(f"{source}\t{target}\n" for source, target in [("A", "B"), *part])
            paths[-1].write_bytes(lines.encode("utf-8", "surrogateescape"))
        return read_corpus({path.stem: PairFiles((path,)) for path in paths}, ("en", "de"), cleaning=options)


def untabbed(text: str) -> str:
    return text.replace("\t", "").replace("\n", "")


fields = (
    texts.map(untabbed)
    .filter(lambda text: all(ord(letter) not in range(0xD800, 0xDC80) for letter in text))
    .filter(lambda text: all(ord(letter) not in range(0xDD00, 0xE000) for letter in text))
)
parts_ = st.lists(st.tuples(fields, fields), max_size=7)


@settings(max_examples=40)
@given(parts_, parts_, parts_, options_)
def test_a_corpus_is_what_one_gets_by_hand(
    train: list[tuple[str, str]], valid: list[tuple[str, str]], test: list[tuple[str, str]], options: CleaningOptions
) -> None:
    def by_hand(part: list[tuple[str, str]], limited: bool) -> list[tuple[str, str]]:
        rows = [
            RawPair(0, *(text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") for text in pair))
            for pair in part
        ]
        rows = [RawPair(0, row.source, row.target.removesuffix("\r")) for row in rows]
        clean = clean_rows([RawPair(0, "A", "B"), *rows], options, Tally("", "f"), limited=limited)
        return [(row.source, row.target) for row in clean]

    undecoded = [sum("\udcff" in pair[0] + pair[1] for pair in part) for part in (train, valid, test)]
    if max(undecoded) > 1:  # of so few
        with pytest.raises(UserError, match="are not valid UTF-8"):
            read(train, valid, test, options)
        return
    held = [by_hand(valid, False), by_hand(test, False)]
    expected = by_hand(train, True)
    if (limit := options.max_ratio) and expected:
        ratio = float(np.median([len(target) / len(source) for source, target in expected]))
        expected = [pair for pair in expected if not is_unlikely(RawPair(0, *pair), ratio, limit)]
    if options.duplicates:
        expected = list(dict.fromkeys(expected))
    if options.overlap:
        known = [{pair[side] for part in held for pair in part} for side in (0, 1)]
        expected = [pair for pair in expected if pair[0] not in known[0] and pair[1] not in known[1]]
    if not expected:
        with pytest.raises(UserError):
            read(train, valid, test, options)
        return
    parts = read(train, valid, test, options).parts
    texts = {name: [(pair.source, pair.target) for pair in part] for name, part in parts.items()}
    assert texts == {"train": expected, "valid": held[0], "test": held[1]}


numbers_ = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


@given(numbers_)
def test_groups_are_what_hangs_together(pairs: list[tuple[int, int]]) -> None:
    labels = list(range(len(pairs)))  # the earliest pair that each is known to be connected with
    for _ in pairs:
        for a, b in itertools.product(range(len(pairs)), repeat=2):
            if pairs[a][0] == pairs[b][0] or pairs[a][1] == pairs[b][1]:
                labels[a] = min(labels[a], labels[b])
    ranks = {label: rank for rank, label in enumerate(sorted(set(labels)))}
    assert components_of([Pair(str(a), str(b)) for a, b in pairs]).tolist() == [ranks[label] for label in labels]


@given(
    st.lists(st.tuples(*[st.text("abA.!", max_size=3)] * 2), max_size=15),
    st.tuples(*[st.integers(0, 6)] * 2),
    st.integers(-3, 3),
)
def test_dealt_parts_share_nothing(pairs: list[tuple[str, str]], sizes: tuple[int, int], seed: int) -> None:
    dealt = hold_out_components(components_of([Pair(*pair) for pair in pairs]), sizes, seed).tolist()
    assert all(dealt.count(part) <= size for part, size in enumerate(sizes, 1))
    for side in (0, 1):
        part_of: dict[str, set[int]] = {}
        for pair, part in zip(pairs, dealt, strict=True):
            part_of.setdefault(loose(pair[side]), set()).add(part)
        assert all(len(parts) == 1 for parts in part_of.values())


crumbs = st.sampled_from(
    [b"a", b"\t", b"\n", b"\r", b",", b'"', b"{", b"}", b":", b"[", b"\xff", b"\xed\xa0\x80", b"\x00"]
)
junk = st.lists(crumbs | st.sampled_from([b'"source"', b'"target"', b"source,target\n", b"\\ud800"]), max_size=17)


@given(junk.map(b"".join) | st.binary(max_size=40), st.sampled_from(["tsv", "csv", "jsonl", "txt", "tsv.gz"]))
def test_whatever_is_in_a_file_is_read_counted_or_refused_in_a_line(content: bytes, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{ending}")
        path.write_bytes(content)
        tally, said = Tally("train", "f"), ""
        try:
            kept = list(clean_rows(PairFiles((path,)).records(), CleaningOptions(), tally, limited=True))
        except UserError as error:
            said = str(error)
        if said:
            assert len(said.splitlines()) == 1
            said.encode()  # can be printed
            return
        assert tally.read == len(kept) + tally.dropped.total()
        lines = len(content.removesuffix(b"\n").split(b"\n"))
        # In CSV the first record names the columns, and one may have several lines.
        assert tally.read <= lines if ending == "csv" else tally.read == lines
