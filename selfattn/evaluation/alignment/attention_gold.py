"""Gold for attention: which source tokens a target token comes from, by known spans or by a word alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.data.pairs import Span
from selfattn.evaluation.alignment.pharaoh import Links

Range = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Gold:
    """Where the tokens of one target come from.

    Attributes:
        sure: bool ``[t s]``, links that an alignment must have.
        possible: bool ``[t s]``, links that it may have, the sure ones among them; attention there counts as right.
        judged: bool ``[t]``, target tokens that are scored; for the others gold says nothing.
    """

    sure: Tensor
    possible: Tensor
    judged: Tensor


def gold_from_spans(spans: Sequence[Span], source: Sequence[Range], target: Sequence[Range]) -> Gold:
    """Make gold from fields whose place in both texts is known.

    Within a field every target token may attend to every source token, and has to attend to none: all links are
    possible, none is sure, and the alignment error rate is 1 minus the precision. Tokens outside all fields are not
    judged.

    Args:
        spans: the fields, in characters.
        source: for each source token the characters it stands for, half-open; empty for ``<eos>``.
        target: the same for the target.

    Example:
        >>> gold = gold_from_spans([Span("day", (0, 2), (1, 2))], characters(2), characters(2))
        >>> gold.possible.int().tolist(), gold.judged.tolist()
        ([[0, 0, 0], [1, 1, 0], [0, 0, 0]], [False, True, False])
    """
    possible = torch.zeros(len(target), len(source), dtype=torch.bool)
    for span in spans:
        rows = torch.tensor([_overlap(place, span.target) for place in target])
        columns = torch.tensor([_overlap(place, span.source) for place in source])
        possible |= rows[:, None] & columns
    return Gold(torch.zeros_like(possible), possible, possible.any(dim=1))


def characters(length: int) -> list[Range]:
    """Give the place of every token of a text of so many characters, one token each, and of ``<eos>`` behind them.

    Example:
        >>> characters(2)
        [(0, 1), (1, 2), (2, 2)]
    """
    return [(place, min(place + 1, length)) for place in range(length + 1)]


def gold_from_links(links: Links, source_tokens: int, target_tokens: int) -> Gold:
    """Make gold from a word alignment; every target token but ``<eos>`` is judged, also one without a link.

    Tokens are words here; attention between smaller tokens goes through :func:`to_words` first.

    Args:
        links: of the sentence pair.
        source_tokens: tokens of the source, ``<eos>`` counted.
        target_tokens: tokens of the target, ``<eos>`` counted.

    Raises:
        ValueError: a link leads outside the sentences, or to ``<eos>``.

    Example:
        >>> gold_from_links(Links(sure=frozenset({(0, 1)})), 2, 3).sure.int().tolist()
        [[0, 0], [1, 0], [0, 0]]
    """
    sure, possible = (torch.zeros(target_tokens, source_tokens, dtype=torch.bool) for _ in range(2))
    for links_of_kind, matrix in ((links.sure, sure), (links.possible, possible)):
        for source, target in links_of_kind:
            if not (0 <= source < source_tokens - 1 and 0 <= target < target_tokens - 1):
                raise ValueError(
                    f"link {source}-{target} is outside sentences of {source_tokens - 1} and {target_tokens - 1} words"
                )
            matrix[target, source] = True
    return Gold(sure, possible, torch.arange(target_tokens) < target_tokens - 1)


def to_words(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """Turn attention between tokens into attention between words.

    Attention to a word is the sum over its tokens, attention from a word the mean over its tokens (Clark et al. 2019,
    section 4.1), so that every row stays a distribution. Where one token covers two words, it is the first
    one's; the second has no token of its own, and its row and column are 0.

    Args:
        weights: ``[.. t s]``.
        source_words: for each source token the number of its word, from 0, never falling; ``<eos>`` is a word.
        target_words: the same for the target.

    Returns:
        ``[.. words of the target, words of the source]``.

    Example:
        >>> weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
        >>> to_words(weights, [0, 0, 1], [0, 0]).tolist()
        [[0.5, 0.5]]
    """
    source, target = (torch.nn.functional.one_hot(torch.tensor(words)) for words in (source_words, target_words))
    summed = weights @ source.to(weights)
    # The clamp keeps a word without a token from a division by 0.
    return (target.to(weights) / target.sum(dim=0).clamp(min=1).to(weights)).T @ summed


def _overlap(first: Range, second: Range) -> bool:
    return max(first[0], second[0]) < min(first[1], second[1])
