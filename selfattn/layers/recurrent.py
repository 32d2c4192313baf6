"""Recurrent stacks: LSTM or GRU, one or several layers, any direction, with residual connections; and trees of tensors.

States are trees: tuples and dataclasses, nested at will, walked by ``torch.utils._pytree``. A dataclass becomes a node
when it is first met, so that those of plugins are nodes, too. What is neither a tuple nor a dataclass is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from selfattn.attention.masks import all_real
from selfattn.layers.transformer import Dropout


def map_leaves(function: Callable[[Any], Any], tree: Any, leaf_types: tuple[type, ...] = ()) -> Any:
    """Return the tree with a function's results in place of its leaves.

    Args:
        function: of one leaf: a tensor, None, a number, or an instance of one of the types.
        tree: of tuples and dataclasses.
        leaf_types: dataclasses that are leaves here; default none.

    Example:
        >>> map_leaves(lambda x: x + 1, (1, (2, 3)))
        (2, (3, 4))
    """
    # Leaves and plain tuples, of which most states are made, are quicker without a description of the tree.
    if type(tree) is tuple:
        return tuple([map_leaves(function, part, leaf_types) for part in tree])
    if tree is None or type(tree) is Tensor:
        return function(tree)
    if isinstance(tree, leaf_types) or _is_leaf(tree):
        return function(tree)
    return pytree.tree_map(function, tree, is_leaf=lambda node: isinstance(node, leaf_types) or _is_leaf(node))


def named_tensors(tree: Any, name: str = "state") -> Iterator[tuple[str, Tensor]]:
    """Iterate over the tensors of a tree, with the names of their places.

    Args:
        tree: of tuples and dataclasses.
        name: prefix of the names.

    Example:
        >>> import torch
        >>> from selfattn.attention import KeyValue
        >>> cache = KeyValue(torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4))
        >>> [name for name, _ in named_tensors((cache, torch.zeros(1)))]
        ['state.0.key', 'state.0.value', 'state.1']
    """
    for path, leaf in pytree.tree_leaves_with_path(tree, is_leaf=_is_leaf):
        if isinstance(leaf, Tensor):
            yield ".".join([name, *map(_key_name, path)]), leaf


def with_tensors(tree: Any, tensors: Iterator[Tensor]) -> Any:
    """Return the tree with other tensors, in the order of :func:`named_tensors`."""
    return map_leaves(lambda leaf: next(tensors) if isinstance(leaf, Tensor) else leaf, tree)


def _key_name(key: Any) -> str:
    return str(key.idx) if isinstance(key, pytree.SequenceKey) else str(key.name)


def _is_leaf(node: Any) -> bool:
    """Register a dataclass that is met for the first time; lists and dicts, which pytree also knows, are leaves."""
    if node is None or isinstance(node, Tensor):
        return True
    kind = type(node)
    if dataclasses.is_dataclass(kind):
        if kind not in pytree.SUPPORTED_NODES:
            pytree.register_dataclass(kind)
        return False
    return not isinstance(node, tuple)


Cell = Literal["lstm", "gru"]
Direction = Literal["forward", "backward", "both"]

_CELLS: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
_DIRECTIONS = {"forward": ("forward",), "backward": ("backward",), "both": ("forward", "backward")}

# For each layer its parts: (h,) or (h, c), each [b hidden]. An LSTM's c may be left out: it then counts as zero.
RecurrentState = tuple[tuple[Tensor, ...], ...]


def reverse_padded(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row within its own length; the padding stays where it is.

    Args:
        x: ``[b t ...]``.
        lengths: int ``[b]``.

    Example:
        >>> reverse_padded(torch.tensor([[1, 2, 3, 0, 0]]), torch.tensor([3])).tolist()
        [[3, 2, 1, 0, 0]]
    """
    position = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths[:, None] - 1 - position
    index = torch.where(mirrored >= 0, mirrored, position)
    return x.gather(1, index.reshape(*index.shape, *[1] * (x.dim() - 2)).expand_as(x))


