"""Tokenizers by kind and from directories: one for both sides of a pair, or one for each."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

from selfattn.errors import UserError
from selfattn.tokenizers import char
from selfattn.tokenizers.protocol import BOS, EOS, PAD, UNK, Tokenizer

TokenizerKind = Literal["characters", "unigram", "bpe"]

SOURCE = "source"
TARGET = "target"
DEFAULT_VOCAB_SIZE = 8000
_SUBWORDS = "subword.json"


def train_tokenizer(
    kind: TokenizerKind, texts: Iterable[str], vocab_size: int | None = None, most: int = DEFAULT_VOCAB_SIZE
) -> Tokenizer:
    """Train a tokenizer on texts.

    Args:
        kind: characters, or subwords by unigram or BPE.
        texts: of the training data.
        vocab_size: of subwords; default `most`, fewer for few texts, or more where half of `most` would not be left
            beside the characters of the texts.
        most: see `vocab_size`.

    Raises:
        UserError: the texts do not give so many subwords, or have more characters; the message says how many.

    Example:
        >>> len(train_tokenizer("characters", ["abc"]))
        7
    """
    if kind == "characters":
        return char.CharTokenizer(texts)
    # sentencepiece, which characters do without
    from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

    if vocab_size is None:
        return SubwordTokenizer.train(texts, SubwordSettings(kind, most), clip=True, room=most // 2)
    return SubwordTokenizer.train(texts, SubwordSettings(kind, vocab_size))


def load_tokenizer(directory: str | os.PathLike[str]) -> Tokenizer:
    """Load the tokenizer of a directory.

    ``char.json`` is a `CharTokenizer`, ``subword.json`` a `SubwordTokenizer`, the folders ``source`` and ``target``
    are a `SeparateTokenizer`.

    Args:
        directory: from `save`; the folder ``tokenizer`` of a run.

    Raises:
        UserError: there is no tokenizer, or a broken file; the message names it.

    Example:
        >>> import tempfile
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CharTokenizer("ab").save(folder)
        ...     load_tokenizer(folder).encode("ba")
        [5, 4]
    """
    folder = Path(directory)
    if (folder / char.FILE_NAME).exists():
        return char.CharTokenizer.load(folder)
    if (folder / TARGET).exists():
        return SeparateTokenizer.load(folder)
    if not (folder / _SUBWORDS).exists():
        raise UserError(f"{folder}: no tokenizer in it; name the folder tokenizer/ of a run, or train one")
    from selfattn.tokenizers.subword import SubwordTokenizer  # sentencepiece, which characters do without

    return SubwordTokenizer.load(folder)


class SeparateTokenizer:
    """Two tokenizers, one for each side of a pair.

    A model needs two embedding tables, with ``len(tokenizer.source)`` and ``len(tokenizer)`` rows, and cannot read
    source and target as one sequence. `encode` and `unknown` use the source side, `decode`, `pieces` and ``len`` the
    target side.

    Args:
        source: of the source side.
        target: of the target side.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = SeparateTokenizer(CharTokenizer("ab"), CharTokenizer("xyz"))
        >>> tokenizer.encode("ab"), tokenizer.target.encode("xy"), tokenizer.decode([4, 5])
        ([4, 5], [4, 5], 'xy')
        >>> len(tokenizer.source), len(tokenizer)
        (6, 7)
    """

    pad_id = PAD
    bos_id = BOS
    eos_id = EOS
    unk_id = UNK

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self.source = source
        self.target = target
        self.encode = source.encode
        self.sample = source.sample
        self.spans = source.spans
        self.unknown = source.unknown
        self.decode = target.decode
        self.pieces = target.pieces

    def __len__(self) -> int:
        """Return the size of the target vocabulary."""
        return len(self.target)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the two tokenizers into ``source/`` and ``target/`` of the directory."""
        self.source.save(Path(directory) / SOURCE)
        self.target.save(Path(directory) / TARGET)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises:
            UserError: a file is missing or broken; the message names it.
        """
        return cls(load_tokenizer(Path(directory) / SOURCE), load_tokenizer(Path(directory) / TARGET))
