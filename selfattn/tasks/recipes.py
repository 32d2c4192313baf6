"""How models are trained on each task by default. Imports no torch."""

from __future__ import annotations

from dataclasses import replace

from selfattn.training.config import TrainingConfig

# One recipe for every architecture, so that a comparison differs in nothing but the model.
_DATES = TrainingConfig(epochs=5, items_per_epoch=40_000, batch_size=64, lr=4e-3, schedule="cosine")

LM_RECIPE = TrainingConfig(epochs=10, batch_size=64, max_tokens=16_384, lr=4e-3, schedule="cosine")
"""The settings a language model is trained with, where nothing else is asked for."""

TEST_ITEMS, QUICK_TEST_ITEMS = 5000, 1000


def dates_recipe(*, quick: bool = False, from_file: bool = False) -> TrainingConfig:
    """Give the settings every model is trained with on dates, where nothing else is asked for.

    Args:
        quick: a training of seconds; default False.
        from_file: pairs come from a file, which is finite, so an epoch is all of it; default False.

    Example:
        >>> dates_recipe(from_file=True).items_per_epoch is None
        True
    """
    if quick:
        return replace(_DATES, epochs=3, items_per_epoch=16_000, validation_items=200)
    return replace(_DATES, epochs=10, items_per_epoch=None) if from_file else _DATES
