"""What the attention layers of Hugging Face models hand over and read: understood, or refused with the reason."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from selfattn.errors import UserError

# Keywords that layers hand over, and why the output does not depend on them.
DESCRIPTIVE = {
    "is_causal": "the mask says what is hidden, as for `eager`",
    "sliding_window": "the mask has the window",
    "position_ids": "the layer has rotated queries and keys already",
    "cache_position": "the layer has updated its cache already",
    "max_length_q": "length of the longest sequence in `cu_seq_lens_q`",
    "max_length_k": "length of the longest sequence in `cu_seq_lens_k`",
    "deterministic": "about backward of flash attention",
    "num_items_in_batch": "the model's loss divides by it",
    "logits_to_keep": "about the model's head",
    "output_hidden_states": "the model collects them",
    "output_router_logits": "the model collects them",
    "return_dict": "about the model's output",
    "use_cache": "about the model's output",
}
# What the eager attention of a model may read of its layer, and why it need not be handed over.
READ = {
    "training": "the layer hands over a `dropout` of 0 in evaluation",
    "num_key_value_groups": "follows from the heads of queries and keys",
    "head_dim": "the width of the queries, for the default of `scaling`",
}


def refuse_unknown(module: nn.Module, others: dict[str, Any], has_sink: bool) -> None:
    """Refuse a layer that hands over a keyword, or whose eager attention reads an attribute, that is not understood.

    Args:
        module: the attention layer.
        others: the keywords that decide nothing here; None and False are not there.
        has_sink: whether the layer hands over its attention sinks.

    Raises:
        UserError: there is such a keyword or attribute; with the names of both.
    """
    for name, value in others.items():
        if name not in DESCRIPTIVE and value is not None and value is not False:
            raise refusal(module, f"hands over `{name}`")
    for name in _unknown_reads(type(module)):
        if not (name == "sinks" and has_sink) and getattr(module, name, None) is not None:
            raise refusal(module, f"reads its `{name}` in its eager attention")


def refusal(module: nn.Module, what: str) -> UserError:
    """Return the error about a layer that does something that is not understood.

    Args:
        module: the attention layer.
        what: that it does, such as ``hands over `cache```.
    """
    number = getattr(module, "layer_idx", None)
    layer = type(module).__name__ + (f" of layer {number}" if isinstance(number, int) else "")
    advice = "not supported by attention implementation 'selfattn'; use 'eager'"
    return UserError(f"{layer} {what}: {advice}")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch has no types for it
def _unknown_reads(layer: type[nn.Module]) -> tuple[str, ...]:
    """Return what the model's own eager attention reads of its layer and is not understood."""
    return tuple(sorted(_eager_reads(layer.forward).difference(READ)))


@cache
def _eager_reads(forward: Callable[..., Any]) -> frozenset[str]:
    """Return the attributes of its layer that the eager attention beside a layer's ``forward`` reads, by its source."""
    forward = inspect.unwrap(forward)
    names = set()
    for name in forward.__code__.co_names:
        eager = forward.__globals__.get(name)
        if "eager" not in name or not inspect.isfunction(eager):
            continue
        function = ast.parse(textwrap.dedent(inspect.getsource(eager))).body[0]
        assert isinstance(function, ast.FunctionDef)
        first = function.args.args[0].arg
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == first:
                names.add(node.attr)
    return frozenset(names)
