"""Measure, and write what was measured: `python -m benchmarks --quick`, `--all`, or `--only training decoding`.

Every group of measurements runs in a process of its own, so that one that fails takes no other with it. What was
measured is kept in build/benchmarks.json after each group; with `--page` docs/benchmarks.md is written from it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Bench, Row, spread, told
from benchmarks.page import page

# Hide the instructions of a newer processor from PyTorch, oneDNN and CTranslate2.
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2"}
WIDE = ("avx512f", "avx512_bf16", "amx_bf16")  # flags of a processor that decide how fast it multiplies
GROUPS = ("processes", "training", "decoding", "attention", "integrations", "program")
NAMED = ("torch", "numpy", "transformers", "x-transformers", "ctranslate2", "joeynmt", "yoyodyne")


def machine(device: str) -> dict[str, Any]:
    """What it was measured on, and how fast it multiplies matrices."""
    import torch

    packages: dict[str, str] = {}
    for name in NAMED:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    models = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith(("model name", "model\t"))]
    name = ", model ".join(dict.fromkeys(line.partition(":")[2].strip() for line in models[:2][::-1]))
    flags = _read("/proc/cpuinfo").partition("flags")[2].partition("\n")[0].split()
    gpu = torch.cuda.get_device_name() if device == "cuda" else ""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": name or platform.processor(),
        "cores": os.cpu_count(),
        "instructions": [torch.backends.cpu.get_cpu_capability(), *(flag for flag in WIDE if flag in flags)],
        "gpu": gpu,
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": packages,
        "products": {str(dtype)[6:]: product_rate(device, dtype) for dtype in (torch.float32, torch.bfloat16)},
    }


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def product_rate(device: str, dtype: Any, n: int = 1024) -> float:
    """Return how many GF/s a product of two square matrices reaches with one thread, the best of 20."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(20):
        started = time.perf_counter()
        (a @ b).sum().item()
        times.append(time.perf_counter() - started)
    torch.set_num_threads(threads)
    return 2 * n**3 / min(times) / 1e9


def measure(group: str, bench: Bench, path: Path) -> None:
    """Measure one group in this process, and write its rows after each."""
    found: list[dict[str, Any]] = []
    try:
        for row in importlib.import_module(f"benchmarks.{group}").rows(bench):
            found.append(asdict(row))
            print(f"  {row.title}: " + ", ".join(_short(row)), flush=True)
            path.write_text(json.dumps(found))
    except Exception as error:  # a row that fails must not take the others with it
        found.append(asdict(Row(f"{group} ended early", {}, errors={group: told(error)})))
        print(f"  {told(error)}", flush=True)
    path.write_text(json.dumps(found))


def _short(row: Row) -> list[str]:
    taken = [f"{name} {spread(values)[0]:.4g} {row.unit}" for name, values in row.taken.items()]
    return [*taken, *(f"{name} failed ({error})" for name, error in row.errors.items())]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="measure everything, long ones too, with 11 turns each")
    parser.add_argument("--quick", action="store_true", help="the default: what takes 10 minutes, with 5 turns each")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="measure these groups")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where models compute")
    parser.add_argument("--turns", type=int, help="how often each way has its turn; default 5, with --all 11")
    parser.add_argument("--threads", type=int, default=1, help="of a process that computes; default 1")
    parser.add_argument("--avx2", action="store_true", help="as on a processor without AVX-512; the page has both")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmarks.json", help="where to keep figures")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md from the figures that are kept")
    parser.add_argument("--page-only", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--group", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.update(AVX2 if args.avx2 else {})
    bench = Bench(args.device, args.turns or (11 if args.all else 5), not args.all)
    if args.group:
        measure(args.group, bench, args.out)
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {"groups": {}}
    how = f"--{'all' if args.all else 'quick'}{f' --turns {args.turns}' if args.turns else ''}"
    where = (f" --threads {args.threads}" if args.threads > 1 else "") + " --device cuda" * (args.device == "cuda")
    where += " --avx2" * args.avx2
    for group in () if args.page_only else args.only:
        print(group, flush=True)
        part, started = args.out.with_name(f"benchmarks-{group}.json"), time.monotonic()
        options = ["--all"] * args.all + (["--turns", str(args.turns)] if args.turns else [])
        subprocess.run(
            [
                sys.executable,
                "-m",
                "benchmarks",
                "--group",
                group,
                "--device",
                args.device,
                "--out",
                str(part),
                *options,
            ],
            env=os.environ | {"OMP_NUM_THREADS": str(args.threads)},
            cwd=ROOT,
            check=False,
        )
        rows = json.loads(part.read_text()) if part.exists() else []
        part.unlink(missing_ok=True)
        kept["groups"][f"{group}, AVX2" if args.avx2 else group] = {
            "command": f"python -m benchmarks {how}{where} --only {group}",
            "device": args.device,
            "threads": args.threads,
            "seconds": time.monotonic() - started,
            "machine": machine(args.device),
            "rows": rows,
        }
        args.out.write_text(json.dumps(kept, indent=1))
    if args.page or args.page_only:
        for path, text in page(kept).items():
            (ROOT / path).write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
