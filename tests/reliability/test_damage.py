"""Files that are damaged, forged, foreign or no files: named in one line, or nothing that is read is any different."""

import itertools
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_runs import accept_changes, words

from selfattn.codec import encode, write
from selfattn.comparison import tested as on_disk
from selfattn.comparison.costs import read_costs
from selfattn.comparison.plan import read_plan
from selfattn.comparison.report import PACKED, unpack
from selfattn.data.readers.lines import file_sha256, lines_of
from selfattn.errors import UserError
from selfattn.experiments.plan import write_plan
from selfattn.files import append_line, in_use
from selfattn.results.record import read_record
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.ledger import LEDGER, read_ledger
from selfattn.runs.load import load
from selfattn.training.checkpoint import CheckpointFile

pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # of huggingface_hub itself
    pytest.mark.skipif(sys.platform == "win32", reason="links need a right of their own there, and pipes are others"),
]
RUN = "runs/plain-seed0"
TEXTS = ["4 March 2031", "12/05/1999"]
REPORTS = ("report.html", "report.md", "results.json")  # made of the others, and read by no command


def all_that_is_read(comparison):
    """What the program reads of a comparison, in a form that can be compared."""
    run = load(comparison / RUN)
    tested, checkpoints = on_disk.RunOnDisk(comparison / RUN, "plain"), CheckpointFile(comparison / RUN / CHECKPOINT)
    kept = checkpoints.parse(checkpoints.read() or b"")
    weights = {name: tensor.tolist() for name, tensor in run.model.state_dict().items()}
    of_test = [encode(one) for one in (tested.result, tested.record, tested.metrics, tested.outputs.answers)]
    checkpoint = [encode(kept.progress), {name: tensor.tolist() for name, tensor in kept.tensors.items()}]
    entries = encode(read_ledger(comparison))
    if not any(entry["run"] == tested.path.name for entry in entries):
        raise UserError(f"{LEDGER}: a run that was not written down")  # as a report says it
    plan = [encode(read_plan(comparison)), encode(read_costs(comparison)), entries]
    with unpack(comparison / PACKED) as (_, packed):
        return [*plan, encode(run.config), weights, run.predict(TEXTS), of_test, checkpoint, packed]


def damaged(content, chance):
    """Flip a bit, or cut the end off."""
    place = chance.randrange(len(content))
    if chance.random() < 0.2:
        return content[:place]
    return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.reliability)])
def test_damage_is_named_or_harmless(whole, copy, count):
    before = all_that_is_read(whole)
    files = [file for file in copy.rglob("*") if file.is_file() and file.name not in REPORTS and file.stat().st_size]
    names = {"plan.json", "costs.json", "config.json", "model.safetensors", "run.json", "test.jsonl"}
    assert names < {file.name for file in files}
    chance, named = random.Random(0), 0
    for number in range(count):
        file = files[number % len(files)]
        content, case, said = file.read_bytes(), f"case {number}, {file.relative_to(copy)}", ""
        file.write_bytes(damaged(content, chance))
        try:
            assert all_that_is_read(copy) == before, f"{case}: silently wrong"
        except UserError as error:
            said = str(error)
        named += bool(said)
        assert not said or (file.name in said and "\n" not in said), f"{case}: is not named: {said}"
        file.write_bytes(content)
    print(f"{named} of {count} damages are named")
    assert named > 0.8 * count  # what is harmless lies between the values of a JSON file


# --- what somebody puts in the place of a file ------------------------------------------------------------------------


# What is put in the place of a file, or nothing.
KINDS = {
    "missing": lambda path, content: None,
    "a directory": lambda path, content: path.mkdir(),
    "a pipe": lambda path, content: os.mkfifo(path),
    "empty": lambda path, content: path.touch(),
    "cut": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "binary": lambda path, content: path.write_bytes(b"\xff\x00" * 50),
}
READ = ("config.json", "run.json", "model.safetensors", "tokenizer/char.json", "metrics.jsonl", CHECKPOINT)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", KINDS)
def test_another_thing_in_the_place_of_a_file_is_named(copy, name, kind):
    path = copy / RUN / name
    content = path.read_bytes()
    path.unlink()
    KINDS[kind](path, content)
    with pytest.raises(UserError) as caught:
        all_that_is_read(copy)
    # Without its file, nothing says what kind of tokenizer the folder held, or that there was a checkpoint.
    where = path.parent if kind == "missing" and name.startswith("tokenizer/") else path
    assert str(caught.value).startswith(str(where))
    assert kind != "a pipe" or f"{path}: is not a file; " in str(caught.value)
    assert "\n" not in str(caught.value)


