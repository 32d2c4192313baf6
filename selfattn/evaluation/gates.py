"""Sanity gates: what a model, its outputs and the test data must pass before scores count.

Of a model: is the future hidden, does padding, batching or stepwise reading change it, can it learn? Of test data and
outputs: overlap with training, endings, repetition, variety, published baselines, texts. A gate measures a number and
compares it with a limit.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, repeat

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example, Pair
from selfattn.decoding.common import evaluating
from selfattn.decoding.greedy import greedy
from selfattn.errors import DivergedError, number_of
from selfattn.evaluation.links import GoldPair
from selfattn.evaluation.metrics import read_counts, words_of
from selfattn.models.protocol import Seq2Seq, stepped_logits
from selfattn.results.quality import Better
from selfattn.results.record import Gate
from selfattn.results.subject import Baseline
from selfattn.streams import fixed_seed, seed_for
from selfattn.tokenizers.protocol import BOS, EOS, PAD, Tokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import Replica

# What rounding may change, as a share of the largest logit, where the same numbers are added in another order.
_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_CUTS = 8  # places at which the future is changed
_EXTRA = 3  # columns of padding that are added
EXAMPLES = 64
LIMIT = 0.98  # 63 of 64
_WARM_UP = 20  # steps
_LOOK_EVERY = 20  # steps between two looks at what is known
_KNOWN = 0.1  # nats a token: above it there is nothing to see yet


def model_gates(model: Seq2Seq, batch: Batch, *, source_vocab_size: int | None = None) -> list[Gate]:
    """Run the gates of this file on a model, but for :func:`overfitting`.

    Args:
        model: on any device, in any mode; left as it was.
        batch: some rows of the data, best of different lengths; eight are enough.
        source_vocab_size: number of source tokens; default as many as target tokens.

    Example:
        >>> from selfattn.data.batches import collate
        >>> from selfattn.data.pairs import Example
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> batch = collate([Example([5, 6, 7, 2], [8, 9, 2]), Example([5, 2], [9, 2])], 0, 1, [0, 1])
        >>> [(gate.name, gate.passed) for gate in model_gates(model, batch)]
        [('causal', True), ('padding', True), ('batch', True), ('forward = step', True)]
    """
    return [causal(model, batch), *same_logits(model, batch, source_vocab_size=source_vocab_size)]


def causal(model: Seq2Seq, batch: Batch) -> Gate:
    """Check that changing later target tokens leaves the logits before them the same, bit for bit.

    Checked in evaluation mode and, with the same dropout for both, in training mode, where a leak teaches copying.

    Args:
        model: see :func:`model_gates`.
        batch: with at least two target positions.

    Raises:
        ValueError: there is only one target position, so nothing is later than another.
    """
    batch = batch.to(model.device)
    length = batch.target_in.shape[1]
    if length < 2:
        raise ValueError("the causal gate needs targets of at least two tokens")
    places = sorted({1 + number * (length - 2) // (_CUTS - 1) for number in range(_CUTS)})
    worst = 0.0
    for training in (False, True):
        with evaluating(model), torch.no_grad():
            model.train(training)
            before = _logits(model, batch)
            for place in places:
                target = batch.target_in.clone()
                target[:, place:] = _other(target[:, place:], before.shape[-1])
                after = _logits(model, replace(batch, target_in=target))
                worst = max(worst, _difference(after[:, :place], before[:, :place]))
    held = "no logit moved when later target tokens changed"
    checked = "places, evaluation and training mode"
    reason = f"logits move by up to {worst:.3g} when later target tokens change" if worst else held
    return Gate.at_most("causal", worst, 0.0, f"{reason} ({len(places)} {checked})")


def same_logits(model: Seq2Seq, batch: Batch, *, source_vocab_size: int | None = None) -> list[Gate]:
    """Check that the logits stay the same, but for rounding, however a batch is read.

    ==============  ================================================================================================
    padding         with wider padding of the sources, and other tokens in it
    batch           each row alone (with its padding), and all rows in reverse order
    forward = step  by ``step``, token by token, which decoding uses, instead of ``forward``, which is trained
    ==============  ================================================================================================

    Args:
        model: see :func:`model_gates`.
        batch: see :func:`model_gates`.
        source_vocab_size: see :func:`model_gates`.
    """
    batch = batch.to(model.device)
    rows = torch.arange(len(batch.source), device=batch.source.device)
    extra = batch.source.new_zeros(len(rows), _EXTRA)
    mask = torch.cat([batch.source_mask, extra.bool()], dim=1)
    wider = replace(batch, source=torch.cat([batch.source, extra], dim=1), source_mask=mask)
    with evaluating(model), torch.no_grad():
        before = _logits(model, batch)
        other = _other(wider.source, source_vocab_size or before.shape[-1])
        refilled = replace(wider, source=torch.where(mask, wider.source, other))
        padded = {"with more padding": _logits(model, wider)}
        padded["with other tokens in the padding"] = _logits(model, refilled)
        alone = torch.cat([_logits(model, _pick(batch, row)) for row in rows[:, None]])
        reordered = {"read alone": alone, "in reverse order": _logits(model, _pick(batch, rows.flip(0))).flip(0)}
        state = model.start(model.encode(batch.source, batch.source_mask))
        by_step = {"token by token": stepped_logits(model, batch.target_in, state)}
    return [
        _judge("padding", padded, before, "padding changes nothing"),
        _judge("batch", reordered, before, "a row's neighbours change nothing"),
        _judge("forward = step", by_step, before, "token by token the logits are those of the whole target"),
    ]


def overfitting(
    make: Callable[[], Seq2Seq],
    examples: Sequence[Example],
    *,
    lr: float = 3e-3,
    steps: int = 1500,
) -> Gate:
    """Train a fresh model on a few examples, until it writes them all greedily or the steps are used up; 98 % pass.

    A model that cannot has a fault (missing gradients, an unstable learning rate, shifted targets), and comparing it
    with a sound model says nothing about architectures.

    Args:
        make: builds the model, with first values, on the device where it is to be trained.
        examples: the first 64 with different sources are used; fewer are enough where there are not so many.
        lr: learning rate of AdamW, constant after 20 steps of warm-up; default 0.003.
        steps: at most; default 1500. They decide, never the clock: what a gate finds does not depend on how busy the
            machine is.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import DecoderOnlyConfig, TransformerConfig
        >>> config = DecoderOnlyConfig(stack=TransformerConfig(dim=16, num_heads=2, ffn_dim=16))
        >>> examples = [Example([3, 4, 2], [4, 3, 2]), Example([4, 4, 2], [3, 2])]
        >>> make = lambda: build(config, vocab_size=5, pad_id=0, seed=0)
        >>> overfitting(make, examples, lr=0.01).passed
        True
    """
    first: dict[tuple[int, ...], Example] = {}
    for example in examples:
        first.setdefault(tuple(example.source), example)  # one source with two targets cannot be known by heart
    chosen = list(first.values())[:EXAMPLES]
    model = make().train()
    batch = collate(chosen, PAD, BOS, range(len(chosen))).to(model.device)
    config = TrainingConfig(lr=lr, weight_decay=0.0, schedule="constant", warmup_steps=_WARM_UP)
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())

    def count_known() -> int:
        longest = batch.target_out.shape[1]
        written = greedy(model, batch.source, batch.source_mask, bos_id=BOS, eos_id=EOS, max_length=longest)
        ends = zip(written, chosen, strict=True)
        return sum(reason.finished and [*reason.ids, EOS] == example.target for reason, example in ends)

    step = 0
    num_known = 0
    loss = math.inf
    started = time.perf_counter()
    stepper.chance.seed(seed_for(0, "dropout"))
    training_steps = take_steps(stepper, repeat([batch], steps), total_steps=max(steps, _WARM_UP))
    with torch.enable_grad():
        try:
            for taken in training_steps:
                step += 1  # one that diverges counts too
                loss = taken.loss
                if step == steps or (step % _LOOK_EVERY == 0 and loss < _KNOWN):
                    num_known = count_known()
                if num_known == len(chosen):
                    break
        except DivergedError:
            step += 1
            num_known = 0
            loss = math.nan
    share = num_known / len(chosen)
    used = f"{number_of(step, 'step')} in {time.perf_counter() - started:.0f} seconds"
    used += f", at a loss of {loss:.2g} nats a token"
    reason = f"a fresh model writes {num_known} of {len(chosen)} pairs after {used}"
    return Gate.at_least("overfitting", share, LIMIT, reason)


def _judge(name: str, readings: dict[str, Tensor], before: Tensor, held: str) -> Gate:
    """Compare the logits of several readings with those before; the largest difference counts."""
    limit = _ROUNDING[before.dtype]
    largest = before.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs().max().item()
    shares = {how: _difference(logits, before) / max(1.0, largest) for how, logits in readings.items()}
    how, worst = max(shares.items(), key=lambda item: item[1])
    figures = f"{worst:.1e} of the largest logit, at most {limit:.0e} is rounding"
    reason = f"{held} ({figures})" if worst <= limit else f"{how}, logits change by {figures}"
    return Gate.at_most(name, worst, limit, reason)


def _logits(model: Seq2Seq, batch: Batch) -> Tensor:
    """Run the model, with the same dropout every time."""
    with fixed_seed(0, batch.source.device):
        logits: Tensor = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    return logits


def _other(ids: Tensor, vocab_size: int) -> Tensor:
    """Replace every id by another one, always by the same."""
    draw = torch.Generator().manual_seed(0)
    shift = torch.randint(1, vocab_size, ids.shape, generator=draw).to(ids.device)
    return (ids + shift) % vocab_size


def _pick(batch: Batch, rows: Tensor) -> Batch:
    return batch.changed(lambda tensor: tensor[rows], [batch.indices[row] for row in rows.tolist()])


def _difference(actual: Tensor, expected: Tensor) -> float:
    """Return the largest distance: 0 between equal infinities, infinite where something is not a number."""
    apart = torch.where(actual == expected, 0.0, (actual.double() - expected.double()).abs())
    return apart.nan_to_num(nan=math.inf, posinf=math.inf).max().item()


NGRAM = 4
_WINDOW = 8  # characters
_MOSTLY = 0.8  # share of known ones
_ABOVE = 0.2  # more than in validation
# Limits of the gates.
_OVERLAP = 0.01
_SAME = 0.5
_ENDINGS = 0.95
_REPETITION = 0.1
_VARIETY = 0.1
_CHUNK = 10_000  # training pairs that are looked at together
_Output = Sequence[Hashable]  # token ids, or the characters of a text


def overlap_gates(train: Iterable[Pair], test: Sequence[Pair], validation: Sequence[Pair] = ()) -> list[Gate]:
    """Check how many test pairs training or validation contains too, as they are or slightly changed.

    "overlap" counts sources that are the same but for case, and pairs that are the same but for case, punctuation and
    spaces; up to 1 % pass, as real corpora repeat short sentences.

    "similar texts" counts sources with at least 80 % of their 8-grams of characters in the training data. In short or
    formulaic texts these are many without any fault, so the limit is 20 points above the share of validation sources.

    "known targets" counts targets that training contains, whatever their sources. Different questions may have the same
    answer, so the limit is 20 points above the share of validation targets.

    "validation = test" counts test pairs that validation contains too, or validation pairs that the test contains,
    whichever share is larger: weights and settings were chosen on them. Above 1 % it is noted, above half a fault.

    Texts without a source, as language models read them, count as sources.

    Args:
        train: all training pairs, in any order; read once and not kept, so there may be more than memory holds.
        test: at least one pair.
        validation: pairs that are as far from training as the test should be; default none, and only the first gate.

    Example:
        >>> train = [Pair("May 1", "05-01"), Pair("june 2", "06-02")]
        >>> (gate,) = overlap_gates(train, [Pair("May 1", "05-01"), Pair("JUNE 2", "06-02"), Pair("July 3", "06-02")])
        >>> gate.passed, round(gate.value, 3)
        (False, 0.667)
    """
    forms = (_read, lambda pair: _read(pair).casefold(), _bare, lambda pair: pair.target)
    texts = [list(map(form, test)) for form in forms]
    wanted = [set(side) for side in texts]
    usual_targets = {pair.target for pair in validation}
    wanted[-1] |= usual_targets
    in_training: list[set[str]] = [set() for _ in forms]
    similar = _Similar(list(map(_read, (*test, *validation))) if validation else [])
    pairs = iter(train)
    while chunk := list(islice(pairs, _CHUNK)):
        for form, some, present in zip(forms, wanted, in_training, strict=True):
            present |= some.intersection(map(form, chunk))
        similar.read(list(map(_read, chunk)))
    counts = [sum(text in present for text in side) for side, present in zip(texts, in_training, strict=True)]
    reason = (
        f"of {len(test):,} test sources {counts[0]:,} are in the training data word for word, {counts[1]:,} when case "
        f"is ignored; of the pairs {counts[2]:,} when case and punctuation are ignored; of the targets {counts[3]:,}"
    )
    gates = [Gate.at_most("overlap", max(counts[1:3]) / len(test), _OVERLAP, reason)]
    if validation:
        shares = similar.shares()
        value = float(np.mean(shares[: len(test)] >= _MOSTLY))
        usual = float(np.mean(shares[len(test) :] >= _MOSTLY))
        reason = f"{value:.1%} of the test sources have most of their {_WINDOW}-grams in the training data, "
        reason += f"of the validation sources {usual:.1%}"
        gates.append(Gate.at_most("similar texts", value, usual + _ABOVE, reason))
        value = counts[3] / len(test)
        usual = sum(pair.target in in_training[-1] for pair in validation) / len(validation)
        reason = f"{value:.1%} of the test targets are in the training data, of the validation targets {usual:.1%}"
        gates.append(Gate.at_most("known targets", value, usual + _ABOVE, reason))
        tested = [_bare(pair) for pair in test]
        validated = [_bare(pair) for pair in validation]
        shared = set(tested).intersection(validated)
        of_test = sum(text in shared for text in tested)
        of_validation = sum(text in shared for text in validated)
        value = max(of_test / len(tested), of_validation / len(validated))
        reason = f"{of_test:,} of {len(tested):,} test pairs are in the validation set, "
        reason += f"{of_validation:,} of {len(validated):,} validation pairs in the test"
        gates.append(Gate.at_most("validation = test", value, _OVERLAP, reason, note=value <= _SAME))
    return gates


def _read(pair: Pair) -> str:
    """The source of a pair; the text of a language model, which has none."""
    return pair.source or pair.target


def _bare(pair: Pair) -> str:
    """A pair without case, punctuation and spaces."""
    return "\t".join("".join(filter(str.isalnum, text.casefold())) for text in (pair.source, pair.target))


class _Similar:
    """Which character n-grams of some texts occur in others, by their hashes."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [_hashes(text) for text in texts]
        self.known = np.unique(np.concatenate([np.zeros(1, np.uint64), *self.texts]))
        self.is_known = np.zeros(len(self.known), dtype=bool)

    def read(self, texts: Sequence[str]) -> None:
        """Mark the n-grams of these texts as seen."""
        if self.texts:
            hashes = _hashes("\n".join(texts))
            places = np.searchsorted(self.known, hashes).clip(max=len(self.known) - 1)
            self.is_known[places[self.known[places] == hashes]] = True

    def shares(self) -> npt.NDArray[np.float64]:
        """Return for each text the share of its n-grams that were seen; 0 for a text that is too short."""
        marks = (self.is_known[np.searchsorted(self.known, hashes)] for hashes in self.texts)
        return np.array([part.mean() if len(part) else 0.0 for part in marks])


