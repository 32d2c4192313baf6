"""Reports and explorers in a real browser: they open quietly, fit where they are read, and show what is recorded.

One file, so that one worker opens one browser for it.
"""

import re
from pathlib import Path

import pytest
import torch

from selfattn.runs.attention_view import AttentionView

PAGES = [pytest.param("many_models", marks=pytest.mark.slow), "hostile", "rich"]
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.open = true; });"


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_from_disk_in_silence_and_never_scrolls_sideways(browser, name):
    browser.open(name)
    browser.run(OPEN_DETAILS)
    others = "input[name=view][value=lines], input[name=lang][value=ko], #against-seconds"
    for controls, widths in (("#next", (1280, 760, 320)), (others, (320, 760, 1280))):
        browser.run("document.querySelectorAll(arguments[0]).forEach(one => one.click())", controls)
        for width in widths:
            browser.resize(width)
            assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.logs("browser") == []
    asked = browser.requests()
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert all(url.startswith(("file:", "data:")) for url in asked)


def test_the_language_can_be_switched(browser):
    browser.open()
    assert browser.text("h1").startswith("Does a Transformer")
    browser.choose("input[name=lang][value=ko]")
    assert browser.text("h1").startswith("크기가 같다면 트랜스포머가")
    assert browser.run("return [document.documentElement.lang, document.title.slice(0, 3)]") == ["ko", "크기가"]
    assert browser.one("nav").get_attribute("aria-label") == "목차"
    assert "헤드" in browser.run("return document.getElementById('panels').innerText")
    english = browser.run(
        "return [...document.querySelectorAll('[data-w]')].filter(one => /^[a-z ,]{12,}$/i.test(one.textContent))"
        ".map(one => one.textContent)"
    )
    assert english == []
    browser.choose("input[name=lang][value=en]")
    assert browser.text("h1").startswith("Does a Transformer")


