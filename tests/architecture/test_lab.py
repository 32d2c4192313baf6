"""The lab checks the answers of its readers: wrong ones are told what is wrong with them, in both languages."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from selfattn.attention import dot
from selfattn.attention.core import attend

LABS = Path(__file__).resolve().parents[2] / "docs" / "class"
ENDS = ("", ".ko")


def cells(name: str) -> list[tuple[str, list[str]]]:
    notebook = json.loads((LABS / name).read_text(encoding="utf-8"))
    return [("".join(each["source"]), each["metadata"].get("tags", [])) for each in notebook["cells"]]


def checks(end: str) -> dict[str, Any]:
    """The names that the check cells define, without their last line, which checks the reader's answer."""
    names: dict[str, Any] = {}
    for text, tags in cells(f"lab{end}.ipynb"):
        if "check" in tags:
            exec("\n".join(line for line in text.splitlines() if not line.startswith("report(")), names)
    return names


@pytest.fixture(params=ENDS, ids=["english", "korean"])
def lab(request: pytest.FixtureRequest) -> SimpleNamespace:
    return SimpleNamespace(**checks(request.param))


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = (query @ key.mT).masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ value


@pytest.mark.parametrize(
    ("weights", "output", "told"),
    [
        (None, None, "None"),
        ((0.9, 0.05, 0.05), 12, "1 to 2 to 5|1 대 2 대 5"),
        ((1, 2, 5), 12, "8.00"),
        ((-0.5, 1, 0.5), 12, "negative|음수"),
        ((1 / 8, 2 / 8, 5 / 8), -1, "between 4 and 16|4와 16 사이"),
        ((1 / 8, 2 / 8, 5 / 8), 9.3, "summed|더한"),
        ((12.5, 25, 62.5), 12, "percentages|백분율"),
        ("1/8, 2/8, 5/8", 12, "three numbers|수 세 개"),
        (0.125, 12, "three numbers|수 세 개"),
        ((1 / 8, 2 / 8, 5 / 8), "twelve", "one number|수 하나"),
    ],
)
def test_wrong_weights_and_sums_are_told_apart(lab: SimpleNamespace, weights: Any, output: Any, told: str) -> None:
    assert any(part in lab.check_1(weights, output) for part in told.split("|"))


WRONG_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "ignores the query": (lambda q, k, v, mask: plain(q * 0, k, v, mask), "depend on the query|쿼리에 따라"),
    "ignores the mask": (lambda q, k, v, mask: plain(q, k, v, mask | True), "mask is False|마스크가 False"),
    "hides with zero": (lambda q, k, v, mask: (q @ k.mT).masked_fill(~mask, 0.0).softmax(-1) @ v, "exp(0)"),
    "turns the mask round": (lambda q, k, v, mask: plain(q, k, v, ~mask), "wrong way round|거꾸로"),
    "divides": (lambda q, k, v, mask: plain(q / 8**0.5, k, v, mask), "√8"),
    "another axis": (lambda q, k, v, mask: (q @ k.mT).softmax(-2) @ v, "dim=-1"),
    "weights only": (lambda q, k, v, mask: (q @ k.mT).softmax(-1), "(2, 4, 3, 8)"),
    "hidden too late": (lambda q, k, v, mask: ((q @ k.mT).softmax(-1) * mask) @ v, "before the softmax|소프트맥스 앞"),
    "no softmax": (lambda q, k, v, mask: (q @ k.mT) @ v, "no softmax|소프트맥스가 없"),
    "averages keys": (lambda q, k, v, mask: plain(q, k, k, mask), "average the keys|키를 가중합"),
    "compares values": (lambda q, k, v, mask: plain(q, v, v, mask), "query with the values|쿼리를 값과"),
    "infinity times zero": (lambda q, k, v, mask: plain(q * math.inf, k, v, mask), "NaN"),
    "weights beside it": (lambda q, k, v, mask: (plain(q, k, v, mask), mask), "alone|출력만"),
    "something else": (lambda q, k, v, mask: plain(q, k, v, mask) + 1, "1.00"),
    "stops": (lambda q, k, v, mask: q @ k, "RuntimeError"),
    "nothing": (lambda q, k, v, mask: None, "None"),
}


@pytest.mark.parametrize("name", WRONG_FUNCTIONS)
def test_wrong_functions_are_told_apart(lab: SimpleNamespace, name: str) -> None:
    function, told = WRONG_FUNCTIONS[name]
    assert any(part in lab.check_2(function) for part in told.split("|"))


def view() -> SimpleNamespace:
    """Attention of a model that wrote `12`: its last character reads position 3, the end position 0."""
    picture = torch.tensor([[0.1, 0.9, 0.0, 0.0], [0.1, 0.0, 0.1, 0.8], [0.7, 0.1, 0.1, 0.1]])
    decoder = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]]])
    return SimpleNamespace(
        source_tokens=("a", "1", "b", "2"),
        target_tokens=("1", "2", "<eos>"),
        decoder_tokens=("<bos>", "1", "2"),
        decoder_weights=(decoder,),
        picture=lambda: picture,
    )


