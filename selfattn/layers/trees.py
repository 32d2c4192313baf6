"""Trees of tensors: tuples and dataclasses, nested at will, walked by ``torch.utils._pytree``.

A dataclass becomes a node when it is first met, so that those of plugins are nodes, too. What is neither a tuple nor a
dataclass is a leaf.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree


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
