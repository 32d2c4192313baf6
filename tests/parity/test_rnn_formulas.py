"""The RNN family and every score against textbook formulas: one sentence at a time, loops over positions and heads.

Nothing here calls a recurrent kernel, a batch, a mask or the attention core: only matrices, vectors and numbers.
"""

import math
from itertools import product

import pytest
import torch
from zoo import hybrid, rnn

from selfattn.models.build import build
from selfattn.models.families import RNNEncoderConfig

VOCAB = 13


def lstm(weights, x, state):
    """Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000."""
    h, c = state
    gates = weights.weight_ih_l0 @ x + weights.bias_ih_l0 + weights.weight_hh_l0 @ h + weights.bias_hh_l0
    i, f, g, o = gates.chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru(weights, x, state):
    """Cho et al. 2014, with the reset gate after the matrix, as cuDNN and PyTorch have it."""
    (h,) = state
    for_r, for_z, for_n = (weights.weight_ih_l0 @ x + weights.bias_ih_l0).chunk(3)
    from_r, from_z, from_n = (weights.weight_hh_l0 @ h + weights.bias_hh_l0).chunk(3)
    r, z = torch.sigmoid(for_r + from_r), torch.sigmoid(for_z + from_z)
    n = torch.tanh(for_n + r * from_n)
    return ((1 - z) * n + z * h,)


def cell(weights, x, state):
    return lstm(weights, x, state) if isinstance(weights, torch.nn.LSTM) else gru(weights, x, state)


def zeros(weights):
    h = torch.zeros(weights.hidden_size, dtype=torch.float64)
    return (h, h) if isinstance(weights, torch.nn.LSTM) else (h,)


def read(stack, config, x):
    """All states of the top layer, and each layer's final h."""
    finals = []
    for number, layer in enumerate(stack.layers):
        sides, last = [], []
        for weights, backward in zip(
            layer, {"forward": [False], "backward": [True], "both": [False, True]}[config.direction], strict=True
        ):
            state, outputs = zeros(weights), []
            for vector in reversed(x) if backward else x:
                state = cell(weights, vector, state)
                outputs.append(state[0])
            sides.append(outputs[::-1] if backward else outputs)
            last.append(state)
        joined = [torch.cat(states) for states in zip(*sides, strict=True)]
        x = [a + b for a, b in zip(x, joined, strict=True)] if config.residual and number else joined
        finals.append(torch.cat([state[0] for state in last]))
    return x, finals


def advance(stack, residual, x, state):
    """One step of all layers."""
    new = []
    for number, ((weights,), before) in enumerate(zip(stack.layers, state, strict=True)):
        new.append(cell(weights, x, before))
        x = x + new[-1][0] if residual and number else new[-1][0]
    return x, new


def first_state(bridge, stack, config, finals):
    state = []
    for number, (weights,) in enumerate(stack.layers):
        nothing = zeros(weights)
        if config.initial_state == "copy":
            state.append((finals[number], *nothing[1:]))
        else:
            h = finals[number] if number < len(finals) else finals[-1]
            linears = bridge.projections[number * len(nothing) : (number + 1) * len(nothing)]
            state.append(tuple(torch.tanh(linear.weight @ h + linear.bias) for linear in linears))
    return state


def score_of(name, score, query, key, place):
    """Luong et al. 2015, section 3.1; Bahdanau et al. 2015, appendix A.1.2: one query, and the key at one place."""
    weights = dict(score.named_parameters())
    if name == "dot":
        return query @ key
    if name == "scaled_dot":
        return query @ key / math.sqrt(len(query))
    if name == "general":
        return key @ (weights["proj.weight"] @ query)
    if name == "concat":
        inner = weights["proj.weight"] @ torch.cat([query, key]) + weights["proj.bias"]
        return weights["v.weight"][0] @ torch.tanh(inner)
    if name == "additive":
        inner = weights["query_proj.weight"] @ query + weights["key_proj.weight"] @ key
        return weights["v.weight"][0] @ torch.tanh(inner)
    return (weights["proj.weight"] @ query)[place]


def attend(attention, config, query, states):
    """The context, and the weights ``[h s]``."""
    keys = values = states
    if config.project:
        query = attention.q_proj.weight @ query + attention.q_proj.bias
        keys = [attention.k_proj.weight @ state + attention.k_proj.bias for state in states]
        values = [attention.v_proj.weight @ state + attention.v_proj.bias for state in states]
    contexts, weights = [], []
    for head in range(config.num_heads):
        asks, *offers = (vector.chunk(config.num_heads)[head] for vector in (query, *keys))
        scores = [score_of(config.score, attention.score, asks, key, place) for place, key in enumerate(offers)]
        powers = torch.stack(scores).exp()
        weights.append(powers / powers.sum())
        contexts.append(weights[-1] @ torch.stack([value.chunk(config.num_heads)[head] for value in values]))
    context = torch.cat(contexts)
    if config.project:
        context = attention.out_proj.weight @ context + attention.out_proj.bias
    return context, torch.stack(weights)


