"""The commands by which a run leaves: in the format of another program, and to the Hugging Face Hub."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfattn.console import say


def export(
    run: Path,
    /,
    *,
    to: Literal["onnx", "ctranslate2"],
    out: Path | None = None,
    quantize: Literal["int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"] | None = None,
) -> None:
    """Write a run in the format of another program; what comes of it is loaded and asked as a run is.

    onnx: the encoder and one step as two graphs, for every model (pip install 'selfattn[onnx]'). ctranslate2: for its
    engine, of Transformers with sinusoidal or learned positions (pip install 'selfattn[ctranslate2]').

    Args:
        run: the run directory.
        to: the format.
        out: a new directory; where not given, the run's with the format behind its name.
        quantize: how the weights are stored, for ctranslate2; as they are where not given.
    """
    from selfattn.runs.run import load

    loaded = load(run)
    made = loaded.export(to, out or run.with_name(f"{run.resolve().name}-{to}"), quantize=quantize)
    size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
    say(f"{made}: {size / 1e6:.1f} MB; selfattn predict {made}")


def push(
    run: Path, name: str, /, *, private: bool = False, test: Annotated[bool, Parameter(negative="--no-test")] = True
) -> None:
    """Publish a run on the Hugging Face Hub, with a model card; the others load it as hf://USER/NAME.

    Its checkpoint stays here, and so do local paths and the name of the machine. HF_ENDPOINT names another Hub,
    HF_TOKEN or `hf auth login` says who you are.

    Args:
        run: the run directory.
        name: of the repository, USER/NAME; made where there is none.
        private: make a new repository private.
        test: measure the run on the test part of its data, for the card.
    """
    from selfattn.runs.run import load

    say(f"hf://{name}: {load(run).push(name, private=private, test=test)}")


COMMANDS = (export, push)
