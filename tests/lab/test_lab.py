"""The lab's checks: no wrong answer is called right, each is named, and no order of the cells breaks them."""

import json
import re
import runpy
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from third_party import isolated_registries
from torch.nn.functional import dropout, one_hot, scaled_dot_product_attention

from selfattn import MultiHeadAttention, attend
from selfattn.attention import dot
from selfattn.tasks.dates import Dates

DOCS = Path(__file__).resolve().parents[2] / "docs"
CLASS, LECTURER = DOCS / "class", DOCS / "lecturer"
handouts = SimpleNamespace(**runpy.run_path(str(LECTURER / "make_handouts.py")))
notebooks = SimpleNamespace(**runpy.run_path(str(DOCS / "make_notebooks.py")))
INFINITY = float("inf")
Tensor = torch.Tensor


def cells(path, tag):
    found = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(each["source"]) for each in found if tag in each["metadata"].get("tags", ())]


class Lab:
    """The lab after its cell of checks; `ask` gives an exercise's mark and what is said about the answers."""

    def __init__(self, name="lab.ipynb"):
        self.names = {}
        self.program = cells(CLASS / name, "hide-input")[0]
        exec(self.program, self.names)
        self.found = self.names["found"]

    def ask(self, exercise, **answers):
        self.names.update(answers)
        return self.found(exercise)


@pytest.fixture(params=["lab.ipynb", "lab.ko.ipynb"])
def lab(request):
    return Lab(request.param)


VIEW = SimpleNamespace(
    source_tokens=("1", "3", "<eos>"),
    target_tokens=("2", "0", "1", "<eos>"),
    decoder_tokens=("<bos>", "2", "0", "1"),
    decoder_weights=(torch.tril(torch.ones(1, 4, 4)) / torch.arange(1.0, 5)[:, None],),
    picture=lambda: torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.3, 0.6, 0.1], [0.0, 0.1, 0.9]]),
)
DATES = {"rnn-attention": 6400, "transformer": 24000, "rnn-peeky": INFINITY, "transformer-rope": 12000}

WHOLE = "로프가절반의날짜로90%에이르렀다"  # a sentence without spaces
MODELS = ("rnn-attention", "transformer", "rnn-peeky")
GUESS = dict(zip(MODELS, (9, 8, "never"), strict=True))
ROUNDED = {"transformer": 21_600, "transformer-rope": 12_000}
NEVER = {"transformer": INFINITY, "transformer-rope": 12_000}
EQUAL = {"transformer": 12_000, "transformer-rope": 12_000}


def masked(query, key, mask):
    return (query @ key.mT).masked_fill(~mask, -INFINITY)


def right(query, key, value, mask):
    return masked(query, key, mask).softmax(dim=-1) @ value


