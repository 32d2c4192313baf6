"""The explorer in a browser: two sentences, all heads at a glance, and a legend of what the page has."""

import pytest
import torch

from selfattn.runs.attention_view import AttentionView

TOKENS = ("[CLS]", "a", "dog", "[SEP]", "it", "ran", "[SEP]")
SECOND = 4


def weights(*size):
    return torch.rand(*size, generator=torch.Generator().manual_seed(0)).mul(5).softmax(-1)


@pytest.fixture
def page(tmp_path):
    maps = tuple(weights(4, 3, 7, 7))
    view = AttentionView("a dog ↔ it ran", "", TOKENS, (), (), maps, (), second=SECOND, without=("layers.9",))
    view.save(tmp_path / "map.html")
    return tmp_path / "map.html"


def test_a_part_shows_what_one_sentence_reads_of_another(browser, page):
    browser.show(page)
    assert len(browser.all("td.cut")) == len(TOKENS)
    browser.choose("input[value='1→2']")
    expected = weights(4, 3, 7, 7)[-1].mean(dim=0)[:SECOND, SECOND:]
    torch.testing.assert_close(torch.tensor(browser.weights()), expected, atol=0.002, rtol=0)
    assert [head.text for head in browser.all(".map thead th")] == ["it", "ran", "[SEP]"]
    browser.one("td[data-row='1'][data-column='0']").click()
    assert browser.text(".readout").startswith("a2 reads it5:")


@pytest.mark.parametrize(("width", "lang"), [(1280, "en"), (400, "ko")])
def test_a_small_map_of_every_head_is_enlarged(browser, page, width, lang):
    browser.show(page, width, dark=width == 400, fragment=f"#{lang}")
    browser.choose("input[name=view][value=all]")
    assert len(browser.all(".minis canvas")) == 12
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.choose(".minis button[data-layer='2'][data-head='1']")
    torch.testing.assert_close(torch.tensor(browser.weights()), weights(4, 3, 7, 7)[2, 1], atol=0.001, rtol=0)
    assert not browser.all(".minis canvas")


@pytest.mark.parametrize("is_dark", [False, True])
def test_all_heads_at_a_glance_are_accessible(browser, page, violations, is_dark):
    browser.show(page, dark=is_dark)
    browser.choose("input[name=view][value=all]")
    assert violations() == []


def test_the_legend_explains_what_the_page_has(browser, page):
    browser.show(page)
    notes = " ".join(note.text for note in browser.all("p.note"))
    assert "each row of attention sums to 1" in notes
    assert "No weights from: layers.9." in notes
    assert not any(word in notes for word in ("␣", "⏎", "⊢", "gold", "gradient"))
