"""A metric, a task and a report section, each a plugin by itself."""

import re

import pytest
import report_records
from report_records import printed, read
from third_party import FILES, PAGE

from selfattn.cli.main import main
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.metrics import make_metric
from selfattn.evaluation.significance import score_counts
from selfattn.registry import METRICS, SECTIONS, TASKS, load_plugin, register
from selfattn.report.blocks import HeatMap, Outputs, contents
from selfattn.report.html import html_of
from selfattn.report.text import markdown_of
from selfattn.report.write import document, write_report
from selfattn.results.record import read_record, record_from_dict
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.load import load
from selfattn.tokenizers.listed import LetterTokenizer, WordTokenizer
from selfattn.words.messages import phrase

pytestmark = pytest.mark.usefixtures("isolated")


def test_a_metric_is_summed_and_compared_as_the_built_in_ones():
    load_plugin(str(FILES / "edit_similarity.py"))
    assert METRICS.plugin_of("edit_similarity") == str(FILES / "edit_similarity.py")
    metric = make_metric("edit_similarity")
    assert metric.of(["2008-11-13"], ["2008-11-13"]) == 1
    assert metric.of(["abcd", "abcd"], ["abxy", "wxyz"]) == (0.5 + 0) / 2
    with pytest.raises(UserError, match="did you mean edit_similarity"):
        make_metric("edit_similarty")
    references = [f"{year}-11-13" for year in range(1900, 2010)]
    # Runs that leave out the last characters of every second reference.
    runs = {end: [text[: 10 - end * (place % 2)] for place, text in enumerate(references)] for end in (1, 2, 5, 6)}
    counts = metric.counts(runs[5], references)
    assert metric.score(counts[7:60].sum(axis=0)) == pytest.approx(metric.of(runs[5][7:60], references[7:60]))
    assert metric.score(counts).mean() == pytest.approx(metric.of(runs[5], references))
    models = {"good": [runs[1], runs[1], runs[2]], "poor": [runs[5], runs[6], runs[6]]}
    pair = score_counts(metric.count_runs(models, references), metric).comparison().between("good", "poor")
    assert (pair.metric, pair.word) == ("edit_similarity", "better")


@pytest.fixture
def reversal(isolated):
    load_plugin(str(FILES / "reversal_task.py"))
    return TASKS["reversal"]


def test_parts_of_a_task_share_no_word_and_never_change(reversal):
    splits = reversal(longest=4).splits(seed=3)
    train, valid, test = splits.train(0, 500), splits.validation(40), splits.test(40)
    sources = [{pair.source for pair in part} for part in (train, valid, test)]
    assert len(set.union(*sources)) == sum(map(len, sources))
    assert len(sources[1]) == len(sources[2]) == 40
    assert all(pair.target == pair.source[::-1] for pair in (*train, *valid, *test))
    again = reversal(longest=4).splits(seed=4)
    assert (again.test(40), again.validation(40)) == (test, valid)
    assert train not in (again.train(0, 500), splits.train(1, 500))
    few = reversal(letters="ab").splits(0).test(1_000)  # there are no more
    assert 1 <= len(few) == len({pair.source for pair in few}) < 100
    with pytest.raises(UserError, match="of 20,000 pairs none falls into this part"):
        reversal(letters="a", longest=3).splits(0).test(1)


def test_options_of_a_task_are_checked(reversal):
    with pytest.raises(SettingError, match="`longest`: expected at least 3 letters, got 1"):
        reversal(longest=1)
    with pytest.raises(SettingError, match="`shorted`: there is no such setting here; did you mean `shortest`"):
        reversal(shorted=1)


def test_three_given_files_are_trained_and_tested_on(tmp_path):
    for part, numbers in (("train", range(100, 200)), ("dev", range(200, 220)), ("test", range(300, 330))):
        lines = [f"{n}\t{' '.join(f'<{digit}>' for digit in str(n))}\n" for n in numbers]
        (tmp_path / f"xyz_{part}.tsv").write_text("".join(lines), "utf-8")
    run = tmp_path / "run"
    options = ["--folder", tmp_path, "--word-language", "xyz", "--model", "rnn-attention", "--epochs", 1, "--out", run]
    small = ["--set", "encoder.hidden_dim=16", "--set", "decoder.hidden_dim=16"]
    main([str(word) for word in ("--plugin", FILES / "given_files.py", "train", "pronunciation", *options, *small)])
    trained = load(run)
    assert isinstance(trained.tokenizer.source, LetterTokenizer)
    assert isinstance(trained.tokenizer.target, WordTokenizer)
    results = evaluate_run(trained)
    further = evaluate_run(trained, metric="bleu_tokens,ter")
    assert results["items"] == 30
    assert {"word_error_rate", "phone_error_rate"} <= results["metrics"].keys()
    assert results["metrics"]["word_error_rate"] == pytest.approx(1 - results["metrics"]["exact_match"])
    assert further["metrics"].keys() - results["metrics"].keys() == {"bleu_tokens", "ter"}


