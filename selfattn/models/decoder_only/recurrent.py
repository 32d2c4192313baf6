"""A language model without attention: one RNN reads source and target as one sequence."""

from dataclasses import dataclass

from torch import Tensor, nn

from selfattn.layers import RecurrentStack, RecurrentState, TokenEmbedding
from selfattn.models.protocol import Decoded, DecoderState, Memory, Seq2Seq


@dataclass(frozen=True)
class Read(Memory, DecoderState):
    """Everything read so far.

    Attributes:
        recurrent: for each layer its parts, each ``[b d]``.
    """

    recurrent: RecurrentState


class RecurrentModel(Seq2Seq):
    """A GRU over ``source <sep> target`` (Cho et al. 2014); without a source a language model (Mikolov et al. 2010).

    Args:
        embed: one embedding for source and target.
        stack: of GRUs, read forward. An LSTM would need its cell after each row's last token, which torch does not
            return for padded rows.
        output: maps ``[.. d]`` to logits.
    """

    reads_one_sequence = True
    takes_gaps = False

    def __init__(self, embed: TokenEmbedding, stack: RecurrentStack, output: nn.Linear) -> None:
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.output = output

    def encode(self, source: Tensor, source_mask: Tensor) -> Read:
        """Read the sources ``[b s]``; after no tokens the state is zero."""
        if source.shape[1] == 0:
            source = nn.functional.pad(source, (0, 1))
            source_mask = nn.functional.pad(source_mask, (0, 1))
        _, final = self.stack.read(self.embed(source), source_mask)
        return Read(tuple((h,) for h in final))

    def advance(self, tokens: Tensor, state: Read, *, need_weights: bool = False) -> tuple[Decoded, Read]:
        """Read tokens ``[b t]``."""
        states, recurrent = self.stack(self.embed(tokens), state.recurrent)
        return Decoded(states, self.output), Read(recurrent)
