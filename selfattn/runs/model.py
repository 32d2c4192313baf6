"""The model of a run: built for a tokenizer."""

import torch

from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer


def build_model(config: ModelConfig, tokenizer: Tokenizer, seed: int) -> Seq2Seq:
    """Build a model for a tokenizer, with initial weights.

    Args:
        config: of the model.
        tokenizer: of both sides; the source may have a vocabulary of its own.
        seed: of the initial weights.

    Raises:
        UserError: source and target have separate vocabularies, and the model needs a shared one; or torch's default
            dtype is not float32.
    """
    if torch.get_default_dtype() != torch.float32:
        default = torch.get_default_dtype()
        raise UserError(f"torch's default dtype is {default}, and models of runs are float32; set it to float32")
    try:
        sizes = {"vocab_size": len(tokenizer), "source_vocab_size": len(tokenizer.source)}
        return build(config, **sizes, pad_id=tokenizer.pad_id, seed=seed)
    except ValueError as error:
        advice = "" if tokenizer.source is tokenizer else "; leave `separate` out"
        raise UserError(f"this model cannot be built: {error}{advice}") from None


def check_default_device() -> None:
    """Check that tensors are made on the CPU where no device is given.

    Raises:
        UserError: ``torch.set_default_device`` has set another.
    """
    device = torch.get_default_device()
    if device.type != "cpu":
        raise UserError(f"torch's default device is {device}; set it to cpu, and give `device` to train or load")
