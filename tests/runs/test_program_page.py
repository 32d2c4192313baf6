"""The examples of docs/how-to/program.md run: with a small training, and with real libraries where they are there."""

import logging
from functools import partial

import pytest
from documented import programs

import selfattn

EXAMPLES = programs("program.md")
SMALL = {"items_per_epoch": 64, "validation_items": 8, "batch_size": 32, "epochs": 2}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty directory, where trainings are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selfattn, "train", partial(selfattn.train, **SMALL))
    return tmp_path


def example(name, **changes):
    names = {"__name__": name}
    text = EXAMPLES[name]
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    exec(text, names)
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
    names = example("optuna", **{"n_trials=20": "n_trials=4"})
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
