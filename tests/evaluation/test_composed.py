"""What looks the same counts as the same: outputs and references are compared in Unicode's form NFC."""

from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn import compare_outputs
from selfattn.evaluation.metrics import decomposed_note, make_metric

COMPOSED = ("exact_match", "character_error_rate", "chrf", "word recall", "word accuracy", "word_error_rate")
TEXTS = st.lists(st.text("한국어 가각é́e a", min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=4)


@pytest.mark.parametrize("name", [*COMPOSED, "phone_error_rate"])
@given(texts=TEXTS, wrong=TEXTS)
def test_a_score_is_the_same_in_every_form_of_unicode(name: str, texts: list[str], wrong: list[str]) -> None:
    metric = make_metric(name)
    size = min(len(texts), len(wrong))
    texts = [normalize("NFC", text) for text in texts[:size]]
    outputs = [normalize("NFC", text) for text in wrong[:size]]
    expected = metric.counts(outputs, texts).tolist()
    for form in ("NFC", "NFD"):
        for other in ("NFC", "NFD"):
            changed = [normalize(form, text) for text in outputs], [normalize(other, text) for text in texts]
            assert metric.counts(*changed).tolist() == expected


def test_korean_outputs_that_are_taken_apart_are_right_and_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = [f"한국어 문장 {number}" for number in range(60)]
    (tmp_path / "right.txt").write_text("\n".join(right), "utf-8")
    (tmp_path / "out.txt").write_text(normalize("NFD", "\n".join([*right[:50], *["틀림"] * 10])), "utf-8")
    compare_outputs(tmp_path / "right.txt", {"a": [tmp_path / "out.txt"]}, out=tmp_path / "out", metric="exact_match")
    assert "a 83\xa0%" in (tmp_path / "out" / "report.md").read_text("utf-8")
    said = capsys.readouterr()
    assert "out.txt: 60 texts are not in Unicode form NFC; shares and character metrics compose" in said.err + said.out
    assert decomposed_note("right.txt", right) is None
