"""A model card of a run: what it is, its data, measures with intervals and commands, limits, use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from selfattn.codec import encode
from selfattn.registry import PRESETS
from selfattn.runs.directory import RunConfig, RunRecord, flat


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
    command = f"selfattn evaluate hf://{name}"
    body = "\n".join(_lines(config, record, tokens, name, measured, reason, command))
    return f"---\n{_fields(config, name, measured or {'metrics': {}}, command)}\n---\n\n{body}\n"


def _fields(config: RunConfig, name: str, measured: Mapping[str, Any], command: str) -> str:
    """Return the fields that the Hub reads, ``model-index`` among them, in YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    results = []
    for metric, value in measured["metrics"].items():
        ends = measured.get("intervals", {}).get(metric)
        level = {"level": measured["interval"]["level"]} if ends else {}
        results.append(
            EvalResult(
                task_type="text2text-generation" if "intervals" in measured else "text-generation",
                dataset_type=config.task,
                dataset_name=measured["data"],
                dataset_split="test",
                metric_type=metric,
                metric_value=value,
                metric_name=metric.replace("_", " "),
                metric_args={"command": command, "items": measured["items"], "interval": ends} | level,
            )
        )
    data = ModelCardData(
        library_name="selfattn",
        tags=["selfattn", "attention", config.preset],
        model_name=name.partition("/")[2] if results else None,
        eval_results=results or None,
    )
    return data.to_yaml().strip()


def _lines(
    config: RunConfig,
    record: RunRecord,
    tokens: int,
    name: str,
    measured: Mapping[str, Any] | None,
    reason: str,
    command: str,
) -> Iterator[str]:
    yield f"# {config.preset}, trained on {config.task}\n"
    if config.preset in PRESETS:
        known = PRESETS[config.preset]
        yield f"{known.summary[:1].upper()}{known.summary[1:]} ({known.source}).\n"
    yield f"{record.parameters:,} parameters, {record.parameters_non_embedding:,} of them outside embeddings, and"
    yield f"a vocabulary of {tokens:,} tokens. Made with selfattn {record.versions.get('selfattn', '')}.\n"
    yield "## How to load\n"
    for plugin in config.plugins:
        yield f"It needs the plugin `{plugin}`, which is not included: `--plugin {plugin}`.\n"
    yield f'```python\nimport selfattn\n\nrun = selfattn.load("hf://{name}")\nrun.predict(["..."])\n```\n'
    yield f"```bash\nselfattn predict hf://{name} < inputs.txt\n```\n"
    yield "## Data\n"
    yield f"- task: {config.task}"
    yield from (f"- {path}: {value}" for path, value in flat(config.data))
    yield f"\n## Training\n\n```bash\n{record.command}\n```\n"
    training = encode(config.training)
    shown = ("seed", "epochs", "items_per_epoch", "batch_size", "lr", "schedule")
    yield "; ".join(f"{key} {training[key]}" for key in shown if training.get(key) is not None)
    libraries = ", ".join(f"{library} {version}" for library, version in record.versions.items())
    cpu, cores = record.machine.get("cpu"), record.machine.get("cores")
    yield f"\n{record.train_seconds:,.0f} s on {cpu}, {cores} cores; {libraries}"
    yield "\n## Results\n"
    if measured is None:
        yield f"Not measured: {reason.rstrip('.')}.\n"
    else:
        yield f"On {measured['items']:,} items of {measured['data']}; `{command}` measures them again.\n"
        level = measured["interval"]["level"] if "interval" in measured else 0.95
        yield f"| metric | value | {level:.0%} interval |\n| --- | ---: | --- |"
        for metric, value in measured["metrics"].items():
            ends = measured.get("intervals", {}).get(metric)
            interval = f"{ends[0]:.4f} to {ends[1]:.4f}" if ends else ""
            yield f"| {metric.replace('_', ' ')} | {value:.4f} | {interval} |"
        yield "\nThe intervals are over the items of the test, for this run; another seed gives another model."
    yield "\n## Limits\n"
    limits = config.model.limits()
    yield f"- By default an output has at most {config.max_length} tokens; a longer one is cut off."
    for side, most in (("An input", limits.source), ("An output", limits.target), ("Both together", limits.together)):
        if most is not None:
            yield f"- {side} can have at most {most} tokens: the model has no further positions."
    yield "- Characters and words outside its vocabulary are unknown to it."
    yield "- The results hold for inputs like the data above. On others, outputs may look right and be wrong."
