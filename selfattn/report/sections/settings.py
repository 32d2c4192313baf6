"""The settings of the models side by side: what differs from model to model, and what is the same for all."""

from __future__ import annotations

import json
from collections.abc import Mapping

from selfattn.figures.record import Record
from selfattn.report.drawing.numbers import NONE, amount
from selfattn.report.render.grid import Column, Grid, Line
from selfattn.report.verdict.comparability import tuning_badge
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import Message, message


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Nested settings as one level of dotted names and their values as text.

    Example:
        >>> flatten({"encoder": {"layers": 2}, "tied": True, "dropout": None})
        {'encoder.layers': '2', 'tied': 'yes', 'dropout': 'none'}
    """
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= flatten(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = setting_text(value)
    return found


def setting_text(value: object) -> str:
    """One value as a reader wants it: yes and no, lists with commas, numbers as written."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return ", ".join(setting_text(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differing_settings(record: Record) -> Grid:
    """Every setting that is not the same for all models, how they were trained first; "–" where a model has none such.

    Models stand with the highest mean first.
    """
    order = ranked(record)
    configs = [flatten(model.config) for model in order]
    names = dict.fromkeys(name for config in configs for name in config)
    models = (Column(model.name, numeric=False, model=True) for model in order)
    columns = (Column(message("col.setting"), numeric=False), *models)
    lines = []
    for name in sorted(names, key=lambda name: _rank(name, configs)):
        values = [config.get(name, NONE) for config in configs]
        if len(set(values)) > 1:
            lines.append(Line((name, *values)))
    return Grid("differing", columns, tuple(lines))


def _rank(name: str, configs: list[dict[str, str]]) -> tuple[bool, int]:
    """How they were trained, then settings that more models have."""
    return not name.startswith("training."), -sum(name in config for config in configs)


def shared_settings(record: Record) -> list[tuple[str, str]]:
    """Settings of the comparison but for the space of the tuning, then settings of the models that all share."""
    configs = [flatten(model.config) for model in record.models]
    found = list(flatten({name: value for name, value in record.settings.items() if name != "tuning_space"}).items())
    if len(configs) > 1:
        found += [(k, v) for k, v in configs[0].items() if all(config.get(k) == v for config in configs)]
    return found


def reproduce_facts(record: Record) -> list[tuple[str | Message, str | Message]]:
    """What it takes to make the same again, besides the command: signature, seeds, tuning, time, versions, machine."""
    found: list[tuple[str | Message, str | Message]] = []
    if record.headline.signature:
        found.append((message("reproduce.signature"), record.headline.signature))
    seeds = sorted({seed for model in record.models for seed in model.seeds})
    found.append((message("reproduce.seeds"), ", ".join(map(str, seeds))))
    found.append((message("reproduce.tuning"), tuning_badge(record).text))
    timings = [model.timing.train_seconds for model in record.models]
    spent = [sum(one.runs) if one.runs else one.mean for one in timings if one]
    if len(spent) == len(timings):
        found.append((message("reproduce.time"), message("reproduce.seconds", seconds=amount(sum(spent)))))
    return found + [(name, NONE if value is None else str(value)) for name, value in record.environment.items()]