def test_the_right_answers_are_right(lab: SimpleNamespace) -> None:
    assert lab.check_1((1 / 8, 2 / 8, 5 / 8), 12) is None
    for rounded in ((0.13, 0.25, 0.63), (0.12, 0.25, 0.62), ("1/8", "1/4", "5/8")):
        assert lab.check_1(rounded, "12") is None
    assert lab.check_2(plain) is None
    assert lab.check_2(lambda q, k, v, mask: attend(q, k, v, score=dot, mask=mask).output) is None
    assert lab.check_3(3, view()) is None
    assert lab.check_4(["<bos>", "1"], "swapped", view()) is None


def test_wrong_rows_and_tokens_are_told_apart(lab: SimpleNamespace) -> None:
    said = [lab.check_3(position, view()) for position in (None, "2", 9, 0, 1, 2, [3], 2.5)]
    assert len(set(said)) == len(said) - 1
    assert said[-1] == said[-2]
    assert "⏎" in said[3]
    seen = ["<bos>", "1"]
    wrong: list[Any] = [
        (None, None),
        (["1", "2"], "swapped"),
        (["<bos>"], "swapped"),
        (seen, "nothing"),
        (seen, "else"),
    ]
    wrong += [([], "else"), ("<bos> 1", "swapped"), (seen, "swap")]
    said = [lab.check_4(*answers, view()) for answers in wrong]
    assert len(set(said)) == len(said)


def test_guesses_and_curves_are_checked(lab: SimpleNamespace) -> None:
    measured = {"rnn-peeky": 5.0, "rnn-attention": 88.0, "transformer": 40.0}
    assert lab.check_5({"rnn-peeky": 50, "rnn-attention": 10, "transformer": 40}, measured)
    assert lab.check_5(dict.fromkeys(measured), measured)
    assert lab.check_5(measured, measured) is None
    names = list(measured)
    guesses: tuple[list[Any], ...] = (
        [0.1, 0.9, 0.5],
        ["10 %", "90 %", "50 %"],
        [50, 50, 50],
        [10, 190, 50],
        [10, 50, 90],
    )
    told = [lab.check_5(dict(zip(names, guess, strict=True)), measured) for guess in guesses]
    told.append(lab.check_5({"rnn-peeky": 1, "transformer": 50}, measured))
    assert None not in told
    assert len(set(told)) == len(told)
    zeros = dict.fromkeys(measured, 0)
    assert lab.check_5(zeros, measured) == lab.check_5(dict.fromkeys(measured, 50), measured), "equal, not parts of 1"
    assert lab.check_5(zeros, dict.fromkeys(measured, 0.0)) is None
    assert lab.check_5(dict(zip(names, [0, 1, 0.4], strict=True)), measured) == told[0], "parts of 1"
    assert lab.check_5(dict(zip(names, [0, 2, 1], strict=True)), measured) is None
    curves = {"rnn-attention": [1.0, 20.0, 70.0, 88.0], "transformer": [30.0, 40.0, 20.0, 1.0]}
    lab.check_6.__globals__["rates"] = (0.002, 0.004, 0.016, 0.032)
    assert lab.check_6("transformer", "rnn-attention", "Trained on 20,000 dates, one run each.", curves) is None
    short = ("The RNN wins.", "RNN이 더 낫다.")
    for sentence in short:
        assert lab.check_6("transformer", "rnn-attention", sentence, curves) is None
    wrong: list[Any] = [(None, None, ""), ("rnn-attention", "rnn-attention", ""), ("transformer", "transformer", "a")]
    wrong += [("RNN", "transformer", ""), ([1.0, 2.0], "transformer", ""), ("transformer", "rnn-attention", "ok")]
    said = [lab.check_6(*answers, curves) for answers in wrong]
    assert None not in said
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("end", ENDS)
def test_a_students_copy_has_no_solutions_and_a_lecturers_has_all(end: str) -> None:
    student = cells(f"lab{end}.ipynb")
    lecturer = cells(f"lab-solutions{end}.ipynb")
    answers = [text for text, tags in student if "answer" in tags]
    assert not any("solution" in tags for _, tags in student)
    assert len(answers) == 6 == sum("solution" in tags for _, tags in lecturer)
    assert all(text.startswith(("# Your answer", "# 여기에 답을 쓰세요")) for text in answers)
    assert [text for text, tags in student if "answer" not in tags] == [
        text for text, tags in lecturer if "solution" not in tags
    ]


def test_both_languages_have_the_same_program() -> None:
    """The same code but for comments and texts."""

    def skeleton(end: str) -> list[str]:
        lines = []
        for text, tags in cells(f"lab-solutions{end}.ipynb"):
            if tags:
                lines += [
                    line.split("(")[0].split("=")[0].strip() for line in text.splitlines() if "return" not in line
                ]
        return [line for line in lines if line.isascii() and '"' not in line and "#" not in line]

    assert skeleton("") == skeleton(".ko")
