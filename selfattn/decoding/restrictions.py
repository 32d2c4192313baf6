"""What an output may not be: it begins as requested, and no n-gram comes twice. Other tokens cannot be chosen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_NOTHING = -1  # stands in front of shorter texts


@dataclass(frozen=True)
class Restrictions:
    """Restrictions on the targets of some sources.

    A token that cannot come has the log-probability minus infinity in the search. The others keep those of the model,
    as in ``transformers``: what is left does not sum to 1.

    Attributes:
        prefixes: for each source the tokens that its target begins with; perhaps none.
        before: for each source the tokens in front of its target, which count among its n-grams, such as ``<bos>``.
        no_repeat_ngram: the ``n`` of which no n-gram may come twice, beginning included; None: they may. A requested
            beginning comes even if it repeats itself.

    Example:
        >>> restrictions = Restrictions([[], [7]], [[1], [1]], no_repeat_ngram=2)
        >>> restrictions.masked(torch.zeros(1, 6), torch.tensor([[4, 5, 4]]), [0])  # 4 5 was there
        tensor([[0., 0., 0., 0., 0., -inf]])
        >>> restrictions.masked(torch.zeros(1, 8), torch.zeros(1, 0, dtype=torch.int64), [1]).argmax()
        tensor(7)
    """

    prefixes: Sequence[Sequence[int]]
    before: Sequence[Sequence[int]]
    no_repeat_ngram: int | None = None

    def of(self, places: Sequence[int]) -> "Restrictions":
        """Return the restrictions of some of the sources."""
        prefixes = [self.prefixes[place] for place in places]
        before = [self.before[place] for place in places]
        return Restrictions(prefixes, before, self.no_repeat_ngram)

    def masked(self, logits: Tensor, written: Tensor, sentences: Sequence[int]) -> Tensor:
        """Return logits in which what cannot come is minus infinity.

        Args:
            logits: ``[n v]``.
            written: targets so far, without ``<bos>``, int64 ``[n length]``.
            sentences: for each row the source that it belongs to.
        """
        length = written.shape[1]
        if self.no_repeat_ngram is None and all(length >= len(self.prefixes[sentence]) for sentence in sentences):
            return logits
        blocked = torch.zeros_like(logits, dtype=torch.bool)
        if self.no_repeat_ngram is not None:
            before = _padded([self.before[sentence] for sentence in sentences])
            blocked = repeating(torch.cat([before.to(written), written], dim=1), self.no_repeat_ngram, blocked)
        for row, sentence in enumerate(sentences):
            prefix = self.prefixes[sentence]
            if length < len(prefix):
                blocked[row] = True
                blocked[row, prefix[length]] = False
        return logits.masked_fill(blocked, -math.inf)


def repeating(texts: Tensor, n: int, blocked: Tensor) -> Tensor:
    """Mark the tokens that would repeat an n-gram.

    Args:
        texts: tokens so far, int64 ``[rows length]``; negative where a shorter text has none.
        n: at least 1.
        blocked: bool ``[rows v]``, what is marked already.

    Returns:
        ``blocked`` with further marks.
    """
    if texts.shape[1] < n:
        return blocked
    ngrams = texts.unfold(1, n, 1)  # [rows places n]
    last = texts[:, texts.shape[1] - n + 1 :]
    again = (ngrams[..., :-1] == last[:, None]).all(dim=-1) & (ngrams[..., -1] >= 0)
    rows, places = again.nonzero(as_tuple=True)
    tokens = ngrams[rows, places, -1]
    blocked[rows.to(blocked.device), tokens.to(blocked.device)] = True
    return blocked


def _padded(texts: Sequence[Sequence[int]]) -> Tensor:
    """Return texts as one tensor, the shorter ones filled in front."""
    longest = max(map(len, texts), default=0)
    return torch.tensor([[_NOTHING] * (longest - len(text)) + list(text) for text in texts], dtype=torch.int64)
