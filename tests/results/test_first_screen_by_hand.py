"""The first screen of a published report, computed by hand from the archived outputs alone: nothing of selfattn."""

import json
import math
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

REPORTS = Path(__file__).parents[2] / "docs" / "results" / "reports"

RECORD = json.loads((REPORTS / "phrases.json").read_text("utf-8"))
PAGE = (REPORTS / "phrases.md").read_text("utf-8")


def archived():
    """Which outputs are the target, by model ``[runs items]``, and the targets."""
    with tarfile.open(REPORTS / "phrases-packed.tar.xz") as packed:
        file = packed.extractfile("carried.json")
        runs = json.load(file)["runs"]
    assert {(run["budget"], run["failed"]) for run in runs} == {(1.0, False)}
    by_model = {}
    for run in runs:
        right = [float(answer["output"] == answer["target"]) for answer in run["answers"]]
        by_model.setdefault(run["model"], []).append(right)
    targets = [answer["source"] for answer in runs[0]["answers"]]
    return {name: np.array(right) for name, right in by_model.items()}, targets


RIGHT, TARGETS = archived()
DAYS = np.unique(TARGETS, return_inverse=True)[1]  # two texts of one day are one piece of evidence
COUNT = int(DAYS.max()) + 1
TUNING = {model["name"]: np.array(model["tunings"]) for model in RECORD["models"]}  # runs of one share its luck


def covariance(scores):
    """Covariances of the runs' means if other days had been drawn: sums over days, not over texts."""
    deviations = scores - scores.mean(axis=1, keepdims=True)
    by_day = np.stack([np.bincount(DAYS, weights=row, minlength=COUNT) for row in deviations])
    return np.asarray(by_day @ by_day.T * COUNT / (COUNT - 1) / scores.shape[1] ** 2)


def by_tuning(values, tunings):
    return np.array([values[tunings == number].mean() for number in np.unique(tunings)])


def half_width(groups, tunings, cov, tail=0.05):
    """Half the interval of a mean, or of a difference of two: the luck of seeds and that of test items."""
    weights = np.concatenate([np.full(len(g), s / len(g)) for g, s in zip(groups, (1, -1), strict=False)])
    items = float(weights @ cov @ weights)
    over_items = stats.t.isf(tail / 2, COUNT - 1) * math.sqrt(items)
    if min(map(len, groups)) == 1:  # one run says nothing of the others
        return over_items
    parts = []
    luck = 0.0  # of runs on single items, which is part of that of the seeds
    start = 0
    for group, numbers in zip(groups, tunings, strict=True):
        units = by_tuning(group, numbers)
        parts.append((float(units.var(ddof=1)) / len(units), len(units) - 1))
        block = cov[start : start + len(group), start : start + len(group)]
        diagonal = float(np.trace(block))
        luck += (diagonal - (float(block.sum()) - diagonal) / (len(group) - 1)) / len(group) ** 2
        start += len(group)
    seeds = sum(part for part, _ in parts)
    df = seeds**2 / sum(part**2 / free for part, free in parts)
    z = stats.norm.isf(tail / 2)
    both = math.sqrt(stats.t.isf(tail / 2, df) ** 2 * seeds + z**2 * max(0.0, items - luck))
    return max(both, over_items)


def mean_of(name):
    """Mean of all runs with its interval, laid out as Wilson's."""
    answers = RIGHT[name]
    runs = answers.mean(axis=1)
    tunings = TUNING[name]
    mean = float(runs.mean())
    excess = (half_width([runs], [tunings], covariance(answers)) ** 2) / (mean * (1 - mean))  # z^2 / n
    centre = mean + excess / 2
    reach = math.sqrt(excess * mean * (1 - mean) + excess**2 / 4)
    return mean, (centre - reach) / (1 + excess), (centre + reach) / (1 + excess)


def gap(first, second, p):
    """Difference, its interval, and by log-odds the change and the half-width of the interval that p excludes.

    Half an item is added to right and to wrong.
    """
    answers = [RIGHT[name] for name in (first, second)]
    runs = [each.mean(axis=1) for each in answers]
    tunings = [TUNING[name] for name in (first, second)]
    smooth = [(each * COUNT + 0.5) / (COUNT + 1) for each in runs]
    odds = [np.log(each / (1 - each)) for each in smooth]
    slopes = np.concatenate([1 / (each * (1 - each)) for each in smooth])
    cov = (covariance(np.concatenate(answers)) + np.eye(len(slopes)) / (2 * COUNT**2)) * np.outer(slopes, slopes)
    change = float(odds[0].mean() - odds[1].mean())
    difference = float(runs[0].mean() - runs[1].mean())

    def shifted(by):
        return float((1 / (1 + np.exp(-odds[0] - by / 2))).mean() - (1 / (1 + np.exp(-odds[1] + by / 2))).mean())

    half = half_width(odds, tunings, cov)
    ends = [difference + shifted(by) - shifted(0.0) for by in (-half, half)]
    if abs(change) < half or ends[0] < 0 < ends[1]:  # undecided: as wide as in points
        wide = half_width(runs, tunings, covariance(np.concatenate(answers)))
        ends = [min(ends[0], difference - wide), max(ends[1], difference + wide)]
    return difference, *ends, abs(change), half_width(odds, tunings, cov, p)


