"""Run and search the trials of an experiment side by side, in processes of this machine, or on a Dask or Ray cluster.

joblib sends the trials out. A trial writes all that it does into the directory of the experiment, which every worker
sees; the main process reads from there what became of it. A worker that dies loses only the steps since the last
checkpoint.
"""

import io
import logging
import os
import re
import signal
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from platform import node
from typing import Any, Generic, Protocol, TextIO, TypeVar

import cloudpickle
import torch
from filelock import FileLock, Timeout
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor

from selfattn.errors import UserError, describe_error
from selfattn.experiments.progress import Display, Logs, Reporter
from selfattn.files import open_to_append, writing
from selfattn.processes import SIGNALS, first_interrupt, use_threads
from selfattn.registry import REGISTRIES, load_plugin, loaded_plugins
from selfattn.streams import training_lock
from selfattn.training.config import DeviceName
from selfattn.words.messages import SOURCE

_ALONE = 2  # broken pools of a trial after which it is tried alone
_BREAKS = 3  # pools that may break before any trial begins


@dataclass(frozen=True)
class Workers:
    """Where trials run, and how many at once.

    Attributes:
        out: directory of the experiment.
        jobs: trials at once; default one on each core or GPU of this machine, or each thread of a cluster.
        backend: processes of this machine, or the workers of a cluster.
        address: of the cluster.
        threads: of each trial.
        device: where trials compute.
        lang: language of the progress lines.
    """

    out: Path
    jobs: int | None = None
    backend: str = "local"
    address: str | None = None
    threads: int = 1
    device: DeviceName = "cpu"
    lang: str = SOURCE

    @property
    def on_gpus(self) -> bool:
        """Whether each trial takes a GPU."""
        return self.device != "cpu" and torch.cuda.is_available()


class Job(Protocol):
    """A trial that is still to be run: a function of plain settings."""

    @property
    def label(self) -> str:
        """Its name in logs and errors."""


T = TypeVar("T", bound=Job)


class Runner(ABC, Generic[T]):
    """Runs the trials of an experiment; it is pickled and sent to the workers.

    Attributes:
        workers: where trials run.
    """

    workers: Workers

    @abstractmethod
    def is_done(self, trial: T) -> bool:
        """Whether the result of a trial is on disk."""

    @abstractmethod
    def run(self, trial: T, reporter: Reporter) -> None:
        """Run a trial, or what is left of it, and keep its result on disk."""


def run_all(runner: Runner[T], trials: Sequence[T]) -> dict[str, str]:
    """Run every trial that is not done yet; the results do not depend on how many run at once.

    Processes of this machine wait for further trials until :func:`stop_workers`.

    Args:
        runner: runs them.
        trials: in the order in which they begin.

    Returns:
        For each trial that failed, by its label, the reason.

    Raises:
        UserError: the cluster cannot be reached, or no trial can be sent out.
        KeyboardInterrupt: Ctrl-C or SIGTERM stopped the trials.
    """
    pending = [trial for trial in trials if not runner.is_done(trial)]
    if not pending:
        return {}
    workers = runner.workers
    logs = Logs(runner.workers.out)
    with writing(workers.out):
        logs.path.mkdir(parents=True, exist_ok=True)
        logs.clear([trial.label for trial in pending])
    first = pending[0].label
    failed = dict[str, str]()
    lost = Counter[str]()
    breaks = 0
    with (
        connect_backend(workers, len(pending)) as (backend, count),
        Display(logs, [trial.label for trial in pending], lang=workers.lang) as display,
        _stopping(logs.stop, display.say),
    ):
        while pending and not logs.stop.exists():
            together = [trial for trial in pending if lost[trial.label] < _ALONE] or pending[:1]
            broken = ""
            if backend == "loky" and count == 1:
                for trial in together:
                    if logs.stop.exists():
                        break
                    with (
                        training_lock(trial.label),
                        use_threads(workers.threads),
                        _reported(logs, trial.label, first, raises=True) as reporter,
                    ):
                        runner.run(trial, reporter)
            else:
                broken = _send_out(runner, together, backend, count, first)
            states = {trial.label: progress for trial in together if (progress := logs.read(trial.label))}
            if broken and not any(progress.state == "running" for progress in states.values()):
                breaks += 1
                if breaks == _BREAKS:
                    raise UserError(f"`jobs`: cannot be sent out ({broken}); see `jobs`, `backend` and `address`")
            for trial in together:
                label = trial.label
                progress = states.get(trial.label)
                if progress is not None and progress.state == "failed":
                    failed[label] = progress.reason
                elif runner.is_done(trial) or (broken and progress is None) or logs.stop.exists():
                    continue
                elif not broken:
                    failed[label] = f"left nothing in {workers.out}; all workers have to see this directory"
                elif len(together) == 1:
                    failed[label] = f"its process died ({broken})"
                else:
                    lost[label] += 1
                    display.say(f"{label}: stopped when a process died ({broken}); goes on from its last checkpoint")
            pending = [trial for trial in pending if not (trial.label in failed or runner.is_done(trial))]
        if logs.stop.exists():
            raise KeyboardInterrupt
    logs.clear([trial.label for trial in trials if trial.label not in failed])
    return failed


