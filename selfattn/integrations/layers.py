"""The attention layers of a Hugging Face model: what they attend to, in which tower, and their number."""

import inspect
import re
import sys
from itertools import takewhile
from typing import Any

from torch import nn

from selfattn.integrations.passages import Kind, Layer

_CROSS = re.compile(r"cross|encoder_attn|encoder_attention|encdec|x_attn", re.IGNORECASE)


def attention_layers(model: nn.Module) -> dict[nn.Module, Layer]:
    """Return the layers that hand queries and keys to an attention implementation, in the model's order.

    Args:
        model: of transformers.

    Example:
        >>> from transformers import CLIPConfig, CLIPModel
        >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
        >>> model = CLIPModel(CLIPConfig(text_config=sizes | {"vocab_size": 5}, vision_config=sizes))
        >>> [(layer.tower, layer.kind, layer.number) for layer in attention_layers(model).values()]
        [('text_model', 'encoder', 0), ('vision_model', 'encoder', 0)]
    """
    modules = {name: module for name, module in model.named_modules() if _has_interface(module)}
    reads = {name: part.main_input_name for name, part in model.named_modules() if hasattr(part, "main_input_name")}
    kinds = {name: _kind(name, module, _innermost(reads, name)) for name, module in modules.items()}
    layers = {}
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name in modules if kinds[name] == kind]
        towers = _towers(names)
        for tower in dict.fromkeys(towers.values()):
            members = [name for name in names if towers[name] == tower]
            numbers = _numbers(members, [modules[name] for name in members])
            for name, number in zip(members, numbers, strict=True):
                layers[name] = Layer(name, kind, tower, number)
    return {module: layers[name] for name, module in modules.items()}


def _has_interface(module: nn.Module) -> bool:
    """Whether the module asks transformers for its attention implementation."""
    code: Any = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _innermost(reads: dict[str, str], name: str) -> str:
    """Return the main input of the innermost model that a layer is part of."""
    parts = [part for part in reads if not part or name.startswith(f"{part}.")]
    return reads[max(parts, key=len)] if parts else ""


def _kind(name: str, module: nn.Module, main_input: str) -> Kind:
    """Say what a layer attends to: by what it says, by its name within its block, and by the masks of its family."""
    parts = name.split(".")
    numbered = [n for n, part in enumerate(parts) if part.isdigit()]
    in_block = ".".join(parts[numbered[-1] + 1 :] if numbered else parts[-2:])
    says: Any = getattr(module, "is_cross_attention", None)
    if says is True or _CROSS.search(in_block) or "Cross" in type(module).__name__:
        return "cross"
    if getattr(module, "is_causal", False) or any(part.endswith("decoder") for part in parts):
        return "decoder"
    if not hasattr(module, "is_causal") and main_input == "input_ids":
        family = vars(sys.modules[type(module).__module__])
        if "create_causal_mask" in family and "create_bidirectional_mask" not in family:
            return "decoder"
    return "encoder"


def _towers(names: list[str]) -> dict[str, str]:
    """Name the tower of each layer by where the path to its list of layers differs from the others; empty for one."""
    paths = {}
    for name in names:
        parts = name.split(".")
        path = tuple(takewhile(lambda part: not part.isdigit(), parts))
        paths[name] = path if len(path) < len(parts) else path[:-1]  # a layer that is in no list
    lists = set(paths.values())
    shared = sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*lists, strict=False)))
    return {name: ".".join(path[shared : _end(path, lists)]) if len(lists) > 1 else "" for name, path in paths.items()}


def _end(path: tuple[str, ...], lists: set[tuple[str, ...]]) -> int:
    """Return how many components of a path tell it apart from all others."""
    ends = (end for end in range(1, len(path)) if sum(other[:end] == path[:end] for other in lists) == 1)
    return next(ends, len(path))


def _numbers(names: list[str], modules: list[nn.Module]) -> list[int]:
    """Return the model's own numbers of the layers of one tower, or a count where these do not tell them apart."""
    first = [next((int(part) for part in name.split(".") if part.isdigit()), None) for name in names]
    index: list[Any] = [getattr(module, "layer_idx", None) for module in modules]
    for numbers in (first, index):
        if all(isinstance(number, int) for number in numbers) and len(set(numbers)) == len(numbers):
            return [number for number in numbers if number is not None]
    return list(range(len(names)))
