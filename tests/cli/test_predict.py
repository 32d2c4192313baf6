"""Beam, sampling, prefixes, scores, alignments and engines on the command line, as from Python."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from selfattn.data.pairs import Pair
from selfattn.decoding.options import NOTHING, DecodingOptions, Output
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.attention import AttentionReading, word_links
from selfattn.evaluation.links import GoldPair, Links
from selfattn.runs.evaluate import align_against_gold, evaluate_run, evaluation_lines, gold_lines
from selfattn.runs.load import load
from selfattn.runs.predictor import output_tokens
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

LANGUAGE_MODEL = Path(__file__).parents[1] / "fixtures/formats/run-lm"
TEXTS = ["May 1, 2001", "", "11/13/08"]
STDIN = "\n".join(TEXTS) + "\n"
PAIRS = [Pair("May 1, 2001", "2001-05-01"), Pair("11/13/08", "2008-11-13"), Pair("5/4/99", "1999-05-04")]


@pytest.fixture
def pairs_file(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS))
    return path


def test_n_best_lines_have_number_score_and_output(cli, runs):
    run = runs["rnn-attention"]
    flags = ("--beam", 3, "--n-best", 2, "--length-penalty", 0.6, "--max-length", 6)
    done = cli("predict", run.path, *flags, stdin=STDIN)
    found = run.decode(TEXTS, DecodingOptions(beam=3, n_best=2, length_penalty=0.6, max_length=6))
    assert [len(outputs) for outputs in found] == [2, 1, 2]
    assert found[1] == [NOTHING]
    expected = []
    for number, outputs in ((1, found[0]), (3, found[2])):
        for output in outputs:
            state = "end" if output.finished else "cut"
            expected.append(f"{number}\t{output.score:.6f}\t{state}\t{output.text}")
            length = len(output.text) + output.finished
            assert output.score == pytest.approx(output.log_probability / ((5 + length) / 6) ** 0.6)
    expected.insert(2, "2\t\tempty\t")
    assert done.out.splitlines() == expected


def test_cut_off_outputs_are_marked_counted_and_stand_last(cli, runs):
    run = runs["transformer"]
    flags = ("--beam", 4, "--n-best", 4, "--max-length", 11)
    lines = [line.split("\t") for line in cli("predict", run.path, *flags, stdin="May 1, 2001\n").out.splitlines()]
    states = [state for _, _, state, _ in lines]
    assert states == sorted(states, key=("end", "cut").index)
    for state in ("end", "cut"):
        scores = [float(score) for _, score, this, _ in lines if this == state]
        assert scores == sorted(scores, reverse=True)
    short = cli("predict", run.path, "--max-length", 3, stdin=STDIN)
    assert short.err == "2 of 3 outputs cut off at the longest length allowed; --max-length sets it\n"
    assert [output.finished for (output,) in run.decode(TEXTS, DecodingOptions(max_length=3))] == [False, True, False]


def test_an_evaluation_counts_what_was_cut_off(runs, pairs_file):
    results = evaluate_run(runs["transformer"], pairs_file, DecodingOptions(max_length=3))
    assert results["cut_off"] == len(PAIRS)
    less = "validations during a training allow less, so their scores of such outputs differ"
    assert f"3 outputs cut off at the longest length allowed; {less}" in list(evaluation_lines(results))


def test_empty_sides_have_no_score_and_no_links(runs):
    for pair in (Pair("", "2001-05-01"), Pair("May 1, 2001", " ")):
        for use in (runs["transformer"].score, runs["transformer"].align):
            with pytest.raises(UserError, match=r": pair 2: the source or the target is empty; leave the pair out"):
                use([PAIRS[0], pair])


def test_samples_depend_on_the_seed_and_not_on_the_chunks(cli, runs, monkeypatch):
    import selfattn.cli.predict

    run = runs["rnn-plain"].path
    flags = ("--sample", "--temperature", 1.5, "--top-k", 9, "--top-p", 0.95, "--max-length", 8)
    first, again = (cli("predict", run, *flags, stdin=STDIN * 2).out for _ in range(2))
    assert first == again != cli("predict", run, *flags, "--seed", 1, stdin=STDIN * 2).out
    monkeypatch.setattr(selfattn.cli.predict, "_CHUNK", 1)
    assert cli("predict", run, *flags, stdin=STDIN * 2).out == first
    assert first.splitlines()[0] != first.splitlines()[3]  # the same text twice is drawn twice


def test_evaluate_against_another_run(cli, runs, pairs_file):
    first, second = runs["rnn-plain"].path, runs["transformer"].path
    data = json.loads(cli("evaluate", first, "--against", second, "--data", pairs_file, "--json").out)
    other = json.loads(cli("evaluate", second, "--data", pairs_file, "--json").out)
    names = ("run", "model", "metrics", "intervals")
    assert [data["against"][name] for name in names] == [other[name] for name in names]
    lines = cli("evaluate", first, "--against", second, "--data", pairs_file, "--lang", "ko").out.splitlines()
    assert lines[1] == f"비교 대상: transformer({second}), 같은 항목"
    assert lines[2].endswith("%p, p = 1.0000")


def test_score_prints_a_line_for_each_pair(cli, runs, pairs_file):
    run = runs["rnn-attention"]
    lines = [line.split("\t") for line in cli("score", run.path, "--data", pairs_file).out.splitlines()]
    scores = run.score(PAIRS)
    assert [int(tokens) for _, tokens, _ in lines] == [11, 11, 11]
    assert [float(log) for log, _, _ in lines] == pytest.approx([one.log_probability for one in scores], abs=1e-5)
    assert [float(each) for _, _, each in lines] == pytest.approx([one.per_token for one in scores], abs=1e-5)


def test_align_prints_pharaoh_lines(cli, runs, pairs_file):
    run = runs["transformer"]
    ways = {"": {}, "--layer 0 --head 2": {"layer": 0, "head": 2}, "--layer -1 --shift 1": {"shifted": True}}
    for flags, options in ways.items():
        done = cli("align", run.path, "--data", pairs_file, *flags.split())
        lines = [line.split("\t") for line in done.out.splitlines()]
        links = run.align(PAIRS, **options)
        assert [line[0] for line in lines] == [" ".join(f"{i}-{j}" for i, j in own) for own in links]
        assert lines[0][1:] == ["M a y ▁ 1 , ▁ 2 0 0 1", "2 0 0 1 - 0 5 - 0 1"]
        for pair, own in zip(PAIRS, links, strict=True):
            assert all(0 <= i < len(pair.source) and 0 <= j < len(pair.target) for i, j in own)
            assert len(own) == len(pair.target)  # every character looks somewhere


def test_align_links_words(cli, runs, pairs_file):
    run = runs["transformer"]
    pair = Pair("May  1, 2001", "2001 -05- 01")
    pairs_file.write_text(f"{pair.source}\t{pair.target}\n")
    for flags, options in (((), {}), (("--layer", 0, "--head", 2, "--shift", 1), {"layer": 0, "head": 2})):
        way = AttentionReading(0, options.get("head"), shifted=bool(flags))
        gold = GoldPair(("May", "1,", "2001"), ("2001", "-05-", "01"), Links())
        (expected,) = word_links(run.model, run.tokenizer, [gold])[way]
        links, source, target = cli("align", run.path, "--data", pairs_file, "--words", *flags).out[:-1].split("\t")
        assert {tuple(map(int, link.split("-"))) for link in links.split()} == expected
        assert (source, target) == ("May 1, 2001", "2001 -05- 01")


# Attention against gold links, as a table and as JSON

GOLD = [
    GoldPair(("Nov", "13,", "2008"), ("2008", "-11-", "13"), Links(frozenset({(0, 1), (1, 2), (2, 0)}))),
    GoldPair(("May", "1"), ("05", "01"), Links(frozenset({(0, 0)}), frozenset({(1, 1)}))),
]


def test_every_head_of_every_layer_is_in_the_table(runs):
    report = align_against_gold(runs["transformer"], GOLD)
    lines = list(gold_lines(report))
    assert lines[0] == "2 sentence pairs, 4 sure and 1 possible links"
    table = [line for line in lines if line.startswith("layer ")]
    assert len(table) == len(report["ways"]) == 2 * (4 + 1)
    assert [line.split()[2:4] for line in table[-1:]] == [["mean", "1"]]
    # (0, 0), (1, 1), (2, 2) and (0, 0), (1, 1): one of four sure links, two of five possible ones.
    assert lines[-2].split() == ["diagonal,", "no", "model", "66.7%", "40.0%", "25.0%", "5"]
    assert lines[-1] == f"best here: {AttentionReading(**report['best'])}"


# What predict adds to outputs


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
    with pytest.raises(SettingError, match="expected a prefix for each of 3 texts, got 2"):
        run.predict(TEXTS, prefix=["1", "2"])
    with pytest.raises(SettingError, match="prefix 1: expected a text or None, got 1"):
        run.predict(TEXTS, prefix=[1, 2, 3])


@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_engines_begin_with_a_prefix_too_or_refuse_it(runs, exported_run, engine):
    run, exported = runs["transformer"], exported_run("transformer", engine)
    for beam in (1, 3) if engine == "onnx" else (1,):
        options = DecodingOptions(beam=beam, max_length=12)
        ended = [output.text if output.finished else output.text[:5] for (output, *_) in run.decode(TEXTS, options)]
        for beginnings in (["1", "", "2008-1"], ended):
            outputs = exported.decode(TEXTS, options, prefix=beginnings)
            for found, expected in zip(outputs, run.decode(TEXTS, options, prefix=beginnings), strict=True):
                assert (found[0].text, found[0].finished) == (expected[0].text, expected[0].finished)
                assert found[0].score == pytest.approx(expected[0].score, abs=1e-4)
    if engine == "onnx":
        assert exported.predict(TEXTS, no_repeat_ngram=1) == run.predict(TEXTS, no_repeat_ngram=1)
        return
    for settings in ({"prefix": "1", "beam": 3}, {"no_repeat_ngram": 1}):
        with pytest.raises(UserError, match=f"`{next(iter(settings))}`.*: CTranslate2 computes it in another way"):
            exported.predict(TEXTS, **settings)


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


@pytest.mark.parametrize(
    ("engine", "model"), [("onnx", "transformer"), ("onnx", "rnn-attention"), ("ctranslate2", "transformer")]
)
def test_engines_score_and_align_or_refuse_it(runs, exported_run, cli, monkeypatch, engine, model):
    run, exported = runs[model], exported_run(model, engine)
    options = ("--token-scores", "--max-length", 5, *(("--align",) if engine == "onnx" else ()))
    found, expected = (json_lines(cli("predict", one.path, *options, stdin=STDIN).out) for one in (exported, run))
    for row, other in zip(found, expected, strict=True):
        assert row["tokens"] == other["tokens"]
        assert row.get("alignment") == other.get("alignment")
        assert row.get("token_scores") == pytest.approx(other.get("token_scores"), abs=1e-4)
    monkeypatch.setattr("selfattn.exports.onnx._weights_of", lambda session: [])  # as of a model without attention
    reason = "no attention to its source" if engine == "onnx" else "load the run"
    assert reason in cli("predict", exported.path, "--align", stdin=STDIN).refusal()


def test_tokens_that_the_tokenizer_would_not_choose_are_named():
    tokenizer = SubwordTokenizer.train(["low lower lowest"] * 9, SubwordSettings("bpe", vocab_size=280), clip=True)
    ids = tokenizer.sample("lowest", seed=0, alpha=1.0)
    ended = Output("lowest", -1.0, -1.0, True, tuple(tokenizer.encode("lowest")))
    assert output_tokens(tokenizer, ended)[-1] == "<eos>"
    names = output_tokens(tokenizer, replace(ended, finished=False, ids=tuple(ids)))
    assert names == tuple(tokenizer.pieces(ids))
