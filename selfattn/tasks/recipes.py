"""How models are trained on each task by default. Imports no torch."""

from __future__ import annotations

from dataclasses import replace

from selfattn.models.config import ModelConfig
from selfattn.training.config import TrainingConfig

# One recipe for every architecture, so that a comparison differs in nothing but the model.
_DATES = TrainingConfig(epochs=5, items_per_epoch=40_000, batch_size=64, lr=4e-3, schedule="cosine")

_PHRASES = TrainingConfig(epochs=5, items_per_epoch=40_000, batch_size=64, lr=4e-3, schedule="cosine")
_SENTENCES = TrainingConfig(
    epochs=60,
    batch_size=1024,
    max_tokens=4096,
    lr=4e-3,
    schedule="cosine",
    label_smoothing=0.1,
    average="last",
    average_last=10,
)

_WIDTH, _DROPOUT, _LONGEST = 128, 0.3, 512

LM_RECIPE = TrainingConfig(epochs=10, batch_size=64, max_tokens=16_384, lr=4e-3, schedule="cosine")
"""The settings a language model is trained with, where nothing else is asked for."""

TEST_ITEMS, QUICK_TEST_ITEMS = 5000, 1000
PROBE_ITEMS = 500  # of years, and of formats, that training never shows


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


def translation_recipe(*, phrases: bool, quick: bool = False) -> TrainingConfig:
    """Give the settings every model is trained with on translation, where nothing else is asked for.

    Args:
        phrases: the embedded phrases, which have no end; otherwise a corpus of sentences.
        quick: a training of seconds; default False.

    Example:
        >>> translation_recipe(phrases=False).label_smoothing
        0.1
    """
    recipe = _PHRASES if phrases else _SENTENCES
    if quick:
        return replace(recipe, epochs=2, items_per_epoch=8_000, validation_items=200)
    return recipe


def translation_size(config: ModelConfig, *, phrases: bool) -> ModelConfig:
    """Give a named model the size that translation asks for, by the same rule for all.

    For phrases the size of the preset is enough. For sentences blocks and embeddings get width 128 (the
    Transformer-Tiny of Wu et al. 2021), dropout is 0.3, and one table embeds both languages and is the output's where a
    model allows that: all but RNNs whose output reads state and context side by side. RNN states are three times as
    wide where it does; where it does not, the output layer has the numbers instead.

    Args:
        config: of the preset.
        phrases: the embedded phrases; otherwise a corpus of sentences.

    Example:
        >>>         >>> large = translation_size(PRESETS["transformer"].config, phrases=False)
        >>> large.encoder.dim, large.decoder.num_layers, large.tie_output
        (128, 4, True)
    """
    if phrases:
        return config
    return config.enlarged(width=_WIDTH, dropout=_DROPOUT, longest=_LONGEST)