class RecurrentStack(nn.Module):
    """Layers of LSTM or GRU (Hochreiter and Schmidhuber 1997; Cho et al. 2014).

    Args:
        input_dim: width of the input.
        hidden_dim: width of a layer's state in one direction.
        cell: ``"lstm"`` (default) or ``"gru"``.
        num_layers: default 1.
        direction: ``"forward"`` (default), ``"backward"`` (each row is read from its end: the reversed source of
            Sutskever et al. 2014), or ``"both"`` (outputs joined, width ``2 * hidden_dim``).
        residual: from the second layer on, add a layer's input to its output (Wu et al. 2016, section 3.1).
        dropout: probability of dropping a unit between layers while training; default 0.

    Example:
        >>> stack = RecurrentStack(3, 5, num_layers=2)
        >>> outputs, state = stack(torch.randn(7, 11, 3))
        >>> outputs.shape, len(state), state[0][0].shape
        (torch.Size([7, 11, 5]), 2, torch.Size([7, 5]))
    """

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        *,
        cell: Cell = "lstm",
        num_layers: int = 1,
        direction: Direction = "forward",
        residual: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.cell = cell
        self.hidden_dim = hidden_dim
        self.residual = residual
        self.directions = _DIRECTIONS[direction]
        self.output_dim = hidden_dim * len(self.directions)
        make = _CELLS[cell]
        widths = [input_dim] + [self.output_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(make(width, hidden_dim, batch_first=True) for _ in self.directions) for width in widths
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, state: RecurrentState | None = None) -> tuple[Tensor, RecurrentState]:
        """Go on from a state, without padding: a decoder's use.

        Args:
            x: ``[b t input_dim]``.
            state: for each layer its parts; default zero.

        Returns:
            Outputs ``[b t hidden_dim]`` and the state after the last step.

        Raises:
            ValueError: the stack reads backward: a decoder cannot.
        """
        if self.directions != ("forward",):
            raise ValueError("a stack that reads backward cannot go on from a state; use read()")
        new: list[tuple[Tensor, ...]] = []
        for number, (rnn,) in enumerate(self._layers()):
            source = self.dropout(x) if number else x
            start = None if state is None else state[number]
            if type(rnn) is nn.LSTM and x.shape[1] == 1:  # not what another program has put in its place
                parts = _one_step(rnn, source[:, 0], start)
                outputs = parts[0].unsqueeze(1)
            else:
                outputs, last = _run(rnn, source, None if start is None else self._start(start))
                parts = tuple(part[0] for part in (last if isinstance(last, tuple) else (last,)))
            new.append(parts)
            x = x + outputs if self.residual and number else outputs
        return x, tuple(new)

    def read(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read right-padded rows: an encoder's use. Padding does not influence the result.

        Args:
            x: ``[b s input_dim]``.
            mask: bool ``[b s]``, True for real tokens. A row that has none hands over zeros.

        Returns:
            Outputs ``[b s output_dim]`` in the order of the text, zero at padding, and for each layer its final ``h``
            ``[b output_dim]``: after the last token read, directions joined.
        """
        padding = None if all_real(mask) else ~mask[..., None]
        lengths = mask.sum(dim=1).clamp(min=1)  # an empty row is read as one zero vector, and masked below
        if padding is not None:
            x = x.masked_fill(padding, 0.0)  # forward nothing runs back from there, but gradients of NaN would
        finals: list[Tensor] = []
        last = (lengths - 1)[:, None, None]
        for number, layer in enumerate(self._layers()):
            source = self.dropout(x) if number else x
            sides: list[tuple[Tensor, Tensor]] = []
            for rnn, direction in zip(layer, self.directions, strict=True):
                backward = direction == "backward"
                outputs, _ = _run(rnn, reverse_padded(source, lengths) if backward else source)
                # What comes after a row's last token cannot reach back, so its h is simply read off there.
                h = outputs[:, -1] if padding is None else outputs.gather(1, last.expand(-1, 1, outputs.shape[2]))[:, 0]
                sides.append((reverse_padded(outputs, lengths) if backward else outputs, h))
            joined, final = sides[0]
            if len(sides) > 1:
                joined, final = (torch.cat(parts, dim=-1) for parts in zip(*sides, strict=True))
            finals.append(final if padding is None else final.masked_fill(padding.all(dim=1), 0.0))
            x = x + joined if self.residual and number else joined
        return x if padding is None else x.masked_fill(padding, 0.0), tuple(finals)

    def _layers(self) -> Iterator[list[nn.LSTM | nn.GRU]]:
        """Yield each layer's recurrent networks, one a direction."""
        for layer in self.layers:
            yield list(cast(Any, layer))

    def _start(self, parts: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, Tensor]:
        hidden = parts[0].unsqueeze(0).contiguous()
        if self.cell == "gru":
            return hidden
        return hidden, parts[1].unsqueeze(0).contiguous() if len(parts) > 1 else torch.zeros_like(hidden)


def _one_step(lstm: nn.LSTM, x: Tensor, start: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
    """Read one vector ``[b d]`` by the cell alone: what reads whole texts rearranges its weights at every call."""
    weights = lstm.all_weights[0]
    hidden, *cells = start or (torch.zeros(len(x), lstm.hidden_size, dtype=weights[0].dtype, device=x.device),)
    return torch.lstm_cell(x, (hidden, cells[0] if cells else torch.zeros_like(hidden)), *weights)


def _run(rnn: nn.Module, *args: Any) -> Any:
    """Run a recurrent network; under autocast in float32 where oneDNN has no LSTM in bfloat16 for the processor."""
    if not torch.is_autocast_enabled("cpu") or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return rnn(*args)
    with torch.autocast("cpu", enabled=False):
        return rnn(*map_leaves(lambda leaf: leaf.float() if isinstance(leaf, Tensor) else leaf, args))
