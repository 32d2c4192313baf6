"""The attention core: a query meets keys, the scores become a distribution, the distribution averages the values.

Axis letters here and everywhere in the package: ``b`` batch, ``h`` heads, ``i`` query position, ``j`` key position,
``e`` width of a head, ``c`` width of a value, ``d`` model width, ``s`` source length, ``t`` target length,
``v`` vocabulary.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from selfattn.attention.masks import Mask, as_mask, check_broadcasts, kind_of
from selfattn.attention.normalizers import Normalizer, check_normalizer, softmax
from selfattn.attention.scores import Score, check_score, scaled_dot


def _reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Callable[[Tensor, Tensor], Tensor],
    allowed: Tensor | None,
    bias: Tensor | None,
    normalize: Callable[[Tensor], Tensor],
    dropout_p: float,
) -> tuple[Tensor, Tensor]:
    """Attention as its formula: return the outputs ``[b h i c]`` and the weights ``[b h i j]``."""
    scores = score(query, key)  # [b h i e], [b h j e'] -> [b h i j], in float32 at least
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    weights = normalize(scores).to(value.dtype)
    output = F.dropout(weights, dropout_p, training=dropout_p > 0) @ value  # [b h i j] @ [b h j c] -> [b h i c]
    return output, weights


class Attended(NamedTuple):
    """What attention returns.

    Attributes:
        output: weighted sums of the values, ``[b h i c]`` from :func:`attend`, ``[b i d]`` from a layer.
        weights: ``[b h i j]``, the weights of the keys before dropout; None without ``need_weights``.
    """

    output: Tensor
    weights: Tensor | None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score = scaled_dot,
    normalize: Normalizer = softmax,
    mask: Tensor | Mask | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    r"""Return ``normalize(score(query, key) + bias, over the allowed keys) @ value``, by default with the softmax.

    .. math:: o_i = \sum_j a_{ij} v_j, \qquad a_{ij} = \frac{\exp s(q_i, k_j)}{\sum_{j'} \exp s(q_i, k_{j'})}

    With the scaled dot score this is equation (1) of Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1;
    with the additive score it is section 3.1 of Bahdanau et al. 2015; with dot, general, concat and location it is
    section 3.1 of Luong et al. 2015. Other ways from scores to weights are in
    :mod:`selfattn.attention.normalizers`.

    Two paths compute the same function. Scores that are a dot product of (projected) vectors go through
    ``torch.nn.functional.scaled_dot_product_attention``, the fused path. The reference path is the formula above
    written out. It serves other scores, normalizers that a softmax kernel cannot compute (such as sparsemax), and
    every call with ``need_weights=True``.

    A query that may attend to nothing gets output 0 and weights 0. Such a query is not read, nor is a key that no
    query may see: NaN there changes nothing, forward or backward. A key that only some queries may see does not change
    the others by a bit, as long as its products are finite in the dtype. These are its scores, and in the backward pass
    the products of its value with the output's gradient. In float32, values up to 1e30 keep them finite.
    Normalizers run in float32 or wider. NaN in a bias reaches the outputs of the queries that it is added to.

    Both paths have first derivatives. Forward-mode differentiation and ``torch.func`` always take the reference path.
    The fused path has no second derivatives in reverse mode (``create_graph=True``), and raises an error there. For
    those, compute the output under ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`` or with ``need_weights=True``.

    Args:
        query: ``[b h i e]``.
        key: ``[b g j e']``, where ``g`` divides ``h``: each key-value head serves ``h / g`` query heads
            (``g = h`` is the ordinary case, ``g = 1`` multi-query attention).
        value: ``[b g j c]``.
        score: how a query is compared with a key; default scaled dot product.
        normalize: how the scores of a query become weights, such as :data:`~selfattn.attention.sparsemax`; default
            the softmax.
        mask: bool, broadcastable to ``[b h i j]``; True = may attend. Default: nothing is hidden. Models pass a
            :class:`~selfattn.attention.masks.Mask`.
        bias: added to the scores, floating point, broadcastable to ``[b h i j]``; default none. It must be finite: hide
            keys by the mask, not by a bias of minus infinity.
        causal: also hide the future, right-aligned: query ``i`` sees keys ``j <= i + (len(j) - len(i))``, so that
            with fewer queries than keys (a cache) the last query sees every key.
        dropout_p: probability of dropping a weight, in ``[0, 1)``; default 0. It always applies: pass 0 in evaluation.
        need_weights: also return the weights; default False.

    Returns:
        :class:`Attended` with output ``[b h i c]`` and weights ``[b h i j]`` or None.

    Raises:
        ValueError: query, key or value is not 4-dimensional; batch sizes or key lengths differ; the key-value heads
            do not divide the query heads; mask or bias does not broadcast to ``[b h i j]``; score or normalizer gives
            another shape than ``[b h i j]``; ``dropout_p`` is outside ``[0, 1)``.
        TypeError: query, key or value is no dense floating point tensor of at least 16 bits; their dtypes differ
            outside autocast; the score is no :class:`~selfattn.attention.scores.Score`; ``normalize`` is no
            :class:`~selfattn.attention.normalizers.Normalizer`; the mask is not bool; the bias is not floating point.

    Example:
        Scores ln 1 and ln 3 give weights 1/4 and 3/4:

        >>> import math, torch
        >>> from selfattn.attention import attend, dot
        >>> query = torch.ones(1, 1, 1, 1)
        >>> key = torch.tensor([0.0, math.log(3)]).reshape(1, 1, 2, 1)
        >>> value = torch.tensor([4.0, 8.0]).reshape(1, 1, 2, 1)
        >>> output, weights = attend(query, key, value, score=dot, need_weights=True)
        >>> round(output.item(), 4), [round(w, 4) for w in weights.flatten().tolist()]
        (7.0, [0.25, 0.75])
    """
    check_score(score, "attend")
    check_normalizer(normalize, "attend")
    check_vectors(query, key, value, score)
    sizes = (*query.shape[:3], key.shape[2])
    if bias is not None:
        check_bias(bias, sizes)
    if not isinstance(dropout_p, float | int) or not 0.0 <= dropout_p < 1.0:
        raise ValueError(f"attend: dropout_p must be a number in [0, 1), got {dropout_p!r}")
    return attend_checked(
        query,
        key,
        value,
        score=score,
        normalize=normalize,
        mask=as_mask(mask, causal, sizes),
        bias=bias,
        dropout_p=dropout_p,
        need_weights=need_weights,
    )


def attend_checked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score,
    normalize: Normalizer,
    mask: Mask,
    bias: Tensor | None,
    dropout_p: float,
    need_weights: bool,
) -> Attended:
    """Compute :func:`attend` of arguments that are known to be right: a layer has checked its own once."""
    query, key, value, mask, bias, sees_nothing = _guard(query, key, value, mask, bias, normalize)
    weights: Tensor | None = None
    output = None if need_weights else _fused(query, key, value, score, normalize, mask, bias, dropout_p)
    if output is None:  # the weights are needed, or the kernel does not apply
        output, weights = _reference(
            query,
            *for_heads(query, key, value),
            score=partial(_scores, score),
            allowed=mask.for_sizes(query.shape[2], key.shape[2], query.device).allowed,
            bias=bias,
            # The softmax itself gives hidden keys a weight of 0.
            normalize=normalize if normalize.zero_keys == 0 else partial(_weights, normalize),
            dropout_p=dropout_p,
        )
    if sees_nothing is not None:
        output = output.masked_fill(sees_nothing, 0)
        if weights is not None:
            weights = weights.masked_fill(sees_nothing, 0)
    if not need_weights:
        weights = None
    return Attended(output, weights)


def _guard(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: Tensor | None, normalize: Normalizer
) -> tuple[Tensor, Tensor, Tensor, Mask, Tensor | None, Tensor | None]:
    """Settle mask and bias, and zero what is hidden, so that NaN there cannot spread.

    A query that may see no key gets all keys here and a zero output at the end, so that no weights are computed over
    an empty set.

    Returns:
        Query, key, value, mask and bias; and which queries may see no key: bool, broadcastable to ``[b h i 1]``, or
        None if every query is known to see one.
    """
    i = query.shape[2]
    j = key.shape[2]
    if bias is not None:
        bias = bias[(None,) * (4 - bias.dim())]  # the kernels want all four axes
    if mask.allowed is not None or i > j:  # causality alone leaves a query without keys only where i > j
        mask = mask.for_sizes(i, j, query.device)
    sees_nothing: Tensor | None = None
    if mask.allowed is not None and mask.additive is None:  # an additive mask promises that nothing needs a guard
        sees_nothing = ~mask.allowed.any(dim=-1, keepdim=True)
        unseen = ~mask.allowed.any(dim=-2, keepdim=True).transpose(-2, -1)
        key, value = for_heads(query, key, value)  # a mask may differ between the heads that share a key
        query = query.masked_fill(sees_nothing, 0)
        key = key.masked_fill(unseen, 0)
        value = value.masked_fill(unseen, 0)
        mask = Mask(mask.allowed | sees_nothing)
    can_shift = query.dtype == torch.float16 and normalize.zero_keys == 0  # a zero key would not shift along
    if bias is not None and can_shift and bias.dtype != torch.float16 and j > 0:
        bias = _within_float16(bias, mask.for_sizes(i, j, query.device).allowed)
    return query, key, value, mask, bias, sees_nothing


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Score,
    normalize: Normalizer,
    mask: Mask,
    bias: Tensor | None,
    dropout_p: float,
) -> Tensor | None:
    """Compute the outputs ``[b h i c]`` with PyTorch's kernel, or return None where it does not apply or is slow."""
    zero_keys = normalize.zero_keys
    if zero_keys is None or (zero_keys and bias is not None) or _needs_reference(query):
        return None
    # Without gradients the CPU's kernel reads shared key-value heads in place, with the bits of repeated ones.
    grouped = key.shape[1] != query.shape[1] and query.device.type == "cpu" and not torch.is_grad_enabled()
    if not grouped:
        key, value = for_heads(query, key, value)
    as_dot = score.as_dot(query, key)
    if as_dot is None:
        return None
    if as_dot[0] is not query or as_dot[1] is not key:
        sizes = [*as_dot[0].shape[:3], *as_dot[1].shape[:3]]
        expected = [*query.shape[:3], *key.shape[:3]]
        _check_sizes(score, "as_dot", "queries [b h i ..] and keys [b h j ..]", sizes, expected)
    query, key, scale = as_dot
    i = query.shape[2]
    j = key.shape[2]
    # The kernel's causal mask is left-aligned. With as many keys as queries that is the same as right-aligned.
    is_causal = False
    if mask.causal and bias is None and i == j and not zero_keys:
        is_causal = True
    else:
        mask = mask.for_sizes(i, j, query.device)
    if bias is not None:
        attn_mask: Tensor | None = _biased(bias, mask.allowed, query.dtype)
    elif mask.additive is not None:
        attn_mask = mask.additive.to(query.dtype)
    else:
        attn_mask = mask.allowed
    if zero_keys:
        key, value, attn_mask = _with_zeros(zero_keys, key, value, attn_mask)
    output: Tensor = F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal=is_causal, scale=scale, enable_gqa=grouped
    )
    _explain_second_derivatives(output)
    return output


