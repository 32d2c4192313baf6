"""Our Transformer as CTranslate2's: a model for its engine, which needs neither torch nor this package, and back.

Klein et al. 2020, "The OpenNMT Neural Machine Translation Toolkit: 2020 Edition". What the engine would compute in
another way is refused, with the reason. The package `ctranslate2` is imported when a model is converted.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.convert.plain import check_like
from selfattn.errors import UserError
from selfattn.exports.ctranslate2_engine import Ctranslate2Engine
from selfattn.layers import TransformerBlock
from selfattn.layers.init import without_memory
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.encoder_decoder import EncoderDecoder
from selfattn.models.families import TransformerConfig
from selfattn.models.protocol import Memory, Seq2Seq
from selfattn.tokenizers.protocol import SPECIALS, Tokenizer

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
_HELD = {  # settings of a stack, and the values of them that the engine computes as we do
    "position": ("sinusoidal", "learned"),
    "score": ("scaled_dot",),
    "normalize": ("softmax",),
    "attention": ("softmax",),
    "norm": ("layer",),
    "activation": tuple(_ACTIVATIONS),
    "qk_norm": (False,),
    "num_kv_heads": (None,),
}


def to_ctranslate2(
    model: Seq2Seq,
    config: ModelConfig,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    lengths: tuple[int, int],
    quantize: str | None = None,
) -> None:
    """Write a model for CTranslate2's ``Translator``: ``model.bin``, ``config.json`` and vocabularies of token numbers.

    Tokens are the ids as text, but for the specials, which have their names; a source ends with ``<eos>``.

    Args:
        model: an encoder and a decoder of Transformer blocks.
        config: what it was built from.
        tokenizer: of the model; its specials have the ids 0 to 3.
        folder: where the files go; it is there.
        lengths: most tokens of a source and of a target: for so many the positions are written out, where the model has
            any number.
        quantize: such as ``"int8"``, ``"float16"`` or ``"int8_float32"``; default the weights as they are.

    Raises:
        UserError: the package is missing, or the model has something that the engine does not compute as we do; the
            message says what.
        ValueError: a part of the model was replaced, is pruned or parametrised, or has a hook.
    """
    try:
        from ctranslate2 import specs
    except ImportError:
        raise UserError("ctranslate2: the package is missing; pip install 'selfattn[ctranslate2]'") from None
    encoder, decoder = _stacks(config)
    assert isinstance(model, EncoderDecoder)
    with without_memory():
        fresh = build(config, vocab_size=len(tokenizer), source_vocab_size=len(tokenizer.source))
    check_like(model, fresh, "ctranslate2")

    def options(stack: TransformerConfig) -> dict[str, Any]:
        activation = specs.common_spec.Activation[_ACTIVATIONS[stack.activation]]
        return {"pre_norm": stack.norm_first, "activation": activation}

    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(encoder.num_layers, encoder.num_heads, **options(encoder)),
        specs.TransformerDecoderSpec(decoder.num_layers, decoder.num_heads, **options(decoder)),
    )
    _fill_stack(spec.encoder, spec.encoder.embeddings[0], model.encoder, encoder, lengths[0])
    _fill_stack(spec.decoder, spec.decoder.embeddings, model.decoder, decoder, lengths[1])
    _fill_linear(spec.decoder.projection, [model.decoder.output])
    spec.config.unk_token = SPECIALS[3]
    spec.config.bos_token = SPECIALS[1]
    spec.config.eos_token = SPECIALS[2]
    spec.config.decoder_start_token = SPECIALS[1]
    spec.config.add_source_eos = False
    spec.register_source_vocabulary(token_names(len(tokenizer.source)))
    spec.register_target_vocabulary(token_names(len(tokenizer)))
    spec.validate()
    spec.optimize(quantization=quantize)
    spec.save(str(folder))


def token_names(count: int) -> list[str]:
    """Name the tokens of a vocabulary for the engine.

    Example:
        >>> token_names(6)
        ['<pad>', '<bos>', '<eos>', '<unk>', '4', '5']
    """
    return [*SPECIALS, *map(str, range(len(SPECIALS), count))]


def _stacks(config: ModelConfig) -> tuple[TransformerConfig, TransformerConfig]:
    """Return the settings of both sides, or say what the engine cannot hold."""
    encoder = getattr(config, "encoder", None)
    decoder = getattr(config, "decoder", None)
    if not (isinstance(encoder, TransformerConfig) and isinstance(decoder, TransformerConfig)):
        raise UserError("ctranslate2: holds an encoder and a decoder of Transformer blocks; export this model to onnx")
    for side, (name, values) in itertools.product((encoder, decoder), _HELD.items()):
        if (value := getattr(side, name)) not in values:
            valid = " or ".join(map(str, values))
            raise UserError(f"ctranslate2: {name} {value} is computed in another way (only {valid}); export to onnx")
    if encoder.dim != decoder.dim:
        raise UserError("ctranslate2: encoder and decoder have different widths; export to onnx")
    return encoder, decoder


def _fill_stack(spec: Any, embeddings: Any, part: Any, stack: TransformerConfig, length: int) -> None:
    """Fill the embeddings, positions, blocks and last norm of one side."""
    embeddings.weight = _array(part.embed.tokens.weight)
    spec.scale_embeddings = stack.scale_embedding
    spec.position_encodings.encodings = _array(part.embed.position(torch.arange(stack.most_tokens or length)))
    for layer, block in zip(spec.layer, part.layers, strict=True):
        _fill_block(layer, block)
    if part.norm is not None:
        _fill_norm(spec.layer_norm, part.norm)


def _fill_block(layer: Any, block: TransformerBlock) -> None:
    """Fill norms and products; those of queries, keys and values of one input are one product there."""
    first = block.self_attn
    cross = block.cross_attn
    feed_forward = block.feed_forward
    _fill_norm(layer.self_attention.layer_norm, block.self_attn_norm)
    _fill_norm(layer.ffn.layer_norm, block.feed_forward_norm)
    products: list[list[Any]] = [[first.q_proj, first.k_proj, first.v_proj], [first.out_proj]]
    products += [[feed_forward.fc1], [feed_forward.fc2]]
    specs = [*layer.self_attention.linear, layer.ffn.linear_0, layer.ffn.linear_1]
    if cross is not None and block.cross_attn_norm is not None:
        _fill_norm(layer.attention.layer_norm, block.cross_attn_norm)
        products += [[cross.q_proj], [cross.k_proj, cross.v_proj], [cross.out_proj]]
        specs += layer.attention.linear
    for spec, linears in zip(specs, products, strict=True):
        _fill_linear(spec, linears)


def _fill_linear(spec: Any, layers: Sequence[Any]) -> None:
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _array(norm.weight)
    spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().clone(memory_format=torch.contiguous_format).numpy()  # quantised in place


class Ctranslate2Model(Ctranslate2Engine, Seq2Seq):
    """The engine as a model of torch, with as many threads as torch has when it is loaded.

    Args:
        folder: with ``model.bin``.

    Raises:
        UserError: the package ctranslate2 is missing, or a file is missing or broken.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, torch.get_num_threads())

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Refuse.

        Raises:
            ValueError: always.
        """
        raise ValueError("CTranslate2's engine has no steps and no attention; load the run that was exported")

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Refuse, as :meth:`encode` does."""
        self.encode(source, source_mask)
        return source
