"""`python -m tasks.compare` takes the options of `selfattn compare`; without a task it compares on dates."""

import runpy
import sys

from selfattn.tasks.dates import Dates

if __name__ == "__main__":
    plugins = list[str]()
    rest = sys.argv[1:]
    while rest and rest[0].partition("=")[0] == "--plugin":
        words = 1 if "=" in rest[0] else 2
        plugins = plugins + rest[:words]
        rest = rest[words:]
    task = [] if rest and not rest[0].startswith("-") else [Dates.name]
    sys.argv[1:] = [*plugins, "compare", *task, *rest]
    runpy.run_module("selfattn.cli", run_name="__main__")
