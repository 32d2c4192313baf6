"""From sources to hypotheses by any way of decoding, in batches of like length."""

from __future__ import annotations

from collections.abc import Sequence

from selfattn.data.batches import Batch, batches
from selfattn.data.examples import Example
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.decoding.hypotheses import Hypothesis
from selfattn.decoding.length_penalty import LengthPenalty
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.sampling import sample
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator
from selfattn.tokenizers.protocol import Tokenizer

BATCH_SIZE = 256
# Long texts go in smaller batches, so that memory stays bounded whatever the input.
MAX_TOKENS = 32_768


def decode_sources(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    options: DecodingOptions,
    *,
    limits: Sequence[int],
    streams: Sequence[int],
    batch_size: int = BATCH_SIZE,
) -> list[list[Hypothesis]]:
    """Decode every source.

    Sources of like length share a batch, which changes nothing but the time it takes.

    Args:
        model: any model of the protocol, on any device.
        tokenizer: gives the special tokens.
        sources: ids, with whatever the model expects at their end.
        options: how.
        limits: for each source the most tokens of an output, ``<eos>`` counted.
        streams: for each source the number of its stream ``sampling/NUMBER`` of ``options.seed``.
        batch_size: hypotheses decoded together; default 256.

    Returns:
        For each source, in their order, its hypotheses, the best first: ``options.n_best`` of them, or fewer where a
        beam finds fewer. Where nothing is searched, the score is the log-probability.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("abc")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> options = DecodingOptions(beam=3, n_best=2)
        >>> found = decode_sources(model, tokenizer, [[4, 2], [5, 6, 2]], options, limits=[3, 5], streams=[0, 1])
        >>> [len(hypotheses) for hypotheses in found]
        [2, 2]
    """
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for batch in batches(
        [Example(sources[index], [tokenizer.eos_id]) for index in order],
        batch_size=max(1, batch_size // options.beam),
        max_tokens=max(1, MAX_TOKENS // options.beam),
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        generator=None,
    ):
        places = [order[place] for place in batch.indices]
        hypotheses = _decode(
            model, tokenizer, batch, options, [limits[place] for place in places], [streams[place] for place in places]
        )
        for place, own in zip(places, hypotheses, strict=True):
            found[place] = own
    return found


def _decode(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    batch: Batch,
    options: DecodingOptions,
    limits: list[int],
    streams: list[int],
) -> list[list[Hypothesis]]:
    """Decode one batch."""
    batch = batch.to(next(model.parameters()).device)
    source, mask, bos_id, eos_id = batch.source, batch.source_mask, tokenizer.bos_id, tokenizer.eos_id
    if options.beam > 1:
        return beam_search(
            model,
            source,
            mask,
            bos_id=bos_id,
            eos_id=eos_id,
            max_length=limits,
            beam_size=options.beam,
            n_best=options.n_best,
            length_penalty=LengthPenalty(options.length_penalty),
        ).sentences
    if options.sample:
        one = sample(
            model,
            source,
            mask,
            bos_id=bos_id,
            eos_id=eos_id,
            max_length=limits,
            generator=[generator(options.seed, f"sampling/{number}") for number in streams],
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
        )
    else:
        one = greedy(model, source, mask, bos_id=bos_id, eos_id=eos_id, max_length=limits)
    return [
        [Hypothesis(ids, score, score, finished)]
        for ids, score, finished in zip(one.ids, one.scores, one.finished, strict=True)
    ]
