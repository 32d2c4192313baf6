"""Programs of users: the examples of docs/how-to/program.md run, and mypy and pyright find each wrong call by its line.

Trainings are small; other libraries are real where they are installed.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from documented import programs
from mypy import api

import selfattn

EXAMPLES = programs("program.md")
SMALL = {"items_per_epoch": 64, "validation_items": 8, "batch_size": 32, "epochs": 2}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty directory, where trainings are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selfattn, "train", partial(selfattn.train, **SMALL))
    return tmp_path


def example(name, before="", after=""):
    names = {"__name__": name}
    assert before in EXAMPLES[name]
    exec(EXAMPLES[name].replace(before, after) if before else EXAMPLES[name], names)
    return names


def test_the_library(place, capsys):
    names = example("library")
    output, epochs = capsys.readouterr().out.splitlines()
    assert output == str(names["run"].predict(["Thursday, November 13, 2008"], beam=5))
    assert epochs == "3 epochs by the task's recipe"


def test_logging(place, monkeypatch):
    logger = logging.getLogger("selfattn")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    level = logger.level
    try:
        example("logging")
        logger.info("a note")
        logger.warning("a warning")
    finally:
        logger.setLevel(level)
        for handler in logging.getLogger().handlers:
            handler.close()
    assert (place / "training.log").read_text() == "WARNING:selfattn:a warning\n"


def test_every_example_is_run():
    assert set(EXAMPLES) == {"library", "logging", "optuna", "mlflow", "wandb"}
    for name in ("mlflow", "wandb"):
        code = EXAMPLES[name].split("class ")[1].split("\n\n\n")[0]
        assert len(code.splitlines()) <= 10


def test_optuna_prunes(place):
    optuna = pytest.importorskip("optuna", reason="needs Optuna")
    optuna.logging.disable_default_handler()
    names = example("optuna", "n_trials=20", "n_trials=4")
    states = [trial.state.name for trial in names["study"].trials]
    assert len(states) == 4
    assert states[0] == "COMPLETE"
    assert set(states) <= {"COMPLETE", "PRUNED"}
    complete = [trial.value for trial in names["study"].trials if trial.state.name == "COMPLETE"]
    assert names["study"].best_value == min(complete)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")  # of MLflow's own database
def test_mlflow_has_the_curves(place, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs MLflow")
    mlflow.set_tracking_uri(f"sqlite:///{place / 'mlflow.db'}")
    example("mlflow")
    (run,) = mlflow.search_runs(output_format="list")
    curve = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    assert [point.step for point in curve] == [1, 2, 3, 4]
    assert {"valid_loss", "exact_match", "lr"} <= set(run.data.metrics)


def test_wandb_has_the_curves(place, monkeypatch):
    pytest.importorskip("wandb", reason="needs wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    example("wandb")
    assert list((place / "wandb").glob("offline-run-*/run-*.wandb"))


# What `mypy --strict` and pyright say of a program

# Types of other libraries count as Any, so that a check takes a second.
SETTINGS = f"""\
[mypy]
strict = true
mypy_path = {Path(selfattn.__file__).parents[1]}
no_site_packages = true
ignore_missing_imports = true
[mypy-selfattn.*]
ignore_errors = true
"""

PROGRAM = """\
from pathlib import Path

import torch
from selfattn import CompareOptions, MultiHeadAttention, Observer, Pair, StepReport, StopTraining, compare, load, train


class Stop(Observer):
    def stepped(self, report: StepReport) -> None:
        if report.loss < 0.1:
            raise StopTraining


train("dates", model="transformer", out="runs/a", epochs=3, observers=[Stop()])
run = load("runs/a")
outputs: list[str] = run.predict(["1 May 1999"], beam=5)
pair = Pair("1 May 1999", "1999-05-01")
probability: float = run.score([pair])[0].log_probability
links: list[tuple[int, int]] = run.align([pair], layer=0)[0]
columns: tuple[str, ...] = run.attention("1 May 1999").source_tokens
options = CompareOptions(models=("rnn-attention", "transformer"), out=Path("compare/a"))
record, files = compare("dates", options, training={"lr": 1e-3}, task_options={"locales": ("ko_KR",)})
page: Path = files.html
name: str = run.task.name
layer = MultiHeadAttention(64, num_heads=4)
states = torch.randn(2, 11, 64)
weights = layer(states, causal=True, need_weights=True).weights
"""

WRONG = {
    "run.task.nam": '"TaskData" has no attribute "nam"; maybe "name"?',
    "layer(states, casual=True)": 'Unexpected keyword argument "casual" for "__call__" of "MultiHeadAttention"',
    'train("dates", out="runs/a", lrr=2)': 'Unexpected keyword argument "lrr" for "train"; did you mean "lr"?',
    'compare("dates", seedz=3)': 'Unexpected keyword argument "seedz" for "compare"',
    'compare("dates", training={"lrr": 2.0})': 'Argument "training" to "compare" has incompatible type',
    'compare("dates", lr="high")': 'Argument "lr" to "compare" has incompatible type "str"; expected "float"',
    'run.predict(["a"], beams=5)': 'Unexpected keyword argument "beams" for "predict" of "Predictor"',
    'run.score([("a", "b")])': 'List item 0 has incompatible type "tuple[str, str]"; expected "Pair"',
}


@pytest.fixture
def program(tmp_path):
    """The right program and the wrong calls; mypy raises the limit of its process."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + "\n".join(WRONG), encoding="utf-8")
    before = sys.getrecursionlimit()
    yield path
    sys.setrecursionlimit(before)


def test_mypy_accepts_a_program_and_finds_wrong_calls(program, tmp_path):
    config = tmp_path / "mypy.ini"
    config.write_text(SETTINGS, encoding="utf-8")
    options = ("--config-file", config, "--cache-dir", os.devnull, "--hide-error-codes", program)
    report, errors, _ = api.run([str(option) for option in options])
    assert not errors
    lines = [line.partition("program.py:")[2] for line in report.splitlines() if ": error: " in line]
    first = PROGRAM.count("\n") + 1
    for number, (line, message) in enumerate(zip(lines, WRONG.values(), strict=True), first):
        assert line.startswith(f"{number}: error: {message}")


@pytest.mark.usefixtures("program")
def test_pyright_accepts_the_program_and_finds_the_wrong_calls(tmp_path):
    root = Path(selfattn.__file__).parents[1]
    installed = root / "tests" / "browser" / "node_modules" / ".bin"
    pyright = shutil.which("pyright") or shutil.which("pyright", path=str(installed))
    if pyright is None:
        pytest.skip("pyright is not installed: npm install --no-package-lock --prefix tests/browser")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(root)]}), encoding="utf-8")
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    problems = json.loads(done.stdout)["generalDiagnostics"]
    lines = {problem["range"]["start"]["line"] for problem in problems if problem["severity"] == "error"}
    first = PROGRAM.count("\n")
    assert sorted(lines) == [*range(first, first + len(WRONG))]
