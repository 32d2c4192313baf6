"""The programs of docs/how-to/export.md and serve.md run, without torch and this package where they say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from documented import ALONE, program, run_in

from selfattn.decoding.options import DecodingOptions
from selfattn.runs.run import Run, load
from selfattn.runs.train import train

WORDS = ("two", "men", "dogs", "are", "outside", "near", "a", "red", "house", "running")


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


def test_the_latency_program_runs(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "transformer").symlink_to(runs["transformer"].path)
    monkeypatch.chdir(tmp_path)
    exec(program("serve.md", "latency").replace("range(50)", "range(1)"), {})
    assert [line.split(" at once")[0] for line in capsys.readouterr().out.splitlines()] == ["1", "64"]
