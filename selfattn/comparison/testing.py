"""Test a trained run: outputs, scores, gates, alignment against gold, attention to show, cost."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch

from selfattn.comparison.tested import SCHEMA, Prediction, RunSummary, keep
from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example, Pair, encode_pairs
from selfattn.decoding.options import NOTHING, Output
from selfattn.evaluation import attention
from selfattn.evaluation.buckets import by_tag
from selfattn.evaluation.cost import BatchShape, count_flops, peak_memory
from selfattn.evaluation.gates import TestSet, baseline_gate, model_gates, output_gates, overfitting, unigrams
from selfattn.evaluation.metrics import make_metric, score_outputs
from selfattn.results.record import Agreement, Cost, Gate, HeadScores, ModelAlignment, ShownAttention
from selfattn.runs.directory import WEIGHTS, RunDirectory
from selfattn.runs.evaluate import answer, examples_of, uniform_outputs
from selfattn.runs.heads import layers_with_heads, score_heads
from selfattn.runs.load import build_model
from selfattn.runs.run import Run
from selfattn.runs.task import TaskData, headline, metric_names
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.loss import batch_loss

_GATE_ROWS = 8  # test pairs of the gates
_LONGER = 0.1  # of the test pairs: above this share, test texts count as longer than validation
_LEARNED = 0.1  # of the highest score: below it a model has not learned
_COUNTED = 20_000  # training texts whose tokens are counted
_ALIGNED = 400  # pairs whose attention is compared with gold
_HEAD_ITEMS = 200  # validation pairs that are decoded without each head
_BLOCKED = 32  # pairs whose attention is compared with input attributions
_SHOWN = ("cross", "blocking", "gradient")
_EXAMPLES = 12  # whose attention is shown
_EXAMPLES_WITHOUT_TAGS = 6  # the same, where pairs have no tags


@dataclass(frozen=True)
class RunTest:
    """The test of a trained run.

    Attributes:
        run: trained on the task, in evaluation mode.
        task: decodes and scores.
        tests: of the run's seed.
    """

    run: Run
    task: TaskData
    tests: TestSet

    def write(self, *, leading: bool, thorough: bool, share: float) -> None:
        """Test the run and write the results into its directory.

        Args:
            leading: also compare attention with input attributions; the report shows one run of a model.
            thorough: also measure memory, the scores without each attention head, and whether a fresh model can overfit
                a few examples.
            share: of the recipe's steps.
        """
        run = self.run
        tests = self.tests
        outputs = self.outputs_for(tests.pairs)
        _keep(
            run.path,
            self.task,
            tests,
            list(map(Prediction.to, tests.pairs, outputs)),
            gates=self.gates(outputs, thorough=thorough, share=share),
            cost=measure_cost(run, tests, thorough=thorough),
            alignment=self.alignment(),
            agreement=self.agreement(outputs) if leading else None,
            heads=self.head_scores() if leading and thorough else None,
            attention=self.shown_attention(),
            probes={name: self.answers_for(pairs) for name, pairs in tests.probes.items()},
        )

    def outputs_for(self, pairs: Sequence[Pair]) -> list[Output]:
        """Return what the run writes for the sources of pairs."""
        return answer(self.run, pairs, self.task.decoding, targets=[pair.target for pair in pairs])

    def answers_for(self, pairs: Sequence[Pair]) -> tuple[Prediction, ...]:
        """Return what the run writes for the sources of pairs, with the pairs."""
        return tuple(map(Prediction.to, pairs, self.outputs_for(pairs)))

    def gates(self, outputs: Sequence[Output], *, thorough: bool, share: float) -> tuple[Gate, ...]:
        """Check everything that decides whether the run's figures mean anything.

        Args:
            outputs: of the run for the test pairs.
            thorough: also train a fresh model on a few examples.
            share: of the recipe's steps.
        """
        run = self.run
        tests = self.tests
        # Sampled, for the first pairs of a file may be alike.
        drawn = random.Random(0).sample(list(tests.pairs), min(_GATE_ROWS, len(tests.pairs)))
        texts = [output.text for output in outputs]
        targets = [pair.target for pair in tests.pairs]
        finished = [output.finished for output in outputs]
        tokenizer = run.tokenizer
        rows = _batch(examples_of(run, drawn)[:_GATE_ROWS], tokenizer)
        gates = model_gates(run.model, rows, source_vocab_size=len(tokenizer.source))
        if self.task.takes_pairs:
            learned = not self.is_beyond() and self.has_learned(texts)
            gates += output_gates(texts, targets, finished, learned=learned)
        else:
            train = (pair.target for pair in islice(tests.trained_on(), _COUNTED))
            gates.append(unigrams(train, targets, texts, tokenizer))
        gates += tests.seen.gates
        if published := self.published_baseline(texts, share):
            gates.append(published)
        if thorough:
            build = partial(build_model, run.config.model, tokenizer, run.config.training.seed)
            gates.append(overfitting(build, examples_of(run, tests.validation)))
        return tuple(gates)

    def is_beyond(self) -> bool:
        """Whether the test asks for more than the validation: many sources or targets are longer than any there."""
        pairs = self.tests.pairs
        for side in ("source", "target"):
            longest = max((len(getattr(pair, side)) for pair in self.tests.validation), default=0)
            longer = sum(len(getattr(pair, side)) > longest for pair in pairs)
            if longer > _LONGER * len(pairs):
                return True
        return False

    def has_learned(self, texts: Sequence[str]) -> bool:
        """Whether the best validation was at least twice as good as the test, and better than nothing.

        Args:
            texts: the outputs for the test pairs.
        """
        metric = make_metric(headline(self.task).metric, self.task.language)
        measures = [report.measures for report in RunDirectory(self.run.path).metrics()]
        values = [values[metric.name] for values in measures if metric.name in values]
        tested = metric.of(texts, self.tests.pairs)
        least = _LEARNED * (100 if metric.unit == "points" else 1)
        if metric.better == "lower":
            return min(values, default=math.inf) <= tested / 2
        return max(values, default=0.0) >= max(2 * tested, least)

    def published_baseline(self, texts: Sequence[str], share: float) -> Gate | None:
        """Compare with a published model of this kind on the same data, where there is one.

        Args:
            texts: the outputs for the test pairs.
            share: of the recipe's steps.
        """
        training = self.run.config.training
        data = self.run.config.data
        num_pairs = self.tests.seen.pairs
        baseline = self.task.published(data).get(self.run.config.model.architecture)
        if baseline is None:
            return None
        metric = make_metric(baseline.metric, self.task.language)
        examples = round((training.items_per_epoch or num_pairs) * training.epochs * share)
        if share == 1 and training.max_steps is not None:  # the number of pairs is not known
            examples = 0
        distinct = min(num_pairs, examples) if "first" not in data else int(data["first"])
        value = metric.of(texts, self.tests.pairs)
        return baseline_gate(baseline, value, better=metric.better, examples=examples, distinct=distinct)

    def alignment(self) -> ModelAlignment | None:
        """Compare attention with gold links, made by hand or from known spans; validation pairs choose the best head.

        Returns:
            None without gold or attention.
        """
        tests = self.tests
        if tests.gold:
            return attention.align_words(self.run.model, self.run.tokenizer, tests.gold)
        test = [pair for pair in tests.pairs[:_ALIGNED] if pair.spans]
        validation = [pair for pair in tests.validation[:_ALIGNED] if pair.spans]
        if not (test and validation):
            return None
        chosen_on = self._scored(validation)
        reported = self._scored(test)
        if chosen_on is None or reported is None:
            return None
        return replace(
            reported, best=attention.best_head(chosen_on), best_shifted=attention.best_head(chosen_on, shifted=True)
        )

    def _scored(self, pairs: Sequence[Pair]) -> ModelAlignment | None:
        """Compare attention with the links that the spans of pairs make."""
        tokenizer = self.run.tokenizer
        gold = []
        for pair in pairs:
            # `<eos>` has no characters.
            source = [*tokenizer.source.spans(pair.source), (len(pair.source), len(pair.source))]
            target = [*tokenizer.target.spans(pair.target), (len(pair.target), len(pair.target))]
            gold.append(attention.gold_from_spans(pair.spans, source, target))
        return attention.score_attention(self.run.model, encode_pairs(pairs, tokenizer), gold)

    def agreement(self, outputs: Sequence[Output]) -> Agreement | None:
        """Compare attention with input attributions on the run's own outputs; None for a language model."""
        run = self.run
        if not run.takes_pairs:
            return None
        pairs = zip(self.tests.pairs[:_BLOCKED], outputs, strict=False)
        wrote = [Pair(pair.source, output.text) for pair, output in pairs]
        return attention.agreement(run.model, encode_pairs(wrote, run.tokenizer))

    def head_scores(self) -> HeadScores | None:
        """Measure the run on validation pairs without each attention head; None where none can be left out."""
        if not layers_with_heads(self.run):
            return None
        metric = make_metric(headline(self.task).metric, self.task.language)
        return score_heads(self.run, self.tests.validation[:_HEAD_ITEMS], metric)

    def shown_attention(self) -> tuple[ShownAttention, ...]:
        """Return attention to show: on the first pair of each tag, or on the first pairs; nothing without attention."""
        run = self.run
        pairs = self.tests.pairs
        if not run.takes_pairs:
            return ()
        end = [run.tokenizer.eos_id]
        layers = dict(attention.source_shares(run.model, [Example(end, end)]))[0]
        if not layers:
            return ()
        places = [places[0] for places in by_tag(pairs).values()]
        places = places or list(range(min(_EXAMPLES_WITHOUT_TAGS, len(pairs))))
        return tuple(
            ShownAttention(place, run.attention(pairs[place].source).maps(_SHOWN)) for place in places[:_EXAMPLES]
        )