def is_printed(text, values):
    """Whether a mean with its interval is printed as ``77 [28, 92]``: rounded, its interval outward."""
    numbers = re.findall(r"−?[\d.]+", text)
    if len(numbers) != 3:
        return False
    unit = 10.0 ** -max(len(number.partition(".")[2]) for number in numbers)
    mean, low, high = (float(number.replace("−", "-")) for number in numbers)
    return (
        abs(mean - 100 * values[0]) <= 0.51 * unit
        and -0.01 * unit <= 100 * values[1] - low <= 1.01 * unit
        and -0.01 * unit <= high - 100 * values[2] <= 1.01 * unit
    )


@pytest.mark.parametrize("model", RECORD["models"], ids=lambda model: str(model["name"]))
def test_means_and_intervals_follow_from_the_outputs(model):
    name = model["name"]
    stated = model["metrics"]["exact_match"]
    runs = RIGHT[name].mean(axis=1)
    assert stated["runs"] == pytest.approx(runs.tolist(), rel=1e-12)
    assert [stated[key] for key in ("mean", "low", "high")] == pytest.approx(mean_of(name), abs=1e-4)
    assert model["failed"] == []
    cells = next(line for line in PAGE.splitlines() if line.startswith(f"| {name} |")).split("|")
    assert is_printed(cells[2], mean_of(name))


@pytest.mark.parametrize("pair", RECORD["pairs"], ids=lambda pair: f"{pair['first']}-{pair['second']}")
def test_differences_follow_from_the_outputs(pair):
    if pair["metric"] != "exact_match":
        pytest.skip("an error rate, whose interval is drawn")
    *apart, change, half = gap(pair["first"], pair["second"], pair["p"])
    assert [pair[key] for key in ("difference", "low", "high")] == pytest.approx(apart, abs=2e-4)
    assert pair["p"] >= pair["p_items"]
    assert half == pytest.approx(change, rel=1e-3) or (pair["p"] == pair["p_items"] and half < change)
    is_clear = pair["p_holm"] < 0.05 and (apart[1] > 0 or apart[2] < 0)
    assert pair["word"] == (("better" if apart[0] > 0 else "worse") if is_clear else "not told apart")
    if pair["primary"]:
        text = re.search(r"difference ([^]]+\]) points", " ".join(PAGE.split()))
        turned = [-apart[0], -apart[2], -apart[1]]
        assert is_printed(text[1], apart) or is_printed(text[1], turned)


def test_factors_of_dates_are_those_of_the_first_looks_with_nine_of_ten_right():
    """Of the best trial of each tuning; nothing is trained further. A factor is the median ratio of any two runs."""
    target = json.loads((REPORTS / "dates.json").read_text("utf-8"))["target"]
    page = " ".join((REPORTS / "dates.md").read_text("utf-8").replace("\u00a0", " ").replace("\\", "").split())
    arrived = {}
    with tarfile.open(REPORTS / "dates-packed.tar.xz") as packed:
        for name, trials in json.load(packed.extractfile("plan.json"))["trials"].items():
            arrived[name] = []
            for number in (number for number, trial in enumerate(trials) if trial.get("chosen")):
                looks = list(map(json.loads, packed.extractfile(f"tuning/{name}-trial{number}/metrics.jsonl")))
                arrived[name].append(next(look["examples"] for look in looks if look["valid_exact_match"] >= 0.9))
                assert looks[-1]["examples"] == arrived[name][-1]
            assert target["models"][name]["examples"] == arrived[name]
    best = min(arrived, key=lambda name: float(np.median(arrived[name])))
    for test in target["pairs"]:
        ratios = np.sort([one / other for one in arrived[test["first"]] for other in arrived[test["second"]]])
        ends = (ratios[2], np.median(ratios), ratios[-3])  # of 252 orders of ten runs, 4 are further out at either end
        assert (test["low"], test["ratio"], test["high"]) == pytest.approx(ends)
        if test["second"] == best:
            assert any(f"{ends[1] + shift:.1f} [" in page for shift in (-0.001, 0.001))  # halves go either way
