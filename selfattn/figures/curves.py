"""How a model learned."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.codec import Plain


@dataclass(frozen=True)
class Point(Plain):
    """One validation during training; losses are nats a token, `tokens` are target tokens seen so far.

    Args:
        flops: floating-point operations of training so far.
        valid: the headline metric on the validation items.
    """

    epoch: float
    step: int
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid: float | None = None


@dataclass(frozen=True)
class Curve(Plain):
    """The learning curve of one run."""

    seed: int
    points: tuple[Point, ...] = ()
