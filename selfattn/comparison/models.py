"""Models of a comparison: look them up, apply settings, and size them for one budget."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import PlannedModel
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.cost import BatchShape, training_flops
from selfattn.models.config import ModelConfig
from selfattn.models.presets import PRESETS, get_preset
from selfattn.models.sizing import body, match, parameters, spread
from selfattn.results.record import BODIES_APART, Gate, Matching
from selfattn.runs.task import Resource, TaskData
from selfattn.runs.train import with_settings
from selfattn.training.config import TrainingConfig


def choose(task: TaskData, options: CompareOptions) -> dict[str, PlannedModel]:
    """Look the models up and apply their settings.

    A model is named as a preset, or as ``name=preset`` to give a preset another name.

    Args:
        task: gives presets their size before settings are applied.
        options: of the comparison.

    Raises:
        UserError: a model is unknown or named twice, or a setting is not one of a model.
    """
    named = [text.partition("=") for text in (PRESETS if options.models == ("all",) else options.models)]
    names = [name for name, *_ in named]
    if len(set(names)) < len(names) or not names:
        raise SettingError(f"`models` {','.join(names)}: expected different names; give one of two as name=model")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise SettingError(f"`set` {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    models = {}
    for name, _, of_preset in named:
        preset = of_preset or name
        try:
            config = with_settings(task.size(get_preset(preset).config), options.set, name)
        except UserError as error:
            raise SettingError(f"{name}: {error}") from None
        task.check_model(config, preset)
        models[name] = PlannedModel(preset, config)
    return models


def primary_pair(task: TaskData, names: Sequence[str]) -> tuple[str, str] | None:
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
        options: say what is to be equal, and whether models may be apart all the same.
        vocab_size: of the shared tokenizer.
        training: recipe.
        shape: of a batch.

    Returns:
        The models, and what each has of the budget.

    Raises:
        UserError: a model cannot have that size, or models are too far apart.
    """
    budget: Resource | None = None if options.match is None or options.match == "none" else options.match
    quantity: Resource = budget or "parameters"
    measure = _measure(quantity, vocab_size, shape, training)
    sized = dict(models)
    target = None
    if budget is not None:
        target = statistics.median(map(measure, models.values()))
        for name, config in models.items():
            try:
                sized[name] = match(config, target, measure)
            except UserError as error:
                raise UserError(f"{name}: {error}") from None
    counts = {name: measure(config) for name, config in sized.items()}
    matching = Matching(budget or "none", target, counts, allowed_apart=options.apart)
    gate = check_sizes(matching, sized)
    if not gate.passed:
        sizes = "" if budget in ("body", "flops") else ", `match` body sizes them"
        raise SettingError(f"{gate.reason}; `apart` compares them all the same{sizes}")
    return sized, matching


def check_sizes(matching: Matching, models: Mapping[str, ModelConfig]) -> Gate:
    """Check whether models have the same size: within the limit in what was counted, and their bodies roughly.

    Args:
        matching: has the count of each model.
        models: by name.
    """
    counts = matching.counts
    smallest, largest, share = spread(counts)
    too_far = False
    quantity = {"flops": "flops", "body": "parameters of the body"}.get(
        matching.budget, "parameters outside embeddings"
    )
    reason = f"{quantity}: {largest} has {counts[largest]:,.4g}, {share:.1%} more than "
    reason += f"{smallest} with {counts[smallest]:,.4g}"
    if matching.budget in ("none", "parameters"):  # these count an output matrix that is no embedding
        least, most, apart = spread({name: body(config) for name, config in models.items()})
        too_far = apart > BODIES_APART
        reason += f"; without any axis over the vocabulary {most} has {apart:.1%} more than {least}"
    is_matched = share <= matching.limit and not too_far
    if matching.allowed_apart and not is_matched:
        reason += "; the comparison was asked for all the same"
    passed = is_matched or matching.allowed_apart
    return Gate("matched budgets", passed, reason, value=share, limit=matching.limit)


def _measure(
    quantity: Resource, vocab_size: int, shape: BatchShape, training: TrainingConfig
) -> Callable[[ModelConfig], float]:
    if quantity == "parameters":
        return partial(parameters, vocab_size=vocab_size)
    if quantity == "body":
        return body
    tokens = shape.batch * shape.target
    passes = 2 if training.r_drop else 1
    return lru_cache(lambda config: passes * training_flops(config, vocab_size, shape) / tokens)
