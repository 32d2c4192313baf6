"""What the settings of a training do: accumulation, averages, two passes, early ends, streams."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.data.batches import Batch, collate
from selfattn.data.examples import Example
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import Replica
from selfattn.training.loop import Outcome, train_model
from selfattn.training.objective import loss
from selfattn.training.objective.loss import divergence, token_loss
from selfattn.training.observer import EpochReport, Observer, StepReport
from selfattn.training.step import Stepper
from selfattn.training.validation import Criterion
from selfattn.training.weights import ExponentialAverage, LastAverage

VOCAB = 13
STACK = TransformerConfig(dim=8, num_heads=2, ffn_dim=11, dropout=0.0)
TRANSFORMER = EncoderDecoderConfig(encoder=STACK, decoder=STACK, share_embeddings=True, tie_output=True)
RNN = EncoderDecoderConfig(
    encoder=RNNEncoderConfig(embed_dim=5, hidden_dim=7, dropout=0.0),
    decoder=RNNDecoderConfig(embed_dim=5, hidden_dim=7, dropout=0.0),
)
Close = Callable[[Tensor, Tensor], None]


def examples(count: int = 23, seed: int = 1) -> list[Example]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 6, (count,), generator=generator).tolist()
    return [
        Example(
            [*torch.randint(4, VOCAB, (n,), generator=generator).tolist(), 2],
            [*torch.randint(4, VOCAB, (6 - n,), generator=generator).tolist(), 2],
        )
        for n in lengths
    ]


class Watcher(Observer):
    def __init__(self) -> None:
        self.begun: list[tuple[int | None, int]] = []
        self.steps: list[StepReport] = []
        self.reports: list[EpochReport] = []
        self.after_step: list[dict[str, Tensor]] = []
        self.validated_weights: list[dict[str, Tensor]] = []
        self.model: Seq2Seq | None = None

    def started(self, epochs: int | None, steps: int) -> None:
        self.begun.append((epochs, steps))

    def stepped(self, report: StepReport) -> None:
        self.steps.append(report)
        if self.model is not None:
            self.after_step.append(copy.deepcopy(self.model.state_dict()))

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        self.reports.append(report)
        self.validated_weights.append(copy.deepcopy(model.state_dict()))


def run(
    config: TrainingConfig,
    model_config: EncoderDecoderConfig = TRANSFORMER,
    *,
    watcher: Watcher | None = None,
    epoch: Callable[[int], Iterable[Example]] = lambda number: examples(),
    scores: Sequence[float] | None = None,
) -> tuple[Seq2Seq, Outcome]:
    model = build(model_config, vocab_size=VOCAB, pad_id=0, seed=config.seed)
    if watcher is not None:
        watcher.model = model
    given = iter(scores or ())
    criterion = Criterion(lambda model, loss, _: {"score": next(given) if scores else -loss}, "score")
    outcome = train_model(
        model,
        epoch,
        examples(7, seed=2),
        config,
        pad_id=0,
        bos_id=1,
        criterion=criterion,
        observers=[] if watcher is None else [watcher],
    )
    return model, outcome


def gradients(config: TrainingConfig, group: list[Batch], model_config: EncoderDecoderConfig) -> tuple[Any, ...]:
    """The loss, the tokens and the gradients of the first step."""
    model = build(model_config, vocab_size=VOCAB, pad_id=0, seed=0).double()
    optimizer = torch.optim.SGD(model.parameters())
    stepper = Stepper(Replica(model), optimizer, config, torch.Generator().manual_seed(0))
    loss, tokens, _ = stepper.step(group, 1, total_steps=1, epoch=0)
    return loss, tokens, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("model_config", [TRANSFORMER, RNN])
@pytest.mark.parametrize("change", [{}, {"label_smoothing": 0.1}, {"r_drop": 0.7}])
def test_accumulated_batches_are_one_large_batch(
    close: Close, model_config: EncoderDecoderConfig, change: dict[str, Any]
) -> None:
    config = TrainingConfig(clip_norm=0.0, **change)
    data = examples(11)
    parts = [data[:5], data[5:6], data[6:]]  # of unlike sizes and lengths: tokens count, not batches
    large = gradients(config, [collate(data, 0, 1, range(11))], model_config)
    small = gradients(config, [collate(part, 0, 1, range(len(part))) for part in parts], model_config)
    assert small[0] == pytest.approx(large[0])
    assert small[1] == large[1] == sum(len(example.target) for example in data)
    for name, gradient in large[2].items():
        close(small[2][name], gradient)


def test_the_last_step_is_max_steps_in_whatever_epoch() -> None:
    watcher = Watcher()
    _, outcome = run(TrainingConfig(epochs=1, max_steps=8, batch_size=4, warmup=0.25), watcher=watcher)
    assert watcher.begun == [(None, 8)]
    assert [step.step for step in watcher.steps] == list(range(1, 9))
    assert [(report.epoch, report.step) for report in watcher.reports] == [(1, 6), (2, 8)]
    assert watcher.steps[1].lr == 3e-3  # the schedule is one of 8 steps
    assert watcher.steps[-1].lr == pytest.approx(3e-3 / 7)
    assert outcome.status == "finished"


def test_max_steps_at_the_end_of_an_epoch_validates_once() -> None:
    _, outcome = run(TrainingConfig(max_steps=6, batch_size=4))
    assert [(report.epoch, report.step) for report in outcome.reports] == [(1, 6)]


@pytest.mark.parametrize(
    ("every", "steps", "expected"),
    [(4, None, [(1, 4), (2, 8), (2, 12)]), (5, None, [(1, 5), (2, 10), (2, 12)]), (3, 7, [(1, 3), (1, 6), (2, 7)])],
)
def test_validations_come_every_so_many_steps_and_after_the_last(
    every: int, steps: int | None, expected: list[tuple[int, int]]
) -> None:
    _, outcome = run(TrainingConfig(epochs=2, max_steps=steps, batch_size=4, validate_every=every))
    assert [(report.epoch, report.step) for report in outcome.reports] == expected


@pytest.mark.parametrize(
    ("scores", "patience", "validations"),
    [((1, 2, 3, 4, 5), 1, 5), ((1, 3, 2, 4, 5), 1, 3), ((1, 3, 2, 4, 5), 2, 5), ((5, 4, 3, 2, 1), 3, 4)],
)
def test_patience_counts_validations_without_better_weights(
    scores: tuple[int, ...], patience: int, validations: int
) -> None:
    watcher = Watcher()
    model, outcome = run(TrainingConfig(epochs=5, batch_size=8, patience=patience), watcher=watcher, scores=scores)
    assert len(outcome.reports) == validations
    assert outcome.status == ("finished" if validations == 5 else "stopped early")
    best = scores.index(max(scores[:validations]))
    assert outcome.best == outcome.reports[best]
    kept = model.state_dict()
    assert all(torch.equal(kept[name], watcher.validated_weights[best][name]) for name in kept)


def test_the_moving_average_is_what_is_validated_and_kept(close: Close) -> None:
    config = TrainingConfig(epochs=2, batch_size=4, average="ema", ema_decay=0.2)
    watcher = Watcher()
    model, _ = run(config, watcher=watcher, scores=(1, 2))
    expected = build(TRANSFORMER, vocab_size=VOCAB, pad_id=0, seed=0).state_dict()
    for number, weights in enumerate(watcher.after_step, 1):
        decay = min(0.2, (1 + number) / (10 + number))
        expected = {name: decay * old + (1 - decay) * weights[name] for name, old in expected.items()}
        if number == 6:
            for name, weight in expected.items():
                close(watcher.validated_weights[0][name], weight)
    for name, weight in model.state_dict().items():
        close(weight, expected[name])
        assert torch.equal(weight, watcher.validated_weights[1][name])


@pytest.mark.parametrize(("epochs", "window"), [(3, 1), (8, 2), (16, 3)])  # at most a quarter of the validations
def test_the_mean_of_the_last_is_what_is_validated_and_kept(close: Close, epochs: int, window: int) -> None:
    watcher = Watcher()
    config = TrainingConfig(epochs=epochs, batch_size=8, average="last", average_last=3)
    model, _ = run(config, watcher=watcher, scores=tuple(range(epochs)))
    at_validation = watcher.after_step[2::3]  # 3 steps an epoch
    for number in range(epochs):
        taken = at_validation[max(0, number + 1 - window) : number + 1]
        for name, weight in watcher.validated_weights[number].items():
            close(weight, sum(one[name] for one in taken) / len(taken))  # type: ignore[arg-type]  # sum() may be 0 for mypy
    assert all(torch.equal(weight, watcher.validated_weights[-1][name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("average", ["ema", "last"])
def test_an_average_does_not_change_the_training(average: Any) -> None:
    config = TrainingConfig(epochs=3, batch_size=4)
    plain, averaged = Watcher(), Watcher()
    run(config, watcher=plain)
    run(replace(config, average=average), watcher=averaged)
    for first, second in zip(plain.after_step, averaged.after_step, strict=True):
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_an_average_survives_being_kept() -> None:
    model = torch.nn.Linear(2, 3)
    for make in (lambda: ExponentialAverage(model, 0.5), lambda: LastAverage(model, 2)):
        average, other = make(), make()
        for value in (1.0, 2.0, 5.0):
            torch.nn.init.constant_(model.weight, value)
            average.stepped()
            average.validating()
        other.restore({name: tensor.clone() for name, tensor in average.tensors().items()})
        for one in (average, other):
            torch.nn.init.constant_(model.weight, 7.0)
            one.stepped()
            one.validating()
        first, second = average.weights(), other.weights()
        assert first is not None
        assert second is not None
        assert all(torch.equal(first[name], second[name]) for name in first)
        with average.applied():
            assert torch.equal(model.weight, first["weight"])
        assert torch.equal(model.weight, torch.full((3, 2), 7.0))


@pytest.mark.parametrize("large", [4096, 1])  # from how many tokens on the logits are not there all at once
def test_two_passes_add_their_divergence(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "LARGE_VOCABULARY", large)
    stack = replace(STACK, dropout=0.3)
    batch = collate(examples(5), 0, 1, range(5))
    losses = {}
    for alpha in (0.0, 2.0):
        model = build(EncoderDecoderConfig(encoder=stack, decoder=stack), vocab_size=VOCAB, pad_id=0, seed=0)
        optimizer = torch.optim.SGD(model.parameters())
        config = TrainingConfig(r_drop=alpha)
        stepper = Stepper(Replica(model), optimizer, config, torch.Generator().manual_seed(0))
        stepper.begin_epoch(0)
        losses[alpha], tokens, _ = stepper.step([batch], 1, total_steps=1, epoch=0)
        assert tokens == int(batch.target_mask.sum())
    model = build(EncoderDecoderConfig(encoder=stack, decoder=stack), vocab_size=VOCAB, pad_id=0, seed=0)
    stepper.begin_epoch(0)
    source, target_in, mask = (x.repeat(2, 1) for x in (batch.source, batch.target_in, batch.source_mask))
    first, second = model(source, target_in, source_mask=mask).chunk(2)
    assert not torch.equal(first, second)
    nll = [token_loss(logits, batch.target_out, batch.target_mask) for logits in (first, second)]
    expected = sum(nll) / 2 + divergence(first, second, batch.target_mask)  # alpha / 2 is 1
    assert losses[2.0] == pytest.approx(expected.item())


def test_warmup_steps_go_before_the_share() -> None:
    watcher = Watcher()
    run(TrainingConfig(epochs=1, batch_size=4, lr=1.0, warmup=0.9, warmup_steps=2), watcher=watcher)
    assert [step.lr for step in watcher.steps] == pytest.approx([0.5, 1.0, 0.8, 0.6, 0.4, 0.2])
    with pytest.raises(UserError, match="warmup_steps: 9, but the training has 6 steps"):
        run(TrainingConfig(epochs=1, batch_size=4, warmup_steps=9))


def endless() -> Iterator[Example]:
    while True:
        yield from examples()


def test_a_stream_may_have_no_end() -> None:
    watcher = Watcher()
    config = TrainingConfig(max_steps=20, batch_size=4, accumulate=2, validate_every=8)
    _, outcome = run(config, watcher=watcher, epoch=lambda number: endless())
    assert [(report.epoch, report.step) for report in outcome.reports] == [(1, 8), (1, 16), (1, 20)]


def test_a_stream_that_ends_begins_the_next_epoch() -> None:
    asked: list[int] = []

    def epoch(number: int) -> Iterator[Example]:
        asked.append(number)
        return iter(examples(seed=number))

    _, outcome = run(TrainingConfig(max_steps=14, batch_size=4), epoch=epoch)
    assert asked == [0, 1, 2]
    assert [(report.epoch, report.step) for report in outcome.reports] == [(1, 6), (2, 12), (3, 14)]


def test_a_stream_needs_a_number_of_steps() -> None:
    with pytest.raises(UserError, match="max_steps: the data are a stream"):
        run(TrainingConfig(), epoch=lambda number: endless())


@pytest.mark.parametrize("nothing", [[], iter([])])
def test_an_epoch_without_examples_is_refused(nothing: Iterable[Example]) -> None:
    with pytest.raises(UserError, match="training: epoch 1 has no examples"):
        run(TrainingConfig(max_steps=3), epoch=lambda number: nothing)
