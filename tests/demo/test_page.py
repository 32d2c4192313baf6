"""The page in a real browser: what it writes is what torch writes, and every control does what it says."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from chromium import Browser
from selenium.webdriver.common.keys import Keys
from zoo import rnn, stack, transformer

from selfattn.demo.page import write_demo
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.families import DecoderOnlyConfig
from selfattn.report.pictures import Signs
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.config import TrainingConfig

RECURRENT = {"hidden_dim": 16}
CONFIGS = {
    **dict.fromkeys(("transformer", "<b>hostile</b>", "constructor"), transformer(dim=16)),
    "rnn-attention": rnn(RECURRENT, RECURRENT),
    "rnn-plain": rnn(RECURRENT, RECURRENT | {"attention": "none"}),
    "learned": transformer(dim=16, position="learned", max_length=9),
    "decoder-only": DecoderOnlyConfig(stack=stack(dim=16, position="alibi")),
}
ROOT = Path(__file__).resolve().parents[2]
TEXT = "May 13, 2008"
FIRST = "#models [data-model=transformer]"
SECOND = "#models [data-model=rnn-attention]"


def run(name, *, task="dates", characters="abcMy 0123456789-,</script>", limit=8):
    tokenizer = CharTokenizer(characters)
    model = build(CONFIGS[name], vocab_size=len(tokenizer), pad_id=0, seed=3).eval()
    noise = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.25 * torch.randn(parameter.shape, generator=noise)
        model.get_parameter("output.bias" if name == "decoder-only" else "decoder.output.bias")[:4] -= 9  # no specials
    return Run(Path(name), RunConfig(task, name, CONFIGS[name], TrainingConfig(), {}, limit), model, tokenizer)


def written(folder, *runs, **options):
    """The page of some runs."""
    write_demo(runs, folder / "demo.html", **options)
    return (folder / "demo.html").read_text("utf-8")


class Page(Browser):
    """An open demo page."""

    def set(self, selector, value):
        script = "const box = document.querySelector(arguments[0]); box.value = arguments[1];"
        self.run(script + "box.dispatchEvent(new Event('input', {bubbles: true}))", selector, str(value))

    def told(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)"
        return list(self.run(script, selector))

    def numbers(self, selector):
        return [float(text.replace("−", "-")) for text in self.told(selector)]

    def output(self, panel, row=".wrote"):
        return "".join(self.told(f"{panel} {row} .token")).removesuffix("⏎").replace("␣", " ")

    def press(self, *keys):
        """Press keys one after the other, and tell which part of the page has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)
        return str(self.run("return document.activeElement.dataset.key"))


@pytest.fixture
def open_page(driver, tmp_path):
    """Write a page of some runs and open it from disk."""

    def open_one(*names, lang="en", width=1280, opening=False, runs=None):
        page = Page(driver, tmp_path)
        write_demo(runs or [run(name) for name in names], tmp_path / "demo.html", lang, [(TEXT, "")])
        page.show(tmp_path / "demo.html", width)
        if not opening:
            page.choose("#last")
        return page

    return open_one


def test_it_writes_what_torch_writes(open_page):
    runs = [run(name) for name in ("transformer", "rnn-attention", "rnn-plain", "decoder-only")]
    page = open_page(runs=runs)
    for text in (TEXT, "13 a", "unknown: \u00fc", "  2008-11-13"):
        page.set("#text", text)
        for one in runs:
            assert page.output(f"#models [data-model='{one.config.preset}']") == one.predict([text])[0]
    page.set("#text", "  ")
    assert page.one("#nothing").is_displayed()
    assert not page.one("#work").is_displayed()


def test_it_opens_from_disk_in_silence_and_texts_of_others_do_nothing(open_page):
    page = open_page("transformer", "rnn-plain", "<b>hostile</b>", "constructor")  # the last: of every object
    assert page.all("#models [data-model=constructor] .map td")
    page.choose("input[name=choose][value=draw]")
    page.choose(f"{FIRST} td[data-row='1'][data-column='2']")
    page.set("#text", "<img src=x onerror=alert(1)></script>")
    page.set("#right", "<b>")
    assert page.all("main img, main script, #models b b") == []
    assert "<b>hostile</b>" in " ".join(page.told("#models h2"))
    page.choose("input[name=lang][value=ko]")
    assert page.logs("browser") == []
    requests = page.requests()
    assert len([url for url in requests if url.startswith("file:")]) == 1
    assert all(url.startswith(("file:", "data:")) for url in requests)


