"""One version, and one list of scores: what stands in several places is held to the code."""

import re
from pathlib import Path

import selfattn
from selfattn.attention import MultiHeadAttention, positions, scores
from selfattn.registry import SCORES

ROOT = Path(__file__).parents[2]


def test_the_version_is_said_as_it_is() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: ([0-9.]+)", text, re.M) == [selfattn.__version__]


def test_the_package_has_its_version_from_one_place() -> None:
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)


def test_help_of_attention_names_scores_and_positions() -> None:
    text = MultiHeadAttention.__doc__ or ""
    # From the file, since the example of a docstring registers a score of that module too.
    own = re.findall(r'^@register\.score\("(\w+)"\)', Path(scores.__file__).read_text(encoding="utf-8"), re.M)
    assert len(own) >= 6
    assert set(own) <= set(SCORES)
    assert all(f"``{name}``" in text for name in own)
    kinds = [one for one in vars(positions).values() if isinstance(one, type) and issubclass(one, positions.Position)]
    bases = {one for one in kinds if any(issubclass(other, one) and other is not one for other in kinds)}
    for kind in set(kinds) - bases - {positions.NoPosition}:
        assert f"``{kind.__name__}``" in text, kind
