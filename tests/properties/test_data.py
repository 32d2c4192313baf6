"""Laws of data: batches, tokens, files, dates, phrases; corpora are kept or counted, and their parts share nothing."""

import itertools
import json
import tempfile
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from unicodedata import is_normalized

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfattn.data.batches import batches, collate
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
from selfattn.data.dates.patterns import date_patterns
from selfattn.data.dates.source import DateSource, readers_of, split_of
from selfattn.data.pairs import Example, Pair, clean_text
from selfattn.data.phrases import LONGEST, CldrSource, part_of
from selfattn.data.readers.pairs import PairFiles, read_pairs
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.errors import UserError
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

PAD, BOS = 0, 1
quick = settings(deadline=None, max_examples=30)

ids = st.lists(st.integers(0, 40), min_size=1, max_size=23)
examples_ = st.lists(st.builds(Example, ids, ids), max_size=41)
bounds = st.tuples(st.none() | st.integers(1, 11), st.none() | st.integers(1, 150)).filter(any)


def uncollate(batch):
    rows = zip(batch.source, batch.source_mask, batch.target_out, batch.target_mask, strict=True)
    return [Example(s[sm].tolist(), t[tm].tolist()) for s, sm, t, tm in rows]


@quick
@given(examples_.filter(bool), st.integers(0, 3), st.integers(0, 3))
def test_collate_loses_nothing(examples, pad_id, bos_id):
    batch = collate(examples, pad_id, bos_id, range(len(examples)))
    assert uncollate(batch) == examples
    for mask, name in ((batch.source_mask, "source"), (batch.target_mask, "target")):
        assert mask.sum(1).tolist() == [len(getattr(example, name)) for example in examples]
        assert mask.shape[1] == max(len(getattr(example, name)) for example in examples)
        assert not (mask[:, 1:] & ~mask[:, :-1]).any()  # padding is on the right
    assert (batch.source[~batch.source_mask] == pad_id).all()
    assert (batch.target_in[~batch.target_mask] == pad_id).all()
    assert (batch.target_in[:, 0] == bos_id).all()
    both = batch.target_mask[:, 1:]
    assert batch.target_in[:, 1:][both].tolist() == batch.target_out[:, :-1][both].tolist()


@quick
@given(examples_, bounds, st.none() | st.integers(0, 2**32))
def test_an_epoch_has_every_example_once_within_the_bounds(examples, bound, seed):
    batch_size, max_tokens = bound

    def epoch():
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        return list(batches(examples, batch_size=batch_size, max_tokens=max_tokens, generator=generator))

    dealt = epoch()
    order = [index for batch in dealt for index in batch.indices]
    assert sorted(order) == list(range(len(examples)))
    if seed is None:
        assert order == sorted(order)
    for batch in dealt:
        assert uncollate(batch) == [examples[index] for index in batch.indices]
        if batch_size is not None:
            assert len(batch.indices) <= batch_size
        if max_tokens is not None and len(batch.indices) > 1:
            assert batch.source.numel() + batch.target_out.numel() <= max_tokens
    assert [batch.indices for batch in epoch()] == [batch.indices for batch in dealt]


# A file full of NUL is taken for UTF-16.
characters = st.characters(exclude_characters="\0\t\n\r", exclude_categories=("Cs",))
sides = st.text(characters, min_size=1, max_size=8).filter(clean_text)


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=5), st.sampled_from(["tsv", "jsonl"]))
def test_files_come_back(rows, suffix):
    rows = [("Yes, I do.", "Ja."), *rows]  # neither a heading nor behind a byte order mark
    if suffix == "tsv":
        text = "".join(f"{source}\t{target}\n" for source, target in rows)
    else:
        text = "".join(json.dumps({"source": s, "target": t}, ensure_ascii=False) + "\n" for s, t in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"pairs.{suffix}")
        path.write_bytes(text.encode())
        assert read_pairs(path) == [Pair(clean_text(source), clean_text(target)) for source, target in rows]


LOCALES = ("en_US", "en_GB", "ko_KR", "tr_TR", "ar_EG")


@cache
def source_of(split):
    return DateSource(LOCALES, split=split)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["train", "valid", "test"]), st.integers(0, 10**15))
