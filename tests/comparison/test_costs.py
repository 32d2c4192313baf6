"""What models take in time: all by turns, and a step with everything that a training does in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from selfattn.comparison import costs
from selfattn.comparison.costs import by_turns, step_seconds
from selfattn.data.batches import Batch
from selfattn.data.pairs import Example
from selfattn.models.families import PRESETS
from selfattn.training.config import TrainingConfig
from selfattn.training.step import Stepper
from selfattn.training.weights import ExponentialAverage


def test_all_are_asked_in_every_turn_and_the_first_turns_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_WARM_UP", 2)
    asked: list[tuple[str, int]] = []

    def ask(name: str, turn: int) -> None:
        asked.append((name, turn))

    taken = by_turns({name: partial(ask, name) for name in "ab"}, 3)
    assert asked == [(name, turn) for turn in (-2, -1, 0, 1, 2) for name in "ab"]
    assert min(taken.values()) >= 0


def test_a_timed_step_is_one_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many batches as are accumulated, with the average of the weights, halfway through the schedule."""
    steps: list[tuple[int, float, TrainingConfig]] = []
    averaged: list[int] = []
    take = costs.take_steps

    def spy(stepper: Stepper, groups: Iterable[Sequence[Batch]], *, first: int, total_steps: int, **more: Any) -> Any:
        def counted() -> Iterator[Sequence[Batch]]:
            for group in groups:
                steps.append((len(group), first / total_steps, stepper.config))
                yield group

        return take(stepper, counted(), first=first, total_steps=total_steps, **more)

    monkeypatch.setattr(costs, "take_steps", spy)
    monkeypatch.setattr(ExponentialAverage, "stepped", lambda self: averaged.append(1))
    training = TrainingConfig(accumulate=3, clip_norm=0.5, average="ema", warmup_steps=5000, lr=1e9, r_drop=0.5)
    training = replace(training, precision="bfloat16", batch_size=2)
    data = SimpleNamespace(tokenizer=range(11), validation=[Example([1] * 3, [1] * 5)])
    options = SimpleNamespace(device="auto")
    trainings: Any = SimpleNamespace(recipe=training, first_seed=0, options=options, data=lambda _: (data,))
    before, config = torch.get_rng_state(), PRESETS["transformer"].config
    seconds = step_seconds({"a": (config, training), "b": (config, training)}, trainings)
    assert min(seconds.values()) > 0
    assert {(count, share) for count, share, _ in steps} == {(3, 0.5)}
    assert all(same == replace(training, lr=same.lr) for _, _, same in steps)
    assert len(steps) == len(averaged) == 2 * (costs._STEPS + costs._WARM_UP)
    assert torch.equal(before, torch.get_rng_state())


def test_a_comparison_computes_where_it_is_told_to(cli: Any, tmp_path: Path) -> None:
    done = cli("compare", "dates", "--device", "cuda", "--quick", "--out", tmp_path / "out", "--plan-only")
    if not torch.cuda.is_available():
        assert (done.code, done.err) == (2, "error: --device cuda: torch sees no CUDA device; take cpu\n")