SEEN = [0, 1, 3]  # by one mask
LAYER = MultiHeadAttention(8, num_heads=1, score="dot", project=False)
WRONG = [
    (lambda q, k, v, m: right(q.div_(q.shape[-1] ** 0.5), k, v, m), "√8"),
    (lambda q, k, v, m: right(q, k, v, m.fill_(True)), "whose mask is False gets a weight"),
    (lambda q, k, v, m: right(q, k, v, m.logical_not_()), "wrong way round"),
    (lambda q, k, v, m: (q @ k[:, :, SEEN].mT).softmax(dim=-1) @ v[:, :, SEEN], "right for one mask"),
    (lambda q, k, v, m: right(q, k, v, torch.tensor([True, True, False, True, False])), "right for one mask"),
    (lambda q, k, v, m: attend(q, k, v, score=dot, mask=m).output, "write yours"),
    (lambda q, k, v, m: LAYER(q[0], k[0], mask=m).output, "write yours"),
    (lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m[None], scale=1.0), "write yours"),
    (lambda q, k, v, m: right(q, k, v, m).numpy(), "NumPy"),
    (lambda q, k, v, m: (right(q, k, v, m), m), "without the weights"),
    (lambda q, k, v, m: 12.0, "returns a float"),
    (lambda q, k, v, m: right(q, k, v, m)[0], "shape"),
    (lambda q, k, v, m: nobody, "NameError"),  # noqa: F821
    (lambda q, k, v, m: q @ k, "stops"),
    (lambda q, k, v, m: torch.nan_to_num(masked(q, k, m).softmax(dim=0)) @ v, "axis 0"),
    (lambda q, k, v, m: torch.nan_to_num(masked(q, k, m).softmax(dim=1)) @ v, "axis 1"),
    (lambda q, k, v, m: (q @ k.mT).masked_fill(~m, -1e9).softmax(dim=-2) @ v, "axis 2"),
    (lambda q, k, v, m: (q @ k.mT * m) @ v, "no softmax"),
    (lambda q, k, v, m: ((q @ k.mT).softmax(dim=-1) * m) @ v, "after the softmax"),
    (lambda q, k, v, m: (q @ k.mT * m).softmax(dim=-1) @ v, "exp(0) = 1"),
    (lambda q, k, v, m: right(q, k, k, m), "average the keys"),
    (lambda q, k, v, m: right(q, v, v, m), "with the values"),
    (lambda q, k, v, m: right(torch.ones_like(q), k, v, m), "do not depend on the query"),
    (lambda q, k, v, m: right(q, k, v, m) * INFINITY * 0, "NaN"),
    (lambda q, k, v, m: right(q, k, v, m) + 0.5, "differs by up to 0.50"),
    (lambda q, k, v, m: ((q @ k.mT) + m.float()).softmax(dim=-1) @ v, "you add the mask"),
    (lambda q, k, v, m: ((q @ k.mT) + torch.where(m, 0.0, 1e9)).softmax(dim=-1) @ v, "not a large number"),
    (lambda q, k, v, m: ((q @ k.mT) + torch.where(m, -1e9, 0.0)).softmax(dim=-1) @ v, "wrong way round"),
    (lambda q, k, v, m: (q @ k.mT).masked_fill(~m, -10).softmax(dim=-1) @ v, "hidden score of -10"),
    (lambda q, k, v, m: (masked(q, k, m) / q.shape[-1]).softmax(dim=-1) @ v, "scaled (d)"),
    (lambda q, k, v, m: right(-q, k, v, m), "wrong sign"),
    (lambda q, k, v, m: masked(q, k, m).softmax(dim=-1).softmax(dim=-1) @ v, "two softmaxes"),
    (lambda q, k, v, m: one_hot(masked(q, k, m).argmax(dim=-1), k.shape[-2]).float() @ v, "all the weight"),
    (lambda q, k, v, m: masked(q, k, m).sigmoid() @ v, "sigmoid"),
    (lambda q, k, v, m: ((q @ k.mT).exp() * m) @ v, "divide them by their sum"),
    (lambda q, k, v, m: (q @ k.mT).masked_fill(~m, -1e9).log_softmax(dim=-1) @ v, "logarithms"),
    (lambda q, k, v, m: dropout(masked(q, k, m).softmax(dim=-1), 0.5) @ v, "another output each time"),
    (lambda q, k, v, m: right(q, k, v, m).round(decimals=2), "rounded"),
    (lambda q, k, v, m: right(q.half(), k.half(), v.half(), m), "float16"),
    (lambda q, k, v, m: right(q, k, v, m) + 0j, "complex64"),
    (lambda q, k, v, m: right(q, k, v, m).to_sparse(), "cannot be checked"),
    (lambda q, k, v, m: right(q, k, v, m).tolist(), "returns a list"),
    (lambda q, k, v, m: masked(q, k, m).softmax(dim=-1), "shape of the scores or weights"),
    (lambda q, k, v, m: right(q, k.transpose(1, 2), v, m), "[b h e j]"),
    (lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m), "write yours"),
    (lambda q, k, v, m: sys.exit(3), "SystemExit"),
]


