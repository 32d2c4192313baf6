"""What each attention head is worth: the score of a run without it (Michel et al. 2019, section 3)."""

from collections.abc import Iterator, Sequence

from selfattn.attention import MultiHeadAttention
from selfattn.data.pairs import Pair
from selfattn.errors import UserError, number_of
from selfattn.evaluation.buckets import evaluate_outputs
from selfattn.evaluation.metrics import Metric
from selfattn.evaluation.variances import holm
from selfattn.models.inside import ablate, attention_layers, head_means, intermediates, reweigh
from selfattn.results.record import HeadScore, HeadScores
from selfattn.runs.run import Run

MEANS_OVER = 20
"""Number of inputs over which the mean output of a head is taken."""


def layers_with_heads(run: Run) -> dict[str, MultiHeadAttention]:
    """Return the attention layers of a run of pairs, if each head of all of them can be left out alone; else none.

    A layer with a state instead of weights, as linear attention has in a decoder, computes its heads together.
    """
    layers = attention_layers(run.model) if run.takes_pairs else {}
    names = intermediates(run.model) if layers else ()
    return layers if all(f"{layer}.heads" in names for layer in layers) else {}


def score_heads(run: Run, pairs: Sequence[Pair], measure: Metric, to: str = "zero") -> HeadScores:
    """Measure a run on pairs without each of its heads, one at a time. Decoding is greedy.

    Args:
        run: trained on pairs, with attention.
        pairs: to be decoded.
        measure: the metric.
        to: what stands in the place of a head: ``zero``, its ``mean`` output over some inputs, or ``uniform`` weights.

    Raises:
        UserError: the run is a language model, computes with another engine, or has no heads that can be left out.
    """
    if to not in ("zero", "mean", "uniform"):
        raise UserError(f"heads: expected zero, mean or uniform, got {to!r}")
    if not list(run.model.parameters()):
        raise UserError(f"{run.path}: an exported run has no heads to leave out; take the run it was exported from")
    layers = layers_with_heads(run)
    if not layers:
        reason = f"{run.config.preset} has no heads to leave out one by one"
        raise UserError(f"{run.path}: {reason}; take a run of pairs with attention")
    sources = [pair.source for pair in pairs]
    plain = run.predict(sources)
    traces = [run.trace(source) for source in sources[:MEANS_OVER] if run.clean(source)] if to == "mean" else []
    measured = {}
    for layer, module in layers.items():
        for head in range(module.num_heads):
            if to == "uniform":
                edit = reweigh(layer, "uniform", [head])
            else:
                edit = ablate(layer, [head], to=head_means(traces, layer) if to == "mean" else 0.0)
            outputs = run.intervene(edit).predict(sources)
            measured[layer, head] = evaluate_outputs(outputs, pairs, [measure], plain)
    name = measure.name
    first, *_ = measured.values()
    score = first["against"]["metrics"][name]
    p_values = holm([results["against"]["p"][name] for results in measured.values()])
    heads = []
    for ((layer, head), results), p in zip(measured.items(), p_values, strict=True):
        without = results["metrics"][name]
        heads.append(HeadScore(layer, head, without, without - score, p))
    signature = first.get("signatures", {}).get(name, "")
    return HeadScores(name, measure.unit, signature, len(pairs), score, to, tuple(heads))


def head_lines(scores: HeadScores) -> Iterator[str]:
    """Write the scores as a table: a line for each head."""
    scale = 100 if scores.unit == "share" else 1
    unit = " %" if scores.unit == "share" else ""
    signature = f"  ({scores.signature})" if scores.signature else ""
    pairs = number_of(scores.items, "pair")
    yield f"{scores.metric} on {pairs}: {scale * scores.score:.2f}{unit} with all heads{signature}"
    replaced = {"zero": "its output is 0", "mean": "its output is its mean", "uniform": "its weights are uniform"}
    points = "difference in points; " if scores.unit in ("share", "points") else ""
    heads = number_of(len(scores.heads), "head")
    yield f"without a head ({replaced[scores.to]}); {points}p: paired test, corrected for {heads}"
    yield ""
    width = max(len(head.layer) for head in scores.heads)
    yield f"{'layer':<{width}}  head   score  difference       p"
    for head in scores.heads:
        p = "<0.0001" if head.p < 0.0001 else f"{head.p:.4f}"
        values = f"{scale * head.score:6.2f}  {scale * head.difference:+10.2f}  {p:>7}"
        yield f"{head.layer:<{width}}  {head.head:>4}  {values}"


def heads_svg(scores: HeadScores) -> str:
    """Draw what each head is worth: a row for each layer, the darker the more the score changes without the head."""
    from selfattn.report.pictures import attention_svg

    layers, heads, rows = scores.changes()
    title = f"change of {scores.metric} without each head, as a share of it"
    return attention_svg(rows, heads, layers, title=title)
