"""The page's colours have enough contrast; a model has the same sign everywhere."""

import re
from pathlib import Path

import numpy as np
import pytest

from selfattn.report import pictures
from selfattn.report.pictures import COLOURS, INKS, Signs

CSS = (Path(pictures.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
NAMES = tuple(f"m{k}" for k in range(COLOURS))


def theme(opening):
    block = CSS[CSS.index(opening) + len(opening) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block[: block.index("}")]))


LIGHT = theme(":root {")
DARK = theme(":root[data-theme=dark] {")
PRINT = LIGHT | theme(":root:root:root {")


def linear(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    value = np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """The contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_text_and_signs_have_the_contrast_that_wcag_asks_for(colours):
    for ground in ("page", "card"):
        for text in ("ink", "quiet", "bad", "good", "warn"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["bad"], colours["bad-back"]) >= 4.5
    for sign in (*NAMES, "heat", "focus"):
        assert contrast(colours[sign], colours["page"]) >= 3, sign


def test_both_ways_to_dark_are_the_same():
    assert theme(":root:not([data-theme=light]) {") == DARK
    assert set(DARK) == set(LIGHT)


def test_a_model_has_its_sign_on_every_page_and_in_files():
    report, demo = Signs(["mine", "rnn-plain", "transformer", "rnn-attention"]), Signs(["transformer", "rnn-attention"])
    assert all(report[name] == sign for name, sign in demo.items())
    assert len(set(Signs([f"model {k}" for k in range(49)]).values())) == 49
    assert [LIGHT[name] for name in NAMES] == list(INKS)


def test_long_outputs_wrap_in_every_table():
    """A rule that keeps the cells of a table in one line leaves long texts out."""
    parts = ("white-space: nowrap", ".grid", " td:not(")
    rules = [rule for rule in CSS.split("}") if all(part in rule for part in parts)]
    assert rules
    assert all(".long" in rule for rule in rules)
