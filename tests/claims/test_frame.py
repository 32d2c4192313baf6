"""Rules of claims, small trainings, words and commands; the documents say what the record says."""

import math
from pathlib import Path

import pytest
from counted_claim import Counted
from hypothesis import given
from hypothesis import strategies as st
from third_party import Plugins

from selfattn.claims.claim import Arm, Setup
from selfattn.claims.rules import claim_ps, contrast, exact, judge, share_error
from selfattn.claims.run import choose_claims, read_record, run_claims
from selfattn.claims.small import copies, exact_share, forced_accuracy, held_out, loss_of, stream, train
from selfattn.errors import UserError
from selfattn.experiments.queue import Workers
from selfattn.models.build import build
from selfattn.registry import CLAIMS
from selfattn.results.claims import Contrast
from selfattn.words.messages import LANGS


@pytest.mark.parametrize(
    ("need", "bound", "mean", "met", "opposed"),
    [
        ("above", 0.1, 0.1, False, False), ("above", 0.1, 0.0, False, True), ("below", 0.1, 0.0, True, False),
        ("below", 0.1, 0.2, False, True), ("within", 0.1, 0.0, True, False), ("within", 0.1, 0.1, False, False),
        ("within", 0.1, -0.1, False, False), ("within", 0.1, -0.2, False, True),
    ],
)  # fmt: skip
def test_a_contrast_is_met_opposed_or_neither(need, bound, mean, met, opposed):
    result = contrast("c", [mean + wobble for wobble in (-0.02, -0.01, 0.0, 0.01, 0.02)], need, bound)
    assert (result.met, result.opposed) == (met, opposed)
    assert result.mean == pytest.approx(mean)
    assert result.high - result.mean == pytest.approx(2.776445 * math.sqrt(0.00025 / 5), rel=1e-6)  # any table of t


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=7).filter(lambda values: len(set(values)) > 1),
    st.sampled_from(["above", "below", "within"]),
    st.floats(0, 1),
)
def test_p_is_below_one_in_twenty_exactly_where_the_interval_is_on_the_needed_side(values, need, bound):
    result = contrast("c", values, need, bound)
    edge = {"above": result.low - bound, "below": bound - result.high}.get(need, bound - max(-result.low, result.high))
    if abs(edge) > 1e-9:
        assert (result.p < 0.05) == (edge > 0) == result.met
    assert 0 <= result.p <= 1
    assert not (result.met and result.opposed)


def test_full_marks_are_no_certainty():
    ones = [1.0] * 5
    error = share_error(ones, 100)
    assert contrast("c", ones, "above", 0.99).met
    assert not contrast("c", ones, "above", 0.995, least_error=error).met
    assert 0 < share_error([0.0] * 5, 100) == pytest.approx(error)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [1.0, math.inf]])
def test_what_is_no_series_of_numbers_is_refused(values):
    with pytest.raises(ValueError, match="at least two finite numbers"):
        contrast("c", values, "above", 0.0)


def of(met, opposed=False, p=0.001):
    mean = 1.0 if met else -1.0 if opposed else 0.0
    p = p if met else 0.9
    against = 0.02 if opposed else 1.0
    return Contrast("c", mean, mean - 0.5, mean + 0.5, p, "above", 0.0, (mean,), against)


@pytest.mark.parametrize(
    ("contrasts", "conditions", "verdict"),
    [
        ([of(True), of(True)], {}, "holds"),
        ([of(True), of(False)], {}, "not shown"),
        ([of(True), of(False, True)], {}, "does not hold"),
        ([of(True), of(False)], {"long": [of(True)]}, "conditional"),
        ([of(True), of(False, True)], {"short": [of(False)], "long": [of(True)]}, "conditional"),
        ([of(False)], {"long": [of(True), of(False)]}, "not shown"),
        ([of(False)], {"short": [of(True, p=0.04)], "long": [of(True)]}, "conditional"),  # 2 x 0.04: not the short one
        ([of(False)], {"long": [of(True)], "short": [of(True)]}, "conditional"),
    ],
)
def test_verdicts(contrasts, conditions, verdict):
    result = judge(contrasts, conditions)
    assert result.verdict == verdict
    assert result.condition == ("long" if verdict == "conditional" else "")


