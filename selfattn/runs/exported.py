"""Exports of runs: where they lie, and what they remember of the comparison with torch. Imports no torch."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from selfattn.codec import Plain, read, write
from selfattn.errors import UserError
from selfattn.files import beside, sha256_of
from selfattn.models.config import Limits
from selfattn.runs.directory import CONFIG, RECORD
from selfattn.runs.environment import cpu_name

Format = Literal["onnx", "ctranslate2"]
Engine = Literal["torch", "onnx", "ctranslate2"]
MODEL_FILES = "*.onnx*", "ctranslate2/*"
NOTE = ".compared.json"  # hidden, so no file of the run
COMPARED = 8
"""Outputs that another engine computes and that are compared with those of torch."""


@dataclass(frozen=True)
class Compared(Plain):
    """What an export of CTranslate2 remembers.

    Attributes:
        of: SHA-256 of the records of run and export and of the export's settings, version of the engine, processor.
            Where one of them is another now, nothing was compared.
        limits: what the model can read and write, which its settings say with torch alone.
        alike: number of outputs that were those of torch, by the size of the beam.
    """

    of: tuple[str, ...]
    limits: Limits
    alike: Mapping[str, int]


def format_of(path: Path) -> Format | None:
    """Return the format of an exported run; None for a run with its weights."""
    if (path / "step.onnx").exists():
        return "onnx"
    return "ctranslate2" if (path / "ctranslate2/model.bin").exists() else None


def export_place(path: Path, engine: Format) -> Path:
    """Return where :func:`export_once` keeps the export of a run."""
    full = path.resolve()
    repository = full.parent.parent
    if full.parent.name == "snapshots" and repository.name.startswith("models--"):  # in the cache of the Hub
        from huggingface_hub import cached_assets_path

        name = f"{repository.name}-{full.name}-{engine}"
        return cached_assets_path("selfattn", namespace="exports", subfolder=name)
    return beside(path, engine)


def compared(run: Path, export: Path) -> Compared | None:
    """Return what an export of CTranslate2 remembers; None where that is nothing, or of another training."""
    with suppress(UserError, OSError, ImportError):  # said where the run is loaded
        note = read(Compared, export / NOTE, advice="")
        return note if note.of == _state(run, export) else None
    return None


def remember(run: Path, export: Path, limits: Limits, beam: int, count: int) -> None:
    """Note in an export of CTranslate2 that outputs were alike; where it cannot be written, they are compared again."""
    note = compared(run, export)
    before = {} if note is None else note.alike
    alike = {**before, str(beam): before.get(str(beam), 0) + count}
    with suppress(UserError, OSError):
        write(export / NOTE, Compared(_state(run, export), limits, alike))


def _state(run: Path, export: Path) -> tuple[str, ...]:
    import ctranslate2

    files = run / RECORD, export / RECORD, export / CONFIG
    return *map(sha256_of, files), str(ctranslate2.__version__), cpu_name()
