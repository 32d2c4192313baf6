"""Hugging Face models that a directory or an address names, for the command line. Their code is never run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from selfattn.errors import UserError, described
from selfattn.integrations.transformers import NAME, register
from selfattn.runs.hub import fetch, is_address

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def foreign_model(place: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """Load the Hugging Face model that a place names, with its tokenizer and with attention by :func:`selfattn.attend`.

    Args:
        place: a directory, or ``hf://ORG/NAME``. No code that comes with it is run.

    Returns:
        None where the place is a run of this project.

    Raises:
        UserError: the Hub cannot be reached; the model brings code of its own; it reads no text; or transformers is
            missing or cannot load it.
    """
    directory = fetch(place) if is_address(place) else place
    config = directory / "config.json"
    text = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    if (directory / "run.json").exists() or '"model_type"' not in text:
        return None
    register()
    import transformers

    source = re.sub(r"^hf:/+|@.*$", "", str(place)) if is_address(place) else place
    try:
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
        kind = getattr(transformers, (config.architectures or ["AutoModel"])[0], transformers.AutoModel)
        model = kind.from_pretrained(source, attn_implementation=NAME, trust_remote_code=False)
        check_reads_text(model)
        return model, transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = described(error)
        if "trust_remote_code" in str(error):  # transformers has no native class for it
            reason = "it needs code that comes with it, which is never run"
        raise UserError(f"{source}: transformers cannot load this model: {reason}") from None


def check_reads_text(model: PreTrainedModel) -> None:
    """Check that a model reads tokens.

    Raises:
        UserError: it reads pictures or sound.
    """
    read = model.main_input_name
    if read != "input_ids":
        name = type(model).__name__
        raise UserError(f"{name} reads {read}, not text: keep its weights with selfattn.watch(model)")
