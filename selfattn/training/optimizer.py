"""AdamW, and its learning rate as a pure function of the step."""

import math

import torch
from torch import nn

from selfattn.training.config import ScheduleName, TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """Make AdamW (Loshchilov and Hutter 2019) for a model.

    Matrices decay; biases, gains of norms and embedding tables do not. A matrix shared with an embedding counts as the
    embedding.

    Args:
        model: has the parameters.
        config: gives ``lr``, ``betas`` and ``weight_decay``.

    Example:
        >>> optimizer = make_optimizer(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)), TrainingConfig())
        >>> [(group["weight_decay"], len(group["params"])) for group in optimizer.param_groups]
        [(0.01, 1), (0.0, 2)]
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [p for p in trained if p.ndim >= 2 and id(p) not in tables]
    spared = [p for p in trained if p.ndim < 2 or id(p) in tables]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    # Fused: one kernel for all parameters takes a fifth of the time of a loop.
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=True)


def lr_factor(schedule: ScheduleName, step: int, *, total_steps: int, warmup_steps: int) -> float:
    r"""Return the learning rate of a step as a share of the peak.

    With :math:`w` warm-up steps of :math:`n` in all, the factor rises as :math:`k / w` while :math:`k \le w`. After
    that, with :math:`u = (k - w) / (n + 1 - w)`, which is 0 at the peak and would be 1 one step after the last (so no
    step is taken with a rate of zero):

    - ``constant``: 1;
    - ``linear``: :math:`1 - u`;
    - ``cosine``: :math:`(1 + \cos \pi u) / 2` (Loshchilov and Hutter 2017, without restarts);
    - ``inverse_sqrt``: :math:`\sqrt{w / k}` (Vaswani et al. 2017, section 5.3), with :math:`w` at least 1.

    Args:
        schedule: name of the schedule.
        step: ``k``, counted from 1; beyond ``total_steps`` it counts as ``total_steps``.
        total_steps: ``n``, at least 1.
        warmup_steps: ``w``; 0 begins at the peak.

    Example:
        >>> [lr_factor("linear", step, total_steps=5, warmup_steps=2) for step in range(1, 6)]
        [0.5, 1.0, 0.75, 0.5, 0.25]
    """
    step = min(step, total_steps)
    if step <= warmup_steps:
        return step / warmup_steps
    if schedule == "constant":
        return 1.0
    if schedule == "inverse_sqrt":
        return math.sqrt(max(warmup_steps, 1) / step)
    after_peak = (step - warmup_steps) / (total_steps + 1 - warmup_steps)
    return 1.0 - after_peak if schedule == "linear" else (1.0 + math.cos(math.pi * after_peak)) / 2.0
