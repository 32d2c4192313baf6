"""Several jobs of a comparison at once, in processes of this machine or on a cluster.

joblib sends them out: to processes of this machine (loky), to Dask or to Ray. What a job does it writes into the
directory of the comparison, which all workers see; from there the main process knows what became of it, so a worker
that dies takes nothing with it but the steps since the last checkpoint.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from functools import lru_cache
from pathlib import Path
from platform import node
from typing import Any

import cloudpickle
import torch
from filelock import FileLock, Timeout
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor

from selfattn.comparison.planning.options import CompareOptions
from selfattn.comparison.running.jobs import Job, Jobs
from selfattn.comparison.running.progress import Logs, Reporter, View
from selfattn.errors import UserError
from selfattn.files import writing
from selfattn.interrupts import SIGNALS, first_interrupt
from selfattn.registry import REGISTRIES, load_plugin, loaded_plugins
from selfattn.training.device import use_threads

_ALONE = 2  # times that a job was in a pool that broke, after which it is tried alone


def do_all(jobs: Jobs, asked: Sequence[Job]) -> None:
    """Do every job that is not done yet, several at once. What comes of them does not depend on how many.

    Args:
        jobs: does them.
        asked: in the order in which they are begun.

    Raises:
        UserError: some failed, while the others were done; or there is no such cluster.
        KeyboardInterrupt: the user, or the system by SIGTERM, stopped them.
    """
    left = [job for job in asked if not jobs.is_done(job)]
    if not left:
        return
    options, logs = jobs.options, Logs(jobs.options.out)
    with writing(options.out):
        logs.path.mkdir(parents=True, exist_ok=True)
        logs.clear([job.label for job in left])
    notes = left[0].label
    lost: Counter[str] = Counter()
    failed: dict[str, str] = {}
    total = len(left)
    with (
        reached(options, total) as (backend, workers),
        View(logs, {job.label: job.variant.share for job in left}, workers) as view,
        stopping(logs.stop, view.say),
    ):
        while left and not logs.stop.exists():
            together = [job for job in left if lost[job.label] < _ALONE] or left[:1]
            broken = ""
            if backend == "loky" and workers == 1:
                for job in together:
                    with reported(logs, job, raises=True) as reporter:
                        jobs.train_and_test(job, [reporter], notes=job.label == notes)
            else:
                broken = _send_out(jobs, together, backend, workers, notes)
            begun = {job.label: found for job in together if (found := logs.read(job.label))}
            if broken and not any(found.state == "running" for found in begun.values()):
                raise UserError(f"jobs: cannot be sent out ({broken}); see `jobs`, `backend` and `address`")
            for job in together:
                found = begun.get(job.label)
                if found is not None and found.state == "failed":
                    failed[job.label] = found.reason
                elif jobs.is_done(job) or (broken and found is None) or logs.stop.exists():
                    continue
                elif not broken:
                    failed[job.label] = f"left nothing in {options.out}; all workers have to see this directory"
                elif len(together) == 1:
                    failed[job.label] = f"its process died ({broken})"
                else:
                    lost[job.label] += 1
                    view.say(f"{job.label}: stopped when a process died ({broken}); goes on from its last checkpoint")
            left = [job for job in left if not (job.label in failed or jobs.is_done(job))]
        if logs.stop.exists():
            raise KeyboardInterrupt
    logs.clear([job.label for job in asked if job.label not in failed])
    if failed:
        reasons = "; ".join(f"{label}: {reason} (log: {logs.log(label)})" for label, reason in failed.items())
        raise UserError(f"{len(failed)} of {total} trainings failed: {reasons}")


@contextmanager
def reached(options: CompareOptions, jobs: int) -> Iterator[tuple[str, int]]:
    """Reach what does the jobs, for a while.

    Args:
        options: say which, where it is, and how many jobs at once; where not given, one on each GPU of this machine, or
            on each core that this process may use; of a cluster, one on each thread of its workers.
        jobs: there are; more are never done at once.

    Returns:
        What joblib calls it, and how many at once.

    Raises:
        UserError: its package is not installed, or it is not there.
    """
    backend, address = options.backend, options.address
    try:
        if backend == "dask":
            from distributed import Client

            with Client(address, timeout=30) as client:
                yield backend, min(options.jobs or sum(client.nthreads().values()), jobs)
        elif backend == "ray":
            import ray
            from ray.util.joblib import register_ray

            register_ray()
            with ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR):
                cores = int(ray.cluster_resources().get("CPU", 1))
                yield backend, min(options.jobs or cores, jobs)
        else:
            here = torch.cuda.device_count() if _on_gpus(options) else cpu_count()
            yield "loky", min(options.jobs or here, jobs)
    except ImportError as error:
        raise UserError(f"`backend` {backend}: {error}; pip install 'selfattn[{backend}]'") from None
    except (OSError, ConnectionError, ValueError) as error:
        if backend == "local":
            raise
        raise UserError(f"`address` {address}: cannot be reached ({_in_short(error)}); see `backend`") from None


@contextmanager
def stopping(stop: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM ask all jobs to stop, and the second do what it does elsewhere.

    Args:
        stop: the file that asks for it.
        say: tells the user.
    """

    def asked() -> None:
        stop.touch()
        say("stopping: trainings save what they have, tests come to their end; once more stops at once")

    with first_interrupt(asked):
        # Processes that this thread starts do not get the signal that a terminal sends to all of them: they are told.
        can_block = hasattr(signal, "pthread_sigmask")
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS) if can_block else None
        try:
            yield
        finally:
            if blocked is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def reported(logs: Logs, job: Job, *, raises: bool) -> Iterator[Reporter]:
    """Do a job within it: what it says goes into its log, and what becomes of it into its file.

    Args:
        logs: of the comparison.
        job: one of its jobs.
        raises: whether what nobody expects is raised again; otherwise its traceback goes into the log alone.

    Raises:
        KeyboardInterrupt: the user does not want to wait for the end of a step.
    """
    reporter = Reporter(logs, job.label)
    with logs.log(job.label).open("a", encoding="utf-8", buffering=1) as log, redirect_stderr(log):
        try:
            yield reporter
        except KeyboardInterrupt:
            reporter.write(state="interrupted")
            if raises:
                raise
        except Exception as error:
            known = isinstance(error, UserError)
            if raises and not known:
                raise
            reason = str(error) if known else f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"{job.label}: failed: {reason}", file=log)
            if not known:
                traceback.print_exc(file=log)
            reporter.write(state="failed", reason=reason)
        else:
            reporter.write(state="done")


