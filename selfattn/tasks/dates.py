"""The dates task: train and evaluate. `python -m tasks.dates` takes the settings of `selfattn train dates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.data.batches import Example, encode_pairs
from selfattn.data.files import book_split, is_book_file, read_pairs, seen
from selfattn.data.pairs import Pair
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import UserError
from selfattn.evaluation.evaluate import evaluate, format_json
from selfattn.models.presets import get_preset
from selfattn.tasks.command import make_app, run_app, say
from selfattn.tasks.date_data import DateData, EmbeddedDates, FileDates, open_data
from selfattn.tasks.fit import Material, exact_match, fit
from selfattn.tasks.options import DEFAULT_LOCALES, TrainDates, TrainingOptions, command_line, with_settings
from selfattn.tasks.recipes import TEST_ITEMS, dates_recipe
from selfattn.tasks.run import Run
from selfattn.tokenizers.char import CharTokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.run_dir import RunConfig, check_is_free

TASK = "dates"


def train_dates(options: TrainDates) -> Run:
    """Train one model to write dates in ISO form, and keep the run in ``options.out``.

    Args:
        options: see :class:`selfattn.tasks.options.TrainDates`.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    check_is_free(options.out)
    model = with_settings(get_preset(options.model).config, options.set, options.model)
    training = training_config(
        options.training, seed=options.seed, quick=options.quick, from_file=options.data is not None
    )
    data = make_data(options.data, options.locales, training)
    material, max_length = prepare(data, training)
    config = RunConfig(TASK, options.model, model, training, data.settings, max_length)
    return fit(config, material, options.out, command=command_line("selfattn train dates", options))


def training_config(given: TrainingOptions, *, seed: int, quick: bool, from_file: bool) -> TrainingConfig:
    """Return the recipe with the settings that were given."""
    return given.applied_to(dates_recipe(quick=quick, from_file=from_file), seed=seed)


def make_data(path: Path | None, locales: Sequence[str], training: TrainingConfig) -> DateData:
    """Open the file, or where there is none the embedded source.

    Raises:
        UserError: a file and locales, a file that is not usable, or an unknown locale.
    """
    if path is None:
        return EmbeddedDates(locales, training.seed)
    if tuple(locales) != DEFAULT_LOCALES:
        raise UserError("--locales chooses embedded dates, --data takes pairs from a file; give one of them")
    return FileDates(path, training.seed, training.validation_items)


def prepare(data: DateData, training: TrainingConfig, *, keep: bool = False) -> tuple[Material, int]:
    """Make the tokenizer and everything else that models are trained on.

    Args:
        data: where pairs come from.
        training: says how many.
        keep: keep the examples of every epoch, for the next model that is trained on the same; default False.

    Returns:
        The material, and the most tokens an output may have: twice as many as the longest seen.
    """
    sample = data.sample()
    tokenizer = CharTokenizer.train(text for pair in sample for text in (pair.source, pair.target))
    kept: dict[int, list[Example]] = {}

    def epoch(number: int) -> Sequence[Example]:
        number = 0 if training.items_per_epoch is None else number  # all of a file, every time
        if number in kept:
            return kept[number]
        examples = encode_pairs(data.train(number, training.items_per_epoch), tokenizer)
        if keep or training.items_per_epoch is None:
            kept[number] = examples
        return examples

    target = max((pair.target for pair in sample), key=len)
    longest = encode_pairs([Pair(max((pair.source for pair in sample), key=len), target)], tokenizer)[0]
    max_length = 2 * len(longest.target)
    validation = data.validation(training.validation_items)
    measure = exact_match(tokenizer, validation, max_length=max_length)
    return Material(tokenizer, epoch, encode_pairs(validation, tokenizer), measure, longest), max_length


def pairs_to_test(run: Run, data: Path | None = None) -> tuple[list[Pair], Sequence[Pair] | None]:
    """Choose the pairs to test a run on.

    Without a file: the test part of what the run was trained on. With a file: its test part if it is the book's,
    which has a split of its own, or the one that the run was trained on; else all of it.

    Args:
        run: a run of this task.
        data: a file; default none.

    Returns:
        The pairs, and where they could be shared, everything that training could see of the same source.

    Raises:
        UserError: the file or the run's settings are not usable.
    """
    where = str(run.path / "config.json")
    settings = run.config.data
    if data is None or settings.get("path") == str(data.resolve()):
        own = open_data(settings, where=where)
        return own.test(TEST_ITEMS if settings.get("kind") == "embedded" else None), own.known()
    pairs = read_pairs(data)
    return (book_split(pairs)[1] if is_book_file(data) else pairs), None


def evaluate_dates(run: Run, data: Path | None = None, options: DecodingOptions = GREEDY) -> dict[str, Any]:
    """Test a run on pairs it has not been trained on.

    Args:
        run: a run of this task.
        data: a file; see :func:`pairs_to_test`. Default: what the run was trained on.
        options: how to decode; default greedily.

    Returns:
        Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``beam``, ``length_penalty``, ``items``,
        ``metrics``, ``intervals``, ``interval``, ``by_format``, ``unknown_characters`` of the inputs, and where test
        pairs may repeat training pairs, the figures for those that do not: ``unseen`` (and ``unseen_casefold``, case
        ignored).

    Raises:
        UserError: the run is of another task, or the file or the run's settings are not usable.
    """
    if run.config.task != TASK:
        raise UserError(f"{run.path}: a run of the task {run.config.task!r}, not of {TASK}")
    pairs, known = pairs_to_test(run, data)
    evaluation = evaluate(lambda texts: run.predict(texts, options), pairs)
    found: dict[str, Any] = {
        "task": TASK,
        "run": str(run.path),
        "model": run.config.preset,
        "data": str(data) if data is not None else _describe(run.config.data),
        "beam": options.beam,
        "length_penalty": options.length_penalty,
    }
    found |= evaluation.to_json()
    found["unknown_characters"] = run.unknown([pair.source for pair in pairs]).total()
    if known is not None:
        for name, casefold in (("unseen", False), ("unseen_casefold", True)):
            places = [k for k, was_seen in enumerate(seen(pairs, known, casefold=casefold)) if not was_seen]
            if places:
                found[name] = format_json(len(places), evaluation.share(places))
    return found


def _describe(settings: Mapping[str, Any]) -> str:
    if settings.get("kind") == "file":
        return f"{settings['path']}, test part"
    return f"embedded dates, {','.join(settings['locales'])}"


def main() -> None:
    """Run `selfattn train dates` under the name of this module."""
    app = make_app("tasks.dates", help="Train one model on dates; the same as `selfattn train dates`.")
    app.default(train_command)
    run_app(app)


def train_command(options: TrainDates) -> None:
    """Train one model to write dates in ISO form.

    The embedded dates come from CLDR and have no end; training and test share no day. Years are 1900 to 2099; a
    two-digit year is read as POSIX does: 69-99 as 19xx, 00-68 as 20xx.
    """
    train_dates(options)
    say(f"{options.out}: done; try: selfattn evaluate {options.out}")


if __name__ == "__main__":
    main()
