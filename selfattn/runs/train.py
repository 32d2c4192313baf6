"""Train one model on a task, from settings to a run. Imports torch only when a training begins."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, fields, replace
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

from annotated_types import Ge, Le

from selfattn.codec import encode, parse
from selfattn.errors import SettingError, UserError, describe_error, number_of, say
from selfattn.models.config import ModelConfig, override
from selfattn.registry import METRICS
from selfattn.runs.task import TaskData, make_task, task_class
from selfattn.settings import (
    Condition,
    Count,
    Seed,
    Settings,
    check_conditions,
    check_options,
    command_line,
    divide,
    excludes,
    needs,
    non_default,
    shown,
)
from selfattn.streams import training_lock
from selfattn.training.config import MOST_THREADS, TrainingConfig, TrainingSettings

if TYPE_CHECKING:
    from selfattn.runs.run import Run
    from selfattn.training.observer import Observer


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Settings of every training of one model, besides those of the task and of how it is trained.

    Attributes:
        model: Model to train, by name. `selfattn models` lists them.
        out: Directory for the run. Must not contain a run yet, except with --resume.
        seed: Seed of all random streams.
        quick: Train briefly, for a first try.
        init_from: Run to start from, or a Marian model of Hugging Face (opus-mt): model, weights and tokenizer. A
            directory or hf://USER/NAME.
        allow_unknown: With --init-from: accept targets with many characters that the run does not know.
        embeddings: Pretrained embeddings, a text file of word2vec or GloVe, as first values of the tables.
        source_embeddings: The same for the sources alone.
        target_embeddings: The same for the targets alone.
        freeze: Weights that stay as they are: encoder, decoder, embeddings, or a pattern such as *.fc1.*.
        links: Word links i-j of training pairs, for --guided: a file of source, target and links, or three files,
            LINKS SOURCES TARGETS, line by line.
        set: Model setting as name=value, such as encoder.dim=128. A wrong name lists the right ones. May be repeated.
        metric: Metric that chooses the best weights, by name, or loss for the lowest validation loss. Default: the
            first metric of the task.
        keep: Keep the weights of the last N validations too, for `selfattn average`.
        resume: Continue the training in --out, to the same result. A larger --epochs lengthens a finished training.
        device: Device to compute on, such as cpu, cuda or cuda:1. auto takes a GPU if there is one.
        threads: CPU threads. Default: 1, or 2 for a model of at least 10 million parameters.
        tensorboard: Directory for TensorBoard learning curves.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        excludes("`embeddings`", lambda options: options.embeddings, "source_embeddings", "target_embeddings"),
        needs("`init_from`", lambda options: options.init_from is not None, "allow_unknown"),
    )
    groups: ClassVar[Mapping[str, Sequence[str]]] = {"Run": ("resume", "device", "threads", "tensorboard")}

    model: str = ""
    out: Path
    seed: Seed = 0
    quick: bool = False
    init_from: Path | None = None
    allow_unknown: bool = False
    embeddings: Path | None = None
    source_embeddings: Path | None = None
    target_embeddings: Path | None = None
    freeze: tuple[str, ...] = ()
    links: tuple[Path, ...] = ()
    set: tuple[str, ...] = ()
    metric: str | None = None
    keep: Count | None = None
    resume: bool = False
    device: str = "auto"
    threads: Annotated[int, Ge(1), Le(MOST_THREADS)] | None = None
    tensorboard: Path | None = None

    def __post_init__(self) -> None:
        check_options(self)


class TrainSettings(TrainingSettings, total=False):
    """Fields of :class:`TrainOptions` and of the training as keyword arguments."""

    model: str
    out: str | os.PathLike[str]
    seed: int
    quick: bool
    init_from: str | os.PathLike[str] | None
    allow_unknown: bool
    embeddings: str | os.PathLike[str] | None
    source_embeddings: str | os.PathLike[str] | None
    target_embeddings: str | os.PathLike[str] | None
    freeze: str | Sequence[str]
    links: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    set: str | Sequence[str]
    metric: str | None
    keep: int | None
    resume: bool
    device: str
    threads: int | None
    tensorboard: str | os.PathLike[str] | None


def train(
    task: str | TaskData,
    options: TrainOptions | None = None,
    *,
    training: TrainingSettings | None = None,
    task_options: object = None,
    observers: Sequence["Observer"] = (),
    **settings: Unpack[TrainSettings],
) -> "Run":
    """Train one model and keep the run.

    Settings that are left out come from the task. With plugins, a short training on two batches tries all parts first;
    its result is thrown away.

    Args:
        task: name of the task, such as ``"dates"``; or a task object with its options.
        options: of the training; ``out`` is required.
        training: settings of the training, in place of those of the task's recipe.
        task_options: options of a task that is given by name: settings by name, or an object of ``TaskData.Options``.
        observers: watch the training and may stop it, see :class:`selfattn.training.observer.Observer`.
        settings: fields of ``options`` and ``training`` by name, in place of these two; also options of the task, which
            are checked at run time.

    Returns:
        The run, with its best weights.

    Raises:
        SettingError: a setting is unknown, given twice or out of range.
        UserError: the data or the directory is not usable.
        KeyboardInterrupt: Ctrl-C or SIGTERM stopped the training after a step, and the checkpoint is saved. A second
            signal stops at once.

    Example:
        ``train("dates", model="rnn-attention", out="runs/dates", epochs=3, task_options={"locales": ("ko_KR",)})``
    """
    from selfattn.data.readers.lines import file_sha256
    from selfattn.evaluation.links import read_gold, spans_by_texts
    from selfattn.processes import choose_device, first_interrupt, is_main_process, process_count
    from selfattn.runs.directory import RECORD, check_place
    from selfattn.runs.fit import fit
    from selfattn.runs.record import RunConfig, used_plugins
    from selfattn.runs.start import Start, fill_tables, open_start
    from selfattn.runs.task import decided_by, validation_names
    from selfattn.runs.training_set import make_training_set
    from selfattn.training.loop import LOSS
    from selfattn.training.observer import Observer, StopAtStep, TensorBoardObserver

    if not isinstance(observers, Sequence) or not all(isinstance(observer, Observer) for observer in observers):
        raise SettingError(f"`observers`: expected a list of selfattn.Observer objects, got {shown(observers)}")
    # settings
    task_kind = task_class(task)
    by_name = merge_settings(settings, options, TrainOptions, training, task_options, task_kind.Options)
    of_run, of_training, of_task = divide(by_name, TrainOptions, TrainingConfig, task_kind.Options)
    if "out" not in of_run:
        raise SettingError("`out`: give the directory of the run")
    options = TrainOptions(**of_run)
    choose_device(options.device)  # an unknown or absent device is an error here, before any work
    task = make_task(task, of_task)
    if options.metric is not None and not task.takes_pairs:
        raise SettingError("`metric`: perplexity decides for a language model, as its loss would; leave it out")
    is_by_loss = options.metric == LOSS and LOSS not in METRICS
    usual_metric = validation_names(task)[0] if task.takes_pairs else None
    if options.metric is not None and not is_by_loss:
        if options.metric not in METRICS:
            raise SettingError(f"{METRICS.unknown(options.metric)}; loss is the lowest validation loss")
        task = decided_by(task, options.metric)
    check_place(options.out, resume=options.resume)
    if options.resume and is_main_process() and not (options.out / RECORD).exists():
        say(f"{options.out}: holds no run yet, so a new training begins")
    # model
    start = Start() if options.init_from is None else open_start(options.init_from, task)
    preset, model = _model_of(options, task, start.run)
    task.check_model(model, preset)
    # training and data
    recipe = replace(task.recipe(options.quick), **{**start.recipe, **of_training, "seed": options.seed})
    check_conditions(of_training, recipe, (*TrainingConfig.conditions, *task.training_conditions()))
    if task.is_stream and recipe.max_steps is None:
        raise SettingError("`max_steps`: the data are a stream of unknown length; give the number of steps")
    if "average_last" in of_training:
        _check_average(recipe)
    tokenizer = None if start.run is None else start.run.tokenizer
    if options.links and not recipe.guided:
        raise SettingError("`links`: also needs `guided`, the weight of their loss")
    links = spans_by_texts(read_gold(options.links[0], sentences=options.links[1:])) if options.links else None
    data = make_training_set(task, recipe, tokenizer=tokenizer, allow_unknown=options.allow_unknown, links=links)
    if is_by_loss:
        data = replace(data, criterion=data.criterion.by_loss())
    if start.run is not None:  # whose positions the user does not choose
        max_length = min(data.max_length, model.limits().target or data.max_length)
        data = replace(data, notes=[*start.notes, *data.notes], max_length=max_length)
    sides = ("both", "source", "target")
    tables = (options.embeddings, options.source_embeddings, options.target_embeddings)
    vectors = {side: path for side, path in zip(sides, tables, strict=True) if path is not None}
    chosen = non_default(options)
    for name in TrainOptions.groups["Run"]:  # the result does not depend on these options
        chosen.pop(name, None)
    chosen |= of_training
    if preset == task.model:
        chosen.pop("model", None)
    config = RunConfig(
        task.name,
        preset,
        model,
        recipe,
        data.settings,
        data.max_length,
        init_from=start.sha256,
        longest_source=len(data.longest.source),
        freeze=options.freeze or None,
        embeddings={side: file_sha256(path) for side, path in vectors.items()} or None,
        metric=None if options.metric == usual_metric else options.metric,
        links=tuple(map(file_sha256, options.links)) or None,
        task_options=encode(task.changed_options()),
        options=encode(chosen),
    )
    prepare = partial(fill_tables, tokenizer=data.tokenizer, files=vectors) if vectors else None
    # observers
    stop = StopAtStep()
    watching: list[Observer] = [stop, *observers]
    if options.tensorboard is not None:
        watching.append(TensorBoardObserver(options.tensorboard))
    # trial of the plugins
    if not options.resume and process_count() == 1 and used_plugins(task.name, data.metrics, model):
        brief = replace(config, training=replace(recipe, epochs=1, max_steps=2, warmup_steps=None, average_last=1))
        try:
            with rehearsal() as folder:
                fit(brief, data, folder / "run", command="", device=options.device, start=start.run, prepare=prepare)
        except UserError:
            raise
        except Exception as error:  # of a part; one line says where
            place = extract_tb(error.__traceback__)[-1]
            raise UserError(f"{place.filename}:{place.lineno}: {describe_error(error)}") from error
    command = command_line(f"train {task.name}", chosen | task.changed_options())
    # the run
    with first_interrupt(stop.request):
        return fit(
            config,
            data,
            options.out,
            command=command,
            resume=options.resume,
            device=options.device,
            threads=options.threads,
            observers=watching,
            start=start.run,
            prepare=prepare,
            keep=options.keep or 0,
        )


@contextmanager
def rehearsal() -> Iterator[Path]:
    """Say that plugins are tried, and be silent inside a ``with`` block; its folder is thrown away."""
    say("plugins: all parts are tried on two batches first")
    with training_lock("plugins"), TemporaryDirectory() as folder, redirect_stderr(StringIO()):
        yield Path(folder)


def _model_of(options: TrainOptions, task: TaskData, start: "Run | None") -> tuple[str, ModelConfig]:
    """Return the name and the configuration of the model: that of the run to start from, or the chosen one."""
    from selfattn.models.families import get_preset

    if start is None:
        preset = options.model or task.model
        return preset, with_settings(task.size(get_preset(preset).config), options.set, preset)
    preset = start.config.preset
    model = start.config.model
    if options.model not in ("", preset):
        raise SettingError(f"`model` {options.model}: the model is that of `init_from` ({preset}); leave it out")

    def changes(settings: Sequence[str]) -> bool:
        try:
            return with_settings(model, settings, preset) != model
        except UserError:  # that model cannot be made
            return True

    if changes(options.set):
        first = next((setting for setting in options.set if changes([setting])), options.set[0])
        raise SettingError(f"`set` {first}: the model is that of `init_from`, which is another; leave it out")
    return preset, model


def _check_average(training: TrainingConfig) -> None:
    """Check that ``average_last`` is at most a quarter of the validations, unless their number depends on the data."""
    validations = None
    if training.max_steps is None and training.validate_every is None:
        validations = training.epochs
    elif training.max_steps is not None and training.validate_every is not None:
        validations = -(-training.max_steps // training.validate_every)
    if validations is not None and training.average_last > max(1, validations // 4):
        reason = f"the training has {number_of(validations, 'validation')}, of which at most a quarter are averaged"
        advice = f"give {max(1, validations // 4)}, or validate more often"
        raise SettingError(f"`average_last` {training.average_last}: {reason}; {advice}")


def with_settings(config: ModelConfig, settings: Sequence[str], model: str = "") -> ModelConfig:
    """Change a model's configuration by settings ``name=value``, or ``model:name=value`` for one model.

    A value is read as JSON if possible (numbers, ``true``, ``null``), else as text.

    Args:
        config: of the model.
        settings: such as ``["encoder.hidden_dim=64"]``.
        model: name of the model; default none.

    Raises:
        UserError: there is no ``=``, no such setting, or the value is out of range.

    Example:
        >>> from selfattn.models.families import DecoderOnlyConfig
        >>> from selfattn.models.families import TransformerConfig
        >>> with_settings(DecoderOnlyConfig(stack=TransformerConfig()), ["stack.norm=rms", "x:stack.dim=2"]).stack.norm
        'rms'
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise SettingError(f"`set` {setting}: expected name=value, such as `set` encoder.dropout=0.1")
        owner, colon, rest = name.partition(":")
        if colon and owner != model:
            continue
        try:
            value = parse(text.encode())
        except ValueError:
            value = text
        values[(rest if colon else name).strip()] = value
    return override(config, values)


