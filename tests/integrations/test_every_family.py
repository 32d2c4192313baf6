"""Every family of the installed transformers: as eager, or refused with the reason; no silent difference."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

TABLE = Path(__file__).parents[1] / "fixtures" / "families.txt"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hugging-face.md"
ROWS = TABLE.read_text(encoding="utf-8").splitlines()
LETTERS = sorted({row[0] for row in ROWS[:-1]})


def expected():
    """The result of each family, with the reason, as it was written down."""
    return dict(row.split(" ", 1) for row in ROWS[:-1])


def counts():
    """How many families have each result."""
    return Counter(row.split(":")[0] for row in expected().values())


def without_foreign_words(row):
    """A result without the reason why a family cannot be built: other libraries word it."""
    return "not built" if row.startswith("not built") else row


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("letter", LETTERS)
def test_no_family_differs_silently(letter):
    import transformers

    from selfattn.integrations.transformers import register
    from tests.fixtures.eager_sweep import outcome
    from tests.fixtures.families import FAMILIES

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    register()
    assert {family[0] for family in FAMILIES} <= {*LETTERS}
    results = {family: outcome(family) for family in FAMILIES if family.startswith(letter)}
    assert not {family: result for family, result in results.items() if result.startswith("different")}
    if transformers.__version__ != ROWS[-1].split()[1].rstrip(","):
        pytest.skip(f"no table for transformers {transformers.__version__}: none of these families is different")
    rows = {family: without_foreign_words(row) for family, row in expected().items() if family.startswith(letter)}
    assert {family: without_foreign_words(result) for family, result in results.items()} == rows


def test_the_page_has_the_counts_of_the_table():
    page = PAGE.read_text(encoding="utf-8")
    shown = {name: int(count) for name, count in re.findall(r"^\| (\w[\w ]*) \| (\d+) \|", page, re.MULTILINE)}
    assert shown == {**counts(), "different": 0}
    assert ROWS[-1].split(":")[0] in page, "the versions"
