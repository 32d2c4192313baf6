"""What a Marian configuration and its weights say beside what is converted: understood, or refused by name."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from selfattn.errors import UserError

# What can have one value only, because another has no counterpart here, such as layers dropped as a whole.
_FIXED = {"model_type": "marian", "is_encoder_decoder": True, "is_decoder": False, "static_position_embeddings": True}
_FIXED |= {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False}
_FIXED |= {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "add_bias_logits": False, "tie_encoder_decoder": False}
_FIXED |= {"architectures": ["MarianMTModel"]}
# Further names of a setting, which must say the same.
_ALIASES = {"hidden_size": "d_model", "num_hidden_layers": "encoder_layers"}
_ALIASES |= {"num_attention_heads": "encoder_attention_heads"}
# What says nothing of what the model computes: notes, forms of outputs, training, arguments of generate().
_DESCRIPTIVE = set(
    """
    transformers_version torch_dtype dtype torchscript use_bfloat16 tf_legacy_loss return_dict use_return_dict
    output_attentions output_hidden_states use_cache gradient_checkpointing chunk_size_feed_forward
    add_cross_attention id2label label2id num_labels problem_type classifier_dropout classif_dropout finetuning_task
    tokenizer_class prefix task_specific_params sep_token_id bos_token_id init_std extra_pos_embeddings
    max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate
    forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens renormalize_logits
    """.split()  # noqa: SIM905  # a list would take fifty lines
)
_DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def check_settings(config: Mapping[str, Any], settings: set[str]) -> None:
    """Refuse a configuration that says something besides the architecture, such as quantised weights, by its name.

    Args:
        config: the values of ``config.json``.
        settings: the names of those that are read.

    Raises:
        UserError: a value has no counterpart, two names of one setting differ, or a name is unknown.
    """
    for name, only in _FIXED.items():
        is_unsaid = name == "architectures" and config.get(name) is None
        if name in config and config[name] != only and not is_unsaid:
            raise UserError(f"{name}: expected {only!r}, got {config[name]!r}; this has no counterpart here")
    for name, setting in _ALIASES.items():
        if config.get(name) is not None and config[name] != config.get(setting):
            raise UserError(f"{name}: {config[name]!r} differs from {setting} {config.get(setting)!r}")
    for name in sorted(config.keys() - settings - _FIXED.keys() - _ALIASES.keys() - _DESCRIPTIVE):
        is_empty = config[name] is None or config[name] == {} or config[name] == []
        if not name.startswith("_") and not is_empty:  # an underscore: transformers' own notes
            raise UserError(f"{name}: is no setting of a Marian model; this has no counterpart here")


def check_ids(ids: Mapping[str, Any]) -> None:
    """Refuse ids that are none, or that a vocabulary does not have.

    Args:
        ids: by their names in the configuration, the sizes of the vocabularies among them.

    Raises:
        UserError: there is such an id.
    """
    for name, number in ids.items():
        if type(number) is not int or number < 0:
            raise UserError(f"{name}: expected a whole number of at least 0, got {number!r}")
    target = ids["decoder_vocab_size"]
    both = min(ids["vocab_size"], target)
    for name, size in {"decoder_start_token_id": target, "eos_token_id": both, "pad_token_id": both}.items():
        if ids[name] >= size:
            raise UserError(f"{name}: expected an id below {size}, got {ids[name]}")


def sines(length: int, dim: int) -> Tensor:
    """Return the architecture's table of positions ``[length dim]``: sines in the first half, cosines in the second."""
    places = torch.arange(length, dtype=torch.float64)
    angles = places[:, None] / torch.tensor([10000.0 ** (2 * k / dim) for k in range(dim // 2)], dtype=torch.float64)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


def check_positions(name: str, table: Tensor, length: int, dim: int) -> None:
    """Refuse a table of positions that are not the sines that are computed here."""
    if table.shape != (length, dim):
        raise UserError(f"{name}: expected a table of {length} positions by {dim}, got {list(table.shape)}")
    if not torch.allclose(table.float().cpu(), sines(length, dim), atol=5e-3):  # bfloat16 has 8 bits
        raise UserError(f"{name}: these positions are not the sines of the architecture; this has no counterpart here")


def check_weights(state: Mapping[str, Tensor]) -> None:
    """Refuse what is no plain tensor of numbers, and dtypes that cannot all be kept."""
    for name, tensor in state.items():
        is_plain = isinstance(tensor, Tensor) and type(tensor.data) is Tensor
        if not is_plain or tensor.dtype not in _DTYPES or tensor.is_meta:
            kind = f"{tensor.dtype} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise UserError(f"weights: {name}: expected a plain floating point tensor with values, got {kind}")
    kinds = sorted({str(tensor.dtype) for tensor in state.values()})
    if len(kinds) > 1:
        raise UserError(f"weights: expected one dtype, got {' and '.join(kinds)}; convert the state dict to one first")
