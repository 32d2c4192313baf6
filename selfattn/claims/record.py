"""The record of a run of claims: verdicts from what was measured, and the file that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from selfattn.claims.claim import Claim, Found
from selfattn.claims.rules import claim_p, judge
from selfattn.claims.units import TUNING_SEED, Work, code_of
from selfattn.codec import decode, read_json, refuse_newer
from selfattn.errors import UserError
from selfattn.evaluation.statistics.p_values import holm
from selfattn.registry import CLAIMS, check_plugins
from selfattn.results.claims import CLAIMS_SCHEMA, ClaimResult, ClaimsRecord, Contrast
from selfattn.runs.environment import commit, machine, versions
from selfattn.words.catalogue import LANGS

RECORD = "claims.json"
_ADVICE = "run the claims again"


def make_record(works: Sequence[Work], command: str) -> ClaimsRecord:
    """Make the record of works: those that have come to their end are judged, the others are named.

    Args:
        works: of the claims.
        command: that makes the same again.
    """
    over = [work for work in works if work.is_over]
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    ended = [done.ended for work in works for done in work.done.values()]
    needed = (CLAIMS.plugin_of(work.claim.name) for work in over)
    environment: dict[str, str | int | float | None] = {**versions(), **machine(), "commit": commit()}
    record = ClaimsRecord(
        schema=CLAIMS_SCHEMA,
        created=now,
        begun=min(ended, default=now),
        command=command,
        environment=environment,
        quick=any(work.quick for work in works),
        tuning_seed=TUNING_SEED,
        claims=tuple(map(_result, over)),
        not_run=tuple(work.claim.name for work in works if work not in over),
        plugins=tuple(dict.fromkeys(name for name in needed if name)),
    )
    return judged(record)


def judged(record: ClaimsRecord) -> ClaimsRecord:
    """Return the record with the verdicts that the rules give its trials, corrected for all claims together (Holm).

    A claim that lacks a trial of an arm, or whose rule does not come to an end, has none.

    Raises:
        UserError: a claim is not known here.
    """
    contrasts: dict[str, tuple[Contrast, ...]] = {}
    conditions: dict[str, Mapping[str, tuple[Contrast, ...]]] = {}
    failed: dict[str, str] = {}
    for result in record.claims:
        claim, found = claim_of(record, result), Found(result.trials, record.quick)
        try:
            if missing := [arm.name for arm in claim.arms(record.quick) if not _is_whole(arm.name, result)]:
                raise UserError(f"arm {missing[0]} was not measured with every seed")
            contrasts[result.name], conditions[result.name] = claim.contrasts(found), claim.conditions(found)
        except Exception as error:  # of a stranger's rule as well
            failed[result.name] = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    tested = [one.name for one in record.claims if one.name in contrasts and not one.theorem]
    corrected = dict(zip(tested, holm([claim_p(contrasts[name]) for name in tested]), strict=True))
    claims = []
    for result in record.claims:
        name, judgement = result.name, None
        if name in contrasts:
            judgement = judge(contrasts[name], conditions[name], p_holm=corrected.get(name))
        reasons = dict.fromkeys([*result.failed, *([failed[name]] if name in failed else [])])
        claims.append(replace(result, judgement=judgement, failed=tuple(reasons)))
    return replace(record, claims=tuple(claims))


def _is_whole(arm: str, result: ClaimResult) -> bool:
    return tuple(trial.seed for trial in result.trials if trial.arm == arm) == result.seeds


def claim_of(record: ClaimsRecord, result: ClaimResult) -> Claim:
    """Return the claim that a result is of.

    Raises:
        UserError: it came in with a plugin that was not loaded, or is not known any more.
    """
    check_plugins(dict.fromkeys(record.plugins, ""), RECORD)
    claim: Claim = CLAIMS[result.name]()
    return claim


def _result(work: Work) -> ClaimResult:
    claim = work.claim
    words = {lang: {key: claim.say(key).say(lang) for key in ("sentence", "rule")} for lang in LANGS}
    done, rates = work.done.values(), {arm.name: rate for arm in work.arms if (rate := work.rate(arm))}
    passed = {unit.label for arm in work.arms if arm.name in rates for unit in work.tuning(arm)}
    return ClaimResult(
        name=claim.name,
        source=claim.source,
        words=words,
        module=type(claim).__module__,
        code=code_of(type(claim)),
        theorem=claim.theorem,
        budget=float(claim.seconds[0 if work.quick else 1]),
        seconds=sum(one.trial.seconds for one in done),
        seeds=work.seeds,
        trials=work.trials(),
        rates=tuple(rates.values()),
        tuning=work.trials(tuning=True),
        failed=tuple(f"{label}: {reason}" for label, reason in work.failed.items() if label not in passed),
    )


def read_record(path: Path) -> ClaimsRecord:
    """Read the record of a run of claims.

    Args:
        path: of the file, or of the directory that has it.

    Raises:
        UserError: it cannot be read, or is of another version.
    """
    file = path / RECORD if path.is_dir() else path
    data = read_json(file, advice=_ADVICE)
    refuse_newer(data, CLAIMS_SCHEMA, file=file)
    record = decode(ClaimsRecord, data, file=file, advice=_ADVICE)
    if record.schema != CLAIMS_SCHEMA:
        raise UserError(f"{file}: schema: expected {CLAIMS_SCHEMA}, found {record.schema}; {_ADVICE}")
    return record
