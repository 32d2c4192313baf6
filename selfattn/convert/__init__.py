"""Weights from and to other libraries: PyTorch's attention and Transformer modules, ``transformers``' Marian.

Whatever has no counterpart on the other side is an error that says what it is. ``transformers`` is never imported.
"""

from selfattn.convert.marian import Marian as Marian
from selfattn.convert.marian import from_marian as from_marian
from selfattn.convert.marian import load_marian as load_marian
from selfattn.convert.marian import never_write as never_write
from selfattn.convert.marian import save_marian as save_marian
from selfattn.convert.marian import to_marian as to_marian
from selfattn.convert.marian_config import MarianIds as MarianIds
from selfattn.convert.marian_config import config_from_marian as config_from_marian
from selfattn.convert.marian_config import config_to_marian as config_to_marian
from selfattn.convert.torch_modules import attention_from_torch as attention_from_torch
from selfattn.convert.torch_modules import attention_to_torch as attention_to_torch
from selfattn.convert.torch_modules import decoder_layer_from_torch as decoder_layer_from_torch
from selfattn.convert.torch_modules import decoder_layer_to_torch as decoder_layer_to_torch
from selfattn.convert.torch_modules import encoder_layer_from_torch as encoder_layer_from_torch
from selfattn.convert.torch_modules import encoder_layer_to_torch as encoder_layer_to_torch
from selfattn.convert.torch_modules import transformer_from_torch as transformer_from_torch
from selfattn.convert.torch_modules import transformer_to_torch as transformer_to_torch
