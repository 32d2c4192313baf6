"""Attention and its gradients twice: by repeating, multiplying and summing alone, and by autograd."""

from __future__ import annotations

import torch
from einops import repeat
from torch import Tensor

from selfattn.attention import attend, scores


def by_hand(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """Compute attention and its gradients by repeating, multiplying and summing alone: [i e], [j e], [j c], [i c]."""
    keys, values = repeat(key, "j e -> i j e", i=len(query)), repeat(value, "j c -> i j c", i=len(query))
    queries, gradients = repeat(query, "i e -> i j e", j=len(key)), repeat(gradient, "i c -> i j c", j=len(key))
    found = {"scores": (queries * keys).sum(-1)}
    powers = (found["scores"] - found["scores"].amax(-1, keepdim=True)).exp()
    weights = found["weights"] = powers / powers.sum(-1, keepdim=True)
    found["output"] = (weights[..., None] * values).sum(1)
    d_weights = found["d_weights"] = (gradients * values).sum(-1)
    found["d_value"] = (weights[..., None] * gradients).sum(0)
    d_scores = found["d_scores"] = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
    found["d_query"] = (d_scores[..., None] * keys).sum(1)
    found["d_key"] = (d_scores[..., None] * queries).sum(0)
    return found


def by_autograd(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """Compute the same by the project's attention and PyTorch's gradients."""
    query, key, value = (one.clone().requires_grad_() for one in (query, key, value))
    attended = attend(query[None, None], key[None, None], value[None, None], score=scores.dot, need_weights=True)
    assert attended.weights is not None
    d_query, d_key, d_value = torch.autograd.grad(attended.output, (query, key, value), gradient[None, None])
    products = query @ key.T
    weights = products.softmax(-1)
    d_scores, d_weights = torch.autograd.grad(weights @ value, (products, weights), gradient)
    found = {"scores": products, "weights": attended.weights[0, 0], "output": attended.output[0, 0]}
    found |= {"d_weights": d_weights, "d_value": d_value, "d_scores": d_scores, "d_query": d_query, "d_key": d_key}
    return {name: tensor.detach() for name, tensor in found.items()}
