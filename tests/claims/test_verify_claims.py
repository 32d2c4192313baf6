"""`verify` judges claims again, and holds them against trials, plan and ledger."""

from pathlib import Path

import pytest
from counted_claim import measure
from forging import edit

from selfattn.claims.run import RECORD, verify_claims
from selfattn.codec import write

PUBLISHED = Path(__file__).parents[2] / "docs/results/claims" / RECORD


def differing(place):
    return {finding.name: finding.differences[0] for finding in verify_claims(place) if finding.differences}


def measured(claim, out):
    write(out / RECORD, measure([claim], out), checksum=True)


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
    measured(counted, tmp_path)
    assert differing(tmp_path) == {}
    edit(tmp_path / RECORD, lambda record: change(record, record["claims"][0]))
    assert expected <= set(differing(tmp_path))


def test_an_edited_trial_is_missed_in_the_ledger(counted, tmp_path, cli):
    measured(counted, tmp_path)
    assert "all agree" in cli("verify", tmp_path).out
    edit(next((tmp_path / "trials").glob("*-seed1000.json")), lambda trial: trial.update(seconds=0.5))
    assert set(differing(tmp_path)) == {"trials of counted", "ledger"}
    assert cli("verify", tmp_path).code == 1
    assert "have no test pairs" in cli("verify", tmp_path, "--items", 5).refusal()


def test_the_published_record_is_judged_again():
    assert differing(PUBLISHED) == {}
