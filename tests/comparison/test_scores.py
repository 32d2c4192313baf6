"""Scores that others computed are judged as the outputs are that they were computed from.

The lines of docs/how-to/scores.md make a table of the logs of three tools, and it is judged. The logs in
`logs-of-tools.tar.xz` were written by lm-evaluation-harness 0.4.13 (GPT-2 of two layers, trained on sums: three runs
and two), Inspect 0.3.285 (`mockllm/model`, one log as .eval and dumped, one as JSON; events of samples taken out) and
the command of COMET 2.2.7 with numbers in the place of a model's. Expected means are those that the tools printed.
"""

import csv
import gzip
import json
import re
import tarfile
from decimal import Decimal
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from forging import differing, edit
from pyarrow import parquet

from selfattn import compare_outputs, compare_scores, score_table
from selfattn.comparison.scores import plan_scores
from selfattn.errors import UserError
from selfattn.evaluation.design import Spread, power, runs_needed
from selfattn.evaluation.significance import score_runs
from selfattn.report.text import markdown_of
from selfattn.report.write import document, write_tables

RIGHT = [f"a {number} b" for number in range(40)]
SPREAD = Spread(runs=0.04, single=1.0, common=0.5, freedom=8, items=100)


def answers(system, run):
    place = {"a": 3, "b": 9}[system] + run
    return [text if number % place else f"{text} x" for number, text in enumerate(RIGHT)]


def rows(**more):
    """Whether each output of `answers` is right, with further columns."""
    table = []
    for system in "ab":
        for run in range(3):
            for item, (output, right) in enumerate(zip(answers(system, run), RIGHT, strict=True)):
                row = {"system": system, "run": run, "item": f"i{item}", "score": output == right}
                table.append(row | {name: make(item) for name, make in more.items()})
    return table


def columns(table):
    return {name: [row[name] for row in table] for name in table[0]}


def kind(item):
    return "odd" if item % 2 else "even"


def test_scores_are_judged_as_the_outputs_that_they_come_from(tmp_path):
    systems = {system: [answers(system, run) for run in range(3)] for system in "ab"}
    tags = [kind(item) for item in range(40)]
    theirs, _ = compare_outputs(RIGHT, systems, metric="exact_match", out=tmp_path / "a", tags=tags, margin=2.0)
    table = rows(group=kind, metric=lambda _: "exact_match")
    ours, _ = compare_scores(columns(table), out=tmp_path / "b", margin=2.0)
    exact = [{"exact_match": model.metrics["exact_match"]} for model in theirs.models]
    assert [model.metrics for model in ours.models] == exact
    assert ours.pairs == tuple(test for test in theirs.pairs if test.metric == "exact_match")
    assert ours.buckets == theirs.buckets[:1]
    for name in ("headline", "interval", "test_items", "margin", "trained"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert not differing(tmp_path / "b")


def written(table, folder):
    """Write the table in every format, and yield the files."""
    frame = pd.DataFrame(table)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + (folder / "t.csv").read_bytes()))
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / "t.parquet")
    yield from sorted(folder.glob("t.*"))


