"""Numbers have bounds that name themselves, and files of options hold nothing that an option cannot be."""

from pathlib import Path

import pytest
from small_runs import Cli

from selfattn.comparison.options import CompareOptions
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, option
from selfattn.registry import TASKS
from selfattn.runs.train import TrainOptions, train
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
def test_help_shows_every_bound(cli: Cli, command: tuple[str, ...]) -> None:
    shown = cli(*command, "--help-all").out
    assert shown.count("Range: ") >= len(set(NUMBERS[command]))


@pytest.mark.parametrize(("command", "name"), CASES, ids=str)
def test_a_number_of_300_digits_is_refused_by_name(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    out = () if command[0] == "predict" else ("--out", "new")
    digits = HUGE if name != "length_penalty" else "1" + HUGE
    refusal = cli(*command, *out, option(name), "1" + digits).refusal()
    assert option(name) in refusal
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rates", ["1e-3,inf", "1e-3,nan", "0,1e-3", "-1,1e-3", "1e-3", "1e-3,1e-3", ",", "", "a,b"])
def test_a_space_is_checked_before_the_first_trial(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rates: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--space" in cli("compare", "dates", "--quick", "--out", "new", f"--space=lr={rates}").refusal()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", "epochs: 1\n"),
        ("a.json", '{"epochs": 1}'),
        ("a.toml", "epochs = 1\nepochs = 2\n"),
        ("a.toml", "epochs = " + "[" * 100_000),
        ("a.toml", f"epochs = {HUGE}\n"),
        ("a.toml", "epochs = 2001-01-01\n"),
        ("a.toml", "[epochs]\nx = 1\n"),
        ("a.toml", "epochs = \x00\n"),
    ],
    ids=lambda value: value[:30],
)
def test_files_of_options_hold_options_alone(cli: Cli, tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    cli("train", "dates", "--out", tmp_path / "new", "--config", path).refusal()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("answer", ["1 / 0", "3", "raise_(self)"])
def test_an_error_of_a_plugin_that_cannot_be_printed(cli: Cli, tmp_path: Path, answer: str) -> None:
    path = tmp_path / "mute.py"
    path.write_text(f"class Mute(Exception):\n    def __str__(self):\n        return {answer}\n\nraise Mute\n")
    refusal = cli("--plugin", path, "models").refusal()
    assert "does not import (Mute: has a text that cannot be printed)" in refusal


@pytest.mark.parametrize("command", ["tokenizer train PAIRS --vocab-size 290 --out", "train dates --max-steps 1 --out"])
def test_a_link_that_leads_in_a_circle(cli: Cli, tmp_path: Path, command: str) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a dog {n}\tein Hund {n}\n" for n in range(200)))
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    line = command.replace("PAIRS", str(pairs)).split()
    assert f"{circle}: cannot be" in cli(*line, circle).refusal()


def test_half_a_character_in_a_path(cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="`out`: expected a path in UTF-8"):
        train("dates", out="new\ud800")
