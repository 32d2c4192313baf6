"""A small comparison over two budgets, made once; small trained runs, and the command line called from inside."""

import os
import shutil
from functools import partial
from lzma import compress

import pytest
from filelock import FileLock
from small_runs import cli, runs, small, tiny, train

from selfattn.comparison.compare import compare

__all__ = ["cli", "runs", "small", "tiny", "train"]

MODELS = ("rnn-plain", "rnn-attention")
SETTINGS = {
    "models": MODELS, "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"), "quick": True, "apart": True,
    "seeds": 2, "first_seed": 5, "budgets": (0.25, 1.0), "jobs": 1, "test_items": 20,
    "epochs": 2, "items_per_epoch": 32, "batch_size": 8, "validation_items": 5, "warmup_steps": 8,
}  # fmt: skip


@pytest.fixture(autouse=True, scope="session")
def packed_in_haste():
    """What is packed is compressed less; its SHA-256 is of what was there before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lzma.compress", partial(compress, preset=0))
        yield


@pytest.fixture
def no_page(monkeypatch):
    """Reports without their page, which takes longest to write."""
    monkeypatch.setattr("selfattn.report.write.html_of", lambda *_: "")


@pytest.fixture(scope="session")
def settings():
    """Settings of the comparison; do not change them."""
    return SETTINGS


def made_once(tmp_path_factory, name, settings):
    """Make a comparison for all workers; those that want it, too, wait for the first."""
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name / "out"
    out.parent.mkdir(exist_ok=True)
    with FileLock(f"{out}.lock"):
        if not out.exists():
            compare("dates", out=out, **settings)
    return out


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Two models over two budgets with two seeds; do not change it."""
    return made_once(tmp_path_factory, "finished", SETTINGS)


TUNED = {name: value for name, value in SETTINGS.items() if name not in ("batch_size", "warmup_steps")} | {
    "seeds": 2, "budgets": (1.0,), "space": ("lr=0.002..0.004:log", "batch_size=4,8"), "trials": 2, "margin": 1.0,
}  # fmt: skip


@pytest.fixture(scope="session")
def tuned(tmp_path_factory):
    """Two models, each with two tunings of two trials; do not change it."""
    return made_once(tmp_path_factory, "tuned", TUNED)


@pytest.fixture(scope="session")
def tuning_settings():
    """Settings of the tuned comparison; do not change them."""
    return TUNED


def copy_of(comparison, place):
    """Copy a finished comparison without what nobody reads any more; most of the time goes into the number of files."""
    ignored = shutil.ignore_patterns("last", "logs", "*.lock")
    return shutil.copytree(comparison, place, ignore=ignored, copy_function=shutil.copyfile)


@pytest.fixture
def tuned_copy(tuned, tmp_path):
    """A copy of the tuned comparison, to be changed."""
    return copy_of(tuned, tmp_path / "tuned")


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the comparison, to be changed."""
    return copy_of(finished, tmp_path / "out")
