"""Outputs of systems that were trained elsewhere are judged as those of a comparison are."""

import gzip
import random
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from forging import differing
from small_runs import words

from selfattn import compare_outputs
from selfattn.comparison.verify import compare_records
from selfattn.errors import UserError
from selfattn.report.blocks import Table
from selfattn.report.sections.quality import buckets_section
from selfattn.report.text import markdown_of
from selfattn.report.write import document
from selfattn.results.record import read_record

WORDS = ["the", "a", "cat", "dog", "house", "sees", "eats", "runs", "small", "big", "red", "old", "and", "or", "not"]


def references(count=60):
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=8)) + f" {number}." for number in range(count)]


def outputs(wrong, seed):
    """The references with some words exchanged."""
    chance = random.Random(seed)

    def changed(text):
        return " ".join(chance.choice(WORDS) if chance.random() < wrong else word for word in text.split())

    return [changed(text) for text in references()]


@pytest.fixture
def files(tmp_path):
    right = references()
    (tmp_path / "ref").write_text("\n".join(right) + "\n")
    (tmp_path / "src").write_text("\n".join(text[::-1] for text in right) + "\n")
    (tmp_path / "kinds").write_text("\n".join(["odd", "even"] * 30) + "\n")
    for name, wrong in (("a", 0.1), ("b", 0.4)):
        for seed in (1, 2, 3):
            (tmp_path / f"{name}{seed}").write_text("\n".join(outputs(wrong, 10 * seed + len(name))) + "\n")
    return tmp_path


def judged(out, systems, **more):
    """The record of outputs that are judged as English by BLEU."""
    return compare_outputs(references(), systems, out=out, **{"metric": "bleu", "language": "en"} | more)[0]


def test_three_files_of_each_system_are_compared_over_trainings_and_items(files, cli):
    systems = [f"--system={name}={','.join(str(files / f'{name}{seed}') for seed in (1, 2, 3))}" for name in "ab"]
    sides = "--reference FILES/ref --source FILES/src --tags FILES/kinds --language en --metric bleu --out FILES/out"
    done = cli("compare", "outputs", *words(sides, FILES=files), *systems).success()
    assert "Is a better than b?" in done.out
    assert "3 runs each" in done.out
    again = cli("verify", files / "out")
    assert (again.code, again.out.splitlines()[-1].endswith("all agree")) == (0, True)
    assert "agrees   ngrams" in again.out
    text = (files / "out" / "report.md").read_text()
    for part in ("over runs and test items", "| odd |", "By frequency of words", "right more often"):
        assert part in text


def test_every_metric_is_that_of_sacrebleu_with_its_signature_which_is_verified(tmp_path):
    right = references()
    systems = {name: [outputs(wrong, seed) for seed in (1, 2)] for name, wrong in (("a", 0.1), ("b", 0.3))}
    record, files = compare_outputs(right, systems, out=tmp_path, metric=("bleu", "ter"), language="en")
    theirs = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER()}
    for model, (name, metric) in product(record.models, theirs.items()):
        scores = tuple(metric.corpus_score(texts, [right]).score for texts in systems[model.name])
        assert model.metrics[name].runs == scores  # to the last digit
    assert record.signatures == {name: str(theirs[name].get_signature()) for name in ("chrf", "ter")}
    text = files.markdown.read_text()
    assert all(signature.replace("|", r"\|") in text for signature in record.signatures.values())
    assert differing(tmp_path) == []
    for changed in ({}, {"ter": "tok:other"}):
        found = compare_records(replace(record, signatures=changed), record)
        assert [finding.name for finding in found if finding.differences] == ["signatures"]


@pytest.mark.parametrize(
    ("reference", "systems", "message"),
    [
        (np.array(["a", "b"]), {"x": [["a", "b"]]}, "expected the file of outputs, or a list of texts"),
        (["a", "b"], {"x": [iter(["a", "b"])]}, "expected the file of outputs, or a list of texts"),
        (["a", "b"], {"x": [["a", "\ud800"]]}, "text 2 has half of a character"),
        (["a", "b"], {"x": iter([["a", "b"]])}, "`system` x: expected a list of outputs, one for each training"),
        (["a", "b"], [["a", "b"]], "`system`: expected one or more"),
        (["a", "b"], {1: [["a", "b"]]}, "`system`: a name has at most 100 letters"),
        (["a", " "], {"a": [["a", "b"]]}, r"<2 texts>:2: an empty reference; leave this line out of every file"),
        (["私は学生です。"], {"a": [["雨です。"]]}, r"written in .*; name their language, such as ja .*und"),
    ],
    ids=["array", "iterator", "surrogate", "generator", "list", "number", "empty", "script"],
)
def test_what_is_no_list_of_outputs_is_refused(reference, systems, message, tmp_path):
    with pytest.raises(UserError, match=message):
        compare_outputs(reference, systems, out=tmp_path / "out", metric="bleu")


