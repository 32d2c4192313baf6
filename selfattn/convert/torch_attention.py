"""``torch.nn.MultiheadAttention`` to :class:`~selfattn.attention.MultiHeadAttention` and back.

The two compute the same; they differ in how it is asked for. PyTorch's masks have the opposite sense (True = hidden),
its weights come averaged over the heads unless ``average_attn_weights=False``, its inputs lie time first unless
``batch_first=True``, and a query that may attend to nothing gives NaN there and 0 here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention, ScaledDot
from selfattn.convert.fill import expect_type, filled


def attention_from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Make the layer that computes what ``module`` computes, with a copy of its weights.

    Args:
        module: with or without biases; ``kdim`` and ``vdim`` may differ from ``embed_dim``, not from each other.

    Returns:
        A layer in the same dtype, on the same device, in the same mode (training or evaluation).

    Raises:
        TypeError: ``module`` is of a class derived from ``nn.MultiheadAttention``.
        ValueError: it has no counterpart here: keys and values of different width, ``add_bias_kv``,
            ``add_zero_attn``, or a dropout of 1.

    Example:
        >>> theirs = nn.MultiheadAttention(6, 3, batch_first=True)
        >>> ours = attention_from_torch(theirs)
        >>> x = torch.randn(2, 5, 6)
        >>> torch.allclose(ours(x).output, theirs(x, x, x)[0], atol=1e-6)
        True
    """
    where = "attention_from_torch"
    expect_type(module, nn.MultiheadAttention, where)
    for name, given in (("add_bias_kv", module.bias_k is not None), ("add_zero_attn", module.add_zero_attn)):
        if given:
            raise ValueError(f"{where}: {name}=True has no counterpart: there is no layer with keys of its own")
    if module.kdim != module.vdim:
        raise ValueError(
            f"{where}: kdim={module.kdim} and vdim={module.vdim} differ; keys and values are made of one context here"
        )
    weights: dict[str, Tensor] = {}
    for name, tensor in module.state_dict().items():
        if name.startswith("in_proj_"):  # of query, key and value, one below the other
            kind = name.removeprefix("in_proj_")
            weights |= {f"{part}_proj.{kind}": rows for part, rows in zip("qkv", tensor.chunk(3), strict=True)}
        else:
            weights[name.replace("_proj_weight", "_proj.weight")] = tensor
    ours = filled(
        lambda: MultiHeadAttention(
            module.embed_dim,
            module.kdim,
            num_heads=module.num_heads,
            bias=module.in_proj_bias is not None,
            dropout=module.dropout,
        ),
        weights,
    )
    return ours.train(module.training)


def attention_to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Make the ``nn.MultiheadAttention`` that computes what ``layer`` computes, with a copy of its weights.

    Args:
        layer: with projections, as many key-value heads as heads, the scaled dot score and no positions.

    Returns:
        A module with ``batch_first=True``, in the same dtype, on the same device, in the same mode.

    Raises:
        TypeError: a projection is no linear layer.
        ValueError: the layer has something that PyTorch's has not; the message says what.

    Example:
        >>> attention_to_torch(MultiHeadAttention(6, num_heads=3)).in_proj_weight.shape
        torch.Size([18, 6])
    """
    _check(layer)
    weights = layer.state_dict()
    dim, context_dim = (weights[f"{part}_proj.weight"].shape[1] for part in "qk")
    has_bias = "q_proj.bias" in weights
    for kind in ["weight"] * (context_dim == dim) + ["bias"] * has_bias:
        weights[f"in_proj_{kind}"] = torch.cat([weights.pop(f"{part}_proj.{kind}") for part in "qkv"])
    weights = {name if name.startswith(("in_", "out_")) else name.replace(".", "_"): w for name, w in weights.items()}
    theirs = filled(
        lambda: nn.MultiheadAttention(
            dim,
            layer.num_heads,
            dropout=layer.dropout,
            bias=has_bias,
            kdim=context_dim,
            vdim=context_dim,
            batch_first=True,
        ),
        weights,
    )
    return theirs.train(layer.training)


def _check(layer: MultiHeadAttention) -> None:
    where = "attention_to_torch"
    if not layer.project:
        raise ValueError(f"{where}: nn.MultiheadAttention always projects, and this layer has project=False")
    for part in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        expect_type(part, nn.Linear, where)
    for found, what in (
        (layer.num_kv_heads != layer.num_heads, f"{layer.num_kv_heads} key-value heads for {layer.num_heads} heads"),
        (type(layer.score) is not ScaledDot, f"the score {type(layer.score).__name__}"),
        (layer.position is not None, f"positions ({type(layer.position).__name__})"),
        (layer.q_norm is not None, "qk_norm=True"),
        (
            layer.q_proj.out_features != layer.q_proj.in_features,
            f"heads that are together {layer.q_proj.out_features} wide for a width of {layer.q_proj.in_features}",
        ),
    ):
        if found:
            raise ValueError(f"{where}: nn.MultiheadAttention cannot hold {what}")