@pytest.mark.parametrize(("answer", "named"), WRONG, ids=[named for _, named in WRONG])
def test_a_wrong_function_is_never_right_and_its_mistake_is_named(answer, named):
    mark, said = Lab().ask(2, my_attend=answer)
    assert mark == "✗"
    assert named in said
    assert Lab("lab.ko.ipynb").ask(2, my_attend=answer)[0] == "✗"


def test_right_functions_are_right_in_any_style(lab):
    def with_einsum(query, key, value, mask):
        exponentials = torch.einsum("bhie,bhje->bhij", query, key).exp() * mask
        return torch.einsum("bhij,bhjc->bhic", exponentials / exponentials.sum(dim=-1, keepdim=True), value)

    def in_double(query, key, value, mask):
        return right(query.double(), key.double(), value.double(), mask)

    for answer in (right, with_einsum, in_double):
        assert lab.ask(2, my_attend=answer)[0] == "✓"
    assert lab.ask(2, my_attend=lambda *_: None)[0] == "…"
    assert "return" in lab.ask(2, my_attend=print)[1]
    assert lab.ask(2, my_attend=3)[0] == "✗"


@pytest.mark.parametrize(
    ("exercise", "answers", "mark", "named"),
    [
        (1, {"weights_by_hand": (0.125, 0.25, 0.625), "output_by_hand": 12}, "✓", ""),
        (1, {"weights_by_hand": None, "output_by_hand": None}, "…", "no answer"),
        (1, {"weights_by_hand": (0.9, 0.05, 0.05), "output_by_hand": 12}, "✗", "1 to 2 to 5"),
        (1, {"weights_by_hand": (1, 2, 5), "output_by_hand": 12}, "✗", "8.00"),
        (1, {"weights_by_hand": (-0.5, 1, 0.5), "output_by_hand": 12}, "✗", "negative"),
        (1, {"weights_by_hand": (12.5, 25, 62.5), "output_by_hand": 12}, "✗", "percentages"),
        (1, {"weights_by_hand": 0.125, "output_by_hand": 12}, "✗", "three numbers"),
        (1, {"weights_by_hand": (0.5, 0.5), "output_by_hand": 12}, "✗", "not 2"),
        (1, {"weights_by_hand": (0.12, 0.25, 0.62), "output_by_hand": 12}, "✓", ""),
        (1, {"weights_by_hand": (1 / 8, 2 / 8, 5 / 8), "output_by_hand": -1}, "✗", "between 4 and 16"),
        (1, {"weights_by_hand": (1 / 8, 2 / 8, 5 / 8), "output_by_hand": 9.3}, "✗", "summed"),
        (1, {"weights_by_hand": (1 / 8, 2 / 8, 5 / 8), "output_by_hand": "twelve"}, "✗", "one number"),
        (1, {"weights_by_hand": ["1/8", "1/4", "5/8"], "output_by_hand": "12"}, "✓", ""),
        (1, {"weights_by_hand": (0.1, 0.3, 0.6), "output_by_hand": 11.6}, "✗", "Round less"),
        (1, {"weights_by_hand": (0.1, 0.2, 0.6), "output_by_hand": 12}, "✗", "Round less"),
        (1, {"weights_by_hand": (5 / 8, 2 / 8, 1 / 8), "output_by_hand": 12}, "✗", "order of the scores"),
        (1, {"weights_by_hand": "1/8", "output_by_hand": 12}, "✗", "three numbers"),
        (1, {"weights_by_hand": 10**400, "output_by_hand": 12}, "✗", "three numbers"),
        (1, {"weights_by_hand": (10**400, 1, 2), "output_by_hand": 12}, "✗", "three numbers"),
        (1, {"weights_by_hand": (0.125, 0.25, 0.625), "output_by_hand": [12, 1]}, "✗", "one number"),
        (3, {"position": 1, "view": VIEW}, "✓", ""),
        (3, {"position": 2, "view": VIEW}, "✗", "'0' (row 1) and ⏎, the end"),
        (3, {"position": 0, "view": VIEW}, "✗", "'2' (row 0)"),
        (3, {"position": (2, 1), "view": VIEW}, "✗", "one whole number"),
        (3, {"position": 7, "view": VIEW}, "✗", "argmax of one row"),
        (4, {"visible": ["<bos>", "2"], "after_swap": "swapped", "many": VIEW}, "✓", ""),
        (4, {"visible": ("2", "⊢"), "after_swap": " Swapped", "many": VIEW}, "✓", ""),
        (4, {"visible": ["2", "0"], "after_swap": "swapped", "many": VIEW}, "✗", "being written"),
        (4, {"visible": ["<bos>", "2", "0"], "after_swap": "swapped", "many": VIEW}, "✗", "row 3"),
        (4, {"visible": [1, None], "after_swap": "swapped", "many": VIEW}, "✗", "2 tokens have a weight"),
        (4, {"visible": "<bos>2", "after_swap": "swapped", "many": VIEW}, "✗", "a list of tokens"),
        (4, {"visible": ["<bos>", "2"], "after_swap": True, "many": VIEW}, "✗", '"else"'),
        (3, {"position": 1, "view": "a picture"}, "…", "`view`"),
        (4, {"visible": {"2", "<BOS>"}, "after_swap": "'swapped'", "many": VIEW}, "✓", ""),
        (4, {"visible": ["bos", "２"], "after_swap": "ｓｗａｐｐｅｄ", "many": VIEW}, "✓", ""),
        (4, {"visible": ["<bos>", "2"], "after_swap": "swapped", "many": None}, "…", "`many`"),
        (5, {"my_guess": dict.fromkeys(MODELS, "10,000"), "dates": DATES}, "✓", "compare"),
        (5, {"my_guess": dict.fromkeys(MODELS, "Never "), "dates": DATES}, "✓", "compare"),
        (5, {"my_guess": dict.fromkeys(MODELS, INFINITY), "dates": DATES}, "✓", "compare"),
        (5, {"my_guess": dict.fromkeys(MODELS, 3), "dates": 40_000}, "…", "`dates`"),
        (5, {"my_guess": [5000, 15000, 20000], "dates": DATES}, "✗", "keep the names"),
        (5, {"my_guess": {"rnn-attention": 5000, "transformer": 9000}, "dates": DATES}, "✗", "keep the names"),
        (5, {"my_guess": {"rnn-attention": 9, "transformer": "x", "rnn-peeky": 3}, "dates": DATES}, "✗", "numbers of"),
        (5, {"my_guess": GUESS, "dates": {}}, "…", "guess made"),
        (5, {"my_guess": GUESS, "dates": DATES}, "✓", "compare; you"),
        (6, {"fewer": "transformer-rope", "factor": 2, "sentence": "x y z", "dates": DATES}, "✓", "for your partner"),
        (6, {"fewer": "transformer-rope", "factor": 2, "sentence": "", "dates": DATES}, "…", "Now the sentence"),
        (6, {"fewer": "transformer-rope", "factor": 0.5, "sentence": "", "dates": DATES}, "✗", "other way round"),
        (6, {"fewer": "transformer-rope", "factor": 200, "sentence": "", "dates": DATES}, "✗", "percentage"),
        (6, {"fewer": "transformer-rope", "factor": 12000, "sentence": "", "dates": DATES}, "✗", "difference"),
        (6, {"fewer": "transformer", "factor": 2, "sentence": "", "dates": DATES}, "✗", "look at the other"),
        (6, {"fewer": ["transformer"], "factor": 2, "sentence": "", "dates": DATES}, "✗", "none of the two"),
        (6, {"fewer": "Transformer-RoPE", "factor": 2, "sentence": WHOLE, "dates": DATES}, "✓", ""),
        (6, {"fewer": "transformer-rope", "factor": 2, "sentence": "", "dates": ROUNDED}, "✗", "round less"),
        (6, {"fewer": "transformer-rope", "factor": 9, "sentence": "", "dates": NEVER}, "✓", "no factor"),
        (6, {"fewer": "transformer", "factor": 1, "sentence": "the same number", "dates": EQUAL}, "✓", ""),
        (6, {"fewer": "transformer-rope", "factor": 1, "sentence": "the same number", "dates": EQUAL}, "✓", ""),
        (6, {"fewer": "transformer-rope", "factor": 2, "sentence": "", "dates": {}}, "…", "run the training"),
    ],
)
def test_an_answer_gets_the_mark_it_deserves(exercise, answers, mark, named):
    told = Lab().ask(exercise, **answers)
    assert told[0] == mark
    assert named in told[1]
    assert Lab("lab.ko.ipynb").ask(exercise, **answers)[0] == mark


