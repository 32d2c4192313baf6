"""The dates task: train and evaluate. `python -m tasks.dates` takes the settings of `selfattn train dates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.cli.app import make_app, run_app
from selfattn.cli.given_options import chosen_columns
from selfattn.cli.settings import DEFAULT_LOCALES, TrainDates, TrainingOptions, command_line, with_settings
from selfattn.console import say
from selfattn.data.dates.probes import unseen_formats, unseen_years
from selfattn.data.pairs import Pair
from selfattn.data.readers.pair_files import is_book_file, read_pairs
from selfattn.data.splits import book_split, seen
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import UserError
from selfattn.evaluation.metrics.evaluate import evaluate, format_json
from selfattn.evaluation.metrics.metric import score_outputs
from selfattn.models.presets import get_preset
from selfattn.runs.directory import RunConfig, check_is_free
from selfattn.runs.fit import Material, exact_match, fit
from selfattn.runs.run import Run
from selfattn.runs.splits import PairData
from selfattn.runs.task import Lesson, Task
from selfattn.runs.training_set import make_material, trained_on
from selfattn.tasks.date_data import EmbeddedDates, FileDates, Given, files_of, open_data
from selfattn.tasks.recipes import TEST_ITEMS, dates_recipe
from selfattn.tokenizers.char import CharTokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import is_main_process

TASK = "dates"


def train_dates(options: TrainDates) -> Run:
    """Train one model to write dates in ISO form, and keep the run in ``options.out``.

    Args:
        options: see :class:`selfattn.cli.settings.TrainDates`.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    if not options.resume:
        check_is_free(options.out)
    model = with_settings(get_preset(options.model).config, options.set, options.model)
    training = training_config(options.training, seed=options.seed, quick=options.quick, from_file=bool(options.data))
    data = make_data(Given(options.data, chosen_columns(options.columns), options.locales), training)
    material, max_length = prepare(data, training)
    config = RunConfig(TASK, options.model, model, training, data.settings, max_length)
    return fit(
        config, material, options.out, command=command_line("selfattn train dates", options), **options.for_fit()
    )


def training_config(given: TrainingOptions, *, seed: int, quick: bool, from_file: bool) -> TrainingConfig:
    """Return the recipe with the settings that were given."""
    return given.applied_to(dates_recipe(quick=quick, from_file=from_file), seed=seed)


def make_data(given: Given, training: TrainingConfig) -> PairData:
    """Open the files, or where there are none the embedded source.

    Raises:
        UserError: files and locales, columns without a file, a file that is not usable, or an unknown locale.
    """
    if not given.files:
        if given.columns is not None:
            raise UserError("--columns is for files of pairs: give one with --data, or leave it out")
        return EmbeddedDates(given.locales, training.seed)
    if tuple(given.locales) != DEFAULT_LOCALES:
        raise UserError("--locales chooses embedded dates, --data takes pairs from a file; give one of them")
    return FileDates(given.files, given.columns, training.seed, training.validation_items)


def prepare(
    data: PairData, training: TrainingConfig, *, keep: bool = False, first: int | None = None
) -> tuple[Material, int]:
    """Make the vocabulary of characters and everything else that models are trained on.

    Args:
        data: where pairs come from.
        training: says how many.
        keep: keep the examples of every epoch, for the next model that is trained on the same; default False.
        first: train on so many pairs only, again and again; default all there are.

    Returns:
        The material, and the most tokens an output may have: twice as many as the longest seen.
    """
    tokenizer = CharTokenizer.train(text for pair in data.sample() for text in (pair.source, pair.target))
    return make_material(data, tokenizer, training, exact_match, keep=keep, first=first)


class DatesTask(Task):
    """The dates task as a comparison needs it.

    Args:
        given: the files of pairs, or the locales of the embedded dates.
        training: how, with seed 0.
        test_items: at most so many; None for a file's whole test part.
        probe_items: dates of years, and in formats, that training never shows; 0 asks for none.
    """

    name = TASK
    metrics = ("exact_match", "character_error_rate")

    def __init__(
        self,
        given: Given,
        training: TrainingConfig,
        *,
        test_items: int | None,
        probe_items: int = 0,
    ) -> None:
        self.given, self.training = given, training
        self.test_items, self.probe_items = test_items, probe_items

    def lesson(self, training: TrainingConfig, *, first: int | None = None) -> Lesson:
        """Open the data and make the vocabulary."""
        data = make_data(self.given, training)
        material, max_length = prepare(data, training, keep=True, first=first)

        return Lesson(
            training,
            material,
            max_length,
            data.settings | ({} if first is None else {"first": first}),
            data.test(self.test_items),
            data.validation(training.validation_items),
            partial(trained_on, data, training, first),
            self._probes(),
        )

    def _probes(self) -> dict[str, Sequence[Pair]]:
        """Dates of years, and in formats, that training never shows."""
        if not self.probe_items:
            return {}
        found: dict[str, Sequence[Pair]] = {"unseen years": unseen_years(self.given.locales, self.probe_items)}
        try:
            found["unseen formats"] = unseen_formats(self.given.locales, self.probe_items)
        except UserError:  # CLDR has no further formats for these locales
            return found
        return found

    def scores(self, predictions: Sequence[str], pairs: Sequence[Pair]) -> dict[str, float]:
        """Exact match and character error rate."""
        return score_outputs(self.metrics, predictions, [pair.target for pair in pairs])


def pairs_to_test(
    run: Run, data: Sequence[Path] = (), columns: tuple[str, str] | None = None
) -> tuple[list[Pair], Sequence[Pair] | None]:
    """Choose the pairs to test a run on.

    Without files: the test part of what the run was trained on. With files: the test part of the book's, which has a
    split of its own, and of those that the run was trained on; else all of them.

    Args:
        run: a run of this task.
        data: two parallel files or one file of pairs; default none.
        columns: of source and target in one file; see `selfattn.data.readers.pair_files.read_pairs`.

    Returns:
        The pairs, and where they could be shared, everything that training could see of the same source.

    Raises:
        UserError: the file or the run's settings are not usable.
    """
    where = str(run.path / "config.json")
    settings = run.config.data
    if not data or files_of(settings) == [path.resolve() for path in data]:
        own = open_data(settings, where=where)
        return own.test(TEST_ITEMS if settings.get("kind") == "embedded" else None), own.known()
    pairs = read_pairs(*data, columns=columns)
    return (book_split(pairs)[1] if is_book_file(*data) else pairs), None


def evaluate_dates(
    run: Run,
    data: Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    columns: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Test a run on pairs it has not been trained on.

    Args:
        run: a run of this task.
        data: files; see :func:`pairs_to_test`. Default: what the run was trained on.
        options: how to decode; default greedily.
        columns: of source and target in one file.

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
    pairs, known = pairs_to_test(run, data, columns)
    evaluation = evaluate(lambda texts: run.predict(texts, options), pairs)
    found: dict[str, Any] = {
        "task": TASK,
        "run": str(run.path),
        "model": run.config.preset,
        "data": " ".join(map(str, data)) or _describe(run.config.data),
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
        return f"{' '.join(map(str, files_of(settings)))}, test part"
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
    if is_main_process():
        say(f"{options.out}: done; try: selfattn evaluate {options.out}")


if __name__ == "__main__":
    main()
