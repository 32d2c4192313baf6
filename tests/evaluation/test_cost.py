"""Cost: what is measured is what is said to be measured. No time is held against a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from selfattn.decoding.beam import beam_search
from selfattn.errors import UserError
from selfattn.evaluation.cost import decoding as cost
from selfattn.evaluation.cost.decoding import NO_END, decoding_times, disk_size, peak_memory
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import Seq2Seq
from selfattn.results.cost import DecodingCost

VOCAB = 11


@pytest.fixture
def model() -> Seq2Seq:
    return build(PRESETS["rnn-attention"].config, vocab_size=VOCAB, pad_id=0, seed=0)


def test_times_are_taken_of_the_lengths_asked_for(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which the first token takes 5 seconds and every further one 2."""
    calls: list[tuple[tuple[int, ...], int]] = []
    now = 0.0

    def decode(_: Seq2Seq, source: torch.Tensor, source_mask: torch.Tensor, length: int) -> None:
        nonlocal now
        assert source_mask.all()
        calls.append((tuple(source.shape), length))
        now += 5 + 2 * (length - 1)

    monkeypatch.setattr(cost.time, "perf_counter", lambda: now)
    found = decoding_times(
        model, vocab_size=VOCAB, source_length=7, target_lengths=[1, 4], batch=3, decode=decode, repeats=2
    )
    assert found == [
        DecodingCost("greedy", 3, 1, first_ms=5000, token_ms=0),
        DecodingCost("greedy", 3, 4, first_ms=5000, token_ms=2000),
    ]
    assert [length for _, length in calls] == [1, 1, 1, 1, 1, 1, 4, 1, 4]  # one to warm up
    assert {shape for shape, _ in calls} == {(3, 7)}


def test_greedy_and_beam_search_are_timed_to_full_length(model: Seq2Seq) -> None:
    steps: list[int] = []
    real = model.step

    def counted(token: torch.Tensor, state: Any) -> Any:
        steps.append(len(token))
        return real(token, state)

    model.step = counted  # type: ignore[method-assign]  # counts its calls
    for beam in (None, 4):
        steps.clear()

        def decode(model: Seq2Seq, source: torch.Tensor, mask: torch.Tensor, length: int) -> object:
            return beam_search(model, source, mask, bos_id=1, eos_id=NO_END, max_length=length, beam_size=4)

        settings = {} if beam is None else {"decode": decode}
        (found,) = decoding_times(
            model, vocab_size=VOCAB, source_length=5, target_lengths=[6], batch=2, repeats=1, warm_up=0, **settings
        )
        assert len(steps) == 1 + 6
        assert max(steps) == 2 * (beam or 1)
        assert found.length == 6
        assert found.first_ms > 0


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"batch": 0}, {"target_lengths": [0]}, {"warm_up": -1}])
def test_nonsense_is_refused(model: Seq2Seq, wrong: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"vocab_size": VOCAB, "source_length": 5, "target_lengths": [2]} | wrong
    with pytest.raises(ValueError, match="decoding_times: expected"):
        decoding_times(model, **settings)
    with pytest.raises(ValueError, match="decoding_times: expected"):
        decoding_times(model, **(settings | {"target_lengths": []}))


def test_memory_by_hand() -> None:
    """Float32 takes four bytes: two tensors of 1,000 at once, then one of 1,500 after both are gone."""

    def run() -> None:
        a = torch.ones(1000)
        b = a * 2
        del a, b
        torch.ones(1500)

    assert peak_memory(run) == 8000


def test_views_and_what_is_done_in_place_take_nothing() -> None:
    given = torch.ones(13, 17)

    def run() -> None:
        given.t().reshape(17, 13)[2:5].add_(1)
        given.mul_(2)

    assert peak_memory(run) == 0


def test_what_was_there_before_does_not_count() -> None:
    before = torch.ones(10_000)
    assert peak_memory(lambda: before + 1) == 40_000


def test_training_holds_what_the_gradients_need(model: Seq2Seq) -> None:
    source, target = torch.full((5, 7), 3), torch.full((5, 3), 4)

    def train(rows: slice) -> None:
        model(source[rows], target[rows], source_mask=source[rows] > 0).sum().backward()

    def read() -> None:
        with torch.no_grad():
            model(source, target, source_mask=source > 0)

    def infer() -> None:
        with torch.inference_mode():
            model(source, target, source_mask=source > 0)

    train(slice(0, 5))  # from here on there are gradients to add to
    training, one_row = peak_memory(lambda: train(slice(0, 5))), peak_memory(lambda: train(slice(0, 1)))
    assert training > one_row
    assert training > peak_memory(read) > 0
    assert peak_memory(infer) == peak_memory(read)


def test_the_size_on_disk_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "model.safetensors").write_bytes(bytes(101))
    (tmp_path / "tokenizer" / "char.json").write_bytes(bytes(7))
    assert disk_size(tmp_path) == 108
    with pytest.raises(UserError, match="no such directory"):
        disk_size(tmp_path / "none")
