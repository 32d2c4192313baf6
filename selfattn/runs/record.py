"""What a run records: the settings that decide it, and how it was made."""

import importlib
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from selfattn import __version__, registry
from selfattn.codec import Plain, encode, flat
from selfattn.data.readers.pairs import recorded_files
from selfattn.errors import UserError, describe_error
from selfattn.models.config import ModelConfig
from selfattn.training.config import TrainingConfig


@dataclass(frozen=True)
class RunConfig(Plain):
    """Everything that decides a run: the same code makes the same weights from it.

    Attributes:
        task: name, such as ``dates``.
        preset: named model that the settings started from.
        model: configuration of the model.
        training: configuration of the training.
        data: what the pairs are, as plain JSON values: where they come from, with the SHA-256 of files.
        max_length: most tokens of an output, ``<eos>`` included, for a source of up to `longest_source` tokens.
        plugins: plugins that the run uses, with their versions, see :func:`selfattn.registry.plugins_of`.
        init_from: SHA-256 of the weights that the training started from; None for weights drawn at random.
        embeddings: SHA-256 of the files of pretrained embeddings by side; None if none.
        freeze: weights that the training left as they were, see :func:`selfattn.training.weights.freeze`; None if none.
        metric: that chose the best weights, see `TrainOptions.metric`; None: the first of the task.
        links: SHA-256 of the files of links for guided alignment; None if none.
        task_options: options of the task that differ from their defaults; `make_task` makes the task from them.
        options: the other options that were given: of the command, and of the training. None in runs of versions that
            did not keep them.
        made_by: the command, ``train`` or ``compare``.
        longest_source: tokens of the longest source of the training; 0 where `max_length` holds for every source, as in
            runs that do not name it.
    """

    task: str
    preset: str
    model: ModelConfig
    training: TrainingConfig
    data: Mapping[str, Any]
    max_length: int
    plugins: Mapping[str, str] = field(default_factory=dict)
    init_from: str | None = None
    longest_source: int = 0
    freeze: tuple[str, ...] | None = None
    embeddings: Mapping[str, str] | None = None
    metric: str | None = None
    links: tuple[str, ...] | None = None
    task_options: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    made_by: Literal["train", "compare"] = "train"

    def output_limit(self, source: int, target: int = 0) -> int:
        """Return the most tokens of an output, ``<eos>`` included.

        For a source longer than all of the training they grow in proportion; and an output may always be twice as long
        as the longest right one, where these are known. The positions of the model end both.

        Args:
            source: number of tokens of the source.
            target: number of tokens of the longest right output; default unknown.

        Example:
            >>> from selfattn.models.families import PRESETS
            >>> model = PRESETS["transformer"].config
            >>> config = RunConfig("dates", "rnn", model, TrainingConfig(), {}, max_length=22, longest_source=11)
            >>> config.output_limit(8), config.output_limit(33), config.output_limit(8, target=40)
            (22, 66, 80)
        """
        if not self.longest_source:
            return self.max_length
        longer = math.ceil(self.max_length * source / self.longest_source)
        limit = max(longer, 2 * target)
        positions = self.model.limits()
        if positions.target is not None:
            limit = min(limit, positions.target)
        if positions.together is not None:
            limit = min(limit, positions.together - source)
        return max(self.max_length, limit)


