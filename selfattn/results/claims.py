"""What a controlled experiment on a claim of the textbook gives: trials, contrasts with their bounds, a judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le

from selfattn.codec import Plain
from selfattn.results.plan import PlanCheck

Need = Literal["above", "below", "within"]
Finding = Literal["holds", "conditional", "not shown", "does not hold", "not learned"]
P = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True)
class Contrast(Plain):
    """A number over seeds and the bound that a rule holds it against.

    Attributes:
        name: of the contrast; its words stand in the claim's catalogue as `contrast.NAME`.
        mean: over seeds.
        low: lower end of its 95 % interval (Student's t over seeds).
        high: upper end.
        p: how probable a mean at least this far on the needed side of the bound is where the truth stands on the bound,
            doubled, so that it is below 0.05 exactly where the interval is on that side.
        need: `above` or `below` the bound, or `within` it on both sides of 0.
        bound: what the rule asks for.
        by_seed: the numbers, in the order of the seeds.
        against: the same probability for the other side.
    """

    name: str
    mean: float
    low: float
    high: float
    p: P
    need: Need
    bound: float
    by_seed: tuple[float, ...]
    against: P = 1.0

    @property
    def met(self) -> bool:
        """Whether the whole interval is on the needed side of the bound.

        Example:
            >>> Contrast("lead", 0.2, 0.11, 0.29, 0.01, "above", 0.1, (0.2, 0.2)).met
            True
        """
        if self.need == "within":
            return self.low > -self.bound and self.high < self.bound
        return self.low > self.bound if self.need == "above" else self.high < self.bound

    @property
    def opposed(self) -> bool:
        """Whether the whole interval is on the other side."""
        if self.need == "within":
            return self.low > self.bound or self.high < -self.bound
        return self.high < self.bound if self.need == "above" else self.low > self.bound


@dataclass(frozen=True)
class Trial(Plain):
    """One measurement: an arm of a claim with one seed.

    Attributes:
        arm: its name.
        seed: of every random stream.
        rate: the learning rate; None where nothing is trained.
        figures: what was measured, by name.
        seconds: that it took.
    """

    arm: str
    seed: int
    rate: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Judgement(Plain):
    """What a rule makes of the figures.

    Attributes:
        verdict: see :func:`selfattn.claims.rules.judge`.
        contrasts: of the rule; where a condition is met, its own stand behind them.
        condition: key of the condition under which the claim holds; empty where it needs none, or none was met.
        p: of the verdict, see :func:`selfattn.claims.rules.claim_ps`; 0 or 1 for a theorem.
        p_holm: the same, corrected for all claims of the run that are no theorems.
        controls: positive controls: what each arm has to have learned before the rule is asked.
    """

    verdict: Finding
    contrasts: tuple[Contrast, ...]
    condition: str = ""
    p: P = 1.0
    p_holm: P = 1.0
    controls: tuple[Contrast, ...] = ()


@dataclass(frozen=True)
class Rate(Plain):
    """The learning rate that an arm was measured with.

    Attributes:
        arm: its name.
        chosen: the rate.
        tried: all of them, those behind the first grid as it was widened; one alone was not chosen.
        at_edge: whether the best of several was the smallest or the largest, however far the grid was widened.
    """

    arm: str
    chosen: float
    tried: tuple[float, ...]
    at_edge: bool = False


@dataclass(frozen=True)
class ClaimResult(Plain):
    """A claim with everything that was measured for it.

    Attributes:
        name: of the claim.
        source: paper and section.
        words: by language, its sentence and its rule, as they stood when it ran.
        theorem: see :class:`selfattn.claims.claim.Claim`.
        seconds: that its units took, added up over all processes.
        seeds: the confirming ones.
        trials: with those seeds, and with further blocks of seeds.
        judgement: of the trials with all seeds together; None where something of it failed.
        rates: of the arms that are trained.
        tuning: trials of learning rates, with a seed of their own.
        failed: what failed, and why.
        blocks: further blocks of seeds, of other runs.
        replications: verdict of each block of seeds by itself, the first one among them; empty where there is one.
    """

    name: str
    source: str
    words: Mapping[str, Mapping[str, str]]
    theorem: bool
    seconds: float
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    judgement: Judgement | None = None
    rates: tuple[Rate, ...] = ()
    tuning: tuple[Trial, ...] = ()
    failed: tuple[str, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()
    replications: tuple[Finding, ...] = ()


CLAIMS_SCHEMA = 2


@dataclass(frozen=True)
class ClaimsRecord(Plain):
    """Claims that were run together: what their page is a function of (`claims.json`).

    Attributes:
        schema: of the file.
        created: ISO 8601 date and time with offset, at which the record was made.
        begun: the same of the first unit.
        command: the command line that makes the same again; one a line where runs were joined.
        environment: versions and machine.
        quick: whether it was a quick run, which confirms nothing.
        claims: in the order of the suite.
        plugins: that brought claims, with their versions.
        plan: departures from the plan, and the ledger; None in the published record.
    """

    schema: int
    created: str
    begun: str
    command: str
    environment: Mapping[str, str | int | float | None]
    quick: bool
    claims: tuple[ClaimResult, ...]
    plugins: Mapping[str, str] = field(default_factory=dict)
    plan: PlanCheck | None = None
