"""Units of claims: learning rates whose grids widen, what is measured again, and when; times on one core."""

from __future__ import annotations

import json
import math
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from counted_claim import Counted, page_texts

from selfattn.claims import units
from selfattn.claims.claim import Arm, Claim
from selfattn.claims.run import run_claims
from selfattn.claims.units import Work, measuring_code, pinned
from selfattn.errors import UserError
from selfattn.registry import CLAIMS
from selfattn.results.claims import Trial

# learning rates


def tried(counted: Counted) -> list[float | None]:
    return [rate for seed, rate in counted.made if seed == 900]


@pytest.mark.parametrize(
    ("best", "rates", "chosen_rate", "at_edge"),
    [
        (0.2, [0.1, 0.2, 0.4], 0.2, False),
        (1.0, [0.1, 0.2, 0.4, 0.8, 1.6], 0.8, False),
        (0.02, [0.1, 0.2, 0.4, 0.05, 0.025, 0.0125], 0.025, False),
        (99.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4], 6.4, True),
        (1e-9, [0.1, 0.2, 0.4, 0.05, 0.025, 0.0125, 0.00625], 0.00625, True),
    ],
)
def test_a_grid_widens_while_its_best_rate_is_at_its_edge(
    best: float, rates: list[float], chosen_rate: float, at_edge: bool, counted: Counted, tmp_path: Path
) -> None:
    counted.best = best
    (result,) = run_claims([counted], tmp_path, jobs=1).claims
    assert tried(counted) == rates
    assert [trial.rate for trial in result.tuning] == rates
    (rate,) = result.rates
    assert (rate.chosen, list(rate.tried), rate.at_edge, rate.failed) == (chosen_rate, rates, at_edge, ())
    assert {trial.rate for trial in result.trials} == {chosen_rate}


def test_a_grid_goes_on_by_the_ratio_of_its_last_two_rates(counted: Counted, tmp_path: Path) -> None:
    counted.best, counted.grid = 0.1, (1e-3, 3e-3, 1e-2)
    run_claims([counted], tmp_path, jobs=1)
    assert tried(counted) == [0.001, 0.003, 0.01, 0.0333, 0.111, 0.37]


def test_one_rate_alone_is_taken_as_it_is(counted: Counted, tmp_path: Path) -> None:
    counted.grid = (0.4,)
    (result,) = run_claims([counted], tmp_path, jobs=1).claims
    assert counted.made == [(seed, 0.4) for seed in range(5)]
    assert (result.rates[0].tried, result.rates[0].at_edge) == ((0.4,), False)


