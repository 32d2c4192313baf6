"""From a configuration to a model with its first weights."""

from torch import nn

from selfattn.errors import UserError
from selfattn.layers import initialise
from selfattn.models.config import ModelConfig
from selfattn.models.presets import get_preset
from selfattn.models.protocol import Seq2Seq
from selfattn.settings import shown
from selfattn.streams import generator, seeded


def build(
    config: ModelConfig | str, *, vocab_size: int, pad_id: int = 0, seed: int = 0, source_vocab_size: int | None = None
) -> Seq2Seq:
    """Build a model and give its weights their first values.

    Args:
        config: what it is made of; or the name of a preset, such as ``"transformer"``.
        vocab_size: number of tokens ``v``, of the target and, where nothing else is said, of the source.
        pad_id: the padding token's id; default 0, as every tokenizer of the project has it.
        seed: of the run, default 0; the weights are drawn from its stream ``"init"``, PyTorch's global generator is not
            touched.
        source_vocab_size: number of source tokens, where the source has a vocabulary of its own.

    Raises:
        UserError: there is no preset of that name, an argument is of another type, or a family's model does not
            follow the protocol.
        ValueError: a source vocabulary of another size, where source and target share a table or are one sequence.

    Example:
        >>> model = build("transformer", vocab_size=64)
        >>> type(model).__name__
        'EncoderDecoder'
    """
    if isinstance(config, str):
        config = get_preset(config).config
    if not isinstance(config, ModelConfig):
        raise UserError(f"build: expected the name of a model, or its configuration, got {shown(config)}")
    for name, size in (("vocab_size", vocab_size), ("source_vocab_size", source_vocab_size)):
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise UserError(f"build: `{name}`: expected a whole number from 1, got {shown(size)}")
    if not isinstance(pad_id, int) or not 0 <= pad_id < vocab_size:
        raise UserError(f"build: `pad_id`: expected one of the ids 0 to {vocab_size - 1}, got {shown(pad_id)}")
    if not isinstance(seed, int):
        raise UserError(f"build: `seed`: expected a whole number, got {shown(seed)}")
    if source_vocab_size not in (None, vocab_size) and config.shares_vocabulary():
        raise ValueError(
            f"build: source and target share one embedding, so that source_vocab_size={source_vocab_size} "
            f"must be vocab_size={vocab_size}"
        )
    first_values = generator(seed, "init")
    with seeded(first_values.initial_seed()):  # constructors draw first values too, from the global generator
        model = config.build(vocab_size=vocab_size, pad_id=pad_id, source_vocab_size=source_vocab_size)
    if not isinstance(model, Seq2Seq):
        raise UserError(f"{type(config).__name__}.build: expected a Seq2Seq, got {type(model).__name__}")
    for name in ("step", "forward"):
        if not model.defines & {"advance", name}:
            raise UserError(f"{type(model).__name__}: has neither a method advance nor {name}")
    initialise(model, first_values)
    return model


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Count the trained numbers of a model: all of them, and those outside embedding tables.

    Example:
        >>> count_parameters(nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 3)))
        (19, 9)
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Embedding)}
    return total, total - sum(tables.values())
