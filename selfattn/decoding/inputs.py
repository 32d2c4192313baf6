"""What every way of decoding begins with: batches of like length, checked tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from selfattn.data.batches import Batch, batches
from selfattn.data.examples import Example
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer


def batches_by_length(
    model: Seq2Seq, tokenizer: Tokenizer, examples: Sequence[Example], *, batch_size: int, max_tokens: int
) -> Iterator[tuple[Batch, list[int]]]:
    """Cut examples into batches of like length, which changes nothing but the time that they take.

    Args:
        model: on whose device the batches are to be.
        tokenizer: gives the special tokens.
        examples: sources and targets as ids.
        batch_size: most examples in a batch, at least 1.
        max_tokens: most tokens in a batch, at least 1: long texts go in smaller ones, so that memory stays bounded.

    Returns:
        The batches, each with the places of its rows among the examples.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("abc")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> examples = [Example([4, 5, 2], [2]), Example([4, 2], [2]), Example([6, 2], [2])]
        >>> cut = batches_by_length(model, tokenizer, examples, batch_size=2, max_tokens=100)
        >>> [places for _, places in cut]
        [[1, 2], [0]]
    """
    order = sorted(range(len(examples)), key=lambda place: (len(examples[place].source), len(examples[place].target)))
    for batch in batches(
        [examples[place] for place in order],
        batch_size=batch_size,
        max_tokens=max_tokens,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        generator=None,
    ):
        yield batch.to(model.device), [order[place] for place in batch.indices]


def check_source(source: Tensor, source_mask: Tensor) -> None:
    """Check a batch of sources: ids ``[b s]`` int64 and mask ``[b s]`` bool, at least one row.

    Raises:
        ValueError: one of them is something else; the message says what.

    Example:
        >>> check_source(torch.tensor([[5, 2]]), torch.tensor([[1, 1]]))
        Traceback (most recent call last):
        ...
        ValueError: expected source_mask [b s] of torch.bool and shape (1, 2), got torch.int64 and (1, 2)
    """
    if source.dim() != 2 or source.dtype != torch.int64 or not len(source):
        expected, tensor = "source [b s] of torch.int64 with at least one row", source
    elif source_mask.shape != source.shape or source_mask.dtype != torch.bool:
        expected, tensor = f"source_mask [b s] of torch.bool and shape {tuple(source.shape)}", source_mask
    else:
        return
    raise ValueError(f"expected {expected}, got {tensor.dtype} and {tuple(tensor.shape)}")


def length_limits(max_length: int | Sequence[int], rows: int) -> list[int]:
    """Return the longest length allowed for each of ``rows`` sentences.

    Raises:
        ValueError: a limit is below 1, or there are not as many as rows.

    Example:
        >>> length_limits(7, 2), length_limits([5, 3], 2)
        ([7, 7], [5, 3])
    """
    limits = [max_length] * rows if isinstance(max_length, int) else list(max_length)
    if len(limits) != rows:
        raise ValueError(f"max_length: expected one number, or one for each of {rows} sources, got {len(limits)}")
    if min(limits) < 1:
        raise ValueError(f"max_length must be at least 1, got {min(limits)}")
    return limits
