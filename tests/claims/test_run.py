"""Runs of claims: the search for learning rates, trials on disk, resumption, the page; what `verify` judges again."""

import os
import random
import runpy
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from counted_claim import Counted, measure, page_texts
from forging import edit

from selfattn.claims.claim import Arm
from selfattn.claims.page import document_of, write_pages
from selfattn.claims.run import RECORD, join_records, judge_claims, read_record, verify_claims
from selfattn.codec import read, write
from selfattn.errors import SettingError, UserError
from selfattn.registry import CLAIMS
from selfattn.report.text import markdown_of
from selfattn.results.claims import ClaimsRecord, Trial


@pytest.mark.parametrize(
    ("best", "rates", "chosen_rate", "at_edge"),
    [
        (0.2, [0.1, 0.2, 0.4], 0.2, False),
        (1.0, [0.1, 0.2, 0.4, 0.8, 1.6], 0.8, False),
        (0.02, [0.1, 0.2, 0.4, 0.05, 0.025, 0.0125], 0.025, False),
        (99.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4], 6.4, True),
        (0.1, [0.001, 0.003, 0.01, 0.0333, 0.111, 0.37], 0.111, False),
    ],
)
def test_a_grid_widens_while_its_best_rate_is_at_its_edge(best, rates, chosen_rate, at_edge, counted, tmp_path):
    counted.best, counted.grid = best, tuple(rates[:3])
    (result,) = measure([counted], tmp_path).claims
    (rate,) = result.rates
    assert (rate.chosen, list(rate.tried), rate.at_edge) == (chosen_rate, rates, at_edge)
    assert [trial.rate for trial in result.tuning] == rates
    assert counted.made == [(900, rate) for rate in rates] + [(seed, chosen_rate) for seed in range(1000, 1005)]
    assert result.judgement.verdict == "holds"


@pytest.mark.parametrize(("quick", "seeds"), [(True, 4), (False, 5)])
def test_a_single_rate_and_a_quick_run_need_no_search(counted, tmp_path, quick, seeds):
    counted.grid, counted.quick = (0.1, 0.2, 0.4) if quick else (0.2,), quick
    (result,) = measure([counted], tmp_path, first_seed=40).claims
    assert counted.made == [(40 + seed, 0.2) for seed in range(seeds)]
    assert (result.rates[0].tried, result.rates[0].at_edge) == ((0.2,), False)


def test_a_rate_whose_training_fails_is_the_worst(counted, tmp_path, capsys):
    counted.best, counted.too_high = 99.0, 0.5
    (result,) = measure([counted], tmp_path).claims
    (rate,) = result.rates
    assert (rate.tried, rate.chosen, rate.at_edge) == ((0.1, 0.2, 0.4, 0.8), 0.4, False)
    assert result.failed == ("counted.a-tuning-lr0.8: diverged",)
    assert result.judgement is not None
    assert "counted.a-tuning-lr0.8: failed: diverged" in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["diverged", "measure gave no `valid`, by which a learning rate is chosen"])
def test_a_claim_all_of_whose_rates_fail_has_no_verdict(reason, counted, tmp_path, monkeypatch):
    counted.too_high = 0.0
    if reason != "diverged":
        monkeypatch.setattr(Counted, "measure", lambda *_, **__: {"figure": 1.0})
    (result,) = measure([counted], tmp_path).claims
    assert (result.judgement, result.trials) == (None, ())
    assert result.failed[0] == f"counted.a-tuning-lr0.1: {reason}"


def test_a_run_is_resumed(counted, tmp_path):
    counted.best = 1.0
    before = measure([counted], tmp_path)
    with pytest.raises(UserError, match="holds something already"):
        measure([counted], tmp_path)
    with pytest.raises(UserError, match="holds another experiment"):
        measure([counted], tmp_path, first_seed=7, resumed=True)
    for path in tmp_path.glob("trials/*"):
        if path.name not in ("counted.a-tuning-lr0.2.json", "counted.a-tuning-lr0.8.json", "counted.a-seed1003.json"):
            path.unlink()
    counted.made.clear()
    after = measure([counted], tmp_path, resumed=True)
    assert counted.made == [(900, 0.1), (900, 0.4), (900, 1.6), (1000, 0.8), (1001, 0.8), (1002, 0.8), (1004, 0.8)]
    assert [trial.figures for trial in after.claims[0].trials] == [trial.figures for trial in before.claims[0].trials]
    assert after.claims[0].rates == before.claims[0].rates
    counted.grid = (0.1, 0.2)
    with pytest.raises(UserError, match="the claims have changed"):
        measure([counted], tmp_path, resumed=True)


