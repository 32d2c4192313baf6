"""The command `compare together`: comparisons on several tasks, such as languages, with one verdict."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from selfattn.cli.config import MakeCommands, read_recipe
from selfattn.cli.options import Lang, unwrapped
from selfattn.codec import encode
from selfattn.data.readers.groups import named_sets
from selfattn.errors import UserError, say
from selfattn.words.messages import SOURCE

_FOLDER = Path("compare/together")


def together_command(make_commands: MakeCommands) -> Callable[..., dict[str, Any] | Iterable[str]]:
    """Make the command.

    Args:
        make_commands: makes the program for a command line, to read a recipe's options.
    """

    def together(
        *comparisons: Annotated[str, Parameter(allow_leading_hyphen=True)],
        recipe: Path | None = None,
        out: Path | None = None,
        resume: bool = False,
        lang: Lang = SOURCE,
        json_: Annotated[bool, Parameter("--json")] = False,
    ) -> dict[str, Any] | Iterable[str]:
        """Put comparisons of the same models on several tasks together, with one verdict over all.

        A row a task, such as a language; below, the mean difference over tasks with its interval to further tasks of
        this kind, and the interquartile mean and the probability of improvement on these tasks (Agarwal et al. 2021).

        Args:
            comparisons: Directories of finished comparisons, each as NAME=DIRECTORY. Three or more. Nothing is
                trained. With --recipe: options of `compare TASK` instead, such as --epochs 3, which replace those of
                the recipe.
            recipe: Recipe that lists data sets, instead of comparisons: one comparison after the other is trained.
            out: With --recipe: directory of the comparisons, one folder each. Must be new. Default: compare/together.
            resume: With --recipe: continue in --out. Finished runs are not repeated.
            lang: Language of the printed lines, and of reports.
            json_: Print the results as one JSON object.
        """
        if json_ and lang != SOURCE:
            raise UserError("--lang has no effect beside --json: leave one of them out")
        if recipe is None and (out is not None or resume):
            name = "--resume" if out is None else "--out"
            raise UserError(f"{name} goes with --recipe: give that as well, or leave it out")
        if recipe is not None and comparisons and not comparisons[0].startswith("-"):
            raise UserError(f"--recipe trains its own comparisons: leave it or {comparisons[0]} out")
        if recipe is not None:
            from selfattn.comparison.several import compare_each

            task, settings = read_recipe(recipe, make_commands, comparisons)
            place = out or _FOLDER
            try:
                places = compare_each(task, settings, place, resume=resume, lang=lang)
            except KeyboardInterrupt:
                if place.is_dir():
                    say(f"stopped; {place} keeps the finished runs: repeat the command with --resume")
                raise
        else:
            for word in comparisons:
                if word.startswith("-"):
                    raise UserError(f"Unknown option: {word}. Options of the comparisons go with --recipe")
            sets = named_sets([Path(word) for word in comparisons], "comparisons")
            if not sets or "" in sets or any(len(paths) > 1 for paths in sets.values()):
                advice = "give each comparison as NAME=DIRECTORY, such as kor=compare/kor, or a --recipe"
                raise UserError(f"compare together: {advice}")
            places = {name: paths[0] for name, paths in sets.items()}
        from selfattn.comparison.together import over_tasks, read_together, remarks, together_lines

        records = read_together(places)
        verdicts = over_tasks(records)
        if json_:
            return {"verdicts": [encode(verdict) for verdict in verdicts], "remarks": list(remarks(records))}
        lines: list[str] = []
        for verdict in verdicts:
            lines += [*together_lines(verdict, lang), ""]
        return [*lines, *remarks(records, lang)]

    together.__doc__ = unwrapped(together.__doc__ or "")
    return together
