"""Runs on the Hugging Face Hub: fetched by their address, published without local paths and the machine's name.

``HF_ENDPOINT`` names another Hub; ``HF_TOKEN`` or ``hf auth login`` says who publishes, as in ``huggingface_hub``.
"""

import os
import re
import shlex
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from selfattn.codec import flat
from selfattn.data.hub import hub_access, is_reachable
from selfattn.errors import UserError
from selfattn.files import write_text
from selfattn.models.build import EnsembleConfig
from selfattn.ownership import is_ours
from selfattn.registry import PRESETS
from selfattn.runs.directory import METRICS, RECORD, TOKENIZER, WEIGHTS, RunDirectory
from selfattn.runs.predictor import Predictor
from selfattn.runs.record import RunConfig, RunRecord

CARD = "README.md"
_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_ADDRESS = re.compile(rf"hf:/{{1,2}}({_NAME})(?:@([\w./-]+))?")  # a Path has one slash
_FILES = (WEIGHTS, METRICS, "*.onnx", "*.onnx.data", "ctranslate2/*")  # besides settings, tokenizer and record
# A path from the root, a home directory or a drive; not the part of a URL behind its host.
_PATH = re.compile(r"(?<![\w.:/\\~])(?:~[\w-]*|[A-Za-z]:|\.{1,2})?[/\\](?:[^\s'\",;=]*[/\\])?[^\s'\",;=/\\]*")


def is_address(path: object) -> bool:
    """Say whether a path is the address of a run on the Hub.

    Example:
        >>> is_address("hf://user/name@main"), is_address(Path("runs/a"))
        (True, False)
    """
    return _plain(path) == "hf:" or _plain(path).startswith("hf:/")


def fetch(place: str | os.PathLike[str], *further: str) -> Path:
    """Return the directory of a run; one on the Hub is fetched, or is in the cache of ``huggingface_hub``.

    Args:
        place: a directory; or ``hf://user/name``, or ``hf://user/name@revision`` with a branch, tag or commit.
        further: patterns of further files; default those of a run alone.

    Raises:
        UserError: the address is not valid, there is no such run or revision, or the Hub cannot be reached and the run
            is not in the cache.
    """
    if not is_address(place):
        return Path(place)
    parts = _ADDRESS.fullmatch(_plain(place))
    if parts is None:
        raise UserError(f"{place}: expected hf://user/name or hf://user/name@revision")
    from huggingface_hub import snapshot_download

    name, revision = parts.groups()
    with hub_access(f"hf://{name}" + (f"@{revision}" if revision else ""), _out_of_reach()):
        return Path(
            snapshot_download(
                name,
                revision=revision,
                endpoint=_endpoint(),
                local_files_only=not is_reachable(_endpoint()),
                allow_patterns=["*.json", f"{TOKENIZER}/*", *_FILES, *further],
            )
        )


def push(run: Predictor, name: str, *, private: bool, measure: Callable[[], dict[str, Any]] | None) -> str:
    """Publish a run, without checkpoint, local paths and machine name, and with a card.

    See :meth:`selfattn.runs.run.Run.push`.

    Args:
        run: to be published.
        name: of the repository.
        private: see there.
        measure: tests the run for the card; None: it is not tested.
    """
    path = run.path
    config = run.config
    if not re.fullmatch(_NAME, name):
        raise UserError(f"{name}: expected the name of a repository, user/name")
    if isinstance(config.model, EnsembleConfig):
        raise UserError("push: an ensemble; publish one of its runs")
    if not is_reachable(_endpoint()):
        raise UserError(f"{_endpoint()}: cannot be reached; nothing was published")
    from huggingface_hub import HfApi

    from selfattn.exports.onnx import TRACE

    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) / "run"
        folder.mkdir()
        RunDirectory(path).copy(folder, *_FILES, f"{TOKENIZER}/*")
        for graph in folder.glob("*.onnx"):
            if TRACE.encode() in graph.read_bytes():
                raise UserError(f"{path / graph.name}: has paths of the machine that exported it; export the run again")
        plugins = {_file_name(plugin): version for plugin, version in config.plugins.items()}
        settings = {name: _public(getattr(config, name)) for name in ("data", "options", "task_options")}
        config = replace(config, plugins=plugins, **settings)
        record = RunDirectory(path).record()
        record = replace(record, command=public_command(record.command), machine=_public(record.machine))
        measured = None
        reason = "it was published without"
        try:
            measured = measure and measure()
        except UserError as error:
            reason = public_text(str(error))
        if measured:
            measured["data"] = public_text(str(measured["data"]))
        public = RunDirectory(folder)
        public.write_config(config)
        write_text(folder / CARD, model_card(config, record, len(run.tokenizer), name, measured, reason))
        public.write_record(record)
        with hub_access(f"hf://{name}", _out_of_reach()):
            hub = HfApi(endpoint=_endpoint())
            hub.create_repo(name, private=private, exist_ok=True)
            there = set(hub.list_repo_files(name))
            ours = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
            shared = sorted(ours & there)
            # Nothing is written over but a run of ours.
            if shared and not (RECORD in there and is_ours(Path(hub.hf_hub_download(name, RECORD)))):
                wrong = f"hf://{name}: has a file {shared[0]} that selfattn did not publish"
                raise UserError(f"{wrong}; choose another name, or remove it there")
            commit = hub.upload_folder(repo_id=name, folder_path=folder, commit_message=f"{config.preset}")
    return str(commit.commit_url)


