"""Beam, sampling, scores and alignments on the command line and from Python."""

import json

import pytest

from selfattn.data.pairs import Pair
from selfattn.decoding.options import NOTHING, DecodingOptions
from selfattn.errors import UserError
from selfattn.evaluation.attention import AttentionReading, word_links
from selfattn.evaluation.links import GoldPair, Links
from selfattn.runs.evaluate import align_against_gold, evaluate_run, evaluation_lines, gold_lines

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


@pytest.mark.parametrize(
    ("text", "typed", "left_out"),
    [
        ("beam = 2\nn-best = 2", "--sample", "beam is left out: it has no effect beside --sample"),
        ("sample = true\nseed = 3", "--beam 2", "sample is left out: it has no effect beside --beam"),
        ("sample = true\nseed = 3", "--beam 2", "seed is left out: it goes with --sample"),
        ("prefixes = 'none'", "--prefix 20", "prefixes is left out: it has no effect beside --prefix"),
        ("align = true", "--engine ctranslate2", "align is left out: it goes with --engine torch or onnx"),
    ],
)
def test_a_typed_option_of_decoding_goes_before_one_of_a_file(cli, runs, tmp_path, text, typed, left_out):
    (tmp_path / "a.toml").write_text(text)
    done = cli("predict", runs["transformer"].path, "--config", tmp_path / "a.toml", *typed.split(), stdin="")
    assert f"a.toml: {left_out}" in done.err


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
    for flags, options in (
        ((), {}),
        (("--layer", 0, "--head", 2), {"layer": 0, "head": 2}),
        (("--layer", -1, "--shift", 1), {"shifted": True}),
    ):
        lines = [line.split("\t") for line in cli("align", run.path, "--data", pairs_file, *flags).out.splitlines()]
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


def test_what_cannot_be_aligned_is_said_in_a_line(runs):
    with pytest.raises(UserError, match="has no attention to its source; try a model that has"):
        align_against_gold(runs["rnn-plain"], GOLD)
    with pytest.raises(UserError, match="no sentence pairs with gold links"):
        align_against_gold(runs["transformer"], [])
