"""Trained models as one HTML file that runs them in the reader's browser: no network, no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import torch
from markupsafe import Markup

from selfattn import __version__
from selfattn.demo.payload import payload
from selfattn.errors import UserError
from selfattn.files import write_text, writing
from selfattn.report.drawing.palette import Signs
from selfattn.report.pages import asset, digest, embedded, templates
from selfattn.runs.run import Run, load
from selfattn.words.catalogue import LANGS, read_catalogue

_HOME = "selfattn.demo"
EXAMPLES = 12  # to begin with, of a test


def write_demo(
    runs: Sequence[Run],
    out: Path,
    lang: str = "en",
    examples: Sequence[tuple[str, str]] = (),
    *,
    half: bool = False,
    names: Sequence[str] = (),
    labels: Mapping[Path, str] = MappingProxyType({}),
) -> None:
    """Write a page on which a reader types and the models answer, step by step and side by side.

    Args:
        runs: trained models; what the page cannot run (subwords, language models) says so on the page.
        out: the HTML file, replaced where it is there.
        lang: the language that the page opens in; the other is in it too.
        examples: inputs to begin with, each with its right output or ``""``; default none.
        half: embed weights in float16, half the size, for every model whose outputs for the examples stay the same;
            default float32, where outputs are those of torch.
        names: of the models of the report beside the page, which decide the colours; default those of the runs.
        labels: what the page calls the run of a directory; default the names of their presets or directories.

    Raises:
        UserError: there is no run, one is given twice, none can run on a page, the language is unknown, or the file
            cannot be written.

    Example:
        >>> write_demo([], Path("demo.html"))
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: a demo needs at least one run; give the directory of a trained model
    """
    if not runs:
        raise UserError("a demo needs at least one run; give the directory of a trained model")
    if out.is_dir():
        raise UserError(f"{out}: is a directory; name the file of the page")
    page = render_demo(runs, lang, examples, half=half, names=names, labels=labels)
    with writing(out, "choose another place"):
        write_text(out, page)


def render_demo(
    runs: Sequence[Run],
    lang: str = "en",
    examples: Sequence[tuple[str, str]] = (),
    *,
    half: bool = False,
    names: Sequence[str] = (),
    labels: Mapping[Path, str] = MappingProxyType({}),
) -> str:
    """Return the page of :func:`write_demo` as text; the arguments are the same.

    Raises:
        UserError: none of the runs can run on a page, one is given twice, or the language is unknown.
    """
    shown = [labels[run.path] for run in runs] if labels else _names(runs)
    models = [
        payload(run, name, torch.float16 if half and _holds_in_half(run, examples) else torch.float32)
        for run, name in zip(runs, shown, strict=True)
    ]
    if all("reason" in model for model in models):
        raise UserError("none of these models can run in a page: it runs models that turn characters into characters")
    signs = Signs(names or shown)
    for model, name in zip(models, shown, strict=True):
        model |= {"colour": signs[name].colour, "path": signs[name].path}
    words = {known: read_catalogue(resources.files(_HOME) / "words" / known / "page.po") for known in LANGS}
    if lang not in words:
        raise UserError(f"language {lang!r}: the page does not speak it; choose one of {', '.join(LANGS)}")
    script = asset("engine.js", _HOME) + asset("page.js", _HOME)
    style = asset("report.css") + asset("page.css", _HOME)
    context = {
        "lang": lang,
        "origin": sorted({run.config.task for run in runs}),
        "words": words,
        "w": words[lang],
        "version": __version__,
        "style": Markup(style),
        "style_hash": digest(style),
        "script": Markup(script),
        "script_hash": digest(script),
        "data": embedded({"words": words, "version": __version__, "examples": list(examples)}),
        "models": [embedded(model) for model in models],
    }
    return templates(_HOME).get_template("page.html.j2").render(context) + "\n"


def write_demo_of(
    paths: Sequence[Path],
    out: Path,
    lang: str = "en",
    examples: Sequence[tuple[str, str]] = (),
    names: Sequence[str] = (),
    labels: Mapping[Path, str] = MappingProxyType({}),
) -> bool:
    """Write the page of those runs that can be on one; nothing where there is none.

    Args:
        paths: run directories; one that cannot be loaded is left out.
        out: the HTML file.
        lang: the language that the page opens in.
        examples: inputs to begin with, each with its right output or ``""``.
        names: see :func:`write_demo`.
        labels: see :func:`write_demo`.

    Returns:
        Whether there is a page.

    Raises:
        UserError: the file cannot be written.
    """
    runs = []
    for path in paths:
        with suppress(UserError):
            run = load(path)
            runs += [run] if "weights" in payload(run, "") else []
    if runs:
        write_demo(runs, out, lang, examples, names=names, labels=labels)
    return bool(runs)


def _names(runs: Sequence[Run]) -> list[str]:
    """Names that tell the runs apart, as short as can be."""
    for label in (lambda run: run.config.preset, lambda run: run.path.name, lambda run: str(run.path)):
        names = [label(run) for run in runs]
        if len(set(names)) == len(names):
            return names
    raise UserError("a run is given twice; give each directory once")


def _holds_in_half(run: Run, examples: Sequence[tuple[str, str]]) -> bool:
    """Whether weights rounded to float16 write the same outputs."""
    texts = [text for text, _ in examples]
    before = run.predict(texts)
    exact = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    run.model.load_state_dict({name: tensor.half().to(tensor.dtype) for name, tensor in exact.items()})
    after = run.predict(texts)
    run.model.load_state_dict(exact)
    return after == before
