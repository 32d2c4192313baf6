"""The commands of ``selfattn tokenizer``: train, inspect."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import math
from collections.abc import Sequence
from pathlib import Path

from selfattn.cli.options import Files, Names
from selfattn.errors import UserError
from selfattn.files import writing
from selfattn.ownership import new_directory
from selfattn.tokenizers.load import SeparateTokenizer, TokenizerKind, load_tokenizer, train_tokenizer
from selfattn.tokenizers.protocol import Tokenizer, describe

_MEASURED, _EXAMPLES = 10_000, 5  # most texts that a tokenizer is measured on, and that are shown


def train(
    *data: Path,
    out: Path,
    kind: TokenizerKind = "bpe",
    vocab_size: int | None = None,
    separate: bool = False,
    columns: Names = (),
) -> str:
    """Train a tokenizer on files and describe it.

    Args:
        data: Files of pairs (TSV, CSV, JSON lines) or of one text per line, plain or .gz.
        out: New directory for the tokenizer.
        kind: Token type: characters, or subwords by unigram or BPE.
        vocab_size: Vocabulary size, with special tokens and bytes. Default: 8,000, or fewer for few texts.
        separate: Learn one vocabulary for the sources and one for the targets.
        columns: Source and target column, by name or number, separated by a comma.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is not empty; name a new directory")
    sources, targets = _read(data, columns)
    if separate and not targets:
        raise UserError("--separate: nothing says which texts are sources; give files of pairs, or two text files")
    sides = (train_tokenizer(kind, texts, vocab_size) for texts in (sources, targets))
    tokenizer = SeparateTokenizer(*sides) if separate else train_tokenizer(kind, [*sources, *targets], vocab_size)
    with writing(out, "choose another --out"), new_directory(out) as folder:
        tokenizer.save(folder)
    return _described(tokenizer, sources, targets)


def inspect(path: Path, /, *, data: Files = (), columns: Names = (), text: tuple[str, ...] = ()) -> str:
    """Describe a tokenizer: coverage of characters, tokens per word, and the pieces and ids of texts.

    Args:
        path: Run directory, or a tokenizer's directory.
        data: Files to measure on, of pairs or of one text per line, plain or .gz.
        columns: Source and target column, by name or number, separated by a comma.
        text: Text whose pieces to show. May be repeated.
    """
    tokenizer = load_tokenizer(path / "tokenizer" if (path / "tokenizer").is_dir() else path)
    if not data and not text:
        raise UserError("tokenizer inspect: no text to measure it on; give --data FILE or --text TEXT")
    sources, targets = _read(data, columns)
    if not data:  # shown with either vocabulary
        sources, targets = list(text), [] if tokenizer.source is tokenizer.target else list(text)
    return _described(tokenizer, sources, targets, text)


def _read(paths: Sequence[Path], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the sources and targets of files: of pairs, of two text files, else all texts as sources."""
    from selfattn.data.readers.formats import format_of
    from selfattn.data.readers.lines import read_texts
    from selfattn.data.readers.pairs import read_pairs
    from selfattn.data.readers.records import chosen_columns

    columns = chosen_columns(names)
    has_pairs = [format_of(path) not in (None, "book") for path in paths]  # a text may contain the book's `_`
    if columns is not None and not any(has_pairs):
        raise UserError("--columns is for files of pairs: give one, or leave it out")
    if len(paths) == 2 and not any(has_pairs):
        return read_texts(paths[0]), read_texts(paths[1])
    sources: list[str] = []
    targets: list[str] = []
    for path, is_pairs in zip(paths, has_pairs, strict=True):
        pairs = read_pairs(path, columns=columns) if is_pairs else []
        sources += [pair.source for pair in pairs] if is_pairs else read_texts(path)
        targets += [pair.target for pair in pairs]
    return sources, targets


def _described(tokenizer: Tokenizer, sources: list[str], targets: list[str], shown: Sequence[str] = ()) -> str:
    """Describe each vocabulary; show the pieces of the texts in `shown`, else of some texts that were measured."""

    def description(vocabulary: Tokenizer, texts: list[str]) -> str:
        return describe(vocabulary, _spread(texts, _MEASURED), shown or _spread(texts, _EXAMPLES))

    if tokenizer.source is tokenizer.target:
        return description(tokenizer, [*sources, *targets])
    if not targets:
        raise UserError("this tokenizer has a vocabulary for each side; give files of pairs, or two text files")
    source, target = description(tokenizer.source, sources), description(tokenizer.target, targets)
    return f"source\n{source}\n\ntarget\n{target}"


def _spread(texts: Sequence[str], most: int) -> list[str]:
    """Take at most this number of texts, at equal distances."""
    return list(texts[:: max(1, math.ceil(len(texts) / max(1, most)))])[:most]