def count_failed(path: Path, task: TaskData, tests: TestSet, tokenizer: Tokenizer, reason: str) -> None:
    """Keep the results of a diverged training, without gates: every answer is empty, every token equally probable.

    Args:
        path: of the run's directory.
        task: scores.
        tests: of the run's seed.
        tokenizer: of the training.
        reason: of the failure.
    """

    def answers(pairs: Sequence[Pair]) -> tuple[Prediction, ...]:
        outputs = [NOTHING] * len(pairs) if task.takes_pairs else uniform_outputs(pairs, tokenizer)
        return tuple(map(Prediction.to, pairs, outputs))

    probes = {name: answers(pairs) for name, pairs in tests.probes.items()}
    _keep(path, task, tests, answers(tests.pairs), gates=(), cost=Cost(), probes=probes, failed=reason)


def _keep(path: Path, task: TaskData, tests: TestSet, answers: Sequence[Prediction], **measured: Any) -> None:
    """Score the answers to the test pairs, and write them with what else was measured."""
    result = RunSummary(
        schema=SCHEMA,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        headline=headline(task),
        scores=score_outputs(metric_names(task), [answer.output for answer in answers], tests.pairs, task.language),
        decoding={"beam": task.decoding.beam, "length_penalty": task.decoding.length_penalty},
        words=tests.seen.words,
        **measured,
    )
    keep(path, result, answers)


