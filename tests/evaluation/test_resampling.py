"""Covariances of run scores under resampling of the items: in closed form, and by drawing."""

from __future__ import annotations

import numpy as np
import pytest

from selfattn.evaluation.statistics.variances import average_covariance, corpus_covariance


def average(sums: np.ndarray) -> np.ndarray:
    """The average over items, as a corpus score: the sum of values over the number of items."""
    return sums[:, 0] / sums[:, 1]


def counted(scores: np.ndarray) -> np.ndarray:
    return np.stack([scores, np.ones_like(scores)], axis=-1)


def test_closed_form_by_hand() -> None:
    # Deviations from the averages 1/2 and 1/4: products summed over 4 items, divided by 4 x 3.
    scores = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    assert average_covariance(scores) * 12 == pytest.approx(np.array([[1.0, 0.5], [0.5, 0.75]]))


def test_closed_form_is_the_squared_standard_error() -> None:
    scores = np.random.default_rng(0).normal(size=(1, 37))
    assert average_covariance(scores)[0, 0] == pytest.approx(scores.var(ddof=1) / 37)


def test_one_item_shows_no_spread() -> None:
    assert not average_covariance(np.array([[1.0], [0.0]])).any()
    assert not corpus_covariance(counted(np.array([[1.0], [0.0]])), average, resamples=7).any()


def test_more_draws_come_closer_to_the_closed_form() -> None:
    generator = np.random.default_rng(0)
    scores = (generator.random((5, 211)) < generator.random(211)).astype(float)
    exact = average_covariance(scores)

    def error(resamples: int) -> float:
        drawn = [corpus_covariance(counted(scores), average, resamples=resamples, seed=seed) for seed in range(7)]
        return float(np.mean([np.linalg.norm(one - exact) for one in drawn]) / np.linalg.norm(exact))

    errors = [error(resamples) for resamples in (30, 300, 3000)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]  # about 1 / sqrt(resamples): a third each time
    assert errors[2] < 0.05


def test_few_items_are_not_underrated() -> None:
    # Draws with replacement from 3 items vary by a third too little: (n - 1) / n.
    scores = np.array([[0.0, 1.0, 5.0]])
    drawn = corpus_covariance(counted(scores), average, resamples=20_000)
    assert drawn == pytest.approx(average_covariance(scores), rel=0.03)


def test_draws_are_those_of_the_seed() -> None:
    statistics = counted(np.random.default_rng(0).random((3, 53)))
    first = corpus_covariance(statistics, average, resamples=300, seed=1)
    assert np.array_equal(first, corpus_covariance(statistics, average, resamples=300, seed=1))
    assert not np.array_equal(first, corpus_covariance(statistics, average, resamples=300, seed=2))


def test_all_runs_answer_the_same_draw() -> None:
    scores = np.random.default_rng(0).random((1, 53)).repeat(2, axis=0)
    drawn = corpus_covariance(counted(scores), average, resamples=300)
    assert drawn == pytest.approx(np.full((2, 2), drawn[0, 0]))


def test_a_score_that_is_not_finite_is_refused() -> None:
    statistics = np.array([[[1.0, 0.0], [1.0, 1.0]]])  # half of the characters' counts are 0
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="nan or infinite for some draw"):
        corpus_covariance(statistics, average)
