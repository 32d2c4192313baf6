"""Trained models as one HTML file that runs them in the reader's browser: no network, no server."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import safetensors.torch
from markupsafe import Markup
from torch import Tensor, nn

from selfattn import __version__
from selfattn.errors import UserError
from selfattn.files import write_text, writing
from selfattn.models.config import config_to_dict
from selfattn.ownership import check_ours
from selfattn.report.pictures import Signs, asset, digest, embed_json, templates
from selfattn.runs.load import load
from selfattn.runs.run import Run
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.listed import CharTokenizer, LetterTokenizer, WordTokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.words.messages import LANGS, read_words

_HOME = "selfattn.demo"
EXAMPLES = 12  # to begin with, of a test
ON_DEMO = 4  # most models on the page of a report
_MOST_WEIGHTS = 1_000_000  # of a model on that page, which nobody asked for


@cache
def _words() -> dict[str, dict[str, str]]:
    """Return the texts of the page by language, then by message key."""
    return read_words(Path(__file__).parent / "words", "page")


def write_demo(
    runs: Sequence[Run],
    out: Path,
    lang: str = "en",
    examples: Sequence[tuple[str, str]] = (),
    labels: Sequence[str] = (),
    names: Sequence[str] = (),
) -> None:
    """Write a page on which a reader types and the models answer, step by step and side by side.

    Args:
        runs: trained models of characters, letters, words or subwords, or language models alone. What the page cannot
            run says so on the page: a language model beside models of pairs, and models that read other tokens than the
            first.
        out: the HTML file, replaced where it is there.
        lang: the language that the page opens in; the other is in it too.
        examples: inputs to begin with, each with its right output or ``""``; default none.
        labels: names of the models; default their presets or directories.
        names: of the models of the report beside the page, which decide the colours; default the labels.

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
    check_ours(out, records=False)
    words = _words()
    if lang not in words:
        raise UserError(f"language {lang!r}: the page does not speak it; choose one of {', '.join(LANGS)}")
    model_names = labels or _names(runs)
    signs = Signs(names or model_names)
    first = next((run for run in runs if run.takes_pairs), runs[0])
    models = [_payload(run, name, signs, first) for run, name in zip(runs, model_names, strict=True)]
    if all("reason" in model for model in models):
        raise UserError("none of these models can run in a page: it runs models of pairs, and language models")
    text = page_of(models, examples, sorted({run.config.task for run in runs}), lang)
    with writing(out, "choose another place"):
        write_text(out, text)


def write_best(
    places: Mapping[str, Path], out: Path, lang: str, examples: Sequence[tuple[str, str]], names: Sequence[str]
) -> bool:
    """Write the page of the best models of a report; return whether a page can run any of them.

    Args:
        places: directories of runs by the name of the model, the best first.
        out: see :func:`write_demo`.
        lang: see there.
        examples: see there.
        names: see there.
    """
    runs: dict[str, Run] = {}
    for name, path in islice(places.items(), ON_DEMO):
        with suppress(UserError):  # a run without its weights
            run = load(path)
            if not obstacle(run, run) and sum(map(Tensor.numel, run.model.parameters())) <= _MOST_WEIGHTS:
                runs[name] = run
    if runs:
        write_demo(list(runs.values()), out, lang, examples, list(runs), names)
    return bool(runs)


def page_of(
    models: Sequence[dict[str, Any]], examples: Sequence[tuple[str, str]], origin: Sequence[str], lang: str
) -> str:
    """Return the page of models as it describes them itself, so that an old page can be made again without its runs.

    Args:
        models: a description of each, as it stands in the page.
        examples: inputs to begin with, each with its right output or ``""``.
        origin: names of the models' tasks.
        lang: the language that the page opens in.
    """
    words = _words()
    script = asset("engine.js", _HOME) + asset("page.js", _HOME)
    style = asset("report.css") + asset("page.css", _HOME)
    context = {
        "lang": lang,
        "origin": origin,
        "words": words,
        "w": words[lang],
        "version": __version__,
        "style": Markup(style),
        "style_hash": digest(style),
        "script": Markup(script),
        "script_hash": digest(script),
        "data": embed_json({"words": words, "version": __version__, "examples": list(examples)}),
        "models": [embed_json(model) for model in models],
    }
    return templates(_HOME).get_template("page.html.j2").render(context) + "\n"


