"""`python -m tasks.compare` takes the options of `selfattn compare`; without a task it compares on dates."""

import runpy
import sys

from selfattn.tasks.dates import Dates

if __name__ == "__main__":
    rest = sys.argv[1:]
    while rest and rest[0].partition("=")[0] == "--plugin":
        rest = rest[1 if "=" in rest[0] else 2 :]
    has_task = bool(rest) and not rest[0].startswith("-")
    place = len(sys.argv) - len(rest)
    sys.argv[place:place] = ["compare"] if has_task else ["compare", Dates.name]
    runpy.run_module("selfattn.cli", run_name="__main__")
