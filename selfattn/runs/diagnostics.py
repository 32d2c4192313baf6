"""What is asked of a trained run besides its answers: gates, cost, and where it looks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from selfattn.data.batches import collate
from selfattn.data.examples import Example, encode_pairs
from selfattn.data.pairs import Pair
from selfattn.decoding.beam import beam_search
from selfattn.evaluation.alignment.attention_gold import Gold, gold_from_spans
from selfattn.evaluation.alignment.attention_scores import AttentionScores, HeadScore, diagonal_counts, score_attention
from selfattn.evaluation.alignment.error_rate import count_alignment, diagonal
from selfattn.evaluation.alignment.gold_files import GoldPair
from selfattn.evaluation.alignment.word_alignment import Way, word_links
from selfattn.evaluation.cost.decoding import Decode, decoding_times, disk_size, greedy_to_length, peak_memory
from selfattn.evaluation.cost.flops import BatchShape, count_flops, machine_peak
from selfattn.evaluation.gates.model_gates import model_gates
from selfattn.evaluation.gates.output_gates import floor_gate, output_gates
from selfattn.evaluation.gates.overfitting import overfitting
from selfattn.evaluation.statistics.buckets import by_tag
from selfattn.figures.gates import Gate
from selfattn.models.protocol import Seq2Seq
from selfattn.runs.build_model import build_model
from selfattn.runs.directory import WEIGHTS
from selfattn.runs.run import Run
from selfattn.runs.task import Task
from selfattn.runs.training_set import TestSet
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.objective.loss import batch_loss

if TYPE_CHECKING:
    from selfattn.runs.testing import Answer

_GATE_ROWS = 8  # rows of data that the gates ask about
_ALIGNED = 400  # pairs whose attention is held against gold
_EXAMPLES, _EXAMPLES_WITHOUT_TAGS = 12, 6  # whose attention is shown
_LENGTHS = (8, 32)  # target tokens that decoding is timed with
_BEAM = 5


class Examination:
    """Asks a trained run.

    Args:
        run: in evaluation mode.
        task: that it was trained on.
        tests: that it is tested on.
    """

    def __init__(self, run: Run, task: Task, tests: TestSet) -> None:
        self.run, self.task, self.tests = run, task, tests
        self.model, self.tokenizer = run.model, run.tokenizer

    def gates(self, answers: Sequence[Answer], *, thorough: bool) -> Iterator[Gate]:
        """Ask everything that decides whether the run's figures mean anything.

        Args:
            answers: on the test.
            thorough: also train a fresh model on a few examples.
        """
        tokenizer = self.tokenizer
        chosen = _spread([answer.pair for answer in answers], _GATE_ROWS)
        examples = encode_pairs(chosen, tokenizer)
        batch = collate(examples, tokenizer.pad_id, tokenizer.bos_id, range(len(examples)))
        yield from model_gates(self.model, batch)
        yield from output_gates(
            [answer.output for answer in answers],
            [answer.pair.target for answer in answers],
            [answer.finished for answer in answers],
        )
        yield self.tests.seen.overlap
        yield from self._floor(answers)
        if thorough:
            yield self._overfitting()

    def _floor(self, answers: Sequence[Answer]) -> Iterator[Gate]:
        """Ask for what others reached, where they did the same."""
        training, data = self.run.config.training, self.run.config.data
        floor = self.task.published(data).get(self.run.config.model.architecture)
        if floor is None:
            return
        pairs = self.tests.seen.pairs
        passes = training.epochs if training.items_per_epoch is None else 1
        distinct = pairs if "first" not in data else int(data["first"])
        value = self.task.scores([answer.output for answer in answers], [answer.pair.target for answer in answers])
        gate = floor_gate(floor, value[floor.metric], examples=pairs * passes, distinct=distinct)
        if gate is not None:
            yield gate

    def _overfitting(self) -> Gate:
        config, tokenizer = self.run.config, self.tokenizer
        make = partial(build_model, config.model, tokenizer, config.training.seed)
        return overfitting(
            make,
            encode_pairs(self.tests.validation, tokenizer),
            pad_id=tokenizer.pad_id,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
        )

    def alignment(self) -> dict[str, Any] | None:
        """Hold the attention against gold; the best head is chosen on other pairs than it is reported on.

        Returns:
            Plain JSON values; None where there is no gold or no attention.
        """
        if self.tests.gold:
            return gold_alignment(self.model, self.tokenizer, self.tests.gold)
        test, validation = (_with_spans(pairs[:_ALIGNED]) for pairs in (self.tests.pairs, self.tests.validation))
        if not (test and validation):
            return None
        gold = self._gold(test)
        chosen_on, scored = self._scored(validation, self._gold(validation)), self._scored(test, gold)
        if chosen_on is None or scored is None:
            return None
        best = chosen_on.best()
        return {
            "items": len(test),
            "heads": [_head_json(head) for head in scored.heads],
            "means": [_head_json(head) for head in scored.means],
            "best": [best.layer, best.head],
            "diagonal_aer": diagonal_counts(gold).aer,
        }

    def _gold(self, pairs: Sequence[Pair]) -> list[Gold]:
        source, target = self.tokenizer.source, self.tokenizer.target
        return [
            gold_from_spans(pair.spans, _ranges(source, pair.source), _ranges(target, pair.target)) for pair in pairs
        ]

    def _scored(self, pairs: Sequence[Pair], gold: Sequence[Gold]) -> AttentionScores | None:
        return score_attention(
            self.model,
            encode_pairs(pairs, self.tokenizer),
            gold,
            pad_id=self.tokenizer.pad_id,
            bos_id=self.tokenizer.bos_id,
        )

    def attention(self) -> list[dict[str, Any]]:
        """Show what it looks at: on the first test pair of each kind, or the first pairs of all."""
        pairs = self.tests.pairs
        places = [group.places[0] for group in by_tag(pairs)] or list(range(_EXAMPLES_WITHOUT_TAGS))
        found = []
        for place in places[:_EXAMPLES]:
            if place < len(pairs) and self._has_attention():
                view = self.run.attention(pairs[place].source)
                maps = [[_rounded(head) for head in layer] for layer in view.weights]
                shown = {"prediction": view.prediction, "source_tokens": view.source_tokens}
                found.append({"place": place} | shown | {"target_tokens": view.target_tokens, "cross": maps})
        return found

    def _has_attention(self) -> bool:
        source = torch.tensor([[self.tokenizer.eos_id]])
        target = torch.tensor([[self.tokenizer.bos_id]])
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            maps = self.model.attention_maps(
                source.to(device), target.to(device), source_mask=torch.ones_like(source, dtype=torch.bool).to(device)
            )
        return bool(maps.cross)

    def cost(self, *, thorough: bool) -> dict[str, Any]:
        """Measure what it costs besides the time that training took.

        Args:
            thorough: also measure the machine, memory and decoding; otherwise only count.
        """
        shape = self._shape()
        flops = count_flops(self.model, shape)
        found: dict[str, Any] = {
            "training_flops_per_token": flops.training_per_token,
            "decoding_flops_per_token": flops.decoding_per_token,
            "weights_bytes": (self.run.path / WEIGHTS).stat().st_size,
            "run_bytes": disk_size(self.run.path).total,
        }
        if thorough:
            found["peak_flops"] = machine_peak(device=next(self.model.parameters()).device.type)
            found["training_bytes"] = peak_memory(self._training_step()).bytes
            found["decoding"] = list(self._decoding(shape))
        return found

    def _shape(self) -> BatchShape:
        """The batch that training sees on average."""
        return batch_shape(encode_pairs(self.tests.validation, self.tokenizer), self.run.config.training.batch_size)

    def _training_step(self) -> Callable[[], None]:
        training, tokenizer = self.run.config.training, self.tokenizer
        examples = encode_pairs(self.tests.validation, tokenizer)[: training.batch_size]
        batch = collate(examples, tokenizer.pad_id, tokenizer.bos_id, range(len(examples)))
        device = next(self.model.parameters()).device
        batch = batch.to(device)

        def step() -> None:
            with torch.enable_grad():
                batch_loss(self.model, batch).backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it

        step()  # gradients are there from the first step on
        self.model.zero_grad(set_to_none=False)
        return step

    def _decoding(self, shape: BatchShape) -> Iterator[dict[str, Any]]:
        beam: Decode = _beam_to_length
        for method, decode in (("greedy", greedy_to_length), (f"beam {_BEAM}", beam)):
            for batch in (1, 64):
                times = decoding_times(
                    self.model,
                    vocab_size=len(self.tokenizer),
                    source_length=shape.source,
                    target_lengths=_LENGTHS,
                    batch=batch,
                    decode=decode,
                    repeats=3,
                )
                for time in times:
                    further = time.per_token_ms or 0.0
                    sizes = {"method": method, "batch": batch, "length": time.target_length}
                    yield sizes | {"first_ms": time.first_token_ms, "token_ms": further}


def gold_alignment(model: Seq2Seq, tokenizer: Tokenizer, gold: Sequence[GoldPair]) -> dict[str, Any] | None:
    """Hold attention, read as links between words, against hand-made links.

    The best head is the one with the lowest error on the first half of the pairs; figures are of the second half.

    Args:
        model: any.
        tokenizer: of it.
        gold: at least two pairs.
    """
    links = word_links(model, tokenizer, gold)
    if not links:
        return None
    half = len(gold) // 2
    right = [pair.links for pair in gold]
    chosen_on = {way: count_alignment(found[:half], right[:half]).aer for way, found in links.items()}
    reported = {way: count_alignment(found[half:], right[half:]).aer for way, found in links.items()}
    heads = [way for way in links if way.head is not None and not way.shifted]
    best = min(heads, key=lambda way: math.inf if (aer := chosen_on[way]) is None else aer)

    def row(way: Way) -> dict[str, Any]:
        shifted = reported[way._replace(shifted=True)]
        return {"layer": way.layer, "head": way.head, "aer": reported[way], "shifted_aer": shifted}

    return {
        "items": len(gold) - half,
        "heads": [row(way) for way in heads],
        "means": [row(way) for way in links if way.head is None and not way.shifted],
        "best": [best.layer, best.head],
        "diagonal_aer": count_alignment(
            [diagonal(len(pair.source), len(pair.target)) for pair in gold[half:]], right[half:]
        ).aer,
    }


def _with_spans(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.spans]


def _ranges(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """The characters that each token stands for; none for ``<eos>``."""
    return [*tokenizer.spans(text), (len(text), len(text))]


def batch_shape(examples: Sequence[Example], batch_size: int) -> BatchShape:
    """Return the shape of an average batch of validation examples, as training would cut them."""
    source = round(sum(len(example.source) for example in examples) / len(examples))
    target = round(sum(len(example.target) for example in examples) / len(examples))
    return BatchShape(batch_size, source, target)


def _beam_to_length(model: Seq2Seq, source: Tensor, source_mask: Tensor, length: int) -> object:
    return beam_search(model, source, source_mask, bos_id=1, eos_id=-1, max_length=length, beam_size=_BEAM)


def _spread(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Choose pairs of different lengths: a seeded draw, so that the same are asked every time."""
    return random.Random(0).sample(list(pairs), min(count, len(pairs)))


def _rounded(weights: Tensor) -> list[list[float]]:
    return [[round(weight, 4) for weight in row] for row in weights.tolist()]


def _head_json(head: HeadScore) -> dict[str, Any]:
    return {
        "layer": head.layer,
        "head": head.head,
        "gold_share": head.unshifted.gold_share,
        "aer": head.unshifted.alignment.aer,
        "shifted_gold_share": head.shifted.gold_share,
        "shifted_aer": head.shifted.alignment.aer,
        "entropy": head.entropy,
        "entropy_share": head.entropy_share,
        "eos_share": head.eos_share,
    }
