"""Tokenizers by kind and from directories: one for both sides of a pair, or one for each."""

import os
from collections.abc import Iterable
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal, Self, get_args

from selfattn.codec import read
from selfattn.errors import UserError
from selfattn.tokenizers.kept import FILE_NAME as KEPT
from selfattn.tokenizers.kept import KeptFile, KeptTokenizer
from selfattn.tokenizers.listed import CharTokenizer, LetterTokenizer, ListedTokenizer, WordTokenizer
from selfattn.tokenizers.protocol import BOS, EOS, PAD, UNK, Tokenizer, unit_of

TokenizerKind = Literal["characters", "letters", "words", "unigram", "bpe"]
SUBWORDS = ("unigram", "bpe")
"""Kinds with a vocabulary of a chosen size."""

RUN_FOLDER = "tokenizer"
"""Folder of a run's tokenizer."""
SOURCE = "source"
TARGET = "target"
DEFAULT_VOCAB_SIZE = 8000
# The tokenizer of each file, or folder, that may lie in a directory.
_KINDS = {
    "char.json": "listed:CharTokenizer",
    "letters.json": "listed:LetterTokenizer",
    "words.json": "listed:WordTokenizer",
    TARGET: "load:SeparateTokenizer",
    "subword.json": "subword:SubwordTokenizer",
    "pieces.json": "borrowed:PieceTokenizer",
    "marian.json": "borrowed:MarianTokenizer",
}
_ADVICE = "restore the files of the run, or train again"


def train_tokenizer(
    kind: TokenizerKind, texts: Iterable[str], vocab_size: int | None = None, most: int = DEFAULT_VOCAB_SIZE
) -> Tokenizer:
    """Train a tokenizer on texts.

    Args:
        kind: characters, letters (characters taken apart), words (divided at spaces), or subwords by unigram or BPE.
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
    listed: dict[str, type[ListedTokenizer]] = {
        "characters": CharTokenizer,
        "letters": LetterTokenizer,
        "words": WordTokenizer,
    }
    if kind != "unigram" and kind != "bpe":
        return listed[kind](texts)
    # sentencepiece, which characters do without
    from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

    if vocab_size is None:
        return SubwordTokenizer.train(texts, SubwordSettings(kind, most), clip=True, room=most // 2)
    return SubwordTokenizer.train(texts, SubwordSettings(kind, vocab_size))


def load_tokenizer(directory: str | os.PathLike[str]) -> Tokenizer:
    """Load the tokenizer of a directory.

    ``char.json`` is a `CharTokenizer`, ``letters.json`` a `LetterTokenizer`, ``words.json`` a `WordTokenizer`,
    ``subword.json`` a `SubwordTokenizer`, ``pieces.json`` a `PieceTokenizer`, ``marian.json`` a `MarianTokenizer`, the
    folders ``source`` and ``target`` are a `SeparateTokenizer`. With ``kept.json`` it is a `KeptTokenizer` in front of
    it.

    Args:
        directory: from `save`; the folder ``tokenizer`` of a run.

    Raises:
        UserError: there is no tokenizer, or a broken file; the message names it.

    Example:
        >>> import tempfile
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CharTokenizer("ab").save(folder)
        ...     load_tokenizer(folder).encode("ba")
        [5, 4]
    """
    folder = Path(directory)
    base = _load_base(folder)
    if not (folder / KEPT).exists():
        return base
    return KeptTokenizer(base, read(KeptFile, folder / KEPT, advice=_ADVICE, newest=1, key="version").lines)


def _load_base(folder: Path) -> Tokenizer:
    """Load what lies in a directory beside kept symbols."""
    for name, kind in _KINDS.items():
        if (folder / name).exists():
            # Imported now: some need sentencepiece, which characters and words do without.
            tokenizer: type[Tokenizer] = resolve_name(f"selfattn.tokenizers.{kind}")
            return tokenizer.load(folder)
    raise UserError(f"{folder}: no tokenizer in it; name the folder tokenizer/ of a run, or train one")


def open_tokenizer(path: Path, option: str = "tokenizer") -> Tokenizer:
    """Open a tokenizer that a user names: its directory, a run, or the file of a SentencePiece model.

    Args:
        path: a directory from `save`, a run directory, or a file that ends in ``.model``. A directory of another
            program with a single such file stands for it.
        option: that names it, for the message.

    Raises:
        UserError: there is no tokenizer, or a broken file.
    """
    models = [path] if path.suffix == ".model" and path.is_file() else sorted(path.glob("*.model"))
    if (path / RUN_FOLDER).is_dir():
        return load_tokenizer(path / RUN_FOLDER)
    if path.is_dir() and (len(models) != 1 or any(path.glob("*.json"))):
        return load_tokenizer(path)
    if len(models) == 1:
        from selfattn.tokenizers.borrowed import PieceTokenizer

        return PieceTokenizer.open(models[0])
    kinds = ", ".join(get_args(TokenizerKind))
    raise UserError(f"`{option}` {path}: expected {kinds}, or the directory of a tokenizer; nothing is there")


class SeparateTokenizer:
    """Two tokenizers, one for each side of a pair.

    The two may be of different kinds. A model needs two embedding tables, with ``len(tokenizer.source)`` and
    ``len(tokenizer)`` rows, and cannot read source and target as one sequence. `encode` and `unknown` use the source
    side, `decode`, `pieces` and ``len`` the target side.

    Args:
        source: of the source side.
        target: of the target side.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
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
        self.unit = unit_of(source)
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
