"""What a model makes of given pairs: how probable their targets are, and which source tokens these look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from selfattn.data.batches import Batch, batches
from selfattn.data.examples import Example
from selfattn.decoding.alignment import Link, alignments
from selfattn.decoding.scoring import score
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer

_BATCH_SIZE, _MAX_TOKENS = 64, 16_384


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


def score_examples(model: Seq2Seq, tokenizer: Tokenizer, examples: Sequence[Example]) -> list[TargetScore]:
    """Score the target of every example, given its source.

    Args:
        model: any model of the protocol, on any device.
        tokenizer: the one it was trained with.
        examples: sources and targets as ids.

    Returns:
        One score for each example, in their order.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("abc")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> [found.tokens for found in score_examples(model, tokenizer, [Example([4, 2], [5, 6, 2])])]
        [3]
    """
    found: dict[int, TargetScore] = {}
    for batch, places in _by_length(model, tokenizer, examples):
        scores = score(model, batch.source, batch.source_mask, batch.target_in, batch.target_out, batch.target_mask)
        for place, summed, count in zip(places, scores.sums, batch.target_mask.sum(dim=1).tolist(), strict=True):
            found[place] = TargetScore(summed, count)
    return [found[place] for place in range(len(examples))]


def align_examples(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    *,
    layer: int = -1,
    head: int | None = None,
    shifted: bool = False,
) -> list[list[Link]]:
    """Link the target tokens of every example to the source tokens that they attend to most.

    Args:
        model: one with attention to its source, on any device.
        tokenizer: the one it was trained with.
        examples: sources and targets as ids, with ``<eos>`` at their ends.
        layer: see :func:`selfattn.decoding.alignment.alignments`, as for the others.
        head: default the mean over heads.
        shifted: default False.

    Returns:
        The links of each example, in their order.

    Raises:
        ValueError: the model has no attention to its source, or no such layer or head.
    """
    found: dict[int, list[Link]] = {}
    for batch, places in _by_length(model, tokenizer, examples):
        links = alignments(
            model,
            batch.source,
            batch.source_mask,
            batch.target_in,
            batch.target_out,
            batch.target_mask,
            eos_id=tokenizer.eos_id,
            layer=layer,
            head=head,
            shifted=shifted,
        )
        found |= dict(zip(places, links, strict=True))
    return [found[place] for place in range(len(examples))]


def _by_length(model: Seq2Seq, tokenizer: Tokenizer, examples: Sequence[Example]) -> Iterator[tuple[Batch, list[int]]]:
    """Cut the examples into batches of like length; give each with the places of its rows."""
    order = sorted(range(len(examples)), key=lambda place: (len(examples[place].source), len(examples[place].target)))
    device = next(model.parameters()).device
    for batch in batches(
        [examples[place] for place in order],
        batch_size=_BATCH_SIZE,
        max_tokens=_MAX_TOKENS,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        generator=None,
    ):
        yield batch.to(device), [order[place] for place in batch.indices]
