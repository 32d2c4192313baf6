"""The probability of given targets and texts: the model reads them instead of writing its own."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import torch
from torch import Tensor

from selfattn.data.batches import Batch
from selfattn.data.pairs import Example, Examples
from selfattn.decoding.common import evaluating, in_batches, log_probabilities
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer

# Batches in which given targets are read.
BATCH_SIZE = 64
MAX_TOKENS = 16_384


@torch.no_grad()
def score_targets(model: Seq2Seq, batch: Batch) -> Tensor:
    r"""Return :math:`\log p(y_k \mid y_{<k}, x)` for every token of given targets (teacher forcing).

    A target that ends with ``<eos>`` and was written by :func:`~selfattn.decoding.greedy.greedy` or found by
    :func:`~selfattn.decoding.beam.beam_search` has the same log-probability here, up to rounding.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        batch: sources and targets, on the model's device; what stands at padding is not read.

    Returns:
        Natural log-probabilities ``[b t]`` of each token given those before it, float32 or wider; 0 at padding.

    Example:
        >>> from selfattn.data.batches import collate
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> scores = score_targets(model, collate([Example([5, 6, 2], [7, 2])], 0, 1, [0]))
        >>> scores.shape, bool(scores.sum() < 0)
        (torch.Size([1, 2]), True)
    """
    with evaluating(model):
        logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    chosen = batch.target_out.masked_fill(~batch.target_mask, 0)
    return log_probabilities(logits).gather(-1, chosen[..., None])[..., 0].masked_fill(~batch.target_mask, 0.0)


@dataclass(frozen=True)
class TargetScore:
    """How probable a given target is.

    Attributes:
        log_probability: natural, summed over its tokens.
        tokens: how many those are, its end counted.
    """

    log_probability: float
    tokens: int

    @property
    def per_token(self) -> float:
        """The mean log-probability of a token."""
        return self.log_probability / self.tokens


def score_examples(model: Seq2Seq, examples: Sequence[Example]) -> list[TargetScore]:
    """Score the target of every example, given its source.

    Args:
        model: any model of the protocol, on any device.
        examples: sources and targets as ids.

    Returns:
        One score for each example, in their order.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> [score.tokens for score in score_examples(model, [Example([4, 2], [5, 6, 2])])]
        [3]
    """

    def score(batch: Batch, places: list[int]) -> list[TargetScore]:
        sums = score_targets(model, batch).double().sum(dim=-1).tolist()
        return list(map(TargetScore, sums, batch.target_mask.sum(dim=1).tolist()))

    return in_batches(model, examples, score, batch_size=BATCH_SIZE, max_tokens=MAX_TOKENS)


def score_tokens(model: Seq2Seq, examples: Sequence[Example]) -> list[list[float]]:
    """Return the log-probability of every token of every target, given its source and the tokens before it.

    Args:
        model: any model of the protocol, on any device.
        examples: sources and targets as ids.

    Returns:
        For each example, in their order, natural log-probabilities, as many as its target has tokens. Their sum is
        that of :func:`score_examples`.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> [len(scores) for scores in score_tokens(model, [Example([4, 2], [5, 6, 2]), Example([4, 2], [2])])]
        [3, 1]
    """

    def score(batch: Batch, places: list[int]) -> list[list[float]]:
        rows = score_targets(model, batch).tolist()
        return [row[: len(examples[place].target)] for place, row in zip(places, rows, strict=True)]

    return in_batches(model, examples, score, batch_size=BATCH_SIZE, max_tokens=MAX_TOKENS)


@dataclass(frozen=True)
class TextScore(TargetScore):
    """How well a language model foretells texts.

    Attributes:
        characters: of the texts; their ends are not counted.
    """

    characters: int

    @property
    def perplexity(self) -> float:
        """``exp`` of the nats a token: among how many equally probable tokens the model chooses, as it were."""
        return math.exp(-self.per_token)

    @property
    def bits_per_character(self) -> float:
        """All bits, those of the ends too, over the characters: comparable whatever the tokens are."""
        return -self.log_probability / math.log(2) / self.characters


def text_examples(texts: Iterable[str], tokenizer: Tokenizer, context: int) -> Examples:
    """Cut texts into windows of at most ``context`` tokens, each an example without a source.

    Every token is in exactly one window. ``<eos>`` stands behind a text's last window only, one token more. A window
    knows nothing of those before it.

    Args:
        texts: those that are empty are left out.
        tokenizer: of the model.
        context: tokens in a window, at least 1.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> [example.target for example in text_examples(["abcde"], CharTokenizer("abcde"), 2)]
        [[4, 5], [6, 7], [8, 2]]
    """

    def sides() -> Iterator[list[int]]:
        for text in texts:
            ids = tokenizer.encode(text)
            for start in range(0, len(ids), context):
                window = ids[start : start + context]
                yield []
                yield window + [tokenizer.eos_id] * (start + context >= len(ids))

    return Examples(sides())


def score_texts(model: Seq2Seq, tokenizer: Tokenizer, texts: Sequence[str], *, context: int) -> TextScore:
    """Measure how well a language model foretells texts, in windows as it was trained on.

    Args:
        model: trained with sources of no tokens.
        tokenizer: of the model.
        texts: at least one that is not empty.
        context: see :func:`text_examples`.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer("ab")
        >>> model = build(PRESETS["decoder-only"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> score = score_texts(model, tokenizer, ["ab", "bba"], context=2)
        >>> score.tokens, score.characters
        (7, 5)
    """
    return _joined(score_examples(model, text_examples(texts, tokenizer, context)), texts)


def score_each_text(model: Seq2Seq, tokenizer: Tokenizer, texts: Sequence[str], *, context: int) -> list[TextScore]:
    """Measure each text by itself; otherwise like :func:`score_texts`."""
    windows = [text_examples([text], tokenizer, context) for text in texts]
    scores = iter(score_examples(model, list(chain.from_iterable(windows))))
    return [_joined(list(islice(scores, len(part))), [text]) for part, text in zip(windows, texts, strict=True)]


def _joined(windows: Sequence[TargetScore], texts: Sequence[str]) -> TextScore:
    total = math.fsum(score.log_probability for score in windows)
    return TextScore(total, sum(score.tokens for score in windows), characters=sum(map(len, texts)))