def enlarge(size, path):
    with path.open("r+b") as file:
        file.truncate(size + 1)  # a hole, which takes no space on the disk


def forge(change, path):
    """Change a JSON file in place, and take away the checksums, as whoever forges it would."""
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    change(values)
    path.write_text(json.dumps(values))
    if path.name != "run.json" and (path.parent / "run.json").exists():
        accept_changes(path.parent)


def resize(setting, value, path):
    forge(lambda config: [config["model"][side].update({setting: value}) for side in ("encoder", "decoder")], path)


def point_to_a_pipe(path):
    os.mkfifo(path.parent / "pipe")
    file = str(path.parent / "pipe")
    data = {"kind": "file", "path": file, "sha256": "0", "split": "by source", "validation_items": 1}
    forge(lambda config: config.update(data=data, task_options={"data": [file]}), path)


def multiply(factor, path):
    save_file({name: tensor * factor for name, tensor in load_file(path).items()}, path)
    accept_changes(path.parent)


PREDICT, REPORT = "predict RUN", "report WHOLE --out OUT"
SEEDS = "plan.json: seeds: expected less than or equal to 10000, found 1000000000000; "
# A file, what is done to it, the command, and what it says.
FORGERIES = [
    *((f"{RUN}/{name}", os.mkfifo, PREDICT, f"{name}: is not a file; ") for name in (
        "step.onnx", "ctranslate2/model.bin"
    )),
    *(("plan.json", partial(forge, lambda plan, name=name: plan.update(models={name: plan["models"]["plain"]})),
       REPORT, "plan.json: content: name of a model: at most 100 letters")
      for name in ("../../../outside", "/tmp/outside", "a/b", "..", "", "x" * 300)),
    ("plan.json", partial(forge, lambda plan: plan.update(seeds=10**12)), REPORT, SEEDS),
    ("plan.json", partial(forge, lambda plan: plan["matching"]["counts"].update(plain=0)), REPORT,
     "plan.json: matching.counts.plain: expected greater than 0, found 0; "),
    ("costs.json", partial(forge, lambda costs: costs["models"]["plain"].update(step_seconds=0)), REPORT,
     "costs.json: models.plain.step_seconds: expected greater than 0, found 0; "),
    (f"{RUN}/config.json", partial(enlarge, 64 << 20), PREDICT, "config.json: is larger than 64 MiB; "),
    (f"{RUN}/metrics.jsonl", partial(enlarge, 1 << 30), REPORT, "metrics.jsonl: is larger than 1024 MiB; "),
    (f"{RUN}/config.json", point_to_a_pipe, "evaluate RUN", "pipe: is not a file; "),
    (f"{RUN}/model.safetensors", partial(multiply, math.nan), PREDICT, r"model.safetensors: .* are not finite; "),
    (f"{RUN}/model.safetensors", partial(multiply, 1e30), PREDICT, "model.safetensors: numbers of this model overflow"),
    *((f"{RUN}/config.json", partial(resize, name, value), PREDICT, reason) for name, value, reason in (
        ("hidden_dim", 10_000_000, "from 1 to 1,048,576, got 10000000"),
        ("num_layers", 10**9, "from 1 to 1,000, got 1000000000"),
        ("hidden_dim", 1_000_000, r"not the weights of the model in config.json \("),
        ("num_layers", 200, r"not the weights of the model in config.json \("),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "line", "reason"), FORGERIES)
def test_what_is_put_in_the_place_of_a_file_is_one_line(cli, copy, name, change, line, reason):
    (copy / name).parent.mkdir(exist_ok=True)
    change(copy / name)
    before = sorted(copy.parent.rglob("*"))
    said = cli(*words(line, RUN=copy / RUN, WHOLE=copy, OUT=copy.parent / "out"), stdin="1 May 2030\n").refusal()
    assert re.search(reason, said), said
    assert len(said) < 1000
    assert sorted(copy.parent.rglob("*")) == before


FILES = ("config.json", "run.json", "test.json", "tokenizer/char.json", "metrics.jsonl", "test.jsonl")
HOSTILE = ("[" * 100_000 + "]" * 100_000, '{"a":' * 400 + "1" + "}" * 400, "9" * 5000, "9" * 400, "1e999", "NaN")


@pytest.mark.parametrize("name", ["plan.json", *(f"{RUN}/{name}" for name in FILES)])
def test_hostile_json_is_one_line(cli, copy, name):
    """Each hostile value as the file and, by turns, in place of the file's values."""
    path, predict, report = copy / name, ("predict", copy / RUN), ("report", copy, "--out", copy.parent / "report")
    values = json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    texts = [*HOSTILE]
    for key, hostile in zip(values, itertools.cycle(HOSTILE)):
        rest = {other: value for other, value in values.items() if other not in (key, "checksum")}
        texts.append(json.dumps(rest)[:-1] + f', "{key}": {hostile}}}')
    for text in texts:
        path.write_text(text)
        done = cli(*(predict if "tokenizer" in name else report))
        if done.code == 0 and path.name in ("config.json", "run.json"):
            done = cli(*predict)
        assert done.code == 0 or len(done.refusal()) < 1000


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="rights of POSIX")
@pytest.mark.parametrize("line", [PREDICT, "evaluate RUN", REPORT, "attention RUN 1.May.2030", "demo RUN --out OUT"])
def test_what_may_not_be_read_is_named(cli, whole, monkeypatch, line):
    monkeypatch.chdir("/")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # for whoever is not the owner
        place, kept = Path(shutil.copytree(whole, Path(folder, "whole"))), os.geteuid()
        command = words(line, RUN=place / RUN, WHOLE=place, OUT=Path(folder, "out"))
        cli(*command, stdin="1 May 2030\n")  # imports what it needs while it may read that
        more = () if line == REPORT else ("model.safetensors", "tokenizer")  # a report reads neither
        for path in [place / RUN / name for name in ("", "config.json", "run.json", *more)]:
            path.chmod(0)
            try:
                if kept == 0:
                    os.seteuid(65534)  # root may read everything
                done = cli(*command, stdin="1 May 2030\n")
            finally:
                os.seteuid(kept)
                path.chmod(0o755)
            assert path.name in done.refusal(), path
            assert "permission denied" in done.err.lower()


