"""What a comparison is going to do, written down before it begins, so that it can go on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from selfattn.cli.compare_options import CompareOptions
from selfattn.cli.settings import with_settings
from selfattn.errors import UserError
from selfattn.figures.gates import Floor
from selfattn.figures.quality import Headline
from selfattn.figures.record import UNMATCHED, Matching, TuningTrial
from selfattn.files import read_json, write_json
from selfattn.models.config import ModelConfig, config_from_dict, config_to_dict
from selfattn.models.presets import PRESETS, get_preset

PLAN = "comparison.json"
SCHEMA = 1
_ADVICE = "choose another --out and compare again"


@dataclass(frozen=True)
class Planned:
    """One model of a comparison.

    Attributes:
        preset: the named model that its settings began from.
        config: what it is made of.
        training: settings of the training that are its own, after tuning.
        trials: of its tuning.
    """

    preset: str
    config: ModelConfig
    training: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[TuningTrial, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A comparison.

    Attributes:
        task: its name.
        command: makes the same again.
        quick: whether the trainings are small ones.
        seeds: how many.
        few: further trainings on so few pairs.
        models: by name, in their order.
        headline: what the verdict is about.
        matching: what the models were sized for.
        space: what tuning searches, setting by setting; empty where nothing is tuned.
        floor: what others reached, where the user has said so.
        tuned: whether the trials are done.
    """

    task: str
    command: str
    quick: bool
    seeds: int
    few: tuple[int, ...]
    models: Mapping[str, Planned]
    headline: Headline
    matching: Matching = UNMATCHED
    space: Mapping[str, str] = field(default_factory=dict)
    floor: Floor | None = None
    tuned: bool = True

    def runs(self) -> list[tuple[str, int, int | None]]:
        """List every run: model, seed, and on how few pairs; seed after seed."""
        full: list[tuple[str, int, int | None]] = [
            (name, seed, None) for seed in range(self.seeds) for name in self.models
        ]
        return full + [(name, 0, few) for few in self.few for name in self.models]

    def save(self, out: Path) -> None:
        """Write the plan."""
        out.mkdir(parents=True, exist_ok=True)
        models = {
            name: {
                "preset": model.preset,
                "config": config_to_dict(model.config),
                "training": dict(model.training),
                "trials": [asdict(trial) for trial in model.trials],
            }
            for name, model in self.models.items()
        }
        plain = {"schema": SCHEMA} | asdict(replace(self, models={})) | {"models": models}
        write_json(out / PLAN, plain)


def read_plan(out: Path) -> Plan:
    """Read the plan of a comparison.

    Raises:
        UserError: there is none, or it is broken.
    """
    path = out / PLAN
    data = read_json(path, _ADVICE)
    if data.pop("schema", None) != SCHEMA:
        raise UserError(f"{path}: not the plan of a comparison that this version can read; {_ADVICE}")
    try:
        models = {
            name: Planned(
                model["preset"],
                config_from_dict(model["config"], str(path)),
                model["training"],
                tuple(TuningTrial(**trial) for trial in model["trials"]),
            )
            for name, model in data.pop("models").items()
        }
        headline, matching = Headline(**data.pop("headline")), Matching(**data.pop("matching"))
        stated = data.pop("floor", None)
        floor = None if stated is None else Floor(**stated)
        plan = Plan(
            **data | {"few": tuple(data["few"])}, models=models, headline=headline, matching=matching, floor=floor
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: a setting is missing or of the wrong type ({error}); {_ADVICE}") from None
    if not (plan.models and all(type(count) is int and count >= 1 for count in (plan.seeds, *plan.few))):
        raise UserError(f"{path}: no models, or seeds and few are not whole numbers of at least 1; {_ADVICE}")
    return plan


def run_name(name: str, seed: int, few: int | None) -> str:
    """Return the directory of a run, seen from the comparison.

    Example:
        >>> run_name("transformer", 0, None), run_name("transformer", 0, 300)
        ('runs/transformer-seed0', 'runs/transformer-seed0-first300')
    """
    return f"runs/{name}-seed{seed}" + ("" if few is None else f"-first{few}")


def choose(options: CompareOptions, size: Callable[[ModelConfig], ModelConfig] | None = None) -> dict[str, Planned]:
    """Look the models up and apply what is set, before any work is done.

    A model is named as a preset, or as ``name=preset`` to give a preset another name.

    Args:
        options: of the comparison.
        size: gives a preset the size that the task asks for, before what is set; default as it is.

    Raises:
        UserError: a model is unknown or named twice, a setting is not one of a model, or a number is out of range.
    """
    options.check()
    given = tuple(PRESETS) if options.models == ("all",) else options.models
    if not given:
        raise UserError("--models: no model given; name at least one, or all")
    presets = {(name or preset): preset for name, _, preset in (_named(text) for text in given)}
    names = [name or preset for name, _, preset in (_named(text) for text in given)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"--models: {', '.join(twice)} is named twice; name each model once, or one as name=model")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise UserError(f"--set {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    return {
        name: Planned(preset, with_settings(_sized(preset, size), options.set, name))
        for name, preset in presets.items()
    }


def _sized(preset: str, size: Callable[[ModelConfig], ModelConfig] | None) -> ModelConfig:
    config = get_preset(preset).config
    return config if size is None else size(config)


def _named(text: str) -> tuple[str, str, str]:
    name, equals, preset = text.partition("=")
    if not equals:
        return "", "", text
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise UserError(f"--models {text}: expected name=model, the name of letters, digits, - and _")
    return name, equals, preset
