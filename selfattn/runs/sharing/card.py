"""A model card from what a run knows of itself: what it is, data, figures with intervals and commands, limits, use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from selfattn.codec import encode
from selfattn.decoding.options import GREEDY
from selfattn.errors import UserError
from selfattn.registry import PRESETS
from selfattn.runs.directory import RunConfig, RunRecord
from selfattn.runs.sharing.public import public_text

if TYPE_CHECKING:
    from selfattn.runs.run import Run


def model_card(run: Run, config: RunConfig, record: RunRecord, name: str, *, test: bool = True) -> str:
    """Write the model card of a run, in Markdown with the Hub's fields in front.

    Args:
        run: whose it is.
        config: its settings as they are published.
        record: its record as it is published.
        name: ``user/name``, for the code that loads it.
        test: measure it on the test part of its data first, as ``selfattn evaluate`` does; default True. Where the data
            are not there, or it is not wanted, the card says so.
    """
    measured, reason = None, "it was published without"
    if test:
        try:
            measured = run.task.evaluate(run, (), GREEDY, None)
        except UserError as error:
            reason = public_text(str(error))
    command = f"selfattn evaluate hf://{name}"
    body = "\n".join(_lines(run, config, record, name, measured, reason, command))
    return f"---\n{_fields(config, name, measured, command)}\n---\n\n{body}\n"


def _fields(config: RunConfig, name: str, measured: Mapping[str, Any] | None, command: str) -> str:
    """The fields that the Hub reads, ``model-index`` among them, in YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    results = []
    for metric, value in measured["metrics"].items() if measured else ():
        ends = measured.get("intervals", {}).get(metric) if measured else None
        told = {"command": command, "items": measured["items"] if measured else None}
        told |= {"interval": ends, "level": measured["interval"]["level"]} if measured and ends else {}
        results.append(
            EvalResult(
                task_type="text2text-generation" if measured and "intervals" in measured else "text-generation",
                dataset_type=config.task,
                dataset_name=public_text(str(measured["data"])) if measured else "",
                dataset_split="test",
                metric_type=metric,
                metric_value=value,
                metric_name=metric.replace("_", " "),
                metric_args=told,
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
    run: Run,
    config: RunConfig,
    record: RunRecord,
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
    yield f"a vocabulary of {len(run.tokenizer):,} tokens. Made with selfattn {record.versions.get('selfattn', '')}.\n"
    yield "## How to load\n"
    for plugin in config.plugins:
        yield f"It needs the plugin `{plugin}`, which is not part of it: `--plugin {plugin}`.\n"
    yield f'```python\nimport selfattn\n\nrun = selfattn.load("hf://{name}")\nrun.predict(["..."])\n```\n'
    yield f"```bash\nselfattn predict hf://{name} < inputs.txt\n```\n"
    yield "## Data\n"
    yield f"- task: {config.task}"
    yield from (f"- {path}: {value}" for path, value in _flat(config.data))
    yield "\n## Training\n"
    yield f"```bash\n{record.command}\n```\n"
    training = encode(config.training)
    shown = ("seed", "epochs", "items_per_epoch", "batch_size", "lr", "schedule")
    yield "; ".join(f"{key} {training[key]}" for key in shown if training.get(key) is not None)
    yield (
        f"\n{record.train_seconds:,.0f} s on {record.machine.get('cpu')}, {record.machine.get('cores')} cores; "
        + ", ".join(f"{library} {version}" for library, version in record.versions.items())
    )
    yield "\n## Figures\n"
    if measured is None:
        yield f"Not measured: {reason.rstrip('.')}.\n"
    else:
        data = public_text(str(measured["data"]))
        yield f"On {measured['items']:,} items of {data}; `{command}` measures them again.\n"
        level = measured["interval"]["level"] if "interval" in measured else 0.95
        yield f"| metric | value | {level:.0%} interval |\n| --- | ---: | --- |"
        for metric, value in measured["metrics"].items():
            ends = measured.get("intervals", {}).get(metric)
            interval = f"{ends[0]:.4f} to {ends[1]:.4f}" if ends else ""
            yield f"| {metric.replace('_', ' ')} | {value:.4f} | {interval} |"
        yield "\nThe intervals are over the items of the test, for this one run: another seed gives another model."
    yield "\n## Limits\n"
    limits = config.model.limits()
    yield f"- An output has at most {config.max_length} tokens, if not asked for otherwise; a longer one is cut off."
    for side, most in (("An input", limits.source), ("An output", limits.target), ("Both together", limits.together)):
        if most is not None:
            yield f"- {side} cannot have more than {most} tokens: it has no positions for more."
    yield "- Characters and words that are not in its vocabulary are not known to it."
    yield "- What is measured holds for inputs like those of the data above. On others it may write"
    yield "  what looks right and is wrong; nothing in it says which."


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
