"""CTranslate2's engine, which decodes and scores by itself. Imports no torch."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from selfattn.data.pairs import Example
from selfattn.decoding.options import GREEDY, DecodingOptions, Hypothesis
from selfattn.errors import UserError
from selfattn.tokenizers.protocol import EOS, SPECIALS

SEARCHED_TOKENS = 8_192  # of sources that are decoded together, times hypotheses; more at once takes longer
SCORED_TOKENS = 32_768  # of sources whose targets are scored together
_OTHERWISE = "CTranslate2 computes it in another way"


def check_options(options: DecodingOptions, *, has_prefixes: bool) -> None:
    """Check that CTranslate2's engine decodes as selfattn does.

    Args:
        options: how to decode.
        has_prefixes: whether outputs begin with texts.

    Raises:
        UserError: the options need samples, several outputs, a length penalty or no repetitions, which the engine
            computes in another way; or a prefix and a beam together.
    """
    for name in ("sample", "length_penalty", "n_best", "no_repeat_ngram"):
        if getattr(options, name) != getattr(GREEDY, name):
            raise UserError(f"`{name}`: {_OTHERWISE}; load the run that was exported, or export to onnx")
    if has_prefixes and options.beam > 1:
        raise UserError(f"`prefix` with a beam: {_OTHERWISE}; leave `beam` out, or load the exported run")


def first_limit(sources: Sequence[list[int]], longest: int) -> int:
    """Return the most tokens of an output in the first of two searches.

    An output is cut off where a model repeats itself. It is searched again, so the first time it need not be searched
    to its end: half of the limit, which is the longest right output in a training, and at least twice the longest
    source.

    Example:
        >>> first_limit([[5, 6, 2], [5, 2]], 40), first_limit([[5, 6, 2], [5, 2]], 8), first_limit([[5, 6, 2]], 4)
        (20, 6, 4)
    """
    return min(longest, max(longest // 2, 2 * max(map(len, sources), default=1)))


class Ctranslate2Engine:
    """A model in a folder that :func:`~selfattn.exports.ctranslate2.to_ctranslate2` has written.

    It runs on the CPU, in the type of its file.

    Args:
        folder: with ``model.bin``.
        threads: how many it computes with; 0: as many as ``OMP_NUM_THREADS`` says, else at most four.

    Raises:
        UserError: the package ctranslate2 is missing, or a file is missing or broken.
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        super().__init__()
        try:
            import ctranslate2
        except ImportError:
            raise UserError(f"{folder}: a package is missing; pip install 'selfattn[ctranslate2]'") from None
        try:
            self.engine: Any = ctranslate2.Translator(str(folder), intra_threads=threads)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder}: CTranslate2 cannot read it ({error}); export the run again") from None

    def hypotheses(
        self,
        sources: Sequence[list[int]],
        options: DecodingOptions,
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
        *,
        scored: bool = True,
    ) -> list[list[Hypothesis]]:
        """Decode every source, as :func:`selfattn.decoding.sources.decode_sources` does, up to its own limit.

        Raises:
            UserError: the options need samples, several outputs, a length penalty or no repetitions, which the engine
                computes in another way; or a prefix and a beam together.
        """
        check_options(options, has_prefixes=any(prefixes))
        by_place: list[Hypothesis | None] = [None] * len(sources)
        for limit in sorted(set(limits)):  # the engine has one limit for all sources of a call
            places = [place for place, of_source in enumerate(limits) if of_source == limit]
            starts = [prefixes[place] for place in places] if any(prefixes) else []
            best = self._best([sources[place] for place in places], starts, options.beam, limit, scored)
            for place, hypothesis in zip(places, best, strict=True):
                by_place[place] = hypothesis
        hypotheses = [[hypothesis] for hypothesis in by_place if hypothesis is not None]
        return self._scored_again(sources, hypotheses) if scored and any(prefixes) else hypotheses

    def _best(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[Sequence[int]],
        beam: int,
        longest: int,
        scored: bool,
    ) -> list[Hypothesis]:
        """Return the best hypothesis of each source, of at most ``longest`` tokens."""
        named = [list(map(_name, source)) for source in sources]
        started = [list(map(_name, prefix)) for prefix in prefixes] or None
        first = first_limit(sources, longest) if beam > 1 else longest
        best = [candidates[0] for candidates in self._search(named, started, beam, 1, first, scored)]
        # As in selfattn's beam search, a hypothesis that is cut off comes after any finished one: where one hypothesis
        # was, all are searched. One that is finished is the best there is: the others can only become less probable.
        cut_off = [place for place, hypothesis in enumerate(best) if not hypothesis.finished and beam > 1]
        if cut_off:
            again = [named[place] for place in cut_off]
            several = self._search(again, None, beam, beam, longest, scored)
            for place, candidates in zip(cut_off, several, strict=True):
                best[place] = max(candidates, key=lambda candidate: candidate.finished)
        return best

    def _search(
        self,
        sources: list[list[str]],
        prefixes: list[list[str]] | None,
        beam: int,
        count: int,
        longest: int,
        scored: bool,
    ) -> list[list[Hypothesis]]:
        """Let the engine search ``count`` hypotheses for each source; the fewer, the sooner it ends."""
        try:
            results = self.engine.translate_batch(
                sources,
                target_prefix=prefixes,
                beam_size=beam,
                num_hypotheses=count,
                length_penalty=0.0,
                min_decoding_length=0,
                max_decoding_length=longest,
                max_input_length=0,
                max_batch_size=max(1, SEARCHED_TOKENS // beam),
                batch_type="tokens",
                return_end_token=True,
                return_scores=scored,
            )
        except RuntimeError as error:  # such as a missing position
            raise ValueError(str(error)) from None
        hypotheses = []
        for result in results:
            candidates = []
            scores = result.scores or [math.nan] * len(result.hypotheses)
            for tokens, score in zip(result.hypotheses, scores, strict=True):
                finished = tokens[-1:] == [SPECIALS[2]]
                ids = list(map(_number, tokens[:-1] if finished else tokens))
                candidates.append(Hypothesis(ids, score, score, finished))
            hypotheses.append(candidates)
        return hypotheses

    def _scored_again(
        self, sources: Sequence[list[int]], hypotheses: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Return hypotheses with the log-probability of all their tokens: the engine leaves out that of a prefix."""
        examples = []
        for source, (best, *_) in zip(sources, hypotheses, strict=True):
            examples.append(Example(source, [*best.ids, EOS] if best.finished else best.ids))
        scored = []
        for scores, (best, *_) in zip(self.score_tokens(examples), hypotheses, strict=True):
            total = math.fsum(scores)
            scored.append([replace(best, log_probability=total, score=total)])
        return scored

    def score_tokens(self, examples: Sequence[Example]) -> list[list[float]]:
        """Score the tokens of every target, as :func:`selfattn.decoding.scoring.score_tokens` does."""
        try:
            results = self.engine.score_batch(
                [list(map(_name, example.source)) for example in examples],
                [[_name(token) for token in example.target if token != EOS] for example in examples],
                max_batch_size=SCORED_TOKENS,
                batch_type="tokens",
                max_input_length=0,
            )
        except RuntimeError as error:  # such as a missing position
            raise ValueError(str(error)) from None
        # The engine also scores the end of a target that has none.
        return [
            list(result.log_probs[: len(example.target)]) for result, example in zip(results, examples, strict=True)
        ]


@cache
def _name(token: int) -> str:
    """Return the engine's name of a token."""
    return SPECIALS[token] if token < len(SPECIALS) else str(token)


@cache
def _number(name: str) -> int:
    """Return the token that the engine calls so."""
    return SPECIALS.index(name) if name in SPECIALS else int(name)
