"""A family of one's own: gated convolutions with attention between them (Gehring et al. 2017, section 3)."""

from dataclasses import dataclass, field

from torch import Tensor, cat, nn
from torch.nn.functional import glu, pad

from selfattn.plugin import (
    OF_SOURCE,
    Decoded,
    DecoderState,
    Memory,
    ModelConfig,
    MultiHeadAttention,
    Preset,
    Seq2Seq,
    key_mask,
    register,
)


@register.family("convolutional")
@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    embed_dim: int = 48
    dim: int = 72
    num_layers: int = 2
    dropout: float = 0.0

    def build(self, *, vocab_size, pad_id, source_vocab_size=None):
        return Convolutional(self, nn.Embedding(vocab_size, self.embed_dim, padding_idx=pad_id))


@dataclass(frozen=True)
class State(Memory, DecoderState):
    last: tuple[Tensor, ...]  # two inputs of each layer, [b 2 d]
    keys: tuple = field(metadata=OF_SOURCE)
    source_mask: Tensor = field(metadata=OF_SOURCE)


class Convolutional(Seq2Seq):
    def __init__(self, config, tokens):
        super().__init__()
        d, n, self.drop = config.dim, range(config.num_layers), nn.Dropout(config.dropout)
        self.tokens, self.enter, self.output = tokens, nn.Linear(config.embed_dim, d), nn.Linear(d, len(tokens.weight))
        self.read, self.write = (nn.ModuleList(nn.Linear(3 * d, 2 * d) for _ in n) for _ in range(2))
        self.cross = nn.ModuleList(MultiHeadAttention(d, num_heads=1) for _ in n)

    def encode(self, source, source_mask):
        x = self.enter(self.tokens(source).masked_fill(~source_mask[..., None], 0))
        for layer in self.read:
            x = x.masked_fill(~source_mask[..., None], 0)
            x = self.convolved(layer, pad(x, (0, 0, 1, 1)), x)
        last = (x.new_zeros(len(x), 2, x.shape[-1]),) * len(self.cross)
        return State(last, tuple(cross.project_context(x) for cross in self.cross), source_mask)

    def advance(self, tokens, state, *, need_weights=False):
        x, last, maps = self.enter(self.tokens(tokens)), [], []
        for layer, cross, before, keys in zip(self.write, self.cross, state.last, state.keys, strict=True):
            x = self.convolved(layer, seen := cat([before, x], dim=1), x)
            context, weights = cross(x, keys, mask=key_mask(state.source_mask), need_weights=need_weights)
            x, last, maps = x + context, [*last, seen[:, -2:]], [*maps, weights]
        return Decoded(x, self.output, cross_weights=tuple(maps)), State(tuple(last), state.keys, state.source_mask)

    def convolved(self, layer, seen, x):  # [b t+2 d] -> [b t d]
        return (x + self.drop(glu(layer(cat([seen[:, :-2], seen[:, 1:-1], seen[:, 2:]], dim=-1)), dim=-1))) * 0.5**0.5


register.preset("convolutional")(Preset("gated convolutions", "Gehring et al. 2017", ConvolutionalConfig))
