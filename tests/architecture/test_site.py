"""What the site changes in its pages; it needs docutils, which the extra [docs] installs."""

import ast
import re
import sys
from pathlib import Path

import pytest

nodes = pytest.importorskip("docutils.nodes", reason="needs the extra [docs]")
frontend = pytest.importorskip("docutils.utils", reason="needs the extra [docs]")
schemes = pytest.importorskip("docutils.utils.urischemes", reason="needs the extra [docs]").schemes
PACKAGE = Path(__file__).resolve().parents[2] / "selfattn"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
from pages import keep_code_whole, keep_words_whole, mark_wide_drawings, name_columns  # noqa: E402


def page(*parts):
    """A document with one paragraph of these parts."""
    document = frontend.new_document("page")
    document += nodes.paragraph("", "", *parts)
    return document


def test_a_script_in_a_page_stays_as_it_is():
    """A browser runs it only if its hash is that of the policy beside it."""
    script = '<iframe srcdoc="<script>x = [0, 1]; y = 5 % 2; z = p = 1</script>"></iframe>'
    code = "range = [0, 1]  # 5 %"
    document = page(
        nodes.raw("", script, format="html"), nodes.literal("", code), nodes.Text("on [0, 1], 5 %, p = 1, 3 ms, 11–17")
    )
    keep_words_whole(document)
    raw, literal, text = document[0].children
    assert raw.astext() == script
    assert literal.astext() == code
    assert text.astext() == "on\u00a0[0,\u00a01], 5\u00a0%, p\u00a0=\u00a01, 3\u00a0ms, 11–\u206017"


def test_a_particle_stays_with_its_number_in_bold():
    document = page(nodes.strong("", "25.16%"), nodes.Text("로 올랐습니다"))
    keep_words_whole(document)
    assert document.astext() == "25.16%\u2060로 올랐습니다"


def test_short_code_is_kept_in_a_line():
    option = nodes.literal("", "--no-repeat-ngram N")
    address = nodes.literal("", "https://example.org/a/path/that/is/long")
    keep_code_whole(page(option, address))
    assert option["classes"] == ["short"]
    assert address["classes"] == []


def test_wide_drawings_are_marked(tmp_path):
    for name, width in (("wide", '"764"'), ("small", "'284'")):
        (tmp_path / f"{name}.svg").write_text(f"<svg viewBox='0 0 9 9' width={width} height='9'/>", encoding="utf-8")
    images = [nodes.image("", uri=f"{name}.svg") for name in ("wide", "small", "missing")]
    mark_wide_drawings(page(*images), tmp_path)
    assert [image["classes"] for image in images] == [["wide"], [], []]


def table(heads, *rows):
    group = nodes.tgroup("", cols=len(heads))
    for part, lines in ((nodes.thead(), [heads]), (nodes.tbody(), rows)):
        for line in lines:
            entries = [nodes.entry("", *([nodes.paragraph("", cell)] if cell else [])) for cell in line]
            part += nodes.row("", *entries)
        group += part
    return nodes.table("", group)


def test_cells_of_a_wide_table_of_texts_name_their_columns():
    long = "a text that is far too long for a column of a phone"
    document = frontend.new_document("page")
    document += table(["claim", "verdict", "measured", "picture"], ["1.", "holds", long, ""])
    document += table(["length", "4", "8", "12", "16"], ["plain", "5 %", "4 %", "3 %", "2 %"])
    document += table(["name", "text"], ["a", long])
    name_columns(document)
    texts, numbers, narrow = document.children
    assert texts["classes"] == ["cards"]
    cells = [entry.astext().split("\n\n") for entry in texts.findall(nodes.entry)][4:]
    assert cells == [["1."], ["verdict", "holds"], ["measured", long], [""]]
    assert numbers["classes"] == ["numbers"]
    assert narrow["classes"] == []


def test_no_word_of_a_docstring_becomes_a_link():
    """Docutils links whatever begins with a scheme, such as FILE:COLUMN; the command line shows its own as they are."""
    linked = []
    for path in PACKAGE.rglob("*.py"):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        nodes_of_file = ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.parent.name != "cli" else ()
        for docstring in [ast.get_docstring(node) or "" for node in nodes_of_file if isinstance(node, documented)]:
            text = re.sub("``.*?``|`[^`]*`|^ *>>>.*$", "", docstring, flags=re.DOTALL | re.MULTILINE)
            for word in re.findall(r"(?<![\w/.-])[A-Za-z][\w.+-]*:[\w/]\S*", text):
                scheme = word.partition(":")[0].lower()
                if scheme in schemes and scheme not in ("http", "https"):
                    linked.append(f"{path.name}: {word}")
    assert linked == []
