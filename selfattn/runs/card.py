"""A model card of a run: what it is, its data, measures with intervals and commands, limits, use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from selfattn.codec import encode
from selfattn.registry import PRESETS
from selfattn.runs.directory import RunConfig, RunRecord, flat

_SHOWN = ("seed", "epochs", "items_per_epoch", "batch_size", "lr", "schedule")


def model_card(
    config: RunConfig, record: RunRecord, tokens: int, name: str, measured: Mapping[str, Any] | None, reason: str
) -> str:
    """Return the model card of a run, in Markdown with the Hub's fields in front.

    Args:
        config: settings of the run as they are published.
        record: of the run as it is published.
        tokens: size of the vocabulary.
        name: ``user/name``, for the code that loads the run.
        measured: results of ``selfattn evaluate``; None if it was not measured.
        reason: why it was not measured.
    """
    from jinja2 import Environment

    command = f"selfattn evaluate hf://{name}"
    presets = [PRESETS[config.preset]] if config.preset in PRESETS else []
    training, limits = encode(config.training), config.model.limits()
    level = (measured or {}).get("interval", {}).get("level", 0.95)
    template = resources.files("selfattn.runs").joinpath("card.md.j2").read_text(encoding="utf-8")
    return (
        Environment(keep_trailing_newline=True)
        .from_string(template)
        .render(
            {
                "config": config,
                "record": record,
                "tokens": tokens,
                "name": name,
                "measured": measured,
                "reason": reason,
            },
            fields=_fields(config, name, measured or {"metrics": {}}, command, level),
            about="".join(f"{preset.summary[:1].upper()}{preset.summary[1:]} ({preset.source})." for preset in presets),
            data=list(flat(config.data)),
            training="; ".join(f"{key} {training[key]}" for key in _SHOWN if training.get(key) is not None),
            libraries=", ".join(f"{library} {version}" for library, version in record.versions.items()),
            command=command,
            level=level,
            limits=[("An input", limits.source), ("An output", limits.target), ("Both together", limits.together)],
        )
    )


def _fields(config: RunConfig, name: str, measured: Mapping[str, Any], command: str, level: float) -> str:
    """Return the fields that the Hub reads, ``model-index`` among them, in YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="text2text-generation" if "intervals" in measured else "text-generation",
            dataset_type=config.task,
            dataset_name=measured["data"],
            dataset_split="test",
            metric_type=metric,
            metric_value=value,
            metric_name=metric.replace("_", " "),
            metric_args={"command": command, "items": measured["items"]}
            | ({"interval": ends, "level": level} if (ends := measured.get("intervals", {}).get(metric)) else {}),
        )
        for metric, value in measured["metrics"].items()
    ]
    data = ModelCardData(
        library_name="selfattn",
        tags=["selfattn", "attention", config.preset],
        model_name=name.partition("/")[2] if results else None,
        eval_results=results or None,
    )
    return data.to_yaml().strip()
