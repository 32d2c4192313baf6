"""What stands behind an output: its tokens, the log-probability of each, and its alignment with the source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from selfattn.data.pairs import Example
from selfattn.decoding.options import Output, ScoresTargets
from selfattn.evaluation.links import Link
from selfattn.runs.predictor import Predictor
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.protocol import Tokenizer, token_texts


@dataclass(frozen=True)
class OutputDetails:
    """The tokens of an output, and what is known of each.

    Attributes:
        source_tokens: of the source, without its end.
        tokens: of the output, with ``<eos>`` where the model ended it.
        token_scores: natural log-probability of each of `tokens`, given the source and the tokens before it; None if
            not requested.
        alignment: links ``(source position, target position)`` as of :meth:`selfattn.runs.run.Run.align`; None if not
            requested.
    """

    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...] | None
    alignment: tuple[Link, ...] | None


def output_details(
    run: Predictor,
    texts: Sequence[str],
    outputs: Sequence[Sequence[Output]],
    *,
    align: bool = False,
    token_scores: bool = False,
) -> list[list[OutputDetails]]:
    """Return the details of outputs, which the model reads once more.

    Args:
        run: that has written them; trained on pairs.
        texts: the inputs.
        outputs: of each, from :meth:`selfattn.runs.predictor.Predictor.decode`.
        align: link each token to the source token that it attends to most, as `Run.align` does.
        token_scores: give the log-probability of each token; their sum is that of the output.

    Returns:
        For each input, in their order, the details of each of its outputs.

    Raises:
        UserError: the run is a language model, or has no attention to its source that could align.

    Example:
        ``output_details(run, texts, run.decode(texts), token_scores=True)[0][0].token_scores``
    """
    tokenizer = run.tokenizer
    examples: list[Example] = []
    scored: list[Example] = []
    scores: Iterator[tuple[float, ...] | None] = repeat(None)
    links: Iterator[tuple[Link, ...] | None] = repeat(None)
    with run.of_pairs("predict"):
        for text, row in zip(texts, outputs, strict=True):
            source = [*tokenizer.source.encode(run.clean(text)), tokenizer.eos_id]
            for output in row:
                if output.score is not None:
                    target = [*output.ids, tokenizer.eos_id]
                    examples.append(Example(source, target))
                    # An output that was cut off has no end to be scored, and perhaps no position for one.
                    scored.append(Example(source, target if output.finished else target[:-1]))
        if token_scores:
            if isinstance(run.model, ScoresTargets):
                of_examples = run.model.score_tokens(scored)
            else:
                from selfattn.decoding.scoring import score_tokens

                of_examples = score_tokens(run.model, scored)
            scores = map(tuple, of_examples)
        if align:
            from selfattn.evaluation.attention import token_links

            links = map(tuple, token_links(run.model, examples))
    rows = []
    for text, row in zip(texts, outputs, strict=True):
        source_tokens = token_texts(tokenizer.source, run.clean(text))[:-1]
        of_text = []
        for output in row:
            # Of an input that is empty or too long nothing was decoded.
            details = OutputDetails((), (), () if token_scores else None, () if align else None)
            if output.score is not None:
                details = OutputDetails(source_tokens, output_tokens(tokenizer, output), next(scores), next(links))
            of_text.append(details)
        rows.append(of_text)
    return rows


def output_tokens(tokenizer: Tokenizer, output: Output) -> tuple[str, ...]:
    """Return the text of each token of an output, and of its end if it has one.

    The texts together are the output, where the tokens are those that the tokenizer gives for it; a model may also
    write a text in other pieces, which are then named as `Tokenizer.pieces` names them. A placeholder of a kept symbol
    is named by its pattern.
    """
    target = tokenizer.target
    ids = list(output.ids)
    text = target.decode(ids)
    *tokens, end = target.pieces([*ids, tokenizer.eos_id])
    if target.encode(text) == ids:
        marks = target.marks if isinstance(target, KeptTokenizer) else set[str]()
        texts = token_texts(target, text)
        tokens = [name if part in marks else part for name, part in zip(tokens, texts, strict=False)]
    return (*tokens, end) if output.finished else tuple(tokens)
