"""Sanity gates: every honest model passes, every planted cheat is caught, and by the gate that is meant for it."""

import json
import math
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from torch import nn

from selfattn.codec import encode
from selfattn.data.batches import Batch
from selfattn.data.pairs import Example
from selfattn.evaluation.gates import causal, model_gates, overfitting
from selfattn.models.build import build, match, parameters
from selfattn.models.families import PRESETS
from selfattn.models.protocol import Seq2Seq

EOS = 2


def batch_of(zoo, seed=0):
    case = zoo.case([5, 2, 7], 4, seed)
    target_out = case.target.roll(-1, dims=1)
    return Batch(case.source, case.source_mask, case.target, target_out, torch.ones_like(target_out).bool(), [0, 1, 2])


class Cheat(Seq2Seq):
    """An honest model whose logits may be changed."""

    def __init__(self, inner, change=lambda model, logits, target_in: logits):
        super().__init__()
        self.inner, self.change = inner, change

    def encode(self, source, source_mask):
        return self.inner.encode(source, source_mask)

    def start(self, memory):
        return self.inner.start(memory)

    def step(self, token, state):
        return self.inner.step(token, state)

    def forward(self, source, target_in, *, source_mask):
        return self.change(self, self.inner(source, target_in, source_mask=source_mask), target_in)


class Stepped(Cheat):
    """What a model would say if `step` were all there is: it cannot see the future, nor differ from itself."""

    def forward(self, source, target_in, *, source_mask):
        state, steps = self.start(self.encode(source, source_mask)), []
        for token in target_in.unbind(dim=1):
            logits, state = self.step(token, state)
            steps.append(logits)
        return torch.stack(steps, dim=1)


def peek(model, logits, target_in):
    """The next input token is the right answer: a little of it in the logits gives it away."""
    told = nn.functional.one_hot(target_in[:, 1:], logits.shape[-1]) * 1e-3
    return torch.cat([logits[:, :-1] + told, logits[:, -1:]], dim=1)


def changed(change):
    """A cheat by its change of the logits, which is given the model, the logits and the target's inputs."""
    return lambda model: Cheat(model, change)


no_number = changed(lambda model, logits, target: logits * torch.nan)
deaf_to_gradients = changed(lambda model, logits, target: logits.detach() + 0 * logits)


class ReadsPadding(Stepped):
    """The encoder is told that everything is real."""

    def encode(self, source, source_mask):
        return self.inner.encode(source, torch.ones_like(source_mask))


class CountsPadding(Stepped):
    """Not what is in the padding is felt, but how much there is."""

    def step(self, token, state):
        logits, new = self.inner.step(token, state)
        memory = new.memory
        length = (memory[0] if isinstance(memory, tuple) else memory).key.shape[2]
        return logits * (1 + 0.01 * length), new


class ForgetsPositions(Cheat):
    """Step by step every token stands at the same place."""

    def step(self, token, state):
        position = self.inner.decoder.embed.position
        with patch.object(position, "forward", lambda places: type(position).forward(position, 0 * places)):
            return self.inner.step(token, state)


def without_causal_mask(model):
    """Switch the decoder's causal mask off."""

    def unmasked(forward):
        return lambda *inputs, mask=None, **named: forward(*inputs, **named)

    for layer in model.decoder.layers:
        layer.self_attn.forward = unmasked(layer.self_attn.forward)
    return model


def transformer(zoo):
    return zoo.fresh(zoo.variants["preset transformer"])


def test_every_honest_model_passes(zoo, some_variant):
    model = zoo.model(some_variant, torch.float32)
    gates = model_gates(model, batch_of(zoo))
    assert [gate.name for gate in gates] == ["causal", "padding", "batch", "forward = step"]
    assert all(gate.passed for gate in gates), gates
    assert gates[0].value == 0


@pytest.mark.parametrize("name", ["rnn-deep-residual", "bahdanau-gru", "transformer", "decoder-only"])
def test_dropout_is_no_leak_and_the_model_stays_as_it_was(zoo, name):
    """In training mode units are dropped: the same ones for both targets that are compared."""
    variant = f"preset {name}"
    chance = torch.get_rng_state()
    for mode in (True, False):
        model = zoo.fresh(zoo.dropping(variant, 0.3)).train(mode)
        assert all(gate.passed for gate in model_gates(model, batch_of(zoo)))
        assert model.training == mode
        assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), chance)


def test_logits_that_are_no_numbers_fail_everything_and_travel_as_json(zoo):
    for gate in model_gates(no_number(transformer(zoo)), batch_of(zoo)):
        assert not gate.passed
        assert gate.value == math.inf
        assert "value" not in json.loads(json.dumps(encode(gate), allow_nan=False))