def first_screen(record, lang="en"):
    """The lead, the whole page, and how systems stand to the best one on the items, as the first table says it."""
    page = markdown_of(document(record), lang)
    lines = page.replace("\u00a0", " ").partition("\n## ")[0].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and " p " in line]
    return document(record).verdict.lead.say(lang), page, {name: said for name, *_, said in cells}


def test_one_file_each_says_first_what_it_cannot_show_and_how_systems_stand_on_the_items(tmp_path):
    best, poor = outputs(0.1, 1), outputs(0.5, 2)
    near = [*poor[:1], *best[1:]]
    record = judged(tmp_path / "two", {"a": [best], "b": [poor]})
    assert record.interval.over == "items"
    lead, page, standings = first_screen(record)
    assert "a is ahead" in lead
    assert "one run each cannot show" in lead
    assert "다시 학습해도 같을지는 알 수 없습니다" in first_screen(record, "ko")[0]
    # Nobody counts which outputs of others were cut off; the words beside a model are about these items.
    assert [word in page for word in ("runs each)", "cut-off outputs", "“Better”", "chrF")] == [False] * 3 + [True]
    assert standings == {"b": r"behind on these items, p \< 0.001"}

    record = judged(tmp_path / "near", {"a": [best], "b": [near], "c": [outputs(0.5, 3)]})
    (p,) = (test.p_holm for test in record.pairs if (test.first, test.second, test.metric) == ("a", "b", "bleu"))
    lead, page, standings = first_screen(record)
    tie = f"no difference seen on these items, p = {p:.2f}"
    assert standings == {"b": tie, "c": r"behind on these items, p \< 0.001"}
    assert "a has the best score, but no difference from b is seen" in lead
    for word, is_said in (("| one run each", False), ("ahead on these items |", True), ("Not decided: fewer", False)):
        assert (word in page) == is_said
    lead, _, standings = first_screen(record, "ko")
    assert standings == {"b": f"이 항목에서는 차이 안 보임, p = {p:.2f}", "c": r"이 항목에서는 뒤짐, p \< 0.001"}
    assert "b 쪽과는 테스트 항목을 뽑은 우연보다 큰 차이가 보이지 않습니다" in lead

    systems = {name: [outputs(wrong, 1)] for name, wrong in (("b", 0.4), ("a", 0.05), ("c", 0.5))}
    lead, _, standings = first_screen(judged(tmp_path / "error", systems, metric="ter"))  # lower is better
    assert "a is ahead of every other system" in lead
    assert list(standings) == ["b", "c"]


def test_the_axis_of_parts_has_room_for_all_their_scores(tmp_path):
    systems = {name: [[*outputs(0.1, seed)[:20], *outputs(0.75, 3)[20:]]] for seed, name in enumerate("ab", 1)}
    record = judged(tmp_path, systems, tags=["easy" if k < 20 else "hard" for k in range(60)])
    strips = [(table.columns[2].axis, row.cells[2].entries)
              for table in buckets_section(record) if isinstance(table, Table) for row in table.rows]  # fmt: skip
    scores = [(score.high or score.mean, axis.top) for axis, entries in strips for _, score in entries]
    assert all(high <= top for high, top in scores)
    assert max(scores)[0] > 1.2 * max(model.metrics["bleu"].high or 0 for model in record.models)


