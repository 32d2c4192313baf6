"""An option that has no effect beside the others is refused, and not recorded."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfattn.cli import decoding as commands
from selfattn.comparison.compare import compare
from selfattn.comparison.options import CompareOptions
from selfattn.errors import UserError
from selfattn.runs.train import TrainOptions, train
from selfattn.settings import check_conditions, excludes, needs
from selfattn.tasks.dates import DateOptions
from selfattn.tasks.lm import TextOptions
from selfattn.tasks.translation import TranslationOptions, TranslationTests
from selfattn.training.config import TrainingConfig

Cli = Callable[..., Any]
KINDS = (TrainOptions, TrainingConfig, CompareOptions, DateOptions, TextOptions, TranslationOptions, TranslationTests)


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_name_options(kind: Any) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert kind.conditions
    for condition in kind.conditions:
        assert names >= set(condition.names)


def test_conditions_of_a_command_name_its_options() -> None:
    assert {name for condition in commands._ALIGN for name in condition.names} <= set(commands.align.__annotations__)


def test_a_condition_holds_or_names_the_option() -> None:
    conditions = [needs("`a`", lambda given: given.a, "b"), excludes("`c`", lambda given: given.c, "d", "e")]
    check_conditions(["b", "e"], SimpleNamespace(a=1, c=0), conditions)
    check_conditions([], SimpleNamespace(a=0, c=1), conditions)
    for name, reason in (("b", "goes with `a`: give that as well"), ("e", "has no effect beside `c`: leave one")):
        with pytest.raises(UserError, match=f"^`{name}` {reason}"):
            check_conditions([name], SimpleNamespace(a=0, c=1), conditions)


WITHOUT_EFFECT: list[tuple[dict[str, Any], str]] = [
    ({"ema_decay": 0.9}, "`ema_decay` goes with `average` ema"),
    ({"average": "last", "ema_decay": 0.9}, "`ema_decay` goes with `average` ema"),
    ({"average_last": 3}, "`average_last` goes with `average` last"),
    ({"epochs": 3, "max_steps": 9}, "`epochs` has no effect beside `max_steps`"),
    ({"warmup": 0.2, "warmup_steps": 9}, "`warmup` has no effect beside `warmup_steps`"),
]


@pytest.mark.parametrize(("settings", "message"), WITHOUT_EFFECT)
def test_settings_of_a_training_without_an_effect(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        train("dates", out=tmp_path / "run", quick=True, **settings)
    with pytest.raises(UserError, match=message):
        compare("dates", out=tmp_path / "out", quick=True, items_per_epoch=800, **settings)
    assert not list(tmp_path.iterdir())
