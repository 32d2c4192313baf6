"""A run may be named as `.` or `..`: every command then does what it does for its path, and writes nothing into it."""

import shutil
from pathlib import Path

import pytest
from small_runs import contents

from selfattn.runs.train import train

COMMANDS = (
    "predict RUN", "predict RUN --engine ctranslate2", "evaluate RUN --data PAIRS",
    "evaluate RUN --against RUN --data PAIRS", "score RUN --data PAIRS", "align RUN --data PAIRS",
    "attention RUN 1/2/03", "heads RUN --data PAIRS --save NEW/heads.svg", "demo RUN --out NEW/demo.html",
    "average RUN", "average RUN --out NEW/average", "export RUN --to ctranslate2", "tokenizer inspect RUN --text 1/2",
    "train dates --init-from RUN --max-steps 1 --items-per-epoch 64 --validation-items 4 --out NEW/run",
    "train dates --config RUN --max-steps 1 --out NEW/run", "verify RUN", "report RUN --out NEW/report",
)  # fmt: skip
REFUSED = "verify", "report"  # which are for comparisons


@pytest.fixture(scope="module")
def kept(runs, tmp_path_factory):
    """A run with weights of its validations."""
    out = tmp_path_factory.mktemp("kept") / "run"
    sizes = ("encoder.dim=8", "decoder.dim=8", "encoder.num_layers=1", "decoder.num_layers=1")
    steps = {"max_steps": 2, "items_per_epoch": 64, "validate_every": 1, "keep": 2, "validation_items": 4}
    train("dates", model="transformer", out=out, set=sizes, **steps)
    return out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_run_by_its_place(cli, kept, tmp_path, monkeypatch, command):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("1/2/03\t2003-01-02\n")
    ends = []
    for given in ("PATH", ".", ".."):
        place = tmp_path / str(len(ends))
        run = Path(shutil.copytree(kept, place / "run"))
        (place / "new").mkdir()
        before = contents(run).keys() - {".lock"}
        monkeypatch.chdir(run / "tokenizer" if given == ".." else run)
        words = command.replace("RUN", str(run) if given == "PATH" else given).replace("PAIRS", str(pairs))
        done = cli(*words.replace("NEW", str(place / "new")).split(), stdin="1/2/03\n")
        assert done.code == (2 if command.startswith(REFUSED) else 0), done.err
        assert contents(run).keys() - {".lock"} == before
        ends.append((done.code, {name for name in contents(place) if not name.endswith(".lock")}))
    assert ends[0] == ends[1] == ends[2]
