"""A run is looked into and changed inside; the command that leaves heads out."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from selfattn import ablate, patch
from selfattn.cli.main import main
from selfattn.comparison.testing import RunTest
from selfattn.errors import SettingError, UserError
from selfattn.evaluation import gates
from selfattn.evaluation.metrics import CharacterErrorRate, ExactMatch
from selfattn.results.record import HeadScore, HeadScores
from selfattn.runs.heads import heads_svg, score_heads

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "inside.md"
TEXT = "13 May 2008"


@pytest.fixture(autouse=True)
def _few_test_items(monkeypatch):
    monkeypatch.setattr("selfattn.tasks.dates.Dates.test_items", lambda self, quick: 20)


def test_the_programs_of_the_how_to_run(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "dates").symlink_to(runs["transformer"].path.resolve())
    monkeypatch.chdir(tmp_path)
    names = {}
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) == 5
    for program in programs:
        exec(program, names)
    assert capsys.readouterr().out.count("\n") == 11


def test_a_trace_is_of_the_own_output_or_of_another(runs):
    run = runs["rnn-attention"]
    trace = run.trace(TEXT)
    view = run.attention(TEXT, dependence=False)
    assert trace.source_tokens == view.source_tokens
    assert trace.target_tokens == view.target_tokens
    torch.testing.assert_close(trace["decoder.cross_attn.weights"], view.weights[0])
    other = run.trace(TEXT, "2008")
    assert len(other.steps) == 5
    assert other["state.recurrent.0.0"].shape == (5, trace["state.recurrent.0.0"].shape[1])


def test_a_changed_run_leaves_the_run_as_it_was(runs):
    run = runs["transformer"]
    before = run.decode([TEXT], beam=2)
    layer = "decoder.layers.0.cross_attn"
    changed = run.intervene(ablate(layer))
    again = changed.intervene(patch(layer, run.trace(TEXT)))  # behind the ablation: the output is as it was
    assert changed.decode([TEXT], beam=2) != before
    assert again.predict([TEXT]) == run.predict([TEXT])
    assert run.decode([TEXT], beam=2) == before


def test_scores_without_heads(runs, capsys, tmp_path):
    run = runs["transformer"]
    pairs = run.task.held_out().pairs[:3]
    scores = score_heads(run, pairs, CharacterErrorRate(), to="mean")
    assert scores.items == 3
    heads = [(head.layer, head.head) for head in scores.heads]
    assert len(heads) == len(set(heads)) == 12
    command = ["heads", str(run.path), "--items", "3"]
    main([*command, "--metric", "character_error_rate", "--json"])
    found = json.loads(capsys.readouterr().out)
    silent = found["heads"][5]
    outputs = run.intervene(ablate(silent["layer"], [silent["head"]])).predict([pair.source for pair in pairs])
    assert silent["score"] == pytest.approx(CharacterErrorRate().of(outputs, pairs))
    assert silent["difference"] == pytest.approx(silent["score"] - found["score"]) != 0
    main([*command, "--to", "uniform", "--save", str(tmp_path / "heads.svg")])
    assert len(capsys.readouterr().out.splitlines()) == 4 + 12
    assert (tmp_path / "heads.svg").read_text().startswith("<svg")


def test_a_comparison_scores_heads_where_there_are_any(runs):
    run = runs["transformer"]
    pairs = run.task.held_out().pairs[:2]
    tests = gates.TestSet(pairs, pairs, lambda: [])
    assert RunTest(run, run.task, tests).head_scores() == score_heads(run, pairs, ExactMatch())
    assert RunTest(runs["rnn-plain"], run.task, tests).head_scores() is None


def test_the_picture_is_dark_where_the_score_is_lost():
    heads = tuple(HeadScore(*head, 0.5) for head in (("a", 0, 0.5, -0.25), ("b", 0, 0.5, 0.0), ("b", 1, 0.5, -0.5)))
    picture = heads_svg(HeadScores("exact_match", "share", "", 3, 0.5, "zero", heads))
    assert "a ← 0: 0.5000" in picture
    assert "b ← 1: 1.0000" in picture
    assert "b ← 0" not in picture


def test_what_cannot_be_looked_into_is_refused(runs):
    run = runs["rnn-plain"]
    pairs = run.task.held_out().pairs[:5]
    for call, message in (
        (lambda: run.trace(""), "trace: the text is empty"),
        (lambda: run.trace(3), "trace"),
        (lambda: run.intervene(ablate("decoder.cross_attn")), "there is no 'decoder.cross_attn.heads'; there is"),
        (lambda: score_heads(run, pairs, ExactMatch(), to="one"), "expected zero, mean or uniform, got 'one'"),
    ):
        with pytest.raises((UserError, SettingError), match=message):
            call()


def test_threads_share_a_changed_run(runs):
    run = runs["transformer"]
    changed = run.intervene(patch("decoder.layers.0.cross_attn", run.trace("1 June 1963"), steps=[2, 3]))
    texts = [TEXT, "25 December 1999"] * 3
    alone = [changed.predict([text]) for text in texts]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda text: changed.predict([text]), texts)) == alone


@pytest.mark.parametrize("to", ["onnx", "ctranslate2"])
def test_what_is_changed_here_is_neither_exported_nor_published(runs, to, tmp_path):
    run = runs["transformer"]
    changed = run.intervene(ablate("decoder.layers.0.cross_attn"))
    for call in (lambda: changed.export(to, tmp_path / "out"), lambda: changed.push("user/name")):
        with pytest.raises(UserError, match="interventions are computed in this process alone"):
            call()
    with pytest.raises(SettingError, match="expected one of onnx, ctranslate2, got 'ONNX'"):
        run.export("ONNX", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_exported_run_computes_elsewhere(exported_run):
    exported = exported_run("transformer", "onnx")
    with pytest.raises(UserError, match="cannot be looked into; take the run that it was made from"):
        exported.trace(TEXT)
