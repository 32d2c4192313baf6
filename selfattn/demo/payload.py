"""What a page needs of a run so that its model can run there: settings, vocabulary and weights."""

from __future__ import annotations

import base64
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from selfattn.errors import UserError
from selfattn.models.config import config_to_dict
from selfattn.models.protocol import Seq2Seq
from selfattn.runs.run import Run
from selfattn.tokenizers.char import CharTokenizer


def payload(run: Run, name: str, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Describe a run as plain JSON values.

    Args:
        run: a trained model.
        name: what the page calls it.
        dtype: of the embedded weights, float32 or float16; default float32.

    Returns:
        Name, ``config``, ``max_length``, the characters of ``source`` and ``target`` and ``weights``; or name and
        ``reason``, the key of a sentence of the page, where the page cannot run it.

    Raises:
        UserError: the run was exported, so its weights cannot be read.
    """
    source, target = run.tokenizer.source, run.tokenizer.target
    if not any(True for _ in run.model.parameters()):
        raise UserError(f"{run.path}: an exported run has no weights for a page; take the run it was exported from")
    about = {"name": name, "task": run.config.task}
    if not run.takes_pairs:
        return about | {"reason": "cannot.lm"}
    if not (isinstance(source, CharTokenizer) and isinstance(target, CharTokenizer)):
        return about | {"reason": "cannot.subwords"}
    return about | {
        "config": config_to_dict(run.config.model),
        "max_length": run.config.max_length,
        "source": source.characters,
        "target": target.characters,
        "weights": embedded_weights(run.model, dtype),
    }


def embedded_weights(model: Seq2Seq, dtype: torch.dtype = torch.float32) -> str:
    """Return the weights of a model as a safetensors file in base64.

    A tensor that has several names is in the file once; the file's metadata says which name stands for which.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["rnn-plain"].config, vocab_size=11, pad_id=0, seed=0)
        >>> len(embedded_weights(model, torch.float16)) < len(embedded_weights(model))
        True
    """
    kept: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, tensor in model.state_dict().items():
        if first.setdefault(tensor.data_ptr(), name) == name:
            kept[name] = tensor.to(dtype).contiguous().cpu()
        else:
            shared[name] = first[tensor.data_ptr()]
    return base64.b64encode(safetensors.torch.save(kept, metadata=shared or None)).decode("ascii")