def public_command(command: str) -> str:
    """Shorten every path in a recorded command, also a relative one, to the name of its file.

    Names of datasets after ``--hub`` and addresses on the web stay.

    Example:
        >>> public_command("selfattn train translation --data ../me/a.tsv b/c.tsv --hub someone/pairs")
        'selfattn train translation --data a.tsv c.tsv --hub someone/pairs'
        >>> public_command("selfattn --plugin '/my parts/p.py' train dates --data https://me:key@host/a.tsv?key=1")
        'selfattn --plugin p.py train dates --data https://host/a.tsv'
    """
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        words = command.split()
    public: list[str] = []
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        is_dataset = "--hub" in (name, *public[-1:]) and re.fullmatch(_NAME, value) and not Path(value).exists()
        paths = [value] if is_dataset or Path(value).exists() else value.split(",")
        text = name + equals + (value if is_dataset else ",".join(map(_file_name, paths)))
        public.append(text if text in ("&&",) else shlex.quote(text))
    shortened = " ".join(public)
    unchanged = " ".join(word if word == "&&" else shlex.quote(word) for word in words)
    return public_text(shortened if shortened != unchanged else command)


def _file_name(path: str) -> str:
    """Return the last part of a path; an address on the web without names, keys and passwords."""
    scheme, separator, rest = path.partition("://")
    if path.startswith("hf:/"):
        return path
    if separator and scheme.isalpha() and scheme != "file":
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
    return PureWindowsPath(path).name if "/" in path or "\\" in path else path


def public_text(text: str) -> str:
    """Shorten paths to the names of their files, and replace the name of this machine.

    Example:
        >>> public_text("see /home/me/a.tsv,~/b.tsv, ../c/d.tsv and https://host/a/b")
        'see a.tsv,b.tsv, d.tsv and https://host/a/b'
        >>> public_text("C:\\\\Users\\\\me\\\\a.tsv"), public_text("/home/my name/a.tsv"), public_text("1/2")
        ('a.tsv', 'a.tsv', '1/2')
    """
    for kind in (PurePosixPath, PureWindowsPath):
        if "\n" not in text and " -" not in text and (kind(text).is_absolute() or text.startswith("~")):
            return kind(text).name
    for place in {Path.cwd(), Path.home(), Path(tempfile.gettempdir())} - {Path(Path.cwd().anchor)}:
        text = text.replace(f"{place}{os.sep}", "./")  # there may be spaces in it
    text = _PATH.sub(lambda path: PureWindowsPath(path[0]).name, text)
    host = socket.gethostname()
    return re.sub(rf"\b{re.escape(host)}\b", "localhost", text) if len(host) > 2 else text


def _public(value: Any, name: str = "") -> Any:
    """Return settings without local paths."""
    if isinstance(value, str):
        is_dataset = name == "hub" and re.fullmatch(_NAME, value) and not Path(value).exists()
        is_path = name == "hub" or name.endswith("path") or (os.sep in value and Path(value).exists())
        if is_dataset:
            return value
        return _file_name(value) if is_path else public_text(value)
    if isinstance(value, Mapping):
        return {key: _public(part, str(key)) for key, part in value.items()}
    return [_public(part, name) for part in value] if isinstance(value, (list, tuple)) else value


def _plain(path: object) -> str:
    return str(path).replace("\\", "/")


def _endpoint() -> str:
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or constants.ENDPOINT


def _out_of_reach() -> str:
    return f"{_endpoint()} cannot be reached, and the run is not in the cache"


def model_card(
    config: RunConfig, record: RunRecord, tokens: int, name: str, measured: Mapping[str, Any] | None, reason: str
) -> str:
    """Return the model card of a run, in Markdown with the Hub's fields in front.

    Args:
        config: settings of the run as they are published.
        record: of the run as it is published.
        tokens: size of the vocabulary.
        name: ``user/name``, for the code that loads the run.
        measured: results of ``selfattn evaluate``; None if it was not measured.
        reason: why it was not measured.
    """
    from jinja2 import Environment

    text = resources.files("selfattn.runs").joinpath("card.md.j2").read_text(encoding="utf-8")
    return (
        Environment(keep_trailing_newline=True)
        .from_string(text)
        .render(
            {"config": config, "record": record, "tokens": tokens, "name": name, "measured": measured},
            reason=reason,
            fields=_fields(config, name, measured or {"metrics": {}}),
            presets=PRESETS,
            data=list(flat(config.data)),
            limits=config.model.limits(),
        )
    )


def _fields(config: RunConfig, name: str, measured: Mapping[str, Any]) -> str:
    """Return the fields that the Hub reads, ``model-index`` among them, in YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    results = []
    for metric, value in measured["metrics"].items():
        conditions = {"command": f"selfattn evaluate hf://{name}", "items": measured["items"]}
        if "intervals" in measured:
            conditions |= {"interval": measured["intervals"][metric], "level": measured["interval"]["level"]}
        result = EvalResult(
            task_type="text2text-generation" if "intervals" in measured else "text-generation",
            dataset_type=config.task,
            dataset_name=measured["data"],
            dataset_split="test",
            metric_type=metric,
            metric_value=value,
            metric_name=metric.replace("_", " "),
            metric_args=conditions,
        )
        results.append(result)
    data = ModelCardData(
        library_name="selfattn",
        tags=["selfattn", "attention", config.preset],
        model_name=name.partition("/")[2] if results else None,
        eval_results=results or None,
    )
    return data.to_yaml().strip()