@pytest.fixture
def record(isolated):
    load_plugin(str(FILES / "seed_spread.py"))
    return read("rich")


@pytest.mark.parametrize(("lang", "title", "sign"), [("en", "Seed by seed", "\u00a0%"), ("ko", "시드별 결과", "%")])
def test_every_form_shows_a_section_where_it_asks_to_stand(record, lang, title, sign):
    keys = [part.key for part in contents(record)]
    assert keys[keys.index("cost") + 1] == "seed spread"
    assert [part.key for part in contents(record) if part.is_plugin] == ["seed spread"]
    html = html_of(document(record), lang)
    assert re.search(rf'<a href="#seed-spread"><span data-w="\d+">{title}</span></a>', html)
    section = html[html.index('<section aria-labelledby="seed-spread">') :].partition("</section>")[0]
    assert re.search(rf'<h2 id="seed-spread"><span data-w="\d+">{title}</span></h2>', section)
    assert section.count('<svg class="strip"') == len(record.models)
    assert section.count('<svg class="plot"') == 1
    markdown = markdown_of(document(record), lang)
    markdown = markdown[markdown.index(f"## {title}") :].partition("\n## ")[0]
    in_terminal = printed(record, lang).partition(title)[2]
    for model in record.models:
        runs = model.metrics["exact_match"].runs
        assert re.search(
            rf"<title data-w=\"\d+\">{model.name} · {model.seeds[-1]} · {100 * runs[-1]:.1f}{sign}<", section
        )
        table, chart = (line for line in markdown.splitlines() if line.startswith(f"| {model.name} |"))
        assert table.endswith(f"| {100 * (max(runs) - min(runs)):.2f}{sign} |")
        assert chart.count("%") == len(model.seeds)
        assert model.name in in_terminal


def test_a_section_is_left_out_where_it_has_nothing_to_show(record):
    data = report_records.dates()
    for model in data["models"]:
        del model["metrics"]["exact_match"]["runs"]
    bare = record_from_dict(data)
    assert "seed spread" not in [part.key for part in contents(bare)]
    assert "Seed by seed" not in printed(bare) + markdown_of(document(bare)) + html_of(document(bare))


def test_a_section_that_breaks_loses_no_results_and_one_that_stands_nowhere_is_refused(record, tmp_path):
    parts = {"title": phrase(en="Broken"), "blocks": lambda self, record: 1 / 0}
    register.section("broken")(type("Broken", (), parts))
    with pytest.raises(UserError, match=r"section 'broken': shows nothing \(ZeroDivisionError: division by zero\)"):
        write_report(record, tmp_path)
    assert read_record(tmp_path / "results.json").models == record.models
    register.section("lost")(type("Lost", (), parts | {"after": "costs", "blocks": lambda self, record: ()}))
    with pytest.raises(UserError, match="section 'lost': after = 'costs' is no section; choose one of"):
        contents(record)


def test_a_section_draws_a_heat_map(record, tmp_path, capsys):
    @register.section("lengths")
    class Lengths:
        title = phrase(en="Lengths")

        def blocks(self, record, outputs):
            values = tuple(tuple(len(text) / 10 for text in runs[0]) for runs in outputs.by_model.values())
            return (HeatMap("lengths", phrase(en="Lengths"), tuple(outputs.by_model), outputs.sources, values),)

    outputs = Outputs(("one", "two"), ("1", "2"), {"transformer": (("12345", "1"),)})
    files = write_report(record, tmp_path, outputs=outputs)
    said = "section 'lengths': has no title in ko; English stands there"
    assert capsys.readouterr().err.splitlines() == [said]
    assert "transformer ← one: 0.5000" in files.html.read_text(encoding="utf-8")
    assert "| transformer | 0.50 | 0.10 |" in files.markdown.read_text(encoding="utf-8")
    assert "lengths" not in [part.key for part in contents(record)]


def test_the_page_on_plugins_lists_the_sections():
    page = PAGE.read_text(encoding="utf-8")
    builtin = [key for key in SECTIONS if SECTIONS[key].__module__.startswith("selfattn.")]
    assert [key for key in builtin if f"`{key}`" not in page] == []
