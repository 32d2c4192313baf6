"""Figures and tables of a report as files for a paper."""

from __future__ import annotations

import csv
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from selfattn.errors import UserError
from selfattn.report.render.paper import write_paper
from selfattn.results.reading import record_from_dict
from selfattn.results.record import Record

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))


def rich() -> Record:
    return record_from_dict(RECORDS["rich"]())


def test_every_chart_and_table_is_a_file_with_the_figures_of_the_record(tmp_path: Path) -> None:
    record = rich()
    files = write_paper(record, tmp_path, ("svg", "pdf"), ("csv", "tex"))
    assert len(set(files)) == len(files)
    kinds = [path.suffix for path in files]
    assert kinds.count(".svg") == kinds.count(".pdf") >= 2
    assert kinds.count(".csv") == kinds.count(".tex") >= 5
    rows = list(csv.reader((tmp_path / "paper" / "agreement.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0][:3] == ["model", "attention and blocking", "attention and gradient × input"]
    assert [row for row in rows if row[0] == "rnn-attention"] == [
        ["rnn-attention", "0.61 [0.57, 0.66]", "0.33 [-0.01, 0.37]", "–"]
    ]
    tex = (tmp_path / "paper" / "agreement.tex").read_text(encoding="utf-8")
    assert tex.startswith("\\begin{tabular}{lrrr}\n\\toprule\n")
    assert r"attention and gradient $\times$ input" in tex
    for path in files:
        if path.suffix == ".svg":
            texts = "".join(ET.parse(path).getroot().itertext())
            assert all(model.name in texts for model in record.models), path
        if path.suffix == ".pdf":
            assert path.read_bytes().startswith(b"%PDF-")


def test_the_same_record_gives_the_same_bytes(tmp_path: Path) -> None:
    again = [write_paper(rich(), tmp_path / name, ("svg", "pdf"), ("tex",)) for name in "ab"]
    assert [path.read_bytes() for path in again[0]] == [path.read_bytes() for path in again[1]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"figures": ("png",)}, "`figures` png: choose of svg, pdf"),
        ({"tables": ("csv", "xls")}, "`tables` xls: choose of csv, tex"),
    ],
)
def test_other_forms_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        write_paper(rich(), tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'selfattn\[figures\]'"):
        write_paper(rich(), tmp_path, ("svg",))
