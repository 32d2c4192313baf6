"""What models are made of besides attention: feed-forward, norms, Transformer blocks, recurrent stacks."""

from selfattn.layers.embedding import TokenEmbedding
from selfattn.layers.feedforward import Activation, FeedForward
from selfattn.layers.init import initialise
from selfattn.layers.norms import Norm, make_norm
from selfattn.layers.recurrent import Cell, Direction, RecurrentStack, RecurrentState, reverse_padded
from selfattn.layers.transformer import BlockOutput, TransformerBlock

__all__ = [
    "Activation",
    "BlockOutput",
    "Cell",
    "Direction",
    "FeedForward",
    "Norm",
    "RecurrentStack",
    "RecurrentState",
    "TokenEmbedding",
    "TransformerBlock",
    "initialise",
    "make_norm",
    "reverse_padded",
]
