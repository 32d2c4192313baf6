"""How many tokens of an input a run is given to read: what its model has positions for, and a bound where it has all.

Imports no torch.
"""

from __future__ import annotations

from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError
from selfattn.models.config import EncoderDecoderConfig, RNNDecoderConfig, TransformerConfig
from selfattn.registry import TASKS
from selfattn.runs.directory import RunConfig


def input_limit(config: RunConfig, options: DecodingOptions, asked: int | None = None) -> int:
    """Say how many tokens an input may have, its end counted.

    Args:
        config: of the run.
        options: how outputs are decoded; a decoder-only model has its positions for input and output together.
        asked: by the user; default nothing.

    Raises:
        UserError: more is asked for than the model can read or write, or an input of less than one token.
    """
    if asked is not None and asked < 1:
        raise SettingError(f"`max_input`: expected a whole number of at least 1, got {asked}")
    readable, writable = _limits(config, config.max_length if options.max_length is None else options.max_length)
    if writable is not None and options.max_length is not None and options.max_length > writable:
        raise SettingError(
            f"`max_length`: an output of {options.max_length} tokens is longer than the model can write; give at most "
            f"{writable}"
        )
    if readable is not None and asked is not None and asked > readable:
        raise SettingError(f"`max_input` {asked}: the model can read {readable} tokens; give no more")
    usual = TASKS[config.task].max_input
    return asked or (usual if readable is None else min(usual, readable))


def _limits(config: RunConfig, output: int) -> tuple[int | None, int | None]:
    """Most tokens to read, where ``output`` tokens are to be written, and most to write; None where all will do."""
    model = config.model
    if isinstance(model, EncoderDecoderConfig):
        decoder = model.decoder
        return _least(_positions(model.encoder), _attended(decoder)), _positions(decoder)
    positions = _positions(model.stack)
    if positions is None:
        return None, None
    if not TASKS[config.task].takes_pairs:  # of a beginning it reads half a context, the end
        return None, positions - max(1, config.max_length // 2)
    return max(1, positions - output), positions - 1


def _positions(part: object) -> int | None:
    """How many positions a stack has; None for one that has them all."""
    if isinstance(part, TransformerConfig) and (part.position == "learned" or part.score == "location"):
        return part.max_length
    return None


def _attended(decoder: RNNDecoderConfig | TransformerConfig) -> int | None:
    """How many source positions a decoder can attend to; None for one that can attend to any number."""
    if decoder.score != "location":
        return None
    if isinstance(decoder, TransformerConfig):
        return decoder.max_length
    return None if decoder.attention in ("none", "peeky") else decoder.max_source_length


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
