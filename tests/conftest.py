"""What all tests share: how close is close, where chance comes from, and where the real data is.

PyTorch is imported where it is needed: the process that hands out the tests starts without it.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestModule
from chromium import axe, browser, driver, violations
from hub_server import hub
from hypothesis import HealthCheck, settings
from small_runs import cli, exported_run, runs, small, tiny, train

if TYPE_CHECKING:
    from torch import Tensor

    from selfattn.evaluation.cost import BatchShape, Flops
    from selfattn.models.protocol import Seq2Seq

# One session-scoped set of small runs, and one browser, for all tests.
__all__ = ["axe", "browser", "cli", "driver", "exported_run", "hub", "runs", "small", "tiny", "train", "violations"]

# The one table: how far two computations of the same quantity, of the order of 1, may lie apart (rtol, atol).
TOLERANCES = {
    "torch.float64": (1e-9, 1e-10),
    "torch.float32": (1e-4, 1e-5),
    "torch.float16": (1e-2, 1e-2),
    "torch.bfloat16": (5e-2, 5e-2),
}

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# One training after the other, in this process, where a test does not ask for more; and one thread in each process
# (`_quickly`), since several of them test side by side.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "default", max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
if not os.access(Path(__file__).parents[1], os.W_OK):  # the database of examples lies in the checkout
    settings.register_profile("default", settings.get_profile("default"), database=None)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=3000)  # --hypothesis-profile
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session", autouse=True)
def _as_a_terminal_starts_it() -> Iterator[None]:
    """Let SIGINT interrupt, here and in programs that are started, though pytest-xdist and ``nohup`` ignore it.

    The package speaks as on the command line, also while fixtures of the session are made. A test that writes a file or
    a folder, such as a run, beside the package instead of in a temporary one fails the session.
    """
    from selfattn.errors import begin_command_line

    signal.signal(signal.SIGINT, signal.default_int_handler)
    begin_command_line()
    root = Path(__file__).parents[1]
    before = {path.name for path in root.iterdir()}
    yield
    new = {path.name for path in root.iterdir() if not path.name.startswith(".")} - before
    assert not new, f"the tests left {', '.join(sorted(new))} in {root}"


@pytest.fixture(scope="session", autouse=True)
def _quickly() -> Iterator[None]:
    """Time models once, attribute and show few outputs: comparisons in tests need no stable figures of these.

    The operations of equal models are counted once. Vocabularies are taken from 2,000 generated pairs, in which every
    character occurs. Where there is no GPU, only the CPU is seeded: torch.manual_seed also notes a traceback for every
    absent device. Git is asked once for the commit.
    """
    import torch

    from selfattn.comparison import costs, testing
    from selfattn.data import phrases, splits
    from selfattn.data.dates import source
    from selfattn.runs import fit

    count, counted = testing.count_flops, {}

    def count_once(model: Seq2Seq, shape: BatchShape) -> Flops:
        key = repr(model), shape
        if key not in counted:
            counted[key] = count(model, shape)
        return counted[key]

    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "count_flops", count_once)
        for name, value in {"_BLOCKED": 2, "_EXAMPLES": 2, "_EXAMPLES_WITHOUT_TAGS": 1}.items():
            patch.setattr(testing, name, value)
        for name, value in {"_WARM_UP": 0, "_STEPS": 1, "_SINGLE": 2, "_BATCHES": 1, "_INPUTS": 4}.items():
            patch.setattr(costs, name, value)
        for module in (source, phrases, splits):
            patch.setattr(module, "_SAMPLE", 2_000)
        patch.setattr(fit, "commit", cache(fit.commit))
        patch.setattr(os, "fsync", lambda number: None)  # no test cuts the power
        if not torch.cuda.is_available():
            patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        yield


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test starts from the same random state and lines on standard error, whatever ran before it."""
    from torch import default_generator

    from selfattn.errors import begin_command_line

    begin_command_line()
    default_generator.manual_seed(0)


@pytest.fixture(scope="session")
def close() -> Callable[[Tensor, Tensor], None]:
    """Assert that two tensors have one shape and one dtype, and values as near as that dtype's tolerance."""

    import torch

    def assert_close(actual: Tensor, expected: Tensor) -> None:
        rtol, atol = TOLERANCES[str(actual.dtype)]
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)

    return assert_close


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Return the path of a file of real data, or skip the test where the data is not beside the repository."""

    def path(name: str) -> Path:
        found = SHARED_DATA / name
        if not found.exists():
            pytest.skip(f"needs {found}")
        return found

    return path


def pytest_configure(config: pytest.Config) -> None:
    """Hand out files in their order, in which the package's many short examples are last: no worker waits long."""
    config.option.loadscopereorder = False  # of xdist


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in the docstrings of tests: there are none."""
    found = yield
    return [collector for collector in found if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage while modules are imported; later seldom, and not among what the modules hold."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 50, 50)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked slow or reliability, unless ``-m`` speaks of it."""
    for mark in ("slow", "reliability"):
        if mark not in config.option.markexpr:
            for item in items:
                if item.get_closest_marker(mark):
                    item.add_marker(pytest.mark.skip(reason=f"{mark}: run with `pytest -m {mark}`"))
