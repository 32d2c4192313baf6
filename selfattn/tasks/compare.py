"""`python -m tasks.compare` takes what `selfattn compare` takes, and without a task compares on dates."""

from __future__ import annotations

import runpy
import sys

from selfattn.tasks.dates import Dates

if __name__ == "__main__":
    if not sys.argv[1:] or sys.argv[1].startswith("-"):
        sys.argv.insert(1, Dates.name)
    sys.argv.insert(1, "compare")
    runpy.run_module("selfattn.cli", run_name="__main__")