def _send_out(jobs: Jobs, together: Sequence[Job], backend: str, workers: int, notes: str) -> str:
    """Have jobs done by other processes; return why the pool of them broke, or nothing where it did not."""
    parcel = packed(jobs.task, jobs.recipe, jobs.options, jobs.command)
    here = os.getcwd()
    calls = [delayed(_do_in_worker)(parcel, job, here, notes=job.label == notes) for job in together]
    try:
        with warnings.catch_warnings(), parallel_config(backend=backend):
            # Of a worker that gave back memory by beginning anew.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            Parallel(n_jobs=workers, batch_size=1)(calls)
        if backend == "loky":  # idle workers would be waited for at the end of a program that multiprocessing began
            get_reusable_executor().shutdown(wait=True)
    except Exception as error:
        return _in_short(error)
    return ""


def _in_short(error: BaseException) -> str:
    """The exit codes of the workers, where the text has them; else its first line."""
    codes = re.search(r"exit codes? of the workers are \{(.*?)\}", str(error))
    return codes[1] if codes else f"{type(error).__name__}: {error}".splitlines()[0]


def packed(*values: Any) -> bytes:
    """Pack values for another process with what it needs to know: plugins by name, parts of a script's own as they are.

    Args:
        values: what :func:`unpacked` gives back there.
    """
    own = {
        number: {
            name: part
            for name, part in kind.items()
            if kind.plugin_of(name) not in loaded_plugins()
            and not str(getattr(part, "__module__", "")).startswith("selfattn.")
        }
        for number, kind in enumerate(REGISTRIES)
    }
    parcel: bytes = cloudpickle.dumps((loaded_plugins(), cloudpickle.dumps((own, values))))
    return parcel


def unpacked(parcel: bytes) -> tuple[Any, ...]:
    """Return what was packed, after all parts are known here that were known there."""
    plugins, inner = cloudpickle.loads(parcel)
    for plugin in plugins:
        load_plugin(plugin)
    own, values = cloudpickle.loads(inner)
    for number, parts in own.items():
        for name, part in parts.items():
            if name not in REGISTRIES[number]:
                REGISTRIES[number].register(name)(part)
    found: tuple[Any, ...] = values
    return found


def _on_gpus(options: CompareOptions) -> bool:
    return options.device != "cpu" and torch.cuda.is_available()


@lru_cache(maxsize=1)  # the data of a seed are kept for the next model
def _jobs(parcel: bytes) -> Jobs:
    return Jobs(*unpacked(parcel))


def _do_in_worker(parcel: bytes, job: Job, folder: str, *, notes: bool) -> None:
    """Do a job in a process that was started for it: what fails is written down, not raised."""
    os.chdir(folder)
    jobs = _jobs(parcel)
    logs = Logs(jobs.options.out)
    if logs.stop.exists():
        return
    with ExitStack() as stack:
        if _on_gpus(jobs.options):
            _take_gpu(logs.path, stack)
        stack.enter_context(use_threads(jobs.options.thread_count))
        reporter = stack.enter_context(reported(logs, job, raises=False))
        jobs.train_and_test(job, [reporter], notes=notes)


def _take_gpu(folder: Path, stack: ExitStack) -> None:
    """Compute on a GPU of this host that no other worker has taken, the last one again where it is free.

    Where there are more workers than GPUs, the last one is shared.

    Args:
        folder: where a file is locked for each GPU that is taken.
        stack: gives it back.
    """
    for number in (torch.cuda.current_device(), *range(torch.cuda.device_count())):
        with suppress(Timeout):
            stack.enter_context(FileLock(folder / f".{node()}-gpu{number}.lock", timeout=0))
            torch.cuda.set_device(number)
            return
