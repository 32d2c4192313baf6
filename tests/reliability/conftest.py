"""A small comparison to be damaged and forged."""

import multiprocessing
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from selfattn.comparison.compare import compare


@contextmanager
def tested_on_few():
    """Test a run on few dates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("selfattn.tasks.dates.Dates.test_items", lambda task, quick: 8)
        patch.setattr("selfattn.data.dates.source._PROBES", 4)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_items():
    with tested_on_few():
        yield


@pytest.fixture(scope="session")
def small_comparison():
    """Compare a single small model."""
    sizes = ("encoder.hidden_dim=8", "decoder.hidden_dim=8")
    settings = {"models": ("plain=rnn-plain",), "quick": True, "test_items": 4, "set": sizes}
    settings |= {"epochs": 1, "items_per_epoch": 64, "validation_items": 5}
    return lambda out, **more: compare("dates", out=out, **settings, **more)


@pytest.fixture(scope="session")
def whole(small_comparison, tmp_path_factory):
    """A small comparison of one model; do not change it."""
    out = tmp_path_factory.mktemp("comparison") / "whole"
    with tested_on_few():
        small_comparison(out)
    return out


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of the comparison, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "comparison"))


@pytest.fixture(scope="session")
def processes(request):
    """Start processes that have the program loaded."""
    if sys.platform == "win32":
        pytest.skip("Windows has no server that forks")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    preloaded = ["training_parts", "selfattn.cli.tokenizer", "selfattn.data.readers.pairs", "selfattn.exports.onnx"]
    if "reliability" in request.config.option.markexpr:
        preloaded.append("selfattn.comparison.compare")
    context.set_forkserver_preload(preloaded)
    with pytest.MonkeyPatch.context() as patch:  # the server of Python 3.11 is not told of this process's paths
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("OMP_NUM_THREADS", "1")
        forkserver.ensure_running()
    return context
