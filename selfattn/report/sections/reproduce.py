"""How to make the same again: the command, and what it takes besides."""

from __future__ import annotations

from selfattn.registry import register
from selfattn.report.blocks import Block, Code, Facts, Heading, Items, Paragraph
from selfattn.report.drawing.numbers import NONE, amount
from selfattn.report.verdict.comparability import tuning_badge
from selfattn.results.record import Record
from selfattn.words.messages import Said, message


@register.section("reproduce")
class Reproduce:
    """The command with everything that decides its result."""

    title = message("head.reproduce")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """Command, facts, and where the runs lie."""
        runs = tuple(run for model in record.models for run in model.run_dirs)
        return (
            Code(record.command, "command", message("reproduce.command")),
            Facts(_facts(record)),
            *((Heading(message("reproduce.runs")), Items(runs, "runs")) if runs else ()),
            Paragraph(message("reproduce.note"), note=True),
        )


def _facts(record: Record) -> tuple[tuple[Said, Said], ...]:
    """Signature, seeds, tuning, time, versions, machine."""
    signature, seeds = record.headline.signature, sorted({seed for model in record.models for seed in model.seeds})
    found: list[tuple[Said, Said]] = [(message("reproduce.signature"), signature)] if signature else []
    found.append((message("reproduce.seeds"), ", ".join(map(str, seeds))))
    found.append((message("reproduce.tuning"), tuning_badge(record).text))
    timings = [model.timing.train_seconds for model in record.models]
    spent = [sum(one.runs) if one.runs else one.mean for one in timings if one]
    if len(spent) == len(timings):
        found.append(
            (message(f"reproduce.time.{record.times}"), message("reproduce.seconds", seconds=amount(sum(spent))))
        )
    found += [(name, NONE if value is None else str(value)) for name, value in record.environment.items()]
    return tuple(found)
