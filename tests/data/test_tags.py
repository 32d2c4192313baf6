"""A column of tags divides test pairs into groups; several test sets have names, and the first decides."""

import json
from pathlib import Path
from typing import Any

import pytest

from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import named_sets, read_pairs
from selfattn.errors import SettingError, UserError
from selfattn.runs.task import task_of_settings
from selfattn.tasks.translation import Translation

ROWS = [("a", "1", "x"), ("b", "2", ""), ("c", "3", " y ")]
PAIRS = [Pair("a", "1", "x"), Pair("b", "2"), Pair("c", "3", "y")]


def table(path: Path, rows: list[tuple[str, ...]], separator: str = "\t") -> Path:
    path.write_text("".join(separator.join(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("tag", ["kind", "3"])
def test_a_tag_is_read_by_name_and_by_number(tmp_path: Path, tag: str) -> None:
    head = ("source", "target", "kind")
    for name, separator in (("a.tsv", "\t"), ("a.csv", ",")):
        assert read_pairs(table(tmp_path / name, [head, *ROWS], separator), tag=tag) == PAIRS


def test_a_tag_is_read_from_rows_without_names_and_from_json(tmp_path: Path) -> None:
    assert read_pairs(table(tmp_path / "a.tsv", ROWS), tag="3") == PAIRS
    lines = [json.dumps({"source": s, "target": t, "kind": k}) for s, t, k in ROWS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), "utf-8")
    assert read_pairs(tmp_path / "a.jsonl", tag="kind") == PAIRS


@pytest.mark.parametrize(
    ("rows", "tag", "message"),
    [
        (ROWS, "4", r"a.tsv:1: 3 column\(s\) a line, so there is no column 4 \(`tag`\)"),
        (ROWS, "kind", r"a.tsv:1: the first line names no columns, so there is no 'kind' \(`tag`\); give its number"),
        ([("source", "target", "k"), *ROWS], "kind", r"a.tsv:1: 0 columns are called 'kind' \(`tag`\)"),
        ([("source", "target", "k", "k"), ("a", "1", "x", "x")], "k", r"a.tsv:1: 2 columns are called 'k'"),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path: Path, rows: Any, tag: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        read_pairs(table(tmp_path / "a.tsv", rows), tag=tag)


def test_files_without_columns_have_no_tags(tmp_path: Path) -> None:
    table(tmp_path / "a.en", [("x",), ("y",)])
    table(tmp_path / "a.ko", [("p",), ("q",)])
    with pytest.raises(SettingError, match="`tag` is for files of pairs"):
        read_pairs(tmp_path / "a.en", tmp_path / "a.ko", tag="3")
    (tmp_path / "date.txt").write_text("2/10/93   _1993-02-10\n", "utf-8")
    with pytest.raises(SettingError, match="`tag` is for tables and JSON lines"):
        read_pairs(tmp_path / "date.txt", tag="3")


def test_a_name_stands_before_the_first_file_of_its_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sets(*texts: str) -> dict[str, list[str]]:
        return {name: list(map(str, paths)) for name, paths in named_sets([Path(x) for x in texts], "test").items()}

    assert sets("iid=a.tsv", "gen=b.en", "b.de") == {"iid": ["a.tsv"], "gen": ["b.en", "b.de"]}
    assert sets("a.tsv", "b/c=d.tsv") == {"": ["a.tsv", "b/c=d.tsv"]}
    assert sets() == {}
    with pytest.raises(SettingError, match="`test` iid: given twice"):
        sets("iid=a.tsv", "iid=b.tsv")
    with pytest.raises(SettingError, match=r"`test` a.tsv: has no name, but another set has; write NAME=a.tsv"):
        sets("a.tsv", "gen=b.tsv")
    monkeypatch.chdir(tmp_path)
    Path("a=b.tsv").touch()
    assert sets("a=b.tsv") == {"": ["a=b.tsv"]}


def test_lines_of_scan_are_pairs(tmp_path: Path) -> None:
    lines = "IN: run twice OUT: I_RUN I_RUN\nIN: run OUT: I_RUN\n"
    (tmp_path / "tasks.txt").write_text(lines, "utf-8")
    (tmp_path / "more.txt").write_text(lines + "IN: walk OUT: I_WALK\n", "utf-8")
    pairs = [Pair("run twice", "I_RUN I_RUN"), Pair("run", "I_RUN")]
    assert read_pairs(tmp_path / "tasks.txt") == pairs
    assert read_pairs(tmp_path / "tasks.txt", tmp_path / "more.txt") == [*pairs, *pairs, Pair("walk", "I_WALK")]
    (tmp_path / "tasks.txt").write_text(lines + "OUT: x\n", "utf-8")
    with pytest.raises(UserError, match=r"tasks.txt:3: no IN: source OUT: target"):
        read_pairs(tmp_path / "tasks.txt")


def corpus(folder: Path, **options: Any) -> Any:
    rows = [(f"s{n}", f"t{n}") for n in range(300)]
    tagged = [(f"v{n}", f"w{n}", "even" if n % 2 == 0 else "odd") for n in range(60)]
    files: Any = {"data": (table(folder / "train.tsv", [*rows, ("v50", "other")]),)}
    files["valid"] = (table(folder / "valid.tsv", rows[:5] and [(f"x{n}", f"y{n}") for n in range(9)]),)
    table(folder / "a.tsv", tagged[:40])
    table(folder / "b.tsv", tagged[40:])
    files["test"] = (f"iid={folder / 'a.tsv'}", f"gen={folder / 'b.tsv'}")
    return Translation(target="und", source="und", tag="3", **files | options)


def test_the_first_set_decides_and_the_others_are_tested_beside_it(tmp_path: Path) -> None:
    splits = corpus(tmp_path).splits(0)
    assert len(splits.test(None)) == 40
    assert {pair.tag for pair in splits.test(None)} == {"even", "odd"}
    assert {name: len(pairs) for name, pairs in splits.further_tests().items()} == {"gen": 20}
    assert splits.settings["test_set"] == "iid"
    assert splits.settings["parts"]["test gen"]["pairs"] == 20
    assert "test set iid decides; further test sets: gen" in splits.notes
    assert len(splits.train(0, None)) == 300  # no training pair is in a further set
    assert {pair.tag for pair in splits.validation(9)} == {""}  # a validation file may lack the column


def test_a_run_is_tested_on_the_deciding_set_again(tmp_path: Path) -> None:
    splits = corpus(tmp_path).splits(0)
    again = task_of_settings("translation", splits.settings, "run").held_out()
    assert list(again.pairs) == splits.test(None)


def test_a_set_without_tags_or_given_twice_is_refused(tmp_path: Path) -> None:
    folder = tmp_path
    corpus(folder)
    table(folder / "c.tsv", [("p", "q")])
    with pytest.raises(UserError, match=r"c.tsv:1: 2 column\(s\) a line, so there is no column 3"):
        corpus(folder, test=(f"iid={folder / 'a.tsv'}", f"gen={folder / 'c.tsv'}")).splits(0)
    with pytest.raises(UserError, match="is given twice"):
        corpus(folder, test=(f"iid={folder / 'a.tsv'}", f"gen={folder / 'a.tsv'}")).splits(0)
