"""Text of others does nothing to a terminal, a page or a reader: what acts is shown, not done."""

import io
import json

from rich.console import Console
from small_runs import accept_changes

from selfattn.cli import tokenizer as tokenizer_commands
from selfattn.comparison.report import write_comparison
from selfattn.errors import all_visible, say, visible
from selfattn.ownership import MARKDOWN_MARK
from selfattn.report.html import html_of
from selfattn.report.text import markdown_of, print_summary
from selfattn.report.write import document
from selfattn.tokenizers.listed import CharTokenizer

RUN = "runs/plain-seed0"
NASTY = "a\x1b]0;owned\x07b\x9b31m\u202ec\u2066d\x00\r"
ACTING = set("\x1b\x07\x9b\u202e\u2066\x00\r")


def test_every_acting_character_is_shown_and_no_place_moves():
    assert len(visible(NASTY)) == len(NASTY)
    assert not ACTING & set(visible(NASTY))
    for code in range(0x11000):
        character = chr(code)
        changed = visible(character) != character
        acts = code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 or character in "\u2028\u2029"
        acts = acts or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
        assert changed == (acts and character not in "\n\t"), hex(code)
    assert visible("한국어 العربية \u200d नमस्ते") == "한국어 العربية \u200d नमस्ते"


def test_a_report_of_nasty_texts(copy):
    path = copy / RUN / "test.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["source"], row["output"], row["tag"] = row["source"] + NASTY, NASTY, NASTY
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    accept_changes(copy / RUN)
    record, files = write_comparison(copy, copy.parent / "report")
    screen = io.StringIO()
    print_summary(record, Console(file=screen, highlight=False, width=100), files.html)
    for text in (files.html.read_text(), files.markdown.read_text(), screen.getvalue()):
        assert not ACTING & set(text)
    again = all_visible(record)
    page = document(again)
    assert html_of(page) == files.html.read_text()
    assert markdown_of(page) + MARKDOWN_MARK == files.markdown.read_text()


def test_a_message_and_a_tokenizer_are_shown(tmp_path, capsys):
    say(f"error: {NASTY}: no such file")
    CharTokenizer("ab").save(tmp_path)
    for text in (capsys.readouterr().err, tokenizer_commands.inspect(tmp_path, text=(NASTY,))):
        assert not ACTING & set(text)
