"""Weights that a training leaves as they are, by the part of the model or by a pattern of their names."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from selfattn.errors import SettingError, number_of

EMBEDDINGS = "embeddings"


def freeze(model: nn.Module, parts: Sequence[str]) -> list[str]:
    """Exclude weights from the training: they get no gradient, and the optimizer has none of them.

    A tensor that has several names, such as a table that both sides and the output share, is frozen by each of them.

    Args:
        model: whose parameters stay as they are.
        parts: each ``embeddings`` for all embedding tables, a part of the model such as ``encoder``, or a pattern of
            names such as ``*.fc1.*``.

    Returns:
        A line for each part.

    Raises:
        SettingError: a part matches nothing, or nothing would be left to train.

    Example:
        >>> model = nn.ModuleDict({"encoder": nn.Linear(2, 3), "decoder": nn.Linear(3, 2)})
        >>> freeze(model, ["encoder"])
        ['frozen: encoder, 2 tensors with 9 of 17 numbers']
        >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        ['decoder.weight', 'decoder.bias']
    """
    names = dict(model.named_parameters(remove_duplicate=False))
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    lines = []
    for part in parts:
        chosen = {}
        for name, parameter in names.items():
            is_table = part == EMBEDDINGS and id(parameter) in tables
            if is_table or name.startswith(f"{part}.") or fnmatchcase(name, part):
                chosen[id(parameter)] = parameter
        if not chosen:
            known = ", ".join(dict.fromkeys([EMBEDDINGS, *(name.partition(".")[0] for name in names)]))
            raise SettingError(f"`freeze` {part}: no weights have this name; there are {known}, and patterns of names")
        for parameter in chosen.values():
            parameter.requires_grad_(False)
        numbers = sum(parameter.numel() for parameter in chosen.values())
        tensors = number_of(len(chosen), "tensor")
        lines.append(f"frozen: {part}, {tensors} with {numbers:,} of {total:,} numbers")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise SettingError(f"`freeze` {', '.join(parts)}: nothing is left to train; leave a part out")
    return lines