def test_every_pair_stands_for_its_day(split, index):
    (pair,) = source_of(split).pairs(1, index)
    day = date.fromisoformat(pair.target)
    assert split_of(day) == split
    locale, _, name = pair.tag.partition(" ")
    tag = f"[{locale}] "
    text = pair.source.removeprefix(tag)
    assert any(pattern.read(text) == {day} for pattern in date_patterns(locale)[name])
    assert pair.source.startswith(tag) == (len(readers_of(LOCALES).read(text)) > 1)
    spans = sorted(span.source for span in pair.spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert spans[0][0] >= (len(tag) if text != pair.source else 0)
    assert spans[-1][1] <= len(pair.source)


LANGUAGES = ["en ko", "ko en", "de en", "fr ja", "en ar", "ru pl", "he hi", "zh en", "en en"]
SPLITS = ("train", "valid", "test")


@cache
def phrases_of(languages, split):
    source, target = languages.split()
    return CldrSource(source, target, split=split)


@pytest.mark.parametrize("languages", LANGUAGES)
def test_no_text_is_in_two_parts_and_a_source_has_one_target(languages):
    """Whatever the seed is."""
    source, target = languages.split()
    parts = [phrases_of(languages, split).pairs(150 if split == "train" else 40) for split in SPLITS]
    parts[0] += CldrSource(source, target, seed=1).pairs(60)
    parts[2] += CldrSource(source, target, seed=3, split="test").pairs(40)
    for side in ("source", "target"):
        texts = [{getattr(pair, side) for pair in part} for part in parts]
        assert len(set.union(*texts)) == sum(map(len, texts))
    known = {}
    for pair in (pair for part in parts for pair in part):
        assert known.setdefault(pair.source, pair.target) == pair.target


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(LANGUAGES), st.sampled_from(SPLITS), st.integers(0, 10**15))
def test_every_pair_is_proper(languages, split, index):
    source = phrases_of(languages, split)
    (pair,) = source.pairs(1, index)
    assert source.pairs(1, index) == [pair]
    assert pair.tag in source.kinds
    assert split in ("train", part_of(pair.target))
    for text in (pair.source, pair.target):
        assert 0 < len(text) <= LONGEST
        assert text == text.strip()
        assert is_normalized("NFC", text)
        assert not any(character.isspace() and character != " " for character in text)
        assert not set(text) & set("{}¤")
    assert pair.spans
    for span in pair.spans:
        for text, (start, end) in ((pair.source, span.source), (pair.target, span.target)):
            assert 0 <= start < end <= len(text)
            assert text[start:end] == text[start:end].strip()


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(["en ko", "ko en", "en en", "en zh", "ja ko"]), st.integers(0, 10**15))
def test_numbers_are_aligned_with_themselves(languages, index):
    (pair,) = phrases_of(languages, "train").pairs(1, index)
    for span in pair.spans:
        source, target = pair.source[slice(*span.source)], pair.target[slice(*span.target)]
        if languages == "en en" and span.field not in ("unit", "month"):  # these stand in two places now and then
            assert source == target
        if span.field == "number":
            assert source == target
        if span.field in ("year", "day") and source.isascii() and target.isascii():
            assert int(source) == int(target)
        if span.field in ("minute", "second"):
            assert int(source) == int(target)


# subwords: the text comes back, the ranges cover it, samples say the same

TEXTS = ["the lowest tower", "the  newer\nflower", " a new low", "오늘은 11월 13일", "العربية", "ᄀ\u1161ᆨ"] * 7

# All of Unicode, and the characters at which something could go wrong more often than chance brings them.
SPECIAL = st.sampled_from([*" \n\0▁▅\u0301\u200d\u202e", "<unk>", "<0xE3>", "the ", "오늘", "new"])
TEXT = st.lists(st.text(max_size=6) | SPECIAL, max_size=8).map("".join)

KINDS = ["unigram", "bpe"]