@contextmanager
def connect_backend(workers: Workers, trials: int) -> Iterator[tuple[str, int]]:
    """Connect to what runs the trials.

    Args:
        workers: the backend, its address and how many trials at once.
        trials: number of trials; more never run at once.

    Returns:
        joblib's name of the backend, and how many trials run at once.

    Raises:
        UserError: the package of the backend is not installed, or the cluster cannot be reached.
    """
    backend = workers.backend
    address = workers.address
    if backend == "local":
        yield "loky", min(workers.jobs or (torch.cuda.device_count() if workers.on_gpus else cpu_count()), trials)
        return
    try:
        if backend == "dask":
            from distributed import Client

            with Client(address, timeout=30) as client:
                yield backend, min(workers.jobs or sum(client.nthreads().values()), trials)
        else:
            import ray
            from ray.util.joblib import register_ray

            register_ray()
            with ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR):
                cores = int(ray.cluster_resources().get("CPU", 1))
                yield backend, min(workers.jobs or cores, trials)
    except ImportError as error:
        raise UserError(f"`backend` {backend}: {error}; pip install 'selfattn[{backend}]'") from None
    except (OSError, ConnectionError, ValueError) as error:
        raise UserError(f"`address` {address}: cannot be reached ({_in_short(error)}); see `backend`") from None


