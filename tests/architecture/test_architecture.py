"""Import rules, read with `ast`: layers, circles, declared ones, and names that stay in the file that owns them."""

import ast
import re
import subprocess
import sys
import tomllib
import traceback
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import selfattn
from selfattn.cli.main import main
from selfattn.models.encoder_decoder import EncoderDecoder
from selfattn.registry import FAMILIES, METRICS, PRESETS, TASKS

PACKAGE = Path(selfattn.__file__).parent

# Lowest first: a file may import its own package and every layer below, never one beside or above.
LAYERS = [
    frozenset(packages.split())
    for packages in (
        "errors console streams files codec ownership registry stubs settings processes distributed plugin",
        "words",
        "attention tokenizers",
        "layers",
        "models",
        "data",
        "results",
        "training convert",
        "decoding",
        "evaluation exports",
        "report",
        "runs",
        "integrations",
        "demo tasks",
        "experiments",
        "comparison",
        "claims",
        "cli",
    )
]

# The libraries that a package may import, where that is laid down.
STANDARD = set(sys.stdlib_module_names)
LIBRARIES = {
    "errors": set(), "registry": set(), "stubs": set(), "files": {"filelock", "safetensors"},
    "codec": {"pydantic", "pydantic_core"}, "streams": {"torch"}, "attention": {"torch", "einops"},
}  # fmt: skip
_OF_THE_TOP = {"rich", "cyclopts", "jinja2", "datasets"}
FORBIDDEN = {
    "cli": {"torch", "numpy"},
    "training": _OF_THE_TOP,
    "decoding": _OF_THE_TOP,
    "models": _OF_THE_TOP | {"babel"},
    "results": _OF_THE_TOP | {"torch"},
}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def short(path):
    return str(path.relative_to(PACKAGE.parent))


def package(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer(name):
    layers = [number for number, packages in enumerate(LAYERS) if name in packages]
    assert layers, f"{name}: a package without a layer"
    return layers[0]


@cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path):
    """Every import of a file, wherever it stands in it: at the top, in a function, under TYPE_CHECKING."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; imports name the full path here"
            # `from selfattn import models` imports a package as much as `import selfattn.models` does.
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def misplaced_imports(path):
    here = package(path)
    for line, name in imported(path):
        parts = name.split(".")
        is_wrong = (
            parts[0] not in STANDARD
            and parts[0] != "selfattn"
            and (parts[0] in FORBIDDEN.get(here, set()) or parts[0] not in LIBRARIES.get(here, {parts[0]}))
        )
        if parts[0] == "selfattn" and parts[1:] != ["__version__"]:
            is_wrong = parts[1] != here and layer(parts[1]) >= layer(here) > 0
        if is_wrong:
            yield f"{short(path)}:{line}: {here} imports {name}"


def test_imports_run_down_only():
    files = [path for path in modules() if path != PACKAGE / "__init__.py"]  # which loads what users ask for
    misplaced = [place for path in files for place in misplaced_imports(path)]
    assert not misplaced, "\n".join(misplaced)


def test_every_import_is_declared():
    """By pyproject.toml, as a dependency or as that of an extra."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    providers = packages_distributions()
    for path in modules():
        for line, name in imported(path):
            top = name.partition(".")[0]
            names = {canonicalize_name(provider) for provider in providers.get(top, [top])}
            assert top in STANDARD | {"selfattn"} or names & declared, f"{short(path)}:{line}: {name}"


def file_of(name):
    """The file that an imported name leads to; None outside the package."""
    parts = name.split(".")
    while parts and parts[0] == "selfattn":
        place = PACKAGE.parent.joinpath(*parts)
        if place.with_suffix(".py").is_file():
            return place.with_suffix(".py")
        if (place / "__init__.py").is_file():
            return place / "__init__.py"
        parts.pop()
    return None


def test_no_file_imports_itself_by_way_of_others():
    leads = {
        path: {other for _, name in imported(path) if (other := file_of(name)) not in (None, path)}
        for path in modules()
        if path != PACKAGE / "__init__.py"
    }
    done = set()

    def visit(path, way):
        assert path not in way, " -> ".join(map(short, [*way[way.index(path) :], path]))
        if path not in done:
            for other in sorted(leads.get(path, ())):
                visit(other, (*way, path))
            done.add(path)

    for path in leads:
        visit(path, ())


def test_a_class_has_a_name_that_no_other_class_has():
    places = {}
    for path in modules():
        for node in nodes(path)[0].body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(f"{short(path)}:{node.lineno}: {node.name}")
    assert not [", ".join(files) for files in places.values() if len(files) > 1]


@cache
def texts(path):
    """Every text constant of a file but for docstrings."""
    documents = set()
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documents.add(first.value)
    found = [node for node in nodes(path) if isinstance(node, ast.Constant) and node not in documents]
    return [(node.lineno, node.value) for node in found if isinstance(node.value, str)]


