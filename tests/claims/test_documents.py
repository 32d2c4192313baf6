"""The documents of the claims suite say what its record says."""

import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from selfattn.claims.page import document_of
from selfattn.claims.record import judge_claims, read_record
from selfattn.codec import encode
from selfattn.registry import CLAIMS
from selfattn.report.render.markdown import markdown_of
from selfattn.results.claims import ClaimsRecord

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "claims"


@cache
def record() -> ClaimsRecord:
    return read_record(RESULTS)


def nine_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: nine_digits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [nine_digits(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_the_verdicts_are_those_of_the_rules() -> None:
    """To nine digits: newer versions of Python add floats up more exactly, and the last digit may differ."""
    assert nine_digits(encode(judge_claims(record()))) == nine_digits(encode(record()))


def test_the_record_is_a_full_run_of_the_suite() -> None:
    assert not record().quick
    assert [result.name for result in record().claims] == list(CLAIMS)
    assert all(result.judgement or result.failed for result in record().claims)


def test_the_pages_are_made_of_the_record() -> None:
    made: dict[Path, str] = runpy.run_path(str(RESULTS / "write.py"))["pages"](record())
    for path, text in made.items():
        assert path.read_text("utf-8") == text, f"{path}: make it again: python docs/results/claims/write.py"


def test_what_the_figures_say_is_said_of_full_runs_alone() -> None:
    head = "What the figures say"
    assert head in markdown_of(document_of(record()), "en")
    assert head not in markdown_of(document_of(replace(record(), quick=True)), "en")
