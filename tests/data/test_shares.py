"""What each of several processes reads and encodes: together all pairs once, and nothing that is another's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from selfattn.data.examples import Example, encode_pairs, sample_pairs
from selfattn.data.pairs import DrawnPairs, Pair, share_of
from selfattn.errors import UserError
from selfattn.tasks.dates import Dates
from selfattn.tasks.lm import LanguageModel
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.tokenizers.subword_training import SubwordSettings
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed import share
from selfattn.training.distributed.processes import Processes
from selfattn.training.loop import cut_epoch

COUNTS = (1, 2, 3, 7)


def interleaved(shares: Sequence[Sequence[Any]]) -> list[Any]:
    """What shares are of; written anew here."""
    return [one[row] for row in range(max(map(len, shares))) for one in shares if row < len(one)]


class Together(Processes):
    """Processes that are threads of this one."""

    def __init__(self, rank: int, count: int, meeting: threading.Barrier, given: list[Any]) -> None:
        super().__init__(rank, count)
        self.meeting, self.given = meeting, given

    def gather(self, value: Any) -> list[Any]:
        self.given[self.rank] = value
        self.meeting.wait(60)
        found = [*self.given]
        self.meeting.wait(60)
        return found


def cut(examples: Any, processes: Processes, **config: Any) -> list[list[int]]:
    special = {"pad_id": 0, "bos_id": 1, "processes": processes}
    groups, _ = cut_epoch(examples, TrainingConfig(**config), **special, generator=torch.Generator().manual_seed(0))
    return [[*batch.indices, *batch.source.flatten().tolist()] for group in groups for batch in group]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("items", [0, 1, 5, 2503])
def test_shares_are_the_pairs_without_repeats(count: int, items: int) -> None:
    made: list[int] = []

    def make(index: int) -> Pair:
        made.append(index)
        return Pair(str(index), "")

    pairs = DrawnPairs(make, range(items))
    for given in (pairs, [*pairs]):
        shares = [list(share_of(given, Processes(rank, count).share)) for rank in range(count)]
        assert interleaved(shares) == [Pair(str(index), "") for index in range(items)]
    made.clear()
    own = list(share_of(pairs, Processes(count - 1, count).share))
    assert made == list(range(items))[count - 1 :: count], "a pair was made that is another process's"
    assert own == list(share_of(iter([*pairs]), Processes(count - 1, count).share))


@pytest.mark.parametrize("count", COUNTS)
def test_a_sampled_pair_is_cut_alike_in_every_share(count: int) -> None:
    pairs = [Pair("abcabcabc" + "ab" * (n % 5), "cba" * (1 + n % 4)) for n in range(23)]
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    tokenizer = SubwordTokenizer.train(texts, SubwordSettings("bpe", 275))
    whole = list(sample_pairs(pairs, tokenizer, seed=3, epoch=1, alpha=0.5))
    assert whole != encode_pairs(pairs, tokenizer)
    for rank in range(count):
        own = sample_pairs(pairs[rank::count], tokenizer, seed=3, epoch=1, alpha=0.5, first=rank, step=count)
        assert list(own) == whole[rank::count]


@pytest.mark.parametrize("items", [None, 30])
def test_shares_of_a_training_set(tmp_path: Path, items: int | None) -> None:
    (tmp_path / "dates.tsv").write_text("".join(f"{n} May\t{n:03d}\n" for n in range(120)), encoding="utf-8")
    (tmp_path / "text.txt").write_text("".join(f"line {n} " * (1 + n % 9) + "\n" for n in range(50)), encoding="utf-8")
    config = TrainingConfig(validation_items=5, items_per_epoch=items)
    tasks = [Dates(data=(tmp_path / "dates.tsv",)), LanguageModel(data=tmp_path / "text.txt", context=16)]
    for task in [*tasks, Dates()] if items else tasks:
        data = task.training_set(config)
        for number in (0, 1):
            whole = list(data.epoch(number))
            assert len(whole) == (items or len(whole)) > 20
            shares = [list(data.epoch(number, Processes(rank, 3).share)) for rank in range(3)]
            assert interleaved(shares) == whole


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("count", COUNTS[1:])
def test_all_processes_get_the_batches_of_one(count: int, is_stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "AHEAD", 10)
    whole = [Example([*range(4, 5 + n % 6), 2], [4 + n % 3, 2]) for n in range(53)]
    config = {"batch_size": 4, "max_tokens": 30, "accumulate": 2}
    meeting, given = threading.Barrier(count), [None] * count
    found: dict[int, list[list[int]]] = {}

    def go_through(rank: int) -> None:
        processes = Together(rank, count, meeting, given)
        own = whole[processes.share]
        found[rank] = cut(iter(own) if is_stream else own, processes, **config)

    threads = [threading.Thread(target=go_through, args=(rank,)) for rank in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    alone = cut(iter(whole) if is_stream else whole, Processes(), **config)
    assert len(alone) > 13
    assert [found[rank] for rank in range(count)] == [alone] * count


def test_shares_of_other_data_are_refused() -> None:
    class Other(Processes):
        def gather(self, value: Any) -> list[Any]:
            return [value, [*value, 1, 2]]

    with pytest.raises(UserError, match="torchrun: the processes differ in settings or data; start all of them"):
        Other(0, 2).joined([1, 2, 3])