# A file owns the names that it puts into a registry. A task may name the models that it compares, and its metrics.
REGISTRIES = {"task": TASKS, "model": PRESETS, "metric": METRICS, "model family": FAMILIES}
OWNERS = {
    "task": "Data):",
    "model": "register.preset(",
    "metric": "register.metric(",
    "model family": "register.family(",
}
# A claim is an experiment on models that it names, as a task is.
MAY_NAME = {"task": set(), "model": {"tasks", "claims"}, "metric": {"tasks"}, "model family": {"tasks", "claims"}}
# Words that mean something else there.
OTHER_MEANINGS = {
    ("task", "data", "translation"),  # a column that datasets call so
    ("task", "claims", "recall"),  # the share of what is to be found, there and below
    ("task", "evaluation", "recall"),
    ("task", "runs", "recall"),
    ("model", "models", "transformer"),  # the kind of a stack
    ("metric", "results", "exact_match"),  # what a record is about that does not say it: part of the schema
}


def owns(path, what, name):
    """Whether a file is where a name comes in: by the registry that is asked about, or another one of the same word."""
    text = path.read_text(encoding="utf-8")
    return OWNERS[what] in text or any(
        f'register{kind}("{name}")' in text for kind in ("", ".family", ".preset", ".metric", ".task")
    )


@pytest.mark.parametrize("what", REGISTRIES)
def test_a_name_stays_in_the_file_that_owns_it(what):
    names = set(REGISTRIES[what].names())
    assert names
    misplaced = [
        f"{short(path)}:{line}: {text!r}"
        for path in modules()
        if package(path) not in MAY_NAME[what]
        for line, text in texts(path)
        if text in names and not owns(path, what, text) and (what, package(path), text) not in OTHER_MEANINGS
    ]
    assert not misplaced, "\n".join(misplaced)


def test_no_file_asks_of_which_family_a_model_is():
    kinds = {REGISTRIES["model family"][name].__name__ for name in FAMILIES.names()}
    asked = [
        f"{short(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in modules()
        if package(path) not in ("models", "convert", "exports")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and any(
            name in ast.unparse(node) for name in (*kinds, "DecoderOnly", "EncoderDecoder", "RNN", "TransformerConfig")
        )
    ]
    assert not asked, "\n".join(asked)


