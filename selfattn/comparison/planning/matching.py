"""Give the models of a comparison the same budget, or find out how far apart they are."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from selfattn.comparison.planning.options import CompareOptions
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.cost.flops import BatchShape, training_flops
from selfattn.models.config import ModelConfig
from selfattn.models.sizing import body, check_matched, match, parameters
from selfattn.results.record import BODIES_APART, Matching
from selfattn.runs.task import Budget
from selfattn.training.config import TrainingConfig

_WORDS: dict[Budget, str] = {
    "parameters": "parameters outside embeddings",
    "body": "parameters of the body (without any axis over the vocabulary)",
    "flops": "training FLOPs a target token",
}

Measure = Callable[[ModelConfig], float]


def match_models(
    models: Mapping[str, ModelConfig],
    options: CompareOptions,
    *,
    vocab_size: int,
    training: TrainingConfig,
    shape: BatchShape,
) -> tuple[dict[str, ModelConfig], Matching]:
    """Size models for one budget; without one, hold their parameters against each other.

    Args:
        models: by name, in their own proportions.
        options: say what is to be equal, how much of it, and how far apart models may be.
        vocab_size: of the tokenizer that they share.
        training: how they are trained.
        shape: of a batch.

    Returns:
        The models, and what they have of the budget.

    Raises:
        UserError: a model cannot be given that size, or models are too far apart and were not said to be.
    """
    what: Budget = options.match or "parameters"
    measure = _measure(what, vocab_size, shape, training)
    found, target = dict(models), None
    if options.match is not None:
        target = options.budget or statistics.median(measure(config) for config in models.values())
        found = {name: _sized(name, config, target, measure, options.match_limit) for name, config in models.items()}
    counts = {name: measure(config) for name, config in found.items()}
    if not options.apart:
        _check(counts, what, options, options.match_limit)
        if what == "parameters":  # which count an output matrix that is no embedding
            _check({name: body(config) for name, config in found.items()}, "body", options, BODIES_APART)
    return found, Matching(
        options.match or "none", target, counts, limit=options.match_limit, allowed_apart=options.apart
    )


def _sized(name: str, config: ModelConfig, target: float, measure: Measure, limit: float) -> ModelConfig:
    try:
        return match(config, target, measure, tolerance=limit / 2)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def _check(counts: Mapping[str, float], what: Budget, options: CompareOptions, limit: float) -> None:
    try:
        check_matched(counts, _WORDS[what], limit=limit)
    except UserError as error:
        sizes = what if options.match in (None, "parameters") and options.match != what else ""
        advice = "`apart` compares them all the same" + (f", `match` {sizes} sizes them" if sizes else "")
        raise SettingError(f"{str(error).split(': size them')[0]}; {advice}") from None


def _measure(what: Budget, vocab_size: int, shape: BatchShape, training: TrainingConfig) -> Measure:
    match what:
        case "parameters":
            return partial(parameters, vocab_size=vocab_size)
        case "body":
            return body
        case "flops":
            tokens = shape.batch * shape.target
            passes = 2 if training.r_drop else 1
            return lru_cache(lambda config: passes * training_flops(config, vocab_size, shape) / tokens)
