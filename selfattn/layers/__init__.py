"""What models are made of besides attention: feed-forward, norms, Transformer blocks, recurrent stacks."""

from selfattn.layers.init import initialise as initialise
from selfattn.layers.recurrent import RecurrentStack as RecurrentStack
from selfattn.layers.recurrent import RecurrentState as RecurrentState
from selfattn.layers.recurrent import reverse_padded as reverse_padded
from selfattn.layers.transformer import Activation as Activation
from selfattn.layers.transformer import FeedForward as FeedForward
from selfattn.layers.transformer import TokenEmbedding as TokenEmbedding
from selfattn.layers.transformer import TransformerBlock as TransformerBlock
from selfattn.layers.transformer import make_norm as make_norm
from selfattn.layers.transformer import output_layer as output_layer