def test_out_of_order_each_check_says_what_to_run_first(lab):
    for exercise in range(1, 7):
        mark, said = lab.ask(exercise)
        assert mark == "…"
        assert "`" in said


def test_after_a_restart_each_check_says_to_run_the_cell_of_the_checks(capsys):
    for name, words in (("lab.ipynb", "run the folded cell at the top first"), ("lab.ko.ipynb", "맨 위의 접힌 셀")):
        asking = [code for code in cells(CLASS / name, "check") if code.startswith("try:")]
        assert len(asking) == 7
        for code in asking:
            for names in ({}, {"check": None}):  # or an answer took the name
                exec(code, names)
                assert words in capsys.readouterr().out


def test_names_that_an_answer_takes_do_not_break_the_checks(lab, capsys):
    overwritten = ("torch", "attend", "dot", "math", "sys", "found", "called", "CHECKS", "MISSING", "as_number")
    lab.names.update(dict.fromkeys(overwritten))
    assert lab.ask(1, weights_by_hand=("１/８", 0.25, 0.625), output_by_hand="１２")[0] == "✓"
    assert lab.ask(2, my_attend=right)[0] == "✓"
    lab.names["check"](2)
    lab.names["hand_in"]()
    assert "✓" in capsys.readouterr().out
    lab.names["dates"] = dict(DATES)
    exec(lab.program, lab.names)  # the cell of the checks runs again, and keeps what was counted
    assert lab.names["dates"] == DATES


