"""How many tokens of an input a run reads: what its model has positions for, and a bound where it has all."""

from __future__ import annotations

from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError
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
    limits = config.model.limits()
    if limits.together is None:
        return limits.source, limits.target
    if not TASKS[config.task].takes_pairs:  # of a beginning it reads half a context, the end
        return None, limits.together - max(1, config.max_length // 2)
    return max(1, limits.together - output), limits.together - 1
