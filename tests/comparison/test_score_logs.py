"""The lines of docs/how-to/scores.md make a table of the logs of three tools, and it is judged.

The logs in `logs-of-tools.tar.xz` were written by lm-evaluation-harness 0.4.13 (GPT-2 of two layers, trained on sums:
three runs and two), Inspect 0.3.285 (`mockllm/model`, one log as .eval and dumped, one as JSON; events of samples taken
out) and the command of COMET 2.2.7 with numbers in the place of a model's. Expected means are those that the tools
printed.
"""

import re
import tarfile
from pathlib import Path

import pytest
from forging import differing

from selfattn import score_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "scores.md"
LOGS = Path(__file__).resolve().parents[1] / "fixtures" / "formats" / "data" / "logs-of-tools.tar.xz"
BLOCKS = re.findall(r"test_logs -->\n```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
PRINTED = {
    "harness": {"base": [0.3, 0.2667, 0.1333], "new": [0.9, 0.9333]},
    "inspect": {"mockllm/base": [0.5], "mockllm/new": [0.8333]},  # over all epochs
    "comet": {"base": [0.7633, 0.7433, 0.7100], "new": [0.8467, 0.8700, 0.8767]},
}


@pytest.mark.parametrize(("block", "tool", "items"), [(0, "harness", 30), (1, "inspect", 12), (2, "comet", 20)])
def test_logs(block, tool, items, tmp_path, monkeypatch):
    folder = tmp_path / tool
    with tarfile.open(LOGS) as logs:
        for member in filter(tarfile.TarInfo.isfile, logs):
            (tmp_path / member.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / member.name).write_bytes(logs.extractfile(member).read())
    monkeypatch.chdir(folder)
    names = {}
    exec(BLOCKS[block] + BLOCKS[3], names)
    record = names["record"]
    assert record.test_items == items
    metric = record.headline.metric
    for model in record.models:
        score = model.metrics[metric]
        printed = PRINTED[tool][model.name]
        if tool == "inspect":
            assert len(score.runs) == 3  # epochs
        else:
            assert score.runs == pytest.approx(printed, abs=6e-5)
        assert score.mean == pytest.approx(sum(printed) / len(printed), abs=6e-5)
    assert list(record.models[0].run_dirs) == [f"{next(iter(PRINTED[tool]))}: {number}" for number in (1, 2, 3)]
    assert record.pairs[0].difference < 0
    assert differing(folder / "compare" / "logs") == []


def test_a_file_for_each_seed(tmp_path, monkeypatch):
    """Names of items with leading zeros, as a laboratory has them, stay apart."""
    block = re.search(r"each_seed -->\n```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block
    (tmp_path / "results").mkdir()
    for seed in range(3):
        lines = ["question,document,svm,bert", f"07,d1,0,{seed % 2}", "7,d1,0,1", "8,d2,1,1"]
        (tmp_path / "results" / f"seed{seed}.csv").write_text("\n".join(lines), "utf-8-sig")
    monkeypatch.chdir(tmp_path)
    exec(block[1], {})
    table = score_table("scores.csv")
    assert table.cells.systems == dict.fromkeys(("svm", "bert"), ("seed0", "seed1", "seed2"))
    assert table.cells.items.to_pylist() == ["07", "7", "8"]
    assert table.cells.values.tolist() == [[[0, 0, 1]] * 3 + [[0, 1, 1], [1, 1, 1], [0, 1, 1]]]
    assert table.cells.clusters.to_pylist() == ["d1", "d1", "d2"]
