"""From texts to outputs by any way of decoding. Imports torch where a model of it decodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from selfattn.decoding.options import GREEDY, NOTHING, DecodingOptions, Hypothesis, Output, OwnSearch
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.protocol import Tokenizer

if TYPE_CHECKING:
    from selfattn.distributed import Processes
    from selfattn.models.protocol import Seq2Seq


def decode_texts(
    model: Seq2Seq | OwnSearch,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    options: DecodingOptions = GREEDY,
    *,
    max_length: int | Sequence[int] | Callable[[int], int],
    first: int = 0,
    prefixes: Sequence[str] = (),
    required: Sequence[Sequence[str]] = (),
    processes: Processes | None = None,
    scored: bool = True,
    most_written: int | None = None,
) -> list[list[Output]]:
    """Write outputs for each text.

    Args:
        model: any model of the protocol, on any device.
        tokenizer: the one it was trained with.
        texts: the inputs; one that is empty or only spaces gives one empty output.
        options: how to decode; default greedily.
        max_length: most tokens of an output, ``<eos>`` counted, where the options do not say; one number, one for each
            text, or a function of the number of tokens of the source, ``<eos>`` counted.
        first: the number of the first text, which chooses the streams of sampling; default 0.
        prefixes: for each text what its outputs begin with, perhaps nothing; default nothing.
        required: for each text words that its outputs must have; default none, see
            :func:`selfattn.decoding.sources.decode_sources`.
        processes: see :func:`selfattn.decoding.sources.decode_sources`.
        scored: whether scores are wanted; without them greedy decoding takes less time, and they are NaN. Default True.
        most_written: see :func:`selfattn.decoding.sources.decode_sources`.

    Returns:
        For each text, in their order, its outputs, the best first.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer(["May 1", "2001-05-01"])
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> outputs = decode_texts(model, tokenizer, ["May 1", "", "May 11"], max_length=3)
        >>> len(outputs), outputs[1][0].text
        (3, '')
    """
    filled = [index for index, text in enumerate(texts) if text.strip()]
    sources = [[*tokenizer.encode(texts[index]), tokenizer.eos_id] for index in filled]
    longest = options.max_length or max_length
    if isinstance(longest, int):
        limits = [longest] * len(filled)
    elif callable(longest):
        limits = [longest(len(source)) for source in sources]
    else:
        limits = [longest[index] for index in filled]
    streams = [first + index for index in filled]
    beginnings = [tokenizer.target.encode(prefixes[index]) for index in filled] if prefixes else []
    for beginning, limit in zip(beginnings, limits, strict=False):
        if len(beginning) >= limit:
            number = len(beginning)
            raise ValueError(f"a prefix of {number} tokens, but outputs have at most {limit}; allow longer ones")
    if isinstance(model, OwnSearch):
        hypotheses = model.hypotheses(sources, options, limits, beginnings, scored=scored)
    else:
        from selfattn.decoding.sources import decode_sources

        hypotheses = decode_sources(
            model,
            tokenizer,
            sources,
            options,
            limits=limits,
            streams=streams,
            prefixes=beginnings,
            required=[required[index] for index in filled] if any(required) else (),
            processes=processes,
            scored=scored,
            most_written=most_written,
        )
    outputs = [[NOTHING] for _ in texts]
    for index, candidates in zip(filled, hypotheses, strict=True):
        outputs[index] = [to_output(hypothesis, tokenizer, source=texts[index]) for hypothesis in candidates]
    return outputs


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
        context: see :func:`selfattn.decoding.scoring.text_examples`.
        first: the number of the first text, which chooses the streams of sampling; default 0.

    Returns:
        For each text, in their order, its outputs, the best first; in each the beginning, then the continuation.
    """
    from selfattn.decoding.sources import decode_sources
    from selfattn.models.decoder_only import Continuation

    sources = [tokenizer.encode(text)[-max(1, context // 2) :] for text in texts]
    limits = [options.max_length or context + 1 - len(source) for source in sources]
    streams = range(first, first + len(texts))
    continuation = Continuation(model, tokenizer.bos_id)
    before = [[tokenizer.bos_id, *source] for source in sources]
    hypotheses = decode_sources(
        continuation, tokenizer, sources, options, limits=limits, streams=streams, before=before
    )
    outputs: list[list[Output]] = []
    for text, continuations in zip(texts, hypotheses, strict=True):
        outputs.append([to_output(hypothesis, tokenizer, beginning=text) for hypothesis in continuations])
    return outputs


def to_output(hypothesis: Hypothesis, tokenizer: Tokenizer, beginning: str = "", source: str = "") -> Output:
    """Turn a hypothesis into text.

    Args:
        hypothesis: from any way of decoding.
        tokenizer: of the model.
        beginning: text that the hypothesis continues; it is put in front. Default: none.
        source: what it was written for, whose kept symbols are copied
            (:class:`selfattn.tokenizers.kept.KeptTokenizer`).
    """
    # Decoded together, as subwords drop the space at the start of a text.
    prompt = tokenizer.encode(beginning) if beginning else []
    text = beginning + tokenizer.decode([*prompt, *hypothesis.ids])[len(tokenizer.decode(prompt)) :]
    if isinstance(tokenizer.target, KeptTokenizer):
        text = tokenizer.target.restore(text, source)
    return Output(text, hypothesis.score, hypothesis.log_probability, hypothesis.finished, tuple(hypothesis.ids))
