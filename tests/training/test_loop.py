"""The training loop and its settings: what it counts, keeps and leaves alone, averages, streams, and how it ends."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from training_parts import MODELS, RNN, STACK, VOCAB, examples

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.decoding.greedy import greedy
from selfattn.distributed import Processes
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.families import EncoderDecoderConfig
from selfattn.streams import seed_for
from selfattn.tokenizers.protocol import BOS, EOS, PAD
from selfattn.training import loop as loop_module
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import Criterion, first_look, train_model, validation_loss
from selfattn.training.loss import divergence, token_loss
from selfattn.training.observer import Observer
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import ExponentialAverage, Replica

CONFIG = TrainingConfig(epochs=3, batch_size=4, lr=0.01)
TRANSFORMER = MODELS["no-dropout"]


class Watcher(Observer):
    def __init__(self):
        self.begun = []
        self.steps = []
        self.reports = []
        self.best = []
        self.after_step = []
        self.validated_weights = []
        self.model = None

    def started(self, epochs, steps):
        self.begun.append((epochs, steps))

    def stepped(self, report):
        self.steps.append(report)
        if self.model is not None:
            self.after_step.append(copy.deepcopy(self.model.state_dict()))

    def validated(self, report, model, is_best):
        assert not model.training
        self.reports.append(report)
        self.best.append(is_best)
        self.validated_weights.append(copy.deepcopy(model.state_dict()))


def run(config, model_config=TRANSFORMER, *, watcher=None, epoch=lambda number: examples(), scores=None):
    model = build(model_config, vocab_size=VOCAB, pad_id=0, seed=config.seed)
    if isinstance(watcher, Watcher):
        watcher.model = model
    given = iter(scores or ())
    criterion = Criterion(lambda model, loss, _: {"exact_match": next(given) if scores else -loss}, "exact_match")
    outcome = train_model(
        model, epoch, examples(7, seed=2), config, criterion, observers=[] if watcher is None else [watcher]
    )
    return model, outcome


def assert_weights(model, expected):
    assert all(torch.equal(weight, expected[name]) for name, weight in model.state_dict().items())


def gradients(config, group, model_config):
    """The loss, the tokens and the gradients of the first step."""
    model = build(model_config, vocab_size=VOCAB, pad_id=0, seed=0).double()
    optimizer = torch.optim.SGD(model.parameters())
    stepper = Stepper(Replica(model), optimizer, config, torch.Generator().manual_seed(0))
    (taken,) = take_steps(stepper, [group], total_steps=1)
    return taken.loss, taken.tokens, {name: parameter.grad for name, parameter in model.named_parameters()}


def test_observers_hear_of_the_plan_every_step_and_every_epoch():
    watcher, random_state = Watcher(), torch.get_rng_state()
    _, outcome = run(CONFIG, watcher=watcher)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert watcher.begun == [(3, 18)]  # 23 examples in batches of 4 are 6 steps
    assert [step.step for step in watcher.steps] == list(range(1, 19))
    assert [step.epoch for step in watcher.steps] == [1] * 6 + [2] * 6 + [3] * 6
    assert [report.epoch for report in watcher.reports] == [1, 2, 3]
    assert [report.step for report in watcher.reports] == [6, 12, 18]
    tokens = sum(len(example.target) for example in examples())
    assert [report.tokens for report in watcher.reports] == [tokens, 2 * tokens, 3 * tokens]
    assert tuple(watcher.reports) == outcome.reports
    assert outcome.status == "finished"
    seconds = [report.seconds for report in outcome.reports]
    assert 0 < seconds[0] < seconds[1] < seconds[2] == outcome.seconds


def test_the_order_of_the_data_does_not_depend_on_the_model(monkeypatch):
    orders = []
    real = loop_module.collate

    def recording(given, pad_id, bos_id, indices):
        orders[-1].append([*indices])
        return real(given, pad_id, bos_id, indices)

    monkeypatch.setattr(loop_module, "collate", recording)
    for model_config in (TRANSFORMER, RNN):
        orders.append([])
        run(CONFIG, model_config)
    assert orders[0] == orders[1]
    assert orders[0][:6] != orders[0][6:12]  # every epoch has an order of its own


@pytest.mark.parametrize(
    ("scores", "patience", "validations"),
    [
        ((1, 2, 3, 4, 5), 1, 5), ((1, 3, 2, 4, 5), 1, 3), ((1, 3, 2, 4, 5), 2, 5), ((5, 4, 3, 2, 1), 3, 4),
        ((7,) * 5, None, 5),  # equal scores: the lowest loss
    ],
)  # fmt: skip
def test_the_best_weights_are_kept_and_patience_counts_validations_in_vain(scores, patience, validations):
    watcher = Watcher()
    model, outcome = run(TrainingConfig(epochs=5, batch_size=8, patience=patience), watcher=watcher, scores=scores)
    assert len(outcome.reports) == validations
    assert outcome.status == ("finished" if validations == 5 else "stopped early")
    best = max(range(validations), key=lambda place: (scores[place], -outcome.reports[place].valid_loss))
    assert outcome.best == outcome.reports[best]
    assert_weights(model, watcher.validated_weights[best])
    assert watcher.best[best]
    assert not any(watcher.best[best + 1 :])
    assert not model.training


def test_it_ends_where_the_target_is_reached():
    outcome = run(replace(CONFIG, target_exact_match=0.75), scores=[0.75])[1]
    assert (outcome.status, len(outcome.reports)) == ("target reached", 1)


@pytest.mark.parametrize("steps", [2, 8])
def test_an_interrupt_ends_it_and_the_best_weights_are_there(steps):
    class Impatient(Watcher):
        def stepped(self, report):
            if report.step == steps:
                raise KeyboardInterrupt

    watcher = Impatient()
    model, outcome = run(CONFIG, watcher=watcher)
    assert outcome.status == "interrupted"
    assert len(outcome.reports) == (steps > 6)
    assert (outcome.best is None) == (steps < 6)
    if outcome.best is not None:
        assert_weights(model, watcher.validated_weights[0])
    assert not model.training
    assert outcome.seconds > 0


def test_a_loss_that_is_no_number_is_said_in_one_line():
    with pytest.raises(
        UserError,
        match=r"the loss became (nan|inf) at step \d+, of examples [\d, ]+ of the epoch; "
        r"largest gradients: (\S+ inf, ){2}\S+ inf; lower the learning rate \(`lr`, now 1e\+20\), with `resume`",
    ) as caught:
        run(TrainingConfig(epochs=9, batch_size=4, lr=1e20, clip_norm=0.0, schedule="constant", warmup=0.0))
    assert "\n" not in str(caught.value)


def test_clipping_bounds_the_step():
    # With a gradient of length 1e-9, Adam's epsilon (1e-8) holds the step back; unclipped it does not.
    def moved(clip_norm):
        config = TrainingConfig(
            epochs=1, batch_size=64, lr=0.01, schedule="constant", warmup=0.0, weight_decay=0.0, clip_norm=clip_norm
        )
        before = build(TRANSFORMER, vocab_size=VOCAB, pad_id=0, seed=0).state_dict()
        after = run(config)[0].state_dict()
        return max((after[name] - before[name]).abs().max().item() for name in after)

    assert moved(0.0) == pytest.approx(0.01, rel=1e-3)
    assert moved(1e-9) < 0.002


def test_bfloat16_trains_with_float32_weights():
    config = TrainingConfig(epochs=10, batch_size=8, lr=0.02, precision="bfloat16")
    easy = [Example(example.source, [4 + len(example.source), 2]) for example in examples()]
    model, outcome = run(config, RNN, epoch=lambda number: easy)
    assert {weight.dtype for weight in model.state_dict().values()} == {torch.float32}
    assert outcome.reports[-1].train_loss < 0.7 * outcome.reports[0].train_loss


def test_the_share_of_padding_is_that_of_the_batches():
    (report,) = run(TrainingConfig(epochs=1, batch_size=64))[1].reports  # all 23 examples in one batch
    sides = [len(example.source) for example in examples()], [len(example.target) for example in examples()]
    places = 23 * sum(map(max, sides))
    assert report.padding == (places - sum(map(sum, sides))) / places > 0


@pytest.mark.parametrize("model_config", [TRANSFORMER, RNN])
@pytest.mark.parametrize("change", [{}, {"label_smoothing": 0.1}, {"r_drop": 0.7}])
def test_accumulated_batches_are_a_large_one(close, model_config, change):
    config = TrainingConfig(clip_norm=0.0, **change)
    data = examples(11)
    parts = [data[:5], data[5:6], data[6:]]  # of unlike sizes and lengths: tokens count, not batches
    large = gradients(config, [collate(data, 0, 1, range(11))], model_config)
    small = gradients(config, [collate(part, 0, 1, range(len(part))) for part in parts], model_config)
    assert small[0] == pytest.approx(large[0])
    assert small[1] == large[1] == sum(len(example.target) for example in data)
    for name, gradient in large[2].items():
        close(small[2][name], gradient)


@pytest.mark.parametrize(
    ("every", "steps", "expected"),
    [
        (4, None, [(1, 4), (2, 8), (2, 12)]),
        (5, None, [(1, 5), (2, 10), (2, 12)]),
        (3, 7, [(1, 3), (1, 6), (2, 7)]),
        (None, 6, [(1, 6)]),
        (None, 8, [(1, 6), (2, 8)]),
    ],
)
def test_validations_come_every_so_many_steps_and_after_the_last(every, steps, expected):
    _, outcome = run(TrainingConfig(epochs=2, max_steps=steps, batch_size=4, validate_every=every))
    assert [(report.epoch, report.step) for report in outcome.reports] == expected


def test_the_moving_average_is_what_is_validated_and_kept(close):
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


def test_a_buffer_of_whole_numbers_is_kept_as_it_is_now():
    """The moving average of a count would be its first value: nothing is added to it."""
    model = torch.nn.BatchNorm1d(2)
    average = ExponentialAverage(model, 0.5)
    model(torch.randn(3, 2))
    average.stepped()
    assert average.weights()["num_batches_tracked"].item() == 1


@pytest.mark.parametrize(("epochs", "window"), [(3, 1), (13, 3)])  # at most a quarter of the validations
def test_the_mean_of_the_last(close, capsys, epochs, window):
    watcher = Watcher()
    config = TrainingConfig(epochs=epochs, batch_size=12, average="last", average_last=3)
    model, _ = run(config, watcher=watcher, scores=tuple(range(epochs)))
    averaged = "the last validation alone" if window == 1 else f"the mean of the last {window} validations"
    note = f"average: {averaged} (at most 3, and at most a quarter of the {epochs})"
    assert (note in capsys.readouterr().err) == (window < 3)
    at_validation = watcher.after_step[1::2]  # 2 steps an epoch
    for number in range(epochs):
        taken = at_validation[max(0, number + 1 - window) : number + 1]
        for name, weight in watcher.validated_weights[number].items():
            close(weight, sum(one[name] for one in taken) / len(taken))
    assert_weights(model, watcher.validated_weights[-1])


def test_two_passes_add_their_divergence():
    stack = replace(STACK, dropout=0.3)
    config = EncoderDecoderConfig(encoder=stack, decoder=stack)
    batch = collate(examples(5), 0, 1, range(5))
    model, same = (build(config, vocab_size=VOCAB, pad_id=0, seed=0) for _ in range(2))
    optimizer = torch.optim.SGD(model.parameters())
    stepper = Stepper(Replica(model), optimizer, TrainingConfig(r_drop=2.0), torch.Generator().manual_seed(0))
    stepper.begin_epoch(0)
    (taken,) = take_steps(stepper, [[batch]], total_steps=1)
    assert taken.tokens == int(batch.target_mask.sum())
    stepper.begin_epoch(0)
    source, target_in, mask = (x.repeat(2, 1) for x in (batch.source, batch.target_in, batch.source_mask))
    with stepper.chance.drawing():
        first, second = same(source, target_in, source_mask=mask).chunk(2)
    assert not torch.equal(first, second)
    nll = [token_loss(logits, batch.target_out, batch.target_mask) for logits in (first, second)]
    expected = sum(nll) / 2 + divergence(first, second, batch.target_mask)  # alpha / 2 is 1
    assert taken.loss == pytest.approx(expected.item())


def test_each_of_several_processes_draws_numbers_of_its_own_at_every_step(monkeypatch):
    monkeypatch.setattr(Processes, "broadcast", lambda processes, tensors: None)
    monkeypatch.setattr(Processes, "sum", lambda processes, value: value)
    monkeypatch.setattr(Replica, "loss", lambda replica, compute, is_last: compute(replica.model))
    config = TrainingConfig(seed=5, teacher_forcing=0.5)
    batch = collate(examples(4), 0, 1, range(4))
    for rank in (0, 1):
        replica = Replica(build(RNN, vocab_size=VOCAB, pad_id=0, seed=0), Processes(rank, 2))
        coins = torch.Generator()
        stepper = Stepper(replica, make_optimizer(replica.model, config), config, coins)
        for number, _ in enumerate(take_steps(stepper, [[batch], [batch]], total_steps=2), 1):
            assert coins.initial_seed() == seed_for(5, f"forcing/step/{number}/{rank}")


def test_warmup_steps_go_before_the_share():
    watcher = Watcher()
    config = TrainingConfig(epochs=1, max_steps=8, batch_size=4, lr=0.7, warmup=0.9, warmup_steps=2)
    run(config, watcher=watcher)
    assert watcher.begun == [(None, 8)]
    assert [step.step for step in watcher.steps] == list(range(1, 9))
    rates = [0.35, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]  # the schedule is one of 8 steps, in two epochs
    assert [step.lr for step in watcher.steps] == pytest.approx(rates)
    with pytest.raises(UserError, match="`warmup_steps`: 9, but the training has 6 steps"):
        run(TrainingConfig(epochs=1, batch_size=4, warmup_steps=9))


def test_a_stream_that_ends_begins_the_next_epoch():
    asked = []

    def epoch(number):
        asked.append(number)
        return iter(examples(seed=number))

    _, outcome = run(TrainingConfig(max_steps=14, batch_size=4), epoch=epoch)
    assert asked == [0, 1, 2]
    assert [(report.epoch, report.step) for report in outcome.reports] == [(1, 6), (2, 12), (3, 14)]


def test_a_stream_needs_a_number_of_steps_and_an_epoch_examples():
    with pytest.raises(UserError, match="`max_steps`: the data are a stream"):
        run(TrainingConfig(), epoch=lambda number: itertools.cycle(examples()))
    for nothing in ([], iter([])):
        with pytest.raises(UserError, match="training: epoch 1 has no examples"):
            run(TrainingConfig(max_steps=3), epoch=lambda number, nothing=nothing: nothing)


@pytest.mark.parametrize("preset", ["rnn-attention", "rnn-plain", "transformer", "transformer-rope", "decoder-only"])
def test_a_look_counts_the_outputs_that_greedy_search_would_get_right(preset):
    model = build(preset, vocab_size=12, seed=1).eval()
    generator = torch.Generator().manual_seed(0)
    sources = [torch.randint(3, 12, (length,), generator=generator).tolist() for length in (2, 3, 4, 5, 6, 7)]
    examples = []
    for number, source in enumerate(sources):
        batch = collate([Example([*source, EOS], [EOS])], PAD, BOS, [0])
        with torch.inference_mode():
            (written,) = greedy(model, batch.source, batch.source_mask, bos_id=BOS, eos_id=EOS, max_length=8)
        tokens = [*written.ids, EOS] if written.finished else list(written.ids)
        if number % 3 == 0:  # the last token is another one
            tokens[-1] = 3 + (tokens[-1] + 1) % 9
        examples.append(Example([*source, EOS], tokens))
    loss, share = first_look(model, examples, TrainingConfig(batch_size=2), Processes())
    assert share == pytest.approx(4 / 6)
    assert loss == pytest.approx(validation_loss(model, examples, TrainingConfig(batch_size=2)), rel=1e-5)
