"""``torch.nn.Transformer`` to an encoder-decoder and back.

``nn.Transformer`` begins with vectors and ends with vectors: the embeddings before it and the output layer behind it
are whoever's who uses it. A model here has both, so they are handed over.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from selfattn.convert.fill import copied_norm, expect_type
from selfattn.convert.torch_layer import (
    decoder_layer_from_torch,
    decoder_layer_to_torch,
    encoder_layer_from_torch,
    encoder_layer_to_torch,
)
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.models.encoder_decoder.model import EncoderDecoder
from selfattn.models.encoder_decoder.transformer import TransformerDecoder, TransformerEncoder


def transformer_from_torch(
    module: nn.Transformer, *, source: TokenEmbedding, target: TokenEmbedding, output: nn.Linear
) -> EncoderDecoder:
    """Make the model that computes what ``module`` computes between its embeddings and its output layer.

    Args:
        module: its weights are copied.
        source: embeds source tokens; becomes a part of the model as it is, and may be ``target``.
        target: embeds target tokens; likewise.
        output: maps vectors to logits; likewise.

    Returns:
        The model, in the mode of ``module``. Its target is always causal, as ``module``'s is with
        ``tgt_mask=generate_square_subsequent_mask(t)``; ``source_mask`` is the reverse of both
        ``src_key_padding_mask`` and ``memory_key_padding_mask``.

    Raises:
        TypeError: ``module`` or a part of it is of a derived class.
        ValueError: an embedding or the output layer has another width than ``module``; and what
            :func:`~selfattn.convert.torch_layer.decoder_layer_from_torch` raises.

    Example:
        >>> theirs = nn.Transformer(6, 2, 1, 1, dim_feedforward=11, batch_first=True).eval()
        >>> tokens, output = nn.Embedding(13, 6), nn.Linear(6, 13)
        >>> embed = TokenEmbedding(tokens)
        >>> ours = transformer_from_torch(theirs, source=embed, target=embed, output=output)
        >>> ids, start = torch.tensor([[5, 7]]), torch.tensor([[1]])
        >>> logits = ours(ids, start, source_mask=torch.ones(1, 2, dtype=torch.bool))
        >>> torch.allclose(logits, output(theirs(tokens(ids), tokens(start))), atol=1e-5)
        True
    """
    where = "transformer_from_torch"
    expect_type(module, nn.Transformer, where)
    encoder = expect_type(module.encoder, nn.TransformerEncoder, f"{where}: encoder")
    decoder = expect_type(module.decoder, nn.TransformerDecoder, f"{where}: decoder")
    for name, width in (
        ("source", source.tokens.embedding_dim),
        ("target", target.tokens.embedding_dim),
        ("output", output.in_features),
    ):
        if width != module.d_model:
            raise ValueError(f"{where}: {name} has width {width}, but d_model is {module.d_model}")
    encoder_layers = [encoder_layer_from_torch(layer) for layer in encoder.layers]
    decoder_layers = [decoder_layer_from_torch(layer) for layer in decoder.layers]
    encoder_norm = copied_norm(encoder.norm, f"{where}: encoder.norm")
    decoder_norm = copied_norm(decoder.norm, f"{where}: decoder.norm")
    model = EncoderDecoder(
        TransformerEncoder(source, encoder_layers, norm=encoder_norm),
        TransformerDecoder(target, decoder_layers, output, norm=decoder_norm),
    )
    return model.train(module.training)


def transformer_to_torch(model: EncoderDecoder) -> nn.Transformer:
    """Make the ``nn.Transformer`` that computes what ``model`` computes between its embeddings and its output layer.

    Those stay where they are: ``model.encoder.embed``, ``model.decoder.embed`` and ``model.decoder.output``.

    Args:
        model: a Transformer encoder and decoder of one width, of blocks that PyTorch has too; its weights are copied.

    Returns:
        A module with ``batch_first=True``, in the same dtype, on the same device, in the same mode. Its two stacks
        have a last norm where the model has one.

    Raises:
        ValueError: the model has something that PyTorch's has not; the message says what.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=13, pad_id=0, seed=0)
        >>> transformer_to_torch(model).d_model
        96
    """
    where = "transformer_to_torch"
    encoder, decoder = model.encoder, model.decoder
    if not isinstance(encoder, TransformerEncoder) or not isinstance(decoder, TransformerDecoder):
        raise ValueError(
            f"{where}: expected a Transformer encoder and decoder, "
            f"got {type(encoder).__name__} and {type(decoder).__name__}"
        )
    if decoder.window is not None:
        raise ValueError(f"{where}: nn.Transformer has no sliding window, and this decoder has one of {decoder.window}")
    encoder_layers = [encoder_layer_to_torch(block) for block in _blocks(encoder)]
    decoder_layers = [decoder_layer_to_torch(block) for block in _blocks(decoder)]
    dim, num_heads = decoder_layers[0].self_attn.embed_dim, decoder_layers[0].self_attn.num_heads
    # The constructor draws first values for whatever it is given, so it is given empty stacks on no device at all.
    with torch.device("meta"):
        theirs = nn.Transformer(
            dim,
            num_heads,
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(dim, num_heads, 1, batch_first=True), 1, enable_nested_tensor=False
            ),
            custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(dim, num_heads, 1, batch_first=True), 1),
            batch_first=True,
        )
    for stack, layers, norm, name in (
        (theirs.encoder, encoder_layers, encoder.norm, "encoder.norm"),
        (theirs.decoder, decoder_layers, decoder.norm, "decoder.norm"),
    ):
        stack.layers, stack.num_layers = nn.ModuleList(layers), len(layers)
        stack.norm = copied_norm(norm, f"{where}: {name}")
    return theirs.train(model.training)


def _blocks(stack: TransformerEncoder | TransformerDecoder) -> Sequence[TransformerBlock]:
    return [block for block in stack.layers if isinstance(block, TransformerBlock)]
