"""One step of the optimizer: losses of batches, gradients, the learning rate, new weights."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from inspect import unwrap

import torch
from torch import Tensor, nn

from selfattn.data.batches import Batch
from selfattn.distributed import Processes
from selfattn.errors import DivergedError, UserError, number_of
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import GlobalStream, seed_for
from selfattn.training.config import ScheduleName, TrainingConfig
from selfattn.training.loss import batch_loss, logits_loss, sampled_logits, teacher_forcing_probability
from selfattn.training.weights import Average, Replica

_NAMED = 20  # examples of a step that a message lists


class Stepper:
    """Holds what every step of a training needs, and computes the loss; :func:`take_steps` takes the steps.

    Dropout draws from PyTorch's global generators. ``chance`` keeps the state of its stream between the batches, so
    that the caller's global state does not change.

    Args:
        replica: of the trained model.
        optimizer: of its parameters.
        config: of the training.
        coins: generator of scheduled sampling, on the CPU: it draws whether an input token is the true one.
    """

    def __init__(
        self, replica: Replica, optimizer: torch.optim.Optimizer, config: TrainingConfig, coins: torch.Generator
    ) -> None:
        self.replica = replica
        self.optimizer = optimizer
        self.config = config
        self.coins = coins
        self.processes = replica.processes
        self.device = replica.device
        self.chance = GlobalStream(replica.device)
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=config.precision == "bfloat16")

    def begin_epoch(self, epoch: int) -> None:
        """Set the random streams to the beginning of an epoch."""
        self.chance.seed(seed_for(self.config.seed, f"dropout/{epoch}"))
        self.coins.manual_seed(seed_for(self.config.seed, f"forcing/{epoch}"))

    def warmup_steps(self, total_steps: int) -> int:
        """Return the number of warm-up steps.

        Args:
            total_steps: of the training.

        Raises:
            UserError: the warm-up is longer than the training.
        """
        steps = self.config.warmup_steps
        if steps is None:
            steps = round(self.config.warmup * total_steps)
        if steps > total_steps:
            raise UserError(
                f"`warmup_steps`: {steps}, but the training has {number_of(total_steps, 'step')}; give fewer"
            )
        return steps

    def describe(self, group: Sequence[Batch]) -> str:
        """Name the examples of a step by their places in the epoch, from 1, and the three largest gradients.

        The size of a gradient is its largest absolute value; NaN counts as infinite.
        """
        places = sorted(place + 1 for batch in group for place in batch.indices)
        shown = ", ".join(map(str, places[:_NAMED])) + (", ..." if len(places) > _NAMED else "")
        sizes = {
            name: float(parameter.grad.abs().nan_to_num(math.inf, math.inf).max())
            for name, parameter in self.replica.model.named_parameters()
            if parameter.grad is not None
        }
        largest = ", ".join(f"{name} {sizes[name]:.2g}" for name in nlargest(3, sizes, key=sizes.__getitem__))
        return f", of examples {shown} of the epoch; largest gradients: {largest}"

    def loss(self, batch: Batch, number: int, total_steps: int, model: Seq2Seq) -> Tensor:
        """Return the loss of a batch in a step, in nats per token.

        Args:
            batch: on the device of the model.
            number: of the step, counted from 1 over all epochs.
            total_steps: of the schedule.
            model: to be trained.
        """
        config = self.config
        if config.r_drop:
            batch = batch.changed(lambda rows: torch.cat([rows, rows]), batch.indices * 2)  # each has its own dropout
        start = config.teacher_forcing
        end = config.teacher_forcing_end
        teacher_forcing = teacher_forcing_probability(start, end, number, total_steps=total_steps)
        with self.autocast:
            if teacher_forcing == 1.0:  # the same loss as below, but never all logits of a large vocabulary at once
                weights = {"r_drop": config.r_drop, "guided": config.guided or 0.0}
                return batch_loss(model, batch, label_smoothing=config.label_smoothing, **weights)
            logits = sampled_logits(model, batch, teacher_forcing=teacher_forcing, generator=self.coins)
        return logits_loss(logits, batch, label_smoothing=config.label_smoothing, r_drop=config.r_drop)


@dataclass(frozen=True)
class StepTaken:
    """What one step of the optimizer did.

    Attributes:
        group: batches of the step.
        loss: in nats per token, before the step.
        tokens: number of target tokens.
        lr: learning rate.
    """

    group: Sequence[Batch]
    loss: float
    tokens: int
    lr: float


def take_steps(
    stepper: Stepper,
    groups: Iterable[Sequence[Batch]],
    *,
    total_steps: int,
    first: int = 1,
    average: Average | None = None,
) -> Iterator[StepTaken]:
    """Take one step for each group of batches. Every training of a :class:`Seq2Seq` goes through this loop.

    The loss of a step is the mean over the target tokens of its batches, so accumulation weighs tokens, not batches.
    Each ``next`` on the iterator takes a step, so the caller decides what happens between two steps, and when the
    training ends.

    Args:
        stepper: takes the steps.
        groups: the batches of each step; a group is drawn just before its step.
        total_steps: of the schedule.
        first: number of the first step; default 1.
        average: of the weights, updated after each step; default none.

    Raises:
        UserError: the loss is not finite, or the warm-up is longer than the training.

    Example:
        >>> from itertools import repeat
        >>> from selfattn.data.batches import collate
        >>> from selfattn.data.pairs import Example
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=9, seed=0)
        >>> batch = collate([Example([5, 6, 2], [7, 2])], 0, 1, [0])
        >>> config = TrainingConfig(lr=1e-2)
        >>> stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())
        >>> losses = [taken.loss for taken in take_steps(stepper, repeat([batch], 5), total_steps=5)]
        >>> losses[-1] < losses[0]
        True
    """
    config = stepper.config
    replica = stepper.replica
    processes = stepper.processes
    warmup_steps = stepper.warmup_steps(total_steps)
    trained = list(replica.model.parameters())
    for number, group in enumerate(groups, first):
        lr = config.lr * lr_factor(config.schedule, number, total_steps=total_steps, warmup_steps=warmup_steps)
        for parameters in stepper.optimizer.param_groups:
            parameters["lr"] = lr
        if processes.count > 1:  # each process draws other numbers, and no checkpoint needs to keep their states
            place = f"{number}/{processes.rank}"
            stepper.chance.seed(seed_for(config.seed, f"dropout/step/{place}"))
            stepper.coins.manual_seed(seed_for(config.seed, f"forcing/step/{place}"))
        tokens = sum(int(batch.target_mask.sum()) for batch in group)
        stepper.optimizer.zero_grad(set_to_none=True)
        losses: list[tuple[Tensor, float]] = []
        for batch in group:
            rows, count = rows_of(batch, processes)
            compute = partial(stepper.loss, rows.to(stepper.device), number, total_steps)
            with stepper.chance.drawing():
                is_last = batch is group[-1]
                loss = compute(replica.model) if processes.count == 1 else replica.loss(compute, is_last=is_last)
                share = count / tokens  # exactly 1 for a single batch in a single process
                (loss * share).backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
            losses.append((loss.detach(), share))
        # All batches are queued before the losses are read: reading waits for the GPU.
        value = processes.sum(sum(loss.item() * share for loss, share in losses))
        if not math.isfinite(value):  # only then is the description of the examples worth its time
            check_finite("loss", value, number, lr, config.precision, stepper.describe(group))
        if config.clip_norm:
            torch.nn.utils.clip_grad_norm_(trained, config.clip_norm)
        stepper.optimizer.step()
        if average is not None:
            average.stepped()
        yield StepTaken(group, value, tokens, lr)


def rows_of(batch: Batch, processes: Processes) -> tuple[Batch, int]:
    """Return a process's rows of a batch, and the number of target tokens that they count for.

    Process ``r`` of ``n`` takes the rows ``r, r + n, ...``. With fewer rows than processes, a process without rows
    reads the first one, which counts for nothing: gradients can only be added up by all processes.
    """
    if processes.count == 1:
        return batch, int(batch.target_mask.sum())
    has_rows = processes.rank < len(batch.indices)
    rows = slice(processes.rank, None, processes.count) if has_rows else slice(1)
    batch = batch.changed(lambda tensor: tensor[rows], batch.indices[rows])
    return batch, int(batch.target_mask.sum()) if has_rows else 0


def check_finite(name: str, value: float, step: int, lr: float, precision: str, details: str = "") -> None:
    """Check that a quantity of a training is finite.

    Args:
        name: of the quantity.
        value: of the quantity.
        step: of the training.
        lr: learning rate of the step.
        precision: of the training.
        details: of the step, for the message.

    Raises:
        DivergedError: the value is NaN or infinite.
    """
    if not math.isfinite(value):
        other = "" if precision == "float32" else ", or train anew in float32"
        raise DivergedError(
            f"training: the {name} became {value} at step {step}{details}; "
            f"lower the learning rate (`lr`, now {lr:g}), with `resume` from the last checkpoint{other}"
        )


class _AdamW(torch.optim.AdamW):
    """AdamW without the decorators whose first call imports torch's compiler, which takes a second."""

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)
    state_dict = unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """Make AdamW (Loshchilov and Hutter 2019) for a model.

    Weight decay applies to matrices, but not to biases, gains of norms and embedding tables. A matrix that is tied to
    an embedding counts as an embedding.

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
    undecayed = [p for p in trained if p.ndim < 2 or id(p) in tables]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    # Fused: one kernel for all parameters takes a fifth of the time of a loop.
    return _AdamW(groups, lr=config.lr, betas=config.betas, fused=True)


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