def measure_cost(run: Run, tests: TestSet, *, thorough: bool) -> Cost:
    """Measure the cost of a run besides time.

    Args:
        run: in evaluation mode.
        tests: its validation pairs are as long as the training pairs.
        thorough: also measure memory.
    """
    examples = examples_of(run, tests.validation)
    metrics = RunDirectory(run.path).metrics()
    shape = batch_shape(examples, run.config.training)
    flops = count_flops(run.model, shape)
    tokens = shape.batch * shape.target
    per_place = flops.training / tokens * (2 if run.config.training.r_drop else 1)  # R-Drop reads every batch twice
    so_far = [0, *(report.tokens for report in metrics)]  # without padding, which is computed as well
    places = sum((b - a) / (1 - report.padding) for report, (a, b) in zip(metrics, pairwise(so_far), strict=True))
    return Cost(
        training_flops=per_place * places,
        training_flops_per_token=per_place * places / so_far[-1],
        decoding_flops_per_token=flops.decoding / tokens,
        training_bytes=peak_memory(_training_step(run, examples[: shape.batch])) if thorough else None,
        weights_bytes=(run.path / WEIGHTS).stat().st_size,
        run_bytes=sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file()),
    )


def batch_shape(examples: Sequence[Example], training: TrainingConfig) -> BatchShape:
    """Return the shape of an average batch of these examples.

    Args:
        examples: at least one.
        training: has the batch size, in examples or tokens.

    Example:
        >>> batch_shape([Example([3] * 9, [3] * 7)], TrainingConfig(batch_size=1024, max_tokens=4096))
        BatchShape(batch=256, source=9, target=7)
    """
    source = round(sum(len(example.source) for example in examples) / len(examples))
    target = round(sum(len(example.target) for example in examples) / len(examples))
    batch = training.batch_size
    if training.max_tokens:
        batch = min(batch, training.max_tokens // (source + target))
    return BatchShape(max(1, batch), source, target)


def _training_step(run: Run, examples: Sequence[Example]) -> Callable[[], None]:
    model = run.model
    batch = _batch(examples, run.tokenizer).to(model.device)

    def step() -> None:
        with torch.enable_grad():
            batch_loss(model, batch).backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it

    step()  # gradients exist from the first step on
    model.zero_grad(set_to_none=False)
    return step


def _batch(examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
    return collate(examples, tokenizer.pad_id, tokenizer.bos_id, range(len(examples)))
