"""A report section as a plugin: all three renderers show it in its place."""

import re
from pathlib import Path

import pytest
import report_records
from report_records import printed, read

from selfattn.errors import UserError
from selfattn.registry import SECTIONS, load_plugin, register
from selfattn.report.blocks import HeatMap, Outputs, contents
from selfattn.report.html import html_of
from selfattn.report.text import markdown_of
from selfattn.report.write import document, write_report
from selfattn.results.record import read_record, record_from_dict
from selfattn.words.messages import phrase

FILE = Path(__file__).with_name("seed_spread.py")


@pytest.fixture(autouse=True)
def _section(isolated):
    load_plugin(str(FILE))


@pytest.fixture
def record():
    return read("rich")


def test_it_stands_where_it_asks_to(record):
    keys = [part.key for part in contents(record)]
    assert keys[keys.index("cost") + 1] == "seed spread"
    assert [part.key for part in contents(record) if part.is_plugin] == ["seed spread"]


@pytest.mark.parametrize(("lang", "title"), [("en", "Seed by seed"), ("ko", "시드별 결과")])
def test_every_form_shows_table_and_chart(record, lang, title):
    html = html_of(document(record), lang)
    assert re.search(rf'<a href="#seed-spread"><span data-w="\d+">{title}</span></a>', html)
    section = html[html.index('<section aria-labelledby="seed-spread">') :].partition("</section>")[0]
    assert re.search(rf'<h2 id="seed-spread"><span data-w="\d+">{title}</span></h2>', section)
    assert section.count('<svg class="strip"') == len(record.models)
    assert section.count('<svg class="plot"') == 1
    markdown = markdown_of(document(record), lang)
    markdown = markdown[markdown.index(f"## {title}") :].partition("\n## ")[0]
    printed_section = printed(record, lang)
    printed_section = printed_section[printed_section.index(title) :]
    sign = {"en": "\u00a0%", "ko": "%"}[lang]
    for model in record.models:
        seed, run = model.seeds[-1], model.metrics["exact_match"].runs[-1]
        assert re.search(rf'<title data-w="\d+">{model.name} · {seed} · {100 * run:.1f}{sign}</title>', section)
        spread = max(model.metrics["exact_match"].runs) - min(model.metrics["exact_match"].runs)
        table, chart = (line for line in markdown.splitlines() if line.startswith(f"| {model.name} |"))
        assert table.endswith(f"| {100 * spread:.2f}{sign} |")
        assert chart.count("%") == len(model.seeds)
        assert model.name in printed_section


def test_it_is_left_out_where_it_has_nothing_to_show():
    data = report_records.dates()
    for model in data["models"]:
        del model["metrics"]["exact_match"]["runs"]
    bare = record_from_dict(data)
    assert "seed spread" not in [part.key for part in contents(bare)]
    assert "Seed by seed" not in printed(bare) + markdown_of(document(bare)) + html_of(document(bare))


def test_a_section_that_breaks_loses_no_results(record, tmp_path):
    parts = {"title": phrase(en="Broken"), "blocks": lambda self, record: 1 / 0}
    register.section("broken")(type("Broken", (), parts))
    with pytest.raises(UserError, match=r"section 'broken': shows nothing \(ZeroDivisionError: division by zero\)"):
        write_report(record, tmp_path)
    assert read_record(tmp_path / "results.json").models == record.models


def test_a_section_after_one_that_is_not_there_is_refused(record):
    parts = {"title": phrase(en="Lost"), "after": "costs", "blocks": lambda self, record: ()}
    register.section("lost")(type("Lost", (), parts))
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
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
    builtin = [key for key in SECTIONS if SECTIONS[key].__module__.startswith("selfattn.")]
    assert [key for key in builtin if f"`{key}`" not in page] == []
