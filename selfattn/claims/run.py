"""Run claims: their plan, the search for learning rates, and the trials of every arm with every seed; and their record.

The record has verdicts from the measurements, the file that keeps them, and its verification.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.claims.claim import Arm, Claim, Setup, decides_quickly, page_words
from selfattn.claims.rules import Contrasts, Trials, claim_ps, judge
from selfattn.codec import encode, read, short, write
from selfattn.errors import SettingError, UserError, describe_error, say
from selfattn.experiments.plan import PLAN, Plan, backfill_ledger, begin, check_ledger, read_plan, resume, search
from selfattn.experiments.progress import Reporter
from selfattn.experiments.queue import Runner, Workers, run_all, stop_workers
from selfattn.files import sha256_of, writing
from selfattn.registry import CLAIMS, check_plugins, plugins_of
from selfattn.results.claims import CLAIMS_SCHEMA, ClaimResult, ClaimsRecord, Finding, Judgement, Rate, Trial
from selfattn.results.plan import PlanCheck, Seal
from selfattn.results.record import Recomputation
from selfattn.runs.ledger import record_access
from selfattn.runs.record import commit, machine, versions
from selfattn.settings import command_line
from selfattn.streams import fixed_seed, seed_for, training_lock
from selfattn.words.messages import LANGS

RECORD = "claims.json"
TRIALS = "trials"
_ADVICE = "run the claims again"
_COMPARISON = "results.json"


def judge_claims(record: ClaimsRecord) -> ClaimsRecord:
    """Return the record with verdicts from its trials, corrected for all claims together (Holm).

    A verdict pools the trials of all blocks of seeds: the first run and its replications are one experiment. Where
    there are several, each block is also judged by itself. A claim that lacks a trial of an arm, or whose rule fails,
    has no verdict.

    Raises:
        UserError: a claim is unknown.
    """
    pooled = {}
    by_block: dict[str, list[Finding]] = {}
    for result in record.claims:
        pooled[result.name] = tuple(chain(result.seeds, *result.blocks))
    judgements, failed = _judge(record, pooled)
    for number in range(1 + max((len(result.blocks) for result in record.claims), default=0)):
        blocks = {result.name: (result.seeds, *result.blocks) for result in record.claims if result.blocks}
        seeds = {name: block[number] for name, block in blocks.items() if number < len(block)}
        for name, judgement in _judge(record, seeds)[0].items():
            by_block.setdefault(name, []).append(judgement.verdict)
    claims = tuple(
        replace(
            result,
            judgement=judgements.get(result.name),
            failed=tuple(dict.fromkeys([*result.failed, *failed.get(result.name, ())])),
            replications=tuple(by_block.get(result.name, ())),
        )
        for result in record.claims
    )
    return replace(record, claims=claims)


def _judge(
    record: ClaimsRecord, seeds: Mapping[str, Sequence[int]]
) -> tuple[dict[str, Judgement], dict[str, tuple[str, ...]]]:
    """Return the verdicts of claims by the trials with some seeds, and why claims have none."""
    tested: dict[str, tuple[Contrasts, Mapping[str, Contrasts], Contrasts]] = {}
    failed: dict[str, tuple[str, ...]] = {}
    for result in record.claims:
        if result.name not in seeds:
            continue
        claim = CLAIMS[result.name](record.quick)
        trials = Trials(trial for trial in result.trials if trial.seed in seeds[result.name])
        try:
            for arm in claim.arms():
                if [trial.seed for trial in trials.trials if trial.arm == arm.name] != list(seeds[result.name]):
                    raise UserError(f"arm {arm.name} was not measured with every seed")
            tested[result.name] = claim.contrasts(trials), claim.conditions(trials), claim.controls(trials)
        except Exception as error:  # of a plugin's rule as well
            reason = str(error) if isinstance(error, UserError) else describe_error(error)
            failed[result.name] = (reason,)
    ps = {name: claim_ps(*rule[:2]) for name, rule in tested.items() if not CLAIMS[name].theorem}
    ps |= dict.fromkeys(failed, (1.0, 1.0, 1.0))  # without a verdict they count in the correction
    judgements = {}
    for name, (contrasts, conditions, controls) in tested.items():
        others = [p for other, p in ps.items() if other != name] if name in ps else []
        judgements[name] = judge(contrasts, conditions, others, controls)
    return judgements, failed


def join_records(records: Sequence[ClaimsRecord]) -> ClaimsRecord:
    """Join runs: of a claim that two runs have, the later one gives a further block of seeds.

    Args:
        records: the first one decides.

    Raises:
        UserError: quick and full runs are mixed, or two runs of a claim share seeds.
    """
    first = records[0]
    claims = {result.name: result for result in first.claims}
    for record in records[1:]:
        if record.quick != first.quick:
            raise UserError("claims: a quick and a full run cannot be joined; name runs of one kind")
        for result in record.claims:
            earlier = claims.get(result.name)
            if earlier:
                if {trial.seed for trial in earlier.trials} & {trial.seed for trial in result.trials}:
                    raise UserError(f"claim {result.name}: two runs share seeds; run one with another `first_seed`")
                trials = (*earlier.trials, *result.trials)
                claims[result.name] = replace(earlier, trials=trials, blocks=(*earlier.blocks, result.seeds))
            else:
                claims[result.name] = result
    joined: dict[str, str] = {}
    for record in reversed(records):
        joined |= record.plugins
    commands = "\n".join(dict.fromkeys(record.command for record in records))
    order = {name: place for place, name in enumerate(CLAIMS.names())}
    ordered = tuple(sorted(claims.values(), key=lambda result: order.get(result.name, len(order))))
    environment = dict(first.environment)
    for name in environment:
        values = dict.fromkeys(record.environment.get(name) for record in records)
        if len(values) > 1:
            environment[name] = ", ".join(map(str, values))
    begun = min(record.begun for record in records)
    created = max(record.created for record in records)
    joint = replace(first, begun=begun, created=created, environment=environment, plugins=joined, command=commands)
    return judge_claims(replace(joint, claims=ordered))


def read_record(path: Path) -> ClaimsRecord:
    """Read the record of a run of claims; a plugin that has changed since is said.

    Args:
        path: of the file, or of its directory.

    Raises:
        UserError: it cannot be read, is of another version, or needs a plugin that is not loaded.
    """
    file = path / RECORD if path.is_dir() else path
    record = read(ClaimsRecord, file, advice=_ADVICE, newest=CLAIMS_SCHEMA)
    check_plugins(record.plugins, str(file))
    return record


def is_of_claims(place: Path) -> bool:
    """Whether a directory or a file holds a record of claims."""
    if place.is_dir():
        return (place / RECORD).is_file() and not (place / _COMPARISON).exists()
    return place.name == RECORD


def verify_claims(place: Path) -> Iterator[Recomputation]:
    """Judge a run of claims again.

    Args:
        place: its directory, or its record. Trials, plan and ledger beside it are read too.

    Returns:
        A finding for each claim, and for plan, trials and ledger.

    Raises:
        UserError: the record is missing or broken, or needs a plugin.
    """
    record = read_record(place)
    again = judge_claims(record)
    for result, judged in zip(record.claims, again.claims, strict=True):
        differences = [*_unlike(result, judged), *_rates_apart(result)]
        yield Recomputation(f"claim {result.name}", tuple(differences), 1 + len(result.trials))
    seal = record.plan.seal if record.plan else None
    if seal is not None:
        yield Recomputation("plan.seal", tuple(_unkept(record, seal)), 1)
    folder = place if place.is_dir() else place.parent
    if (folder / PLAN).is_file() and (folder / TRIALS).is_dir():
        yield from _from_files(folder, record)


def _unlike(result: ClaimResult, judged: ClaimResult) -> Iterator[str]:
    """Name what another rule, or these trials, give otherwise."""
    for name in ("judgement", "replications", "failed"):
        was = encode(getattr(result, name))
        now = encode(getattr(judged, name))
        if was != now:
            yield f"{name} {short(was)} in the record, {short(now)} from the trials"
    if result.theorem != CLAIMS[result.name].theorem:
        yield f"theorem: {result.theorem} in the record"


def _rates_apart(result: ClaimResult) -> Iterator[str]:
    """Name learning rates that the trials of the search do not choose, or that trials do not have."""
    chosen = {rate.arm: rate.chosen for rate in result.rates}
    for rate in result.rates:
        valid = {trial.rate: trial.figures.get("valid") for trial in result.tuning if trial.arm == rate.arm}
        numbers = [number for number in valid.values() if number is not None]
        if len(rate.tried) > 1 and (not numbers or valid.get(rate.chosen) != min(numbers)):
            yield f"rate of {rate.arm}: {rate.chosen:g} has not the lowest `valid` of those tried"
    for trial in result.trials:
        if trial.arm in chosen and trial.rate != chosen[trial.arm] and not result.blocks:
            yield f"rate of {trial.arm}: {trial.rate} with seed {trial.seed}, {chosen[trial.arm]:g} was chosen"


def _unkept(record: ClaimsRecord, seal: Seal) -> Iterator[str]:
    """Name what a record says otherwise than the plan that was sealed before the first trial."""
    if not seal.is_true:
        yield "sha256 is not that of the decisions"
    if seal.decides.get("quick") != record.quick:
        yield f"quick: {record.quick} in the record, {seal.decides.get('quick')} in the plan"
    claims: Any = seal.decides.get("claims", {})
    for result in record.claims:
        planned = claims.get(result.name)
        if planned is None:  # of another run that was joined
            continue
        if tuple(planned["seeds"]) != result.seeds:
            yield f"claim {result.name}: other seeds than in the plan"


def _from_files(folder: Path, record: ClaimsRecord) -> Iterator[Recomputation]:
    """Hold the trials of a record against their files, and these against the ledger."""
    plan = read_plan(Plan, folder)
    files = {file.name: file for file in sorted((folder / TRIALS).glob("*.json"))}
    on_disk: dict[str, list[Trial]] = {}
    for name, file in files.items():
        on_disk.setdefault(name.partition(".")[0], []).append(read(Trial, file, advice=_ADVICE))
    for result in record.claims:
        stored = [encode(trial) for trial in on_disk.get(result.name, [])]
        differences = [
            f"{trial.arm} with seed {trial.seed}: other figures than in its file"
            for trial in (*result.trials, *result.tuning)
            if encode(trial) not in stored
        ]
        yield Recomputation(f"trials of {result.name}", tuple(differences), len(stored))
    digests = {name: sha256_of(file) for name, file in files.items() if "-seed" in name}
    changed = [] if plan.seal.is_true else ["seal"]
    stated = record.plan.departures if record.plan else ()
    departures = check_ledger(folder, plan.seal, changed, digests)
    unstated = [f"{departure.kind}: {', '.join(departure.what)}" for departure in departures if departure not in stated]
    yield Recomputation("ledger", tuple(unstated), len(digests))


TUNING_SEED = 900
FIRST_SEED = 1000  # development runs have used smaller ones
QUICK_SEEDS = 4
_WIDENINGS = 4  # most rates that are tried beyond the edges of an arm's grid

Key = tuple[str, str]  # claim and arm


@dataclass(frozen=True)
class ClaimTrial(Setup):
    """One trial of a claim.

    Attributes:
        claim: of the trial.
    """

    claim: Claim = field(kw_only=True)

    @property
    def label(self) -> str:
        """Name of the trial, such as ``bottleneck.attention-seed0``."""
        end = f"tuning-lr{self.rate:g}" if self.seed == TUNING_SEED else f"seed{self.seed}"
        return f"{self.claim.name}.{self.arm.name}-{end}".replace(" ", "_")

    def measure(self) -> Trial:
        """Measure with one thread; the global random state stays.

        Raises:
            UserError: the measurement fails, gives no figures, or one that is not finite.
        """
        started = time.perf_counter()
        with training_lock(self.label), fixed_seed(seed_for(self.seed, f"claims/{self.claim.name}")):
            try:
                figures = self.claim.measure(self)
            except UserError:
                raise
            except Exception as error:
                raise UserError(describe_error(error)) from error
        if self.seed == TUNING_SEED and "valid" not in figures:
            raise UserError("measure gave no `valid`, by which a learning rate is chosen")
        if not figures or not all(map(math.isfinite, figures.values())):
            raise UserError(f"measure gave {figures}; expected finite numbers")
        numbers = {name: float(value) for name, value in figures.items()}
        return Trial(self.arm.name, self.seed, self.rate, numbers, time.perf_counter() - started)


class ClaimRunner(Runner[ClaimTrial]):
    """Measures trials, and keeps each as a file.

    Args:
        workers: where trials run.
        command: that makes the record again.
        plan: SHA-256 of the sealed plan.
    """

    def __init__(self, workers: Workers, command: str, plan: str) -> None:
        self.workers = workers
        self.command = command
        self.plan = plan
        self.failed = dict[str, str]()

    def file(self, trial: ClaimTrial) -> Path:
        """Return the file of a trial."""
        return self.workers.out / TRIALS / f"{trial.label}.json"

    def is_done(self, trial: ClaimTrial) -> bool:
        """Whether a trial is on disk."""
        return self.file(trial).is_file()

    def run(self, trial: ClaimTrial, reporter: Reporter) -> None:
        """Measure a trial, keep it, and record it in the ledger if its seed is a confirming one."""
        measured = trial.measure()
        file = self.file(trial)
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file, measured, checksum=True)
        if trial.seed != TUNING_SEED:
            record_access(file, self.command, plan=self.plan, answers=sha256_of(file))

    def read(self, trial: ClaimTrial) -> Trial | None:
        """Return a finished trial; None where it failed.

        Raises:
            UserError: the file is damaged.
        """
        advice = "remove it, and run the claims again with `resume`"
        return read(Trial, self.file(trial), advice=advice) if self.is_done(trial) else None

    def read_all(self, trials: Sequence[ClaimTrial]) -> tuple[Trial, ...]:
        """Return the finished ones of some trials."""
        return tuple(measured for trial in trials if (measured := self.read(trial)))

    def run_all(self, trials: Sequence[ClaimTrial]) -> None:
        """Run trials that have not failed yet, those that measure times last and one by one."""
        pending = [trial for trial in trials if trial.label not in self.failed]
        self.failed |= run_all(self, [trial for trial in pending if not trial.arm.alone])
        if alone := [trial for trial in pending if trial.arm.alone]:
            single = ClaimRunner(Workers(self.workers.out, jobs=1), self.command, self.plan)
            self.failed |= run_all(single, alone)


def choose_claims(names: Sequence[str], everything: bool = False, *, quick: bool = False) -> tuple[Claim, ...]:
    """Return claims by name or by number, in the order of the suite.

    Args:
        names: such as ``bottleneck`` or ``1``.
        everything: all claims, those of plugins too; then no names. A quick run leaves out what it cannot decide.
        quick: for a quick run.

    Raises:
        UserError: a claim is unknown, or a quick run cannot decide it; nothing is chosen, or both names and everything.
    """
    all_names = CLAIMS.names()
    if everything == bool(names):
        raise UserError(f"claims: name those to run, or give `all`; there are {', '.join(all_names)}")
    full = (all_names[int(name) - 1] if name.isdigit() and 0 < int(name) <= len(all_names) else name for name in names)
    requested = {CLAIMS[name] for name in full}  # or the line that says which are near
    for claim in requested if quick else ():
        if not decides_quickly(claim):
            advice = f"leave out `quick` (about {claim.seconds[1]:.0f} s on two cores)"
            raise UserError(f"claim {claim.name}: a quick run cannot decide it; {advice}")
    chosen = [claim for claim in CLAIMS.values() if everything or claim in requested]
    return tuple(claim(quick) for claim in chosen if decides_quickly(claim) or not quick)


def run_claims(
    claims: Sequence[Claim], workers: Workers, *, first_seed: int = FIRST_SEED, resumed: bool = False
) -> ClaimsRecord:
    """Run claims, and return their record. A trial that fails is told, and the others go on.

    Args:
        claims: to run; all quick or none.
        workers: where trials run; their ``out`` is new, or that of the run to resume.
        first_seed: of the confirming seeds.
        resumed: continue the run in ``out``; finished trials are kept.

    Raises:
        UserError: the directory cannot be used, or holds another run.
        KeyboardInterrupt: Ctrl-C or SIGTERM; finished trials are kept.
    """
    names = tuple(claim.name for claim in claims)
    out = workers.out
    quick = claims[0].quick
    counts = {claim.name: min(QUICK_SEEDS, claim.seeds) if quick else claim.seeds for claim in claims}
    seeds = {name: tuple(range(first_seed, first_seed + count)) for name, count in counts.items()}
    if first_seed < 0 or any(TUNING_SEED in block for block in seeds.values()):
        raise SettingError(f"`first_seed` {first_seed}: seed {TUNING_SEED} chooses learning rates; choose another one")
    everything = names == tuple(claim.name for claim in choose_claims((), True, quick=quick))
    options = {"all": everything, "quick": quick, "first_seed": None if first_seed == FIRST_SEED else first_seed}
    command = command_line(" ".join(["claims run", *(() if everything else names)]), options)
    plugins = plugins_of(names, CLAIMS)
    decisions = {}
    for claim in claims:
        arms = {arm.name: {"settings": dict(arm.settings), "rates": arm.rates} for arm in claim.arms()}
        decisions[claim.name] = {"seeds": seeds[claim.name], "arms": arms}
    decides = encode({"quick": quick, "claims": decisions})
    with ExitStack() as stack:
        stack.callback(stop_workers)
        new = Plan(command=command, plugins=plugins)
        goes_on = resumed and (out / PLAN).exists()
        plan = stack.enter_context(resume(Plan, out, command) if goes_on else begin(out, new, decides))
        if plan.seal.decides != decides:
            raise SettingError(f"{out}: the claims have changed since this run began; choose another `out`")
        _say_beforehand(claims, workers.lang, everything=everything)
        runner = ClaimRunner(workers, command, plan.seal.sha256)
        backfill_ledger(
            out, plan, {file: {"answers": sha256_of(file)} for file in sorted((out / TRIALS).glob("*-seed*.json"))}
        )
        rates = _tune(runner, claims)
        confirming = {claim.name: _confirming(claim, rates, seeds[claim.name]) for claim in claims}
        trials = list(chain.from_iterable(confirming.values()))
        runner.run_all(trials)
        files = [file for file in map(runner.file, trials) if file.is_file()]
        departures = check_ledger(out, plan.seal, (), {file.name: sha256_of(file) for file in files})
        record = ClaimsRecord(
            schema=CLAIMS_SCHEMA,
            created=datetime.now().astimezone().isoformat(timespec="seconds"),
            begun=plan.seal.created,
            command=command,
            environment={**versions(), **machine(), "commit": commit()},
            quick=quick,
            claims=tuple(_result(runner, claim, rates, confirming[claim.name], seeds[claim.name]) for claim in claims),
            plugins=plugins,
            plan=PlanCheck(plan.seal, departures=tuple(departures)),
        )
        return judge_claims(record)


def _say_beforehand(claims: Sequence[Claim], lang: str, *, everything: bool) -> None:
    """Say how long the run takes, and which claims it leaves out."""
    seconds = sum(claim.seconds[0 if claim.quick else 1] for claim in claims)
    expected = page_words("seconds", number=f"{seconds:.0f}")
    if seconds >= 120:
        expected = page_words("minutes", number=f"{seconds / 60:.0f}")
    say(page_words("takes", count=len(claims), time=expected).say(lang))
    left_out = [name for name, claim in CLAIMS.items() if not decides_quickly(claim)]
    if everything and claims[0].quick and left_out:
        say(page_words("left_out", names=", ".join(left_out)).say(lang))


def _confirming(claim: Claim, rates: Mapping[Key, Rate], seeds: Sequence[int]) -> list[ClaimTrial]:
    """Return the trials of a claim: every arm with every seed; none of an arm all of whose learning rates failed."""
    trials = []
    for arm in claim.arms():
        rate = rates.get((claim.name, arm.name))
        if rate or not arm.rates:
            best = rate.chosen if rate else None
            trials += [ClaimTrial(arm, seed, best, claim=claim) for seed in seeds]
    return trials


def _tune(runner: ClaimRunner, claims: Sequence[Claim]) -> dict[Key, Rate]:
    """Choose the learning rate of each arm: the rate with the lowest ``valid``.

    Where the best rate is the smallest or the largest, one more is tried beyond it, at the ratio of its neighbours. A
    rate whose training fails is the worst; an arm all of whose rates fail is left out. An arm with a single rate, as in
    a quick run, takes it.
    """
    arms: dict[Key, tuple[Claim, Arm]] = {}
    for claim in claims:
        arms |= {(claim.name, arm.name): (claim, arm) for arm in claim.arms() if arm.rates}

    def trial(key: Key, rate: float) -> ClaimTrial:
        claim, arm = arms[key]
        return ClaimTrial(arm, TUNING_SEED, rate, claim=claim)

    def loss(key: Key, rate: float) -> float:
        measured = runner.read(trial(key, rate))
        return measured.figures["valid"] if measured else math.inf

    def measure(tried: Mapping[Key, Sequence[float]]) -> dict[Key, list[tuple[float, float]]]:
        trials = []
        for key, rates in tried.items():
            trials += [trial(key, rate) for rate in rates]
        runner.run_all(trials)
        return {key: [(loss(key, rate), 0.0) for rate in rates] for key, rates in tried.items()}

    def beyond(key: Key, rates: Sequence[float], best: float) -> list[float]:
        for edge, neighbour, *_ in (sorted(rates), sorted(rates, reverse=True)):
            if best == edge and loss(key, edge) < math.inf:
                return [float(f"{edge * edge / neighbour:.3g}")]
        return []

    grids = {key: arm.rates for key, (_, arm) in arms.items() if len(arm.rates) > 1}
    all_rates, best_rates = search(grids, measure, beyond, widenings=_WIDENINGS)
    chosen = {}
    for key, (_, arm) in arms.items():
        rates = tuple(all_rates.get(key, arm.rates))
        best = best_rates.get(key, rates[0])
        if key not in grids:
            chosen[key] = Rate(arm.name, best, rates)
        elif loss(key, best) < math.inf:
            chosen[key] = Rate(arm.name, best, rates, at_edge=best in (min(rates), max(rates)))
    return chosen


def _result(
    runner: ClaimRunner, claim: Claim, rates: Mapping[Key, Rate], confirming: list[ClaimTrial], seeds: tuple[int, ...]
) -> ClaimResult:
    chosen = [(arm, rates[claim.name, arm.name]) for arm in claim.arms() if (claim.name, arm.name) in rates]
    tuning = []
    for arm, rate in chosen:
        tuning += [ClaimTrial(arm, TUNING_SEED, tried, claim=claim) for tried in rate.tried]
    trials = runner.read_all(confirming)
    tried = runner.read_all(tuning)
    reasons = [f"{label}: {reason}" for label, reason in runner.failed.items() if label.startswith(f"{claim.name}.")]
    return ClaimResult(
        name=claim.name,
        source=claim.source,
        words={lang: {key: claim.say(key).say(lang) for key in ("sentence", "rule")} for lang in LANGS},
        theorem=claim.theorem,
        seconds=sum(trial.seconds for trial in (*trials, *tried)),
        seeds=seeds,
        trials=trials,
        rates=tuple(rate for _, rate in chosen),
        tuning=tried,
        failed=tuple(reasons),
    )
