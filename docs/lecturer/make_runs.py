"""Train the models of the lab and pack them, for laptops that are too slow: `python docs/lecturer/make_runs.py`.

It writes `lab-runs.zip`. Unpacked beside the lab, its models are there already, and no cell trains.
"""

from __future__ import annotations

import math
import runpy
import shutil
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def training_cell() -> str:
    """Return the program of the lab that trains its first model."""
    parts = runpy.run_path(str(HERE.parent / "make_notebooks.py"))["parts"]
    text = (HERE / "source" / "lab.md").read_text(encoding="utf-8")
    return str(next(code for kind, code in parts(text) if kind == "run" and "def train(" in code))


if __name__ == "__main__":
    lab: dict[str, Any] = {"math": math, "dates": {}}
    exec(training_cell(), lab)
    for model in lab["RATES"]:
        lab["train"](model)
        print(model, lab["dates"][model])
    print(shutil.make_archive("lab-runs", "zip", ".", lab["RUNS"]))