def merge_settings(
    flat: Settings, options: object, kind: type[Any], training: object, task_options: object, *task_kinds: type[Any]
) -> dict[str, Any]:
    """Return the settings of a call by name, wherever they stand.

    Args:
        flat: settings by name.
        options: an object with settings, or None. Fields that have their default count as not given.
        kind: its class.
        training: settings of the training by name, or None.
        task_options: settings of the task by name, an object of one of its classes, or None.
        task_kinds: these classes.

    Raises:
        SettingError: a setting is given twice or in the wrong place, or one of the objects is of another class.

    Example:
        >>> merge_settings({"lr": 0.1}, None, TrainOptions, {"epochs": 3}, None)
        {'lr': 0.1, 'epochs': 3}
    """
    settings = dict(flat)
    if options is not None:
        if not isinstance(options, kind):
            raise SettingError(f"`options`: expected {kind.__name__}, got {shown(options)}")
        for field in fields(kind):
            if field.name in settings:
                raise SettingError(f"`{field.name}`: beside `options`; set it there")
        settings |= non_default(options)
    of_task = non_default(task_options) if isinstance(task_options, task_kinds) else task_options
    groups = {"training": _by_name("training", training), "task_options": _by_name("task_options", of_task)}
    if "seed" in groups["training"]:
        raise SettingError("`seed`: it is no part of `training`; give it beside")
    divide(groups["training"], TrainingConfig)
    if task_kinds:
        divide(groups["task_options"], *task_kinds)
    for group, values in groups.items():
        for name in values:
            if name in settings:
                raise SettingError(f"`{name}`: given twice, once in `{group}`; leave one of them out")
        settings |= values
    return settings


def _by_name(argument: str, settings: object) -> Settings:
    """Return settings by name; None are no settings."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise SettingError(f"`{argument}`: expected settings by name, {{'name': value}}, got {shown(settings)}")
    return settings
