"""Verify a run of claims: judge its trials again, and hold them against their files, the plan and the ledger."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selfattn.claims.record import RECORD, code_of, judge_claims, read_record
from selfattn.claims.run import TRIALS
from selfattn.codec import encode, read, short
from selfattn.experiments.plan import PLAN, Plan, check_ledger, read_plan
from selfattn.files import sha256_of
from selfattn.registry import CLAIMS
from selfattn.results.claims import ClaimResult, ClaimsRecord, Trial
from selfattn.results.plan import Seal
from selfattn.results.verified import Recomputation

_RESULTS = "results.json"  # of a comparison
_ADVICE = "run the claims again"


def is_of_claims(place: Path) -> bool:
    """Whether a directory or a file holds a record of claims."""
    if place.is_dir():
        return (place / RECORD).is_file() and not (place / _RESULTS).exists()
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
    if code_of(CLAIMS[result.name]) != result.code:
        yield "its code has changed since the run"
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
        if (planned["code"], tuple(planned["seeds"])) != (result.code, result.seeds):
            yield f"claim {result.name}: other code or seeds than in the plan"


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
