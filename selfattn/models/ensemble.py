"""Several models of one vocabulary as one: the mean of what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.models.config import Limits, ModelConfig, smallest
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq


@dataclass(frozen=True)
class EnsembleConfig(ModelConfig):
    """The configurations of the models together, for what is asked of a model before it decodes.

    Attributes:
        models: in their order.
    """

    models: tuple[ModelConfig, ...]

    def limits(self) -> Limits:
        """What all of them can read and write."""
        limits = [model.limits() for model in self.models]
        return Limits(
            smallest(limit.source for limit in limits),
            smallest(limit.target for limit in limits),
            smallest(limit.together for limit in limits),
        )


@dataclass(frozen=True)
class EnsembleState(Memory, DecoderState):
    """What each model has read: its memory, and from the start of decoding its state."""

    parts: tuple[Any, ...]


class Ensemble(Seq2Seq):
    r"""Models of any families that write together: at every step the mean of their probabilities.

    .. math:: p(y_k \mid y_{<k}, x) = \frac{1}{n} \sum_m p_m(y_k \mid y_{<k}, x)

    as in Sutskever et al. 2014, section 3.6, and Luong et al. 2015, section 4.1.

    Args:
        models: at least one; the tokens of all mean the same.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> names = ("transformer", "rnn-attention")
        >>> both = Ensemble([build(PRESETS[name].config, vocab_size=11, pad_id=0, seed=0) for name in names])
        >>> source = torch.tensor([[5, 6, 2]])
        >>> logits = both(source, torch.tensor([[1]]), source_mask=source > 0)
        >>> round(logits.exp().sum().item(), 4)
        1.0
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.models: Any = nn.ModuleList(models)
        self.reads_one_sequence = all(model.reads_one_sequence for model in self.models)

    def encode(self, source: Tensor, source_mask: Tensor) -> EnsembleState:
        """Let each read the sources."""
        return EnsembleState(tuple(model.encode(source, source_mask) for model in self.models))

    def start(self, memory: EnsembleState) -> EnsembleState:
        """Start each."""
        pairs = zip(self.models, memory.parts, strict=True)
        return EnsembleState(tuple(model.start(part) for model, part in pairs))

    def step(self, token: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Read one token ``[b]``; the logits are the logarithm of the mean probabilities."""
        stepped = [model.step(token, part) for model, part in zip(self.models, state.parts, strict=True)]
        return _mean([logits for logits, _ in stepped]), EnsembleState(tuple(part for _, part in stepped))

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return the logarithm of the mean probabilities ``[b t v]``."""
        return _mean([model(source, target_in, source_mask=source_mask) for model in self.models])

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Refuse.

        Raises:
            ValueError: always.
        """
        raise ValueError("several models have no attention in common; ask one of them")


def _mean(logits: Sequence[Tensor]) -> Tensor:
    wide = torch.promote_types(logits[0].dtype, torch.float32)
    log_probabilities = torch.stack([part.log_softmax(dim=-1, dtype=wide) for part in logits])
    return log_probabilities.logsumexp(dim=0) - math.log(len(logits))
