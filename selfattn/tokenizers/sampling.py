"""Random segmentations of a text, for subword regularisation.

Since release 0.2.2, sentencepiece salts its own sampling in each process, so a training cannot be repeated. Here a draw
depends only on text, seed and alpha.
"""

import heapq
import math
import re
from functools import lru_cache
from random import Random

import sentencepiece

from selfattn.tokenizers.protocol import SPECIALS

SPACE_MARK = "\u2581"
"""How sentencepiece writes a space inside of pieces."""

# Log probability of an unknown character below the least probable piece, as in sentencepiece's lattice.
_UNKNOWN_PENALTY = 10.0
_WORD = re.compile(f"{SPACE_MARK}?[^{SPACE_MARK}]+|{SPACE_MARK}")


class SegmentSampler:
    """Draws segmentations of a text into the pieces of a sentencepiece model.

    Args:
        processor: the model; texts are without the sign for a space, U+2581.
        bpe: whether the model is BPE, not unigram.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, *, bpe: bool) -> None:
        self._bpe = bpe
        ids = [number for number in range(len(SPECIALS), len(processor)) if not processor.is_byte(number)]
        scores: list[float] = processor.get_score(ids)
        self._score = dict(zip(processor.id_to_piece(ids), scores, strict=True))
        self._longest = max(map(len, self._score), default=1)
        self._unknown = min(scores, default=0.0) - _UNKNOWN_PENALTY
        self._ways = lru_cache(maxsize=20_000)(self._weigh)  # most words come again

    def segments(self, text: str, seed: int, alpha: float) -> list[str]:
        """Draw the segments of a text; an unknown character is a segment.

        Args:
            text: normalised by the model.
            seed: any integer.
            alpha: see `SubwordTokenizer.sample`.
        """
        random = Random(seed % 2**64)  # Random ignores the sign of a seed
        return self._left_out_merges(text, random, alpha) if self._bpe else self._walk(text, random, alpha)

    def _ending_at(self, text: str, end: int) -> list[tuple[int, float]]:
        """Return the start and the log probability of every piece that ends at a place."""
        scores = self._score
        first = max(0, end - self._longest)
        pieces = [(start, scores[piece]) for start in range(first, end) if (piece := text[start:end]) in scores]
        # The last character alone comes last, if it is a piece.
        return pieces if pieces and pieces[-1][0] == end - 1 else [*pieces, (end - 1, self._unknown)]

    def _weigh(self, word: str, alpha: float) -> list[list[tuple[int, float]]]:
        """Return for each place of a word the pieces that end there: their starts and weights."""
        total = [0.0]  # log of the summed weights of all segmentations of word[:place]
        ways = [[(0, 1.0)]]
        for place in range(1, len(word) + 1):
            logs = [(start, total[start] + alpha * score) for start, score in self._ending_at(word, place)]
            top = max([weight for _, weight in logs])
            ways.append([(start, math.exp(weight - top)) for start, weight in logs])
            total.append(top + math.log(sum([weight for _, weight in ways[-1]])))
        return ways

    def _walk(self, text: str, random: Random, alpha: float) -> list[str]:
        """Sum over all segmentations of a word forward, then draw one backward (Kudo 2018, section 3.3)."""
        segments: list[str] = []
        for word in _WORD.findall(text):  # no piece contains a space inside, so words are independent
            drawn = []
            end = len(word)
            ways = self._ways(word, alpha)
            while end:
                start = random.choices(ways[end], [weight for _, weight in ways[end]])[0][0]
                drawn.append(word[start:end])
                end = start
            segments += drawn[::-1]
        return segments

    def _left_out_merges(self, text: str, random: Random, alpha: float) -> list[str]:
        """Merge the best pair again and again, each with probability 1 - alpha (Provilkov et al. 2020, algorithm 1)."""
        parts: list[str] = list(text)
        before = list(range(-1, len(parts) - 1))
        after = list(range(1, len(parts) + 1))
        waiting: list[tuple[float, int, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right < len(parts) and (merged := parts[left] + parts[right]) in self._score:
                heapq.heappush(waiting, (-self._score[merged], left, right, merged))

        for left in range(len(parts) - 1):
            consider(left, left + 1)
        while waiting:
            _, left, right, merged = heapq.heappop(waiting)
            # Either side may be merged already; a pair that is left out is not considered again.
            if not parts[left] or not parts[right] or parts[left] + parts[right] != merged or random.random() < alpha:
                continue
            parts[left], parts[right], after[left] = merged, "", after[right]
            if after[right] < len(parts):
                before[after[right]] = left
            consider(before[left], left)
            consider(left, after[left])
        return [part for part in parts if part]