def reference(model, config, source, target):
    """Logits ``[t v]`` and attention weights ``[h t s]`` for one sentence without padding."""
    encoder, decoder, settings = model.encoder, model.decoder, config.decoder
    if isinstance(config.encoder, RNNEncoderConfig):
        states, finals = read(encoder.stack, config.encoder, [encoder.embed.tokens.weight[token] for token in source])
    else:  # the Transformer's encoder has its own proof; what it hands over in place of a final state is the mean
        states = list(model.encode(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool)).states[0])
        finals = [sum(states[1:], states[0]) / len(states)]
    state = first_state(decoder.bridge, decoder.stack, settings, finals)
    summary = finals[-1]
    output, rows, weights = decoder.output, [], []
    fed = torch.zeros(decoder.combine.out_features, dtype=torch.float64) if settings.input_feeding else None
    for token in target:
        x = decoder.embed.tokens.weight[token]
        if settings.attention in ("none", "peeky"):
            peek = [summary] if settings.attention == "peeky" else []
            h, state = advance(decoder.stack, settings.residual, torch.cat([*peek, x]), state)
            read_out = torch.cat([*peek, h])
        elif settings.attention == "bahdanau":
            context, row = attend(decoder.cross_attn, settings, state[-1][0], states)
            h, state = advance(decoder.stack, settings.residual, torch.cat([x, context]), state)
            pairs = decoder.maxout.weight @ torch.cat([h, context, x]) + decoder.maxout.bias
            read_out = torch.stack([torch.maximum(pairs[2 * k], pairs[2 * k + 1]) for k in range(len(pairs) // 2)])
            weights.append(row)
        else:
            h, state = advance(decoder.stack, settings.residual, x if fed is None else torch.cat([x, fed]), state)
            context, row = attend(decoder.cross_attn, settings, h, states)
            read_out = torch.cat([context, h])
            if settings.attention == "luong":
                read_out = torch.tanh(decoder.combine.weight @ read_out)
            if settings.input_feeding:
                fed = read_out
            weights.append(row)
        rows.append(output.weight @ read_out + output.bias)
    return torch.stack(rows), torch.stack(weights, dim=1) if weights else None


def make(config):
    """A model in float64 whose every number, biases too, is drawn at random."""
    model = build(config, vocab_size=VOCAB, pad_id=0, seed=0).double().eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return model


SOURCES = [[5, 3, 9, 7, 4], [6, 12, 8], [10]]
TARGETS = [[1, 4, 7, 11], [1, 9, 3, 5], [1, 12, 12, 2]]


ENCODERS = {
    "forward": {},
    "backward": {"direction": "backward"},
    "both": {"direction": "both", "hidden_dim": 3},
    "deep": {"num_layers": 2},
    "deep both residual": {"direction": "both", "hidden_dim": 3, "num_layers": 2, "residual": True},
    "deep backward residual": {"direction": "backward", "num_layers": 3, "residual": True},
}
SCORES = ("dot", "scaled_dot", "general", "concat", "location", "additive")
DECODERS = (
    {"plain": {"attention": "none"}, "peeky": {"attention": "peeky"}, "textbook": {}}
    | {f"textbook heads {score}": {"num_heads": 2, "project": True, "score": score} for score in SCORES}
    | {
        f"luong {score}{' feeding' * feeding}": {"attention": "luong", "score": score, "input_feeding": feeding}
        for score, feeding in product(SCORES, (False, True))
    }
    | {f"bahdanau {score}": {"attention": "bahdanau", "score": score} for score in ("additive", "dot", "concat")}
)
WIDER = {"direction": "both", "hidden_dim": 3, "num_layers": 2}  # and with fewer layers than the decoder
CASES = {
    # Every direction, depth and cell, read through the attention (all states) and the bridge (the last).
    f"{shape}, {reader} to {writer}": rnn(
        settings | {"cell": reader},
        {name: settings[name] for name in settings.keys() & {"num_layers", "residual"}}
        | {"cell": writer, "initial_state": "project" if reader == "lstm" else "copy"},
    )
    for shape, settings in ENCODERS.items()
    for reader, writer in product(("lstm", "gru"), repeat=2)
}
for name, settings in DECODERS.items():
    for deep in ({"cell": "lstm", "num_layers": 2, "residual": True}, {"cell": "gru"}):
        CASES[f"{name}, {deep['cell']}"] = rnn(deep, settings | deep)
    if name in ("plain", "peeky", "luong general", "luong concat feeding", "bahdanau additive"):
        CASES[f"{name}, wider"] = rnn(WIDER, settings | {"hidden_dim": 4, "num_layers": 3, "initial_state": "project"})
    if name in ("plain", "peeky", "textbook heads scaled_dot", "luong general feeding", "bahdanau additive"):
        CASES[f"{name}, of a Transformer"] = hybrid("transformer", settings | {"num_layers": 2})


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_a_padded_batch_gives_what_the_formulas_give_for_each_sentence(close, name):
    model = make(CASES[name])
    padded = torch.tensor([row + [0] * (7 - len(row)) for row in SOURCES])
    mask, target = padded != 0, torch.tensor(TARGETS)
    logits = model(padded, target, source_mask=mask)
    maps = model.attention_maps(padded, target, source_mask=mask)
    for number, (source, words) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, weights = reference(model, CASES[name], source, words)
        close(logits[number], expected)
        if weights is None:
            assert maps.cross == ()
        else:
            close(maps.cross[0][number, :, :, : len(source)], weights)