@pytest.mark.parametrize(
    ("systems", "more", "message"),
    [
        (["a=a1,short"], [], r"short: 59 lines, but ref has 60"),
        (["a=a1,a1"], [], r"a: a1: has the same lines as a: a1; give each training's own outputs"),
        (["a=a1", "b=a1"], [], r"b: a1: has the same lines as a: a1"),
        (["a=ref"], [], r"a: ref: equals ref in every line"),
        (["a=a1", "a=a2"], [], r"--system a: named twice; .* a=FILE,FILE"),
        (["a"], [], r"--system a: expected NAME=FILE,FILE"),
        (["a=a1,"], [], r"--system a=a1,: expected NAME=FILE,FILE"),
        (["../a=a1"], [], r"--system: a name has at most 100 letters"),
        (["a=gone"], [], r"gone: .*(missing|no such file|not there)"),
        (["a=t.tsv"], [], r"t.tsv: a table; name a column .* t.tsv:2 or t.tsv:output"),
        (["a=t.tsv:none"], [], r"t.tsv:1: no column 'none'; choose one of 'source', 'output'"),
        (["a=t.tsv:3"], [], r"t.tsv:1: 2 column\(s\) a line, so there is no column 3"),
        (["a=tabs"], [], r"tabs: has a tab in every line; name the column, as in tabs:2"),
        (["a=a1"], ["--language", "xx"], r"unknown language 'xx'"), (["a=a1"], ["--margin", "0"], r"--margin"),
        (["a=a1"], ["--metric", "blue"], r"metric 'blue' is not known"),
        (["a=a1"], ["--metric", "bleu,bleu"], r"--metric bleu,bleu: expected different names"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(files, systems, more, message, cli, monkeypatch):
    monkeypatch.chdir(files)
    lines = Path("a2").read_text().splitlines()
    Path("short").write_text("\n".join(lines[1:]) + "\n")
    Path("t.tsv").write_text("source\toutput\n" + "".join(f"{line}\t{line}\n" for line in lines))
    Path("tabs").write_text("".join(f"{line}\t{line}\n" for line in lines))
    chosen = [f"--system={system}" for system in systems]
    metric = [] if "--metric" in more else ["--metric", "bleu"]
    refusal = cli("compare", "outputs", "--reference", "ref", *chosen, *metric, *more, "--out", "out").refusal()
    assert re.search(message, refusal), refusal
    assert not Path("out").exists()


def test_files_of_windows_and_columns_of_tables_are_read(files, cli, monkeypatch):
    monkeypatch.chdir(files)
    right, first, second = (Path(name).read_text().splitlines() for name in ("ref", "a1", "a2"))
    first[3] = ""  # an output may be empty
    Path("ref.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(right).encode())
    Path("t.tsv").write_text("first\tsecond\n" + "".join(f"{a}\t{b}\n" for a, b in zip(first, second, strict=True)))
    sides = "--reference ref.txt --system=a=t.tsv:first,t.tsv:second --language en --metric bleu --out out"
    cli("compare", "outputs", *sides.split()).success()
    record = judged(files / "same", {"a": [first, second]})
    assert read_record(Path("out/results.json")).models[0].metrics == record.models[0].metrics


def test_right_answers_may_be_equal_where_a_share_is_counted(tmp_path, capsys):
    right = [str(number) for number in range(1001)]
    systems = {"a": [right, right], "b": [["0", *right[:-1]], [*right[:-1], "-"]]}
    record, _ = compare_outputs(right, systems, out=tmp_path, metric="exact_match")
    assert record.models[0].metrics["exact_match"].mean == 1
    said = capsys.readouterr().err
    assert "make sure that the system wrote it" in said
    assert "2 systems, 4 runs, 1,001 items: computing scores and intervals" in said


@pytest.mark.slow
def test_public_outputs_score_as_sacrebleu_and_words_and_ngrams_as_compare_mt_say(shared_data, tmp_path):
    """compare-mt 0.2.10 prints these for files that are cut at spaces: word F by frequency, n-gram differences."""
    reference, *systems = (shared_data(f"outputs/ted.{name}.detok.eng.gz") for name in ("ref", "sys1", "sys2"))
    outputs = {f"sys{number}": [path] for number, path in enumerate(systems, 1)}
    record, _ = compare_outputs(reference, outputs, metric="bleu_tokens", out=tmp_path, language="en")
    right, *texts = (gzip.decompress(path.read_bytes()).decode().splitlines() for path in (reference, *systems))
    for model, lines in zip(record.models, texts, strict=True):
        assert model.metrics["bleu_tokens"].runs == (sacrebleu.corpus_bleu(lines, [right], tokenize="none").score,)
        assert model.metrics["chrf"].runs == (sacrebleu.corpus_chrf(lines, [right]).score,)
    means = [[round(score.mean, 4) for score in bucket.models.values()] for bucket in record.buckets[-1].buckets]
    assert means[0] == [0.3542, 0.2952]
    assert means[4:] == [[0.4605, 0.4416], [0.4836, 0.4827], [0.5772, 0.5954], [0.5894, 0.6266]]
    (group,) = record.ngrams
    counts = {ngram.text: (round(ngram.score, 4), ngram.first, ngram.second) for ngram in group.ngrams}
    assert counts["phantom"] == (0.9167, 21, 1)
    assert counts["And so"] == (0.8571, 5, 0)
    assert counts["going to show you"] == (0.125, 0, 6)
    assert differing(tmp_path) == []