def _with_zeros(
    zero_keys: int, key: Tensor, value: Tensor, attn_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Add keys of score 0 and value 0, which every query may see."""
    if attn_mask is not None:
        full = attn_mask.expand(*attn_mask.shape[:-1], key.shape[2])
        attn_mask = F.pad(full, (0, zero_keys), value=attn_mask.dtype == torch.bool)  # True or a bias of 0: may see
    return F.pad(key, (0, 0, 0, zero_keys)), F.pad(value, (0, 0, 0, zero_keys)), attn_mask


def for_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat keys and values for the query heads that share them: ``[b g j e]`` to ``[b h j e]``."""
    groups = query.shape[1] // key.shape[1]
    if groups == 1:
        return key, value
    return key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)


def _scores(score: Score, query: Tensor, key: Tensor) -> Tensor:
    """Compare every query with every key, ``[b h i j]`` in float32 at least."""
    scores = score(query, key)
    _check_sizes(score, "forward", "scores [b h i j]", [*scores.shape], [*query.shape[:3], key.shape[2]])
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _weights(normalize: Normalizer, scores: Tensor) -> Tensor:
    """Turn scores into weights ``[b h i j]``, 0 for hidden keys."""
    weights = normalize(scores)
    if weights.shape != scores.shape:
        sizes = f"{[*scores.shape]}, got {[*weights.shape]}"
        raise ValueError(f"attend: expected {type(normalize).__name__}.forward to return weights [b h i j] {sizes}")
    return weights.masked_fill(scores == -torch.inf, 0)