def test_trials_are_checked(counted, tmp_path):
    """A changed figure is found by its checksum; without the checksum, by the ledger."""
    assert measure([counted], tmp_path).plan.departures == ()
    file = tmp_path / "trials" / "counted.a-seed1001.json"
    file.write_text(file.read_text().replace("1.01", "7.01"))
    with pytest.raises(UserError, match=r"counted\.a-seed1001\.json: was changed or damaged"):
        measure([counted], tmp_path, resumed=True)
    edit(file, lambda trial: None)
    changed = measure([counted], tmp_path, resumed=True)
    assert [(one.kind, one.what) for one in changed.plan.departures] == [("unrecorded", (file.name,))]
    aside = [message.say("en") for message in document_of(changed).verdict.aside]
    assert any("ledger" in text and file.name in text for text in aside)


@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.reliability)])
def test_a_flipped_bit_is_named_or_changes_nothing(counted, tmp_path, count):
    write_pages(measure([counted], tmp_path), tmp_path)
    chance = random.Random(count)
    for name, kind in (("claims.json", ClaimsRecord), ("trials/counted.a-seed1001.json", Trial)):
        path = tmp_path / name
        content, before = path.read_bytes(), read(kind, path, advice="")
        for _ in range(count):
            place, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            with suppress(UserError):
                assert read(kind, path, advice="") == before


def test_a_trial_that_fails_is_told_and_the_others_finish(counted, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Counted, "broken", (1002,))
    (result,) = measure([counted], tmp_path).claims
    assert [trial.seed for trial in result.trials] == [1000, 1001, 1003, 1004]
    assert result.judgement is None
    assert result.failed[0] == "counted.a-seed1002: out of luck"
    assert "counted.a-seed1002: failed: out of luck" in capsys.readouterr().err
    monkeypatch.setattr(Counted, "broken", ())
    counted.made.clear()
    (mended,) = measure([counted], tmp_path, resumed=True).claims
    assert counted.made == [(1002, 0.2)]
    assert mended.judgement is not None


