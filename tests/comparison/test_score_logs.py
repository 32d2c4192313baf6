"""The lines of docs/how-to/scores.md make a table of the logs of three tools, and it is judged."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfattn.comparison.verify import verify
from selfattn.results.record import Record

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "scores.md"
BLOCKS = re.findall(r"test_logs -->\n```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
ITEMS = 30


def write_harness(folder: Path, right: dict[str, np.ndarray]) -> None:
    for system, runs in right.items():
        for seed, answers in enumerate(runs, 1):
            logs = folder / "logs" / f"{system}-seed{seed}"
            logs.mkdir(parents=True)
            lines = []
            for doc, answer in enumerate(answers):
                for chosen in ("strict-match", "flexible-extract"):
                    sample = {"doc_id": doc, "doc": {"question": "?"}, "filter": chosen, "metrics": ["exact_match"]}
                    lines.append(json.dumps(sample | {"exact_match": float(answer), "resps": [["x"]]}))
            (logs / "samples_gsm8k_2026-11-29.jsonl").write_text("\n".join(lines) + "\n")


def write_inspect(folder: Path, right: dict[str, np.ndarray]) -> None:
    (folder / "logs").mkdir()
    for system, runs in right.items():
        samples = [
            {"id": item, "epoch": epoch, "scores": {"match": {"value": "C" if answer else "I"}}}
            for epoch, answers in enumerate(runs, 1)
            for item, answer in enumerate(answers)
        ]
        log = {"version": 2, "eval": {"model": system}, "samples": samples}
        (folder / "logs" / f"{system}.json").write_text(json.dumps(log))


def write_comet(folder: Path, right: dict[str, np.ndarray]) -> None:
    files = {
        f"{system}{run}": [{"src": "a", "mt": "b", "COMET": 0.5 + 0.3 * bool(answer)} for answer in answers]
        for system, runs in right.items()
        for run, answers in enumerate(runs, 1)
    }
    (folder / "comet.json").write_text(json.dumps(files))


@pytest.mark.parametrize(
    ("block", "write"), [(0, write_harness), (1, write_inspect), (2, write_comet)], ids=["harness", "inspect", "comet"]
)
def test_logs(block: int, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    right = {"base": chance.random((3, ITEMS)) < 0.5, "new": chance.random((3, ITEMS)) < 0.9}
    write(tmp_path, right)
    judge = BLOCKS[3]
    if block == 2:
        judge = judge.replace('"compare/logs"', '"compare/logs", better="higher"')
    names: dict[str, Any] = {}
    exec(BLOCKS[block] + judge, names)
    record: Record = names["record"]
    assert record.test_items == ITEMS
    metric = record.headline.metric
    for model in record.models:
        scores = right[model.name] if block < 2 else 0.5 + 0.3 * right[model.name]
        assert sorted(model.metrics[metric].runs) == pytest.approx(sorted(scores.mean(axis=1)))
    assert record.pairs[0].word != "not told apart"
    assert not [finding.name for finding in verify(tmp_path / "compare" / "logs") if finding.differences]
