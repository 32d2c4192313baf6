"""A language model's texts: cut into examples, measured by perplexity, continued."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from selfattn.data.pairs import Example
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.scoring import score_examples
from selfattn.decoding.texts import Output, decode_sources, to_output
from selfattn.models.decoder_only.model import Continuation
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer


@dataclass(frozen=True)
class TextScore:
    """How well a language model foretells texts.

    Attributes:
        log_probability: natural, summed over all tokens.
        tokens: how many those are; the end of each text is one.
        characters: of the texts; their ends are not counted.
    """

    log_probability: float
    tokens: int
    characters: int

    @property
    def loss(self) -> float:
        """Nats a token."""
        return -self.log_probability / self.tokens

    @property
    def perplexity(self) -> float:
        """``exp`` of the loss: among how many equally probable tokens the model chooses, as it were."""
        return math.exp(self.loss)

    @property
    def bits_per_character(self) -> float:
        """All bits, those of the ends too, over the characters: comparable whatever the tokens are."""
        return -self.log_probability / math.log(2) / self.characters


def text_examples(texts: Iterable[str], tokenizer: Tokenizer, context: int) -> list[Example]:
    """Cut texts into windows of at most ``context`` tokens, each an example without a source.

    Every token is in exactly one window. ``<eos>`` stands behind a text's last window only, one token more. A window
    knows nothing of those before it.

    Args:
        texts: those that are empty are left out.
        tokenizer: of the model.
        context: tokens in a window, at least 1.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> [example.target for example in text_examples(["abcde"], CharTokenizer("abcde"), 2)]
        [[4, 5], [6, 7], [8, 2]]
    """
    examples = []
    for text in texts:
        ids = tokenizer.encode(text)
        for start in range(0, len(ids), context):
            window = ids[start : start + context]
            examples.append(Example([], window + [tokenizer.eos_id] * (start + context >= len(ids))))
    return examples


def score_texts(model: Seq2Seq, tokenizer: Tokenizer, texts: Sequence[str], *, context: int) -> TextScore:
    """Measure how well a language model foretells texts, in windows as it was trained on.

    Args:
        model: trained with sources of no tokens.
        tokenizer: of the model.
        texts: at least one that is not empty.
        context: see :func:`text_examples`.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("ab")
        >>> model = build(PRESETS["decoder-only"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> score = score_texts(model, tokenizer, ["ab", "bba"], context=2)
        >>> score.tokens, score.characters
        (7, 5)
    """
    scores = score_examples(model, tokenizer, text_examples(texts, tokenizer, context))
    return TextScore(
        math.fsum(score.log_probability for score in scores),
        sum(score.tokens for score in scores),
        sum(map(len, texts)),
    )


def continue_texts(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    options: DecodingOptions,
    *,
    context: int,
    first: int = 0,
) -> list[list[Output]]:
    """Continue each text until the model ends it.

    Of a text with more than ``context / 2`` tokens the model reads that many, the last. It stops where a window would
    be full, if not told otherwise: beyond that it has learned nothing.

    Args:
        model: trained with sources of no tokens.
        tokenizer: of the model.
        texts: beginnings; an empty one is fine.
        options: how to decode.
        context: see :func:`text_examples`.
        first: the number of the first text, which chooses the streams of sampling; default 0.

    Returns:
        For each text, in their order, its outputs, the best first; in each the beginning, then the continuation.
    """
    sources = [tokenizer.encode(text)[-max(1, context // 2) :] for text in texts]
    hypotheses = decode_sources(
        Continuation(model, tokenizer.bos_id),
        tokenizer,
        sources,
        options,
        limits=[context + 1 - len(source) if options.max_length is None else options.max_length for source in sources],
        streams=range(first, first + len(texts)),
    )
    return [
        [to_output(hypothesis, tokenizer, beginning=text) for hypothesis in continuations]
        for text, continuations in zip(texts, hypotheses, strict=True)
    ]