def test_the_correction_for_all_claims_can_take_a_verdict_away():
    """Of every verdict: that it holds, holds under a condition, and does not hold."""
    none, few = [(1.0, 1.0, 1.0)] * 60, [(1.0, 1.0, 1.0)]
    weaker = {"long": [of(True)]}
    assert [judge([of(True)], {}, others).verdict for others in (few, none)] == ["holds", "not shown"]
    assert [judge([of(False)], weaker, others).verdict for others in (few, none)] == ["conditional", "not shown"]
    assert [judge([of(False, True)], {}, others).verdict for others in (few, none)] == ["does not hold", "not shown"]
    assert judge([of(False, True), of(False), of(True)]).verdict == "not shown"  # one of three was picked: 3 x 0.02
    assert claim_ps([of(True), of(False, True)], {}) == (0.9, 1.0, 0.04)
    assert claim_ps([of(False)], {"short": [of(True, p=0.04)], "long": [of(True)]}) == (0.9, 0.002, 1.0)


def test_a_theorem_is_asserted():
    assert judge([exact("c", 9.9e-13, 1e-12)]).verdict == "holds"
    assert judge([exact("c", 1e-12, 1e-12)]).verdict == "not shown"
    assert judge([exact("c", math.nan, 1e-12)]).verdict == "does not hold"


def test_a_small_training_learns_to_copy_and_is_the_same_again():
    def make(draws):
        return copies(32, 3, symbols=4, generator=draws)

    test = held_out(make, seed=0)

    def trained():
        model = build("rnn-attention", vocab_size=7, seed=0)
        last = train(Setup(Arm("a", {"steps": 20}), 0, 2e-2), model, stream(make, seed=0))
        return last, loss_of(model, test), exact_share(model, test), forced_accuracy(model, test)

    last, _, right, forced = first = trained()
    assert last < loss_of(build("rnn-attention", vocab_size=7, seed=0), test) / 2
    assert right <= forced
    assert first == trained()


def test_the_skeleton_runs_at_once(tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli("claims", "new", "spread").success()
    plugin = tmp_path / "spread.py"
    Plugins([plugin]).bring(monkeypatch)
    assert len(plugin.read_text("utf-8").splitlines()) < 60
    done = cli("--plugin", plugin, "claims", "run", "spread", "--out", "out", "--jobs", 1).success()
    assert done.err.splitlines()[0] == "1 claim takes about 5 s on two processor cores."
    assert cli("--plugin", plugin, "claims", "run", "spread", "--out", "out").err.count("\n") == 1  # nothing begins
    assert "✓ holds" in done.out
    record = read_record(Path("out"))
    assert [result.name for result in record.claims] == ["spread"]
    assert record.command == f"selfattn --plugin {plugin} claims run spread"
    page = Path("out/claims.html").read_text("utf-8")
    assert "Without scaling" in page
    assert 'class="legend"' in page
    cli("--plugin", plugin, "claims", "page", "out", "--out", "again", "--lang", "ko").success()
    assert "판정" in Path("again/claims.md").read_text("utf-8")
    monkeypatch.setattr("selfattn.registry._loaded", {})
    assert "give --plugin" in cli("claims", "page", "out", "--out", "without").refusal()


def test_a_quick_run_leaves_out_what_it_cannot_decide(counted, tmp_path, monkeypatch, capsys):
    class Slow(Counted):
        name, seconds = "slow", (0.0, 330.0)

    monkeypatch.setattr(CLAIMS, "_parts", {"counted": Counted, "slow": Slow})
    assert [claim.name for claim in choose_claims((), True, quick=True)] == ["counted"]
    assert [claim.name for claim in choose_claims((), True)] == ["counted", "slow"]
    with pytest.raises(UserError, match=r"claim slow: a quick run cannot decide it; .*about 330 s"):
        choose_claims(["slow"], quick=True)
    record = run_claims(choose_claims((), True, quick=True), Workers(tmp_path, 1))
    assert "Left out, because a quick run cannot decide them: slow.\n" in capsys.readouterr().err
    assert record.command == "selfattn claims run --all --quick"


def test_the_list_has_every_claim_in_both_languages(cli):
    for lang in LANGS:
        lines = cli("claims", "--lang", lang).out.splitlines()
        assert [line.split()[1] for line in lines] == list(CLAIMS)
        assert all(CLAIMS[line.split()[1]]().say("sentence").say(lang) in line for line in lines)
