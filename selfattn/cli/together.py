"""The command `compare together`: finished comparisons on several tasks, such as languages, with one verdict."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from selfattn.cli.options import Lang
from selfattn.codec import encode
from selfattn.data.readers.named import named_sets
from selfattn.errors import UserError
from selfattn.words.messages import SOURCE


def together(
    *comparisons: Path, lang: Lang = SOURCE, json_: Annotated[bool, Parameter("--json")] = False
) -> dict[str, Any] | Iterable[str]:
    """Put comparisons of the same models on several tasks together, with one verdict over all. Nothing is trained.

    A row a task, such as a language; below, the mean difference over tasks with its interval to further tasks of this
    kind, and the interquartile mean and the probability of improvement on these tasks (Agarwal et al. 2021).

    Args:
        comparisons: Directories of comparisons, each as NAME=DIRECTORY. Three or more.
        lang: Language of the printed lines.
        json_: Print the results as one JSON object.
    """
    if json_ and lang != SOURCE:
        raise UserError("--lang has no effect beside --json: leave one of them out")
    from selfattn.comparison.together import over_tasks, read_together, together_lines

    sets = named_sets(comparisons, "comparisons")
    if not sets or "" in sets or any(len(paths) > 1 for paths in sets.values()):
        raise UserError("compare together: give each comparison as NAME=DIRECTORY, such as kor=compare/kor")
    verdicts = over_tasks(read_together({name: paths[0] for name, paths in sets.items()}))
    if json_:
        return {"verdicts": [encode(verdict) for verdict in verdicts]}
    lines: list[str] = []
    for verdict in verdicts:
        lines += [*together_lines(verdict, lang), ""]
    return lines[:-1]
