"""The recall task: the published sequences token for token, problems by hand, longer tests, settings refused."""

import hashlib
import random

import numpy as np
import pytest

from selfattn.errors import SettingError, UserError
from selfattn.models.families import get_preset
from selfattn.runs.load import load
from selfattn.runs.train import train
from selfattn.tasks.recall import Recall, multiquery_ar

# Of HazyResearch/zoology at d88d6f5: multiquery_ar(8192, 100, 64, seed=123, num_kv_pairs=4, random_non_queries=False),
# and (20, 1, 16, seed=3, num_kv_pairs=2, random_non_queries=False).
PUBLISHED = "fb8278ad59c69beb3eaedc12ba4105a731e0e56ae6956c71878ff376a41cb1ac"
INPUTS = [7, 19, 3, 12, 3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]


def test_the_published_sequences_token_for_token():
    inputs, labels = multiquery_ar(8192, 100, 64, 123, 4)
    assert hashlib.sha256(inputs.tobytes() + labels.tobytes()).hexdigest() == PUBLISHED
    inputs, labels = multiquery_ar(20, 1, 16, 3, 2)
    assert inputs[0].tolist() == INPUTS
    assert {int(k): int(labels[0, k]) for k in np.flatnonzero(labels[0] >= 0)} == {4: 12, 6: 19}


def test_every_query_of_recall_has_the_value_behind_its_key():
    chance = random.Random(0)
    task = Recall(length=32, test_length=64, pairs=4, vocabulary=128)
    for test in (False, True):
        for _ in range(50):
            pair = task.pair(chance, test)
            words = pair.source.split()
            assert pair.target == words[words.index(words[-1]) + 1]
            assert len(words) <= (64 if test else 32)
    assert task.tokenizer(task.splits(0)).unknown(pair.source, pair.target).total() == 0


ANSWERS = {
    "copy": lambda words: words,
    "reverse": lambda words: words[::-1],
    "parity": lambda words: [str(sum(map(int, words)) % 2)],
    "modular": lambda words: [str(eval(" ".join(words)) % 5)],
}


@pytest.mark.parametrize("problem", ANSWERS)
def test_problems_by_hand(problem):
    chance = random.Random(0)
    task = Recall(problem=problem, length=9, test_length=21)
    for _ in range(100):
        pair = task.pair(chance)
        assert pair.target.split() == ANSWERS[problem](pair.source.split())
    splits = task.splits(0)
    assert {pair.tag for pair in splits.train(1, 50)} == {pair.tag for pair in splits.validation(20)}
    assert {pair.tag for pair in splits.test(50)} == {"as in training", "longer than in training"}


def test_settings_that_do_not_fit_are_refused():
    for settings, message in (
        ({"length": 8, "test_length": 4}, "`test_length`: expected at least `length` 8, got 4"),
        ({"pairs": 40}, "`length`: expected even lengths of at least 4 tokens a pair, got 64"),
        ({"vocabulary": 100}, "`vocabulary`: expected an even number above `test_length`"),
        ({"problem": "copy", "pairs": 3}, "`pairs` goes with `problem` mqar"),
        ({"problem": "sort"}, "`problem`: expected one of mqar, copy"),
    ):
        with pytest.raises(SettingError, match=message):
            Recall(**settings)


def test_a_run_is_trained_tested_and_loaded(tmp_path):
    sizes = {"length": 16, "test_length": 32, "pairs": 2, "vocabulary": 64}
    small = ("stack.dim=8", "stack.num_heads=2", "stack.ffn_dim=8")
    short = {"max_steps": 2, "items_per_epoch": 8, "batch_size": 4, "validation_items": 4, "out": tmp_path / "run"}
    run = train("recall", model="decoder-only-delta", set=small, **sizes, **short)
    assert load(run.path).predict(["3 40 5 50 3"]) == run.predict(["3 40 5 50 3"])


def test_a_model_without_positions_for_the_test_is_refused_before_any_training():
    model = get_preset("transformer-learned").config
    with pytest.raises(UserError, match="learned: test texts: a source of 129 tokens: this model has at most 64"):
        Recall().check_model(model, "learned")
    Recall(test_length=62, length=32, pairs=4).check_model(model, "learned")
