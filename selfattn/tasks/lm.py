"""A language model on plain text: train and evaluate. `python -m tasks.lm` does what `selfattn train lm` does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.cli.app import make_app, run_app
from selfattn.cli.settings import TrainLM, command_line, with_settings
from selfattn.console import say
from selfattn.data.examples import Example
from selfattn.data.readers.lines import TextFile, file_sha256, read_texts
from selfattn.data.shuffling import repeated
from selfattn.data.splits import hold_out
from selfattn.decoding.language_model import score_texts, text_examples
from selfattn.errors import UserError
from selfattn.models.config import ModelConfig
from selfattn.models.presets import get_preset
from selfattn.models.protocol import Seq2Seq
from selfattn.runs.directory import RunConfig, check_is_free
from selfattn.runs.fit import Material, fit
from selfattn.runs.run import LANGUAGE_MODEL, Run
from selfattn.tasks.recipes import LM_RECIPE
from selfattn.tokenizers.char import CharTokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import is_main_process
from selfattn.training.validation import Criterion


def train_lm(options: TrainLM) -> Run:
    """Train a language model on the characters of a text file, and keep the run in ``options.out``.

    Args:
        options: see :class:`selfattn.cli.settings.TrainLM`.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    if not options.resume:
        check_is_free(options.out)
    model = with_settings(get_preset(options.model).config, options.set, options.model)
    _check(options, model)
    training = options.training.applied_to(LM_RECIPE, seed=options.seed)
    if training.target_exact_match is not None:
        raise UserError("--target-exact-match: a language model has no exact match; leave it out")
    texts = read_texts(options.data)
    train, valid = _parts(options, texts, training.validation_items)
    settings = {
        "kind": "text",
        "path": str(options.data.resolve()),
        "sha256": file_sha256(options.data),
        "valid": None if options.valid is None else str(options.valid.resolve()),
        "lines": len(train),
        "valid_lines": len(valid),
        "empty_lines": texts.empty,
        "context": options.context,
    }
    config = RunConfig(LANGUAGE_MODEL, options.model, model, training, settings, options.context)
    notes = [f"{options.data}: {texts.empty:,} empty lines skipped"] if texts.empty else []
    command = command_line("selfattn train lm", options)
    material = _prepare(train, valid, training, options.context)
    return fit(config, material, options.out, command=command, notes=notes, **options.for_fit())


def _check(options: TrainLM, model: ModelConfig) -> None:
    """Find out before any work is done whether the model can be a language model."""
    if options.context < 1:
        raise UserError(f"--context: expected a whole number of at least 1, got {options.context}")
    try:
        model.check_language_model()
    except UserError as error:
        raise UserError(f"--model {options.model}: {error}; take decoder-only") from None


def _parts(options: TrainLM, texts: TextFile, most: int) -> tuple[list[str], list[str]]:
    """The lines to train on, and those to choose the best weights by."""
    if options.valid is not None:
        return texts.lines, read_texts(options.valid).lines
    train, valid = hold_out(texts.lines, lambda line: line, most)
    if not valid:
        raise UserError(f"{options.data}: fewer than 10 different lines; give more, or another file with --valid")
    return train, valid


def _prepare(train: Sequence[str], valid: Sequence[str], training: TrainingConfig, context: int) -> Material:
    """Make the tokenizer and everything else that the model is trained on."""
    tokenizer = CharTokenizer.train(train)
    windows = text_examples(train, tokenizer, context)

    def epoch(number: int) -> Sequence[Example]:
        count = training.items_per_epoch
        return windows if count is None else repeated(windows, count, start=number * count, seed=training.seed)

    validation = text_examples(valid, tokenizer, context)
    longest = max([*windows, *validation], key=lambda example: len(example.target))
    return Material(tokenizer, epoch, validation, Criterion(_perplexity, "perplexity", higher_is_better=False), longest)


def _perplexity(model: Seq2Seq, loss: float) -> Mapping[str, float]:
    return {"perplexity": math.exp(loss)}


def evaluate_lm(run: Run, data: Path | None) -> dict[str, Any]:
    """Measure how well a run foretells a text.

    Args:
        run: a language model.
        data: a text file, one text a line; must be given.

    Returns:
        Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``items`` (lines), ``empty_lines`` that were
        skipped, ``characters``, ``tokens``, ``context``, ``metrics`` (``perplexity`` a token, ``bits_per_character``
        and ``loss`` in nats a token) and ``unknown_characters``.

    Raises:
        UserError: the run is of another task, or the file is missing or not usable.
    """
    if not run.is_language_model:
        raise UserError(f"{run.path}: a run of the task {run.config.task!r}, not a language model")
    if data is None:
        raise UserError("evaluate: a language model is measured on a text; give one with --data")
    texts = read_texts(data)
    found = score_texts(run.model, run.tokenizer, texts.lines, context=run.config.max_length)
    return {
        "task": LANGUAGE_MODEL,
        "run": str(run.path),
        "model": run.config.preset,
        "data": str(data),
        "items": len(texts.lines),
        "empty_lines": texts.empty,
        "characters": found.characters,
        "tokens": found.tokens,
        "context": run.config.max_length,
        "metrics": {
            "perplexity": found.perplexity,
            "bits_per_character": found.bits_per_character,
            "loss": found.loss,
        },
        "unknown_characters": run.unknown(texts.lines).total(),
    }


def train_command(options: TrainLM) -> None:
    """Train a language model on the characters of a text file; the best weights are those of the lowest perplexity."""
    train_lm(options)
    if is_main_process():
        say(f"{options.out}: done; try: selfattn predict {options.out}")


def main() -> None:
    """Run `selfattn train lm` under the name of this module."""
    app = make_app("tasks.lm", help="Train a language model on plain text; the same as `selfattn train lm`.")
    app.default(train_command)
    run_app(app)


if __name__ == "__main__":
    main()
