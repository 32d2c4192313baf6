"""What selfattn did not write is neither written over, appended to nor deleted, whatever it is called."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
import training_parts as parts
from small_runs import contents, words

from selfattn.errors import UserError
from selfattn.files import ASIDE, LOCK, in_use, open_to_append
from selfattn.ownership import check_ours, new_directory, remove_remains
from selfattn.training.config import TrainingConfig

RUN = "runs/plain-seed0"
BRIEF = TrainingConfig(epochs=1, batch_size=8, lr=0.01)


def put(folder, text, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def mine(tmp_path):
    """A directory of somebody who uses our names."""
    names = ("config.json", "tokenizer/letter.txt", ".draft.7.tmp", "deep/.notes.1.tmp", "ledger.jsonl")
    return put(tmp_path / "mine", "mine\n", *names)


TO_OUT = (
    "train dates --quick --out OUT", "train dates --quick --resume --out OUT",
    "compare dates --quick --out OUT", "compare dates --quick --resume --out OUT",
    "claims run order --quick --out OUT", "claims run order --quick --resume --out OUT",
    "export RUN --to onnx --out OUT", "tokenizer train PAIRS --kind characters --out OUT",
)  # fmt: skip


@pytest.mark.parametrize("line", TO_OUT)
@pytest.mark.parametrize("more", ["", "plan.json", "run.json", ".lock"])
def test_a_directory_of_others_stays(cli, whole, mine, tmp_path, line, more):
    put(mine, '{"mine": 1}\n', *([more] if more else []))
    put(tmp_path, "a\tb\n", "pairs.tsv")
    before = contents(tmp_path)
    assert str(mine) in cli(*words(line, RUN=whole / RUN, OUT=mine, PAIRS=tmp_path / "pairs.tsv")).refusal()
    assert contents(tmp_path) == before


REPORT = ("results.json", "report.md", "report.html", "demo.html", "packed.tar.xz")
PAGES = {
    "report COPY --out OUT": REPORT,
    "demo RUN --out OUT/demo.html": ("demo.html",),
    **{f"attention RUN 1.May --save OUT/a.{form}": (f"a.{form}",) for form in ("svg", "png", "json", "html")},
    "report COPY --out OUT/report --figures OUT --tables OUT": ("*.svg", "*.png", "*.pdf", "*.csv"),
}


@pytest.mark.parametrize("line", PAGES)
def test_pages_are_overwritten_if_ours(cli, runs, copy, tmp_path, line):
    out = tmp_path / "out"
    out.mkdir()
    command, with_figures = words(line, COPY=copy, RUN=runs["rnn-attention"].path, OUT=out), "--figures" in line
    for lang in ("en", "ko"):
        assert cli(*command, *(() if line.startswith("attention") else ("--lang", lang))).code == 0
    written = {file for name in PAGES[line] for file in out.glob(name)}
    assert len(written) >= len(PAGES[line]) - 2 * with_figures  # PNG and PDF need CairoSVG
    for path in {min(out.glob("*.svg")), min(out.glob("*.csv"))} if with_figures else written:
        kept = path.read_bytes()
        path.write_text("mine\n")
        before = contents(out)
        refusal = cli(*command).err
        assert f"{path}: selfattn did not write this file; remove it, or choose another place" in refusal
        assert with_figures or contents(out) == before
        assert path.read_text() == "mine\n"
        path.write_bytes(kept)


def test_nothing_but_a_file_is_written_over_or_appended_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path, "mine", "own")
    (tmp_path / "link").symlink_to("own")
    (tmp_path / "empty").touch()
    check_ours(tmp_path / "empty")
    check_ours(tmp_path / "new")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(UserError, match="choose another place"):
            check_ours(path)
    for path in (tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(OSError, match=r"is not a file|is a link|No such device"):
            open_to_append(path)
    assert (tmp_path / "own").read_text() == "mine"


def test_no_page_replaces_a_record_and_no_report_another_comparison(cli, runs, whole, copy, tmp_path):
    run = shutil.copytree(runs["rnn-attention"].path, tmp_path / "run")
    before = contents(tmp_path)
    for name in ("run.json", "config.json", "tokenizer/char.json"):
        assert f"run/{name}" in before
        for line in ("attention RUN 1.May --save FILE", "demo RUN --out FILE"):
            refusal = cli(*words(line, RUN=run, FILE=run / name)).refusal()
            assert f"{run / name}: belongs to a run or an experiment; choose another place" in refusal
    refusal = cli("report", whole, "--out", copy).refusal()
    assert f"{copy}: holds another comparison; choose another --out for the report of {whole}" in refusal
    assert contents(tmp_path) == before
    assert cli("report", copy, "--out", copy).code == 0


def test_a_ledger_of_somebody_else_gets_no_line(cli, runs, copy, tmp_path):
    project = tmp_path / "project"
    run = Path(shutil.copytree(runs["rnn-plain"].path, project / "runs" / "a"))
    for content in ("my accounts\n", '{"income": 3}\n'):
        put(project, content, "ledger.jsonl")
        assert cli("evaluate", run).code == 0
        assert (project / "ledger.jsonl").read_text() == content
    assert sorted(path.name for path in project.iterdir()) == ["ledger.jsonl", "runs"]
    ledger = copy / "ledger.jsonl"
    lines = ledger.read_text().count("\n")
    assert cli("evaluate", copy / RUN).code == 0
    assert ledger.read_text().count("\n") == lines + 1
    ledger.write_text("my accounts\n")
    assert "ledger.jsonl: is not the ledger of this experiment" in cli("evaluate", copy / RUN).refusal()
    assert ledger.read_text() == "my accounts\n"


@pytest.mark.parametrize("was_there", [True, False])
def test_a_refused_training_leaves_all_as_it_was(tmp_path, monkeypatch, was_there):
    monkeypatch.setattr("selfattn.runs.fit.train_model", Mock(side_effect=UserError("no")))
    out = tmp_path / "some" / "run"
    if was_there:
        out.mkdir(parents=True)
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"^no$"):
        parts.fit_small(out, BRIEF)
    assert contents(tmp_path) == before


def test_a_run_is_overwritten_by_no_rank_and_loses_half_files(tmp_path, monkeypatch):
    run = tmp_path / "run"
    parts.fit_small(run, BRIEF)
    own = (".draft.tmp", ".draft.7.tmp", "tokenizer/.x.y.1.tmp", f".folder{ASIDE}/letter")
    before = contents(put(run, "mine", *own))
    (run / f".model.safetensors.7{ASIDE}").touch()
    with in_use(run):
        pass
    assert contents(run) == before
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UserError, match="already holds a run, which is never overwritten"):
        parts.fit_small(run, BRIEF)
    assert contents(run) == before


def test_a_new_directory_is_complete_or_not_there(tmp_path):
    def write(fails):
        with new_directory(tmp_path / "a" / "out") as folder:
            (folder / "file").write_text("x")
            if fails:
                raise UserError("no")

    with pytest.raises(UserError, match=r"^no$"):
        write(True)
    assert contents(tmp_path) == {"a": None}
    with new_directory(tmp_path / "a" / "out") as folder:  # what killed processes leave, and something of a user
        for remains in ("x", "w"):
            shutil.copytree(folder.parent, tmp_path / "a" / f".out.{remains}{ASIDE}")
    (tmp_path / "a" / f".out.w{ASIDE}" / LOCK).unlink()  # the second while it removed this itself
    shutil.rmtree(tmp_path / "a" / "out")
    (tmp_path / "a" / f".out.y{ASIDE}").mkdir()
    own = f"a/.out.z{ASIDE}"
    put(tmp_path, "mine", f"{own}/letter")
    remove_remains(tmp_path / "a" / "out")
    write(False)
    assert contents(tmp_path) == {"a": None, own: None, f"{own}/letter": b"mine", "a/out": None, "a/out/file": b"x"}


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of huggingface_hub itself
def test_push_writes_over_no_repository_of_somebody_else(runs, hub):
    run = runs["rnn-plain"]
    for files in ({"README.md": b"my work"}, {"config.json": b"{}", "run.json": b'{"mine": 1}'}):
        hub.commits["me/mine"], hub.branches["me/mine"] = {"0" * 40: files}, {"main": "0" * 40}
        with pytest.raises(UserError, match=r"hf://me/mine: has a file .* that selfattn did not publish"):
            run.push("me/mine", test=False)
        assert hub.files("me/mine") == files
    hub.commits["me/mine"]["0" * 40] = {".gitattributes": b"*.bin", "notes.txt": b"mine"}
    for _ in range(2):  # a second time over our own
        run.push("me/mine", test=False)
    assert {"notes.txt", ".gitattributes", "run.json"} <= set(hub.files("me/mine"))
