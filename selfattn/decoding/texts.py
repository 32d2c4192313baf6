"""From sources, as ids or as texts, to outputs by any way of decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from selfattn.data.batches import Batch
from selfattn.data.pairs import Example
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import Hypothesis, LengthPenalty, in_batches
from selfattn.decoding.constrained import constrained_search
from selfattn.decoding.glossary import missing
from selfattn.decoding.greedy import greedy, sample
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.decoding.restrictions import Restrictions
from selfattn.models.decoder_only.model import Continuation
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.distributed import Processes

T = TypeVar("T")

BATCH_SIZE = 256  # outputs that are decoded together
BEAM_SIZE = 640  # hypotheses of a beam search that are: a step of few rows takes as long as one of many
MAX_TOKENS = 32_768  # tokens of their sources


@dataclass(frozen=True)
class Output:
    """One output for an input.

    Attributes:
        text: what it says.
        score: the log-probability over the length penalty. Finished outputs are ranked by it, and after them those
            that were cut off, whatever their scores. None where nothing was decoded: the input is empty or refused.
        log_probability: natural, of the whole output and its end; None likewise.
        finished: whether the model ended it; otherwise it was cut off at the longest length allowed.
        ids: the tokens that the model wrote, without its end.
    """

    text: str
    score: float | None
    log_probability: float | None
    finished: bool
    ids: tuple[int, ...] = ()


NOTHING = Output("", None, None, True)
"""The output for an input with nothing in it, or that is refused: empty, and without a score."""


@runtime_checkable
class OwnSearch(Protocol):
    """A model that decodes by itself, such as one of another program that gives no steps."""

    def hypotheses(
        self,
        sources: Sequence[list[int]],
        options: DecodingOptions,
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> list[list[Hypothesis]]:
        """Decode every source, as :func:`decode_sources` does."""


def decode_sources(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    options: DecodingOptions,
    *,
    limits: Sequence[int],
    streams: Sequence[int],
    prefixes: Sequence[Sequence[int]] = (),
    before: Sequence[Sequence[int]] = (),
    required: Sequence[Sequence[str]] = (),
    processes: Processes | None = None,
) -> list[list[Hypothesis]]:
    """Decode every source.

    Args:
        model: any model of the protocol, on any device.
        tokenizer: gives the special tokens.
        sources: ids, with whatever the model expects at their end.
        options: how.
        limits: for each source the most tokens of an output, ``<eos>`` counted.
        streams: for each source the number of its stream ``sampling/NUMBER`` of ``options.seed``.
        prefixes: for each source the tokens that its outputs begin with; default none.
        before: for each source the tokens in front of its outputs, for ``options.no_repeat_ngram``; default ``<bos>``.
        required: for each source words that its outputs must have; default none. Where the best outputs lack some, they
            are searched again, see :func:`selfattn.decoding.constrained.constrained_search`. Needs a beam.
        processes: those that share the batches out, each with the same model; default this one alone.

    Returns:
        For each source, in their order, its hypotheses: ``options.n_best`` of them, or fewer where a beam finds fewer.
        The best comes first, and those that are cut off stand behind all finished ones. Where nothing is searched, the
        score is the log-probability.

    Raises:
        Stopped: a stop was requested, see :mod:`selfattn.interrupts`; after the present step of decoding.
        ValueError: a prefix leaves no room for an end.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("abc")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> options = DecodingOptions(beam=3, n_best=2)
        >>> decoded = decode_sources(model, tokenizer, [[4, 2], [5, 6, 2]], options, limits=[3, 5], streams=[0, 1])
        >>> [len(hypotheses) for hypotheses in decoded]
        [2, 2]
    """
    for prefix, limit in zip(prefixes, limits, strict=False):
        if len(prefix) >= limit:
            raise ValueError(f"a prefix of {len(prefix)} tokens, but outputs have at most {limit}; allow longer ones")
    if isinstance(model, OwnSearch):
        return model.hypotheses(sources, options, limits, prefixes)
    restrictions = None
    if any(prefixes) or options.no_repeat_ngram is not None:
        nothing: list[list[int]] = [[] for _ in sources]
        starts = before or [[tokenizer.bos_id] for _ in sources]
        restrictions = Restrictions(prefixes or nothing, starts, options.no_repeat_ngram)
    examples = [Example(source, [tokenizer.eos_id]) for source in sources]
    rows = BATCH_SIZE if options.beam == 1 else max(1, BEAM_SIZE // options.beam)
    sizes: dict[str, Any] = {"batch_size": rows, "max_tokens": max(1, MAX_TOKENS // options.beam)}
    ends = {"bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id}
    penalty = LengthPenalty(options.length_penalty)
    of_beam: dict[str, Any] = {"beam_size": options.beam, "n_best": options.n_best, "length_penalty": penalty}

    def search(way: Callable[..., list[T]], batch: Batch, places: Sequence[int], **settings: Any) -> list[T]:
        """Decode a batch of the sources at these places in one way."""
        longest = [limits[place] for place in places]
        of_batch = None if restrictions is None else restrictions.of(places)
        return way(model, batch.source, batch.source_mask, max_length=longest, restrictions=of_batch, **settings)

    def decode(batch: Batch, places: list[int]) -> list[list[Hypothesis]]:
        if options.beam > 1:
            return search(beam_search, batch, places, **ends, **of_beam)
        if options.sample:
            chance = [generator(options.seed, f"sampling/{streams[place]}") for place in places]
            drawn = search(sample, batch, places, generator=chance, options=options, **ends)
        else:
            drawn = search(greedy, batch, places, **ends)
        return [[hypothesis] for hypothesis in drawn]

    decoded = in_batches(model, examples, decode, **sizes, processes=processes)
    lacking = []
    for place, words in enumerate(required):
        texts = [tokenizer.target.decode(hypothesis.ids) for hypothesis in decoded[place]]
        if any(missing(words, text) for text in texts):
            lacking.append(place)

    def decode_again(batch: Batch, places: list[int]) -> list[list[Hypothesis]]:
        places = [lacking[place] for place in places]
        words = [required[place] for place in places]
        return search(constrained_search, batch, places, tokenizer=tokenizer.target, required=words, **of_beam)

    searched = in_batches(model, [examples[place] for place in lacking], decode_again, **sizes)
    for place, hypotheses in zip(lacking, searched, strict=True):
        decoded[place] = hypotheses
    return decoded


def decode_texts(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    options: DecodingOptions = GREEDY,
    *,
    max_length: int | Sequence[int] | Callable[[int], int],
    first: int = 0,
    prefixes: Sequence[str] = (),
    required: Sequence[Sequence[str]] = (),
    processes: Processes | None = None,
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
        required: for each text words that its outputs must have, see :func:`decode_sources`; default none.
        processes: see :func:`decode_sources`.

    Returns:
        For each text, in their order, its outputs, the best first.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer(["May 1", "2001-05-01"])
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> outputs = decode_texts(model, tokenizer, ["May 1", "", "May 11"], max_length=3)
        >>> len(outputs), outputs[1][0].text
        (3, '')
    """
    filled = [index for index, text in enumerate(texts) if text.strip()]
    sources = [[*tokenizer.encode(texts[index]), tokenizer.eos_id] for index in filled]
    most = options.max_length or max_length
    if isinstance(most, int):
        limits = [most] * len(filled)
    elif callable(most):
        limits = [most(len(source)) for source in sources]
    else:
        limits = [most[index] for index in filled]
    streams = [first + index for index in filled]
    beginnings = [tokenizer.target.encode(prefixes[index]) for index in filled] if prefixes else []
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
    sources = [tokenizer.encode(text)[-max(1, context // 2) :] for text in texts]
    limits = [options.max_length or context + 1 - len(source) for source in sources]
    streams = range(first, first + len(texts))
    continuation = Continuation(model, tokenizer.bos_id)
    before = [[tokenizer.bos_id, *source] for source in sources]
    hypotheses = decode_sources(
        continuation, tokenizer, sources, options, limits=limits, streams=streams, before=before
    )
    return [
        [to_output(hypothesis, tokenizer, beginning=text) for hypothesis in continuations]
        for text, continuations in zip(texts, hypotheses, strict=True)
    ]


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
