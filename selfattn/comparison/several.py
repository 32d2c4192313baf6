"""Comparisons of the same models on several tasks, such as languages, trained one after the other."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfattn.comparison.compare import compare, make_plan
from selfattn.comparison.options import MOST_SEEDS
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.preparation import prepare
from selfattn.errors import SettingError, UserError, number_of, say
from selfattn.evaluation.statistics.significance import FEWEST
from selfattn.experiments.plan import check_out
from selfattn.registry import is_name
from selfattn.streams import seed_for
from selfattn.words.messages import SOURCE

_TUNING_SEEDS = 1_000_000  # so many first seeds
_NOT_OF_ONE = ("out", "resume", "lang", "plan_only")  # they are given for all comparisons together, or not at all


def compare_each(
    task: str, settings: Mapping[str, Mapping[str, Any]], out: Path, *, resume: bool = False, lang: str = SOURCE
) -> dict[str, Path]:
    """Train comparisons one after the other, each in a directory of its own.

    All are planned before the first is trained, so files that are missing, or models that differ, are refused at once.
    Each plan is sealed as its comparison begins.

    Args:
        task: name of the task that they are comparisons on, such as ``"translation"``.
        settings: those of `selfattn.comparison.compare.compare`, without `out`, by the name of the data set.
        out: directory of all, new; a comparison is in the folder of its name.
        resume: continue; finished runs are not repeated. Default False.
        lang: of the reports. Default English.

    Returns:
        The directory of each comparison, for `selfattn.comparison.together.read_together`.

    Raises:
        SettingError: fewer than three data sets or two models, other models or another metric than the first has, a
            name that no folder can have, or a setting that :func:`compare` refuses.
        UserError: see :func:`compare`.

    Example:
        ``compare_each("translation", {"kor": {"data": ("kor.tsv",)}, "jpn": {"data": ("jpn.tsv",)}, ...},
        Path("compare/phones"))``
    """
    if not resume:
        check_out(out)
    if len(settings) < FEWEST:
        raise SettingError(f"{number_of(len(settings), 'data set')}: a verdict over tasks needs {FEWEST} or more")
    first: tuple[str, ComparisonPlan] | None = None
    complete: dict[str, dict[str, Any]] = {}
    for name, values in settings.items():
        if not is_name(name):
            raise SettingError(f"{name!r}: a data set's name is made of at most 100 letters, digits, - and _")
        for setting in _NOT_OF_ONE:
            if setting in values:
                raise SettingError(f"{name}: `{setting}` is not for one of several data sets; leave it out there")
        try:
            plan = make_plan(*prepare(task, values))  # nothing is written
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        if len(plan.models) < 2:
            raise SettingError(f"{name}: one model has no differences; compare two")
        if first is None:
            first = name, plan
        elif [*plan.models] != [*first[1].models]:
            raise SettingError(f"{name}: compares {', '.join(plan.models)}, other models than {first[0]}")
        elif plan.headline != first[1].headline:
            raise SettingError(
                f"{name}: is decided by {plan.headline.metric}, {first[0]} by {first[1].headline.metric}"
            )
        complete[name] = own_settings(name, plan) | dict(values)
    places = {}
    for number, (name, values) in enumerate(complete.items(), 1):
        places[name] = out / name
        say(f"{name}: {number} of {len(settings)}, in {places[name]}")
        compare(task, **values, out=places[name], resume=resume, lang=lang)
    return places


def own_settings(name: str, plan: ComparisonPlan) -> dict[str, int]:
    """Return a first seed of the trials that follows from the name of a data set; nothing where nothing is tuned.

    With the same trials for every data set, the luck of a tuning would be the same for all, and a verdict over data
    sets would take it for a difference of the models: false alarms of 9 to 19 % instead of 3 to 5 %.

    Args:
        name: of the data set.
        plan: of its comparison.
    """
    if not plan.space or plan.until is not None:
        return {}
    return {"tuning_seed": MOST_SEEDS + seed_for(0, f"tuning/{name}") % _TUNING_SEEDS}
