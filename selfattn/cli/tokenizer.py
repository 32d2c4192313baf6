"""The commands of ``selfattn tokenizer``: train, inspect."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from selfattn.cli.options import Files, MaybeWhole, NamedPath, Names, Whole
from selfattn.errors import UserError
from selfattn.files import writing
from selfattn.tokenizers.load import TokenizerKind

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer

_MORE = Parameter(group=Group.create_ordered("More"))
_MEASURED, _EXAMPLES = 10_000, 5  # texts that a new tokenizer is measured on, and shown


def train(
    *data: Path,
    out: NamedPath,
    kind: TokenizerKind = "bpe",
    vocab_size: MaybeWhole = None,
    separate: bool = False,
    columns: Annotated[Names, _MORE] = (),
    no_bytes: Annotated[bool, _MORE] = False,
    keep_numbers: Annotated[bool, _MORE] = False,
) -> str:
    """Train a tokenizer on files and describe it.

    Args:
        data: Files of pairs (TSV, CSV, JSON lines) or of one text per line, plain or .gz.
        out: New directory for the tokenizer.
        kind: Token type: characters, or subwords by unigram or BPE.
        vocab_size: Vocabulary size, with special tokens and bytes. Default: 8,000, or fewer for few texts.
        separate: Learn one vocabulary for the sources and one for the targets.
        columns: Source and target column, by name or number, separated by a comma.
        no_bytes: Map characters outside the vocabulary to <unk> instead of bytes.
        keep_numbers: Allow numbers as one token. Default: one token per digit.
    """
    from selfattn.tokenizers.char import CharTokenizer
    from selfattn.tokenizers.load import DEFAULT_VOCAB_SIZE, SeparateTokenizer
    from selfattn.tokenizers.subword import SubwordTokenizer
    from selfattn.tokenizers.subword_training import SubwordSettings

    def trained(texts: list[str]) -> "Tokenizer":
        if kind == "characters":
            return CharTokenizer.train(texts)
        size = DEFAULT_VOCAB_SIZE if vocab_size is None else vocab_size
        settings = SubwordSettings(kind, size, not no_bytes, not keep_numbers)
        return SubwordTokenizer.train(texts, settings, clip=vocab_size is None)

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is not empty; name a new directory")
    sources, targets = _read(data, columns)
    if separate and not targets:
        raise UserError("--separate: nothing says which texts are sources; give files of pairs, or two text files")
    tokenizer = SeparateTokenizer(trained(sources), trained(targets)) if separate else trained([*sources, *targets])
    with writing(out, "choose another --out"):
        tokenizer.save(out)
    return _described(tokenizer, sources, targets, _MEASURED, _EXAMPLES)


def inspect(
    path: Path, /, *, data: Files = (), columns: Names = (), text: tuple[str, ...] = (), examples: Whole = _EXAMPLES
) -> str:
    """Describe a tokenizer: coverage of characters, tokens per word, and the pieces and ids of texts.

    Args:
        path: Run directory, or a tokenizer's directory.
        data: Files to measure on, of pairs or of one text per line, plain or .gz.
        columns: Source and target column, by name or number, separated by a comma.
        text: Text whose pieces to show. May be repeated.
        examples: Number of texts of the files to show. Not used with --text.
    """
    from selfattn.tokenizers.load import load_tokenizer

    tokenizer = load_tokenizer(path / "tokenizer" if (path / "tokenizer").is_dir() else path)
    if not data and not text:
        raise UserError("tokenizer inspect: no text to measure it on; give --data FILE or --text TEXT")
    sources, targets = _read(data, columns)
    if not data:  # shown with either vocabulary
        sources, targets = list(text), [] if tokenizer.source is tokenizer.target else list(text)
    return _described(tokenizer, sources, targets, None, examples, text)


def _read(paths: Sequence[Path], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the sources and targets of files: of pairs, of two text files, else all texts as sources."""
    from selfattn.data.readers.lines import read_texts
    from selfattn.data.readers.records import chosen_columns, format_of, read_pairs

    columns = chosen_columns(names)
    has_pairs = [format_of(path) not in (None, "book") for path in paths]  # a text may contain the book's `_`
    if columns is not None and not any(has_pairs):
        raise UserError("--columns is for files of pairs: give one, or leave it out")
    sources: list[str] = []
    targets: list[str] = []
    for path, is_pairs in zip(paths, has_pairs, strict=True):
        if is_pairs:
            pairs = read_pairs(path, columns=columns)
            sources += [pair.source for pair in pairs]
            targets += [pair.target for pair in pairs]
        elif len(paths) == 2 and path == paths[1] and not any(has_pairs):
            targets += read_texts(path).lines
        else:
            sources += read_texts(path).lines
    return sources, targets


def _described(
    tokenizer: "Tokenizer",
    sources: list[str],
    targets: list[str],
    most: int | None,
    examples: int,
    shown: Sequence[str] = (),
) -> str:
    """Describe each vocabulary; show the pieces of the texts in `shown`, else of some texts that were measured."""
    from selfattn.tokenizers.protocol import describe

    def description(vocabulary: "Tokenizer", measured: list[str]) -> str:
        return describe(vocabulary, _spread(measured, most), shown or _spread(measured, examples))

    if tokenizer.source is tokenizer.target:
        return description(tokenizer, [*sources, *targets])
    if not targets:
        raise UserError("this tokenizer has a vocabulary for each side; give files of pairs, or two text files")
    return "\n\n".join(
        f"{name}\n{description(vocabulary, texts)}"
        for name, vocabulary, texts in (("source", tokenizer.source, sources), ("target", tokenizer.target, targets))
    )


def _spread(texts: Sequence[str], most: int | None) -> list[str]:
    """Take at most this number of texts, at equal distances."""
    step = 1 if most is None else math.ceil(len(texts) / max(1, most))
    return list(texts[:: max(1, step)])[:most]
