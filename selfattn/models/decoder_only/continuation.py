"""A language model that goes on from the beginning of a text, as a model of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq


@dataclass(frozen=True)
class BegunMemory(Memory):
    """The beginning, read but for its last token.

    Attributes:
        prefix: what is read.
        last: the token to read next, ``[b]``.
    """

    prefix: Memory
    last: Tensor


@dataclass(frozen=True)
class BegunState(DecoderState):
    """The text so far.

    Attributes:
        text: what is read.
        last: before the first step, the beginning's last token ``[b]``; after it None.
    """

    text: DecoderState
    last: Tensor | None


class Continuation(Seq2Seq):
    r"""A language model whose source is the beginning of a text and whose target is the rest of it.

    ``<bos>`` stands in front of the beginning, where a language model reads it; the ``<bos>`` that every target
    begins with is not read. So every way of decoding continues texts, and

    .. math:: p(y_k \mid y_{<k}, x) = p_{LM}(y_k \mid \text{<bos>}\ x\ y_{<k}).

    Args:
        model: trained with sources of no tokens; one that reads source and target as one sequence.
        bos_id: the token that its texts begin with.

    Raises:
        ValueError: the model has an encoder for its source, or reads it in both directions.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["decoder-only"].config, vocab_size=11, pad_id=0, seed=0)
        >>> nothing, mask = torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, 0, dtype=torch.bool)
        >>> full = model(nothing, torch.tensor([[1, 5, 6, 7]]), source_mask=mask)
        >>> begun, mask = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool)
        >>> rest = Continuation(model, bos_id=1)(begun, torch.tensor([[1, 7]]), source_mask=mask)
        >>> torch.allclose(rest, full[:, 2:], atol=1e-5)
        True
    """

    def __init__(self, model: Seq2Seq, bos_id: int) -> None:
        super().__init__()
        if not model.reads_one_sequence:
            raise ValueError(
                "Continuation: the model has an encoder or reads its source in both directions; it cannot go on from it"
            )
        self.model = model
        self.bos_id = bos_id

    def encode(self, source: Tensor, source_mask: Tensor) -> BegunMemory:
        """Read ``<bos>`` and the beginnings ``[b s]`` but for their last tokens."""
        prefix, last = self._shift(source, source_mask)
        return BegunMemory(self.model.encode(prefix, source_mask), last)

    def start(self, memory: Memory) -> BegunState:
        """Go on from the beginning."""
        assert isinstance(memory, BegunMemory)
        return BegunState(self.model.start(memory.prefix), memory.last)

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, BegunState]:
        """Read one token ``[b]``; at the first step the beginning's last one in its place."""
        assert isinstance(state, BegunState)
        logits, text = self.model.step(token if state.last is None else state.last, state.text)
        return logits, BegunState(text, None)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]`` for the target's positions."""
        prefix, last = self._shift(source, source_mask)
        logits: Tensor = self.model(prefix, _with_first(target_in, last), source_mask=source_mask)
        return logits

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights; the source's axis is ``<bos>`` and the beginning without its last token."""
        prefix, last = self._shift(source, source_mask)
        return self.model.attention_maps(prefix, _with_first(target_in, last), source_mask=source_mask)

    def _shift(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Put ``<bos>`` in front and take the last real token of each row off: ``[b s]`` and ``[b]``."""
        tokens = torch.cat([source.new_full((len(source), 1), self.bos_id), source], dim=1)
        return tokens[:, :-1], tokens.gather(1, source_mask.sum(dim=1, keepdim=True))[:, 0]


def _with_first(target_in: Tensor, first: Tensor) -> Tensor:
    return torch.cat([first[:, None], target_in[:, 1:]], dim=1)
