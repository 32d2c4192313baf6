"""The loss and its gradient at once, teacher forcing with a probability, the optimizer and its schedule."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import Memory
from torch import nn
from torch.nn import functional
from zoo import transformer

from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example
from selfattn.models.build import build
from selfattn.training import loss as module
from selfattn.training import step as step_module
from selfattn.training.config import TrainingConfig
from selfattn.training.loss import batch_loss, divergence, linear_cross_entropy, logits_loss, sampled_logits, token_loss
from selfattn.training.step import Stepper, lr_factor, make_optimizer, take_steps
from selfattn.training.weights import Replica, put_into

TRUE_MASK = torch.tensor([[True, True]])


def test_it_is_minus_the_log_of_the_right_tokens_share():
    # Shares e / (e + 1) and 1 / (e + 1) of two tokens.
    logits = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    expected = (-math.log(math.e / (math.e + 1)) - math.log(1 / (math.e + 1))) / 2
    assert token_loss(logits, torch.tensor([[0, 1]]), TRUE_MASK).item() == pytest.approx(expected, abs=1e-6)


def test_half_precision_is_summed_in_float32():
    loss = token_loss(torch.zeros(1, 2, 7, dtype=torch.bfloat16), torch.tensor([[1, 0]]), TRUE_MASK)
    p, q = torch.tensor([[[2.0, 0.0]]]).bfloat16(), torch.tensor([[[0.0, 2.0]]]).bfloat16()
    apart = divergence(p, q, torch.tensor([[True]]))
    assert loss.dtype is apart.dtype is torch.float32
    assert (loss.item(), apart.item()) == pytest.approx((math.log(7), 2 * math.tanh(1)), abs=1e-6)
    assert divergence(p.double(), q.double(), torch.tensor([[True]])).dtype is torch.float64


def batch_of(mask):
    tokens = torch.ones(len(mask), len(mask[0]), dtype=torch.int64)
    return Batch(tokens, tokens.bool(), tokens, tokens, torch.tensor(mask), [*range(len(mask))])


def test_r_drop_is_half_its_weight_times_the_divergence_of_the_halves():
    p, q = torch.tensor([0.75, 0.25]).log(), torch.tensor([0.25, 0.75]).log()
    logits = torch.stack([p, q, p, q, p, p])[:, None].expand(6, 2, 2)  # apart in the first two rows of each half
    batch = batch_of([[True, True], [True, False], [True, False]] * 2)
    # Of the right token's negative logs, 8 are counted: five times p's and three times q's.
    plain = -(5 * math.log(0.25) + 3 * math.log(0.75)) / 8
    assert logits_loss(logits, batch, label_smoothing=0.0, r_drop=0.0).item() == pytest.approx(plain, abs=1e-6)
    # The halves are p, q, p and q, p, p: apart by log(3) / 2 at the three real tokens of the first two rows, of four.
    apart = 3 / 4 * math.log(3) / 2
    for weight in (0.5, 4.0):
        found = logits_loss(logits, batch, label_smoothing=0.0, r_drop=weight).item()
        assert found == pytest.approx(plain + weight * apart / 2, abs=1e-6)


class Told(nn.Module):
    """A model whose states are given; it can be asked for its logits at once, or for what goes before them."""

    def __init__(self, vocabulary, *, has_states=True):
        super().__init__()
        self.states = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0))
        self.output, self.has_states, self.asked = nn.Linear(2, vocabulary), has_states, list[str]()

    def pre_logits(self, *_, **__):
        return SimpleNamespace(states=self.states, output=self.output, logits=self._logits) if self.has_states else None

    def forward(self, *_, **__):
        assert not self.has_states, "this would compute everything twice"
        return self._logits()

    def _logits(self):
        self.asked.append("logits")
        return self.output(self.states)


@pytest.mark.parametrize(
    ("model", "at_once"), [(Told(4095), True), (Told(4096), False), (Told(9, has_states=False), True)]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_a_batch_has_the_loss_of_its_logits(model, at_once, smoothing, r_drop):
    """From 4,096 tokens on the logits of a batch are not made all at once."""
    batch = batch_of([[True, True, False], [True, True, True]] * 2)
    expected = logits_loss(model.output(model.states), batch, label_smoothing=smoothing, r_drop=r_drop)
    model.asked.clear()
    found = batch_loss(model, batch, label_smoothing=smoothing, r_drop=r_drop)
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    assert (model.asked == ["logits"]) == (at_once or r_drop > 0)
    if not smoothing and not r_drop:
        assert batch_loss(model, batch).item() == found.item()


# The output layer and the loss as one function are the two one after the other


def drawn(n, d, v, *, seed=0, scale=1.0):
    """States, weight, bias and right tokens, in float64."""
    draw = torch.Generator().manual_seed(seed)
    states, weight, bias = (
        (scale * torch.randn(*shape, generator=draw, dtype=torch.float64)).requires_grad_()
        for shape in ((n, d), (v, d), (v,))
    )
    return states, weight, bias, torch.randint(v, (n,), generator=draw)


def reference(states, weight, bias, target, smoothing):
    return functional.cross_entropy(functional.linear(states, weight, bias), target, label_smoothing=smoothing)


@pytest.mark.parametrize("scale", [1.0, 100.0])  # with 100 the logits are beyond the range of exp
@given(n=st.integers(1, 9), d=st.integers(1, 5), v=st.integers(1, 7), smoothing=st.sampled_from([0.0, 0.1, 0.9]))
@settings(deadline=None, max_examples=20)
def test_equals_pytorch_whatever_the_chunks(scale, n, d, v, smoothing):
    states, weight, bias, target = drawn(n, d, v, seed=n + 10 * d + 100 * v, scale=scale)
    inputs = (states, weight, bias)
    expected = 3 * reference(*inputs, target, smoothing)
    gradients = torch.autograd.grad(expected, inputs)
    with pytest.MonkeyPatch.context() as patch:
        for elements in (1, 2 * v, 100 * v):  # one token at a time, two, all
            patch.setattr(module, "_ELEMENTS", elements)
            found = 3 * linear_cross_entropy(*inputs, target, label_smoothing=smoothing)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(torch.autograd.grad(found, inputs), gradients)


def test_the_logits_of_no_more_than_some_tokens_exist_at_once(monkeypatch):
    """64 tokens of 50 logits, two tokens at a time; beside them as much to write into."""
    monkeypatch.setattr(module, "_ELEMENTS", 100)
    states, weight, bias, target = drawn(64, 2, 50)
    with Memory() as memory:
        linear_cross_entropy(states, weight, bias, target).backward()
    assert memory.largest <= 8 * 200  # in float64


def test_bfloat16_is_near_float32():
    assert linear_cross_entropy(*drawn(0, 3, 5)).isnan()  # no token is no number
    states, weight, bias, target = (x.detach().float() if x.is_floating_point() else x for x in drawn(200, 32, 500))
    inputs = tuple((x * 0.2).requires_grad_() for x in (states, weight, bias))
    expected = reference(*inputs, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        found = linear_cross_entropy(*inputs, target, label_smoothing=0.1)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-3)
    for near, exact in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert near.dtype == torch.float32
        assert (near - exact).norm() < 5e-3 * exact.norm()


# Teacher forcing with a probability: its two ends, its schedule, and its coins


VOCAB = 13
SOURCE = torch.tensor([[4, 5, 6, 7, 2], [8, 2, 0, 0, 0], [9, 10, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 7, 9], [1, 6, 2, 0], [1, 11, 12, 4]])
BATCH = Batch(SOURCE, SOURCE > 0, TARGET, TARGET, TARGET > 0, [0, 1, 2])


def logits(model, probability, seed=0):
    coins = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        return sampled_logits(model, BATCH, teacher_forcing=probability, generator=coins)


@pytest.mark.parametrize("name", ["rnn-attention", "transformer", "decoder-only", "rnn-encoder-transformer-decoder"])
def test_probability_1_is_forward_and_0_reads_its_own_guesses(name):
    model = build(name, vocab_size=VOCAB, seed=3).eval()
    with torch.no_grad():
        forward = model(SOURCE, TARGET, source_mask=SOURCE > 0)
        torch.testing.assert_close(logits(model, 1.0), forward, rtol=1e-4, atol=1e-5)
        # Its own guesses, found by reading everything again for every step.
        read = TARGET[:, :1]
        for _ in range(TARGET.shape[1] - 1):
            read = torch.cat([read, model(SOURCE, read, source_mask=SOURCE > 0)[:, -1:].argmax(dim=-1)], dim=1)
        expected = model(SOURCE, read, source_mask=SOURCE > 0)
    torch.testing.assert_close(logits(model, 0.0), expected, rtol=1e-4, atol=1e-5)


def test_the_coins_decide_and_their_seed_decides_the_coins():
    model = build(transformer(), vocab_size=VOCAB, seed=3).eval()
    assert torch.equal(logits(model, 0.5, seed=1), logits(model, 0.5, seed=1))
    draws = [logits(model, 0.5, seed=seed) for seed in range(9)]
    assert any(not torch.equal(draws[0], other) for other in draws)
    assert all(torch.equal(draws[0][:, 0], other[:, 0]) for other in draws)  # <bos> is always read


def test_a_coin_of_zero_is_no_right_token_where_none_is_wanted(monkeypatch):
    model = build(transformer(), vocab_size=VOCAB, seed=3).eval()
    expected = logits(model, 0.0)
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.zeros(shape))
    assert torch.equal(logits(model, 0.0), expected)


def test_the_schedule_by_hand():
    probability = module.teacher_forcing_probability
    assert [probability(0.75, 0.25, step, total_steps=3) for step in (1, 2, 3, 4)] == [0.75, 0.5, 0.25, 0.25]
    assert [probability(0.75, None, step, total_steps=3) for step in (1, 3)] == [0.75, 0.75]
    assert probability(0.5, 0.0, 1, total_steps=1) == 0.5


def test_a_step_forces_with_the_probability_of_its_number(monkeypatch):
    probabilities = []
    real = step_module.sampled_logits

    def recording(*arguments, **options):
        probabilities.append(options["teacher_forcing"])
        return real(*arguments, **options)

    monkeypatch.setattr(step_module, "sampled_logits", recording)
    model = build(transformer(), vocab_size=VOCAB, seed=0)
    batch = collate([Example([4, 2], [5, 4, 2])] * 3, 0, 1, range(3))
    for end in (1.0, 0.0):
        config = TrainingConfig(teacher_forcing_end=end)
        stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())
        assert len(list(take_steps(stepper, [[batch]] * 6, total_steps=6))) == 6
    assert probabilities == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])  # nothing is sampled where it is 1


# What decays and what does not, and the learning rate by hand


def test_every_parameter_is_in_one_group_and_only_matrices_decay():
    """A matrix that is tied to an embedding does not."""
    for config in ("transformer", "rnn-attention", transformer(shared={"tie_output": True})):
        model = build(config, vocab_size=11, seed=0)
        optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.25))
        assert [group["weight_decay"] for group in optimizer.param_groups] == [0.25, 0.0]
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        decayed, kept = ({names[id(p)] for p in group["params"]} for group in optimizer.param_groups)
        assert decayed | kept == {name for name, _ in model.named_parameters()}
        assert not decayed & kept
        assert all(name.endswith("weight") or "weight_" in name for name in decayed)
        assert not any("embed" in name or "norm" in name or "bias" in name for name in decayed)


def test_two_steps_of_the_optimizer_by_hand():
    """A matrix without gradient shrinks by the rate times the decay; both averages of Adam forget as fast as is set."""
    linear = nn.Linear(3, 1)
    nn.init.zeros_(linear.bias)
    before, biases = linear.weight.detach().clone(), []
    optimizer = make_optimizer(linear, TrainingConfig(lr=0.5, weight_decay=0.25, betas=(0.8, 0.9)))
    for gradient in (3.0, 0.0):
        linear.weight.grad, linear.bias.grad = torch.zeros(1, 3), torch.tensor([gradient])
        optimizer.step()
        biases.append(linear.bias.item())
    torch.testing.assert_close(linear.weight.detach(), before * (1 - 0.5 * 0.25) ** 2)
    # The first step is the rate. In the second the averages are 0.8 / 1.8 of the gradient and 0.9 / 1.9 of its square.
    second = 0.5 * (0.8 / 1.8) / math.sqrt(0.9 / 1.9)
    assert biases == pytest.approx([-0.5, -0.5 - second])


def test_weights_of_another_model_are_refused():
    with pytest.raises(ValueError, match="these are the weights of another model"):
        put_into(torch.nn.Linear(3, 2), {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})


def factors(schedule, total, warmup):
    return [lr_factor(schedule, step, total_steps=total, warmup_steps=warmup) for step in range(1, total + 1)]


def test_learning_rates_by_hand():
    assert factors("constant", 4, 2) == [0.5, 1.0, 1.0, 1.0]
    assert factors("linear", 5, 2) == [0.5, 1.0, 0.75, 0.5, 0.25]
    assert lr_factor("linear", 99, total_steps=5, warmup_steps=2) == 0.25  # beyond the last step
    assert factors("linear", 4, 0) == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert factors("cosine", 4, 1) == pytest.approx([1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert factors("inverse_sqrt", 9, 1) == pytest.approx([1 / math.sqrt(k) for k in range(1, 10)])
    assert factors("inverse_sqrt", 16, 4)[-1] == 0.5
    for schedule in ("constant", "linear", "cosine", "inverse_sqrt"):
        assert factors(schedule, 4, 4) == [0.25, 0.5, 0.75, 1.0]
        assert 0 < factors(schedule, 3, 0)[-1] <= factors(schedule, 3, 0)[0] <= 1
