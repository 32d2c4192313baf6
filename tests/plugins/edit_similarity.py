"""A metric of one's own: how alike an output and its reference are, from 0 to 1, the mean over items.

selfattn --plugin edit_similarity.py compare dates --metric edit_similarity
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from selfattn.plugin import Array, Metric, of_each, register


@register.metric("edit_similarity")
class EditSimilarity(Metric):
    """Twice the matching characters over the characters of both (Ratcliff and Metzener 1988)."""

    signature, is_mean = "ratcliff-obershelp", True

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Return the likeness of each output and its reference, beside a 1."""
        pairs = zip(outputs, references, strict=True)
        return of_each([SequenceMatcher(None, output, right, autojunk=False).ratio() for output, right in pairs])