def test_attention_is_torchs_in_every_kind_layer_and_head(open_page):
    one = run("transformer")
    page, view = open_page(runs=[one]), one.attention(TEXT)
    steps = len(page.all(f"{FIRST} .wrote"))  # of an output that was cut off, the view has one more: its end
    for kind, maps in (("cross", view.weights), ("encoder", view.encoder_weights), ("decoder", view.decoder_weights)):
        page.choose(f"{FIRST} input[name=kind-transformer][value={kind}]")
        for layer in (0, 1):
            page.choose(f"{FIRST} input[name=layer-transformer][value='{layer}']")
            for head in ("mean", "1"):
                page.choose(f"{FIRST} input[name=head-transformer][value='{head}']")
                wanted = maps[layer].mean(dim=0) if head == "mean" else maps[layer][int(head)]
                wanted = wanted if kind == "encoder" else wanted[:steps]
                wanted = wanted[:, :steps] if kind == "decoder" else wanted
                torch.testing.assert_close(torch.tensor(page.weights(FIRST)), wanted, rtol=0, atol=0.00051)
    page.choose(f"{FIRST} input[name=kind-transformer][value=encoder]")
    page.choose(f"{FIRST} input[name=layer-transformer][value=rollout]")
    expected = torch.eye(len(view.source_tokens))
    for layer in view.encoder_weights:
        expected = (0.5 * layer.mean(dim=0) + 0.5 * torch.eye(len(expected))) @ expected
    torch.testing.assert_close(torch.tensor(page.weights(FIRST)), expected, rtol=0, atol=0.00051)


def test_a_cell_opens_into_numbers_that_agree(open_page):
    page = open_page("transformer", "rnn-attention", "decoder-only")
    page.choose(f"{FIRST} input[name=head-transformer][value='0']")
    page.choose(f"{FIRST} td[data-row='2'][data-column='4']")
    assert len({one.get_attribute("aria-label") for one in page.all("#models .inside")}) == 3  # the same place in each
    for panel in (FIRST, SECOND, "#models [data-model='decoder-only']"):
        query, key, products, values, parts = (page.numbers(f"{panel} .all td:nth-child({k})") for k in range(2, 7))
        product = sum(one * other for one, other in zip(query, key, strict=True))
        assert sum(products) == pytest.approx(product, abs=0.05)
        sums = page.numbers(f"{panel} .sum b")
        scale = 1.0 if panel == SECOND else 8**0.5
        assert sums[0] == pytest.approx(product / scale, abs=0.05)
        shares = page.numbers(f"{panel} .softmax td:last-child span")
        assert sum(shares) == pytest.approx(1, abs=0.01)
        assert sums[1] in shares
        exponentials = page.numbers(f"{panel} .softmax tbody td:nth-child(3)")
        assert sum(exponentials) == pytest.approx(page.numbers(f"{panel} .softmax tfoot td:nth-child(3)")[0], rel=0.01)
        shown = re.search(r"Σ exp = ([\d.e+-]+) / ([\d.e+-]+) = ([\d.]+)", page.text(f"{panel} .inside"))
        assert float(shown[1]) / float(shown[2]) == pytest.approx(float(shown[3]), abs=0.005)
        assert parts == pytest.approx([sums[1] * value for value in values], abs=0.003)
    page.choose(f"{FIRST} .inside button")
    assert page.all("#models .inside") == []