@pytest.mark.parametrize(
    ("fragment", "locale", "lang"), [("#ko", "en-US", "ko"), ("", "ko-KR", "ko"), ("#en", "ko-KR", "en")]
)
def test_it_opens_in_the_language_of_its_address_or_reader(browser, fragment, locale, lang):
    script = f"Object.defineProperty(navigator, 'language', {{value: '{locale}'}})"
    added = browser.command("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    browser.open(fragment=fragment)
    browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
    assert browser.run("return document.documentElement.lang") == lang
    assert browser.one(f"input[name=lang][value={lang}]").is_selected()


def background(browser):
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    return tuple(int(part) for part in re.findall(r"\d+", colour))


def test_light_and_dark_follow_the_system_until_the_reader_chooses(browser):
    def follow(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.command("Emulation.setEmulatedMedia", media="", features=features)
        browser.run("return new Promise(requestAnimationFrame)")  # before this, the page hears of it

    browser.open(dark=True)
    assert max(background(browser)) < 60
    assert browser.one("input[name=theme][value=dark]").is_selected()
    follow("light")
    assert min(background(browser)) > 240
    browser.choose("input[name=theme][value=dark]")
    assert max(background(browser)) < 60
    follow("dark")
    browser.choose("input[name=theme][value=light]")
    assert min(background(browser)) > 240


def test_without_javascript_everything_but_the_controls_is_there(browser):
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open()
        assert browser.one("#still").is_displayed()
        assert not browser.one("#explorer").is_displayed()
        assert not browser.one(".switches").is_displayed()
        browser.one("label[for=against-seconds]").click()
        assert not browser.one(".chart[data-against=step]").is_displayed()
        assert browser.one(".chart[data-against=seconds]").is_displayed()
        assert browser.one(".summary").is_displayed()
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_it_prints_in_black_on_white_without_controls(browser):
    browser.open(dark=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.command("Emulation.setEmulatedMedia", media="print", features=[scheme])
    assert min(background(browser)) == 255
    for selector in (".switches", ".picker", ".copy", ".contents"):
        assert not browser.one(selector).is_displayed()


def test_the_command_can_be_copied(browser):
    data = browser.open()
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.one(".copy").click()
    read = browser.driver.execute_async_script(
        "const done = arguments[0]; setTimeout(() => navigator.clipboard.readText().then(done, done), 50);"
    )
    assert read == data["command"]
    assert browser.text(".copy") == "copied"


@pytest.mark.parametrize(("lang", "dark", "width", "view"), [("en", False, 1280, "map"), ("ko", True, 400, "lines")])
def test_axe_has_no_objection(browser, page, violations, lang, dark, width, view):
    browser.open("rich", lang=lang, width=width, dark=dark)
    browser.run(OPEN_DETAILS)
    browser.choose(f"input[name=view][value={view}]")
    browser.choose("#panels td[data-row='1'][data-column='24']" if view == "map" else "#panels .weave button")
    assert violations() == []
    browser.show(page, dark=dark)
    browser.choose("input[name=view][value=all]")
    assert violations() == []


def test_the_committed_page_of_the_claims_is_accessible(browser, violations):
    browser.show(Path(__file__).resolve().parents[2] / "docs" / "results" / "claims" / "claims.html")
    for lang, width in (("en", 1280), ("ko", 400)):
        browser.resize(width)
        browser.choose(f"input[name=lang][value={lang}]")
        assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.all("svg.plot")
    assert violations() == []


# The attention explorer: what is shown is in the record


TRANSFORMER = "#panels [data-model=transformer]"
RNN = "#panels [data-model=rnn-attention]"


def recorded(data, example=0, model="transformer", **which):
    """The mean of the maps of the record that fit."""
    maps = data["attention"]["examples"][example]["models"][model]["maps"]
    chosen = [one["weights"] for one in maps if all(one[name] == value for name, value in which.items())]
    return [[sum(values) / len(chosen) for values in zip(*rows, strict=True)] for rows in zip(*chosen, strict=True)]


def assert_shown(browser, expected, panel=TRANSFORMER):
    shown = browser.weights(panel)
    assert len(shown) == len(expected)
    for here, there in zip(shown, expected, strict=True):
        assert here == pytest.approx(there, abs=0.00101)


def test_layer_and_head_choose_the_map(browser):
    data, layer, head = browser.open(), 0, 3
    browser.choose(f"{TRANSFORMER} input[name=layer-transformer][value='{layer}']")
    browser.choose(f"{TRANSFORMER} input[name=head-transformer][value='{head}']")
    assert_shown(browser, recorded(data, kind="cross", layer=layer, head=head))
    assert [box.accessible_name for box in browser.all(f"{TRANSFORMER} input:checked")][-2:] == ["0", "3"]
    assert_shown(browser, recorded(data, model="rnn-attention"), RNN)
    browser.choose(f"{TRANSFORMER} input[name=head-transformer][value='mean']")
    assert_shown(browser, recorded(data, kind="cross", layer=layer))


def test_the_picker_walks_through_all_examples(browser):
    data = browser.open()
    examples = data["attention"]["examples"]
    for k, example in enumerate([*examples, examples[0]]):
        shown = browser.run("return ['source', 'target', 'position'].map(id => document.getElementById(id).innerText)")
        assert shown == [example["source"], example["target"], f"{k % len(examples) + 1}/{len(examples)}"]
        assert_shown(browser, recorded(data, k % len(examples), "rnn-attention"), RNN)
        browser.choose("#next")
    browser.choose("#previous")
    browser.one("#previous").click()
    assert browser.text("#source") == examples[-1]["source"]
    browser.one("#example").find_elements("css selector", "option")[3].click()
    assert browser.text("#source") == examples[3]["source"]


def test_pointing_links_row_column_and_value_in_all_panels(browser):
    data = browser.open()
    browser.one(f"{TRANSFORMER} td[data-row='1'][data-column='24']").click()
    for panel, model, which in (
        (TRANSFORMER, "transformer", {"layer": 1, "kind": "cross"}),
        (RNN, "rnn-attention", {}),
    ):
        value = recorded(data, model=model, **which)[1][24]
        assert float(browser.text(f"{panel} .readout").rsplit(": ", 1)[1]) == pytest.approx(value, abs=0.00101)
        heads = [th.text for th in browser.all(f"{panel} th.here")]
        assert heads == ["0", "0"]
        assert len(browser.all(f"{panel} td.spot")) == 1


def test_the_keyboard_reaches_and_walks_the_map(browser):
    from selenium.webdriver.common.keys import Keys

    data = browser.open()

    def press(*keys):
        browser.driver.switch_to.active_element.send_keys(*keys)
        return list(browser.run("const { row, column } = document.activeElement.dataset; return [+row, +column]"))

    browser.run(
        "window.reached = []; addEventListener('focusin', ({ target }) => reached.push(target.id || target.name));"
        "addEventListener('keydown', (event) => {"  # Tab goes as far as the map
        "  if (event.key === 'Tab' && event.target.dataset.row) event.preventDefault(); })"
    )
    assert press(*[Keys.TAB] * 60) == [0, 0]
    assert {"previous", "example", "next", "gold", "view", "head-transformer"} <= set(browser.run("return reached"))
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    last = len(data["attention"]["examples"][0]["source"])
    assert press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT) == [2, 1]
    assert press(Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ARROW_LEFT) == [1, 0]
    assert press(Keys.END) == [1, last]
    assert press(Keys.ARROW_RIGHT) == [1, last]
    assert press(Keys.HOME) == [1, 0]
    assert len(browser.all(f"{TRANSFORMER} td[tabindex='0']")) == 1  # one stop for Tab, where the reader was
    label = browser.driver.switch_to.active_element.get_attribute("aria-label")
    assert label.startswith("writing 0 (last read: 2) reads t: 0.")


def outlined(browser):
    found = browser.run(
        "return [...document.querySelectorAll(arguments[0] + ' td[data-row]')].filter(td =>"
        " /(?:^|[^\\d.])-?[1-9]\\d*(?:\\.\\d+)?px/.test(getComputedStyle(td).boxShadow))"
        ".map(td => [+td.dataset.row, +td.dataset.column])",
        TRANSFORMER,
    )
    return {(row, column) for row, column in found}


def test_gold_spans_are_outlined_unless_the_reader_turns_them_off(browser):
    data = browser.open()
    edges = set()
    for span in data["attention"]["examples"][0]["gold"]:
        (a, b), (c, d) = span["source"], span["target"]
        edges |= {
            (row, column) for row in range(c, d) for column in range(a, b) if row in (c, d - 1) or column in (a, b - 1)
        }
    assert outlined(browser) == edges
    assert [th.text for th in browser.all(f"{TRANSFORMER} th.field") if th.text] == ["year", "month", "day"]
    browser.one("#gold").click()
    assert outlined(browser) == set()


def test_lines_show_what_a_character_reads(browser):
    data = browser.open()
    browser.choose("input[name=view][value=lines]")
    assert browser.all("#panels table") == []
    assert not browser.one("#gold-choice").is_displayed()
    expected = recorded(data, model="rnn-attention")
    drawn = browser.all(f"{RNN} .weave line")
    assert len(drawn) == sum(weight >= 0.03 for row in expected for weight in row)
    browser.all(f"{RNN} .weave button")[2].click()
    best = sorted(expected[2], reverse=True)[:3]
    told = [float(text) for text in re.findall(r"0\.\d{3}", browser.text(f"{RNN} .readout"))]
    assert told == pytest.approx(best, abs=0.00101)
    strong = browser.all(f"{RNN} .weave line:not(.dim)")
    assert len(strong) == sum(weight >= 0.03 for weight in expected[2])
    assert [one.text for one in browser.all(f"{TRANSFORMER} .weave .here")] == ["0"]
    browser.choose("input[name=view][value=map]")
    assert_shown(browser, expected, RNN)


def test_right_to_left_text_stands_as_it_is_read(browser):
    data = browser.open()
    browser.one("#previous").click()
    source = data["attention"]["examples"][-1]["source"]
    line = browser.one(f"{TRANSFORMER} thead").get_attribute("textContent").replace("\u200d", "")
    assert line[0] == "⏎"
    assert line[1:5] == source[-4:] == "٢٠٢٦"  # the number reads from left to right
    assert line[5:].endswith(source[:4][::-1])  # the first word begins at the right


# The explorer of one text: two sentences, all heads at a glance, and a legend of what the page has

TOKENS = ("[CLS]", "a", "dog", "[SEP]", "it", "ran", "[SEP]")
SECOND_TEXT = 4


def weights(*size):
    return torch.rand(*size, generator=torch.Generator().manual_seed(0)).mul(5).softmax(-1)


@pytest.fixture
def page(tmp_path):
    maps = tuple(weights(4, 3, 7, 7))
    view = AttentionView("a dog ↔ it ran", "", TOKENS, (), (), maps, (), second=SECOND_TEXT, without=("layers.9",))
    view.save(tmp_path / "map.html")
    return tmp_path / "map.html"


def test_a_part_shows_what_one_sentence_reads_of_another(browser, page):
    browser.show(page)
    assert len(browser.all("td.cut")) == len(TOKENS)
    browser.choose("input[value='1→2']")
    expected = weights(4, 3, 7, 7)[-1].mean(dim=0)[:SECOND_TEXT, SECOND_TEXT:]
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


def test_the_legend_explains_what_the_page_has(browser, page):
    browser.show(page)
    notes = " ".join(note.text for note in browser.all("p.note"))
    assert "each row of attention sums to 1" in notes
    assert "No weights from: layers.9." in notes
    assert not any(word in notes for word in ("␣", "⏎", "⊢", "gold", "gradient"))
