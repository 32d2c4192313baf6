"""The record of a run of claims: verdicts from the measurements, and the file that keeps them."""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.claims import rules, small
from selfattn.claims.claim import Claim
from selfattn.claims.rules import Contrasts, Trials, claim_ps, judge
from selfattn.codec import read
from selfattn.errors import UserError, described
from selfattn.plugin_loading import check_plugins
from selfattn.registry import CLAIMS
from selfattn.results.claims import CLAIMS_SCHEMA, ClaimsRecord, Finding, Judgement

RECORD = "claims.json"
_ADVICE = "run the claims again"
_UNDECIDING = {"blocks", "means", "lines", "shows", "figure", "columns", "unit", "source", "seconds", "words"}
_UNDECIDING |= {"quick_sizes", "quick_rates", "not_quick", "spots", "spots_across"}


def code_of(claim: type[Claim]) -> str:
    """Return the SHA-256 of the code that decides a claim: its file, and what all claims share.

    The code counts as a syntax tree without comments, docstrings and imports, without the other claims of the file,
    and without what only draws or serves a quick run.
    """
    others = {other.__name__ for other in CLAIMS.values() if other.__module__ == claim.__module__} - {claim.__name__}
    digest = hashlib.sha256()
    for part in (inspect.getmodule(claim), rules, small, Claim.arms, Claim.controls):
        with suppress(OSError, TypeError):  # a claim of a notebook has no file
            digest.update(_syntax_of(part, frozenset(_UNDECIDING | others)))
    return digest.hexdigest()


@cache
def _syntax_of(part: Any, left_out: frozenset[str]) -> bytes:
    """Return the syntax tree of a module or function as bytes, the same for every version of Python."""

    def decides(node: Any) -> bool:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                return False
            case ast.ClassDef(name) | ast.FunctionDef(name):
                return name not in left_out
            case ast.Assign([target]) | ast.AugAssign(target) | ast.AnnAssign(target):
                return not {name.id for name in ast.walk(target) if isinstance(name, ast.Name)} <= left_out
        return True

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(part) for part in node if decides(part)]
        if isinstance(node, ast.AST):
            fields = {name: plain(value) for name, value in ast.iter_fields(node)}
            return type(node).__name__, {name: value for name, value in fields.items() if value not in (None, [])}
        return node

    return repr(plain(ast.parse(textwrap.dedent(inspect.getsource(part))))).encode()


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
    """Join runs: of a claim that two runs have, the later one gives a further block of seeds, or, where the claim's
    code has changed since, replaces the earlier one.

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
            if known and known.code == result.code:
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
