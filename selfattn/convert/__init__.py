"""Weights from and to other libraries: PyTorch's attention and Transformer modules, ``transformers``' Marian.

Whatever has no counterpart on the other side is an error that says what it is. ``transformers`` is never imported.
"""

from selfattn.convert.marian import Marian, from_marian, never_write, to_marian
from selfattn.convert.marian_config import MarianIds, config_from_marian, config_to_marian
from selfattn.convert.marian_files import load_marian, save_marian
from selfattn.convert.torch_attention import attention_from_torch, attention_to_torch
from selfattn.convert.torch_layer import (
    decoder_layer_from_torch,
    decoder_layer_to_torch,
    encoder_layer_from_torch,
    encoder_layer_to_torch,
)
from selfattn.convert.torch_transformer import transformer_from_torch, transformer_to_torch

__all__ = [
    "Marian",
    "MarianIds",
    "attention_from_torch",
    "attention_to_torch",
    "config_from_marian",
    "config_to_marian",
    "decoder_layer_from_torch",
    "decoder_layer_to_torch",
    "encoder_layer_from_torch",
    "encoder_layer_to_torch",
    "from_marian",
    "load_marian",
    "never_write",
    "save_marian",
    "to_marian",
    "transformer_from_torch",
    "transformer_to_torch",
]