def test_the_last_cell_counts(lab, capsys):
    lab.ask(1, weights_by_hand=(1 / 8, 2 / 8, 5 / 8), output_by_hand=12)
    lab.ask(2, my_attend=right)
    lab.ask(4, visible=["<bos>", "2"], after_swap="else", many=VIEW)
    lab.names["hand_in"]()
    marks, count = capsys.readouterr().out.splitlines()
    assert marks == "1 ✓ 2 ✓ 3 … 4 ✗ 5 … 6 …"
    assert count in {"2 of 6 right", "6개 가운데 2개 맞음"}


@pytest.mark.parametrize("end", ["", ".ko"])
def test_a_students_copy_has_no_solutions_and_a_lecturers_has_all(end):
    student, lecturer = CLASS / f"lab{end}.ipynb", LECTURER / f"lab-solutions{end}.ipynb"
    answers = cells(student, "answer")
    assert '"solution"' not in student.read_text("utf-8")
    assert not [path for path in CLASS.iterdir() if "solution" in path.name]
    assert len(answers) == 6 == len(cells(lecturer, "solution"))
    assert all(text.startswith(("# Your answer", "# 여기에 답을 쓰세요")) for text in answers)
    assert cells(student, "check") == cells(lecturer, "check")


def test_both_languages_have_the_same_program():
    """The same code but for comments and texts."""

    def skeleton(end):
        texts = [text for tag in ("check", "solution") for text in cells(LECTURER / f"lab-solutions{end}.ipynb", tag)]
        lines = [line.split("#")[0].rstrip() for text in texts for line in text.splitlines()]
        return [line for line in lines if line.isascii() and '"' not in line and "'" not in line]

    assert skeleton("") == skeleton(".ko")


def test_the_runs_to_hand_out_are_those_of_the_lab():
    program = runpy.run_path(str(LECTURER / "make_runs.py"))["training_cell"]()
    student = json.loads((CLASS / "lab.ipynb").read_text("utf-8"))["cells"]
    assert program.strip() in ["".join(each["source"]) for each in student]