def test_a_query_is_named_by_what_it_writes_and_what_was_read_last(open_page):
    page = open_page("transformer", "rnn-attention")
    first, second = page.output(FIRST)[:2]
    page.choose(f"{FIRST} input[name=kind-transformer][value=decoder]")
    cell = f"{FIRST} td[data-row='1'][data-column='0']"
    label = page.run("return document.querySelector(arguments[0]).ariaLabel", cell)
    assert label.startswith(f"writing {second} (last read: {first}) to ⊢: ".replace("  ", " ␣"))
    heads = page.told(f"{FIRST} .map tbody th")
    read = run("transformer").attention(TEXT).decoder_tokens  # the library's names of the same queries
    assert read[0] == "<bos>"
    assert [head.rsplit("(", 1)[1][0] for head in heads] == ["⊢", *read[1:]][: len(heads)]
    axes = page.text(f"{FIRST} .axes")
    assert "↓ writes (last read)" in axes
    assert "→ read so far" in axes
    assert "weight 0" in axes
    for row, words in enumerate(["Softmax over 1 key", "Softmax over 2 keys"]):
        page.choose(f"{FIRST} td[data-row='{row}'][data-column='0']")
        assert f"{words} " in page.text(f"{FIRST} .inside")


def test_an_example_opens_with_a_question_before_the_weights(open_page):
    """The first digit is about to be written; a press, or another step, shows where the model looks."""
    page = open_page("transformer", "rnn-attention", opening=True)
    written = page.output(FIRST)
    step = next((place for place, character in enumerate(written, 1) if character.isdigit()), 1)
    assert page.text("#place").startswith(f"step {step} of ")
    assert "Where will the model look?" in page.text(f"{FIRST} .question")
    row = f"{FIRST} .map tr.now td[data-row]"
    labels = page.run("return [...document.querySelectorAll(arguments[0])].map(td => td.ariaLabel)", row)
    assert all("?" in label for label in labels)
    page.choose(f"{FIRST} [data-key=show]")
    assert sum(page.weights(FIRST)[step - 1]) == pytest.approx(1, abs=0.01)
    assert not page.all(".question")
    page.choose("#examples button")
    assert len(page.all(".question")) == 2
    page.set("#text", "13 May")
    assert not page.all(".question")


def test_on_a_phone_the_largest_weight_of_a_step_is_in_sight(open_page):
    page = open_page("transformer", "rnn-attention", width=400)
    page.set("#text", "May 13, 2008, a 2008-11-13 2008-11-13")
    places = (
        "const box = (one) => { const { left, right } = one.getBoundingClientRect(); return [left, right]; };"
        "const weight = (td) => parseFloat(td.style.getPropertyValue('--w'));"
        "const cells = [...document.querySelectorAll(arguments[0] + ' tr.now td[data-row]')];"
        "const cell = cells.reduce((most, td) => weight(td) > weight(most) ? td : most);"
        "return [...box(cell.closest('.scroll')), ...box(cell)];"
    )
    for panel in (FIRST, SECOND):
        for step in ("#first", "#forward", "#last"):
            page.choose(step)
            frame_left, frame_right, left, right = page.run(places, panel)
            assert frame_left - 1 <= left
            assert right <= frame_right + 1


def test_a_forced_token_stays_and_the_model_goes_on_from_it(open_page):
    page = open_page("transformer", "rnn-attention")
    before = {panel: page.output(panel) for panel in (FIRST, SECOND)}
    page.choose("#first")
    other = f"{FIRST} .candidates button:not(:disabled)"
    [token, *_] = page.told(other)
    page.choose(other)
    assert page.output(FIRST)[0] == token.replace("␣", " ")
    assert page.output(FIRST, ".other-row") == before[FIRST]
    assert page.output(SECOND) == before[SECOND]
    page.choose(f"{FIRST} [data-key=release]")
    assert page.output(FIRST) == before[FIRST]
    assert not page.all(f"{FIRST} .other-row")


def test_an_output_begins_with_the_prefix_as_in_the_library(open_page):
    """Texts of the page: `predict(prefix=...)`; also in the beam. What no token can write is said."""
    models = [run("transformer"), run("rnn-attention")]
    page = open_page(runs=models)
    page.set("#prefix", "20")
    for panel, model in zip((FIRST, SECOND), models, strict=True):
        expected = model.decode([TEXT], prefix="20")[0][0].text
        assert expected.startswith("20")
        assert page.output(panel) == expected
        assert len(page.all(f"{panel} .wrote.begun")) == 2
    page.choose(f"{FIRST} [data-key=beam]")
    best = models[0].decode([TEXT], prefix="20", beam=3)[0][0].text
    assert best in page.text(f"{FIRST} .more")
    page.set("#prefix", "한")
    assert "The output cannot begin so" in page.text(FIRST)
    page.set("#prefix", "2" * 8)
    assert "This beginning is as long as an output may be" in page.text(FIRST)
    page.set("#prefix", "")
    assert page.output(FIRST) == models[0].predict([TEXT])[0]


