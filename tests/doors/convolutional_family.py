"""A family of one's own: gated convolutions with attention between them (Gehring et al. 2017, section 3)."""

from dataclasses import dataclass

from torch import Tensor, cat, nn
from torch.nn.functional import glu, pad

from selfattn.attention import MultiHeadAttention, key_mask
from selfattn.models import Decoded, DecoderState, Memory, ModelConfig, Preset, Seq2Seq
from selfattn.registry import register


@register.family("convolutional")
@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    dim: int = 72
    num_layers: int = 2

    def build(self, *, vocab_size, pad_id, source_vocab_size=None):
        return Convolutional(nn.Embedding(vocab_size, self.dim, padding_idx=pad_id), self.dim, range(self.num_layers))


@dataclass(frozen=True)
class State(Memory, DecoderState):
    last: tuple[Tensor, ...]  # two inputs of each layer, [b 2 d]
    keys: tuple
    source_mask: Tensor


class Convolutional(Seq2Seq):
    def __init__(self, tokens, dim, layers):
        super().__init__()
        self.tokens, self.output = tokens, nn.Linear(dim, tokens.num_embeddings)
        self.read, self.write = (nn.ModuleList(nn.Linear(3 * dim, 2 * dim) for _ in layers) for _ in range(2))
        self.cross = nn.ModuleList(MultiHeadAttention(dim, num_heads=1) for _ in layers)

    def encode(self, source, source_mask):
        x = self.tokens(source).masked_fill(~source_mask[..., None], 0)
        for layer in self.read:
            x = (x + convolved(layer, pad(x, (0, 0, 1, 1)))).masked_fill(~source_mask[..., None], 0)
        start = x.new_zeros(len(x), 2, x.shape[-1])
        return State((start,) * len(self.cross), tuple(cross.project_context(x) for cross in self.cross), source_mask)

    def advance(self, tokens, state, *, need_weights=False):
        x, last, maps = self.tokens(tokens), [], []
        for layer, cross, before, keys in zip(self.write, self.cross, state.last, state.keys, strict=True):
            seen = cat([before, x], dim=1)
            x = x + convolved(layer, seen)
            asked, weights = cross(x, keys, mask=key_mask(state.source_mask), need_weights=need_weights)
            x, last, maps = x + asked, [*last, seen[:, -2:]], [*maps, weights]
        return Decoded(x, self.output, cross_weights=tuple(maps)), State(tuple(last), state.keys, state.source_mask)


def convolved(layer, x):
    return glu(layer(cat([x[:, :-2], x[:, 1:-1], x[:, 2:]], dim=-1)), dim=-1)  # [b t+2 d] -> [b t d]


register.preset("convolutional")(Preset("gated convolutions", "Gehring et al. 2017", ConvolutionalConfig))
