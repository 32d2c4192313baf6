"""A model of which each of several processes keeps a part, for models that are too large for one device.

PyTorch's fully sharded data parallel (``torch.distributed.fsdp.fully_shard``) after ZeRO (Rajbhandari et al. 2020,
stage 3). Every weight, its gradient, both moments of the optimizer and the averages are cut along the first axis; of
*n* processes each keeps one n-th. A Transformer block is put together just before it is computed, forward and backward,
and forgotten after it; all other layers are put together once for a step. Gradients are added up as they come.

The first process keeps the whole weights besides, in the host's memory: they are what is validated and written.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from selfattn.errors import UserError
from selfattn.layers import TransformerBlock
from selfattn.models.protocol import Seq2Seq
from selfattn.training.distributed.parallel import HOST, LossOf, Replica
from selfattn.training.distributed.processes import Processes
from selfattn.training.optim.averaging import Average
from selfattn.training.optim.weights import Weights, named_weights, put_into

_TORCH = "2.13"  # the version that this was tested with; before it, FSDP does not look into dataclasses


class Shard(Replica):
    """The model of a training, of which every process has a part.

    Args:
        model: with its first weights, in the host's memory. It stays there, and is the ``whole`` one; in all processes
            but the first it has no weights but while it is validated and when the training is done.
        processes: that train it together, at least two.
        device: where the parts are kept and computed with.

    Raises:
        UserError: there is one process only, or PyTorch is too old.
    """

    def __init__(self, model: Seq2Seq, processes: Processes, device: torch.device) -> None:
        if processes.count == 1:
            raise UserError("sharded: one process has nothing to share out; start several by torchrun or leave it out")
        if torch.__version__ < _TORCH:
            raise UserError(f"sharded: needs torch {_TORCH}, this is {torch.__version__}; update it or leave it out")
        super().__init__(model, processes)
        self.is_needed = True
        self.trained = copy.deepcopy(model)
        self._root = _sharded(self.trained, device, processes.count)
        self._sizes = {name: tensor.untyped_storage().nbytes() for name, tensor in named_weights(model).items()}
        self._hold(False)

    def loss(self, compute: Callable[[Seq2Seq], Tensor], *, is_last: bool = True) -> Tensor:
        """Return a loss of the trained model, computed where weights that do not belong to a block are whole."""
        loss: Tensor = self._root(compute)
        return loss

    @contextmanager
    def shown(self, average: Average) -> Iterator[None]:
        """Put the weights to be validated together in every process, on the device for as long as it takes."""
        weights, own = average.weights() or named_weights(self.trained), self._hold(True)
        for name, whole in _wholes(weights):
            own[name].copy_(whole)
        self.whole.to(self.device)
        try:
            yield
        finally:
            self.whole.to(HOST)
            self._hold(False)

    def _hold(self, whole: bool) -> Weights:
        """Give the whole model room for its weights, or none; the first process always has it."""
        own = named_weights(self.whole)
        for name, tensor in own.items() if not self.processes.is_main else ():
            tensor.untyped_storage().resize_(self._sizes[name] if whole else 0)
        return own

    def gathered(self, tensors: Mapping[str, Tensor]) -> Weights:
        """Return whole tensors in the first process's host memory, and nothing in the others."""
        found: Weights = {}
        for name, whole in _wholes(tensors):
            if self.processes.is_main:
                found[name] = whole.to(HOST)
        return found

    def part(self, tensor: Tensor, like: Tensor | None) -> Tensor:
        """Return this process's part of a tensor, cut as the one that it is like."""
        if not isinstance(like, DTensor) or tensor.shape != like.shape:
            return tensor
        # Every process has all of the tensor: nothing is sent.
        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

    def finish(self, best: Weights | None, *, agreed: bool) -> None:
        """Give the whole model, in every process, its last weights; where not agreed, in the first alone."""
        self._hold(True)
        if best is not None and self.processes.is_main:
            put_into(self.whole, best)
        super().finish(None, agreed=agreed)


def _sharded(model: Seq2Seq, device: torch.device, count: int) -> LossOf:
    """Cut a model's weights in place."""
    # A block's project_memory() gives views, which nobody changes in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device.type, (count,))
    for block in _units(model):
        fully_shard(block, mesh=mesh)
        register_fsdp_forward_method(block, "project_memory")
    root = LossOf(model)
    fully_shard(root, mesh=mesh)
    for module in root.modules():
        if isinstance(module, FSDPModule):  # a sum, not a mean: the loss is divided by the tokens of all processes
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return root


def _units(model: nn.Module) -> list[TransformerBlock]:
    """Return the blocks that share no weight with anything else."""
    uses = _uses(model)
    blocks = [module for module in model.modules() if isinstance(module, TransformerBlock)]
    return [block for block in blocks if all(uses[key] == count for key, count in _uses(block).items())]


def _uses(module: nn.Module) -> Counter[int]:
    return Counter(id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False))


def _wholes(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Put tensors together, one after the other, in the same order in all processes: what is read has any order."""
    for name, tensor in sorted(tensors.items()):
        yield name, tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
