"""The tokenizer that a directory holds, of whatever kind."""

from __future__ import annotations

import os
from pathlib import Path

from selfattn.errors import UserError
from selfattn.tokenizers import char
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.tokenizers.separate import SOURCE, TARGET, SeparateTokenizer

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
    found = [name for name in (char.FILE_NAME, _SUBWORDS, TARGET) if (folder / name).exists()]
    if not found:
        raise UserError(
            f"{folder}: no tokenizer in it ({char.FILE_NAME}, {_SUBWORDS}, or {SOURCE}/ and {TARGET}/); "
            "name the folder tokenizer/ of a run, or train one"
        )
    if len(found) > 1:
        raise UserError(f"{folder}: more than one tokenizer in it ({', '.join(found)}); leave the one that is meant")
    if found == [char.FILE_NAME]:
        return char.CharTokenizer.load(folder)
    if found == [TARGET]:
        return SeparateTokenizer.load(folder)
    from selfattn.tokenizers.subword import SubwordTokenizer  # sentencepiece, which characters do without

    return SubwordTokenizer.load(folder)
