"""The steps of attention, to look at: queries, keys, values, scores, weights and sums of a layer.

Axis letters are those of :mod:`selfattn.attention.core`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from selfattn.attention.cache import KeyValue
from selfattn.attention.core import Attended, for_heads
from selfattn.attention.layer import MultiHeadAttention
from selfattn.attention.masks import Mask
from selfattn.attention.scores import Score

_SHOWN = 4  # numbers of a vector in a table


@dataclass(frozen=True)
class AttentionSteps:
    """Everything between the input of an attention layer and its output.

    Attributes:
        query: after projection and positions, ``[b h i e]``.
        key: after projection and positions, ``[b g j e]``.
        value: ``[b g j c]``.
        scores: of every query with every key, before the softmax, with the bias, without the mask, ``[b h i j]``.
        weights: the distributions over the keys, ``[b h i j]``.
        heads: the weighted sum of the values for each head, its context vector, ``[b h i c]``.
        output: the heads joined and projected, ``[b i d]``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    weights: Tensor
    heads: Tensor
    output: Tensor

    def table(self, i: int, *, head: int = 0, row: int = 0, tokens: Sequence[str] = ()) -> str:
        """Write out how one query attends: score and weight of every key, and the weighted sum.

        Args:
            i: number of the query; a negative one counts from the end.
            head: default the first.
            row: of the batch; default the first.
            tokens: names of the keys; default their numbers.

        Example:
            >>> import torch
            >>> layer = MultiHeadAttention(2, num_heads=1, score="dot", project=False)
            >>> keys = torch.tensor([[[0.0, 1.0], [2.0, 0.0]]])
            >>> print(attention_steps(layer, torch.tensor([[[1.0, 0.0]]]), keys).table(0, tokens="ab"))
            query [1.000, 0.000]
            key         score   weight   value
            a           0.000    0.119   [0.000, 1.000]
            b           2.000    0.881   [2.000, 0.000]
            sum of weight x value: [1.762, 0.119]
        """
        lines = [f"query {_shown(self.query[row, head, i])}", f"{'key':<8}{'score':>9}{'weight':>9}   value"]
        scores = self.scores[row, head, i].tolist()
        values = self.value[row, head * self.value.shape[1] // self.heads.shape[1]]  # heads may share them
        for j, weight in enumerate(self.weights[row, head, i].tolist()):
            name = tokens[j] if tokens else str(j)
            lines.append(f"{name:<8}{scores[j]:>9.3f}{weight:>9.3f}   {_shown(values[j])}")
        return "\n".join([*lines, f"sum of weight x value: {_shown(self.heads[row, head, i])}"])


def attention_steps(
    layer: MultiHeadAttention,
    x: Tensor,
    context: Tensor | KeyValue | None = None,
    *,
    mask: Tensor | Mask | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    positions: Tensor | None = None,
) -> AttentionSteps:
    """Call an attention layer, and return its queries, keys, values, scores and weights beside its output.

    Args:
        layer: any.
        x: see :meth:`~selfattn.attention.layer.MultiHeadAttention.forward`, as all that follow.
        context: see there.
        mask: see there.
        bias: see there.
        causal: see there.
        positions: see there.

    Raises:
        ValueError: rows share their context, as hypotheses of a beam search do; and what ``forward`` raises.

    Example:
        >>> import torch
        >>> layer, x = MultiHeadAttention(8, num_heads=2), torch.randn(3, 5, 8)
        >>> steps = attention_steps(layer, x)
        >>> torch.equal(steps.output, layer(x, need_weights=True).output), steps.scores.shape
        (True, torch.Size([3, 2, 5, 5]))
    """
    if isinstance(context, KeyValue) and context.shared_by > 1:
        raise ValueError("attention_steps: rows share their context; give each its own")
    steps: dict[str, Tensor] = {}

    def keep(step: str, tensor: Tensor) -> Tensor:
        steps[step] = tensor
        return tensor

    watched = object.__new__(type(layer))  # shares everything with the layer but what computes its attention
    vars(watched).update(vars(layer), attend_with=partial(attend_watched, keep, layer.attend_with))
    output, _ = watched(x, context, mask=mask, bias=bias, causal=causal, positions=positions)
    return AttentionSteps(**steps, output=output)


def attend_watched(
    visit: Callable[[str, Tensor], Tensor],
    compute: Callable[..., Attended],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score,
    bias: Tensor | None,
    dropout_p: float,
    need_weights: bool,
    **settled: Any,
) -> Attended:
    """Attend, and hand over everything on the way.

    Args:
        visit: sees the name of a step, as in :class:`AttentionSteps`, and its tensor; returns what is computed on with.
        compute: attends, as :func:`~selfattn.attention.core.attend` does.
        query: see there, as all that follow.
        key: see there.
        value: see there.
        score: see there.
        bias: see there.
        dropout_p: see there.
        need_weights: see there.
        settled: normalizer and mask, which ``compute`` takes as they are.
    """
    query = visit("query", query)
    key = visit("key", key)
    value = visit("value", value)
    keys, values = for_heads(query, key, value)
    plain = score(query, keys)
    plain = plain if bias is None else plain + bias
    scores = visit("scores", plain)
    if scores is not plain:
        score = _Computed(scores)
        bias = None
    attended = compute(query, key, value, score=score, bias=bias, dropout_p=dropout_p, need_weights=True, **settled)
    assert attended.weights is not None
    weights = visit("weights", attended.weights)
    output = attended.output
    if weights is not attended.weights:
        dropped = F.dropout(weights, dropout_p, training=dropout_p > 0)
        output = dropped @ values
    return Attended(visit("heads", output), weights if need_weights else None)


class _Computed(Score):
    """Scores that are there already."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.scores


def _shown(vector: Tensor) -> str:
    """Write the first numbers of a vector."""
    numbers = [f"{number:.3f}" for number in vector[:_SHOWN].tolist()]
    return f"[{', '.join([*numbers, '...'] if len(vector) > _SHOWN else numbers)}]"