def test_an_interrupted_run_is_resumed(counted, tmp_path, monkeypatch, capsys):
    original = Counted.measure

    def interrupted(self, setup):
        if setup.seed == 1001:
            os.kill(os.getpid(), signal.SIGINT)
            while not (tmp_path / "logs" / "stop").exists():
                time.sleep(0.01)
        return original(self, setup)

    monkeypatch.setattr(Counted, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure([counted], tmp_path)
    assert "stopping" in capsys.readouterr().err
    assert [seed for seed, _ in counted.made] == [900, 900, 900, 1000, 1001]
    monkeypatch.setattr(Counted, "measure", original)
    counted.made.clear()
    record = measure([counted], tmp_path, resumed=True)
    assert [seed for seed, _ in counted.made] == [1002, 1003, 1004]
    assert record.plan.departures == ()


def test_arms_that_measure_times_wait_for_all_others(counted, tmp_path, monkeypatch):
    class Timed(Counted):
        name, seeds = "timed", 2

        def arms(self):
            return Arm("clock", alone=True), Arm("a", {}, (0.2,))

        def measure(self, setup):
            self.made.append((setup.seed, setup.rate))
            return {"figure": 1.0}

    monkeypatch.setattr(CLAIMS, "_parts", {**dict(CLAIMS.items()), "timed": Timed})
    counted.grid = (0.2,)
    record = measure([Timed(), counted], tmp_path)
    seeds = [1000, 1001, *range(1000, 1005)]
    assert counted.made == [*((seed, 0.2) for seed in seeds), (1000, None), (1001, None)]
    assert any("nothing else of the suite ran" in line for line in page_texts(record))


def test_the_page_is_made_of_the_record_alone(counted, tmp_path):
    record = measure([counted], tmp_path / "a")
    write_pages(record, tmp_path / "a")
    counted.made.clear()
    write_pages(judge_claims(read_record(tmp_path / "a")), tmp_path / "b")
    assert counted.made == []
    for suffix in ("json", "html", "md"):
        assert (tmp_path / f"a/claims.{suffix}").read_bytes() == (tmp_path / f"b/claims.{suffix}").read_bytes()
    (result,) = record.claims
    another = tuple(replace(trial, seed=trial.seed + 50, rate=0.4) for trial in result.trials)  # a block of its own
    for trials, rates in ((result.trials, "0.2"), ((*result.trials, *another), "0.2, 0.4")):
        shown = replace(record, claims=(replace(result, trials=trials),))
        assert f"- x: {rates}\n" in markdown_of(document_of(shown), "en")


def test_a_verdict_pools_the_first_run_and_its_replication(counted, tmp_path):
    """A replication that fails takes a verdict away, and both runs stand beside it."""
    first, second = (measure([counted], tmp_path / str(seed), first_seed=seed) for seed in (1000, 50))
    joined = join_records([first, second])
    (result,) = joined.claims
    assert (result.seeds, result.blocks) == (tuple(range(1000, 1005)), (tuple(range(50, 55)),))
    assert result.replications == ("holds", "holds")
    assert [len(contrast.by_seed) for contrast in result.judgement.contrasts] == [10]
    assert "✓ yes" in markdown_of(document_of(joined), "en")
    assert (joined.begun, joined.created) == (first.begun, second.created)
    with pytest.raises(UserError, match="share seeds"):
        join_records([first, first])
    with pytest.raises(SettingError, match="seed 900 chooses learning rates"):
        measure([counted], tmp_path / "c", first_seed=898)
    failed = second.claims[0]
    trials = tuple(replace(trial, figures={**trial.figures, "figure": -3.0}) for trial in failed.trials)
    joined = join_records([first, replace(second, claims=(replace(failed, trials=trials),))])
    (result,) = joined.claims
    assert (result.judgement.verdict, result.replications) == ("not shown", ("holds", "does not hold"))
    page = markdown_of(document_of(joined), "en")
    assert "each by itself: ✓ holds; ✗ does not hold" in page
    assert "### ○ not shown (all runs pooled; most runs alone differ)" in page  # neither alone says so
    assert "most runs alone differ" not in markdown_of(document_of(first), "en")


def test_an_arm_that_has_not_learned_gives_no_verdict(counted, tmp_path, monkeypatch):
    record = measure([counted], tmp_path)
    mean = fmean(trial.figures["figure"] for trial in record.claims[0].trials)
    for least, verdict in ((mean + 0.01, "not learned"), (mean - 0.01, "holds")):
        monkeypatch.setattr(Counted, "learned", {"a": ("figure", least)})
        assert judge_claims(record).claims[0].judgement.verdict == verdict
    assert "positive control" in markdown_of(document_of(judge_claims(record)), "en")


# Judged again, and held against trials, plan and ledger


PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "results" / "claims"


def differing(place):
    return {finding.name for finding in verify_claims(place) if finding.differences}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda record, first: first["judgement"].update(verdict="does not hold"), {"claim counted"}),
        (lambda record, first: first["trials"][0]["figures"].update(figure=2), {"claim counted", "trials of counted"}),
        (lambda record, first: first.update(seeds=[1000]), {"claim counted", "plan.seal"}),
        (lambda record, first: first["rates"][0].update(chosen=0.1), {"claim counted"}),
        (lambda record, first: record.update(quick=True), {"plan.seal"}),
    ],
    ids=["verdict", "figure", "seeds", "rate", "quick"],
)
def test_an_edited_record_differs(change, expected, counted, tmp_path):
    write(tmp_path / RECORD, measure([counted], tmp_path), checksum=True)
    assert differing(tmp_path) == set()
    edit(tmp_path / RECORD, lambda record: change(record, record["claims"][0]))
    assert expected <= differing(tmp_path)


def test_an_edited_trial_is_missed_in_the_ledger(counted, tmp_path, cli):
    write(tmp_path / RECORD, measure([counted], tmp_path), checksum=True)
    assert "all agree" in cli("verify", tmp_path).out
    edit(next((tmp_path / "trials").glob("*-seed1000.json")), lambda trial: trial.update(seconds=0.5))
    assert differing(tmp_path) == {"trials of counted", "ledger"}
    assert cli("verify", tmp_path).code == 1
    assert "have no test pairs" in cli("verify", tmp_path, "--items", 5).refusal()


def test_the_published_record_is_a_full_run_with_verdicts_by_the_rules_and_pages_are_made_of_it():
    assert differing(PUBLISHED / RECORD) == set()
    record = read_record(PUBLISHED)
    assert not record.quick
    names = [result.name for result in record.claims]
    assert names == [name for name in CLAIMS if name in names]
    page = (PUBLISHED.parents[1] / "claims.md").read_text("utf-8")
    for name in CLAIMS:
        assert name in names or ("Not run yet with today's code" in page and name in page.split("5 seeds each")[0])
    assert all(result.judgement or result.failed for result in record.claims)
    for is_quick in (True, False):
        text = markdown_of(document_of(replace(record, quick=is_quick)), "en")
        assert ("What the results say" in text) == (not is_quick)
    made = runpy.run_path(str(PUBLISHED / "write.py"))["pages"](record)
    for path, text in made.items():
        assert path.read_text("utf-8") == text, f"{path}: make it again: python docs/results/claims/write.py"
