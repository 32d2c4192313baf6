"""The commands of ``selfattn tokenizer``: train, inspect."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selfattn.cli.options import Files, Names
from selfattn.errors import UserError, say
from selfattn.ownership import new_directory, remove_remains
from selfattn.tokenizers.load import SUBWORDS, SeparateTokenizer, TokenizerKind, open_tokenizer, train_tokenizer
from selfattn.tokenizers.protocol import Tokenizer, describe

if TYPE_CHECKING:
    from selfattn.data.readers.pairs import PairFiles

_MEASURED = 10_000  # most texts that a tokenizer is measured on
_EXAMPLES = 5  # most texts that are shown


def train(
    *data: Path,
    out: Path,
    kind: TokenizerKind = "bpe",
    vocab_size: int | None = None,
    separate: bool = False,
    columns: Names = (),
    encoding: str | None = None,
) -> str:
    """Train a tokenizer on files and describe it.

    Args:
        data: Files of pairs (TSV, CSV, JSON lines) or of one text per line, plain or packed.
        out: New directory for the tokenizer.
        kind: Token type: characters, letters (characters taken apart), words (divided at spaces), or subwords by
            unigram or BPE.
        vocab_size: Vocabulary size. Default: 8,000; fewer for few texts, more for many characters.
        separate: Learn one vocabulary for the sources and one for the targets.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
    """
    if kind not in SUBWORDS and vocab_size is not None:
        raise UserError("--vocab-size goes with --kind bpe: give that as well, or leave it out")
    remove_remains(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is not empty; name a new directory")
    sources, targets = _read(data, columns, encoding, sides=separate)
    if separate and not targets:
        raise UserError("--separate: nothing says which texts are sources; give files of pairs, or two text files")
    sides = (train_tokenizer(kind, texts, vocab_size) for texts in (sources, targets))
    tokenizer = SeparateTokenizer(*sides) if separate else train_tokenizer(kind, [*sources, *targets], vocab_size)
    with new_directory(out) as folder:
        tokenizer.save(folder)
    return _described(tokenizer, sources, targets)


def inspect(
    path: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    encoding: str | None = None,
    text: tuple[str, ...] = (),
) -> str:
    """Describe a tokenizer: coverage of characters or words, tokens per word, and the pieces and ids of texts.

    Args:
        path: Run directory, a tokenizer's directory, or a SentencePiece model.
        data: Files to measure on, of pairs or of one text per line, plain or packed.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        text: Text whose pieces to show. May be repeated.
    """
    tokenizer = open_tokenizer(path)
    if not data and not text:
        raise UserError("tokenizer inspect: no text to measure it on; give --data FILE or --text TEXT")
    sources, targets = _read(data, columns, encoding, sides=tokenizer.source is not tokenizer.target)
    if not data:  # shown with either vocabulary
        sources = list(text)
        targets = [] if tokenizer.source is tokenizer.target else list(text)
    return _described(tokenizer, sources, targets, text)


def _read(
    paths: Sequence[Path], names: Sequence[str], encoding: str | None, *, sides: bool
) -> tuple[list[str], list[str]]:
    """Return the sources and targets of files, pairs cleaned as for a training; other texts are sources.

    Args:
        paths: of pairs, of one text per line, or both.
        names: of the chosen columns.
        encoding: of the files.
        sides: whether texts are sources and targets in turn.
    """
    from selfattn.data.readers.groups import holds_pairs, refuse_repeats
    from selfattn.data.readers.lines import read_texts
    from selfattn.data.readers.pairs import PairFiles
    from selfattn.data.readers.rows import chosen_columns

    files = PairFiles(tuple(paths), chosen_columns(names), encoding)
    refuse_repeats(paths)
    of_pairs = tuple(file.path for file in files.files if holds_pairs(file))
    of_texts = [path for path in paths if path not in of_pairs]
    if files.columns is not None and not of_pairs:
        raise UserError("--columns is for files of pairs: give one, or leave it out")
    if sides and len(of_texts) > 1:
        return _clean_pairs(files)
    sources, targets = _clean_pairs(replace(files, paths=of_pairs))
    for path in of_texts:
        sources += read_texts(path, files.encoding)
    return sources, targets


def _clean_pairs(source: "PairFiles") -> tuple[list[str], list[str]]:
    """Read and clean pairs, and say what was left out."""
    from selfattn.data.corpus import CleaningOptions, Tally, clean_rows

    if not source.paths:
        return [], []
    tally = Tally("texts", source.label)
    rows = list(clean_rows(source.rows(), CleaningOptions(), tally, limited=True))
    tally.refuse_empty(len(rows))
    if tally.dropped:
        for line in tally.lines(len(rows)):
            say(line)
    return [row.source for row in rows], [row.target for row in rows]


def _described(tokenizer: Tokenizer, sources: list[str], targets: list[str], examples: Sequence[str] = ()) -> str:
    """Describe each vocabulary; show the pieces of the texts in `shown`, else of some texts that were measured."""

    def description(vocabulary: Tokenizer, texts: list[str]) -> str:
        return describe(vocabulary, _spread(texts, _MEASURED), examples or _spread(texts, _EXAMPLES))

    if tokenizer.source is tokenizer.target:
        return description(tokenizer, [*sources, *targets])
    if not targets:
        raise UserError("this tokenizer has a vocabulary for each side; give files of pairs, or two text files")
    source = description(tokenizer.source, sources)
    target = description(tokenizer.target, targets)
    return f"source\n{source}\n\ntarget\n{target}"


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """Take at most this number of texts, at equal distances."""
    return list(texts[:: max(1, math.ceil(len(texts) / max(1, count)))])[:count]
