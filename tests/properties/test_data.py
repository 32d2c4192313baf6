import json
import tempfile
from collections import Counter
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from selfattn.data.batches import Batch, batches, collate
from selfattn.data.dates.patterns import date_patterns
from selfattn.data.dates.source import DateSource, split_of
from selfattn.data.pairs import Example, Pair
from selfattn.data.readers import read_pairs
from selfattn.tokenizers.char import CharTokenizer

PAD, BOS = 0, 1
quick = settings(deadline=None, max_examples=60)

ids = st.lists(st.integers(0, 40), min_size=1, max_size=23)
examples_ = st.lists(st.builds(Example, ids, ids), max_size=41)
bounds = st.tuples(st.none() | st.integers(1, 11), st.none() | st.integers(1, 150)).filter(any)


def uncollate(batch: Batch) -> list[Example]:
    rows = zip(batch.source, batch.source_mask, batch.target_out, batch.target_mask, strict=True)
    return [Example(s[sm].tolist(), t[tm].tolist()) for s, sm, t, tm in rows]


@quick
@given(examples_.filter(bool), st.integers(0, 3), st.integers(0, 3))
def test_collate_loses_nothing(examples: list[Example], pad_id: int, bos_id: int) -> None:
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
def test_an_epoch_has_every_example_once_within_the_bounds(
    examples: list[Example], bound: tuple[int | None, int | None], seed: int | None
) -> None:
    batch_size, max_tokens = bound

    def epoch() -> list[Batch]:
        return list(
            batches(
                examples,
                batch_size=batch_size,
                max_tokens=max_tokens,
                generator=None if seed is None else torch.Generator().manual_seed(seed),
            )
        )

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


@quick
@given(st.lists(st.text()), st.text())
def test_characters_come_back(texts: list[str], text: str) -> None:
    tokenizer = CharTokenizer.train([*texts, text])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknown(text, *texts) == {}
    assert len(tokenizer) == 4 + len(set("".join([*texts, text])))


@quick
@given(st.text(), st.text())
def test_unknown_characters_are_counted(known: str, text: str) -> None:
    tokenizer = CharTokenizer(known)
    expected = Counter(character for character in text if character not in known)
    assert tokenizer.unknown(text) == expected
    assert tokenizer.encode(text).count(tokenizer.unk_id) == expected.total()
    assert len(tokenizer.decode(tokenizer.encode(text))) == len(text)


# A file full of NUL is taken for UTF-16.
sides = st.text(st.characters(exclude_characters="\0\t\n\r", exclude_categories=("Cs",)), min_size=1).filter(str.strip)


@quick
@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=7), st.sampled_from(["tsv", "jsonl"]))
def test_files_come_back(rows: list[tuple[str, str]], suffix: str) -> None:
    assume(not rows[0][0].startswith("\ufeff"))  # a byte order mark in front of a file is not part of the text
    if suffix == "tsv":
        text = "".join(f"{source}\t{target}\n" for source, target in rows)
    else:
        text = "".join(json.dumps({"source": s, "target": t}, ensure_ascii=False) + "\n" for s, t in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"pairs.{suffix}")
        path.write_bytes(text.encode())
        assert read_pairs(path) == [Pair(normalize("NFC", source), normalize("NFC", target)) for source, target in rows]


@cache
def source_of(split: str) -> DateSource:
    return DateSource(("en_US", "en_GB", "ko_KR", "tr_TR", "ar_EG"), split=split)  # type: ignore[arg-type]  # a str that is drawn


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(["train", "valid", "test"]), st.integers(0, 10**15))
def test_every_pair_stands_for_its_day(split: str, index: int) -> None:
    source = source_of(split)
    (pair,) = source.pairs(1, index)
    day = date.fromisoformat(pair.target)
    assert split_of(day) == split
    locale, _, name = pair.tag.partition(" ")
    tag = f"[{locale}] "
    text = pair.source.removeprefix(tag)
    assert any(pattern.read(text) == {day} for pattern in date_patterns(locale)[name])
    assert pair.source.startswith(tag) == (len(source.readings(text)) > 1)
    spans = sorted(span.source for span in pair.spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert spans[0][0] >= (len(tag) if text != pair.source else 0)
    assert spans[-1][1] <= len(pair.source)
