"""The sentences on two models that a comparison is about: what their test says, and what it leaves open."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from selfattn.evaluation.statistics.design import POWER, Design
from selfattn.report.drawing.numbers import amount, gap_text, p_text, share_text
from selfattn.report.verdict import conditions, ranking
from selfattn.report.verdict.ranking import pair_test, quality, spoken
from selfattn.results.quality import MIN_SEEDS, MarginWord, PairTest, leaders
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, TextLike, message

_MARGINS: dict[MarginWord, str] = {
    "more": "margin.more",
    "perhaps less": "margin.perhaps less",
    "equivalent": "margin.equivalent",
    "cannot tell": "margin.cannot tell",
}


@dataclass(frozen=True)
class JudgedPair:
    """Two models of a record.

    Attributes:
        record: of the comparison.
        first: model.
        second: model.
    """

    record: Record
    first: Model
    second: Model

    @cached_property
    def test(self) -> PairTest:
        """The test of the first model against the second."""
        return pair_test(self.record, self.first, self.second)

    @cached_property
    def runs(self) -> tuple[Sequence[float], Sequence[float]]:
        """The scores of the runs of each model."""
        return quality(self.record, self.first).runs, quality(self.record, self.second).runs

    @cached_property
    def design(self) -> Design:
        """What these runs and items could have found; needs two runs of both models."""
        repeated = self.record.interval.repeated if self.record.interval else 0
        return Design.of(self.test, *self.runs, self.record.test_items - repeated)

    def answer(self) -> Message:
        """Return the answer: scores under a condition, and their difference; the better model first."""
        record = self.record
        test = self.test
        order = (self.second, self.first) if test.word == "worse" else (self.first, self.second)
        values: dict[str, str | Message] = {
            "condition": conditions.condition(record),
            "scores": ranking.scores_of(record, *order),
        }
        if test.identical:
            return message("verdict.identical outputs", **values)
        if test.word == "not told apart" and (test.seeds < MIN_SEEDS or test.separated):
            return message("verdict.few", chance=self._chance(), **values)
        values["gap"] = ranking.gap(record, test, len(self.first.seeds))
        if test.word == "not told apart":
            return message("verdict.not told apart", **values)
        return message("verdict.better" if test.word == "better" else "verdict.worse", **values)

    def answer_of_one_file(self) -> Message:
        """Return what one file of outputs each can show, and what it cannot."""
        record = self.record
        test = self.test
        order = (self.first, self.second)
        if test.identical:
            return message("verdict.file.identical", scores=ranking.scores_of(record, *order))
        if (test.difference < 0) == (test.better == "higher"):
            order = (self.second, self.first)
        values: dict[str, str | Message] = {"scores": ranking.scores_of(record, *order), "p": p_text(test.p)}
        key = "verdict.file.same" if ranking.standing_on_items(test) == "close" else "verdict.file.clear"
        unit = ranking.difference_unit(record)
        gap = message("gap.items", difference=gap_text(test, record.headline.kind), unit=unit)
        return message(key, gap=gap, model=spoken(record, order[0]), **values)

    def _chance(self) -> Message:
        """Return why few runs leave it open, and about how many would settle it."""
        count = min(len(quality(self.record, model).runs) for model in (self.first, self.second))
        if count < 2:
            return message("chance.one", count=MIN_SEEDS)
        values: dict[str, str | int | Message] = {"count": count, "p": p_text(self.test.p_holm)}
        if min(map(len, self.runs)) < 2:
            return message("chance", **values)
        difference = self.test.difference
        odds = self.test.odds
        needed = difference and self.design.seeds_needed(odds.difference if odds else difference)
        if not needed:
            return message("chance", **values)
        return message("chance.seeds", needed=max(int(needed), count + 1), **values)

    def disagreement(self) -> list[Message]:
        """Say which metrics rank the two models one way and which the other way; nothing where all agree."""
        record = self.record
        names = leaders(record.pairs, self.first.name, self.second.name)
        if len(set(names.values())) < 2:
            return []
        values: dict[str, TextLike] = {"first": spoken(record, self.first), "second": spoken(record, self.second)}
        for key, model in (("a", self.first), ("b", self.second)):
            metrics = [ranking.named(record, "metric", metric) for metric, name in names.items() if name == model.name]
            values[key] = conditions.listed(metrics)
        return [message("verdict.metrics", **values)]

    def margin(self) -> list[Message]:
        """Return where the difference lies beside the smallest that was stated to matter."""
        record = self.record
        if record.margin is None:
            return []
        word = self.test.beside(record.margin / (100 if record.headline.kind == "share" else 1))
        return [message(_MARGINS[word], margin=f"{record.margin:g}", unit=ranking.difference_unit(record))]

    def smallest_difference(self) -> list[Message]:
        """Return what this comparison could have found at the least; nothing where runs are too few to say."""
        if min(map(len, self.runs)) < MIN_SEEDS:
            return []
        smallest = self.design.in_score(self.design.smallest())
        seeds = self.design.seeds_needed(self.design.smallest() / 2)
        if not smallest > 0:
            return []
        kind = self.record.headline.kind
        values = {"smallest": amount(100 * smallest if kind == "share" else smallest), "power": share_text(POWER, 0)}
        key = "verdict.design" if seeds else "verdict.design.items"
        return [message(key, **values, unit=ranking.difference_unit(self.record), seeds=seeds or 0)]
