"""The models of a comparison, looked up before any work is done. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from selfattn.comparison.planning.options import CompareOptions
from selfattn.comparison.planning.plan import Planned
from selfattn.errors import SettingError
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS, get_preset
from selfattn.registry import is_name
from selfattn.runs.task import Task
from selfattn.runs.train import with_settings


def choose(task: Task, options: CompareOptions) -> dict[str, Planned]:
    """Look the models up and apply what is set, before any work is done.

    A model is named as a preset, or as ``name=preset`` to give a preset another name.

    Args:
        task: gives presets the size that it asks for, before what is set.
        options: of the comparison.

    Raises:
        UserError: a model is unknown or named twice, or a setting is not one of a model.
    """
    named = [_named(text) for text in (PRESETS if options.models == ("all",) else options.models)]
    if not named:
        raise SettingError("`models`: no model given; name at least one, or all")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingError(f"`models`: {', '.join(twice)} is named twice; name each model once, or one as name=model")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise SettingError(f"`set` {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    found = {}
    for name, preset in named:
        config = with_settings(task.size(get_preset(preset).config), options.set, name)
        task.check_model(config, preset)
        found[name] = Planned(preset, config_to_dict(config))
    return found


def primary_pair(task: Task, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two models that a comparison is about: those that the task asks about, or the only two."""
    asked = task.subject().pair
    if asked and set(asked) <= set(names):
        return asked
    return (names[0], names[1]) if len(names) == 2 else None


def _named(text: str) -> tuple[str, str]:
    name, equals, preset = text.partition("=")
    if not equals:
        return text, text
    if not is_name(name) or not name.isascii() or " " in name:
        raise SettingError(f"`models` {text}: expected name=model, the name of at most 100 letters, digits, - and _")
    return name, preset
