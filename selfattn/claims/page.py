"""The page of a run of claims: its record as blocks, which the report's renderers draw."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

from selfattn.claims.claim import Claim
from selfattn.claims.claim import page_words as words
from selfattn.claims.rules import Trials, has_learned
from selfattn.claims.run import RECORD
from selfattn.codec import encode, fingerprint
from selfattn.errors import UserError, all_visible, describe_error
from selfattn.ownership import MARKDOWN_MARK
from selfattn.registry import CLAIMS
from selfattn.report import blocks
from selfattn.report.html import html_of
from selfattn.report.numbers import bare_p_text, power_of_ten
from selfattn.report.ranking import departures
from selfattn.report.text import markdown_of, print_blocks
from selfattn.report.write import as_json, write_all
from selfattn.results.claims import ClaimResult, ClaimsRecord, Contrast, Finding, Judgement
from selfattn.words.messages import SOURCE, Message, TextLike, message

_COLUMNS = ("col.claim", "col.verdict", "col.shows", "col.picture", "col.replicated")
_MEANINGS = (
    *("means.seed", "means.pooled"),
    *("means.holds", "means.conditional", "means.not shown", "means.does not hold", "means.not learned"),
    "means.theorem",
)


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
    page = document_of(record)
    html = out / "claims.html"
    data = encode(record)
    text = as_json(data | {"checksum": fingerprint(data)})
    markdown = markdown_of(page, lang) + MARKDOWN_MARK
    write_all({out / RECORD: text, html: html_of(page, lang), out / "claims.md": markdown})
    return html


def print_table(record: ClaimsRecord, lang: str = SOURCE) -> None:
    """Print the first screen: the verdicts, and what was measured."""
    page = document_of(record)
    print_blocks([page.verdict, page.first[0]], lang=lang)


def document_of(record: ClaimsRecord) -> blocks.Document:
    """Return the page of a record.

    Raises:
        UserError: a claim is unknown.
    """
    record = all_visible(record)
    sections = [_Section(record, result) for result in record.claims]
    heads = _COLUMNS if any(result.blocks for result in record.claims) else _COLUMNS[:-1]
    columns = tuple(blocks.Column(words(key), numeric=False) for key in heads)
    table = blocks.Table("claims", columns, tuple(blocks.Row(section.row()[: len(heads)]) for section in sections))
    meaning = blocks.Part("meaning", words("means.head"), (blocks.Items(tuple(map(words, _MEANINGS))),))
    parts = (meaning, *(section.part() for section in sections), blocks.Part("how", words("how.head"), _how(record)))
    version = str(record.environment.get("selfattn", ""))
    return blocks.Document(_verdict(record), (table,), parts, version=version, has_contents=False)


def _verdict(record: ClaimsRecord) -> blocks.Verdict:
    verdicts = [result.judgement.verdict for result in record.claims if result.judgement]
    keys = zip(("holds", "conditional", "not_shown", "against", "not_learned"), get_args(Finding), strict=True)
    counts = words("counts", all=len(record.claims), **{key: verdicts.count(name) for key, name in keys})
    departed = departures(record.plan)
    aside = [*([words("quick")] if record.quick else []), *departed]
    seeds = max((len(result.seeds) for result in record.claims), default=0)
    badges = [
        blocks.Badge("note", words("badge.seeds", count=seeds)),
        blocks.Badge("warn", words("badge.quick")) if record.quick else blocks.Badge("ok", words("badge.tuned")),
        blocks.Badge("ok", words("badge.holm")),
    ]
    if record.plan:
        planned = blocks.Badge("ok", message("badge.planned"))
        badges.append(blocks.Badge("warn", message("badge.departed")) if departed else planned)
    origin = (record.created.partition("T")[0],)
    return blocks.Verdict(words("title"), words("lead"), (counts,), False, tuple(aside), tuple(badges), origin)


def _how(record: ClaimsRecord) -> tuple[blocks.Block, ...]:
    environment = record.environment
    versions = ", ".join(f"{name} {environment.get(name)}" for name in ("selfattn", "python", "torch"))
    facts = (
        (words("how.machine"), str(environment.get("cpu") or "")),
        (words("how.versions"), versions),
        (words("how.commit"), str(environment.get("commit") or "–")),
        (words("how.period"), f"{record.begun} – {record.created}"),
    )
    return (
        blocks.Paragraph(words("how.text")),
        blocks.Facts(facts),
        blocks.Paragraph(words("how.again")),
        blocks.Code(record.command, "command", words("how.command")),
        blocks.Paragraph(words("how.own"), note=True),
    )


class _Section:
    """One claim on the page.

    Args:
        record: of the run.
        result: of the claim.
    """

    def __init__(self, record: ClaimsRecord, result: ClaimResult) -> None:
        self.record = record
        self.result = result
        self.claim: Claim = CLAIMS[result.name](record.quick)
        self.trials = Trials(result.trials)
        number = CLAIMS.names().index(result.name) + 1
        self.sentence = Message("", {"sentence": self.claim.say("sentence")}, {SOURCE: f"{number}. {{sentence}}"})
        self.verdict = words(f"verdict.{result.judgement.verdict}" if result.judgement else "verdict.failed")
        alike = [verdict for verdict in result.replications if result.judgement and verdict == result.judgement.verdict]
        if 2 * len(alike) < len(result.replications):
            self.verdict = words("verdict.together", verdict=self.verdict)
        self.results: dict[str, tuple[float, str]] = {}  # of the plain sentence, each as a number and as text
        for name, (arm, figure) in self.claim.shows.items() if result.judgement else ():
            if not self.trials.values(arm, figure):  # a quick run leaves the arm out
                continue
            mean = self.trials.mean(arm, figure).mean
            in_percent = self.claim.unit == "share" and self.claim.says(f"bar.{name}")
            self.results[name] = (mean, shown_share(mean) if in_percent else f"{mean:.2g}")

    def row(self) -> tuple[blocks.Cell, ...]:
        """Return the claim's line of the first screen."""
        result = self.result
        shows = self.shows() if result.judgement else (result.failed or ("",))[0]
        replicated: TextLike = "–"
        if result.judgement and result.replications:
            verdicts = {f"run{k}": words(f"verdict.{verdict}") for k, verdict in enumerate(result.replications)}
            runs = Message("", verdicts, {SOURCE: "; ".join(f"{{{run}}}" for run in verdicts)})
            agrees = set(result.replications) == {result.judgement.verdict}
            replicated = words("replicated.yes") if agrees else words("replicated.no", runs=runs)
        return blocks.Styled(self.sentence, link=result.name), self.verdict, shows, self.bars(), replicated

    def shows(self) -> TextLike:
        """Return what was measured, in one plain sentence; nothing without words for it, or with a result missing."""
        if not (self.result.judgement and self.claim.says("shows")) or self.results.keys() != self.claim.shows.keys():
            return ""
        return self.claim.say("shows", **{name: text for name, (_, text) in self.results.items()})

    def bars(self) -> blocks.Cell:
        """Return the results of the plain sentence that have words ``bar.NAME``, as bars."""
        results = {name: result for name, result in self.results.items() if self.claim.says(f"bar.{name}")}
        longest = 1.0 if self.claim.unit == "share" else max((value for value, _ in results.values()), default=1.0)
        entries = ((self.claim.say(f"bar.{name}"), value / longest, text) for name, (value, text) in results.items())
        return blocks.Bars(tuple(entries)) if results else ""

    def part(self) -> blocks.Part:
        """Return the claim's section."""
        return blocks.Part(self.result.name, self.sentence, tuple(self.content()), names=self.trials.arms)

    def content(self) -> Iterator[blocks.Block]:
        """Return the blocks of the section.

        Raises:
            UserError: the plot or the table of a plugin fails.
        """
        result = self.result
        judgement = self.result.judgement
        say = self.claim.say
        explanation = say("explanation")
        yield blocks.Heading(self.verdict, aside=self.shows())
        paragraphs = [[(lang, part) for part in text.split("\n\n")] for lang, text in explanation.texts.items()]
        for texts in zip(*paragraphs, strict=True):
            yield blocks.Paragraph(replace(explanation, texts=dict(texts)))
        facts: list[tuple[TextLike, blocks.Cell]] = [
            (words("fact.source"), result.source),
            (words("fact.varied"), say("varied")),
            (words("fact.held"), say("held")),
            (words("fact.rule"), say("rule")),
        ]
        if judgement and judgement.condition:
            facts.append((words("fact.condition"), say(f"condition.{judgement.condition}")))
        if judgement and not self.record.quick and self.claim.says(f"finding.{judgement.verdict}"):
            facts.append((words("fact.finding"), say(f"finding.{judgement.verdict}")))
        yield blocks.Facts(tuple(facts), wide=True)
        if judgement:
            try:
                yield from self.claim.blocks(self.trials)
            except Exception as error:  # of a plugin
                reason = f"claim {result.name!r}: draws nothing ({describe_error(error)}); mend its file"
                raise UserError(reason) from error
        else:
            yield blocks.Paragraph(words("failed.head"))
            yield blocks.Items(result.failed)
        yield blocks.Folded(words("details"), f"{result.name}-details", tuple(self.details()))

    def details(self) -> Iterator[blocks.Block]:
        """Return the rule's statistics, and how the claim was measured."""
        result = self.result
        judgement = self.result.judgement
        if judgement:
            yield self.contrasts(judgement)
            yield blocks.Paragraph(self.probability(judgement), note=True)
        seeds = ", ".join(f"{block[0]}–{block[-1]}" for block in (result.seeds, *result.blocks))
        trials = len(result.trials) + len(result.tuning)
        spent = words("spent", seeds=seeds, units=trials, seconds=f"{result.seconds:,.0f}")
        alone = words("alone") if any(arm.alone for arm in self.claim.arms()) else None
        yield blocks.Paragraph(spent, alone, note=True)
        if result.rates:
            at_edge = sum(rate.at_edge for rate in result.rates)
            edge = words("edge", count=at_edge, all=len(result.rates)) if at_edge else None
            fixed = all(len(rate.tried) == 1 for rate in result.rates)
            head = "rates.fixed" if fixed else "rates"
            yield blocks.Paragraph(words("rates.quick" if self.record.quick else head), edge, note=True)
            yield blocks.Facts(tuple(self.rates()), wide=True)
        yield blocks.Paragraph(words("code"), note=True, code=type(self.claim).__module__)

    def rates(self) -> Iterator[tuple[TextLike, blocks.Cell]]:
        """Return the learning rates of each arm: the chosen one, then those that other blocks of seeds used."""
        for rate in self.result.rates:
            used = [trial.rate for trial in self.result.trials if trial.arm == rate.arm and trial.rate is not None]
            rates = dict.fromkeys([rate.chosen, *used])
            yield self.claim.say(f"arm.{rate.arm}"), ", ".join(map("{:g}".format, rates))

    def contrasts(self, judgement: Judgement) -> blocks.Table:
        """Return everything that the rule needs, and what was measured."""
        of_rule = len(self.claim.contrasts(self.trials))
        rows = [self.control(control) for control in judgement.controls]
        for place, contrast in enumerate(judgement.contrasts):
            label = self.claim.say(f"contrast.{contrast.name}")
            missed = "met.opposed" if contrast.opposed else "met.no"
            mark = words("met.yes" if contrast.met else missed)
            name = label if place < of_rule else words("of_condition", what=label)
            p = "–" if self.result.theorem else bare_p_text(contrast.p)
            rows.append(blocks.Row((name, self.mean(contrast), self.need(contrast), mark, p)))
        heads = ("col.contrast", "col.found", "col.need", "col.met", "col.p")
        columns = tuple(blocks.Column(words(key), numeric=key in ("col.found", "col.p")) for key in heads)
        return blocks.Table(f"{self.result.name}-contrasts", columns, tuple(rows))

    def control(self, control: Contrast) -> blocks.Row:
        """Return what an arm has to have learned, and what it has."""
        arm = self.claim.say(f"arm.{control.name}")
        label = words("control", arm=arm, easiest=self.claim.say("easiest"))
        mark = words("met.yes" if has_learned(control) else "met.no")
        need = words("need.above", bound=shown_share(control.bound))
        return blocks.Row((label, shown_share(control.mean), need, mark, "–"))

    def probability(self, judgement: Judgement) -> Message:
        """Return the p of the claim, and the p corrected for all claims."""
        if self.result.theorem:
            return words("theorem")
        count = sum(bool(result.judgement and not result.theorem) for result in self.record.claims)
        return words("holm", p=bare_p_text(judgement.p), p_holm=bare_p_text(judgement.p_holm), count=count)

    def mean(self, contrast: Contrast) -> str:
        """Return a mean with its interval; an assertion has none."""
        mean, low, high = (self.number(contrast, value) for value in (contrast.mean, contrast.low, contrast.high))
        return mean if len(contrast.by_seed) == 1 else f"{mean} [{low}, {high}]"

    def need(self, contrast: Contrast) -> Message:
        """Return the bound of the rule."""
        bound: TextLike = self.number(contrast, contrast.bound)
        if contrast.name in self.claim.points:
            bound = words("points", value=bound)
        return words(f"need.{contrast.need}", bound=bound)

    def number(self, contrast: Contrast, value: float) -> str:
        """Return a number: shares in points, others with three digits."""
        in_points = contrast.name in self.claim.points
        return f"{100 * value:.1f}".replace("-", "−") if in_points else power_of_ten(value)


def shown_share(share: float) -> str:
    """Return a share in percent.

    Example:
        >>> shown_share(0.937)
        '94\xa0%'
    """
    return f"{100 * share:.0f}\u00a0%"
