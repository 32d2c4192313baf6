"""Links of a run carry nothing of a user away, pipes are not waited for, and nothing published has a local path."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hub_server import Hub, hub
from small_runs import accept_changes

from selfattn.codec import write
from selfattn.errors import UserError
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.load import load
from selfattn.runs.run import Run
from selfattn.training.checkpoint import CheckpointFile

__all__ = ["hub"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # of huggingface_hub itself
    pytest.mark.skipif(sys.platform == "win32", reason="links need a right of their own there, and pipes are others"),
]
SECRET = "my private key"


@pytest.fixture
def run(runs: dict[str, Run], tmp_path: Path) -> Path:
    """A copy of a run, to be changed, and a private file beside it."""
    (tmp_path / "private").write_text(SECRET)
    return Path(shutil.copytree(runs["transformer"].path, tmp_path / "run"))


def further(run: Path) -> None:
    """Links to a private file, in names that are copied by pattern, and some that are hidden."""
    for name in ("tokenizer/.hidden", "tokenizer/more", "more.onnx", "more.onnx.data", "ctranslate2/more"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).symlink_to(run.parent / "private")
    (run / "linked").symlink_to(run.parent)


def test_links_beside_the_files_of_a_run_stay_at_home(run: Path, hub: Hub) -> None:
    further(run)
    (run / "tokenizer" / "more").unlink()  # which loading refuses
    load(run).push("me/run", test=False)
    assert not any(SECRET.encode() in content for content in hub.files("me/run").values())
    assert set(hub.files("me/run")) == {
        "README.md", "config.json", "metrics.jsonl", "model.safetensors", "run.json", "tokenizer/char.json"
    }  # fmt: skip
    RunDirectory(run).copy(run.parent, "tokenizer/*", "config.json")
    assert sorted(path.name for path in (run.parent / "tokenizer").iterdir()) == ["char.json"]


@pytest.mark.parametrize("name", ["tokenizer/char.json", "model.safetensors", "tokenizer"])
def test_a_link_in_place_of_a_file_is_not_copied(run: Path, hub: Hub, name: str) -> None:
    loaded = load(run)
    (run / name).rename(run.parent / "elsewhere")
    (run / name).symlink_to(run.parent / "elsewhere")
    with pytest.raises(UserError, match=f"{name}: is a link, which is not copied; put the file itself there"):
        loaded.push("me/run", test=False)
    assert "me/run" not in hub.commits


@pytest.mark.parametrize("name", ["../private", "/etc/hostname", "tokenizer/../../private"])
def test_a_record_lists_nothing_outside_its_directory(run: Path, name: str) -> None:
    directory = RunDirectory(run)
    record = directory.record()
    write(run / "run.json", replace(record, files={**record.files, name: ("0",)}), checksum=True)
    with pytest.raises(UserError, match="which is not in this directory"):
        directory.copy(run.parent / "copy", "*")


def test_a_run_of_the_cache_is_copied_through_its_links(runs: dict[str, Run], hub: Hub, tmp_path: Path) -> None:
    runs["rnn-plain"].push("me/run", test=False)
    cached = load("hf://me/run").path
    assert (cached / "config.json").is_symlink()
    RunDirectory(cached).copy(tmp_path, "*")
    assert (tmp_path / "model.safetensors").read_bytes() == (cached / "model.safetensors").read_bytes()


READ: dict[str, Callable[[Path], object]] = {
    "config.json": load, "run.json": load, "model.safetensors": load, "tokenizer/char.json": load,
    "metrics.jsonl": lambda run: RunDirectory(run).metrics(), "step.onnx": load,
    "ctranslate2/model.bin": load, CHECKPOINT: lambda run: CheckpointFile(run / CHECKPOINT).read(),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_pipe_is_not_waited_for(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(UserError, match=f"{name}: is not a file; ") as caught:
        READ[name](run)
    assert "\n" not in str(caught.value)


def test_no_local_path_is_published(run: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    (run.parent / "my work").mkdir()
    (run.parent / "my work" / "set").mkdir()
    directory = RunDirectory(run)
    command = (
        f"selfattn --plugin '{run.parent}/my work/part.py' train dates --data '{run.parent}/my work/a.tsv' "
        f"b/c.tsv,../d.tsv --out='{run}' && selfattn train dates --init-from ~/my/other --hub 'my work/set' --valid file:///my/v.tsv"
    )
    config = json.loads((run / "config.json").read_text())
    config["data"] |= {"path": "my/own/a.tsv", "hub": "my work/set", "note": f"{run.parent}/my work/x and ../y/z.tsv"}
    (run / "config.json").write_text(json.dumps(config))
    write(run / "run.json", replace(directory.record(), command=command), checksum=True)
    accept_changes(run)
    load(run).push("me/run", test=False)
    for name, content in hub.files("me/run").items():
        for private in (b"my work", b"my/", b"/my", bytes(run.parent), b"../", b"b/c.tsv", b"~/"):
            assert private not in content, (name, private)
    files = hub.files("me/run")
    assert json.loads(files["run.json"])["command"] == (
        "selfattn --plugin part.py train dates --data a.tsv c.tsv,d.tsv --out=run && "
        "selfattn train dates --init-from other --hub set --valid v.tsv"
    )
    assert json.loads(files["config.json"])["data"]["path"] == "a.tsv"


def test_a_graph_holds_no_path_of_the_machine(runs: dict[str, Run], tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runs["rnn-plain"].export("onnx", tmp_path / "exported")
    for graph in (tmp_path / "exported").glob("*.onnx"):
        content = graph.read_bytes()
        assert b".py" not in content
        assert os.fsencode(Path(__file__).parents[2]) not in content