@cache
def trained(kind, byte_fallback=True):
    return SubwordTokenizer.train(TEXTS, SubwordSettings(kind, byte_fallback=byte_fallback), clip=True)


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT, seed=st.integers(0, 2**63), alpha=st.floats(0, 1))
def test_every_text_comes_back_however_it_is_cut(kind, text, seed, alpha):
    tokenizer = trained(kind)
    ids, sampled = tokenizer.encode(text), tokenizer.sample(text, seed, alpha)
    assert tokenizer.decode(ids) == tokenizer.decode(sampled) == text
    assert not {*ids, *sampled} & set(range(4))
    assert sampled == tokenizer.sample(text, seed, alpha)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [True, False])
@given(text=TEXT)
def test_ranges_cover_the_text_in_order(kind, byte_fallback, text):
    tokenizer = trained(kind, byte_fallback)
    ids, spans = tokenizer.encode(text), tokenizer.spans(text)
    assert len(spans) == len(ids)
    assert spans == sorted(spans)
    reached = 0
    for place, (number, (start, end)) in enumerate(zip(ids, spans, strict=True)):
        assert start == reached or (start, end) == spans[place - 1], "a gap, or an overlap of different ranges"
        reached = end
        if number >= 4 + 256 * byte_fallback:  # a piece says what it stands for
            assert tokenizer.decode([number]) == text[start:end].removeprefix(" ")
    assert reached == len(text)


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
def test_rows_are_kept_in_order_or_counted(rows, options, limited):
    rows = [row._replace(line=number) for number, row in enumerate(rows)]
    tally = Tally("train", "f")
    kept = list(clean_rows(rows, options, tally, limited=limited))
    assert tally.read == sum(row.lines if isinstance(row, BadRecord) else 1 for row in rows)
    assert tally.read == len(kept) + tally.dropped.total()
    lines = [row.line for row in kept]
    assert lines == sorted(lines)
    again = clean_rows(kept, options, Tally("train", "f"), limited=limited)
    assert list(again) == kept


def read(train, valid, test, options):
    """Read pairs as files of their own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, part in (("train", train), ("valid", valid), ("test", test)):
            paths.append(Path(folder, name + ".tsv"))
            lines = "".join(f"{source}\t{target}\n" for source, target in [("A", "B"), *part])
            paths[-1].write_bytes(lines.encode("utf-8", "surrogateescape"))
        return read_corpus({path.stem: PairFiles((path,)) for path in paths}, ("en", "de"), cleaning=options)


LONE = {*map(chr, range(0xD800, 0xE000))} - {*map(chr, range(0xDC80, 0xDD00))}  # surrogates that stand for no byte
fields = texts.map(lambda text: text.replace("\t", "").replace("\n", "")).filter(LONE.isdisjoint)
parts_ = st.lists(st.tuples(fields, fields), max_size=7)


@settings(max_examples=40)
@given(parts_, parts_, parts_, options_)
def test_a_corpus_is_what_one_gets_by_hand(train, valid, test, options):
    def from_file(text):
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")

    def by_hand(part, limited):
        rows = [RawPair(0, from_file(source), from_file(target).removesuffix("\r")) for source, target in part]
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
def test_groups_are_what_hangs_together(pairs):
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
def test_dealt_parts_share_nothing(pairs, sizes, seed):
    dealt = hold_out_components(components_of([Pair(*pair) for pair in pairs]), sizes, seed).tolist()
    assert all(dealt.count(part) <= size for part, size in enumerate(sizes, 1))
    for side in (0, 1):
        part_of = {}
        for pair, part in zip(pairs, dealt, strict=True):
            part_of.setdefault(loose([pair[side]])[0], set()).add(part)
        assert all(len(parts) == 1 for parts in part_of.values())


crumbs = [b"a", b"\t", b"\n", b"\r", b",", b'"', b"{", b"}", b":", b"[", b"\xff", b"\xed\xa0\x80", b"\x00"]
crumbs += [b'"source"', b'"target"', b"source,target\n", b"\\ud800"]
junk = st.lists(st.sampled_from(crumbs), max_size=17)


@given(junk.map(b"".join) | st.binary(max_size=40), st.sampled_from(["tsv", "csv", "jsonl", "txt", "tsv.gz"]))
def test_whatever_is_in_a_file_is_read_counted_or_refused_in_a_line(content, ending):
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
