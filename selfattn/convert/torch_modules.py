"""PyTorch's ``nn.MultiheadAttention`` and Transformer layers to our modules and back.

Both sides compute the same and differ in how they are called. PyTorch's masks have the opposite sense (True = hidden).
Its weights come averaged over the heads unless ``average_attn_weights=False``, its inputs are time first unless
``batch_first=True``, and a query that may attend to nothing gives NaN there and 0 here.
"""

import copy
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention, ScaledDot, Softmax
from selfattn.convert.plain import check_class, check_copyable, check_output, check_tensors
from selfattn.layers import Activation, FeedForward, TransformerBlock
from selfattn.layers.transformer import FUNCTIONS, Dropout

M = TypeVar("M", bound=nn.Module)
TorchLayer: TypeAlias = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer

# The parts of a block that are the same modules there: our name to theirs, and the norms in the order of their numbers.
_FEED_FORWARD = {"feed_forward.fc1": "linear1", "feed_forward.fc2": "linear2"}
_ENCODER = _FEED_FORWARD | {"self_attn_norm": "norm1", "feed_forward_norm": "norm2"}
_DECODER = _FEED_FORWARD | {"self_attn_norm": "norm1", "cross_attn_norm": "norm2", "feed_forward_norm": "norm3"}
# What a layer may have as its parts.
_TORCH_PARTS = {"self_attn", "activation", "dropout", "dropout1", "dropout2", *_ENCODER.values()}
_TORCH_DECODER_PARTS = _TORCH_PARTS | {"multihead_attn", "dropout3", *_DECODER.values()}
_ATTENTION_PARTS = {"q_proj", "k_proj", "v_proj", "out_proj", "q_norm", "k_norm", "score", "normalize", "position"}
# Functions, and modules without settings of their own, that are one of our activations.
_ACTIVATIONS: dict[Any, Activation] = {
    **{torch.relu: "relu", F.relu: "relu", F.gelu: "gelu", F.silu: "silu"},
    **{nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu"},
}


def attention_from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Make the layer that computes what ``module`` computes, with a copy of its weights.

    Args:
        module: with or without biases; ``kdim`` and ``vdim`` may differ from ``embed_dim``, not from each other.

    Returns:
        A layer in the same dtype, on the same device, in the same mode (training or evaluation).

    Raises:
        TypeError: ``module`` is of a class derived from ``nn.MultiheadAttention``.
        ValueError: it has no counterpart here: keys and values of different width, ``add_bias_kv``,
            ``add_zero_attn``, or a dropout of 1; or it is pruned or parametrised, has a hook, or its ``forward`` was
            replaced (:func:`~selfattn.convert.plain.check_plain`).

    Example:
        >>> theirs = nn.MultiheadAttention(6, 3, batch_first=True)
        >>> ours = attention_from_torch(theirs)
        >>> x = torch.randn(2, 5, 6)
        >>> torch.allclose(ours(x).output, theirs(x, x, x)[0], atol=1e-6)
        True
    """
    where = "attention_from_torch"
    check_copyable(module, nn.MultiheadAttention, {"out_proj"}, where)
    check_output(module.out_proj, where)
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(f"{where}: add_bias_kv and add_zero_attn have no counterpart: no layer has keys of its own")
    if module.kdim != module.vdim:
        raise ValueError(f"{where}: kdim={module.kdim} and vdim={module.vdim} differ; there is one context here")
    bias = module.in_proj_bias is not None
    joined = {"in_proj_weight"} if module.kdim == module.embed_dim else {f"{part}_proj_weight" for part in "qkv"}
    check_tensors(module, joined | {"in_proj_bias"} if bias else joined, where)
    check_tensors(module.out_proj, {"weight", "bias"} if bias else {"weight"}, f"{where}: out_proj")
    weights: dict[str, nn.Parameter] = {}
    for name, parameter in module.named_parameters():
        if name.startswith("in_proj_"):  # of query, key and value, one below the other
            kind = name.removeprefix("in_proj_")
            for part, rows in zip("qkv", parameter.chunk(3), strict=True):
                weights[f"{part}_proj.{kind}"] = nn.Parameter(rows, parameter.requires_grad)
        else:
            weights[name.replace("_proj_weight", "_proj.weight")] = parameter
    sizes: dict[str, Any] = {"num_heads": module.num_heads, "dropout": module.dropout}
    with torch.device("meta"):
        layer = MultiHeadAttention(module.embed_dim, module.kdim, bias=bias, **sizes)
    return _filled(layer, weights).train(module.training)


def attention_to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Make the ``nn.MultiheadAttention`` that computes what ``layer`` computes, with a copy of its weights.

    Args:
        layer: with projections, as many key-value heads as heads, the scaled dot score, the softmax and no
            positions.

    Returns:
        A module with ``batch_first=True``, in the same dtype, on the same device, in the same mode.

    Raises:
        TypeError: a projection is no linear layer.
        ValueError: the layer has something that PyTorch's has not, or it is pruned, parametrised or has a hook; the
            message says what.

    Example:
        >>> attention_to_torch(MultiHeadAttention(6, num_heads=3)).in_proj_weight.shape
        torch.Size([18, 6])
    """
    where = "attention_to_torch"
    if not layer.project:
        raise ValueError(f"{where}: nn.MultiheadAttention always projects, and this layer has project=False")
    check_copyable(layer, MultiHeadAttention, _ATTENTION_PARTS, where)
    for part in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        check_class(part, nn.Linear, where)
    dim = layer.q_proj.in_features
    what_it_has = {
        f"{layer.num_kv_heads} key-value heads for {layer.num_heads} heads": layer.num_kv_heads != layer.num_heads,
        f"the score {type(layer.score).__name__}": type(layer.score) is not ScaledDot,
        f"the normalizer {type(layer.normalize).__name__}": type(layer.normalize) is not Softmax,
        f"positions ({type(layer.position).__name__})": layer.position is not None,
        "qk_norm=True": layer.q_norm is not None,
    }
    _refuse(where, what_it_has)
    weights = dict(layer.named_parameters())
    context_dim = layer.k_proj.in_features
    has_bias = layer.q_proj.bias is not None
    for kind in ["weight"] * (context_dim == dim) + ["bias"] * has_bias:
        rows: list[Tensor] = [weights.pop(f"{part}_proj.{kind}") for part in "qkv"]
        is_trained = {tensor.requires_grad for tensor in rows}
        _refuse(where, {f"projections of which some are frozen ({kind})": len(is_trained) > 1})
        weights[f"in_proj_{kind}"] = nn.Parameter(torch.cat(rows), is_trained.pop())
    weights = {name if name.startswith(("in_", "out_")) else name.replace(".", "_"): w for name, w in weights.items()}
    sizes: dict[str, Any] = {"kdim": context_dim, "vdim": context_dim, "batch_first": True}
    with torch.device("meta"):
        module = nn.MultiheadAttention(dim, layer.num_heads, layer.dropout, has_bias, **sizes)
    return _filled(module, weights).train(layer.training)


def block_from_torch(layer: TorchLayer) -> TransformerBlock:
    """Make the block that computes what ``layer`` computes, with a copy of its weights.

    Args:
        layer: of an encoder or a decoder; pre- or post-norm, with relu, gelu or silu, with or without biases, any
            epsilon.

    Returns:
        A block, with cross-attention for a decoder's layer, in the same dtype, on the same device, in the same mode.
        Masks have the opposite sense (``mask=key_mask(~src_key_padding_mask)``); inputs are always batch first.
        PyTorch's decoder layer is causal only where it is given a mask that is; here ``causal=True`` says so.

    Raises:
        TypeError: ``layer``, or the attention in it, is of a derived class; a norm is no layer norm.
        ValueError: another activation; two dropouts where a block has one; and what
            :func:`~selfattn.convert.torch_modules.attention_from_torch` raises.

    Example:
        >>> theirs = nn.TransformerEncoderLayer(6, 3, dim_feedforward=11, batch_first=True).eval()
        >>> x = torch.randn(2, 5, 6)
        >>> torch.allclose(block_from_torch(theirs)(x).x, theirs(x), atol=1e-5)
        True
    """
    where = "block_from_torch"
    cross_attn = getattr(layer, "multihead_attn", None)
    if cross_attn is None:
        check_copyable(layer, nn.TransformerEncoderLayer, _TORCH_PARTS, where)
        parts = _ENCODER
    else:
        check_copyable(layer, nn.TransformerDecoderLayer, _TORCH_DECODER_PARTS, where)
        parts = _DECODER
    # Beside each numbered norm there is a dropout of that number.
    beside = [getattr(layer, name.replace("norm", "dropout")) for name in parts.values() if "norm" in name]
    dropouts = {check_class(part, nn.Dropout, f"{where}: dropout").p for part in beside}
    check_class(layer.dropout, nn.Dropout, f"{where}: dropout")
    if len(dropouts) > 1:
        raise ValueError(f"{where}: a block drops outputs of its parts with one probability, got {sorted(dropouts)}")
    dim = layer.linear1.in_features
    ffn_dim = layer.linear1.out_features
    activation = _activation(layer.activation)
    with torch.device("meta"):
        feed_forward = FeedForward(dim, ffn_dim, activation=activation, dropout=layer.dropout.p)
    block = TransformerBlock(
        dim,
        self_attn=attention_from_torch(layer.self_attn),
        cross_attn=None if cross_attn is None else attention_from_torch(cross_attn),
        feed_forward=feed_forward,
        norm_first=layer.norm_first,
        dropout=dropouts.pop(),
    )
    _copy_parts(layer, block, {theirs: ours for ours, theirs in parts.items()}, where)
    return block.train(layer.training)


def block_to_torch(block: TransformerBlock) -> TorchLayer:
    """Make the PyTorch layer that computes what ``block`` computes, with a copy of its weights.

    Args:
        block: layer norms; relu, gelu or silu; plain attention; with cross-attention, a memory of the block's width.

    Returns:
        An ``nn.TransformerDecoderLayer`` where the block has cross-attention, else an ``nn.TransformerEncoderLayer``;
        with ``batch_first=True``, in the same dtype, on the same device, in the same mode.

    Raises:
        ValueError: the block has something that PyTorch's has not; the message says what.

    Example:
        >>> block = TransformerBlock(6, self_attn=MultiHeadAttention(6, num_heads=3), feed_forward=FeedForward(6, 11))
        >>> block_to_torch(block).linear1
        Linear(in_features=6, out_features=11, bias=True)
    """
    where = "block_to_torch"
    feed_forward = block.feed_forward
    check_copyable(block, TransformerBlock, {"self_attn", "cross_attn", "feed_forward", "dropout", *_DECODER}, where)
    check_class(feed_forward, FeedForward, where)
    for dropout in (block.dropout, feed_forward.dropout):
        check_class(dropout, Dropout, f"{where}: dropout")
    attentions = {"self_attn": attention_to_torch(block.self_attn)}
    if block.cross_attn is not None:
        attentions["multihead_attn"] = attention_to_torch(block.cross_attn)
    has_bias = {attention.in_proj_bias is not None for attention in attentions.values()}
    what_it_has = {
        "swiglu": feed_forward.activation == "swiglu",
        "a memory of another width": any(part.kdim != part.embed_dim for part in attentions.values()),
        "biases in some parts only": has_bias != {feed_forward.fc1.bias is not None},
    }
    _refuse(where, what_it_has)
    kind = nn.TransformerEncoderLayer if block.cross_attn is None else nn.TransformerDecoderLayer
    first = attentions["self_attn"]
    ffn_dim = feed_forward.fc1.out_features
    options: dict[str, Any] = {"dropout": block.dropout.p, "activation": FUNCTIONS[feed_forward.activation]}
    options |= {"norm_first": block.norm_first, "batch_first": True}
    with torch.device("meta"):
        layer = kind(first.embed_dim, first.num_heads, ffn_dim, **options)
    for name, attention in attentions.items():
        setattr(layer, name, attention)
    layer.dropout.p = feed_forward.dropout.p
    _copy_parts(block, layer, _ENCODER if block.cross_attn is None else _DECODER, where)
    return layer.train(block.training)


def _refuse(where: str, reasons: Mapping[str, bool]) -> None:
    """Raise a ValueError that names the first thing which is there and which PyTorch's module cannot hold."""
    for part, is_there in reasons.items():
        if is_there:
            raise ValueError(f"{where}: PyTorch's module cannot hold {part}")


def _activation(function: object) -> Activation:
    """Name an activation function or module."""
    is_exact = getattr(function, "approximate", "none") == "none"
    for activation, name in _ACTIVATIONS.items():
        if function is activation or (is_exact and type(function) is activation):
            return name
    raise ValueError(f"the activation {function} has no counterpart; known: relu, gelu, silu")


def _filled(module: M, weights: Mapping[str, nn.Parameter]) -> M:
    """Give a module without values copies of these weights, frozen where they are; no random generator moves."""
    module.load_state_dict({name: tensor.detach().clone() for name, tensor in weights.items()}, assign=True)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(weights[name].requires_grad)
    return module


def _copy_parts(source: nn.Module, target: nn.Module, names: Mapping[str, str], where: str) -> None:
    """Put copies of parts of ``source``, by path, in their places in ``target``: with an epsilon, without a bias."""
    for part, place in names.items():
        kind = type(target.get_submodule(place))
        target.set_submodule(place, copy.deepcopy(check_class(source.get_submodule(part), kind, f"{where}: {part}")))
