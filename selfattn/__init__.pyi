from selfattn.attention import Attended as Attended
from selfattn.attention import KeyValue as KeyValue
from selfattn.attention import MultiHeadAttention as MultiHeadAttention
from selfattn.attention import attend as attend
from selfattn.attention import masks as masks
from selfattn.attention import positions as positions
from selfattn.attention import scores as scores
from selfattn.comparison.compare import compare as compare
from selfattn.data.pairs import Pair as Pair
from selfattn.decoding.options import DecodingOptions as DecodingOptions
from selfattn.errors import UserError as UserError
from selfattn.integrations.explorer import explore as explore
from selfattn.integrations.own_weights import explore_weights as explore_weights
from selfattn.integrations.watch import watch as watch
from selfattn.models.build import build as build
from selfattn.plugin_loading import load_plugin as load_plugin
from selfattn.registry import register as register
from selfattn.runs.run import Run as Run
from selfattn.runs.run import load as load
from selfattn.runs.train import train as train

__version__: str
