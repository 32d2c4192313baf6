"""How a Hugging Face model reads texts: the tensors that its tokenizer makes of them, and tokens for a person."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from selfattn.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def encoded(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, second: str | None = None
) -> tuple[dict[str, Tensor], int | None]:
    """Return what a model reads for a text, or for two sentences, and where the second begins.

    Args:
        model: of transformers.
        tokenizer: of the model.
        text: the text, or the first sentence.
        second: the second sentence; default none.

    Raises:
        UserError: there is no token.
    """
    named = inspect.signature(model.forward).parameters  # what only `**kwargs` takes is not understood
    has_segments = "token_type_ids" in named and getattr(model.config, "type_vocab_size", 0) > 1
    options = {"return_token_type_ids": True} if has_segments else {}
    encoding = tokenizer(text, second, return_tensors="pt", **options)
    tokens = encoding["input_ids"]
    if not tokens.numel():
        raise UserError("the text has no token: give some words")
    inputs = {name: tensor.to(model.device) for name, tensor in encoding.items() if name in named}
    inputs["input_ids"] = tokens.to(model.device)
    start = None
    if second is not None:
        if not tokenizer.is_fast:
            raise UserError("two sentences need a fast tokenizer: load it with AutoTokenizer")
        sentences = encoding.sequence_ids(0)
        start = sentences.index(1) if 1 in sentences else None
        if start is None:
            raise UserError("the second sentence has no token: give some words")
    return inputs, start


def target_tokens(tokenizer: PreTrainedTokenizerBase, target: str, device: torch.device) -> Tensor:
    """Return the tokens ``[1 t]`` of a text that a model writes."""
    tokens: Tensor = tokenizer(text_target=target, return_tensors="pt").input_ids.to(device)
    if not tokens.numel():
        raise UserError("the target has no token: give some words")
    return tokens


def decoder_inputs(model: Any, labels: Tensor) -> Tensor:
    """Return what a decoder reads while it writes the labels ``[1 t]``: a beginning, and all labels but the last.

    Raises:
        UserError: the configuration does not say with which token the decoder begins.
    """
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        shifted: Tensor = model.prepare_decoder_input_ids_from_labels(labels=labels)
        return shifted
    configs = (getattr(model, "generation_config", None), model.config)
    for name in ("decoder_start_token_id", "bos_token_id"):
        for config in configs:
            start = getattr(config, name, None)
            if start is not None:
                return torch.cat([labels.new_full((1, 1), start), labels[:, :-1]], dim=1)
    raise UserError(f"{type(model).__name__}: set model.config.decoder_start_token_id, with which a target begins")


def check_positions(model: PreTrainedModel, count: int, what: str) -> None:
    """Check that a model has a position for each token.

    Raises:
        UserError: there are more tokens than positions.
    """
    if any("rotary" in type(module).__name__.lower() for module in model.modules()):
        return  # positions without a table
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None) or count
    for name, module in model.named_modules():
        is_table = isinstance(module, nn.Embedding) and name.endswith("embeddings.position_embeddings")
        if is_table and module.padding_idx is not None:  # RoBERTa counts from the position after that of the padding
            most = min(most, module.num_embeddings - module.padding_idx - 1)
    if count > most:
        raise UserError(f"the {what} has {count:,} tokens; {type(model).__name__} has positions for {most:,}")


def readable(tokenizer: PreTrainedTokenizerBase, ids: Tensor) -> tuple[str, ...]:
    """Return tokens as a person reads them: a space where a word begins, letters in place of bytes."""
    tokens = []
    for number, token in zip(ids.tolist(), tokenizer.convert_ids_to_tokens(ids.tolist()), strict=True):
        if number in tokenizer.all_special_ids:
            tokens.append(token)
        elif token[:1] in ("Ġ", "▁", "Ċ"):  # byte-level BPE writes bytes as letters; SentencePiece marks a space
            tokens.append(token.replace("▁", " ") if token[0] == "▁" else tokenizer.convert_tokens_to_string([token]))
        else:
            tokens.append(token if token.startswith("##") else tokenizer.convert_tokens_to_string([token]) or token)
    return tuple(tokens)
