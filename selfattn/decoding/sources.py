"""From sources, as ids, to hypotheses by the steps of a model."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from selfattn.data.batches import Batch
from selfattn.data.pairs import Example
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import LengthPenalty, Restrictions, in_batches
from selfattn.decoding.constrained import constrained_search
from selfattn.decoding.glossary import missing
from selfattn.decoding.greedy import greedy, sample
from selfattn.decoding.options import DecodingOptions, Hypothesis
from selfattn.distributed import Processes
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator
from selfattn.tokenizers.protocol import Tokenizer

T = TypeVar("T")

HYPOTHESES = 640  # outputs that are written together: a step of few rows takes nearly as long as one of many
MAX_TOKENS = 32_768  # tokens of their sources


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
    scored: bool = True,
    most_written: int | None = None,
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
        scored: see :func:`selfattn.decoding.greedy.greedy`; what is sampled, searched or restricted is scored always.
        most_written: most tokens that are written together, if all were as long as the longest limit; a model keeps
            keys and values of each. Default no bound.

    Returns:
        For each source, in their order, its hypotheses: ``options.n_best`` of them, or fewer where a beam finds fewer.
        The best comes first, and those that are cut off stand behind all finished ones. Where nothing is searched, the
        score is the log-probability.

    Raises:
        Stopped: a stop was requested, see :mod:`selfattn.processes`; after the present step of decoding.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer("abc")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> options = DecodingOptions(beam=3, n_best=2)
        >>> decoded = decode_sources(model, tokenizer, [[4, 2], [5, 6, 2]], options, limits=[3, 5], streams=[0, 1])
        >>> [len(hypotheses) for hypotheses in decoded]
        [2, 2]
    """
    restrictions = None
    if any(prefixes) or options.no_repeat_ngram is not None:
        nothing: list[list[int]] = [[] for _ in sources]
        starts = before or [[tokenizer.bos_id] for _ in sources]
        restrictions = Restrictions(prefixes or nothing, starts, options.no_repeat_ngram)
    examples = [Example(source, [tokenizer.eos_id]) for source in sources]
    together = HYPOTHESES
    if most_written is not None:
        together = min(together, most_written // max(limits, default=1))
    sizes: dict[str, Any] = {
        "batch_size": max(1, together // options.beam),
        "max_tokens": max(1, MAX_TOKENS // options.beam),
    }
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
            drawn = search(greedy, batch, places, **ends, scored=scored or restrictions is not None)
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
