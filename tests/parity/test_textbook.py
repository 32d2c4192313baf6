"""Law 3: the layer without projections is the attention of the textbook RNN seq2seq, outputs and gradients.

The reference is Saito's "Deep Learning from Scratch 2", chapter 8: weights from the dot product of a decoder state with
every encoder state, the weighted sum of the encoder states, and both for every decoder step. Written anew from its
formulas, in NumPy, with the backward pass worked out by hand:

    s_j = hs_j . h      a = softmax(s)      c = sum_j a_j hs_j
    da_j = dc . hs_j    ds_j = a_j (da_j - sum_k a_k da_k)    dh = sum_j ds_j hs_j    dhs_j = a_j dc + ds_j h
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from selfattn.attention import MultiHeadAttention

Array = NDArray[np.float64]


@dataclass
class OneStep:
    """One decoder state ``h [b d]`` looks at the encoder states ``hs [b s d]``."""

    hs: Array
    h: Array

    def forward(self) -> Array:
        scores = np.einsum("bsd,bd->bs", self.hs, self.h)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        self.weights: Array = powers / powers.sum(axis=1, keepdims=True)
        return np.einsum("bs,bsd->bd", self.weights, self.hs)

    def backward(self, dc: Array) -> tuple[Array, Array]:
        dweights = np.einsum("bd,bsd->bs", dc, self.hs)
        dscores = self.weights * (dweights - (self.weights * dweights).sum(axis=1, keepdims=True))
        dh = np.einsum("bs,bsd->bd", dscores, self.hs)
        as_value, as_key = self.weights[..., None] * dc[:, None], dscores[..., None] * self.h[:, None]
        return as_value + as_key, dh


class OverTime:
    """The same at each of the decoder's steps; every step looks at the same encoder states."""

    def forward(self, hs: Array, decoder: Array) -> Array:
        self.steps = [OneStep(hs, decoder[:, t]) for t in range(decoder.shape[1])]
        return np.stack([step.forward() for step in self.steps], axis=1)

    def weights(self) -> Array:
        return np.stack([step.weights for step in self.steps], axis=1)

    def backward(self, dcontext: Array) -> tuple[Array, Array]:
        gradients = [step.backward(dcontext[:, t]) for t, step in enumerate(self.steps)]
        return sum(dhs for dhs, _ in gradients), np.stack([dh for _, dh in gradients], axis=1)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize(("b", "s", "t", "d"), [(2, 3, 5, 7), (1, 1, 1, 1), (5, 29, 11, 16), (3, 2, 1, 13)])
def test_law_3(b: int, s: int, t: int, d: int, dtype: torch.dtype, within: float, need_weights: bool) -> None:
    random = np.random.default_rng(0)
    hs, decoder, dcontext = (random.uniform(-0.6, 0.6, (b, length, d)) for length in (s, t, t))
    textbook = OverTime()
    context = textbook.forward(hs, decoder)
    dhs, ddecoder = textbook.backward(dcontext)

    layer = MultiHeadAttention(d, num_heads=1, project=False, score="dot")
    assert not list(layer.parameters())
    encoder_states, decoder_states = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (hs, decoder))
    output, weights = layer(decoder_states, layer.project_context(encoder_states), need_weights=need_weights)
    output.backward(torch.tensor(dcontext, dtype=dtype))

    pairs = [(output, context), (encoder_states.grad, dhs), (decoder_states.grad, ddecoder)]
    if need_weights:
        pairs.append((weights[:, 0], textbook.weights()))
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=within, atol=within)
