"""The gate of a language model: does it know more of texts than how frequent tokens are?"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from selfattn.evaluation.metrics.likelihood import read_counts
from selfattn.results.record import Gate
from selfattn.tokenizers.protocol import Tokenizer


def unigrams(train: Iterable[str], texts: Sequence[str], outputs: Sequence[str], tokenizer: Tokenizer) -> Gate:
    """Check that texts are more probable to a model than to the frequencies of tokens in its training texts.

    Args:
        train: training texts; each token counts once more than it occurs.
        texts: the test.
        outputs: of the model for each of them: its counts.
        tokenizer: of the model.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("ab")
        >>> unigrams(["ab"], ["ba"], [f"{3 * math.log(len(tokenizer))} 3"], tokenizer).passed
        False
    """
    counts = Counter(dict.fromkeys(range(len(tokenizer)), 1))
    for text in train:
        counts.update([*tokenizer.encode(text), tokenizer.eos_id])
    total = counts.total()
    nats = 0.0
    by_frequency = 0.0
    tokens = 0
    for text, output in zip(texts, outputs, strict=True):
        ids = [*tokenizer.encode(text), tokenizer.eos_id]
        nats += read_counts(output)[0]
        by_frequency -= math.fsum(math.log(counts[token] / total) for token in ids)
        tokens += len(ids)
    reason = f"{nats / tokens:.3g} nats a token, {by_frequency / tokens:.3g} by the frequencies of tokens alone"
    return Gate("unigrams", nats < by_frequency, reason, value=nats / by_frequency, limit=1.0)
