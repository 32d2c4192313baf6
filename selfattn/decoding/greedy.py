"""Greedy decoding: at every step the most probable token, for a whole batch at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from selfattn.decoding.common import Hypothesis, check_number, check_source, length_limits
from selfattn.decoding.probabilities import chosen_log_probabilities, top
from selfattn.decoding.stepping import stepping
from selfattn.models.protocol import Seq2Seq

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
        choose: takes the next tokens in another way, as :func:`~selfattn.decoding.sampling.sample` does.

    Returns:
        One hypothesis for each source, in their order. The lowest id wins a tie.

    Raises:
        ValueError: ``max_length`` is not positive or not one for each source, or source and mask are not as described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
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
    check_source(source, source_mask)
    limits = length_limits(max_length, len(source))
    ids: list[list[int]] = [[] for _ in limits]
    finished = [False] * len(limits)
    scores = [0.0] * len(limits)
    with stepping(model) as stepper:
        state = stepper.start(stepper.encode(source, source_mask))
        token = torch.full((len(limits),), bos_id, device=source.device)
        living = list(range(len(limits)))  # which sentence each row of the state belongs to
        for step in range(max(limits)):
            logits, state = stepper.step(token, state)
            token = choose(logits, living, step)
            values = chosen_log_probabilities(logits, token[:, None])[:, 0].tolist()
            staying: list[int] = []
            for place, (row, chosen, value) in enumerate(zip(living, token.tolist(), values, strict=True)):
                check_number(value)
                scores[row] += value
                if chosen == eos_id:
                    finished[row] = True
                else:
                    ids[row].append(chosen)
                    if step + 1 < limits[row]:
                        staying.append(place)
            if not staying:
                break
            if len(staying) < len(living):
                index = torch.tensor(staying, device=source.device)
                state, token = state.reorder(index), token[index]
                living = [living[place] for place in staying]
    return [Hypothesis(*parts) for parts in zip(ids, scores, scores, finished, strict=True)]