def test_a_rate_whose_training_fails_is_the_worst_and_not_the_end(
    counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted.best, counted.too_high = 99.0, 0.5
    record = run_claims([counted], tmp_path, jobs=1)
    (result,) = record.claims
    assert tried(counted) == [0.1, 0.2, 0.4, 0.8]
    assert (result.rates[0].chosen, result.rates[0].at_edge) == (0.4, False)
    assert result.rates[0].failed == ("0.8: diverged",)
    assert result.failed == ()
    assert result.judgement is not None
    assert "counted/a-seed900-lr0.8: failed: diverged" in capsys.readouterr().err
    assert "Trainings with these rates failed, which counts as worst: x: 0.8: diverged." in page_texts(record)


def test_an_arm_all_of_whose_rates_fail_ends_the_claim_without_a_verdict(counted: Counted, tmp_path: Path) -> None:
    counted.too_high = 0.0
    work = Work(counted, False)
    for unit in work.units():
        work.failed[unit.label] = "diverged"
    assert (work.is_over, work.total, work.left) == (True, 3, 0)
    (result,) = run_claims([counted], tmp_path, jobs=1).claims
    assert tried(counted) == [0.1, 0.2, 0.4] == [rate for _, rate in counted.made]
    assert result.judgement is None
    assert result.failed[0] == "counted/a-seed900-lr0.1: diverged"


def test_a_claim_that_does_not_say_how_good_a_rate_is_fails_in_one_line(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "measure", lambda *_, **__: {"figure": 1.0})
    (result,) = run_claims([counted], tmp_path, jobs=1).claims
    assert "counted/a-seed900-lr0.1: measure gave no `valid`" in result.failed[0]


def test_a_run_that_stopped_while_a_grid_widened_comes_to_the_same(counted: Counted, tmp_path: Path) -> None:
    counted.best = 1.0
    whole = run_claims([counted], tmp_path, jobs=1).claims
    for path in tmp_path.glob("units/counted/a-seed*"):
        if path.name not in ("a-seed900-lr0.2.json", "a-seed900-lr0.8.json"):
            path.unlink()
    counted.made.clear()
    again = run_claims([counted], tmp_path, jobs=1).claims
    assert counted.made == [(900, 0.1), (900, 0.4), (900, 1.6), *((seed, 0.8) for seed in range(5))]
    assert [trial.figures for trial in again[0].trials] == [trial.figures for trial in whole[0].trials]
    assert again[0].rates == whole[0].rates


@pytest.mark.parametrize("which", [0, -1])
def test_what_is_tried_does_not_depend_on_the_order_in_which_units_end(which: int) -> None:
    claim = Counted()
    claim.best = 1.0
    work, totals = Work(claim, False), []
    while left := [unit for unit in work.units() if not work.has(unit)]:
        unit = left[which]
        assert unit.rate is not None
        trial = Trial("a", unit.seed, unit.rate, {"valid": abs(math.log(unit.rate))}, 2.0)
        work.done[unit.label] = units.Done("counted", {}, False, "", trial, "")
        totals.append(work.total)
        assert work.left == 2.0 * (work.total - len(work.done))
    rate = work.rate(work.arms[0])
    assert rate is not None
    assert rate.tried == (0.1, 0.2, 0.4, 0.8, 1.6)
    assert (totals[0], totals[-1], work.left, work.is_over) == (8, 10, 0, True)


# what is measured again


TEXT = "class C:\n    'Words.'\n    def blocks(self):\n        return 1\n    def measure(self):\n        return {0}\n"


def code_of(text: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path.write_text(text, "utf-8")
    monkeypatch.setattr("inspect.getfile", lambda _: str(path))
    return measuring_code.__wrapped__(Claim)  # type: ignore[no-any-return]  # it is cached


def test_a_better_picture_throws_nothing_away_but_another_measurement_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TEXT.format(2)
    same = (
        first.replace("return 1", "return 3"),
        first.replace("'Words.'", "points = 7"),
        first.replace("'Words.'", "points: int = 7"),
        "from selfattn.report.blocks import Chart\nfrom selfattn.claims.rules import contrast\n" + first,
    )
    hashes = {code_of(text, tmp_path / "c.py", monkeypatch) for text in (first, *same)}
    assert len(hashes) == 1
    assert code_of(TEXT.format(4), tmp_path / "c.py", monkeypatch) not in hashes


def test_what_a_claim_measures_with_is_part_of_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(units.__file__).parents[1]
    shutil.copytree(package / "claims", tmp_path / "selfattn" / "claims")
    monkeypatch.setattr(units, "_PACKAGE", tmp_path / "selfattn")
    room = tmp_path / "selfattn" / "claims"

    def code() -> str:
        text = "from selfattn.claims.encoding.by_length import trained\n" + TEXT.format(2)
        return code_of(text, tmp_path / "c.py", monkeypatch)

    before = code()
    for unused in ("rules.py", "page.py", "claim.py", "learning/depth.py"):
        (room / unused).write_text("changed = 1\n", "utf-8")
    helper = room / "encoding" / "by_length.py"
    helper.write_text(helper.read_text("utf-8") + "\n# a remark\n", "utf-8")
    assert code() == before
    found = {before}
    for used in ("encoding/by_length.py", "sequences.py", "training.py"):  # the last two are imported by the first
        with (room / used).open("a", encoding="utf-8") as file:
            file.write("\nCHANGED = 1\n")
        found.add(code())
    assert len(found) == 4


def test_every_claim_of_the_suite_has_a_code_of_its_own() -> None:
    own = [CLAIMS[name] for name in CLAIMS if CLAIMS.plugin_of(name) is None]
    assert len({measuring_code(claim) for claim in own}) == len(own)


def test_units_of_other_settings_are_measured_anew(
    counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_claims([counted], tmp_path, jobs=1)
    path = tmp_path / "units/counted/a-seed3.json"
    kept = json.loads(path.read_text("utf-8"))
    kept["settings"] = {"quick": True}
    path.write_text(json.dumps(kept), "utf-8")
    counted.made.clear()
    run_claims([counted], tmp_path, jobs=1)
    assert counted.made == [(3, 0.2)]
    assert "counted/a-seed3: was kept with other settings or code; measured anew" in capsys.readouterr().err


# times


def test_only_arms_that_take_times_wait_for_all_others(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Timed(Counted):
        name = "timed"

        def arms(self, quick: bool) -> tuple[Arm, ...]:
            return Arm("clock", alone=True), Arm("a", {}, (0.2,))

        def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
            self.made.append((seed, rate))
            return {"figure": 1.0}

    monkeypatch.setattr(CLAIMS, "_parts", {**dict(CLAIMS.items()), "timed": Timed})
    record = run_claims([Timed(), counted], tmp_path, jobs=1, quick=True)
    assert counted.made == [(0, 0.2), (1, 0.2), (0, 0.2), (1, 0.2), (0, None), (1, None)]
    found = {(trial.arm, trial.pinned) for result in record.claims for trial in result.trials}
    assert found == {("a", None), ("clock", hasattr(os, "sched_setaffinity"))}
    assert any("kept on one core" in line for line in page_texts(record))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system pins no process")
def test_a_thread_is_kept_on_one_core_and_let_go_also_after_an_error() -> None:
    before = os.sched_getaffinity(0)
    with suppress(UserError), pinned() as is_pinned:
        assert is_pinned
        assert len(os.sched_getaffinity(0)) == 1
        raise UserError("out of luck")
    assert os.sched_getaffinity(0) == before


def test_where_the_system_pins_nothing_times_are_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refused, raising=False)
    with pinned() as is_pinned:
        assert not is_pinned