def _within_float16(bias: Tensor, allowed: Tensor | None) -> Tensor:
    """Shift each row of a bias so that its largest allowed entry is 0, for float16: no softmax changes.

    Entries below the range of float16 are cut off there; their weights are 0 either way.
    """
    top = bias if allowed is None else torch.where(allowed, bias, -torch.inf)
    return (bias - top.amax(dim=-1, keepdim=True)).clamp(torch.finfo(torch.float16).min, 0)


def _biased(bias: Tensor, allowed: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Join bias and mask into one tensor, which the fused kernel adds to the scores."""
    bias = bias.to(dtype)
    return bias if allowed is None else torch.where(allowed, bias, bias.new_full((), -torch.inf))


def is_transformed() -> bool:
    """Say whether ``torch.func`` or forward-mode differentiation is active; the fused kernels support neither.

    Example:
        >>> is_transformed(), torch.func.vmap(lambda x: x + is_transformed())(torch.zeros(2))
        (False, tensor([1., 1.]))
    """
    if torch.compiler.is_compiling():
        return False
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


def _explain_second_derivatives(output: Tensor) -> None:
    """Make a second derivative through the fused kernel raise an error that names the ways to compute it.

    Only the backward pass shows whether a second derivative is needed, and then it is too late for the other path.
    """
    if not output.requires_grad or torch.compiler.is_compiling():
        return
    node = output.grad_fn
    if node is not None and node.name().startswith("ScaledDotProduct"):
        node.register_hook(_with_explanation)


def _with_explanation(gradients: tuple[Tensor | None, ...], _: object) -> tuple[Tensor | None, ...] | None:
    """Wrap the gradients of the kernel, where they may be differentiated again."""
    if not torch.is_grad_enabled():
        return None
    apply = _NoSecondDerivative.apply
    return tuple(None if x is None else apply(x) for x in gradients)  # type: ignore[no-untyped-call]  # has no types


class _NoSecondDerivative(torch.autograd.Function):
    """Passes a gradient on; its own backward pass raises the error."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        ways = "under torch.nn.attention.sdpa_kernel(SDPBackend.MATH), with need_weights=True, or with torch.func"
        raise RuntimeError(f"attend: the fused kernel has no second derivative; compute the output {ways}")


def _needs_reference(query: Tensor) -> bool:
    """Say whether the fused kernel fails or is slow, so that the reference path is to be taken.

    Under ``torch.func`` the kernel has no batching rule, and no gradient of a bias. In bfloat16 on a CPU its backward
    pass takes 18 times as long as two products and a softmax (``python -m benchmarks --only attention``).
    """
    if is_transformed():
        return True
    if query.device.type != "cpu" or not torch.is_grad_enabled():
        return False
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return autocast or query.dtype == torch.bfloat16


def _check_sizes(score: Score, method: str, axes: str, sizes: list[int], expected: list[int]) -> None:
    """Check the sizes that a score returns: broadcasting would hide a missing or swapped axis."""
    if sizes != expected:
        name = f"{type(score).__name__}.{method}"
        raise ValueError(f"attend: expected {name} to return {axes} of sizes {expected}, got {sizes}")


def check_vectors(query: Tensor, key: Tensor, value: Tensor, score: Score) -> None:
    """Check the tensors that attention is computed from; :func:`attend` says which errors it raises."""
    for name, tensor, axes in (("query", query, "b h i e"), ("key", key, "b h j e"), ("value", value, "b h j c")):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            raise TypeError(f"attend: expected {name} as a floating point tensor [{axes}], got {kind_of(tensor)}")
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.itemsize < 2:
            got = "a nested one; pad it" if tensor.is_nested else f"{tensor.layout} of {tensor.dtype}"
            raise TypeError(f"attend: expected {name} as a dense tensor of at least 16-bit numbers, got {got}")
        if tensor.dim() != 4:
            raise ValueError(f"attend: expected {name} [{axes}], got {tensor.dim()} axes {tuple(tensor.shape)}")
    if not (query.shape[3] and key.shape[3]):
        raise ValueError(f"attend: expected heads at least 1 wide, got query {query.shape[3]} and key {key.shape[3]}")
    if score.equal_widths and query.shape[3] != key.shape[3]:
        widths = f"{query.shape[3]} and key width {key.shape[3]}"
        raise ValueError(f"attend: {type(score).__name__}: query width {widths} differ; use general or additive")
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        sizes = tuple(query.shape), tuple(key.shape), tuple(value.shape)
        raise ValueError(f"attend: batch sizes, heads or lengths of query, key and value do not fit: {sizes}")
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise ValueError(f"attend: {key.shape[1]} key-value heads do not divide {query.shape[1]} query heads")
    dtypes = query.dtype, key.dtype, value.dtype
    if len(set(dtypes)) > 1 and not torch.is_autocast_enabled(query.device.type):
        raise TypeError(f"attend: expected query, key and value of one dtype, got {dtypes}")


def check_bias(bias: object, sizes: tuple[int, int, int, int]) -> None:
    """Check a bias that a caller adds to scores ``[b h i j]`` of these sizes.

    Raises:
        ValueError: it does not broadcast to ``[b h i j]``.
        TypeError: it is no floating point tensor.
    """
    if not isinstance(bias, Tensor) or not bias.is_floating_point():
        kind = kind_of(bias)
        raise TypeError(f"attend: expected bias as a floating point tensor, got {kind}; keys are hidden by the mask")
    check_broadcasts("bias", bias, sizes)
