"""Charts and tables of a report as files of their own."""

from __future__ import annotations

import csv
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from selfattn.report.render.figures import write_figures, write_tables
from selfattn.results.reading import record_from_dict

RECORD = record_from_dict(runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))["rates"]())


def test_every_chart_is_three_files_that_need_no_style_sheet(tmp_path: Path) -> None:
    files = write_figures(RECORD, tmp_path / "new" / "folder", "ko")
    assert [path.suffix for path in files] == [".svg", ".png", ".pdf"] * (len(files) // 3)
    assert {"step", "rates"} <= {path.stem for path in files}
    for path in files:
        if path.suffix == ".svg":
            text = path.read_text(encoding="utf-8")
            assert all(model.name in "".join(ET.fromstring(text).itertext()) for model in RECORD.models)
            assert "class=" not in text
        starts = {".png": b"\x89PNG", ".pdf": b"%PDF-", ".svg": b"<svg "}
        assert path.read_bytes().startswith(starts[path.suffix])


def test_without_cairosvg_there_are_svg_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert {path.suffix for path in write_figures(RECORD, tmp_path)} == {".svg"}


def test_every_table_is_a_csv_file_with_the_values_of_the_record(tmp_path: Path) -> None:
    files = write_tables(RECORD, tmp_path)
    assert len(set(files)) == len(files) >= 5
    rows = list(csv.reader((tmp_path / "agreement.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0][:3] == ["model", "attention and blocking", "attention and gradient × input"]
    assert ["rnn-attention", "0.61 [0.57, 0.66]", "0.33 [-0.01, 0.37]", "–"] in rows