def read_page(page: str) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return the models and examples of a demo page, as :func:`page_of` takes them."""
    scripts = re.findall(r'<script type="application/json" (id="data"|class="model")>(.*?)</script>', page)
    models = [json.loads(text) for kind, text in scripts if kind == 'class="model"']
    data = next(json.loads(text) for kind, text in scripts if kind == 'id="data"')
    return models, [(text, right) for text, right in data["examples"]]


def _names(runs: Sequence[Run]) -> list[str]:
    """Return names that tell the runs apart, as short as can be."""
    for label in (lambda run: run.config.preset, lambda run: run.path.name, lambda run: str(run.path)):
        names = [label(run) for run in runs]
        if len(set(names)) == len(names):
            return names
    raise UserError("a run is given twice; give each directory once")


def page_tokens(tokenizer: Tokenizer) -> str | dict[str, Any]:
    """Return a tokenizer as the page reads it: all characters, letters or words, or pieces with their scores.

    Raises:
        UserError: it is of another kind.
    """
    match tokenizer:
        case LetterTokenizer():  # which are characters, too
            return {"kind": "letters", "letters": tokenizer.characters}
        case CharTokenizer():
            return tokenizer.characters
        case WordTokenizer():
            return {"kind": "words", "words": tokenizer.words}
        case SubwordTokenizer():
            described = {"kind": tokenizer.settings.kind, "bytes": tokenizer.settings.byte_fallback}
            return described | {"pieces": list(tokenizer.vocabulary), "scores": list(tokenizer.vocabulary.values())}
        case KeptTokenizer():
            raise UserError("a page cannot run kept symbols; train a run without `keep_symbols` for it")
    raise UserError(f"{type(tokenizer).__name__}: a page runs characters, letters, words and our subwords alone")


def obstacle(run: Run, first: Run) -> str:
    """Return the key of the sentence that says why the page cannot run a model; empty where it can."""
    if not any(True for _ in run.model.parameters()):
        raise UserError(f"{run.path}: an exported run has no weights for a page; take the run it was exported from")
    if run.takes_pairs != first.takes_pairs:
        return "cannot.lm"
    here = page_tokens(run.tokenizer.source)
    there = page_tokens(first.tokenizer.source)
    both_characters = isinstance(here, str) and isinstance(there, str)
    return "" if both_characters or here == there else "cannot.tokens"  # the page shows one segmentation


def _payload(run: Run, name: str, signs: Signs, first: Run) -> dict[str, Any]:
    """Return what the page needs of a run, as plain JSON values; or why it cannot run it."""
    payload = {"name": name, "task": run.config.task, "colour": signs[name].colour, "path": signs[name].path}
    if reason := obstacle(run, first):
        return payload | {"reason": reason}
    source = page_tokens(run.tokenizer.source)
    target = page_tokens(run.tokenizer.target)
    positions = run.config.model.limits()
    payload |= {
        "source": source,
        "target": target,
        "max_length": run.config.max_length,
        "continues": not run.takes_pairs,
        "longest_source": run.config.longest_source,
        "positions": {"target": positions.target, "together": positions.together},
    }
    return payload | {"config": config_to_dict(run.config.model), "weights": embedded_weights(run.model)}


def embedded_weights(model: nn.Module) -> str:
    """Return the weights of a model as a safetensors file in base64.

    A tensor that has several names is in the file once; the file's metadata says which name stands for which.

    Example:
        >>> "bias" in base64.b64decode(embedded_weights(nn.Linear(2, 1))).decode("latin-1")
        True
    """
    weights: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, tensor in model.state_dict().items():
        if first.setdefault(tensor.data_ptr(), name) == name:
            weights[name] = tensor.float().contiguous().cpu()
        else:
            shared[name] = first[tensor.data_ptr()]
    return base64.b64encode(safetensors.torch.save(weights, metadata=shared or None)).decode("ascii")
