"""Attention: weights on examples, and how every head agrees with gold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le

from selfattn.codec import Plain
from selfattn.data.pairs import Span
from selfattn.results.quality import Estimate, Share, Unit

_ROUNDING = 1e-3  # weights are kept with four decimals
Kind = Literal["cross", "blocking", "gradient", "encoder", "decoder"]
Weight = Annotated[float, Ge(-_ROUNDING), Le(1 + _ROUNDING)]


@dataclass(frozen=True)
class AttentionMap(Plain):
    """The weights of one head: [t][s] for `cross`, [s][s] for `encoder`, [t][t] for `decoder`.

    Beside them, as layer 0 and head 0, what the output depends on, [t][s]: by `blocking` each source token (how far the
    step's distribution moves, as total variation), and by `gradient` times input (shares of a row).

    Row k of a `cross` or `decoder` map belongs to the step that predicts target token k. The columns of a `decoder` map
    are what the decoder has read: the beginning-of-sequence token, then the target without its last token.
    """

    kind: Kind
    layer: int
    head: int
    weights: tuple[tuple[Weight, ...], ...]


@dataclass(frozen=True)
class ModelAttention(Plain):
    """One model on one example: what it predicted and its maps; tokens stand in the order of the text."""

    prediction: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    maps: tuple[AttentionMap, ...]


@dataclass(frozen=True)
class ShownAttention(Plain):
    """One model's attention on the test item at a place, counted from 0."""

    place: int
    model: ModelAttention


@dataclass(frozen=True)
class AttentionExample(Plain):
    """One example whose attention is shown, with its gold alignment where that is known by construction."""

    source: str
    target: str
    format: str = ""
    gold: tuple[Span, ...] = ()
    models: Mapping[str, ModelAttention] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention(Plain):
    """All examples whose attention is shown."""

    examples: tuple[AttentionExample, ...] = ()


@dataclass(frozen=True)
class HeadAlignment(Plain):
    """How the attention of one head, or the mean of a layer's heads, agrees with gold spans or links.

    Attributes:
        layer: counted from 0.
        head: counted from 0; None for the mean of the layer's heads.
        gold_share: share of the attention on the gold source tokens, by the step that writes a token.
        aer: alignment error rate of each token's most attended source token; lower is better.
        shifted_gold_share: the same by the step that reads the token.
        shifted_aer: error rate by the step that reads the token.
        entropy: nats.
        entropy_share: of the largest possible.
        eos_share: attention on the source's end of sentence.
    """

    layer: int
    head: int | None = None
    gold_share: float | None = None
    aer: Share | None = None
    shifted_gold_share: float | None = None
    shifted_aer: Share | None = None
    entropy: float | None = None
    entropy_share: float | None = None
    eos_share: float | None = None


@dataclass(frozen=True)
class ModelAlignment(Plain):
    """A model's attention against gold, on the test items, of its run with the first seed.

    Attributes:
        heads: every head of every layer.
        means: the mean of the heads of each layer.
        best: the row among `heads` that was best on validation items in the step that writes a token: [layer, head].
        best_shifted: the same in the step that reads it.
        diagonal_aer: alignment error rate of links along the diagonal, which ask no model.
    """

    heads: tuple[HeadAlignment, ...]
    means: tuple[HeadAlignment, ...]
    best: tuple[int, int] | None = None
    diagonal_aer: Share | None = None
    best_shifted: tuple[int, int] | None = None


@dataclass(frozen=True)
class Agreement(Plain):
    """How far attention agrees with what the output depends on, on test items, of the run with the first seed.

    Rank correlations over the source tokens (Kendall's tau-b, -1 to 1), mean over the tokens of an output, then items.

    Attributes:
        items: test items.
        blocking: attention, mean over heads and layers, with what changes when a source token is blocked.
        gradient: attention with gradient times input.
        between: the two with each other.
    """

    items: int
    blocking: Estimate | None = None
    gradient: Estimate | None = None
    between: Estimate | None = None


@dataclass(frozen=True)
class HeadScore(Plain):
    """Score of a run without one head.

    Attributes:
        layer: name of the attention layer.
        head: counted from 0.
        score: without the head.
        difference: from the score of the unchanged run.
        p: of the paired test, two-sided, corrected for the number of heads (Holm 1979).
    """

    layer: str
    head: int
    score: float
    difference: float
    p: float


@dataclass(frozen=True)
class HeadScores(Plain):
    """Scores of a run without each of its heads.

    Attributes:
        metric: name of the metric.
        unit: of the score.
        signature: of the metric and its test; empty where nothing is left open.
        items: number of pairs.
        score: of the unchanged run.
        to: what stands in the place of a head: ``zero``, ``mean`` or ``uniform`` weights.
        heads: in the order of the model.
    """

    metric: str
    unit: Unit
    signature: str
    items: int
    score: float
    to: str
    heads: tuple[HeadScore, ...]

    def changes(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[float, ...], ...]]:
        """Return the layers, the heads, and for each layer the share of the score by which it changes without each."""
        most = 1 + max(head.head for head in self.heads)
        rows = {head.layer: [0.0] * most for head in self.heads}
        for head in self.heads:
            share = abs(head.difference) / self.score if self.score else 0.0
            rows[head.layer][head.head] = min(1.0, share)
        return tuple(rows), tuple(map(str, range(most))), tuple(map(tuple, rows.values()))