def test_the_way_of_a_token_states_and_beam_open(open_page, violations):
    page = open_page("transformer", "rnn-attention", lang="ko", width=400)
    for key in ("way", "states", "beam"):
        for panel in (FIRST, SECOND):
            page.choose(f"{panel} [data-key={key}]")
    assert "은닉 상태 h" in page.text(f"{SECOND} .more")
    assert "맥락 벡터 c" in page.text(f"{SECOND} .more")
    assert "셀프 어텐션 뒤, 층 1" in page.text(f"{FIRST} .more")
    assert len(page.all(f"{SECOND} .time canvas")) == 2
    assert page.all(f"{FIRST} .tree line.best")
    assert page.run("return document.documentElement.scrollWidth") <= 400
    assert page.logs("browser") == []
    assert violations() == []


def test_a_language_model_goes_on_from_what_is_typed(open_page):
    one = run("decoder-only", task="lm", limit=12)
    page = open_page(runs=[one])
    panel = "#models [data-model='decoder-only']"
    for text in ("May 1", "a", "2008-1 a 2008-1"):
        page.set("#text", text)
        begun = text[-6:]  # half of the context
        assert page.output(panel) == begun + one.predict([text])[0].removeprefix(text)
    assert not page.one("#reading").is_displayed()
    assert page.all(f"{panel} .wrote.begun")
    assert page.all(f"{panel} .map td")
    assert page.logs("browser") == []


def test_a_blocked_token_gets_no_weight_and_what_changes_is_shown(open_page):
    page = open_page("transformer", "rnn-attention", "rnn-plain")
    before = {panel: page.output(panel) for panel in (FIRST, SECOND)}
    page.choose("#source .read:nth-child(5)")
    assert page.one("#source .read:nth-child(5)").get_attribute("aria-pressed") == "true"
    for panel in (FIRST, SECOND):
        assert {row[4] for row in page.weights(panel)} == {0}
        assert page.output(panel, ".other-row") == before[panel]
    assert "nothing to block" in page.text("#models [data-model=rnn-plain] .notes")
    page.choose("#clear")
    assert {panel: page.output(panel) for panel in before} == before
    assert page.all("#models .other-row") == []


def test_the_keyboard_is_enough(open_page):
    page = open_page("transformer", "rnn-attention", lang="ko", width=400)
    page.run("document.getElementById('text').focus()")
    page.press(Keys.CONTROL, "a", Keys.NULL, "13 May")
    assert page.run("return document.getElementById('text').value") == "13 May"
    page.run(
        "window.reached = []; const called = ({ id, dataset, name }) => id || dataset.key || name;"
        "addEventListener('focusin', ({ target }) => reached.push(called(target)));"
        "addEventListener('keydown', (event) => {"  # Tab goes as far as the map
        "  if (event.key === 'Tab' && called(event.target) === 'cell-0-0') event.preventDefault(); })"
    )
    assert page.press(*[Keys.TAB] * 25) == "cell-0-0"
    wanted = {"prefix", "right", "choose", "temperature", "read-0", "play", "first", "back", "step"}
    assert wanted <= set(page.run("return reached"))
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT) == "cell-1-1"
    page.press(Keys.ENTER)
    assert len(page.all("#models .inside")) == 2
    assert page.run("return document.documentElement.scrollWidth") <= 400
    assert page.press(Keys.ARROW_RIGHT) == "cell-1-2"
    assert " → " in page.text(f"{FIRST} .inside h3")
    assert page.press(Keys.TAB) == "close"
    assert page.press(Keys.ESCAPE) == "cell-1-2"
    assert page.all("#models .inside") == []
    page.run("document.querySelector('#source .read').focus()")
    assert page.press(Keys.ARROW_RIGHT, Keys.SPACE) == "read-1"
    assert page.run("return document.activeElement.ariaPressed") == "true"
    page.run("document.querySelector(arguments[0] + ' .wrote').focus()", SECOND)
    assert page.press(Keys.HOME, Keys.ARROW_RIGHT) == "wrote-1"
    assert "단계 중 2단계" in page.text("#place")


