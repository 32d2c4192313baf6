"""Runs in the format of another program: directories that are loaded as runs, without the weights of the training.

Besides the other program's files they have the settings, tokenizer and record of the run; see
:mod:`selfattn.runs.directory`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from selfattn.errors import SettingError, UserError, say
from selfattn.files import names_in, writing
from selfattn.models.build import EnsembleConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.ownership import new_directory, remove_remains
from selfattn.registry import TASKS
from selfattn.runs.directory import CONFIG, TOKENIZER, RunDirectory, check_is_free
from selfattn.runs.exported import MODEL_FILES, Format, export_place, format_of
from selfattn.runs.record import RunConfig
from selfattn.settings import shown
from selfattn.tokenizers.protocol import Tokenizer

Quantized = Literal["int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"]


def open_exported(path: Path, kind: Format) -> Seq2Seq:
    """Open the model of an exported run.

    Raises:
        UserError: the other program is not installed, or a file is missing, broken, or not of this run.
    """
    RunDirectory(path).check(*MODEL_FILES)
    if kind == "onnx":
        from selfattn.exports.onnx import OnnxModel

        return OnnxModel(path)
    from selfattn.exports.ctranslate2 import Ctranslate2Model

    return Ctranslate2Model(path / kind)


def export(
    path: Path,
    config: RunConfig,
    model: Seq2Seq,
    tokenizer: Tokenizer,
    to: Format,
    out: Path,
    quantize: Quantized | None = None,
    *,
    advice: str = "choose another `out`",
) -> None:
    """Write the run at ``path`` in another format; see :meth:`selfattn.runs.run.Run.export`."""
    if to not in get_args(Format):
        raise SettingError(f"export: `to`: expected one of {', '.join(get_args(Format))}, got {shown(to)}")
    if format_of(path) is not None:
        raise UserError(f"{path}: is an exported run already; export the run that it was made from")
    if quantize is not None and to != "ctranslate2":
        raise SettingError(f"`quantize` is for ctranslate2; {to} keeps the weights of the training")
    if isinstance(config.model, EnsembleConfig):
        raise UserError("export: an ensemble; export one of its runs")
    remove_remains(out)
    check_is_free(out, resumes=False)
    with writing(out, advice), new_directory(out) as folder:
        if to == "onnx":
            from selfattn.exports.onnx import to_onnx

            to_onnx(model, folder)
        else:
            from selfattn.exports.ctranslate2 import to_ctranslate2

            (folder / to).mkdir()
            longest = TASKS[config.task].max_input
            lengths = longest, config.output_limit(longest)
            to_ctranslate2(model, config.model, tokenizer, folder / to, lengths=lengths, quantize=quantize)
        RunDirectory(path).copy(folder, f"{TOKENIZER}/*", CONFIG)
        RunDirectory(folder).write_record(RunDirectory(path).record())


def export_once(path: Path, config: RunConfig, model: Seq2Seq, tokenizer: Tokenizer, engine: Format) -> Path:
    """Return the run at ``path`` in the format of an engine: itself, or ``RUN-ENGINE`` beside it, made where needed.

    Of a run from the Hub, the export lies in the cache of ``huggingface_hub`` for files of other libraries, not among
    the files of the Hub.

    Raises:
        UserError: a package is missing, the engine does not support the model, or what is there is of another training.
    """
    if format_of(path) == engine:
        return path
    out = export_place(path, engine)
    if format_of(out) != engine:
        if out.exists() and (not out.is_dir() or names_in(out)):
            raise UserError(f"{out}: is in the way of the export for {engine}, and is none; move it away")
        advice = f"export the run to another place by selfattn export --to {engine} --out DIRECTORY, and use that"
        try:
            export(path, config, model, tokenizer, engine, out, advice=advice)
            say(f"{out}: exported for {engine}, for this and later calls")
        except UserError:
            if format_of(out) != engine:  # another process was not faster
                raise
    records = [replace(RunDirectory(folder).record(), files={}) for folder in (path, out)]
    if records[0] != records[1]:
        raise UserError(f"{out}: was exported from another training than {path} has now; remove it to export again")
    return out
