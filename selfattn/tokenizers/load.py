"""Tokenizers as a directory holds them: one for both sides of a pair, or one for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from selfattn.errors import UserError
from selfattn.tokenizers import char
from selfattn.tokenizers.protocol import Tokenizer

SOURCE, TARGET = "source", "target"
_SUBWORDS = "subword.json"


def load_tokenizer(directory: str | os.PathLike[str]) -> Tokenizer:
    """Load the tokenizer in a directory; its files say which kind it is.

    ``char.json`` is a `CharTokenizer`, ``subword.json`` a `SubwordTokenizer`, the folders ``source`` and ``target``
    are a `SeparateTokenizer`.

    Args:
        directory: where `save` wrote it: of a run, its folder ``tokenizer``.

    Raises:
        UserError: there is no tokenizer, more than one, or a broken file; the message names it.

    Example:
        >>> import tempfile
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CharTokenizer("ab").save(folder)
        ...     load_tokenizer(folder).encode("ba")
        [5, 4]
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory; name the one that holds the tokenizer")
    kinds = [name for name in (char.FILE_NAME, _SUBWORDS, TARGET) if (folder / name).exists()]
    if not kinds:
        raise UserError(
            f"{folder}: no tokenizer in it ({char.FILE_NAME}, {_SUBWORDS}, or {SOURCE}/ and {TARGET}/); "
            "name the folder tokenizer/ of a run, or train one"
        )
    if len(kinds) > 1:
        raise UserError(f"{folder}: more than one tokenizer in it ({', '.join(kinds)}); leave the one that is meant")
    if kinds == [char.FILE_NAME]:
        return char.CharTokenizer.load(folder)
    if kinds == [TARGET]:
        return SeparateTokenizer.load(folder)
    from selfattn.tokenizers.subword import SubwordTokenizer  # sentencepiece, which characters do without

    return SubwordTokenizer.load(folder)


class SeparateTokenizer:
    """Two tokenizers, one for each side of a pair; an id means one thing in the source and another in the target.

    A model needs two embedding tables for it, with ``len(tokenizer.source)`` rows and ``len(tokenizer)`` rows; source
    and target cannot be one sequence. Where the side is not named, it is the source that is encoded and the target
    that is decoded and counted, as in use.

    Args:
        source: of the source side.
        target: of the target side.

    Raises:
        ValueError: the two give the specials different ids.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = SeparateTokenizer(CharTokenizer("ab"), CharTokenizer("xyz"))
        >>> tokenizer.encode("ab"), tokenizer.target.encode("xy"), tokenizer.decode([4, 5])
        ([4, 5], [4, 5], 'xy')
        >>> len(tokenizer.source), len(tokenizer)
        (6, 7)
    """

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        specials = [(side.pad_id, side.bos_id, side.eos_id, side.unk_id) for side in (source, target)]
        if specials[0] != specials[1]:
            raise ValueError(f"source and target have different ids of pad, bos, eos and unk: {specials}")
        self.source, self.target = source, target
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = specials[0]
        self.encode, self.sample, self.spans, self.unknown = source.encode, source.sample, source.spans, source.unknown
        self.decode, self.pieces = target.decode, target.pieces

    def __len__(self) -> int:
        """Return the size of the target's vocabulary: what the model chooses from."""
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