@cache
def printed(code):
    """The lines that a program prints, in a new process."""
    # `python -c` puts the working folder first on the path, as running a script from there would.
    options = {"cwd": PACKAGE.parent, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([sys.executable, "-c", code], **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


RUN = PACKAGE.parent / "tests/fixtures/formats/run-dates"
COMMANDS = ["--help", "models", "train dates --help-all", "compare translation --help", "", "--version"]
OTHERS = (
    "selfattn.claims selfattn.comparison selfattn.data selfattn.report selfattn.results selfattn.runs selfattn.tasks "
    "selfattn.training.config "
)
CHAR = str(PACKAGE.parent / "tests/fixtures/formats/tokenizer-char")
# Parts of programs, and the modules that are not loaded when a part has been run.
NOT_LOADED = {
    "the package": (
        "import os; before = dict(os.environ); import selfattn.plugin; assert dict(os.environ) == before",
        "torch numpy datasets jinja2 cyclopts rich babel safetensors pydantic"),
    "help": (
        "import atexit, gc; first = gc.get_stats()[0]['collections']\n"
        "def gone_through(): print('cycles:', gc.get_stats()[0]['collections'] - first, gc.get_freeze_count())\n"
        "atexit.register(gone_through)\n"  # after what the command does then
        "sys.argv = ['selfattn', '--help']; from selfattn.cli.__main__ import main as start; start()",
        f"{OTHERS} selfattn.models selfattn.tokenizers"),
    "a command": (
        "from selfattn.cli.main import main; main(['predict', '--help'])", f"{OTHERS} selfattn.cli.tokenizer"),
    "help and lists": (
        f"for words in {COMMANDS!r}: main(words.split())", "torch numpy babel jinja2 safetensors pydantic"),
    "configurations": ("import selfattn.models.families", "torch"),
    "a tokenizer": (
        f"import selfattn.cli.tokenizer\nfrom selfattn.tokenizers.load import load_tokenizer as load\nload({CHAR!r})",
        "torch sentencepiece"),
    "predicting: no compiler, no statistics, no results": (
        f"import selfattn; selfattn.load({str(RUN)!r}).predict(['May 1, 2001'], beam=2)",
        "torch._dynamo scipy sacrebleu transformers datasets cyclopts rich babel selfattn.claims selfattn.comparison "
        "selfattn.experiments selfattn.report selfattn.training.loop selfattn.exports.onnx selfattn.results.plan "
        "selfattn.results.quality selfattn.results.record selfattn.evaluation.attention selfattn.evaluation.metrics"),
    "counting operations and memory": (
        "import torch; from selfattn.evaluation.cost import BatchShape, count_flops, peak_memory\n"
        f"count_flops(selfattn.load({str(RUN)!r}).model, BatchShape(1, 2, 3)), peak_memory(lambda: torch.ones(1))",
        "torch._dynamo"),
    "what users ask for": (
        "import selfattn as s; s.load, s.attend, s.MultiHeadAttention", "datasets cyclopts jinja2 rich"),
    "training": (
        "import selfattn, tempfile\nwith tempfile.TemporaryDirectory() as out: selfattn.train('dates', "
        "model='rnn-plain', out=out + '/run', epochs=1, items_per_epoch=8, validation_items=1)",
        "selfattn.report torch._dynamo"),
}  # fmt: skip
*WITHOUT_TORCH, PREDICTING, COUNTING, _, _ = NOT_LOADED
SLOW = pytest.param(["what users ask for", "training"], marks=pytest.mark.slow)
PROGRAMS = [WITHOUT_TORCH, [PREDICTING, COUNTING], SLOW]


def output(parts):
    """What a program of these parts prints; behind each part, all that is loaded."""
    return printed(
        "import sys\n" + "".join(f"{NOT_LOADED[part][0]}\nprint('loaded:', *sys.modules)\n" for part in parts)
    )


@pytest.mark.parametrize("parts", PROGRAMS, ids=lambda parts: parts[0])
def test_what_a_program_does_not_need_is_not_loaded(parts):
    loaded = [line.split() for line in output(parts) if line.startswith("loaded: ")]
    for part, names in zip(parts, loaded, strict=True):
        unneeded = tuple(f"{name}." for name in NOT_LOADED[part][1].split())
        assert sorted(name for name in names if f"{name}.".startswith(unneeded)) == [], part


def test_what_was_imported_is_seldom_searched_for_cycles_and_not_at_the_end():
    """By default the collector begins with 700 young objects."""
    searches, frozen = map(int, output(WITHOUT_TORCH)[-1].removeprefix("cycles: ").split())
    assert searches < 40
    assert frozen > 20_000


@pytest.mark.slow
def test_no_module_sets_an_environment_variable():
    """PyTorch itself may set one. The links at the top of the repository hide nobody else's packages."""
    printed(
        "import importlib, os, pathlib; before = dict(os.environ)\n"
        f"for path in sorted(pathlib.Path({str(PACKAGE)!r}).rglob('*.py')):\n"
        f"    parts = path.relative_to({str(PACKAGE.parent)!r}).with_suffix('').parts\n"
        "    if parts[-1] != '__main__' and 'tensorboard' not in parts:\n"
        "        importlib.import_module('.'.join(parts).removesuffix('.__init__'))\n"
        "ours = {k: v for k, v in os.environ.items() if before.get(k) != v and k != 'TORCHINDUCTOR_CACHE_DIR'}\n"
        "assert not [k for k in ours if k.startswith(('ONEDNN', 'OMP', 'MKL', 'TORCH', 'HF_'))], ours\n"
        "if importlib.util.find_spec('transformers'):\n"
        "    import tokenizers\n"
        "    assert tokenizers.Tokenizer.__module__ == 'tokenizers'\n"
        "print('done')"
    )


# From a command to the model in few frames, through the files that CONTRIBUTING lists, in their order


FRAMES = 12
SMALL = (
    "--epochs 1 --items-per-epoch 8 --validation-items 4 --set encoder.hidden_dim=4 --set decoder.hidden_dim=4 --quick"
)
COMMANDS = {
    "compare": f"selfattn compare dates --models rnn-attention --seeds 1 --test-items 8 {SMALL}",
    "train": f"selfattn train dates --model rnn-attention {SMALL}",
}


class Stopped(Exception):  # noqa: N818  # no error: it ends the walk
    """The model was called."""


def listed(heading):
    """The files that CONTRIBUTING numbers under a heading."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index(f"### {heading}") :].split("\n### ")[0].split("\n## ")[0]
    return re.findall(r"^\d+\. `selfattn/([\w/.]+)`", section, re.MULTILINE)


def walk(monkeypatch, out, command, method, *, through):
    """The package's files on the way from a command to a method of the model, one for each frame, outermost first."""
    walks = []

    def stop(self, *arguments, **named):
        frames = [frame for frame in traceback.extract_stack()[:-1] if PACKAGE in Path(frame.filename).parents]
        files = [Path(frame.filename).relative_to(PACKAGE).as_posix() for frame in frames]
        if through in files:
            walks.append(files)
            raise Stopped
        return original(self, *arguments, **named)

    original = getattr(EncoderDecoder, method)
    monkeypatch.setattr(EncoderDecoder, method, stop)
    monkeypatch.setattr("sys.argv", [*COMMANDS[command].split(), "--out", str(out)])
    with pytest.raises(Stopped):
        main()
    return walks[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_way_of_a_training_step(command, monkeypatch, tmp_path):
    files = walk(monkeypatch, tmp_path / "out", command, "pre_logits", through="training/step.py")
    assert len(files) <= FRAMES, files
    rest = iter(files)
    if command == "compare":
        assert all(file in rest for file in listed("A training step")), files


def test_the_way_of_a_validation(monkeypatch, tmp_path):
    files = walk(monkeypatch, tmp_path / "out", "train", "step", through="decoding/greedy.py")
    rest = iter(files)
    assert all(file in rest for file in listed("A validation")), files