def test_a_screen_reader_is_told_what_was_written(open_page):
    page = open_page("transformer", "rnn-attention")
    page.run("const wait = setTimeout; window.setTimeout = (then, time) => wait(then, time > 900 ? 1e6 : 0)")  # no rest
    region = page.one("#said")
    assert (region.get_attribute("role"), region.get_attribute("aria-live")) == ("status", "polite")

    def said():
        page.driver.execute_async_script("setTimeout(arguments[0], 900)")
        return " ".join(page.told("#said"))

    page.set("#text", "13 May")
    outputs = said()
    assert f"transformer writes {page.output(FIRST)}" in outputs
    assert f"rnn-attention writes {page.output(SECOND)}" in outputs
    page.choose("#first")
    step = said()
    assert step.startswith("step 1 of ")
    assert "rnn-attention writes" in step
    page.choose(f"{FIRST} td[data-row='0'][data-column='3']")
    assert re.match(r"From .+ to .+: layer 1, head [0-3]\b.*Σ exp = ", said())
    unnamed = page.run(
        "return [...document.querySelectorAll('button, input, [role=group], [role=grid], td[data-row]')].filter(one =>"
        " !(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.getAttribute('aria-labelledby')))"
        ".map(one => one.outerHTML)"
    )
    assert unnamed == []


def test_what_cannot_run_says_so(open_page, tmp_path):
    language_model, short = run("decoder-only", task="lm"), run("learned")
    page = open_page(runs=[run("transformer"), language_model, short])
    assert "language model" in page.text("#models [data-model='decoder-only']")
    assert "reads at most 9 tokens" in page.text("#models [data-model='learned']")
    page.set("#text", "May 13")
    assert page.output("#models [data-model='learned']") == short.predict(["May 13"])[0]
    foreign = written(tmp_path, run("rnn-attention")).replace('"score":"dot"', '"score":"mine"')
    (tmp_path / "foreign.html").write_text(foreign)
    page.driver.get((tmp_path / "foreign.html").as_uri())
    page.set("#text", TEXT)
    assert "does not know (score mine)" in page.text("#models .panel")


def test_what_no_page_is_made_of_is_refused(tmp_path):
    short, exported = run("learned"), run("transformer")
    exported.model = torch.nn.Module()
    for runs, place, options, message in (
        ([], tmp_path / "demo.html", {}, "at least one run"),
        ([short], tmp_path / "demo.html", {"lang": "xx"}, "language 'xx'"),
        ([short], Path("no such folder", "demo.html"), {}, "cannot be written"),
        ([short, short], tmp_path / "demo.html", {}, "given twice"),
        ([exported], tmp_path / "demo.html", {}, "transformer: an exported run has no weights for a page"),
    ):
        with pytest.raises(UserError, match=message):
            write_demo(runs, place, **options)


def test_models_have_the_names_and_colours_of_the_report(tmp_path):
    runs = [run("transformer"), run("transformer")]
    for path, name in (("second-seed", "second-seed"), ("elsewhere/transformer", "elsewhere/transformer")):
        runs[1].path = Path(path)
        assert f'"name":"{name}"' in written(tmp_path, *runs)
    page = written(tmp_path, run("rnn-attention"), labels=["far"], names=["other", "third", "far"])
    sign = Signs(["other", "third", "far"])["far"]
    assert '"name":"far"' in page
    assert f'"colour":{sign.colour}' in page
    assert sign.colour != Signs(["rnn-attention"])["rnn-attention"].colour


def test_pages_and_explorers_are_as_new_as_the_code():
    """They have the words, the script and the style of today, around the models and maps that they hold."""
    make_demo = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "make_demo.py")))
    notebooks = [path for path in make_demo.NOTEBOOKS.glob("*.ipynb") if "srcdoc" in path.read_text(encoding="utf-8")]
    assert len(notebooks) == 4
    pages = {path: make_demo.renewed(path) for path in make_demo.HERE.glob("*.html")}
    for path, renewed in (pages | {path: make_demo.renewed_notebook(path) for path in notebooks}).items():
        assert path.read_text(encoding="utf-8") == renewed, f"{path.name} is old: run python docs/make_demo.py"