@pytest.mark.parametrize("change", [bool, int, lambda right: right / 2 + 0.25], ids=["bool", "whole", "number"])
def test_every_format_gives_the_same(change, tmp_path):
    table = [row | {"score": change(row["score"])} for row in rows(cluster=lambda item: item // 2)]
    expected = score_table(columns(table))
    assert expected.metrics[0].unit == ("number" if change(True) == 0.75 else "share")
    for given in (*written(table, tmp_path), pd.DataFrame(table), pa.Table.from_pylist(table)):
        found = score_table(given)
        assert (found.estimates, found.pairs) == (expected.estimates, expected.pairs)
        assert found.cells.systems == {"a": ("0", "1", "2"), "b": ("0", "1", "2")}


def test_a_mean_of_item_scores_is_not_called_corpus_bleu():
    table = [row | {"score": 30.0 + row["score"]} for row in rows(metric=lambda _: "bleu")]
    found = score_table(columns(table)).record
    assert (found.headline.kind, found.headline.signature) == ("points", "mean over items")
    assert "mean over items" in markdown_of(document(found), "en")


def test_the_result_is_a_table_for_papers_and_for_programs(tmp_path, cli):
    record, _ = compare_scores(columns(rows()), out=tmp_path / "out")
    table = score_table(columns(rows()))
    frame = table.to_frame()
    assert frame.loc["a", "mean"] == table.estimates["a"].mean
    assert frame["runs"].tolist() == [3, 3]
    latex = table.to_latex()
    assert latex.startswith("% selfattn\n\\begin{tabular}{lrl}\n\\toprule\nmodel & score, \\% & vs best \\\\")
    cli("report", tmp_path / "out", "--out", tmp_path / "again", "--tables", tmp_path / "tables").success()
    assert (tmp_path / "tables" / "summary.tex").read_text() == latex
    assert (tmp_path / "tables" / "summary.csv").read_text().startswith('model,"score, %",vs best\n')
    assert (tmp_path / "again" / "results.json").read_bytes() == (tmp_path / "out" / "results.json").read_bytes()
    assert record.pairs == table.pairs
    lead = document(record).verdict.lead  # nobody knows whether the runs of a table differ by their seeds
    assert "3 runs each)" in lead.say("en")
    assert "실행 3번씩)" in lead.say("ko")


def test_three_items_of_systems_whose_runs_do_not_vary_decide_nothing(tmp_path):
    table = [row | {"score": 1.0 + (row["system"] == "b")} for row in rows() if row["item"] in ("i0", "i1", "i2")]
    record, _ = compare_scores(columns(table), out=tmp_path / "out")
    answer = markdown_of(document(record), "en").replace("\u00a0", " ")
    assert "Not told apart." in answer
    assert "p = 0.25" in answer
    assert "would settle it" not in answer  # more runs would write the same


@pytest.mark.parametrize(
    "name", ["../../x", "a\nb", "[a]", "*", "=1+1", "@SUM(A1)", "+1+cmd|' /C calc'!A0", "-a", "x" * 300]
)
def test_names_are_no_paths_no_formulas_and_no_commands_of_latex(tmp_path, name):
    out = tmp_path / "a" / "b" / "tables"
    table = [row | {"system": {"a": name, "b": "b"}[row["system"]]} for row in rows(metric=lambda _: name)]
    record = score_table(columns(table), better="higher").record
    if len(name) > 255:
        with pytest.raises(UserError, match="File name too long"):
            write_tables(record, out)
        return
    files = write_tables(record, out)
    assert {path.parent for path in files} == {out}
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {out}
    for path in out.glob("*.csv"):
        cells = chain.from_iterable(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+1+", "-a"))]
    assert not re.search(r"\\\\\s*[\[*]", (out / "summary.tex").read_text())


def test_huge_scores_have_a_report(tmp_path):
    table = [row | {"score": 1e69 * (-1 if row["system"] == "a" else 1) * (1 + row["run"])} for row in rows()]
    record, files = compare_scores(columns(table), out=tmp_path)
    assert record.pairs[0].difference != 0
    assert files.html.exists()
    small = [row | {"score": row["score"] / 1e69 / 1e75} for row in table]
    with pytest.raises(UserError, match=r"no score is larger than 3e-75; multiply all, or give logarithms"):
        score_table(columns(small))


def test_items_without_a_score_of_every_run_are_refused_or_left_out_and_counted(tmp_path, cli):
    table = [row for row in rows() if (row["system"], row["run"], row["item"]) != ("b", 1, "i7")]
    with pytest.raises(UserError, match=r"1 missing score, such as system b, run 1, item i7: add them, or `leave_out`"):
        score_table(columns(table))
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    done = cli("compare", "scores", tmp_path / "t.csv", "--leave-out", "--out", tmp_path / "out").success()
    assert "1 item left out: not every run has a score" in done.out
    assert not differing(tmp_path / "out")
    without = score_table(columns([row for row in rows() if row["item"] != "i7"]))
    found = score_table(columns(table), leave_out=True)
    assert (found.estimates, found.record.settings["left_out"]) == (without.estimates, 1)


def test_verify_sees_a_changed_file_and_a_changed_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(rows(group=kind))
    frame.to_csv("t.csv", index=False)
    compare_scores("t.csv", out="out")
    assert not differing(Path("out"))
    frame.assign(score=~frame["score"]).to_csv("t.csv", index=False)
    assert differing(Path("out")) == ["scores of t.csv"]
    Path("t.csv").unlink()
    edit(Path("out/results.json"), lambda record: record["pairs"][0].update(p=0.5))
    assert differing(Path("out")) == ["pairs.a b score"]
    with pytest.raises(UserError, match="holds the report of another comparison"):
        compare_scores(columns(rows(group=kind)), out="out")


BAD = {
    "text": (lambda t: [*t[:-1], t[-1] | {"score": "good"}], [], r"system b, run 2, item i39: .* number.*found 'good'"),
    "nan": (lambda t: [*t[:-1], t[-1] | {"score": float("nan")}], [], r"system b, run 2, item i39: .*finite.*none"),
    "infinite": (lambda t: [*t[:-1], t[-1] | {"score": float("inf")}], [], r"system b, run 2, item i39: .*finite"),
    "one name": (lambda t: [row | {"system": "a"} for row in t], [], r"system a, run 0, item i0: two scores"),
    "alike": (lambda t: [*t, t[0] | {"system": "a "}], [], r"systems 'a' and 'a ' look alike; give each another name"),
    "forms": (lambda t: [*t, *(t[0] | {"system": name} for name in ("\xe9", "e\u0301"))], [], r"look alike; give"),
    "without width": (lambda t: [*t, t[0] | {"system": "a\u200b"}], [], r"look alike; give each another name"),
    "twice": (lambda t: [*t, t[5]], [], r"system a, run 0, item i5: two scores"),
    "others": (lambda t: [row | {"item": row["system"] + row["item"]} for row in t], [], "240 missing scores, such"),
    "no column": (lambda t: [{"model": 1, "score": 2}], [], r"no column system, item"),
    "column": (lambda t: [row | {"seed": 1} for row in t], [], r"columns seed: expected some of system, run, item"),
    "no name": (lambda t: [*t[:-1], t[-1] | {"system": ""}], [], r"no system in row 240"),
    "clusters": (lambda t: [row | {"cluster": k} for k, row in enumerate(t)], [], r"item i0: more than one cluster"),
    "direction": (lambda t: [row | {"metric": "comet"} for row in t], [], r"--better: comet: say whether higher or"),
    "wrong way": (lambda t: [row | {"metric": "bleu"} for row in t], ["--better", "lower"], r"higher values of bleu"),
    "no metric": (lambda t: t, ["--better", "wer=lower"], r"--better wer: .*has no such metric, but score"),
    "way": (lambda t: t, ["--better", "up"], r"--better up: expected higher or lower"),
    "range": (lambda t: [r | {"score": 5} for r in t], ["--unit", "share"], r"a share goes from 0 to 1, found 5 to"),
    "one item": (lambda t: [row for row in t if row["item"] == "i1"], [], r"fewer than two items"),
}


# Files that cannot be read, by their name and content.
UNREAD = [
    ("gone.csv", None, "gone.csv: no such file; give a CSV, TSV, JSON lines or Parquet file"),
    ("empty.csv", b"", "empty.csv: the file is empty"),
    ("t.parquet", b"no parquet", "t.parquet: is no table that can be read"),
    ("t.jsonl", b'{"system": 1,', "t.jsonl: is no table that can be read"),
    ("t.xlsx", b"PK", "t.xlsx: unknown ending"),
    ("t.csv", b"system,item,score\na,1\n", "t.csv: is no table that can be read"),
    ("t.csv", b"system,item,score\n", "t.csv: no scores"),
    ("t.csv", b"system,item,score\n\xff,1,1\na,2,1\n", "t.csv: looks like cp1251, not UTF-8; save"),
    ("t.csv", "시스템,item,score\n가나 모델,문항,1\n우리가 만든 모델,질문,1\n".encode("cp949"), "looks like cp949"),
    ("t.jsonl", '{"system": "체계 가나", "item": "질문", "score": 1}\n'.encode("cp949") * 6, "looks like cp949"),
    ("t.jsonl", b'{"system": {"a": 1}, "item": 1, "score": 1}\n', "system: expected names or numbers"),
    ("t.csv", b"system,item,score\na,q,1e308\na,r,1\nb,q,-1e308\nb,r,0\n",
     r"system a, item q: expected a finite number as its score, up to 1e\+70"),
    ("t.csv", b"system;item;score\na;1;1\n", "no column system, item, score, found 'system;item;score'; give"),
    ("t.csv", b"system,item,score\na,1,true\na,2,0.5x\n", "expected true, false or a number as its score, found"),
    ("t.csv", b"system,item,score\na,1,0x1F\na,2,1\n", "system a, item 1: expected true, false or a number"),
    ("t.csv", b'system,item,score\na,1,"0,5"\na,2,1\n', "system a, item 1: expected true, false or a number"),
    ("t.jsonl", b'{"system": "a", "item": 1, "score": null}\n', "system a, item 1: expected true, false or a number"),
    ("t.jsonl", b'{"system": "a", "item": null, "score": 1}\n', "no item in row 1; every row needs it"),
    ("t.jsonl", b'[{"system": "a", "item": 1, "score": 1}]', "t.jsonl: is no table that can be read"),
]  # fmt: skip


@pytest.mark.parametrize("case", [*BAD, *range(len(UNREAD))])
def test_what_does_not_fit_is_refused_in_one_line(case, tmp_path, cli):
    more = []
    if isinstance(case, str):
        change, more, message = BAD[case]
        path = tmp_path / "t.csv"
        pd.DataFrame(change([row | {"score": float(row["score"])} for row in rows()])).to_csv(path, index=False)
    else:
        name, content, message = UNREAD[case]
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
    refusal = cli("compare", "scores", path, *more, "--out", tmp_path / "out").refusal()
    assert re.search(message, refusal), refusal
    assert not (tmp_path / "out").exists()


def test_a_plan_says_how_many_runs_and_items_it_takes(tmp_path, cli):
    pd.DataFrame(rows()).to_csv(tmp_path / "t.csv", index=False)
    done = cli("compare", "scores", "--plan", tmp_path / "t.csv", "--detect", "5").success()
    head, _, *lines, _ = done.out.splitlines()
    assert "a difference of 5 points with a power of 80 %; 2 systems, 3 runs each and 40 items" in head
    assert [line.split(" | ")[0] for line in lines] == ["10", "20", "40", "80", "160"]
    for options in ([], ["--plan", tmp_path / "t.csv"], [tmp_path / "t.csv", "--detect", "2"]):
        assert cli("compare", "scores", *options).code == 2
    one = [row for row in rows() if row["run"] == 0]
    with pytest.raises(UserError, match="a pilot needs two systems with two runs each"):
        list(plan_scores(columns(one), 2.0))


def test_clusters_are_counted_in_the_report_and_taken_along_in_a_plan():
    """Items that are all there twice, each with its copy, take as many runs as the items once, and twice the items."""
    table = rows(cluster=lambda item: item)
    twice = [*table, *(row | {"item": f"{row['item']} again"} for row in table)]
    alone, both = (document(score_table(columns(each)).record) for each in (table, twice))
    assert "drawn together, 80 items in 40 clusters" in " ".join(markdown_of(both, "en").split())
    assert "(항목 80개, 묶음 40개)" in " ".join(markdown_of(both, "ko").split())
    assert "cluster" not in markdown_of(alone, "en")
    _, heads, *once, note = plan_scores(columns(table), 5.0)
    head, *lines, clusters = plan_scores(columns(twice), 5.0)
    assert "3 runs each and 80 items in the pilot" in head
    assert "which has 40 of them" in clusters
    doubled = [(str(2 * int(items)), *needed) for items, *needed in (line.split(" | ") for line in once)]
    assert lines == [heads, *map(" | ".join, doubled), note]


def test_the_power_of_a_plan_is_that_of_the_comparison_itself():
    """Runs of two systems with known variances, judged as a comparison judges them; three standard errors apart."""
    rng = np.random.default_rng(0)
    for runs, items in ((3, 100), (5, 100), (5, 400)):
        seen = 0
        for _ in range(400):
            level = rng.normal(0, 0.2, size=(2, runs, 1)) + np.array([0.5, 0.0])[:, None, None]
            item = rng.normal(0, 0.5, size=(2, 1, items))  # 2 x 0.25
            first, second = level + item + rng.normal(size=(2, runs, items))
            seen += score_runs({"a": first, "b": second}).comparison().between("a", "b").word == "better"
        expected = power(SPREAD, 0.5, runs, items)
        assert seen / 400 == pytest.approx(expected, abs=3 * (expected * (1 - expected) / 400) ** 0.5 + 0.02)


def test_the_items_of_a_pilot_count_as_far_as_they_tell_its_systems_apart():
    rng = np.random.default_rng(1)
    easy, luck = rng.normal(size=(1, 1, 2000)), rng.normal(size=(2, 50, 2000))
    spread = Spread.of([tuple(easy + rng.normal(0, 0.5, size=(2, 1, 2000)) + luck)])
    assert (spread.runs, spread.single, spread.common) == pytest.approx((0, 1, 2 * 0.25), abs=0.05)
    few = rng.normal(0, 0.3, size=(2, 200, 1)) + rng.normal(size=(2, 200, 20))  # luck on items is no spread of runs
    assert Spread.of([tuple(few)]).runs == pytest.approx(0.09, abs=0.03)
    counts = [runs_needed(SPREAD, 0.4, items) or 101 for items in (50, 100, 200, 400)]
    assert counts == sorted(counts, reverse=True)  # more items never need more runs
    assert (runs_needed(SPREAD.cautious(), 0.4, 200) or 101) >= counts[2]
    assert runs_needed(SPREAD, 0.001, 100) is None


GIVEN = {
    "kinds": ({"score": [1, "x", 1, 1]}, "is no table that can be read"),
    "lengths": ({"score": [1]}, "is no table that can be read"),
    "texts": ({"score": ["1", "0", "x", "1"]}, "system b, item 1: expected true, false or a number .*, found 'x'"),
    "nan": ({"score": [1.0, float("nan"), 1.0, 1.0]}, "system a, item 2: expected a finite number"),
    "item": ({"item": [1.0, float("nan")] * 2}, "no item in row 2; every row needs it"),
    "run": ({"run": [1, 1, None, 1]}, "no run in row 3; every row needs it"),
    "lists": ({"item": [[1], [2]] * 2}, "item: expected names or numbers, found list"),
}


@pytest.mark.parametrize(("change", "message"), GIVEN.values(), ids=GIVEN)
def test_columns_that_do_not_fit_are_refused_in_one_line(change, message, tmp_path):
    tables = [{"system": ["a", "a", "b", "b"], "item": [1, 2, 1, 2], "score": [1, 0, 1, 1]} | change]
    if "no table" not in message:
        parquet.write_table(pa.table(tables[0]), tmp_path / "t.parquet")
        tables.append(tmp_path / "t.parquet")
    for table in tables:
        with pytest.raises(UserError, match=message) as caught:
            score_table(table)
        assert "\n" not in str(caught.value)


def test_decimals_are_numbers_and_blocks_of_a_file_are_put_together(tmp_path):
    """Parts of a file have lists of names of their own; a name keeps its number in all of them."""
    items = [str(item) for item in np.random.default_rng(0).permutation(3000)]
    table = {"system": ["a"] * 3000 + ["b"] * 3000, "item": items + items[::-1]}
    table["score"] = [Decimal(item) / 8 + (system == "a") for system, item in zip(*table.values(), strict=True)]
    expected = score_table(table)
    assert expected.estimates["a"].mean == pytest.approx(2999 / 16 + 1)
    assert expected.pairs[0].difference == pytest.approx(1)
    parquet.write_table(pa.table(table), tmp_path / "t.parquet", row_group_size=700)
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        found = score_table(tmp_path / name)
        assert found.cells.equals(expected.cells)


def test_json_lines_are_read_in_blocks(tmp_path):
    """The first block alone has whole numbers; a column that comes later is seen, too."""
    names = [f"item {number}" for number in range(25_000)]
    table = [{"system": "a", "item": name, "score": 1} for name in names]
    table += [{"system": "b", "item": name, "score": 0.5} for name in names]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    found = score_table(tmp_path / "t.jsonl")
    assert found.cells.equals(score_table(columns(table)).cells)
    table[-1]["cluster"] = "text"
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    with pytest.raises(UserError, match="no cluster in row 1; every row needs it"):
        score_table(tmp_path / "t.jsonl")


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
    if tool == "inspect":
        (folder / "logs" / "failed.json").write_text('{"status": "error"}')
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