# What is handed out beside the lab: slides, the chapter's addition and the book, made from their sources


@pytest.mark.parametrize("path", sorted(handouts.made()), ids=lambda path: path.name)
def test_slides_and_hand_out_are_as_new_as_their_sources(path):
    text = handouts.made()[path]
    assert path.read_text("utf-8") == text, "run python docs/lecturer/make_handouts.py"
    assert "{{" not in text
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert text.count("\n---\n") == (5 if "slides" in path.name else 0)
    for picture in re.findall(r"\]\((\S+)\)", text):
        assert (path.parent / picture).exists()


def test_a_line_without_its_address_is_not_shown():
    known = notebooks.with_addresses.__globals__["_ADDRESSES"]
    before = dict(known)
    try:
        known.update(colab="https://a.example/lab{ending}.ipynb", binder="")
        text = "Before\n[Colab]({{colab}})\n[Binder]({{binder}})\n"
        assert notebooks.with_addresses(text, "ko") == "Before\n[Colab](https://a.example/lab.ko.ipynb)\n"
    finally:
        known.update(before)


def test_a_reader_meets_no_placeholder():
    for path in chain.from_iterable(map(DOCS.glob, ("*.md", "lecturer/*.md", "ko/*.md", "class/*.ipynb"))):
        text = path.read_text("utf-8")
        assert not re.search(r"\bOWNER\b|\bADDRESS\b|git clone 주소|example\.org/selfattn", text), path
        if path.parent == CLASS:
            assert not re.search("{{(?!model}})|REPOSITORY", text), path


def test_the_sums_are_those_of_the_book_and_the_library_reads_them(cli, monkeypatch, tmp_path):
    addition, file = CLASS / "addition.py", tmp_path / "addition.txt"
    monkeypatch.setattr(sys, "argv", [str(addition), str(file)])
    with isolated_registries():
        runpy.run_path(str(addition), run_name="__main__")
    lines = file.read_text("utf-8").splitlines()
    assert len(set(lines)) == 50_000
    for line in lines:
        question, answer = line.split("_")
        assert (len(question), len(answer)) == (7, 4)
        assert sum(map(int, question.split("+"))) == int(answer)
    pair = Dates(data=(str(file),)).splits(seed=0).test(1)[0]
    assert sum(map(int, pair.source.split("+"))) == int(pair.target)
    with isolated_registries():
        assert "rnn-reversed" in cli("--plugin", addition, "models").out


ENGLISH = (DOCS / "book.md").read_text("utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS = re.split(r"^## ", ENGLISH, flags=re.MULTILINE)[2:]
CLASSES = (
    *("Encoder", "Decoder", "Seq2seq", "PeekyDecoder", "WeightSum", "AttentionWeight", "Attention"),
    *("TimeAttention", "AttentionEncoder", "AttentionDecoder", "AttentionSeq2seq"),
)


def test_each_class_has_a_section_that_compares_it_with_the_library():
    headings = " ".join(section.splitlines()[0] for section in SECTIONS)
    for name in CLASSES:
        assert f"`{name}`" in headings
    assert max(map(len, "".join(BLOCK.findall(ENGLISH)).splitlines())) <= 60  # columns stand side by side
    for number in ("7.4.1", "8.4.1", "8.4.3", "8.5.1", "8.5.2"):
        assert number in headings
    for section in SECTIONS:
        ours, library = BLOCK.findall(section)
        assert "selfattn" not in ours.replace("MultiHeadAttention", "")
        assert library.count("compare(") == 1
        assert "largest difference" in section


def test_the_notebook_has_no_markup_of_the_page():
    for name in ("book.ipynb", "book.ko.ipynb"):
        book = json.loads((DOCS / "notebooks" / name).read_text("utf-8"))["cells"]
        assert not any("div>" in "".join(each["source"]) for each in book)
        assert sum(each["cell_type"] == "code" for each in book) == len(BLOCK.findall(ENGLISH))
