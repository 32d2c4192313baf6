"""What predict adds to outputs: prefixes, n-grams that may not repeat, scores of tokens and alignments."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions, Output
from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load
from selfattn.runs.predictor import output_tokens
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

LANGUAGE_MODEL = Path(__file__).parents[1] / "fixtures/formats/run-lm"
TEXTS = ["May 1, 2001", "", "11/13/08"]
STDIN = "\n".join(TEXTS) + "\n"


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_begin_with_a_prefix(cli, runs, tmp_path, beam):
    run = runs["rnn-attention"]
    lines = cli("predict", run.path, "--prefix", "19", "--beam", beam, stdin=STDIN).out.splitlines()
    assert [line[:2] for line in lines] == ["19", "", "19"]
    assert lines == run.predict(TEXTS, prefix="19", beam=beam)
    file = tmp_path / "prefixes.txt"
    file.write_text("19\n\n2008-1\n")
    lines = cli("predict", run.path, "--prefixes", file, "--beam", beam, stdin=STDIN).out.splitlines()
    assert lines == run.predict(TEXTS, prefix=["19", None, "2008-1"], beam=beam)
    assert lines[2].startswith("2008-1")
    assert run.predict(TEXTS, prefix="") == run.predict(TEXTS)


def test_prefixes_that_do_not_fit_are_refused(runs):
    run = runs["transformer"]
    with pytest.raises(SettingError, match="expected a prefix for each of 3 texts, got 2"):
        run.predict(TEXTS, prefix=["1", "2"])
    with pytest.raises(SettingError, match="prefix 1: expected a text or None, got 1"):
        run.predict(TEXTS, prefix=[1, 2, 3])


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_engines_begin_with_a_prefix_too(runs, exported_run, engine, beam):
    run, exported = runs["transformer"], exported_run("transformer", engine)
    prefix = ["1", "", "2008-1"]
    options = DecodingOptions(beam=beam, max_length=12)
    if engine == "ctranslate2" and beam > 1:
        with pytest.raises(UserError, match="`prefix` with a beam: CTranslate2 computes it in another way"):
            exported.decode(TEXTS, options, prefix=prefix)
        return
    ended = [output.text if output.finished else output.text[:5] for (output, *_) in run.decode(TEXTS, options)]
    for beginnings in (prefix, ended):
        outputs = exported.decode(TEXTS, options, prefix=beginnings)
        for found, expected in zip(outputs, run.decode(TEXTS, options, prefix=beginnings), strict=True):
            assert (found[0].text, found[0].finished) == (expected[0].text, expected[0].finished)
            assert found[0].score == pytest.approx(expected[0].score, abs=1e-4)
    if engine == "onnx":
        assert exported.predict(TEXTS, no_repeat_ngram=1) == run.predict(TEXTS, no_repeat_ngram=1)
    else:
        with pytest.raises(UserError, match="`no_repeat_ngram`: CTranslate2 computes it in another way"):
            exported.predict(TEXTS, no_repeat_ngram=1)


def test_no_ngram_of_an_output_comes_twice(cli, runs):
    run = runs["transformer"]
    (line,) = cli("predict", run.path, "--no-repeat-ngram", 1, stdin="11/13/08\n").out.splitlines()
    assert len(set(line)) == len(line)
    (text,) = load(LANGUAGE_MODEL).predict(["line 1"], no_repeat_ngram=1)  # nor one of the beginning
    assert len(set(text)) == len(text)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("model", ["rnn-attention", "transformer"])
@pytest.mark.parametrize("beam", [1, 3])
def test_scores_and_links_are_those_of_score_and_align(cli, runs, model, beam):
    run = runs[model]
    flags = ("--align", "--token-scores", "--beam", beam)
    rows = json_lines(cli("predict", run.path, *flags, stdin=STDIN).out)
    texts = run.predict(TEXTS, beam=beam)
    assert [row["output"] for row in rows] == texts
    assert [row["line"] for row in rows] == [1, 2, 3]
    nothing = {"source_tokens": [], "tokens": [], "token_scores": [], "alignment": []}
    assert rows[1] == {"line": 2, "state": "empty", "score": None, "output": "", **nothing}
    for row, source, target in zip(rows, TEXTS, texts, strict=True):
        if not source:
            continue
        pair = Pair(source, target)
        sources, targets = run.aligned_parts(pair)
        assert row["source_tokens"] == list(sources)
        ends = ["<eos>"] if row["state"] == "end" else []
        assert row["tokens"] == [*targets, *ends]
        assert [tuple(link) for link in row["alignment"]] == run.align([pair])[0]
        assert len(row["token_scores"]) == len(row["tokens"])
        assert sum(row["token_scores"]) == pytest.approx(row["score"], abs=1e-4)
        if ends:
            assert sum(row["token_scores"]) == pytest.approx(run.score([pair])[0].log_probability, abs=1e-4)


def test_each_of_several_outputs_has_its_own_line(cli, runs):
    run = runs["transformer"].path
    flags = ("--beam", 3, "--n-best", 2, "--max-length", 4, "--token-scores")
    rows = json_lines(cli("predict", run, *flags, stdin="11/13/08\n").out)
    rows += json_lines(cli("predict", run, "--max-length", 3, "--token-scores", stdin="11/13/08\n").out)
    assert [row["line"] for row in rows] == [1, 1, 1]
    assert (rows[-1]["state"], len(rows[-1]["tokens"])) == ("cut", 3)  # no end, no score of one
    for row in rows:
        assert "alignment" not in row
        assert sum(row["token_scores"]) == pytest.approx(row["score"], abs=1e-4)


@pytest.mark.parametrize("model", ["transformer", "rnn-attention"])
@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_engines_score_and_align(runs, exported_run, cli, engine, model):
    if (engine, model) == ("ctranslate2", "rnn-attention"):
        pytest.skip("CTranslate2 computes no RNN")
    run, exported = runs[model], exported_run(model, engine)
    options = ("--token-scores", "--max-length", 5, *(("--align",) if engine == "onnx" else ()))
    done = cli("predict", exported.path, *options, stdin=STDIN)
    expected = json_lines(cli("predict", run.path, *options, stdin=STDIN).out)
    for row, other in zip(json_lines(done.out), expected, strict=True):
        assert row["tokens"] == other["tokens"]
        assert row.get("alignment") == other.get("alignment")
        assert row.get("token_scores") == pytest.approx(other.get("token_scores"), abs=1e-4)
    if engine == "ctranslate2":
        refusal = cli("predict", exported.path, "--align", stdin=STDIN).refusal()
        assert "load the run" in refusal


def test_a_graph_without_attention_cannot_align(exported_run, cli):
    graph = exported_run("rnn-plain", "onnx").path
    assert "no attention to its source" in cli("predict", graph, "--align", stdin=STDIN).refusal()


def test_tokens_that_the_tokenizer_would_not_choose_are_named():
    tokenizer = SubwordTokenizer.train(["low lower lowest"] * 9, SubwordSettings("bpe", vocab_size=280), clip=True)
    ids = tokenizer.sample("lowest", seed=0, alpha=1.0)
    ended = Output("lowest", -1.0, -1.0, True, tuple(tokenizer.encode("lowest")))
    assert output_tokens(tokenizer, ended)[-1] == "<eos>"
    names = output_tokens(tokenizer, replace(ended, finished=False, ids=tuple(ids)))
    assert names == tuple(tokenizer.pieces(ids))