def test_a_file_of_data_that_has_no_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    readers = file_sha256, lambda path: next(lines_of(path))
    for read, path in itertools.product(readers, (tmp_path / "pipe", Path("/dev/zero"))):
        with pytest.raises(UserError, match=f"{path}: is not a file; what comes out of a pipe"):
            read(path)


# --- killed, or out of space, between two writes ----------------------------------------------------------------------


def test_killed_between_record_and_file_the_file_before_is_taken(whole, copy):
    directory, weights = RunDirectory(copy / RUN), copy / RUN / "model.safetensors"
    before = weights.read_bytes()
    other = load(whole / RUN).model
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    directory.save_weights(other)
    assert weights.read_bytes() != before
    assert load(copy / RUN)
    weights.write_bytes(before)  # as if it had been killed before it moved the new one into place
    assert load(copy / RUN)


@pytest.mark.parametrize("kept", ["the plan", "the plan and the runs"])
def test_killed_before_the_ledger_was_written_it_is_written_later(cli, whole, copy, kept):
    ledger, plan = copy / LEDGER, read_plan(copy)
    plan = write_plan(copy, replace(plan, command=plan.command.replace(str(whole), str(copy))))
    lines = ledger.read_text().splitlines(keepends=True)
    assert len(lines) == 3  # the plan, the run, the measured times
    if kept == "the plan":  # which stands in the first line of the ledger, too
        ledger.unlink()
        shutil.rmtree(copy / "runs")
    else:
        ledger.write_text(lines[0])
    done = cli(*shlex.split(plan.command)[1:], "--resume")
    assert done.code == 0, done.err
    check = read_record(copy / "results.json").plan
    assert (check.departures, [entry.run for entry in read_ledger(copy)]) == ((), ["", "plain-seed0", ""])


