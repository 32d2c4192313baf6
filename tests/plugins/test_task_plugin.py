"""A task as a plugin: its splits and its options."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from third_party import isolated_registries

from selfattn.data.splits import Splits
from selfattn.errors import SettingError, UserError
from selfattn.plugin_loading import load_plugin
from selfattn.registry import TASKS


@pytest.fixture
def reversal() -> Iterator[Any]:
    with isolated_registries():
        load_plugin(str(Path(__file__).with_name("reversal_task.py")))
        yield TASKS["reversal"]


def test_its_parts_share_no_word_and_never_change(reversal: Any) -> None:
    splits: Splits = reversal(longest=4).splits(seed=3)
    train, valid, test = splits.train(0, 500), splits.validation(40), splits.test(40)
    sources = [{pair.source for pair in part} for part in (train, valid, test)]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert len(sources[1]) == len(sources[2]) == 40
    assert all(pair.target == pair.source[::-1] for pair in (*train, *valid, *test))
    again = reversal(longest=4).splits(seed=4)
    assert (again.test(40), again.validation(40)) == (test, valid)
    assert again.train(0, 500) != train
    assert splits.train(1, 500) != train
    few = reversal(letters="ab").splits(0).test(1_000)  # there are no more
    assert 1 <= len(few) == len({pair.source for pair in few}) < 100
    with pytest.raises(UserError, match="of 20,000 pairs none falls into this part"):
        reversal(letters="a", longest=3).splits(0).test(1)


def test_its_options_are_checked(reversal: Any) -> None:
    with pytest.raises(SettingError, match="`longest`: expected at least 3 letters, got 1"):
        reversal(longest=1)
    with pytest.raises(SettingError, match="`shorted`: there is no such setting here; did you mean `shortest`"):
        reversal(shorted=1)
