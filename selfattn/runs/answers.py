"""What a run says of test items: outputs for inputs, or for texts how probable they are."""

import math
from collections.abc import Sequence

from selfattn.data.pairs import Example, Pair, encode_pairs
from selfattn.decoding.options import GREEDY, DecodingOptions, Output
from selfattn.decoding.scoring import TargetScore, text_examples
from selfattn.evaluation.metrics.basic import write_counts
from selfattn.runs.run import Run
from selfattn.tokenizers.protocol import Tokenizer


def answer(
    run: Run, pairs: Sequence[Pair], options: DecodingOptions = GREEDY, *, targets: Sequence[str] = ()
) -> list[Output]:
    """Return the best output of a run for each test item.

    Args:
        run: its outputs for texts, which are items without a source, are their counts (`write_counts`).
        pairs: the items.
        options: how to decode; default greedily.
        targets: right outputs, see `Run.decode`.
    """
    if run.takes_pairs:
        outputs = run.decode([pair.source for pair in pairs], options, targets=targets)
        return [best for best, *_ in outputs]
    return list(map(_counted, run.score_texts([pair.target for pair in pairs])))


def know_nothing(pairs: Sequence[Pair], tokenizer: Tokenizer) -> list[Output]:
    """Return the outputs of a language model for which all tokens are equally probable: of a training that diverged."""
    counts = [len(tokenizer.encode(pair.target)) + 1 for pair in pairs]
    return [_counted(TargetScore(-count * math.log(len(tokenizer)), count)) for count in counts]


def _counted(score: TargetScore) -> Output:
    return Output(write_counts(score), None, score.log_probability, True)


def examples_of(run: Run, pairs: Sequence[Pair]) -> Sequence[Example]:
    """Return test items as ids; texts in the windows that the run was trained on."""
    if run.takes_pairs:
        return encode_pairs(pairs, run.tokenizer)
    return text_examples([pair.target for pair in pairs], run.tokenizer, run.config.max_length)
