"""A training as the textbook writes it, in NumPy alone, beside ours: LSTMs of 256, attention, batches of 128, Adam.

Written anew from the description in Saito, "Deep Learning from Scratch 2" (chapters 6 to 8): encoder and decoder are an
LSTM each; the decoder starts from the encoder's last state, its states attend to the encoder's by their dot product,
and an affine layer reads context and state; gradients are clipped to a norm of 5. The book's program is at 99.9 % after
3 epochs of its file (45,000 pairs, 352 batches); ours after 3 of 44,000 in 688 batches of 64 (docs/results/dates.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.measure import Bench, Row

Array = Any  # np.ndarray[float32]
BATCHES, ROWS, WIDTH, HIDDEN = 3 * 352, 128, 16, 256
OURS = 3 * 688


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class Lstm:
    """One LSTM layer over time: forward keeps what backward needs."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights

    def forward(self, xs: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """Read ``[n t d]`` on from states ``[n h]``; return ``[n t h]`` and the last cell."""
        self.kept, out = [], np.empty((*xs.shape[:2], HIDDEN), dtype=np.float32)
        for t in range(xs.shape[1]):
            z = xs[:, t] @ self.weights["x"] + h @ self.weights["h"] + self.weights["b"]
            f, g, i, o = np.split(z, 4, axis=1)
            f, g, i, o = _sigmoid(f), np.tanh(g), _sigmoid(i), _sigmoid(o)
            new = f * c + g * i
            self.kept.append((xs[:, t], h, c, f, g, i, o, new))
            c, h = new, o * np.tanh(new)
            out[:, t] = h
        return out, c

    def backward(self, given: Array, dh: Array, dc: Array) -> tuple[Array, Array, Array, dict[str, Array]]:
        """Return the gradients of the inputs, of the first state and cell, and of the weights."""
        grads = {name: np.zeros_like(weight) for name, weight in self.weights.items()}
        dxs = np.empty((*given.shape[:2], len(self.weights["x"])), dtype=np.float32)
        for t in reversed(range(given.shape[1])):
            x, h, c, f, g, i, o, new = self.kept[t]
            dh = dh + given[:, t]
            tanh = np.tanh(new)
            ds = dc + dh * o * (1 - tanh**2)
            dz = np.hstack((ds * c * f * (1 - f), ds * i * (1 - g**2), ds * g * i * (1 - i), dh * tanh * o * (1 - o)))
            grads["x"] += x.T @ dz
            grads["h"] += h.T @ dz
            grads["b"] += dz.sum(axis=0)
            dxs[:, t], dh, dc = dz @ self.weights["x"].T, dz @ self.weights["h"].T, ds * f
        return dxs, dh, dc, grads


class Program:
    """The whole model with its optimizer; a call is one step on a batch of ids."""

    def __init__(self, vocabulary: int) -> None:
        draw = np.random.default_rng(0)

        def weight(*shape: int, scale: float) -> Array:
            return (draw.standard_normal(shape) * scale).astype(np.float32)

        self.weights: dict[str, Array] = {}
        for side in ("read", "write"):
            self.weights |= {
                f"{side}.embed": weight(vocabulary, WIDTH, scale=0.01),
                f"{side}.x": weight(WIDTH, 4 * HIDDEN, scale=WIDTH**-0.5),
                f"{side}.h": weight(HIDDEN, 4 * HIDDEN, scale=HIDDEN**-0.5),
                f"{side}.b": np.zeros(4 * HIDDEN, dtype=np.float32),
            }
        self.weights["out"] = weight(2 * HIDDEN, vocabulary, scale=(2 * HIDDEN) ** -0.5)
        self.weights["out.b"] = np.zeros(vocabulary, dtype=np.float32)
        self.moments = {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in self.weights.items()}
        self.steps = 0

    def gradients(self, source: Array, target_in: Array, target: Array) -> tuple[float, dict[str, Array]]:
        """Return the mean loss of a token and its gradients."""
        w = self.weights
        read, write = (Lstm({name: w[f"{side}.{name}"] for name in "xhb"}) for side in ("read", "write"))
        zero = np.zeros((len(source), HIDDEN), dtype=np.float32)
        states, _ = read.forward(w["read.embed"][source], zero, zero)
        asked, _ = write.forward(w["write.embed"][target_in], states[:, -1], zero)
        scores = asked @ states.transpose(0, 2, 1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        joined = np.concatenate((weights @ states, asked), axis=2)
        logits = joined @ w["out"] + w["out.b"]
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        right = np.take_along_axis(p, target[..., None], axis=-1)
        loss = -np.log(right).mean()
        slope = p / target.size
        np.put_along_axis(slope, target[..., None], (right - 1) / target.size, axis=-1)

        grads = {"out": joined.reshape(-1, 2 * HIDDEN).T @ slope.reshape(-1, slope.shape[-1])}
        grads["out.b"] = slope.sum(axis=(0, 1))
        both = slope @ w["out"].T
        context, to_asked = both[..., :HIDDEN], both[..., HIDDEN:]
        to_weights = context @ states.transpose(0, 2, 1)
        to_scores = weights * (to_weights - (weights * to_weights).sum(axis=-1, keepdims=True))
        to_states = weights.transpose(0, 2, 1) @ context + to_scores.transpose(0, 2, 1) @ asked
        xs, dh, _, own = write.backward(to_asked + to_scores @ states, zero, zero)
        self._put(grads, "write", own, target_in, xs)
        xs, _, _, own = read.backward(to_states, dh, zero)
        self._put(grads, "read", own, source, xs)
        return float(loss), grads

    def _put(self, grads: dict[str, Array], side: str, own: dict[str, Array], ids: Array, xs: Array) -> None:
        embed = np.zeros_like(self.weights[f"{side}.embed"])
        np.add.at(embed, ids, xs)
        grads |= {f"{side}.{name}": grad for name, grad in own.items()} | {f"{side}.embed": embed}

    def __call__(self, source: Array, target_in: Array, target: Array) -> float:
        loss, grads = self.gradients(source, target_in, target)
        norm = np.sqrt(sum(float((grad**2).sum()) for grad in grads.values()))
        share = min(1.0, 5.0 / (norm + 1e-6))
        self.steps += 1
        rate = 1e-3 * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for name, grad in grads.items():
            m, v = self.moments[name]
            m += 0.1 * (share * grad - m)
            v += 0.001 * ((share * grad) ** 2 - v)
            self.weights[name] -= rate * m / (np.sqrt(v) + 1e-7)
        return loss


def rows(bench: Bench) -> Iterator[Row]:
    if bench.device != "cpu":
        return
    batch = training.drawn(ROWS, 29, 11, training.CHARACTERS)
    ids = [tensor.numpy() for tensor in (batch.source, batch.target_in, batch.target_out)]
    program = Program(training.CHARACTERS)
    ways: dict[str, Callable[[], object]] = {
        name: training.dates_step(name) for name in ("rnn-attention", "transformer")
    }
    for name, step in ways.items():
        row = bench.row(
            f"the book's file to 99.9 %, {name}: {OURS:,} steps, the program {BATCHES:,}",
            {"selfattn": step, "the textbook's program": lambda: program(*ids)},
            goal=10.0,
        )
        for way, steps in (("selfattn", OURS), ("the textbook's program", BATCHES)):
            row.taken[way] = [steps * seconds for seconds in row.taken[way]]
        yield row
