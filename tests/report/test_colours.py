"""The page's colours: enough contrast for everyone, models told apart by readers who are colour-blind."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from selfattn.report.drawing import palette
from selfattn.report.drawing.palette import COLOURS, INKS, Signs

CSS = (Path(palette.__file__).parents[1] / "templates" / "report.css").read_text(encoding="utf-8")
NAMES = tuple(f"m{k}" for k in range(COLOURS))
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}


def theme(opening: str) -> dict[str, str]:
    """The colours of one block of the style sheet."""
    block = CSS[CSS.index(opening) + len(opening) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block[: block.index("}")]))


LIGHT = theme(":root {")
DARK = theme(":root[data-theme=dark] {")
PRINT = LIGHT | theme(":root:root:root {")


def linear(colour: str) -> np.ndarray:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    value = np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Ottosson's OKLab, in which distances are even to the eye."""
    to_cone = np.array(
        [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]
    )  # fmt: skip
    to_lab = np.array(
        [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
         [0.0259040371, 0.7827717662, -0.808675766]]
    )  # fmt: skip
    return to_lab @ np.cbrt(to_cone @ np.clip(rgb, 0, 1))


@pytest.mark.parametrize("colours", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_text_and_signs_have_the_contrast_that_wcag_asks_for(colours: dict[str, str]) -> None:
    for ground in ("page", "card"):
        for text in ("ink", "quiet", "bad", "good", "warn"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["bad"], colours["bad-back"]) >= 4.5
    for sign in (*NAMES, "heat", "focus"):
        assert contrast(colours[sign], colours["page"]) >= 3, sign


def test_both_ways_to_dark_are_the_same() -> None:
    assert theme(":root:not([data-theme=light]) {") == DARK
    assert set(DARK) == set(LIGHT)


def test_a_model_has_its_sign_on_every_page_and_in_files() -> None:
    report, demo = Signs(["mine", "rnn-plain", "transformer", "rnn-attention"]), Signs(["transformer", "rnn-attention"])
    assert all(report[name] == sign for name, sign in demo.items())
    assert len(set(Signs([f"model {k}" for k in range(49)]).values())) == 49
    assert [LIGHT[name] for name in NAMES] == list(INKS)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_four_models_are_told_apart_by_colour_alone(colours: dict[str, str], blindness: str) -> None:
    seen = [oklab(BLINDNESS[blindness] @ linear(colours[name])) for name in NAMES[:4]]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 0.04
