"""Token by token for a whole batch at once: the most probable token, or one drawn from the distribution."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from selfattn.decoding.common import (
    Restrictions,
    check_number,
    chosen_log_probabilities,
    evaluating,
    length_limits,
    top,
)
from selfattn.decoding.options import SAMPLED, DecodingOptions, Hypothesis
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import poll

Choice = Callable[[Tensor, list[int], int], Tensor]
"""Given logits ``[n v]``, the ``n`` sentences they belong to, and the number of the step from 0, returns the
next tokens ``[n]``."""


def most_probable(logits: Tensor, sentences: list[int], step: int) -> Tensor:
    """Choose the most probable token; the lowest id wins a tie.

    Example:
        >>> most_probable(torch.tensor([[-3.0, -1.0, -1.0]]), [0], 0)
        tensor([1])
    """
    return logits.argmax(dim=-1) if len(logits) == 1 else top(logits, 1)[1][:, 0]  # argmax of many rows is slow


@torch.inference_mode()
def greedy(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int | Sequence[int],
    choose: Choice = most_probable,
    restrictions: Restrictions | None = None,
    scored: bool = True,
) -> list[Hypothesis]:
    r"""Write :math:`y_k = \arg\max_y p(y \mid y_{<k}, x)` until ``<eos>``, for every source of a batch.

    A sentence that is finished leaves the batch (``state.reorder``), so a long one does not hold up the others. The
    model is put into evaluation mode for the call and back after it.

    Args:
        model: any model of the protocol; only encode, start and step are called.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        bos_id: the token that every target begins with.
        eos_id: the token that ends a target.
        max_length: the most steps, ``<eos>`` counted; one number, or one for each source; at least 1.
        choose: takes the next tokens in another way, as :func:`~selfattn.decoding.greedy.sample` does.
        restrictions: what the targets may not be; default none.
        scored: whether log-probabilities are wanted. Without them, the tokens are the same and take less time, since
            the sum over the vocabulary is left out; the scores are NaN. Default True.

    Returns:
        One hypothesis for each source, in their order. The lowest id wins a tie.

    Raises:
        ValueError: ``max_length`` is not positive or not one for each source, or source and mask are not as described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source = torch.tensor([[5, 6, 2], [7, 2, 0]])
        >>> outputs = greedy(model, source, source != 0, bos_id=1, eos_id=2, max_length=3)
        >>> [len(hypothesis.ids) <= 3 for hypothesis in outputs]
        [True, True]
        >>> def count(logits, sentences, step):
        ...     return torch.tensor([3 + row + step for row in sentences])
        >>> outputs = greedy(model, source, source != 0, bos_id=1, eos_id=2, max_length=[2, 4], choose=count)
        >>> [hypothesis.ids for hypothesis in outputs]
        [[3, 4], [4, 5, 6, 7]]
    """
    limits = length_limits(source, source_mask, max_length)
    ids: list[list[int]] = [[] for _ in limits]
    finished = [False] * len(limits)
    scores = [0.0] * len(limits)
    with evaluating(model):
        state = model.start(model.encode(source, source_mask))
        token = torch.full((len(limits),), bos_id, device=source.device)
        living = list(range(len(limits)))  # which sentence each row of the state belongs to
        for step in range(max(limits)):
            poll()
            logits, state = model.step(token, state)
            allowed = logits
            if restrictions is not None:
                written = torch.tensor([ids[row] for row in living], dtype=torch.int64, device=source.device)
                allowed = restrictions.masked(logits, written, living)
            token = choose(allowed, living, step)
            chosen = token.unsqueeze(1)
            # Without a sum over the vocabulary: 0 for a number, and NaN for what is none, which is the largest.
            values = chosen_log_probabilities(logits, chosen) if scored else logits.gather(-1, chosen) * 0.0
            staying: list[int] = []
            for place, (row, number, (value,)) in enumerate(zip(living, token.tolist(), values.tolist(), strict=True)):
                check_number(value)
                scores[row] += value
                if number == eos_id:
                    finished[row] = True
                else:
                    ids[row].append(number)
                    if step + 1 < limits[row]:
                        staying.append(place)
            if not staying:
                break
            if len(staying) < len(living):
                index = torch.tensor(staying, device=source.device)
                state = state.reorder(index)
                token = token[index]
                living = [living[place] for place in staying]
    if not scored:
        scores = [math.nan] * len(limits)
    return [Hypothesis(*parts) for parts in zip(ids, scores, scores, finished, strict=True)]


def sample(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int | Sequence[int],
    generator: torch.Generator | Sequence[torch.Generator],
    options: DecodingOptions = SAMPLED,
    restrictions: Restrictions | None = None,
) -> list[Hypothesis]:
    r"""Draw :math:`y_k \sim p(y \mid y_{<k}, x)` until ``<eos>``, for every source of a batch.

    The distribution is that of :func:`token_distribution`. A token is drawn by inverting its cumulative sum, in the
    order of ids, at one uniform number. Every sentence has its own numbers, ``max_length`` of them, drawn before
    anything is decoded and whether or not it will need them. With one generator they go to the sentences in their
    order: the same sentences in the same order give the same samples in batches of any size. With a generator for
    each sentence their order does not matter either. A sentence that is finished leaves the batch.

    Args:
        model: any model of the protocol; only encode, start and step are called.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        bos_id: the token that every target begins with.
        eos_id: the token that ends a target.
        max_length: the most steps, ``<eos>`` counted; one number, or one for each source; at least 1.
        generator: where chance comes from, on the CPU: one for all, or one for each source
            (:func:`selfattn.streams.generator` makes them).
        options: ``temperature``, ``top_k`` (Fan et al. 2018) and ``top_p`` (Holtzman et al. 2020, section 3.1);
            default 1, all and all.
        restrictions: what the targets may not be; default none.

    Returns:
        One hypothesis for each source, in their order. The scores are log-probabilities of the model itself, without
        temperature, top-k or top-p.

    Raises:
        ValueError: there are not as many limits or generators as sources, or source and mask are not as described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> from selfattn.streams import generator
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source = torch.tensor([[5, 6, 2], [7, 2, 0]])
        >>> def draw(seed):
        ...     chance = generator(seed, "sampling")
        ...     options = DecodingOptions(sample=True, top_p=0.9)
        ...     ids = {"bos_id": 1, "eos_id": 2}
        ...     return sample(model, source, source != 0, **ids, max_length=9, generator=chance, options=options)
        >>> draw(0) == draw(0), draw(0) == draw(1)
        (True, False)
    """
    limits = length_limits(source, source_mask, max_length)
    streams = [generator] * len(source) if isinstance(generator, torch.Generator) else list(generator)
    numbers = [
        torch.rand(limit, generator=stream, dtype=torch.float64) for stream, limit in zip(streams, limits, strict=True)
    ]

    def draw(logits: Tensor, sentences: list[int], step: int) -> Tensor:
        cumulative = token_distribution(logits, options).cumsum(dim=-1)
        uniform = torch.stack([numbers[row][step] for row in sentences]).to(cumulative.device)
        # The first token whose sum is above the number: never one of probability zero. The sums end near 1, not at 1.
        drawn = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)[:, 0]
        return drawn.clamp(max=logits.shape[-1] - 1)  # NaN leads beyond the end; greedy() names it

    return greedy(
        model,
        source,
        source_mask,
        bos_id=bos_id,
        eos_id=eos_id,
        max_length=limits,
        choose=draw,
        restrictions=restrictions,
    )


def token_distribution(logits: Tensor, options: DecodingOptions) -> Tensor:
    r"""Return the distribution that :func:`sample` draws the next token from.

    First the temperature, :math:`p_y \propto \exp(z_y / T)`; then the ``top_k`` most probable tokens; then of these,
    their probabilities again summing to 1, the nucleus: the fewest, most probable first, that together reach
    ``top_p``. What is left sums to 1. Of equally probable tokens the lowest id comes first. (``transformers`` has the
    same order.)

    Args:
        logits: ``[n v]``, or log-probabilities; minus infinity is a token that cannot come.
        options: ``temperature``, ``top_k`` and ``top_p``.

    Returns:
        Probabilities ``[n v]``, float64.

    Example:
        >>> logits = torch.tensor([[0.1, 0.5, 0.4]]).log()
        >>> token_distribution(logits, DecodingOptions(sample=True, top_p=0.8))
        tensor([[0.0000, 0.5556, 0.4444]], dtype=torch.float64)
    """
    logits = logits.double()
    scaled = (logits - logits.amax(dim=-1, keepdim=True)) / options.temperature  # at most 0: nothing overflows
    if options.top_k is None and options.top_p is None:
        return scaled.softmax(dim=-1)
    values, ids = top(scaled, options.top_k or scaled.shape[-1])
    probabilities = values.softmax(dim=-1)
    if options.top_p is not None:
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= options.top_p, 0.0)
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return torch.zeros_like(scaled).scatter(-1, ids, probabilities)
