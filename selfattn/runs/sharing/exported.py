"""A run in the format of another program: a directory that is loaded and asked as a run, without its weights.

Beside what the other program reads it has the run's settings, tokenizer and record; see
:mod:`selfattn.runs.directory`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from selfattn.codec import write
from selfattn.errors import SettingError, UserError
from selfattn.files import sha256_of, writing
from selfattn.models.ensemble import EnsembleConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import TASKS
from selfattn.runs.directory import CONFIG, RECORD, TOKENIZER, RunDirectory, RunRecord, check_is_free

if TYPE_CHECKING:
    from selfattn.runs.run import Run

Format = Literal["onnx", "ctranslate2"]
Quantized = Literal["int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"]
_MARKS: dict[str, Format] = {"step.onnx": "onnx", "ctranslate2/model.bin": "ctranslate2"}  # files that tell the formats


def format_of(path: Path) -> Format | None:
    """Say in which format a directory holds an exported run; None for one that holds none."""
    return next((kind for mark, kind in _MARKS.items() if (path / mark).exists()), None)


def open_exported(path: Path, kind: Format) -> Seq2Seq:
    """Open the model of an exported run.

    Raises:
        UserError: the other program is not installed, or a file is missing or broken.
    """
    RunDirectory(path).check_files()
    if kind == "onnx":
        from selfattn.exports.onnx_model import OnnxModel

        return OnnxModel(path)
    from selfattn.exports.ctranslate2_model import Ctranslate2Model

    return Ctranslate2Model(path / kind)


def export(run: Run, to: Format, out: Path, quantize: Quantized | None = None) -> None:
    """Write a run in the format of another program; see :meth:`selfattn.runs.run.Run.export`."""
    if format_of(run.path) is not None:
        raise UserError(f"{run.path}: is an exported run already; export the run that it was made from")
    if quantize is not None and to != "ctranslate2":
        raise SettingError(f"`quantize` is for ctranslate2; {to} has no weights but those that were trained")
    if isinstance(run.config.model, EnsembleConfig):
        raise UserError("export: several runs that were loaded together; export one of them")
    check_is_free(out, resumes=False)

    def make(folder: Path) -> None:
        if to == "onnx":
            from selfattn.exports.onnx_export import to_onnx

            return to_onnx(run.model, folder)
        from selfattn.convert.ctranslate2 import to_ctranslate2

        (folder / to).mkdir()
        lengths = TASKS[run.config.task].max_input, run.config.max_length
        return to_ctranslate2(
            run.model, run.config.model, run.tokenizer, folder / to, lengths=lengths, quantize=quantize
        )

    _in_place(out, run, make)


def _in_place(out: Path, run: Run, make: Callable[[Path], None]) -> None:
    """Make a directory with a run's settings, tokenizer and record, and further files; it is there whole or not."""
    with writing(out, "choose another `out`"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as aside:
            folder = Path(aside) / out.name
            folder.mkdir()
            make(folder)
            shutil.copytree(run.path / TOKENIZER, folder / TOKENIZER)
            shutil.copy(run.path / CONFIG, folder / CONFIG)
            write_new_record(folder, RunDirectory(run.path).record())
            if out.exists():
                out.rmdir()
            folder.rename(out)


def write_new_record(folder: Path, record: RunRecord) -> None:
    """Write the record of a copy of a run, with the checksums of the files that are there."""
    files = {file.relative_to(folder).as_posix(): (sha256_of(file),) for file in folder.rglob("*") if file.is_file()}
    write(folder / RECORD, replace(record, files=files), checksum=True)
