"""The programs of docs/how-to/export.md and serve.md run, without torch and this package where they say so.

The slow tests run them in new environments, which hold what the pages say and no more.
"""

import json
import os
import socket
import subprocess
import sysconfig
import time
import urllib.request
import venv

import pytest
from documented import ALONE, HOW_TO, program, run_in

from selfattn.data.pairs import clean_text
from selfattn.decoding.options import DecodingOptions
from selfattn.runs.load import load
from selfattn.runs.train import train

CONSTRAINTS = HOW_TO.parents[1] / "constraints.txt"
TEXTS = {"characters": "november 13, 2008", "subwords": "Two men are outside."}


@pytest.fixture(scope="module")
def trained(runs, tmp_path_factory):
    """A model of characters, and one of subwords that has hardly learned anything: its outputs may never end."""
    folder = tmp_path_factory.mktemp("subwords")
    lines = [f"Two men are outside near house {k}.\tZwei Männer sind draußen bei Haus {k}.\n" for k in range(120)]
    (folder / "pairs.tsv").write_text("".join(lines), "utf-8")
    subwords = train(
        "translation", source="en", target="de", data=folder / "pairs.tsv", model="transformer", vocab_size=300,
        epochs=1, held_out=10, out=folder / "run", set=("encoder.dim=16", "decoder.dim=16"),
    )  # fmt: skip
    return {"characters": runs["transformer"], "subwords": subwords}


@pytest.mark.parametrize(
    ("engine", "tokenizer"),
    [
        ("ctranslate2", "characters"),
        ("ctranslate2", "subwords"),
        pytest.param("onnx", "characters", marks=pytest.mark.slow),  # quick in test_onnx.py, which has exported it
        pytest.param("onnx", "subwords", marks=pytest.mark.slow),
    ],
)
def test_an_export_answers_by_itself(engine, tokenizer, trained, tmp_path):
    expected, code = export_and_decode(engine, tokenizer, trained, tmp_path)
    assert "\n".join(run_in(tmp_path, ALONE + code)) == expected


def export_and_decode(engine, tokenizer, trained, folder):
    """Export a run as the page does; return its output and the program of the page that should give it."""
    pytest.importorskip("onnxscript" if engine == "onnx" else "ctranslate2", reason=f"needs the extra [{engine}]")
    exported = load(trained[tokenizer].export(engine, folder / "runs" / f"transformer-{engine}"))
    options = DecodingOptions(beam=1 if engine == "onnx" else 5)
    return exported.decode([TEXTS[tokenizer]], options)[0][0].text, program("export.md", engine, "clean", tokenizer)


def test_the_documented_cleaning_is_that_of_the_library():
    names = {}
    exec(program("export.md", "clean"), names)
    texts = [f"{chr(code)}a {chr(code)}" for code in range(0x3100)] + ["\ufeffe\x00\u0301 "]
    assert [names["clean"](text) for text in texts] == [clean_text(text) for text in texts]


def test_the_latency_program_runs(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "transformer").symlink_to(runs["transformer"].path)
    monkeypatch.chdir(tmp_path)
    exec(program("serve.md", "latency").replace("range(50)", "range(1)"), {})
    assert [line.split(" at once")[0] for line in capsys.readouterr().out.splitlines()] == ["1", "64"]


def make_environment(folder, *packages):
    """Make a virtual environment with these packages alone, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    command = [python, "-m", "pip", "install", "-q", "-c", CONSTRAINTS, *packages]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    if done.returncode:
        pytest.skip(f"pip cannot install {' '.join(packages)} here: {done.stderr.splitlines()[-1]}")
    return python


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An environment with the server's packages beside those of the tests."""
    python = make_environment(tmp_path_factory.mktemp("server") / "venv", "fastapi", "uvicorn")
    (own,) = python.parents[1].glob("lib/python*/site-packages") if os.name != "nt" else [python.parents[1] / "Lib"]
    (own / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    return python


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", TEXTS)
def test_the_server_answers(tokenizer, trained, server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "serve.py").write_text(program("serve.md", "serve"), "utf-8")
    package = str(HOW_TO.parents[1])
    environment = os.environ | {"RUN": str(trained[tokenizer].path), "PYTHONPATH": package}
    texts = [TEXTS[tokenizer], "two"]
    command = [server, "-m", "uvicorn", "serve:app", "--port", str(port), "--log-level", "warning"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        try:
            address, body = f"http://127.0.0.1:{port}/predict", json.dumps({"texts": texts}).encode()
            question = urllib.request.Request(address, body, {"content-type": "application/json"})
            for _ in range(240):
                try:
                    answer = json.load(urllib.request.urlopen(question, timeout=30))
                    break
                except OSError:
                    assert process.poll() is None, "the server ended"
                    time.sleep(0.25)
            else:
                pytest.fail("the server does not answer within a minute")
        finally:
            process.terminate()
    assert answer == {"outputs": trained[tokenizer].predict(texts)}
