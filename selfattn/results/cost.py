"""The cost of a model: time, operations, memory, disk."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.codec import Plain


@dataclass(frozen=True)
class MeanOverRuns(Plain):
    """A measured cost: the mean over runs and the runs themselves."""

    mean: float
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Timing(Plain):
    """Times of a model; None for what was not measured.

    Attributes:
        train_seconds: of one training run: steps times the median step, timed by turns after the trainings, as if it
            had been alone; where steps were not timed, by the wall clock.
        tokens_per_second: real target tokens trained on in a second.
        predict_ms: milliseconds for one input alone (median).
        predict_batch_ms: milliseconds an input when the whole test set is decoded in batches.
    """

    train_seconds: MeanOverRuns | None = None
    tokens_per_second: MeanOverRuns | None = None
    predict_ms: MeanOverRuns | None = None
    predict_batch_ms: MeanOverRuns | None = None


@dataclass(frozen=True)
class DecodingCost(Plain):
    """Time to decode, by length: one row of the table of decoding costs.

    Attributes:
        method: such as `greedy` or `beam 5`.
        batch: inputs decoded together.
        length: tokens written for each input.
        first_ms: milliseconds until the first token, the encoder's work included.
        token_ms: milliseconds for each further token.
    """

    method: str
    batch: int
    length: int
    first_ms: float
    token_ms: float


@dataclass(frozen=True)
class Cost(Plain):
    """Cost of a model besides time, measured on its first run; None for what was not measured.

    Attributes:
        training_flops: floating-point operations of one training run, a multiplication and an addition counted as two.
        training_flops_per_token: the same for each real target token.
        decoding_flops_per_token: of greedy decoding.
        peak_share: training FLOP a second as a share of the machine's measured peak.
        training_bytes: largest memory of one training step, beyond weights and optimizer state.
        weights_bytes: size of the weights on disk.
        run_bytes: size of the whole run on disk.
        decoding: times by method, batch and length.
    """

    training_flops: float | None = None
    training_flops_per_token: float | None = None
    decoding_flops_per_token: float | None = None
    peak_share: float | None = None
    training_bytes: int | None = None
    weights_bytes: int | None = None
    run_bytes: int | None = None
    decoding: tuple[DecodingCost, ...] = ()
