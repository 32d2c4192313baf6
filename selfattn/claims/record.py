"""The record of a run of claims: verdicts from the measurements, and the file that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from selfattn.claims.claim import Claim, Trials
from selfattn.claims.rules import claim_p, judge
from selfattn.codec import decode, read_json, refuse_newer
from selfattn.errors import UserError
from selfattn.evaluation.statistics.p_values import holm
from selfattn.registry import CLAIMS, check_plugins
from selfattn.results.claims import CLAIMS_SCHEMA, ClaimResult, ClaimsRecord, Contrast
from selfattn.results.plan import PlanCheck
from selfattn.runs.environment import commit, machine, versions

RECORD = "claims.json"
_ADVICE = "run the claims again"


def make_record(
    results: Sequence[ClaimResult], command: str, *, quick: bool, begun: str, plan: PlanCheck
) -> ClaimsRecord:
    """Make the record of measured claims, with their verdicts.

    Args:
        results: of the claims, not judged.
        command: command line that makes the same again.
        quick: whether this is a quick run.
        begun: time at which the first trial ended; empty where none did.
        plan: departures from the plan.
    """
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    needed = (CLAIMS.plugin_of(result.name) for result in results)
    environment: dict[str, str | int | float | None] = {**versions(), **machine(), "commit": commit()}
    record = ClaimsRecord(
        schema=CLAIMS_SCHEMA,
        created=now,
        begun=begun or now,
        command=command,
        environment=environment,
        quick=quick,
        claims=tuple(results),
        plugins=tuple(dict.fromkeys(name for name in needed if name)),
        plan=plan,
    )
    return judge_claims(record)


def judge_claims(record: ClaimsRecord) -> ClaimsRecord:
    """Return the record with verdicts from its trials, corrected for all claims together (Holm).

    A claim that lacks a trial of an arm, or whose rule fails, has no verdict.

    Raises:
        UserError: a claim is unknown.
    """
    contrasts: dict[str, tuple[Contrast, ...]] = {}
    conditions: dict[str, Mapping[str, tuple[Contrast, ...]]] = {}
    failed: dict[str, str] = {}
    for result in record.claims:
        claim, trials = claim_of(record, result), Trials(result.trials, record.quick)
        try:
            for arm in claim.arms(record.quick):
                if tuple(trial.seed for trial in result.trials if trial.arm == arm.name) != result.seeds:
                    raise UserError(f"arm {arm.name} was not measured with every seed")
            contrasts[result.name], conditions[result.name] = claim.contrasts(trials), claim.conditions(trials)
        except Exception as error:  # of a plugin's rule as well
            failed[result.name] = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    tested = [result.name for result in record.claims if result.name in contrasts and not result.theorem]
    corrected = dict(zip(tested, holm([claim_p(contrasts[name]) for name in tested]), strict=True))
    claims = []
    for result in record.claims:
        name, judgement = result.name, None
        if name in contrasts:
            judgement = judge(contrasts[name], conditions[name], p_holm=corrected.get(name))
        reasons = dict.fromkeys([*result.failed, *([failed[name]] if name in failed else [])])
        claims.append(replace(result, judgement=judgement, failed=tuple(reasons)))
    return replace(record, claims=tuple(claims))


def claim_of(record: ClaimsRecord, result: ClaimResult) -> Claim:
    """Return the claim of a result.

    Raises:
        UserError: it needs a plugin that is not loaded, or is unknown.
    """
    check_plugins(dict.fromkeys(record.plugins, ""), RECORD)
    claim: Claim = CLAIMS[result.name]()
    return claim


def read_record(path: Path) -> ClaimsRecord:
    """Read the record of a run of claims.

    Args:
        path: of the file, or of its directory.

    Raises:
        UserError: it cannot be read, or is of another version.
    """
    file = path / RECORD if path.is_dir() else path
    data = read_json(file, advice=_ADVICE)
    refuse_newer(data, CLAIMS_SCHEMA, file=file)
    return decode(ClaimsRecord, data, file=file, advice=_ADVICE)
