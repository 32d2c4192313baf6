"""Numbers have bounds that name themselves, and files of options hold nothing that an option cannot be."""

import pytest

from selfattn.comparison.options import CompareOptions
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import option
from selfattn.registry import TASKS
from selfattn.runs.train import TrainOptions
from selfattn.settings import bounds_of
from selfattn.training.config import TrainingConfig

HUGE = "9" * 300
NUMBERS = {
    ("train", "dates"): [*bounds_of(TrainOptions), *bounds_of(TrainingConfig)],
    ("compare", "dates"): list(bounds_of(CompareOptions)),
    ("train", "translation"): list(bounds_of(TASKS["translation"].Options)),
    ("predict", "no-run"): list(bounds_of(DecodingOptions)),
}
CASES = [(command, name) for command, names in NUMBERS.items() for name in sorted(set(names))]


@pytest.mark.parametrize("command", NUMBERS, ids=" ".join)
def test_help_shows_every_bound(cli, command):
    shown = cli(*command, "--help-all").out
    assert shown.count("Range: ") >= len(set(NUMBERS[command]))


@pytest.mark.parametrize(("command", "name"), CASES, ids=str)
def test_a_number_of_300_digits_is_refused_by_name(cli, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    out = () if command[0] == "predict" else ("--out", "new")
    digits = HUGE if name != "length_penalty" else "1" + HUGE
    refusal = cli(*command, *out, option(name), "1" + digits).refusal()
    assert option(name) in refusal
    assert not list(tmp_path.iterdir())
