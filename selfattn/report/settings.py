"""The settings of the models side by side: what differs from model to model, and what is the same for all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from selfattn.report.numbers import NONE
from selfattn.report.record import Record
from selfattn.report.verdict import ranked


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


def config_table(record: Record) -> list[dict[str, Any]]:
    """Settings that at least two models have and that are not the same for all: a name and one value a model.

    Models stand with the highest mean first; "–" is where a model has no such setting.
    """
    configs = [flatten(model.config) for model in ranked(record)]
    names = dict.fromkeys(name for config in configs for name in config)
    found = []
    for name in names:
        values = [config.get(name, NONE) for config in configs]
        if sum(name in config for config in configs) > 1 and len(set(values)) > 1:
            found.append({"name": name, "values": values})
    return found


def own_settings(record: Record) -> dict[str, list[tuple[str, str]]]:
    """By model, the settings that no other model has."""
    configs = {model.name: flatten(model.config) for model in record.models}
    held = Counter(name for config in configs.values() for name in config)
    return {
        model: [(name, value) for name, value in config.items() if held[name] == 1] for model, config in configs.items()
    }


def shared_settings(record: Record) -> list[tuple[str, str]]:
    """Settings of the comparison, then settings of the models that are the same for all of them."""
    configs = [flatten(model.config) for model in record.models]
    found = list(flatten(record.settings).items())
    if len(configs) > 1:
        found += [(k, v) for k, v in configs[0].items() if all(config.get(k) == v for config in configs)]
    return found
