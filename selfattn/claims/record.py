"""The record of a run of claims: verdicts from the measurements, the file that keeps them, and its verification."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.claims.rules import Contrasts, Trials, claim_ps, judge
from selfattn.codec import encode, read, short
from selfattn.errors import UserError, described
from selfattn.experiments.plan import PLAN, Plan, check_ledger, read_plan
from selfattn.files import sha256_of
from selfattn.plugin_loading import check_plugins
from selfattn.registry import CLAIMS
from selfattn.results.claims import CLAIMS_SCHEMA, ClaimResult, ClaimsRecord, Finding, Judgement, Trial
from selfattn.results.plan import Seal
from selfattn.results.record import Recomputation

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
        seeds = {name: each[number] for name, each in blocks.items() if number < len(each)}
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
            reason = str(error) if isinstance(error, UserError) else described(error)
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
            known = claims.get(result.name)
            if known:
                if {trial.seed for trial in known.trials} & {trial.seed for trial in result.trials}:
                    raise UserError(f"claim {result.name}: two runs share seeds; run one with another `first_seed`")
                trials = (*known.trials, *result.trials)
                claims[result.name] = replace(known, trials=trials, blocks=(*known.blocks, result.seeds))
            else:
                claims[result.name] = result
    joined: dict[str, str] = {}
    for record in reversed(records):
        joined |= record.plugins
    commands = "\n".join(dict.fromkeys(record.command for record in records))
    order = {name: place for place, name in enumerate(CLAIMS.names())}
    ordered = tuple(sorted(claims.values(), key=lambda result: order.get(result.name, len(order))))
    values = {name: dict.fromkeys(record.environment.get(name) for record in records) for name in first.environment}
    environment = {
        name: next(iter(each)) if len(each) == 1 else ", ".join(map(str, each)) for name, each in values.items()
    }
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
    unstated = [f"{each.kind}: {', '.join(each.what)}" for each in departures if each not in stated]
    yield Recomputation("ledger", tuple(unstated), len(digests))