AHEAD, APART = ["causal", "forward = step"], ["batch", "forward = step"]
CAUGHT = {
    "no causal mask": (without_causal_mask, AHEAD, "logits move by"),
    "peeks": (changed(peek), AHEAD, "logits move by"),
    "peeks far": (  # the first position sees the last token, nothing else leaks
        changed(lambda _, logits, target: torch.cat([logits[:, :1] + 1e-3 * target[:, -1:, None], logits[:, 1:]], 1)),
        AHEAD, "logits move by"),
    "peeks while training": (
        changed(lambda model, logits, target: peek(model, logits, target) if model.training else logits),
        ["causal"], "logits move by"),
    "hears all rows": (changed(lambda _, logits, target: logits + 0.01 * logits.mean(0, True)), APART, "read alone"),
    "hears one row": (
        changed(lambda _, logits, target: torch.cat([logits[:1], logits[1:] + 0.01 * logits[:-1]])),
        APART, "in reverse order"),
    "other steps": (ForgetsPositions, ["forward = step"], ""),
    "reads padding": (ReadsPadding, ["padding"], "padding, logits change by"),
    "counts padding": (CountsPadding, ["padding"], "padding, logits change by"),
}  # fmt: skip
CASES = [(cheat, "transformer") for cheat in CAUGHT]
CASES += [(f"{verb} padding", name) for verb in ("reads", "counts") for name in ("rnn-attention", "rnn-bidirectional")]


@pytest.mark.parametrize(("cheat", "name"), CASES)
def test_a_cheat_fails_the_gates_that_are_meant_for_it(zoo, cheat, name):
    change, names, reason = CAUGHT[cheat]
    gates = model_gates(change(zoo.fresh(zoo.variants[f"preset {name}"])), batch_of(zoo))
    failed = [gate for gate in gates if not gate.passed]
    assert [gate.name for gate in failed] == names
    assert reason in failed[0].reason
    assert failed[0].value > failed[0].limit
    assert (gates[0].value > gates[0].limit == 0) == ("causal" in names)


@pytest.mark.parametrize("sources", [9, 50])
def test_a_source_may_have_fewer_tokens_than_the_target_or_more(zoo, sources):
    """Padding is filled with tokens that the source has: letters are fewer than phones in many languages."""
    batch = batch_of(zoo)
    batch = replace(batch, source=batch.source % sources)
    for name in ("rnn-attention", "transformer"):
        model = build(PRESETS[name].config, vocab_size=30, pad_id=0, seed=0, source_vocab_size=sources).eval()
        assert all(gate.passed for gate in model_gates(model, batch, source_vocab_size=sources))


def test_gates_need_a_future_to_hide(zoo):
    batch = batch_of(zoo)
    with pytest.raises(ValueError, match="at least two tokens"):
        causal(transformer(zoo), replace(batch, target_in=batch.target_in[:, :1]))


VOCAB = 12


def examples(count=64):
    """Three tokens, of which the last two are to be written backwards."""
    rows = torch.randint(3, VOCAB, (count, 3), generator=torch.Generator().manual_seed(0)).tolist()
    return [Example([*row, EOS], [row[2], row[1], EOS]) for row in rows]


def overfit(config, wrapper=lambda model: model, **settings):
    chosen = {"examples": examples(), "lr": 0.01, "steps": 400} | settings
    return overfitting(lambda: wrapper(build(config, vocab_size=VOCAB, pad_id=0, seed=0)), **chosen)


LEARN = ("rnn-attention", "transformer", "decoder-only")


@pytest.mark.parametrize(
    "name", [name if name in LEARN else pytest.param(name, marks=pytest.mark.slow) for name in PRESETS]
)
def test_every_preset_knows_64_examples_by_heart(name):
    gate = overfit(match(PRESETS[name].config, 12_000, lambda config: parameters(config, VOCAB)))
    assert gate.passed, gate
    assert gate.value == 1.0
    assert "of 63 pairs" in gate.reason  # two of the 64 have the same source


def test_what_cannot_learn_is_caught(zoo):
    config = zoo.variants["preset transformer"]
    gate = overfit(config, wrapper=deaf_to_gradients, steps=40)
    assert not gate.passed
    assert gate.value < 0.5
    assert "after 40 steps" in gate.reason
    assert not overfit(config, lr=1e-7, steps=40).passed
    diverged = overfit(config, wrapper=no_number, steps=40)
    assert not diverged.passed
    assert "after 1 step" in diverged.reason
    assert "loss of nan" in diverged.reason


def test_a_model_that_saw_the_answers_in_training_cannot_write_them(zoo):
    """A causal leak makes the loss fall to nothing, and the outputs nonsense: it is the outputs that count."""
    gate = overfit(zoo.variants["preset transformer"], wrapper=without_causal_mask, steps=120)
    assert not gate.passed


def test_overfitting_keeps_to_its_budget_and_to_its_own_chance(zoo):
    config = zoo.variants["preset rnn-attention"]
    chance = torch.get_rng_state()
    with torch.no_grad():
        assert "after 1 step" in overfit(config, steps=1).reason
    assert torch.equal(torch.get_rng_state(), chance)