def _hashes(text: str) -> npt.NDArray[np.uint64]:
    """Return a hash of each n-gram of characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    hashes = np.zeros(max(0, len(codes) - _WINDOW + 1), np.uint64)
    for place in range(_WINDOW):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + codes[place : place + len(hashes)]
    return hashes


def repetition_rate(texts: Sequence[_Output]) -> float:
    r"""Return the mean share of 4-grams that occurred before in their own text (seq-rep-4; Welleck et al. 2020, 6.1).

    .. math:: 1 - \frac{\text{different 4-grams}}{\text{4-grams}}

    Args:
        texts: token ids or characters; a text of fewer than four counts as 0.

    Returns:
        0 for no texts.

    Example:
        >>> repetition_rate(["2008-11-13"]), round(repetition_rate(["0000000000"]), 3)
        (0.0, 0.857)
    """
    rates = []
    for text in texts:
        grams = [tuple(text[start : start + NGRAM]) for start in range(len(text) - NGRAM + 1)]
        rates.append(1 - len(set(grams)) / len(grams) if grams else 0.0)
    return sum(rates) / len(rates) if rates else 0.0


def output_gates(
    outputs: Sequence[_Output], targets: Sequence[_Output], finished: Sequence[bool], *, learned: bool = False
) -> list[Gate]:
    """Check outputs: do they end, do they repeat themselves, do they differ?

    ==========  ====================================================================================================
    endings     95 % end by themselves, rather than being cut off at the longest length allowed
    repetition  they repeat themselves at most 10 percentage points more often than right answers do
    variety     different inputs get different answers: one for ten different targets
    ==========  ====================================================================================================

    A model whose outputs do not end, repeat themselves or hardly differ has learned little, or not what the test asks,
    which is a result, and only noted. Where its validation says that it has learned, on texts like those of the test,
    the outputs collapsed in the test, which is a fault.

    Args:
        outputs: what the model wrote, as token ids or texts; at least one.
        targets: the right ones, in the same form.
        finished: whether each output ends with ``<eos>``.
        learned: whether validation, on texts as long as those of the test, was far better; default False.

    Example:
        >>> outputs = ["2008-11-13", "1999-01-02"]
        >>> [gate.passed for gate in output_gates(outputs, ["2008-11-13", "1999-02-01"], [True, True])]
        [True, True, True]
    """
    ended = f"{sum(finished):,} of {len(finished):,} outputs end by themselves, at least {_ENDINGS:.0%} should"
    rate = repetition_rate(outputs)
    usual = repetition_rate(targets)
    repeated = f"{rate:.1%} of the {NGRAM}-grams of an output repeat in it, of a target {usual:.1%}"
    different, expected = (len({tuple(text) for text in texts}) for texts in (outputs, targets))
    varied = f"{different:,} different outputs where there are {expected:,} different targets"
    varied += "; validation was far better" if learned else ""
    return [
        Gate.at_least("endings", sum(finished) / len(finished), _ENDINGS, ended, note=not learned),
        Gate.at_most("repetition", rate, usual + _REPETITION, repeated, note=not learned),
        Gate.at_least("variety", different / expected, _VARIETY, varied, note=not learned),
    ]


def unigrams(train: Iterable[str], texts: Sequence[str], outputs: Sequence[str], tokenizer: Tokenizer) -> Gate:
    """Check that texts are more probable to a model than to the frequencies of tokens in its training texts.

    Args:
        train: training texts; each token counts once more than it occurs.
        texts: the test.
        outputs: of the model for each of them: its counts.
        tokenizer: of the model.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer("ab")
        >>> unigrams(["ab"], ["ba"], [f"{3 * math.log(len(tokenizer))} 3"], tokenizer).passed
        False
    """
    counts = Counter(range(len(tokenizer)))
    for text in train:
        counts.update([*tokenizer.encode(text), tokenizer.eos_id])
    total = counts.total()
    nats = 0.0
    by_frequency = 0.0
    tokens = 0
    for text, output in zip(texts, outputs, strict=True):
        ids = [*tokenizer.encode(text), tokenizer.eos_id]
        nats += read_counts(output)[0]
        by_frequency -= math.fsum(math.log(counts[token] / total) for token in ids)
        tokens += len(ids)
    reason = f"{nats / tokens:.3g} nats a token, {by_frequency / tokens:.3g} by the frequencies of tokens alone"
    return Gate("unigrams", nats < by_frequency, reason, value=nats / by_frequency, limit=1.0)


def baseline_gate(
    baseline: Baseline, value: float, *, better: Better = "higher", examples: int = 0, distinct: int = 0
) -> Gate | None:
    """Check whether a model comes near what others reached: a broken training is no evidence.

    A model that was trained on less may well be worse, and is not checked: not after a quick run, nor where it learns
    from few examples.

    Args:
        baseline: what is expected.
        value: of the metric that the baseline names.
        better: whether higher or lower values are better; default higher.
        examples: training pairs that the model saw, repetitions counted.
        distinct: how many of them were different.

    Returns:
        None where the model was trained on less.

    Example:
        >>> baseline_gate(Baseline("bleu", 38.0, "Smith 2026: 41.2"), 12.5).reason
        'bleu 12.5, at least 38 expected (Smith 2026: 41.2)'
        >>> baseline_gate(Baseline("bleu", 38.0, "Smith 2026: 41.2", examples=29_000), 12.5, examples=1_000) is None
        True
    """
    if examples < baseline.examples or distinct < baseline.distinct:
        return None
    after = f" after {examples:,} training pairs" if baseline.examples else ""
    bound, compare = ("least", Gate.at_least) if better == "higher" else ("most", Gate.at_most)
    reason = f"{baseline.metric} {value:.4g}{after}, at {bound} {baseline.value:.4g} expected ({baseline.source})"
    return compare("published baseline", value, baseline.value, reason, note=True)


@dataclass(frozen=True)
class Seen:
    """Overlap of training and test.

    Attributes:
        gates: on test pairs that training contains too.
        words: count of each word of the test targets in the training targets; empty where words do not matter.
        pairs: number of training pairs: of a file once, of endless data all.
    """

    gates: tuple[Gate, ...]
    words: Mapping[str, int]
    pairs: int


@dataclass(frozen=True)
class TestSet:
    """The test data of one seed.

    Attributes:
        pairs: unseen pairs, the same for every seed.
        validation: unseen pairs that choose settings and weights.
        trained_on: returns every training pair, in any order, perhaps several times.
        probes: further unseen pairs by name, such as years outside the training data.
        gold: sentences with hand-made word links, where spans are not known by construction.
        has_words: whether targets consist of words, rare ones among them.
    """

    pairs: Sequence[Pair]
    validation: Sequence[Pair]
    trained_on: Callable[[], Iterable[Pair]]
    probes: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    gold: Sequence[GoldPair] = ()
    has_words: bool = False

    @cached_property
    def seen(self) -> Seen:
        """Overlap of training and test, from one pass over the training pairs."""
        counts = dict.fromkeys((word for pair in self.pairs for word in words_of(pair.target)), 0)
        pairs = 0

        def counted() -> Iterator[Pair]:
            nonlocal pairs
            for pair in self.trained_on():
                pairs += 1
                for word in words_of(pair.target) if self.has_words else ():
                    if word in counts:
                        counts[word] += 1
                yield pair

        gates = overlap_gates(counted(), self.pairs, self.validation)
        return Seen(tuple(gates), counts if self.has_words else {}, pairs)
