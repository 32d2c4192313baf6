"""Weights in bfloat16: nearly the same scores, and one line where the processor does not compute in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import Cli

from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.runs.evaluate import score_lines
from selfattn.runs.run import Run, load

TEXTS = ["november 13, 2008", "", "1 May 1999", "Tuesday, 5 March 1985"]
PAIRS = [Pair("november 13, 2008", "2008-11-13"), Pair("1 May 1999", "1999-05-01")]


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch computes in bfloat16 on every processor, if need be slowly."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("model", ["transformer", "rnn-plain", "rnn-attention"])
def test_scores_and_outputs_are_nearly_those_of_float32(runs: dict[str, Run], model: str) -> None:
    if model != "transformer" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("an LSTM in bfloat16 rounds each batch differently on this processor")
    run = load(runs[model].path, precision="bfloat16")
    assert {weight.dtype for weight in run.model.parameters()} == {torch.bfloat16}
    assert all(table.dtype != torch.bfloat16 for table in run.model.buffers())  # positions keep their digits
    for exact, rounded in zip(runs[model].score(PAIRS), run.score(PAIRS), strict=True):
        assert rounded.log_probability != exact.log_probability
        assert rounded.per_token == pytest.approx(exact.per_token, abs=0.05)
    for options in (DecodingOptions(), DecodingOptions(beam=3)):
        for text, [output] in zip(TEXTS, run.decode(TEXTS, options), strict=True):
            [[alone]] = run.decode([text], options)
            assert alone.text == output.text
            assert alone.log_probability == pytest.approx(output.log_probability, abs=0.2 * len(output.text) / 8)


@pytest.mark.usefixtures("emulated")
def test_the_commands_take_it(runs: dict[str, Run], cli: Cli, tmp_path: Path) -> None:
    path, pairs = runs["transformer"].path, tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS))
    run = load(path, precision="bfloat16")
    done = cli("predict", path, "--precision", "bfloat16", stdin="1 May 1999\n")
    assert (done.code, done.out) == (0, run.predict(["1 May 1999"])[0] + "\n")
    done = cli("score", path, "--data", pairs, "--precision", "bfloat16")
    assert (done.code, done.out.splitlines()) == (0, list(score_lines(run.score(PAIRS))))
    assert cli("evaluate", path, "--data", pairs, "--precision", "bfloat16").code == 0
    assert cli("predict", path, "--precision", "float8", stdin="x\n").code == 2


def test_a_processor_without_bfloat16_is_named(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False, "avx2": True}, raising=False)
    with pytest.raises(UserError, match="does not compute in bfloat16"):
        load(runs["transformer"].path, precision="bfloat16")