@dataclass(frozen=True)
class RunRecord(Plain):
    """How a run was made, and its progress.

    Attributes:
        status: ``running``, ``failed``, or one of :data:`selfattn.training.loop.Status`.
        created: start, ISO 8601.
        command: that made it.
        seed: of every random stream.
        parameters: of the model.
        parameters_non_embedding: parameters outside embeddings.
        train_seconds: of training so far.
        versions: of libraries, by name.
        machine: description of the machine.
        commit: of the checkout, if any.
        resumed: times when the training was resumed, ISO 8601.
        averaged: steps whose kept weights were averaged, see :mod:`selfattn.runs.load`; None for a training.
        files: SHA-256 of each file by its path: of the present content, and of the content before, because a process
            may be killed between writing the record and the file.
    """

    status: str
    created: str
    command: str
    seed: int
    parameters: int
    parameters_non_embedding: int
    train_seconds: float
    versions: Mapping[str, str]
    machine: Mapping[str, str | int | None]
    commit: str | None = None
    resumed: tuple[str, ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    averaged: tuple[int, ...] | None = None


def options_of_data(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the options of a task that runs of schema 1 keep in the settings of their data alone.

    Args:
        data: the settings.
        where: name of the place for error messages.

    Raises:
        UserError: they are no such settings.

    Example:
        >>> options_of_data({"kind": "embedded", "locales": ["ko_KR"]}, "config.json")
        {'locales': ['ko_KR'], 'withhold_years': []}
    """
    try:
        return _options_of_data(data)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # JSON values of another form
        reason = f"not the settings of a task ({describe_error(error)})"
        raise UserError(f"{where}: data: {reason}; restore the file or train again") from None


def _options_of_data(data: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    match data.get("kind"):
        case "embedded":
            options = {"locales": data["locales"], "withhold_years": list(map(str, data.get("withheld_years", ())))}
        case "text" if "sources" in data:
            options = {"context": data["context"], "encoding": data["sources"]["train"].get("encoding")}
            for part, source in data["sources"].items():
                options["data" if part == "train" else part] = source["files"][0]["path"]
        case "file":
            options = {"data": [file["path"] for file in recorded_files(data)]}
            options |= {name: data[name] for name in ("columns", "encoding") if data.get(name)}
        case "cldr":
            options = {"source": data["source_language"], "target": data["target_language"]}
        case "corpus":
            options = _options_of_corpus(data)
        case "text":
            options = {"data": data["path"], "context": data["context"]}
            options |= {name: data[name] for name in ("valid", "test", "encoding") if data.get(name)}
        case "generated" if "context" in data:
            options = {"context": data["context"]}
        case _:
            options = dict(data.get("options", {}))
    return options


def _options_of_corpus(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a corpus of files, or of the Hub."""
    sources = data["sources"]
    train = sources["train"]
    cleaning = data["cleaning"]
    options = {
        "source": data["source_language"],
        "target": data["target_language"],
        "streaming": data["streaming"],
        "held_out": data.get("held_out"),
        "split_seed": data.get("split_seed", 0),
        "max_characters": cleaning["max_characters"] or 0,
        "max_ratio": cleaning["max_ratio"] or 0,
        "keep_overlap": not cleaning["overlap"],
        "keep_duplicates": not cleaning["duplicates"],
        "columns": train["columns"] or (),
        **data.get("mixture", {}),
    }
    if "hub" in train:
        return options | {"hub": train["hub"], "hub_config": train.get("config")}
    tags = [source["tag"] for source in sources.values() if "tag" in source]
    options |= {"encoding": train.get("encoding"), "tag": tags[0] if tags else None}
    for part, option in (("train", "data"), ("valid", "valid"), ("test", "test")):
        options[option] = [file["path"] for file in sources.get(part, {}).get("files", ())]
    if "further_tests" in data:
        options["test"] = []
        for name, source in {data["test_set"]: sources["test"], **data["further_tests"]}.items():
            first, *others = (file["path"] for file in source["files"])
            options["test"] += [f"{name}={first}", *others]
    return options


def changed_contents(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of files, and of parts of a corpus, whose content is not among those of now.

    Args:
        before: settings of data with checksums, such as those of a run or of a plan.
        now: settings of the same data, read again.

    Example:
        >>> changed_contents({"path": "a.tsv", "sha256": "0"}, {"path": "b.tsv", "sha256": "1"})
        ['a.tsv']
    """
    contents = dict(contents_in(now))
    return [name for sha256, name in contents_in(before) if sha256 not in contents]


def contents_in(value: Any, name: str = "data") -> Iterator[tuple[str, str]]:
    """Iterate over the checksums in settings of data, each with the path beside it, or the name of its part."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key.endswith("sha256") and isinstance(item, str):
                yield item, str(value.get(f"{key.removesuffix('sha256')}path", name))
            else:
                yield from contents_in(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from contents_in(item, name)


def used_plugins(task: str, metrics: Iterable[str], *models: ModelConfig) -> dict[str, str]:
    """Return the plugins that a task, its metrics and models use, with their versions.

    Args:
        task: name of the task.
        metrics: names of the metrics.
        models: configurations.
    """
    names = {task, *metrics}
    for model in models:
        names |= {value for _, value in flat(encode(model)) if isinstance(value, str)}
    parts = registry.SCORES, registry.NORMALIZERS, registry.POSITIONS, registry.ATTENTIONS, registry.FAMILIES
    return registry.plugins_of(names, *parts, registry.TASKS, registry.METRICS)


_LIBRARIES = ("torch", "numpy", "babel", "safetensors")  # torch says which build it is, its metadata may not


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries that decide results.

    Example:
        >>> list(versions())
        ['selfattn', 'python', 'torch', 'numpy', 'babel', 'safetensors', 'cldr']
    """
    from babel import core as babel_core

    numbers = {"selfattn": __version__, "python": platform.python_version()}
    numbers |= {name: str(importlib.import_module(name).__version__) for name in _LIBRARIES}
    cldr: Any = babel_core.get_global("cldr")  # type: ignore[arg-type]  # a key that the stubs do not list
    return numbers | {"cldr": str(cldr["version"])}


def machine() -> dict[str, str | int | None]:
    """Return platform, CPU, cores of this process, threads of torch and memory in bytes.

    Example:
        >>> list(machine())
        ['platform', 'cpu', 'cores', 'threads', 'memory']
    """
    import torch

    # In a container a process may have fewer cores than the machine.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        memory = None
    threads = torch.get_num_threads()
    return {"platform": platform.platform(), "cpu": cpu_name(), "cores": cores, "threads": threads, "memory": memory}


def commit() -> str | None:
    """Return the commit of the checkout of this package, with ``-dirty`` for changes; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        described = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None


def cpu_name() -> str:
    """Return the name of the processor, as the system says it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Hardware")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"
