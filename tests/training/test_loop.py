"""The training loop: what it counts, what it keeps, what it leaves alone, and how it ends."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch

from selfattn.data.batches import Batch
from selfattn.data.examples import Example
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.training import loop as loop_module
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Outcome, train_model
from selfattn.training.observer import EpochReport, Observer, StepReport
from selfattn.training.validation import Criterion

VOCAB = 13
STACK = TransformerConfig(dim=8, num_heads=2, ffn_dim=11, dropout=0.1)
TRANSFORMER = EncoderDecoderConfig(encoder=STACK, decoder=STACK)
RNN = EncoderDecoderConfig(
    encoder=RNNEncoderConfig(embed_dim=5, hidden_dim=7), decoder=RNNDecoderConfig(embed_dim=5, hidden_dim=7)
)
CONFIG = TrainingConfig(epochs=3, batch_size=4, lr=0.01)


def examples(count: int = 23) -> list[Example]:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 6, (count,), generator=generator).tolist()
    return [Example([*torch.randint(4, VOCAB, (n,), generator=generator).tolist(), 2], [4 + n, 2]) for n in lengths]


def run(
    config: TrainingConfig = CONFIG,
    model_config: EncoderDecoderConfig = TRANSFORMER,
    measure: Callable[[Seq2Seq], Mapping[str, float]] = lambda model: {"exact_match": 0.0},
    observers: Sequence[Observer] = (),
) -> tuple[Seq2Seq, Outcome]:
    model = build(model_config, vocab_size=VOCAB, pad_id=0, seed=config.seed)
    outcome = train_model(
        model,
        lambda epoch: examples(),
        examples(7),
        config,
        pad_id=0,
        bos_id=1,
        criterion=Criterion(lambda model, loss, _: measure(model), "exact_match"),
        observers=observers,
    )
    return model, outcome


class Watcher(Observer):
    def __init__(self) -> None:
        self.begun: list[tuple[int | None, int]] = []
        self.steps: list[StepReport] = []
        self.epochs: list[tuple[EpochReport, bool]] = []
        self.weights: list[dict[str, torch.Tensor]] = []

    def started(self, epochs: int | None, steps: int) -> None:
        self.begun.append((epochs, steps))

    def stepped(self, report: StepReport) -> None:
        self.steps.append(report)

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        assert not model.training
        self.epochs.append((report, is_best))
        self.weights.append(copy.deepcopy(model.state_dict()))


def test_observers_hear_of_the_plan_every_step_and_every_epoch() -> None:
    watcher = Watcher()
    _, outcome = run(observers=[watcher])
    assert watcher.begun == [(3, 18)]  # 23 examples in batches of 4 are 6 steps
    assert [step.step for step in watcher.steps] == list(range(1, 19))
    assert [step.epoch for step in watcher.steps] == [1] * 6 + [2] * 6 + [3] * 6
    assert [report.epoch for report, _ in watcher.epochs] == [1, 2, 3]
    assert [report.step for report, _ in watcher.epochs] == [6, 12, 18]
    assert [report.tokens for report, _ in watcher.epochs] == [46, 92, 138]  # two target tokens an example
    assert tuple(report for report, _ in watcher.epochs) == outcome.reports
    assert outcome.status == "finished"
    seconds = [report.seconds for report in outcome.reports]
    assert 0 < seconds[0] < seconds[1] < seconds[2] == outcome.seconds


def test_the_rate_follows_the_schedule() -> None:
    watcher = Watcher()
    run(TrainingConfig(epochs=1, batch_size=4, lr=0.5, warmup=1 / 3), observers=[watcher])
    assert [step.lr for step in watcher.steps] == pytest.approx([0.25, 0.5, 0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("model_config", [TRANSFORMER, RNN])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(model_config: EncoderDecoderConfig) -> None:
    first, second = (run(model_config=model_config)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = run(TrainingConfig(epochs=3, batch_size=4, lr=0.01, seed=1), model_config)[0].state_dict()
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_the_order_of_the_data_does_not_depend_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[list[list[int]]] = []
    real = loop_module.collate

    def recording(given: Sequence[Example], pad_id: int, bos_id: int, indices: Sequence[int]) -> Batch:
        orders[-1].append([*indices])
        return real(given, pad_id, bos_id, indices)

    monkeypatch.setattr(loop_module, "collate", recording)
    for model_config in (TRANSFORMER, RNN):
        orders.append([])
        run(model_config=model_config)
    assert orders[0] == orders[1]
    assert orders[0][:6] != orders[0][6:12]  # every epoch has an order of its own


def test_the_callers_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    run()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("exact", "best"), [((0.1, 0.9, 0.5), 1), ((0.9, 0.1, 0.5), 0), ((0.5, 0.5, 0.5), None)])
def test_the_best_weights_are_kept_by_exact_match_and_then_by_loss(exact: tuple[float, ...], best: int | None) -> None:
    scores, watcher = iter(exact), Watcher()
    model, outcome = run(measure=lambda model: {"exact_match": next(scores)}, observers=[watcher])
    if best is None:  # equal scores: the lowest loss
        losses = [report.valid_loss for report in outcome.reports]
        best = losses.index(min(losses))
    assert outcome.best == outcome.reports[best]
    kept = model.state_dict()
    assert all(torch.equal(kept[name], watcher.weights[best][name]) for name in kept)
    assert watcher.epochs[best][1]
    assert not any(is_best for _, is_best in watcher.epochs[best + 1 :])
    assert not model.training


def test_it_stops_early_only_when_asked_to() -> None:
    def perfect(model: Seq2Seq) -> Mapping[str, float]:
        return {"exact_match": 0.75}

    assert len(run(measure=perfect)[1].reports) == 3
    asked = TrainingConfig(epochs=3, batch_size=4, target_exact_match=0.75)
    outcome = run(asked, measure=perfect)[1]
    assert (outcome.status, len(outcome.reports)) == ("target reached", 1)


@pytest.mark.parametrize("steps", [2, 8])
def test_an_interrupt_ends_it_and_the_best_weights_are_there(steps: int) -> None:
    class Impatient(Watcher):
        def stepped(self, report: StepReport) -> None:
            if report.step == steps:
                raise KeyboardInterrupt

    watcher = Impatient()
    model, outcome = run(observers=[watcher])
    assert outcome.status == "interrupted"
    assert len(outcome.reports) == (steps > 6)
    assert (outcome.best is None) == (steps < 6)
    if outcome.best is not None:
        kept = model.state_dict()
        assert all(torch.equal(kept[name], watcher.weights[0][name]) for name in kept)
    assert not model.training
    assert outcome.seconds > 0


def test_a_loss_that_is_no_number_is_said_in_one_line() -> None:
    with pytest.raises(
        UserError,
        match=r"the loss became (nan|inf) at step \d+ \(epoch 1\), of examples [\d, ]+ of the epoch; "
        r"largest gradients: (\S+ inf, ){2}\S+ inf; lower the learning rate \(`lr`, now 1e\+20\), with `resume`",
    ) as caught:
        run(TrainingConfig(epochs=9, batch_size=4, lr=1e20, clip_norm=0.0, schedule="constant", warmup=0.0))
    assert "\n" not in str(caught.value)


def test_clipping_bounds_the_step() -> None:
    # With a gradient of length 1e-9, Adam's epsilon (1e-8) holds the step back; unclipped it does not.
    def moved(clip_norm: float) -> float:
        config = TrainingConfig(
            epochs=1, batch_size=64, lr=0.01, schedule="constant", warmup=0.0, weight_decay=0.0, clip_norm=clip_norm
        )
        before = build(TRANSFORMER, vocab_size=VOCAB, pad_id=0, seed=0).state_dict()
        after = run(config)[0].state_dict()
        return max((after[name] - before[name]).abs().max().item() for name in after)

    assert moved(0.0) == pytest.approx(0.01, rel=1e-3)
    assert moved(1e-9) < 0.002


@pytest.mark.parametrize("model_config", [TRANSFORMER, RNN])
def test_bfloat16_trains_with_float32_weights(model_config: EncoderDecoderConfig) -> None:
    config = TrainingConfig(epochs=10, batch_size=8, lr=0.02, precision="bfloat16")
    model, outcome = run(config, model_config)
    assert {weight.dtype for weight in model.state_dict().values()} == {torch.float32}
    assert outcome.reports[-1].train_loss < 0.7 * outcome.reports[0].train_loss


def test_a_bound_on_tokens_bounds_the_batches() -> None:
    watcher = Watcher()
    run(TrainingConfig(epochs=2, batch_size=64, max_tokens=16), observers=[watcher])
    assert watcher.begun[0][1] > 2
    assert watcher.steps[-1].total_steps == watcher.begun[0][1]


def test_the_share_of_padding_is_that_of_the_batches() -> None:
    (report,) = run(TrainingConfig(epochs=1, batch_size=64))[1].reports  # all 23 examples in one batch, targets of two
    lengths = [len(example.source) for example in examples()]
    longest = max(lengths)
    assert report.padding == sum(longest - length for length in lengths) / (23 * (longest + 2))
    assert 0 < report.padding < 1
    (report,) = run(TrainingConfig(epochs=1, batch_size=1))[1].reports
    assert report.padding == 0.0
