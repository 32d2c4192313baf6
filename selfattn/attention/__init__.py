"""The attention core and its layer: everything that is attention, and nothing that is not."""

from selfattn.attention.core import Attended as Attended
from selfattn.attention.core import attend as attend
from selfattn.attention.layer import MultiHeadAttention as MultiHeadAttention
from selfattn.attention.masks import causal_mask as causal_mask
from selfattn.attention.masks import key_mask as key_mask
from selfattn.attention.masks import padding_mask as padding_mask
from selfattn.attention.positions import Alibi as Alibi
from selfattn.attention.positions import AttentionPosition as AttentionPosition
from selfattn.attention.positions import EmbeddingPosition as EmbeddingPosition
from selfattn.attention.positions import Learned as Learned
from selfattn.attention.positions import Position as Position
from selfattn.attention.positions import RelativeBias as RelativeBias
from selfattn.attention.positions import Rotary as Rotary
from selfattn.attention.positions import Sinusoidal as Sinusoidal
from selfattn.attention.projections import KeyValue as KeyValue
from selfattn.attention.scores import Additive as Additive
from selfattn.attention.scores import Concat as Concat
from selfattn.attention.scores import Dot as Dot
from selfattn.attention.scores import General as General
from selfattn.attention.scores import Location as Location
from selfattn.attention.scores import ScaledDot as ScaledDot
from selfattn.attention.scores import Score as Score
from selfattn.attention.scores import dot as dot
from selfattn.attention.scores import make_score as make_score
from selfattn.attention.scores import scaled_dot as scaled_dot
