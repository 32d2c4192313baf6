"""The steps of attention, to look at: queries, keys, values, scores, weights and sums of a layer.

Axis letters are those of :mod:`selfattn.attention.core`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from selfattn.attention.layer import MultiHeadAttention
from selfattn.attention.masks import Mask
from selfattn.attention.placing import placed
from selfattn.attention.projections import KeyValue, Query

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
    x: Tensor | Query,
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
    attended = layer(x, context, mask=mask, bias=bias, causal=causal, positions=positions, need_weights=True)
    assert attended.weights is not None
    query = x.heads if isinstance(x, Query) else layer.project_query(x)
    keys = context
    if keys is None:
        assert isinstance(x, Tensor)
        keys = layer.project_context(x, positions)
    elif isinstance(keys, Tensor):
        keys = layer.project_context(keys)
    if layer.position is not None:
        query, bias = placed(layer.position, query, keys, positions, bias)
    times = layer.num_heads // layer.num_kv_heads
    scores = layer.score(query, keys.key.repeat_interleave(times, dim=1))
    scores = scores if bias is None else scores + bias
    weights = attended.weights
    unseen = (weights == 0).all(dim=-2)[..., None]  # NaN may stand there
    heads = weights @ keys.value.repeat_interleave(times, dim=1).masked_fill(unseen, 0.0)
    return AttentionSteps(query, keys.key, keys.value, scores, weights, heads, attended.output)


def _shown(vector: Tensor) -> str:
    """Write the first numbers of a vector."""
    numbers = [f"{number:.3f}" for number in vector[:_SHOWN].tolist()]
    return f"[{', '.join([*numbers, '...'] if len(vector) > _SHOWN else numbers)}]"