@contextmanager
def _stopping(stop: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM ask all trials to stop; the second one stops at once."""

    def ask() -> None:
        stop.touch()
        say("stopping: trainings save what they have, tests come to their end; once more stops at once")

    with first_interrupt(ask):
        # A terminal sends its signal to every process; workers do not get it, they read the file. The start of this
        # tracker, which joblib needs, ends a block.
        resource_tracker.ensure_running()
        can_block = hasattr(signal, "pthread_sigmask")
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS) if can_block else None
        try:
            yield
        finally:
            if blocked is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def _reported(logs: Logs, label: str, first: str, *, raises: bool) -> Iterator[Reporter]:
    """Write what a trial prints into its log, and what becomes of it into its progress file.

    Args:
        logs: of the experiment.
        label: of the trial.
        first: label of the trial that prints notes.
        raises: whether unexpected errors and interrupts are raised again; otherwise they are only logged.
    """
    reporter = Reporter(logs, label, is_first=label == first)
    with _open_log(logs.log(label)) as log, redirect_stderr(log):
        try:
            yield reporter
        except KeyboardInterrupt:
            reporter.write(state="interrupted")
            if raises:
                raise
        except Exception as error:
            if raises and not isinstance(error, UserError):
                raise
            reason = str(error) if isinstance(error, UserError) else describe_error(error)
            print(f"{label}: failed: {reason}", file=log)
            if not isinstance(error, UserError):
                traceback.print_exc(file=log)
            reporter.write(state="failed", reason=reason)
        else:
            reporter.write(state="done")


def _open_log(path: Path) -> TextIO:
    with writing(path, "choose another `out`"):
        return io.TextIOWrapper(io.BufferedWriter(open_to_append(path)), encoding="utf-8", line_buffering=True)


def _send_out(runner: Runner[T], trials: Sequence[T], backend: str, count: int, first: str) -> str:
    """Run trials in other processes; return why their pool broke, or nothing."""
    parcel = pack(runner)
    folder = os.getcwd()
    parent = os.getpid() if backend == "loky" else None  # workers of a cluster are no children of this process
    calls = []
    for trial in trials:
        calls.append(delayed(_run_in_worker)(parcel, trial.label, cloudpickle.dumps(trial), folder, first, parent))
    try:
        with warnings.catch_warnings(), parallel_config(backend=backend):
            # A worker that restarts to free memory.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            Parallel(n_jobs=count, batch_size=1)(calls)
    except Exception as error:
        return _in_short(error)
    return ""


def stop_workers() -> None:
    """End the idle processes of this machine, which wait for further trials; the end of a program waits for them."""
    get_reusable_executor().shutdown(wait=True)


def _in_short(error: BaseException) -> str:
    """The exit codes of the workers where the text has them, else its first line."""
    codes = re.search(r"exit codes? of the workers are \{(.*?)\}", str(error))
    return codes[1] if codes else describe_error(error)


def pack(value: Any) -> bytes:
    """Pickle a value for another process: plugins by name, parts that a script registered as they are."""
    parts = {
        number: {
            name: part
            for name, part in registry.items()
            if registry.plugin_of(name) not in loaded_plugins()
            and not str(getattr(part, "__module__", "")).startswith("selfattn.")
        }
        for number, registry in enumerate(REGISTRIES)
    }
    parcel: bytes = cloudpickle.dumps((loaded_plugins(), cloudpickle.dumps((parts, value))))
    return parcel


def unpack(parcel: bytes) -> Any:
    """Return what was packed, after loading its plugins and registering its parts."""
    plugins, inner = cloudpickle.loads(parcel)
    for plugin in plugins:
        load_plugin(plugin)
    parts, value = cloudpickle.loads(inner)
    for number, named in parts.items():
        for name, part in named.items():
            if name not in REGISTRIES[number]:
                REGISTRIES[number].register(name)(part)
    return value


_unpack_once = lru_cache(maxsize=1)(unpack)  # a runner keeps the data of a seed for the next trial


def _run_in_worker(
    parcel: bytes, label: str, pickled: bytes, folder: str, first: str, parent: int | None = None
) -> None:
    """Run a trial in another process; failures are written down, not raised. Without its parent it begins none.

    The trial is read after the plugins of the parcel are loaded, for it may hold parts of theirs. A worker with several
    threads runs one trial at a time: a trial changes what belongs to the process.
    """
    with ExitStack() as stack:
        stack.enter_context(training_lock(label))
        stack.enter_context(chdir(folder))
        runner: Runner[Job] = _unpack_once(parcel)
        trial: Job = cloudpickle.loads(pickled)
        logs = Logs(runner.workers.out)
        if logs.stop.exists() or parent not in (None, os.getppid()):
            return
        if runner.workers.on_gpus:
            take_gpu(logs.path, stack)
        stack.enter_context(use_threads(runner.workers.threads))
        reporter = stack.enter_context(_reported(logs, label, first, raises=False))
        runner.run(trial, reporter)


def take_gpu(folder: Path, stack: ExitStack) -> None:
    """Compute on a GPU that no other worker of this host has taken; with fewer GPUs than workers, the last is shared.

    Args:
        folder: where a file is locked for each GPU in use.
        stack: gives the GPU back.
    """
    for number in (torch.cuda.current_device(), *range(torch.cuda.device_count())):
        with suppress(Timeout):
            stack.enter_context(FileLock(folder / f".{node()}-gpu{number}.lock", timeout=0))
            torch.cuda.set_device(number)
            return
