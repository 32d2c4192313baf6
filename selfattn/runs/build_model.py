"""Build the model of a run: its settings with the vocabulary of its tokenizer."""

from __future__ import annotations

from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer


def build_model(config: ModelConfig, tokenizer: Tokenizer, seed: int) -> Seq2Seq:
    """Build a model for the tokens of a tokenizer, with first weights.

    Args:
        config: what it is made of.
        tokenizer: of both sides; the source may have a vocabulary of its own.
        seed: of the run.

    Raises:
        UserError: source and target have vocabularies of their own, and the model needs one for both.
    """
    try:
        return build(
            config,
            vocab_size=len(tokenizer),
            pad_id=tokenizer.pad_id,
            seed=seed,
            source_vocab_size=len(tokenizer.source),
        )
    except ValueError as error:
        advice = "leave `separate` out"
        raise UserError(f"this model has one vocabulary for source and target: {error}; {advice}") from None
