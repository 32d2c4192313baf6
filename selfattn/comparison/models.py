"""Models of a comparison: look them up, apply settings, and size them for one budget."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import PlannedModel
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.cost import BatchShape, training_flops
from selfattn.models.config import ModelConfig
from selfattn.models.presets import PRESETS, get_preset
from selfattn.models.sizing import body, check_matched, match, parameters
from selfattn.registry import is_name
from selfattn.results.record import BODIES_APART, Matching
from selfattn.runs.task import Budget, Task
from selfattn.runs.train import with_settings
from selfattn.training.config import TrainingConfig

_QUANTITIES: dict[Budget, str] = {
    "parameters": "parameters outside embeddings",
    "body": "parameters of the body (without any axis over the vocabulary)",
    "flops": "training FLOPs a target token",
}


def choose(task: Task, options: CompareOptions) -> dict[str, PlannedModel]:
    """Look the models up and apply their settings.

    A model is named as a preset, or as ``name=preset`` to give a preset another name.

    Args:
        task: gives presets their size before settings are applied.
        options: of the comparison.

    Raises:
        UserError: a model is unknown or named twice, or a setting is not one of a model.
    """
    named = [_named(text) for text in (PRESETS if options.models == ("all",) else options.models)]
    if not named:
        raise SettingError("`models`: no model given; name at least one, or all")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingError(f"`models`: {', '.join(twice)} is named twice; name each model once, or one as name=model")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise SettingError(f"`set` {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    models = {}
    for name, preset in named:
        config = with_settings(task.size(get_preset(preset).config), options.set, name)
        task.check_model(config, preset)
        models[name] = PlannedModel(preset, config)
    return models


def _named(text: str) -> tuple[str, str]:
    name, equals, preset = text.partition("=")
    if equals and (not is_name(name) or not name.isascii() or " " in name):
        raise SettingError(f"`models` {text}: expected name=model, the name of at most 100 letters, digits, - and _")
    return name, preset or text


def primary_pair(task: Task, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two models that a comparison is about: the task's pair, or the only two."""
    pair = task.subject().pair
    if pair and set(pair) <= set(names):
        return pair
    return (names[0], names[1]) if len(names) == 2 else None


def match_models(
    models: Mapping[str, ModelConfig],
    options: CompareOptions,
    *,
    vocab_size: int,
    training: TrainingConfig,
    shape: BatchShape,
) -> tuple[dict[str, ModelConfig], Matching]:
    """Size models for one budget; without a budget, compare their parameters.

    Args:
        models: by name.
        options: say what is to be equal, how much of it, and how far apart models may be.
        vocab_size: of the shared tokenizer.
        training: recipe.
        shape: of a batch.

    Returns:
        The models, and what each has of the budget.

    Raises:
        UserError: a model cannot have that size, or models are too far apart.
    """
    quantity: Budget = options.match or "parameters"
    measure = _measure(quantity, vocab_size, shape, training)
    sized, target = dict(models), None
    if options.match is not None:
        target = options.budget or statistics.median(map(measure, models.values()))
        for name, config in models.items():
            try:
                sized[name] = match(config, target, measure, tolerance=options.match_limit / 2)
            except UserError as error:
                raise UserError(f"{name}: {error}") from None
    counts = {name: measure(config) for name, config in sized.items()}
    if not options.apart:
        _check(counts, quantity, options, options.match_limit)
        if quantity == "parameters":  # which count an output matrix that is no embedding
            _check({name: body(config) for name, config in sized.items()}, "body", options, BODIES_APART)
    limit, apart = options.match_limit, options.apart
    return sized, Matching(options.match or "none", target, counts, limit=limit, allowed_apart=apart)


def _check(counts: Mapping[str, float], quantity: Budget, options: CompareOptions, limit: float) -> None:
    try:
        check_matched(counts, _QUANTITIES[quantity], limit=limit)
    except UserError as error:
        sizes = options.match in (None, "parameters") and options.match != quantity
        advice = "`apart` compares them all the same" + (f", `match` {quantity} sizes them" if sizes else "")
        raise SettingError(f"{str(error).split(': size them')[0]}; {advice}") from None


def _measure(
    quantity: Budget, vocab_size: int, shape: BatchShape, training: TrainingConfig
) -> Callable[[ModelConfig], float]:
    if quantity == "parameters":
        return partial(parameters, vocab_size=vocab_size)
    if quantity == "body":
        return body
    tokens, passes = shape.batch * shape.target, 2 if training.r_drop else 1
    return lru_cache(lambda config: passes * training_flops(config, vocab_size, shape) / tokens)
