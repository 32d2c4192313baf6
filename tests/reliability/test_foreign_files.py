"""Files that somebody else made: nothing is written outside their directory, and one line says what is wrong."""

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import accept_changes

from selfattn.comparison.plan import read_plan
from selfattn.data.readers import file_sha256, lines_of
from selfattn.errors import UserError
from selfattn.files import in_use

RUN = "runs/plain-seed0"
Cli = Callable[..., Any]
Change = Callable[[Any], Any]


def forged(path: Path, change: Change) -> None:
    """Change a JSON file, and take away the checksums, as whoever forges it would."""
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    path.write_text(json.dumps(change(values)))
    if path.name != "run.json" and (path.parent / "run.json").exists():
        accept_changes(path.parent)


@pytest.mark.parametrize("name", ["../../../outside", "/tmp/outside", "a/b", "..", "", "x" * 300])
def test_a_plan_names_no_directory_but_its_own(cli: Cli, copy: Path, name: str) -> None:
    before = sorted(copy.parent.rglob("*"))
    forged(copy / "plan.json", lambda plan: plan | {"models": {name: plan["models"]["plain"]}})
    done = cli("report", copy, "--out", copy.parent / "report")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "plan.json: content: the name of a model is made of at most 100 letters" in done.err
    with pytest.raises(UserError, match="the name of a model is made of at most 100 letters"):
        read_plan(copy)
    assert sorted(copy.parent.rglob("*")) == before


JSON_FILES = (
    "plan.json",
    *(f"{RUN}/{name}" for name in ("config.json", "run.json", "test.json", "tokenizer/char.json")),
)
LINES = tuple(f"{RUN}/{name}" for name in ("metrics.jsonl", "test.jsonl"))
HOSTILE = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "rather deep": '{"a":' * 400 + "1" + "}" * 400,
    "digits": "9" * 5000,
    "fewer digits": "9" * 4000,
    "beyond a float": "9" * 400,
    "infinite": "1e999",
    "nan": "NaN",
}


@pytest.mark.parametrize("is_thorough", [False, pytest.param(True, marks=pytest.mark.reliability)])
@pytest.mark.parametrize("name", [*JSON_FILES, *LINES])
def test_hostile_json_is_one_line(cli: Cli, copy: Path, name: str, is_thorough: bool) -> None:
    """Each hostile value as the file and in place of the file's values: of each, or by turns."""
    path = copy / name
    values = json.loads(path.read_text().splitlines()[0] if name in LINES else path.read_text())
    cases = itertools.product(values, HOSTILE) if is_thorough else zip(values, itertools.cycle(HOSTILE))
    texts = [*HOSTILE.values()]
    for key, hostile in cases:
        rest = {other: value for other, value in values.items() if other not in (key, "checksum")}
        texts.append(json.dumps(rest)[:-1] + f', "{key}": {HOSTILE[hostile]}}}')
    for text in texts:
        path.write_text(text)
        done = cli("report", copy, "--out", copy.parent / "report")
        if "tokenizer" in name or (name.endswith(("config.json", "run.json")) and done.code == 0):
            done = cli("predict", copy / RUN)
        assert done.code in (0, 2)
        assert done.code == 0 or (done.err.count("\n") == 1 and len(done.err) < 1000)


def test_a_pipe_is_not_waited_for(cli: Cli, copy: Path) -> None:
    for name in ("config.json", "run.json", "tokenizer/char.json"):
        kept = (copy / RUN / name).read_bytes()
        (copy / RUN / name).unlink()
        os.mkfifo(copy / RUN / name)
        done = cli("predict", copy / RUN)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f"{name}: is not a file; " in done.err
        (copy / RUN / name).unlink()
        (copy / RUN / name).write_bytes(kept)


def test_a_file_of_data_that_has_no_end_is_not_read(cli: Cli, copy: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (file_sha256, lambda path: next(lines_of(path))):
        for path in (tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(UserError, match=f"{path}: is not a file; what comes out of a pipe"):
                read(path)
    data = {"kind": "file", "path": str(tmp_path / "pipe"), "sha256": "0", "split": "by source", "validation_items": 1}
    forged(copy / RUN / "config.json", lambda config: config | {"data": data})
    done = cli("evaluate", copy / RUN)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "pipe: is not a file; " in done.err


@pytest.mark.parametrize(("name", "most"), [("config.json", 64 << 20), ("metrics.jsonl", 1 << 30)])
def test_a_file_larger_than_any_of_ours_is_not_read(cli: Cli, copy: Path, name: str, most: int) -> None:
    with (copy / RUN / name).open("r+b") as file:
        file.truncate(most + 1)  # a hole, which takes no room
    done = cli("predict", copy / RUN) if name == "config.json" else cli("report", copy, "--out", copy.parent / "r")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{name}: is larger than {most >> 20} MiB; " in done.err


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("hidden_dim", 10_000_000, "expected at most 1048576, got 10000000"),
        ("num_layers", 10**9, "expected at most 1000, got 1000000000"),
        ("hidden_dim", 1_000_000, "not the weights of the model in config.json ("),
        ("num_layers", 1000, "not the weights of the model in config.json ("),
    ],
)
def test_a_model_larger_than_its_weights_is_not_built(cli: Cli, copy: Path, name: str, value: int, reason: str) -> None:
    def larger(config: Any) -> Any:
        config["model"]["encoder"][name] = config["model"]["decoder"][name] = value
        return config

    forged(copy / RUN / "config.json", larger)
    done = cli("predict", copy / RUN)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert reason in done.err


def test_seeds_without_end_are_refused(cli: Cli, copy: Path) -> None:
    forged(copy / "plan.json", lambda plan: plan | {"seeds": 10**12})
    done = cli("report", copy, "--out", copy.parent / "report")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "plan.json: seeds: expected less than or equal to 10000, found 1000000000000; " in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right of their own there")
def test_nothing_is_written_through_a_link(cli: Cli, copy: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("precious\n")
    (copy / "report").mkdir()
    for name in ("report.md", "results.json"):
        (copy / "report" / f".{name}.{os.getpid()}.tmp").symlink_to(own)
    assert cli("report", copy, "--out", copy / "report").code == 0
    assert own.read_text() == "precious\n"
    (copy / "ledger.jsonl").unlink()
    (copy / "ledger.jsonl").symlink_to(own)
    done = cli("evaluate", copy / RUN)
    assert own.read_text() == "precious\n"
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "ledger.jsonl: cannot be written (is a link); " in done.err
    (copy / ".lock").unlink()
    (copy / ".lock").symlink_to(own)
    with pytest.raises(UserError, match=r"comparison: cannot be written \(is a link\)"), in_use(copy):
        pass
    assert own.read_text() == "precious\n"
