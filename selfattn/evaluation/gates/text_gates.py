"""The gate of a language model: does it know more of texts than how frequent tokens are?"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from selfattn.decoding.scoring import TargetScore
from selfattn.results.record import Gate
from selfattn.tokenizers.protocol import Tokenizer


def unigrams(train: Iterable[str], texts: Sequence[str], score: TargetScore, tokenizer: Tokenizer) -> Gate:
    """Check that texts are more probable to a model than to the frequencies of tokens in its training texts.

    Args:
        train: training texts; each token counts once more than it occurs.
        texts: the test.
        score: of the model for all of them together.
        tokenizer: of the model.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("ab")
        >>> unigrams(["ab"], ["ba"], TargetScore(-3 * math.log(len(tokenizer)), 3), tokenizer).passed
        False
    """
    counts = Counter(dict.fromkeys(range(len(tokenizer)), 1))
    for text in train:
        counts.update([*tokenizer.encode(text), tokenizer.eos_id])
    total = counts.total()
    nats = 0.0
    tokens = 0
    for text in texts:
        ids = [*tokenizer.encode(text), tokenizer.eos_id]
        nats -= math.fsum(math.log(counts[token] / total) for token in ids)
        tokens += len(ids)
    value = -score.per_token / (nats / tokens)
    reason = f"{-score.per_token:.3g} nats a token, {nats / tokens:.3g} by the frequencies of tokens alone"
    return Gate("unigrams", value < 1, reason, value=value, limit=1.0)
