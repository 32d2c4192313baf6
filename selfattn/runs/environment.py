"""Versions, machine and commit, recorded with every result."""

import importlib
import os
import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from selfattn import __version__

_LIBRARIES = ("torch", "numpy", "babel", "safetensors")  # torch says which build it is, its metadata may not


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries that decide results.

    Example:
        >>> list(versions())
        ['selfattn', 'python', 'torch', 'numpy', 'babel', 'safetensors', 'cldr']
    """
    from babel import core as babel_core

    numbers = {"selfattn": __version__, "python": platform.python_version()}
    numbers |= {name: str(importlib.import_module(name).__version__) for name in _LIBRARIES}
    cldr: Any = babel_core.get_global("cldr")  # type: ignore[arg-type]  # a key that the stubs do not list
    return numbers | {"cldr": str(cldr["version"])}


def machine() -> dict[str, str | int | None]:
    """Return platform, CPU, cores of this process, threads of torch and memory in bytes.

    Example:
        >>> list(machine())
        ['platform', 'cpu', 'cores', 'threads', 'memory']
    """
    import torch

    # In a container a process may have fewer cores than the machine.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        memory = None
    threads = torch.get_num_threads()
    return {"platform": platform.platform(), "cpu": cpu_name(), "cores": cores, "threads": threads, "memory": memory}


def commit() -> str | None:
    """Return the commit of the checkout of this package, with ``-dirty`` for changes; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        described = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None


def cpu_name() -> str:
    """Return the name of the processor, as the system says it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Hardware")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"
