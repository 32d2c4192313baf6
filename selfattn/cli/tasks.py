"""The commands `train NAME` and `compare NAME` of each task, and `compare outputs`, `scores` and `together`."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from selfattn.cli.config import MakeCommands, read_recipe
from selfattn.cli.options import changed_settings, check_given, check_language, command, make_app, parameters_of, takes
from selfattn.codec import encode
from selfattn.comparison.options import CompareOptions, OutputsOptions, ScoresOptions, systems_of
from selfattn.data.readers.groups import named_sets
from selfattn.errors import UserError, say
from selfattn.processes import is_main_process
from selfattn.registry import TASKS
from selfattn.runs.task import TaskData
from selfattn.settings import check_conditions, command_line, needs
from selfattn.training.config import TrainingConfig
from selfattn.words.messages import SOURCE, Lang

_TRAINING = "Training (defaults: the recipe of the task)"
_BASIC = ("epochs", "batch_size", "lr")
_FOLDER = Path("compare/together")
_RECIPE = needs("`recipe`", lambda options: options.recipe is not None, "out", "resume")
_OUTPUTS = parameters_of(OutputsOptions)
_SCORES = parameters_of(ScoresOptions)


def add_tasks(group: App, arguments: Sequence[str], make_commands: MakeCommands) -> None:
    """Add the commands of every task to a group.

    Args:
        group: ``train`` or ``compare``.
        arguments: those of the call. Only the command that they name gets its options.
        make_commands: makes the program for a command line.
    """
    is_training = group.name == ("train",)
    named = arguments[1] if len(arguments) > 1 else ""
    for name, task in TASKS.items():
        if name == named:
            group.command(train_command(task) if is_training else compare_command(task), name=name)
        else:
            help = task.train_help if is_training else task.compare_help
            group.command(make_app(name, help=help or task.__doc__ or ""))
    if is_training:
        return
    for judge in (outputs, scores):
        word = judge.__name__
        if word in TASKS:
            raise UserError(f"task {word!r}: compare {word} judges files of {word}; give the task another name")
        group.command(judge)
    group.command(together_command(make_commands), name="together")


def train_command(task: type[TaskData]) -> Callable[..., None]:
    """Make the command that trains one model on a task."""
    from selfattn.runs.train import TrainOptions, train

    of_run = parameters_of(TrainOptions, defaults={"model": task.model})
    parameters = [*of_run, *parameters_of(task.Options), *_training_parameters()]

    @takes(*parameters)
    def run(**settings: Any) -> None:
        model = {"model": settings["model"]} if "model" in settings else {}  # the default too, if it is asked for
        train(task.name, **changed_settings(settings, parameters) | model)
        if is_main_process():
            out = settings["out"]
            say(f"{out}: done; try: {command_line(f'{task.suggested} {shlex.quote(str(out))}', {})}")

    run.__doc__ = task.train_help or task.__doc__
    return command(run)


def compare_command(task: type[TaskData]) -> Callable[..., None]:
    """Make the command that compares models on a task."""
    from selfattn.experiments.plan import PLAN

    defaults = {"models": task.models, "out": Path("compare") / task.name, "match": task.match, "budgets": task.budgets}
    of_comparison = parameters_of(CompareOptions, defaults=defaults)
    of_task = [*parameters_of(task.TestOptions), *parameters_of(task.Options)]
    parameters = [*of_comparison, *of_task, *_training_parameters()]

    @takes(*parameters)
    def run(**settings: Any) -> None:
        from selfattn.comparison.compare import compare, forecast

        out = settings.get("out", defaults["out"])
        settings = changed_settings(settings, parameters)
        if settings.get("plan_only"):
            print("\n".join(forecast(task.name, **settings)))
            return
        try:
            record, files = compare(task.name, **settings)
        except KeyboardInterrupt:
            if (out / PLAN).is_file():
                say(f"stopped; {out} keeps the finished runs: repeat the command with --resume")
            raise
        _print_summary(record, files, settings)

    run.__doc__ = task.compare_help or task.__doc__
    return command(run)


def _print_summary(record: Any, files: Any, options: Mapping[str, Any]) -> None:
    """Print the first screen of a report in the language of the options. Only now is the report imported."""
    from selfattn.report.text import print_summary

    print_summary(record, report=files.html, lang=options.get("lang", SOURCE))


def _training_parameters() -> list[inspect.Parameter]:
    not_given = dict.fromkeys(TrainingConfig.__dataclass_fields__)
    return parameters_of(TrainingConfig, defaults=not_given, leave_out=("seed", "betas"), group=_TRAINING, basic=_BASIC)


@command
@takes(*_OUTPUTS)
def outputs(**options: Any) -> None:
    """Compare systems by their outputs, whoever trained them.

    Each system has a file for each training (seed), with an output a line. With several files of each, intervals and
    tests are over trainings and test items; with one, over the items alone. Nothing is trained.
    """
    from selfattn.comparison.outputs import compare_outputs

    settings = changed_settings(options, _OUTPUTS)
    systems = systems_of(settings.pop("system"))
    record, files = compare_outputs(settings.pop("reference"), systems, **settings)
    _print_summary(record, files, options)


@command
@takes(*_SCORES)
def scores(file: Path | None = None, /, **options: Any) -> Iterable[str] | None:
    """Compare systems by a table of scores, whoever computed them.

    The table (CSV, TSV, JSON lines, Parquet) has a row for each score: columns system, item and score (true, false or a
    number); if wanted run (a training), metric (the first decides), cluster (items that depend on one another) and
    group (a part of the test). With several runs of each system, intervals and tests are over runs and items; with one,
    over the items alone.
    """
    from selfattn.comparison.scores import compare_scores, plan_scores

    settings = changed_settings(options, _SCORES)
    checked = ScoresOptions(**settings)
    check_conditions(settings, checked, ScoresOptions.conditions)
    if (file is None) == (checked.plan is None) or (checked.plan and checked.detect is None):
        raise UserError("compare scores: give the FILE of scores, or --plan PILOT with --detect DIFFERENCE")
    if checked.plan is not None:
        return plan_scores(settings.pop("plan"), settings.pop("detect"), **settings)
    record, files = compare_scores(file, **settings)
    _print_summary(record, files, options)
    return None


def together_command(make_commands: MakeCommands) -> Callable[..., dict[str, Any] | Iterable[str]]:
    """Make the command that puts comparisons on several tasks together.

    Args:
        make_commands: makes the program for a command line, to read a recipe's options.
    """

    def together(
        *comparisons: Annotated[str, Parameter(allow_leading_hyphen=True)],
        recipe: Path | None = None,
        out: Path | None = None,
        resume: bool = False,
        lang: Lang = SOURCE,
        json_: Annotated[bool, Parameter("--json")] = False,
    ) -> dict[str, Any] | Iterable[str]:
        """Put comparisons of the same models on several tasks together, with one verdict over all.

        A row a task, such as a language; below, the mean difference over tasks with its interval to further tasks of
        this kind, and the interquartile mean and the probability of improvement on these tasks (Agarwal et al. 2021).

        Args:
            comparisons: Directories of finished comparisons, each as NAME=DIRECTORY. Three or more. Nothing is
                trained. With --recipe: options of `compare TASK` instead, such as --epochs 3, which replace those of
                the recipe.
            recipe: Recipe that lists data sets, instead of comparisons: one comparison after the other is trained.
            out: With --recipe: directory of the comparisons, one folder each. Must be new. Default: compare/together.
            resume: With --recipe: continue in --out. Finished runs are not repeated.
            lang: Language of the printed lines, and of reports.
            json_: Print the results as one JSON object.
        """
        check_language(lang, json=json_)
        check_given([_RECIPE], recipe=recipe, out=out, resume=resume)
        if recipe is not None and comparisons and not comparisons[0].startswith("-"):
            raise UserError(f"--recipe trains its own comparisons: leave it or {comparisons[0]} out")
        if recipe is not None:
            from selfattn.comparison.together import compare_each

            task, settings = read_recipe(recipe, make_commands, comparisons)
            place = out or _FOLDER
            try:
                places = compare_each(task, settings, place, resume=resume, lang=lang)
            except KeyboardInterrupt:
                if place.is_dir():
                    say(f"stopped; {place} keeps the finished runs: repeat the command with --resume")
                raise
        else:
            for word in comparisons:
                if word.startswith("-"):
                    raise UserError(f"Unknown option: {word}. Options of the comparisons go with --recipe")
            sets = named_sets([Path(word) for word in comparisons], "comparisons")
            if not sets or "" in sets or any(len(paths) > 1 for paths in sets.values()):
                advice = "give each comparison as NAME=DIRECTORY, such as kor=compare/kor, or a --recipe"
                raise UserError(f"compare together: {advice}")
            places = {name: paths[0] for name, paths in sets.items()}
        from selfattn.comparison.together import over_tasks, read_together, remarks, together_lines

        records = read_together(places)
        verdicts = over_tasks(records)
        if json_:
            return {"verdicts": [encode(verdict) for verdict in verdicts], "remarks": list(remarks(records))}
        lines: list[str] = []
        for verdict in verdicts:
            lines += [*together_lines(verdict, lang), ""]
        return [*lines, *remarks(records, lang)]

    return command(together)
