"""The programs of docs/how-to/export.md and serve.md run, without torch and this package where they say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from selfattn.decoding.options import DecodingOptions
from selfattn.runs.run import Run, load
from selfattn.runs.train import train

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
PROGRAM = re.compile(
    r"^<!-- run by tests/exports/test_documented_programs\.py: (\w+) -->\n```python\n(.*?)^```", re.M | re.S
)
ALONE = "import sys; sys.modules['torch'] = sys.modules['selfattn'] = None\n"
WORDS = ("two", "men", "dogs", "are", "outside", "near", "a", "red", "house", "running")


def program(page: str, *names: str) -> str:
    """The named programs of a page, one after the other."""
    programs = dict(PROGRAM.findall((HOW_TO / page).read_text("utf-8")))
    return "".join(programs[name] for name in names)


def run_in(folder: Path, code: str, **environment: str) -> list[str]:
    """What a program prints, by line, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A translator of subwords that has hardly learned anything: its outputs may never end."""
    folder = tmp_path_factory.mktemp("subwords")
    lines = [" ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(1, 6)) for i in range(120)]
    (folder / "pairs.tsv").write_text(
        "".join(f"{line} {i}\t{line[::-1]} {i}\n" for i, line in enumerate(lines)), "utf-8"
    )
    return train(
        "translation", source="en", target="de", data=folder / "pairs.tsv", model="transformer", vocab_size=300,
        epochs=1, held_out=10, out=folder / "run", set=("encoder.dim=16", "decoder.dim=16"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "tokenizer"),
    [
        ("ctranslate2", "characters"),
        ("ctranslate2", "subwords"),
        ("onnx", "characters"),
        pytest.param("onnx", "subwords", marks=pytest.mark.slow),
    ],
)
def test_an_exported_run_answers_without_this_package(
    engine: str, tokenizer: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime" if engine == "onnx" else "ctranslate2", reason=f"needs the extra [{engine}]")
    run = (
        request.getfixturevalue("runs")["transformer"]
        if tokenizer == "characters"
        else request.getfixturevalue(tokenizer)
    )
    exported = load(run.export(engine, tmp_path / "runs" / f"transformer-{engine}"))
    text = "november 13, 2008" if tokenizer == "characters" else "Two men are outside."
    options = DecodingOptions(beam=1 if engine == "onnx" else 5)
    expected = exported.decode([text], options)[0][0].text
    assert "\n".join(run_in(tmp_path, ALONE + program("export.md", engine, tokenizer))) == expected


def test_the_latency_program_runs(runs: dict[str, Run], tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "transformer").symlink_to(runs["transformer"].path)
    lines = run_in(tmp_path, program("serve.md", "latency").replace("range(50)", "range(2)"))
    assert [line.split(" at once")[0] for line in lines] == ["1", "64"]


def test_the_server_answers(runs: dict[str, Run], tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    ask = "\nfrom fastapi.testclient import TestClient\nclient = TestClient(app)\n"
    ask += "print(client.post('/predict', json={'texts': ['november 13, 2008']}).json()['outputs'])\n"
    ask += "print(client.post('/predict', json={'texts': ['x' * 1001]}).status_code)\n"
    code = program("serve.md", "serve") + ask
    expected = [str(runs["transformer"].predict(["november 13, 2008"])), "422"]
    assert (
        run_in(tmp_path, "import warnings; warnings.simplefilter('ignore')\n" + code, RUN=str(runs["transformer"].path))
        == expected
    )
