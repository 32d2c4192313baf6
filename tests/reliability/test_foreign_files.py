"""Files that somebody else made: nothing is written outside their directory, and one line says what is wrong."""

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli, accept_changes

from selfattn.comparison.plan import read_plan
from selfattn.data.readers.lines import file_sha256, lines_of
from selfattn.errors import UserError
from selfattn.files import in_use

RUN = "runs/plain-seed0"
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
    refusal = cli("report", copy, "--out", copy.parent / "report").refusal()
    assert "plan.json: content: name of a model: at most 100 letters" in refusal
    with pytest.raises(UserError, match="name of a model: at most 100 letters"):
        read_plan(copy)
    assert sorted(copy.parent.rglob("*")) == before


FILES = ("config.json", "run.json", "test.json", "tokenizer/char.json", "metrics.jsonl", "test.jsonl")
HOSTILE = ("[" * 100_000 + "]" * 100_000, '{"a":' * 400 + "1" + "}" * 400, "9" * 5000, "9" * 400, "1e999", "NaN")


@pytest.mark.parametrize("name", ["plan.json", *(f"{RUN}/{name}" for name in FILES)])
def test_hostile_json_is_one_line(cli: Cli, copy: Path, name: str) -> None:
    """Each hostile value as the file and, by turns, in place of the file's values."""
    path = copy / name
    values = json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    texts = [*HOSTILE]
    for key, hostile in zip(values, itertools.cycle(HOSTILE)):
        rest = {other: value for other, value in values.items() if other not in (key, "checksum")}
        texts.append(json.dumps(rest)[:-1] + f', "{key}": {hostile}}}')
    for text in texts:
        path.write_text(text)
        done = cli("report", copy, "--out", copy.parent / "report")
        if "tokenizer" in name or (name.endswith(("config.json", "run.json")) and done.code == 0):
            done = cli("predict", copy / RUN)
        assert done.code == 0 or len(done.refusal()) < 1000


def test_a_pipe_is_not_waited_for(cli: Cli, copy: Path) -> None:
    for name in ("config.json", "run.json", "tokenizer/char.json"):
        kept = (copy / RUN / name).read_bytes()
        (copy / RUN / name).unlink()
        os.mkfifo(copy / RUN / name)
        assert f"{name}: is not a file; " in cli("predict", copy / RUN).refusal()
        (copy / RUN / name).unlink()
        (copy / RUN / name).write_bytes(kept)


def test_a_file_of_data_that_has_no_end_is_not_read(cli: Cli, copy: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (file_sha256, lambda path: next(lines_of(path))):
        for path in (tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(UserError, match=f"{path}: is not a file; what comes out of a pipe"):
                read(path)
    options = {"data": [str(tmp_path / "pipe")]}
    forged(copy / RUN / "config.json", lambda config: config | {"task_options": options})
    assert "pipe: is not a file; " in cli("evaluate", copy / RUN).refusal()


@pytest.mark.parametrize(("name", "most"), [("config.json", 64 << 20), ("metrics.jsonl", 1 << 30)])
def test_a_file_larger_than_any_of_ours_is_not_read(cli: Cli, copy: Path, name: str, most: int) -> None:
    with (copy / RUN / name).open("r+b") as file:
        file.truncate(most + 1)  # a hole, which takes no space on the disk
    done = cli("predict", copy / RUN) if name == "config.json" else cli("report", copy, "--out", copy.parent / "r")
    assert f"{name}: is larger than {most >> 20} MiB; " in done.refusal()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("hidden_dim", 10_000_000, "from 1 to 1,048,576, got 10000000"),
        ("num_layers", 10**9, "from 1 to 1,000, got 1000000000"),
        ("hidden_dim", 1_000_000, "not the weights of the model in config.json ("),
        ("num_layers", 200, "not the weights of the model in config.json ("),
    ],
)
def test_a_model_larger_than_its_weights_is_not_built(cli: Cli, copy: Path, name: str, value: int, reason: str) -> None:
    def larger(config: Any) -> Any:
        config["model"]["encoder"][name] = config["model"]["decoder"][name] = value
        return config

    forged(copy / RUN / "config.json", larger)
    assert reason in cli("predict", copy / RUN).refusal()


def test_seeds_without_end_are_refused(cli: Cli, copy: Path) -> None:
    forged(copy / "plan.json", lambda plan: plan | {"seeds": 10**12})
    refusal = cli("report", copy, "--out", copy.parent / "report").refusal()
    assert "plan.json: seeds: expected less than or equal to 10000, found 1000000000000; " in refusal


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
    assert "ledger.jsonl: cannot be written (is a link); " in cli("evaluate", copy / RUN).refusal()
    assert own.read_text() == "precious\n"
    (copy / ".lock").unlink()
    (copy / ".lock").symlink_to(own)
    with pytest.raises(UserError, match=r"comparison: cannot be written \(is a link\)"), in_use(copy):
        pass
    assert own.read_text() == "precious\n"