def test_no_half_line_is_added_where_the_disk_is_full(tmp_path):
    import resource

    path, limits = tmp_path / "ledger.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    append_line(path, "a line\n")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(OSError, match=r"No space left on device.*ledger\.jsonl"):
            append_line(path, "another line\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "a line\n"


# --- links, and what a published run carries --------------------------------------------------------------------------


@pytest.fixture
def run(runs, tmp_path):
    """A copy of a run, to be changed, and a private file beside it."""
    (tmp_path / "private").write_text("my private key")
    return Path(shutil.copytree(runs["transformer"].path, tmp_path / "run"))


def test_nothing_is_written_through_a_link(cli, copy, tmp_path):
    own = tmp_path / "own"
    own.write_text("precious\n")
    (copy / "report").mkdir()
    for name in ("report.md", "results.json"):
        (copy / "report" / f".{name}.{os.getpid()}.tmp").symlink_to(own)
    assert cli("report", copy, "--out", copy / "report").code == 0
    for name in ("ledger.jsonl", ".lock"):
        (copy / name).unlink()
        (copy / name).symlink_to(own)
    assert "ledger.jsonl: cannot be written (is a link); " in cli("evaluate", copy / RUN).refusal()
    with pytest.raises(UserError, match=r"comparison: cannot be written \(is a link\)"), in_use(copy):
        pass
    assert own.read_text() == "precious\n"


def test_links_beside_the_files_of_a_run_stay_at_home(run, hub):
    for name in ("tokenizer/.hidden", "more.onnx", "more.onnx.data", "ctranslate2/more"):  # copied by pattern
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).symlink_to(run.parent / "private")
    (run / "linked").symlink_to(run.parent)
    load(run).push("me/run", test=False)
    assert not any(b"my private key" in content for content in hub.files("me/run").values())
    assert set(hub.files("me/run")) == {
        "README.md", "config.json", "metrics.jsonl", "model.safetensors", "run.json", "tokenizer/char.json"
    }  # fmt: skip
    RunDirectory(run).copy(run.parent, "tokenizer/*", "config.json")
    assert sorted(path.name for path in (run.parent / "tokenizer").iterdir()) == ["char.json"]
    cached = load("hf://me/run").path  # all of whose files are links
    assert (cached / "config.json").is_symlink()
    (run.parent / "copy").mkdir()
    RunDirectory(cached).copy(run.parent / "copy", "*")
    assert (run.parent / "copy/model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["tokenizer/char.json", "model.safetensors", "tokenizer"])
def test_a_link_in_place_of_a_file_is_not_copied(run, hub, name):
    loaded = load(run)
    (run / name).rename(run.parent / "elsewhere")
    (run / name).symlink_to(run.parent / "elsewhere")
    with pytest.raises(UserError, match=f"{name}: is a link, which is not copied; put the file itself there"):
        loaded.push("me/run", test=False)
    assert "me/run" not in hub.commits


def test_a_record_lists_nothing_outside_its_directory(run):
    record = RunDirectory(run).record()
    for number, name in enumerate(("../private", "/etc/hostname", "tokenizer/../../private")):
        write(run / "run.json", replace(record, files={**record.files, name: ("0",)}), checksum=True)
        with pytest.raises(UserError, match="which is not in this directory"):
            RunDirectory(run).copy(run.parent / str(number), "*")


def test_nothing_of_this_machine_is_published(run, hub, monkeypatch):
    monkeypatch.chdir(run.parent)
    monkeypatch.setattr(socket, "gethostname", lambda: "kitchen-pc")
    (run.parent / "my work" / "set").mkdir(parents=True)
    command = (
        f"selfattn --plugin '{run.parent}/my work/part.py' train dates --data '{run.parent}/my work/a.tsv' "
        f"b/c.tsv,../d.tsv --out='{run}' && "
        "selfattn train dates --init-from ~/my/other --hub 'my work/set' --valid file:///my/v.tsv --at kitchen-pc"
    )
    config = json.loads((run / "config.json").read_text())
    config["data"] |= {"path": "my/own/a.tsv", "hub": "my work/set", "note": f"{run.parent}/my work/x and ../y/z.tsv"}
    (run / "config.json").write_text(json.dumps(config))
    write(run / "run.json", replace(RunDirectory(run).record(), command=command), checksum=True)
    accept_changes(run)
    load(run).push("me/run", test=False)
    files = hub.files("me/run")
    for private in (b"kitchen-pc", b"my work", b"my/", b"/my", bytes(run.parent), b"../", b"b/c.tsv", b"~/"):
        assert [name for name, content in files.items() if private in content] == [], private
    assert json.loads(files["run.json"])["command"] == (
        "selfattn --plugin part.py train dates --data a.tsv c.tsv,d.tsv --out=run && "
        "selfattn train dates --init-from other --hub set --valid v.tsv --at localhost"
    )
    assert json.loads(files["config.json"])["data"]["path"] == "a.tsv"


def test_a_graph_holds_no_path_of_the_machine(exported_run):
    for graph in exported_run("transformer", "onnx").path.glob("*.onnx"):
        content = graph.read_bytes()
        assert b".py" not in content
        assert os.fsencode(Path(__file__).parents[2]) not in content
