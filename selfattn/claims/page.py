"""The page of the claims suite: its record as blocks, which the report's renderers draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from selfattn.claims.claim import WORDS, Claim, Found
from selfattn.claims.record import RECORD, claim_of
from selfattn.codec import encode
from selfattn.console import all_visible
from selfattn.errors import UserError
from selfattn.registry import CLAIMS
from selfattn.report.blocks import (
    Badge,
    Block,
    Cell,
    Chart,
    Code,
    Column,
    Facts,
    Heading,
    Items,
    Linked,
    Paragraph,
    Row,
    Table,
    Verdict,
)
from selfattn.report.contents import Document, Part
from selfattn.report.drawing.numbers import p_text
from selfattn.report.drawing.scale import power_of_ten
from selfattn.report.render.html import html_of
from selfattn.report.render.markdown import markdown_of
from selfattn.report.render.terminal import print_blocks
from selfattn.report.write import as_json, write_all
from selfattn.results.claims import ClaimResult, ClaimsRecord, Contrast, Finding, Judgement
from selfattn.words.catalogue import SOURCE, read_words
from selfattn.words.messages import Message, TextLike

FINDINGS: tuple[Finding, ...] = ("holds", "conditional", "not shown", "does not hold")


def words(key: str, **values: str | int | Message) -> Message:
    """Say something of the page in every language."""
    return Message(key, values, {lang: texts[key] for lang, texts in read_words(WORDS, "page").items()})


@dataclass(frozen=True)
class ClaimsFiles:
    """Where the record of a run of claims and its pages lie."""

    record: Path
    html: Path
    markdown: Path


def write_pages(record: ClaimsRecord, out: Path, lang: str = SOURCE) -> ClaimsFiles:
    """Write `claims.json`, `claims.html` and `claims.md` of a record; nothing is run.

    Args:
        record: of a run of claims.
        out: the directory; made where there is none.
        lang: the language of the Markdown file, and the one that the page opens in.

    Raises:
        UserError: a file cannot be written, or a claim is not known here.
    """
    files = ClaimsFiles(out / RECORD, out / "claims.html", out / "claims.md")
    shown = document_of(record)
    write_all(
        {
            files.record: as_json(encode(record)),
            files.html: html_of(shown, lang),
            files.markdown: markdown_of(shown, lang),
        }
    )
    return files


def print_table(record: ClaimsRecord, console: Console, lang: str = SOURCE) -> None:
    """Print the first screen: what the verdicts are, and the figure that decides each."""
    shown = document_of(record)
    print_blocks([shown.verdict, shown.first[0]], console, lang)


def document_of(record: ClaimsRecord) -> Document:
    """Return the page of a record.

    Raises:
        UserError: a claim is not known here.
    """
    record = all_visible(record)
    shown = [_Shown(record, result) for result in record.claims]
    columns = tuple(Column(words(f"col.{key}"), numeric=False) for key in ("claim", "verdict", "decides"))
    table = Table("claims", columns, tuple(one.row() for one in shown))
    meanings = Items(tuple(words(f"means.{key}") for key in ("seed", *map(_key, FINDINGS), "theorem")))
    meaning = Part("meaning", words("means.head"), (meanings,))
    parts = (meaning, *(one.part() for one in shown), Part("how", words("how.head"), _how(record)))
    version = str(record.environment.get("selfattn", ""))
    return Document(_verdict(record), (table,), parts, version=version, has_contents=False)


def _verdict(record: ClaimsRecord) -> Verdict:
    found = [result.judgement.verdict for result in record.claims if result.judgement]
    counts = {
        key: found.count(name)
        for key, name in zip(("holds", "conditional", "not_shown", "against"), FINDINGS, strict=True)
    }
    others = [words("counts", all=len(record.claims), **counts)]
    if missing := len(record.claims) - len(found):
        others.append(words("failed_count", count=missing))
    aside = [words("quick")] if record.quick else []
    if record.not_run:
        aside.append(words("not_run", names=", ".join(record.not_run)))
    seeds = max((len(result.seeds) for result in record.claims), default=0)
    badges = [Badge("warn", words("badge.quick"))] if record.quick else [Badge("ok", words("badge.tuned"))]
    badges = [Badge("note", words("badge.seeds", count=seeds)), *badges, Badge("ok", words("badge.holm"))]
    origin = (record.created.partition("T")[0], str(record.environment.get("cpu") or ""))
    return Verdict(
        words("title"),
        words("lead"),
        tuple(others),
        False,
        tuple(aside),
        tuple(badges),
        tuple(filter(None, origin)),
    )


def _how(record: ClaimsRecord) -> tuple[Block, ...]:
    environment = record.environment
    versions = ", ".join(
        f"{name} {environment[name]}" for name in ("selfattn", "python", "torch") if environment.get(name)
    )
    facts = {
        "machine": str(environment.get("cpu") or ""),
        "cores": str(environment.get("cores") or ""),
        "versions": versions,
        "commit": str(environment.get("commit") or "–"),
        "period": f"{record.begun} – {record.created}",
        "seconds": f"{sum(result.seconds for result in record.claims):,.0f}",
    }
    return (
        Paragraph(words("how.text")),
        Facts(tuple((words(f"how.{key}"), text) for key, text in facts.items())),
        Paragraph(words("how.again")),
        Code(record.command, "command", words("how.command")),
        Paragraph(words("how.own"), note=True),
    )


def _key(finding: Finding) -> str:
    return finding.replace(" ", "-")


class _Shown:
    """One claim on the page.

    Args:
        record: of the run.
        result: what was measured for the claim.
    """

    def __init__(self, record: ClaimsRecord, result: ClaimResult) -> None:
        self.record, self.result = record, result
        self.claim: Claim = claim_of(record, result)
        self.found = Found(result.trials, record.quick)
        self.number = CLAIMS.names().index(result.name) + 1
        self.sentence = Message("", {"sentence": self.claim.say("sentence")}, {SOURCE: f"{self.number}. {{sentence}}"})

    def rules(self) -> Iterator[tuple[TextLike, Cell]]:
        """The rule in the words of now, and in those that the run recorded where they were others."""
        then, now = {lang: said["rule"] for lang, said in self.result.words.items()}, self.claim.say("rule")
        yield words("fact.rule"), now
        if now.say(SOURCE) != then[SOURCE]:
            yield words("fact.rule.then"), Message("", texts=then)

    @property
    def verdict(self) -> Message:
        """The verdict in words, behind its sign."""
        judgement = self.result.judgement
        return words(f"verdict.{_key(judgement.verdict) if judgement else 'failed'}")

    def row(self) -> Row:
        """The claim's line of the first screen."""
        judgement = self.result.judgement
        decides: TextLike = self.decides(judgement) if judgement else (self.result.failed or ("",))[0]
        return Row((Linked(self.sentence, self.result.name), self.verdict, decides))

    def decides(self, judgement: Judgement) -> Message:
        """The contrast that decides: one that is opposed, one that is not met, or the least sure."""
        under = judgement.contrasts[len(judgement.contrasts) - self.conditional(judgement) :]
        deciding = max(under or judgement.contrasts, key=lambda one: (one.opposed, not one.met, one.p))
        what, mean, need = self.claim.say(f"contrast.{deciding.name}"), self.mean(deciding), self.need(deciding)
        decides = words("decides", what=what, mean=mean, need=need)
        if not under:
            return decides
        return words("decides.condition", condition=self.claim.say(f"condition.{judgement.condition}"), decides=decides)

    def conditional(self, judgement: Judgement) -> int:
        """How many of the contrasts, the last ones, are those of the condition that is met."""
        return len(self.claim.conditions(self.found)[judgement.condition]) if judgement.condition else 0

    def part(self) -> Part:
        """The claim's section."""
        return Part(self.result.name, self.sentence, tuple(self.blocks()), names=self.found.arms)

    def blocks(self) -> Iterator[Block]:
        """What the section shows."""
        result, judgement, say = self.result, self.result.judgement, self.claim.say
        yield Heading(self.verdict, aside=self.decides(judgement) if judgement else "")
        yield Paragraph(say("explanation"))
        facts: list[tuple[TextLike, Cell]] = [
            (words("fact.source"), result.source),
            (words("fact.varied"), say("varied")),
            (words("fact.held"), say("held")),
            *self.rules(),
        ]
        if judgement and judgement.condition:
            facts.append((words("fact.condition"), say(f"condition.{judgement.condition}")))
        if judgement and not self.found.quick and self.claim.says(f"finding.{_key(judgement.verdict)}"):
            facts.append((words("fact.finding"), say(f"finding.{_key(judgement.verdict)}")))
        yield Facts(tuple(facts), wide=True)
        if result.failed:
            yield Paragraph(words("failed.head"))
            yield Items(result.failed)
        if judgement:
            yield from map(self.own, self.pictures())
            yield self.contrasts(judgement)
            yield Paragraph(self.probability(judgement), note=True)
        yield Paragraph(*self.spent(), note=True)
        path = "/".join(result.module.split(".")) + ".py" if result.module.startswith("selfattn.") else result.module
        yield Paragraph(words("code"), note=True, code=f"{path} (SHA-256 {result.code[:12]})")

    def pictures(self) -> Sequence[Block]:
        """The claim's plot; what kept it from being drawn, where a stranger's is broken."""
        try:
            return self.claim.blocks(self.found)
        except Exception as error:
            if CLAIMS.plugin_of(self.result.name) is None:
                raise
            reason = f"claim {self.result.name!r}: draws nothing ({type(error).__name__}: {error}); mend its file"
            raise UserError(reason) from error

    def own(self, block: Block) -> Block:
        """A block of the claim under an identifier of its own; lines that are named after an arm get its words."""
        if not isinstance(block, Chart | Table):
            return block
        name = f"{self.result.name}-{block.name}"
        if isinstance(block, Table):
            return replace(block, name=name)
        lines = (
            replace(line, label=line.label or (self.arm(line.name) if line.name in self.found.arms else line.name))
            for line in block.lines
        )
        height = block.height or (words("percent") if block.scale.kind == "share" else "")
        return replace(block, name=name, lines=tuple(lines), height=height)

    def contrasts(self, judgement: Judgement) -> Table:
        """Everything that the rule asks for, and what was found."""
        rule = len(judgement.contrasts) - self.conditional(judgement)
        rows = []
        for place, one in enumerate(judgement.contrasts):
            what = self.claim.say(f"contrast.{one.name}")
            mark = words("met.yes" if one.met else "met.opposed" if one.opposed else "met.no")
            name = what if place < rule else words("of_condition", what=what)
            p = "–" if self.result.theorem else _p(one.p)
            rows.append(Row((name, self.mean(one), self.need(one), mark, p)))
        heads = ("contrast", "found", "need", "met", "p")
        columns = tuple(Column(words(f"col.{key}"), numeric=key in ("found", "p")) for key in heads)
        return Table(f"{self.result.name}-contrasts", columns, tuple(rows))

    def probability(self, judgement: Judgement) -> Message:
        """The p of the claim, and what is left of it among all claims."""
        if self.result.theorem:
            return words("theorem")
        count = sum(1 for one in self.record.claims if one.judgement and not one.theorem)
        return words("holm", p=_p(judgement.p), p_holm=_p(judgement.p_holm), count=count)

    def spent(self) -> Iterator[Message]:
        """Seeds, learning rates and time."""
        result = self.result
        units = len(result.trials) + len(result.tuning)
        yield words("spent", seeds=len(result.seeds), units=units, seconds=f"{result.seconds:,.0f}")
        chosen = {one.chosen for one in result.rates}
        if len(chosen) == 1 and not self.record.quick:
            yield words("rates.same", rate=f"{chosen.pop():g}")
        elif result.rates:
            rates = self.by_arm((one.arm, f"{one.chosen:g}") for one in result.rates)
            yield words("rates.quick" if self.record.quick else "rates", rates=rates)
        if any(one.failed for one in result.rates):
            yield words(
                "rates.failed", rates=self.by_arm((one.arm, text) for one in result.rates for text in one.failed)
            )
        if pinned := {trial.pinned for trial in result.trials} - {None}:
            yield words("pinned.no" if False in pinned else "pinned.yes")
        if count := sum(one.at_edge for one in result.rates):
            yield words("edge", count=count, all=len(result.rates))

    def by_arm(self, texts: Iterable[tuple[str, str]]) -> Message:
        """Arms with a text each, and semicolons between, for some have commas."""
        one = {SOURCE: "{arm}: {text}"}
        parts = {f"p{k}": Message("", {"arm": self.arm(arm), "text": text}, one) for k, (arm, text) in enumerate(texts)}
        return Message("", parts, {SOURCE: "; ".join(f"{{{name}}}" for name in parts)})

    def arm(self, name: str) -> Message:
        """The words of an arm."""
        return self.claim.say(f"arm.{name}")

    def mean(self, one: Contrast) -> str | Message:
        """A mean with its interval; what is asserted has none."""
        if len(one.by_seed) == 1:
            return self.number_text(one, one.mean)
        mean, low, high = (self.number_text(one, value) for value in (one.mean, one.low, one.high))
        return f"{mean} [{low}, {high}]"

    def need(self, one: Contrast) -> Message:
        """What the rule asks for."""
        bound: str | Message = self.number_text(one, one.bound)
        if one.name in self.claim.points:
            bound = words("points", value=bound)
        return words(f"need.{one.need}", bound=bound)

    def number_text(self, one: Contrast, value: float) -> str:
        """A number as it is written: shares in points, others in three digits."""
        if one.name in self.claim.points:
            return f"{100 * value:.1f}".replace("-", "−")
        return power_of_ten(value)


def _p(p: float) -> str:
    return p_text(p).removeprefix("=\u00a0")
