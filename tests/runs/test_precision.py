"""Weights in fewer bits: nearly the same scores, the same laws, and one line where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import Cli
from torch import nn

from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions, WeightPrecision
from selfattn.errors import UserError
from selfattn.runs import precision as room
from selfattn.runs.evaluate import score_lines
from selfattn.runs.precision import QuantizedLinear, reduce_precision
from selfattn.runs.run import Run, load

TEXTS = ["november 13, 2008", "", "1 May 1999", "Tuesday, 5 March 1985"]
PAIRS = [Pair("november 13, 2008", "2008-11-13"), Pair("1 May 1999", "1999-05-01")]


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models have no layer that is worth it."""
    monkeypatch.setattr(room, "LARGE", 1)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch computes in bfloat16 on every processor, if need be slowly."""
    monkeypatch.setattr(room, "_has_bfloat16", lambda device: True)


@pytest.mark.usefixtures("all_are_large", "emulated")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("model", ["transformer", "rnn-plain", "rnn-attention"])
def test_scores_and_outputs_are_nearly_those_of_float32(
    runs: dict[str, Run], model: str, precision: WeightPrecision
) -> None:
    if precision == "bfloat16" and model != "transformer" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("an LSTM in bfloat16 rounds each batch differently on this processor")
    run = load(runs[model].path, precision=precision)
    for exact, rounded in zip(runs[model].score(PAIRS), run.score(PAIRS), strict=True):
        assert rounded.log_probability != exact.log_probability
        assert rounded.per_token == pytest.approx(exact.per_token, abs=0.05)
    for options in (DecodingOptions(), DecodingOptions(beam=3)):
        together = run.decode(TEXTS, options)
        for text, [output] in zip(TEXTS, together, strict=True):
            [[alone]] = run.decode([text], options)
            assert alone.text == output.text
            assert alone.log_probability == pytest.approx(output.log_probability, abs=0.2 * len(output.text) / 8)


def test_bytes_hold_each_row_to_half_a_step_of_each_number() -> None:
    linear, x = nn.Linear(40, 7).requires_grad_(False), torch.randn(5, 11, 40) * torch.logspace(-3, 3, 5)[:, None, None]
    quantized = QuantizedLinear(linear)
    steps = x.abs().amax(-1, keepdim=True) / 127, linear.weight.abs().amax(-1) / 127
    bound = steps[0] / 2 * linear.weight.abs().sum(-1) + (x.abs().sum(-1, keepdim=True) + 20 * steps[0]) * steps[1] / 2
    assert ((quantized(x) - linear(x)).abs() <= 1.001 * bound).all()
    assert torch.equal(quantized(torch.zeros(1, 40)), linear.bias[None])
    for row in range(5):  # whatever stands beside it, bit for bit
        assert torch.equal(quantized(x)[row], quantized(x[row]))


@pytest.mark.usefixtures("all_are_large")
def test_only_linear_layers_become_bytes(runs: dict[str, Run]) -> None:
    run = load(runs["transformer"].path)
    reduce_precision(run.model, "float32")
    assert not any(isinstance(module, QuantizedLinear) for module in run.model.modules())
    linear = sum(type(module) is nn.Linear for module in run.model.modules())
    reduce_precision(run.model, "int8")
    assert sum(isinstance(module, QuantizedLinear) for module in run.model.modules()) == linear > 0
    assert not any(type(module) is nn.Linear for module in run.model.modules())


@pytest.mark.usefixtures("emulated")
def test_positions_keep_their_digits_in_bfloat16(runs: dict[str, Run]) -> None:
    model = load(runs["transformer"].path, precision="bfloat16").model
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert all(table.dtype != torch.bfloat16 for table in model.buffers())


def test_what_cannot_be_is_said(runs: dict[str, Run], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = runs["transformer"].path
    done = cli("predict", path, "--precision", "int8", stdin="1 May 1999\n")
    assert done.code == 2
    assert done.out == ""
    assert "no linear layer of this model has 131,072 weights" in done.err
    assert done.err.count("\n") == 1
    if hasattr(torch.cpu, "get_capabilities"):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False, "avx2": True})
        with pytest.raises(UserError, match="does not compute in bfloat16"):
            load(path, precision="bfloat16")


@pytest.mark.usefixtures("emulated")
def test_the_commands_take_it(runs: dict[str, Run], cli: Cli, tmp_path: Path) -> None:
    path, pairs = runs["rnn-attention"].path, tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS))
    run = load(path, precision="bfloat16")
    done = cli("predict", path, "--precision", "bfloat16", stdin="1 May 1999\n")
    assert (done.code, done.out) == (0, run.predict(["1 May 1999"])[0] + "\n")
    done = cli("score", path, "--data", pairs, "--precision", "bfloat16")
    assert (done.code, done.out.splitlines()) == (0, list(score_lines(run.score(PAIRS))))
    assert cli("evaluate", path, "--data", pairs, "--precision", "bfloat16").code == 0
    assert cli("predict", path, "--precision", "float8", stdin="x\n").code == 2
