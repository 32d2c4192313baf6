"""The page of a run of claims: its record as blocks, which the report's renderers draw."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from selfattn.claims.claim import WORDS, Claim
from selfattn.claims.record import RECORD, claim_of, code_of, rule_of
from selfattn.claims.rules import Trials
from selfattn.codec import encode, fingerprint
from selfattn.errors import UserError, all_visible
from selfattn.registry import CLAIMS
from selfattn.report import blocks
from selfattn.report.drawing.numbers import p_text
from selfattn.report.drawing.scale import power_of_ten
from selfattn.report.render.html import html_of
from selfattn.report.render.markdown import markdown_of
from selfattn.report.render.terminal import print_blocks
from selfattn.report.write import as_json, write_all
from selfattn.results.claims import ClaimResult, ClaimsRecord, Contrast, Finding, Judgement
from selfattn.words.messages import SOURCE, Message, TextLike, message, read_words

FINDINGS: tuple[Finding, ...] = ("holds", "conditional", "not shown", "does not hold")


def words(key: str, **values: str | int | Message) -> Message:
    """Return words of the page, in every language."""
    return Message(key, values, {lang: texts[key] for lang, texts in read_words(WORDS, "page").items()})


def write_pages(record: ClaimsRecord, out: Path, lang: str = SOURCE) -> Path:
    """Write `claims.json`, `claims.html` and `claims.md` of a record; nothing is run.

    Args:
        record: of a run of claims.
        out: directory of the files.
        lang: language of the Markdown file, and in which the page opens.

    Returns:
        The path of the page.

    Raises:
        UserError: a file cannot be written, or a claim is unknown.
    """
    page, html, data = document_of(record), out / "claims.html", encode(record)
    text = as_json(data | {"checksum": fingerprint(data)})
    write_all({out / RECORD: text, html: html_of(page, lang), out / "claims.md": markdown_of(page, lang)})
    return html


def print_table(record: ClaimsRecord, console: Console, lang: str = SOURCE) -> None:
    """Print the first screen: the verdicts, and what was measured."""
    page = document_of(record)
    print_blocks([page.verdict, page.first[0]], console, lang)


def document_of(record: ClaimsRecord) -> blocks.Document:
    """Return the page of a record.

    Raises:
        UserError: a claim is unknown.
    """
    record = all_visible(record)
    sections = [_Section(record, result) for result in record.claims]
    has_blocks = any(result.blocks for result in record.claims)
    heads = ("claim", "verdict", "shows", "picture", *(("replicated",) if has_blocks else ()))
    columns = tuple(blocks.Column(words(f"col.{key}"), numeric=False) for key in heads)
    table = blocks.Table("claims", columns, tuple(blocks.Row(section.row()[: len(heads)]) for section in sections))
    meanings = blocks.Items(tuple(words(f"means.{key}") for key in ("seed", *map(_key, FINDINGS), "theorem")))
    meaning = blocks.Part("meaning", words("means.head"), (meanings,))
    parts = (meaning, *(section.part() for section in sections), blocks.Part("how", words("how.head"), _how(record)))
    version = str(record.environment.get("selfattn", ""))
    return blocks.Document(_verdict(record), (table,), parts, version=version, has_contents=False)


def _verdict(record: ClaimsRecord) -> blocks.Verdict:
    verdicts = [result.judgement.verdict for result in record.claims if result.judgement]
    keys = zip(("holds", "conditional", "not_shown", "against"), FINDINGS, strict=True)
    others = [words("counts", all=len(record.claims), **{key: verdicts.count(name) for key, name in keys})]
    if missing := len(record.claims) - len(verdicts):
        others.append(words("failed_count", count=missing))
    aside = [words("quick")] if record.quick else []
    departed = record.plan.departures if record.plan else ()
    aside += [message(f"departure.{part.kind}", what=", ".join(part.what)) for part in departed]
    edited = [result.name for result in record.claims if rule_of(claim_of(record, result)) != result.rule]
    aside += [words("edited", claims=", ".join(edited))] if edited else []
    seeds = max((len(result.seeds) for result in record.claims), default=0)
    badges = [
        blocks.Badge("note", words("badge.seeds", count=seeds)),
        blocks.Badge("warn", words("badge.quick")) if record.quick else blocks.Badge("ok", words("badge.tuned")),
        blocks.Badge("ok", words("badge.holm")),
    ]
    if record.plan:
        planned = blocks.Badge("ok", message("badge.planned"))
        badges.append(blocks.Badge("warn", message("badge.departed")) if departed else planned)
    machines = dict.fromkeys(str(record.environment.get("cpu") or "").split(", "))  # of several records, each one once
    origin = filter(None, (record.created.partition("T")[0], ", ".join(machines)))
    return blocks.Verdict(
        words("title"), words("lead"), tuple(others), False, tuple(aside), tuple(badges), tuple(origin)
    )


def _how(record: ClaimsRecord) -> tuple[blocks.Block, ...]:
    environment = record.environment
    names = [name for name in ("selfattn", "python", "torch") if environment.get(name)]
    facts = {
        "machine": str(environment.get("cpu") or ""),
        "cores": str(environment.get("cores") or ""),
        "versions": ", ".join(f"{name} {environment[name]}" for name in names),
        "commit": str(environment.get("commit") or "–"),
        "period": f"{record.begun} – {record.created}",
        "seconds": f"{sum(result.seconds for result in record.claims):,.0f}",
    }
    return (
        blocks.Paragraph(words("how.text")),
        blocks.Facts(tuple((words(f"how.{key}"), text) for key, text in facts.items())),
        blocks.Paragraph(words("how.again")),
        blocks.Code(record.command, "command", words("how.command")),
        blocks.Paragraph(words("how.own"), note=True),
    )


def _key(finding: Finding) -> str:
    return finding.replace(" ", "-")


class _Section:
    """One claim on the page.

    Args:
        record: of the run.
        result: of the claim.
    """

    def __init__(self, record: ClaimsRecord, result: ClaimResult) -> None:
        self.record, self.result = record, result
        self.claim: Claim = claim_of(record, result)
        self.trials = Trials(trial for trial in result.trials if trial.seed in result.seeds)
        self.number = CLAIMS.names().index(result.name) + 1
        self.sentence = Message("", {"sentence": self.claim.say("sentence")}, {SOURCE: f"{self.number}. {{sentence}}"})

    @property
    def verdict(self) -> Message:
        """The verdict in words."""
        judgement = self.result.judgement
        return words(f"verdict.{_key(judgement.verdict) if judgement else 'failed'}")

    def row(self) -> tuple[blocks.Cell, ...]:
        """The claim's line of the first screen."""
        judgement, agreed = self.result.judgement, self.result.replications
        shows = self.shows(judgement) if judgement else (self.result.failed or ("",))[0]
        replicated: TextLike = "–"
        if judgement and agreed:
            replicated = words("replicated.yes" if set(agreed) == {judgement.verdict} else "replicated.no")
        return blocks.Styled(self.sentence, link=self.result.name), self.verdict, shows, self.bars(), replicated

    def results(self) -> dict[str, tuple[float, str]]:
        """Each result of the plain sentence as a number and as text."""
        results = {}
        for name, (arm, figure) in self.claim.shows.items():
            mean = self.trials.mean(arm, figure).mean
            in_percent = self.claim.unit == "share" and self.claim.says(f"bar.{name}")
            results[name] = (mean, f"{100 * mean:.0f}\u00a0%" if in_percent else f"{mean:.2g}")
        return results

    def shows(self, judgement: Judgement) -> Message:
        """What was measured, in one plain sentence; without words for it, the contrast that decides."""
        if not self.claim.says("shows"):
            return self.decides(judgement)
        return self.claim.say("shows", **{name: text for name, (_, text) in self.results().items()})

    def bars(self) -> blocks.Cell:
        """Results of the plain sentence that have words ``bar.NAME``, as bars."""
        if not self.result.judgement or not self.claim.shows:
            return ""
        results = {name: result for name, result in self.results().items() if self.claim.says(f"bar.{name}")}
        longest = 1.0 if self.claim.unit == "share" else max((value for value, _ in results.values()), default=1.0)
        entries = ((self.claim.say(f"bar.{name}"), value / longest, text) for name, (value, text) in results.items())
        return blocks.Bars(tuple(entries))

    def decides(self, judgement: Judgement) -> Message:
        """The contrast that decides: an opposed one, one that is not met, or the one with the largest p."""
        rule, weaker = self.split(judgement)
        deciding = max(weaker or rule, key=lambda contrast: (contrast.opposed, not contrast.met, contrast.p))
        what, mean, need = self.claim.say(f"contrast.{deciding.name}"), self.mean(deciding), self.need(deciding)
        decides = words("decides", what=what, mean=mean, need=need)
        if not weaker:
            return decides
        return words("decides.condition", condition=self.claim.say(f"condition.{judgement.condition}"), decides=decides)

    def split(self, judgement: Judgement) -> tuple[tuple[Contrast, ...], tuple[Contrast, ...]]:
        """The contrasts of the rule, and those of the condition that is met."""
        count = len(self.claim.conditions(self.trials)[judgement.condition]) if judgement.condition else 0
        end = len(judgement.contrasts) - count
        return judgement.contrasts[:end], judgement.contrasts[end:]

    def part(self) -> blocks.Part:
        """The claim's section."""
        return blocks.Part(self.result.name, self.sentence, tuple(self.content()), names=self.trials.arms)

    def content(self) -> Iterator[blocks.Block]:
        """Blocks of the section."""
        result, judgement, say = self.result, self.result.judgement, self.claim.say
        yield blocks.Heading(self.verdict, aside=self.shows(judgement) if judgement else "")
        explanation = say("explanation")
        paragraphs = [[(lang, part) for part in text.split("\n\n")] for lang, text in explanation.texts.items()]
        yield from (
            blocks.Paragraph(replace(explanation, texts=dict(texts))) for texts in zip(*paragraphs, strict=True)
        )
        facts: list[tuple[TextLike, blocks.Cell]] = [
            (words("fact.source"), result.source),
            (words("fact.varied"), say("varied")),
            (words("fact.held"), say("held")),
            (words("fact.rule"), say("rule")),
        ]
        then, now = result.rule, rule_of(self.claim)
        edited = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        if edited:
            changes = (f"{name}: {then.get(name, '–')} → {now.get(name, '–')}" for name in edited)
            facts.append((words("fact.edited"), "; ".join(changes)))
        if judgement and judgement.condition:
            facts.append((words("fact.condition"), say(f"condition.{judgement.condition}")))
        if judgement and not self.record.quick and self.claim.says(f"finding.{_key(judgement.verdict)}"):
            facts.append((words("fact.finding"), say(f"finding.{_key(judgement.verdict)}")))
        if self.record.quick and self.claim.quick_sizes:
            sizes = (f"{name} {size}" for name, size in self.claim.size.items())
            facts.append((words("fact.sizes"), ", ".join(sizes)))
        yield blocks.Facts(tuple(facts), wide=True)
        if result.failed:
            yield blocks.Paragraph(words("failed.head"))
            yield blocks.Items(result.failed)
        if judgement:
            yield from self.pictures()
        yield blocks.Folded(words("details"), f"{result.name}-details", tuple(self.details()))

    def details(self) -> Iterator[blocks.Block]:
        """The rule's statistics, and how the claim was measured."""
        if judgement := self.result.judgement:
            yield blocks.Paragraph(self.decides(judgement))
            yield self.contrasts(judgement)
            yield blocks.Paragraph(self.probability(judgement), note=True)
        yield blocks.Paragraph(*self.spent(), note=True)
        module, code = type(self.claim).__module__, self.result.code
        path = "/".join(module.split(".")) + ".py" if module.startswith("selfattn.") else module
        changed = words("code.changed") if code_of(type(self.claim)) != code else None
        yield blocks.Paragraph(changed, words("code"), note=True, code=f"{path} (SHA-256 {code[:12]})")

    def pictures(self) -> tuple[blocks.Block, ...]:
        """The claim's plot and table.

        Raises:
            UserError: those of a plugin fail.
        """
        try:
            return self.claim.blocks(self.trials)
        except Exception as error:
            if CLAIMS.plugin_of(self.result.name) is None:
                raise
            reason = f"claim {self.result.name!r}: draws nothing ({type(error).__name__}: {error}); mend its file"
            raise UserError(reason) from error

    def contrasts(self, judgement: Judgement) -> blocks.Table:
        """Everything that the rule needs, and what was measured."""
        rule, _ = self.split(judgement)
        rows = []
        for place, contrast in enumerate(judgement.contrasts):
            what = self.claim.say(f"contrast.{contrast.name}")
            mark = words("met.yes" if contrast.met else "met.opposed" if contrast.opposed else "met.no")
            name = what if place < len(rule) else words("of_condition", what=what)
            p = "–" if self.result.theorem else _p(contrast.p)
            rows.append(blocks.Row((name, self.mean(contrast), self.need(contrast), mark, p)))
        heads = ("contrast", "found", "need", "met", "p")
        columns = tuple(blocks.Column(words(f"col.{key}"), numeric=key in ("found", "p")) for key in heads)
        return blocks.Table(f"{self.result.name}-contrasts", columns, tuple(rows))

    def probability(self, judgement: Judgement) -> Message:
        """The p of the claim, and the p corrected for all claims."""
        if self.result.theorem:
            return words("theorem")
        count = sum(bool(result.judgement and not result.theorem) for result in self.record.claims)
        return words("holm", p=_p(judgement.p), p_holm=_p(judgement.p_holm), count=count)

    def spent(self) -> Iterator[Message]:
        """Seeds, learning rates and time."""
        result = self.result
        units = len(result.trials) + len(result.tuning)
        seeds = ", ".join(f"{block[0]}–{block[-1]}" for block in (result.seeds, *result.blocks) if block)
        yield words("spent", seeds=seeds, units=units, seconds=f"{result.seconds:,.0f}")
        if result.rates:
            rates = self.by_arm((rate.arm, f"{rate.chosen:g}") for rate in result.rates)
            yield words("rates.quick" if self.record.quick else "rates", rates=rates)
        if failed := [(rate.arm, text) for rate in result.rates for text in rate.failed]:
            yield words("rates.failed", rates=self.by_arm(failed))
        if any(arm.alone for arm in self.claim.arms()):
            yield words("alone")
        if count := sum(rate.at_edge for rate in result.rates):
            yield words("edge", count=count, all=len(result.rates))

    def by_arm(self, texts: Iterable[tuple[str, str]]) -> Message:
        """Arms with a text each, separated by semicolons."""
        form = {SOURCE: "{arm}: {text}"}
        parts = {
            f"p{k}": Message("", {"arm": self.claim.say(f"arm.{arm}"), "text": text}, form)
            for k, (arm, text) in enumerate(texts)
        }
        return Message("", parts, {SOURCE: "; ".join(f"{{{name}}}" for name in parts)})

    def mean(self, contrast: Contrast) -> str:
        """A mean with its interval; an assertion has none."""
        if len(contrast.by_seed) == 1:
            return self.number_text(contrast, contrast.mean)
        mean, low, high = (self.number_text(contrast, v) for v in (contrast.mean, contrast.low, contrast.high))
        return f"{mean} [{low}, {high}]"

    def need(self, contrast: Contrast) -> Message:
        """The bound of the rule."""
        bound: str | Message = self.number_text(contrast, contrast.bound)
        if contrast.name in self.claim.points:
            bound = words("points", value=bound)
        return words(f"need.{contrast.need}", bound=bound)

    def number_text(self, contrast: Contrast, value: float) -> str:
        """A number: shares in points, others with three digits."""
        if contrast.name in self.claim.points:
            return f"{100 * value:.1f}".replace("-", "−")
        return power_of_ten(value)


def _p(p: float) -> str:
    return p_text(p).removeprefix("=\u00a0")
