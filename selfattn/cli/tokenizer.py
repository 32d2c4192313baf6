"""What ``selfattn tokenizer`` does: train a tokenizer from files, describe a tokenizer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from selfattn.data.readers.lines import read_texts
from selfattn.data.readers.pair_files import chosen_columns, read_pairs
from selfattn.data.readers.records import format_of
from selfattn.errors import UserError
from selfattn.files import writing
from selfattn.tokenizers.char import CharTokenizer
from selfattn.tokenizers.inspection import describe
from selfattn.tokenizers.load import SeparateTokenizer, load_tokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.tokenizers.subword_training import SubwordSettings

if TYPE_CHECKING:
    from selfattn.cli.tokenizer_commands import InspectTokenizer, Side, TrainTokenizer

Texts: TypeAlias = "dict[Side, list[str]]"  # under "both" the texts of an unknown side
SIDES: tuple[Side, Side] = ("source", "target")
_DEFAULT_SIZE = 8000
_MEASURED = 10_000  # texts that a new tokenizer is measured on


def train_tokenizer(data: Sequence[Path], options: TrainTokenizer) -> str:
    """Train a tokenizer, save it, and describe it by at most 10,000 of the texts.

    Args:
        data: files of pairs (TSV, CSV or JSON lines, which give both sides) or of one text a line, plain or .gz.
        options: the settings.

    Returns:
        The description; where each side has a vocabulary, one for each.

    Raises:
        UserError: a file cannot be read, a setting is out of its range, the texts have too few pieces, or the output
            directory holds a tokenizer already.
    """
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise UserError(f"{options.out}: is not empty; name a new directory")
    texts = _read(data, options.columns, parallel=options.separate)
    if options.separate and texts["both"]:
        raise UserError("--separate: nothing says which texts are sources; give files of pairs, or two text files")
    sides: tuple[Side, ...] = SIDES if options.separate else ("both",)
    trained = [_trained(_of(texts, side), options) for side in sides]
    tokenizer = SeparateTokenizer(*trained) if options.separate else trained[0]
    with writing(options.out, "choose another --out"):
        tokenizer.save(options.out)
    return _described(tokenizer, texts, "both", _MEASURED, 5)


def inspect_tokenizer(path: Path, options: InspectTokenizer) -> str:
    """Describe a tokenizer by its coverage, its fertility, and the pieces and ids of some texts.

    Args:
        path: a run directory, or a tokenizer's own.
        options: the settings.

    Returns:
        The description; where each side has a vocabulary, one for each.

    Raises:
        UserError: there is no tokenizer, a file cannot be read, or there is no text to measure it on.
    """
    tokenizer = load_tokenizer(path / "tokenizer" if (path / "tokenizer").is_dir() else path)
    if not options.data and not options.text:
        raise UserError("tokenizer inspect: no text to measure it on; give --data FILE or --text TEXT")
    separate = tokenizer.source is not tokenizer.target
    texts = _read(options.data, options.columns, parallel=separate and options.side == "both")
    if not options.data:
        texts["both"] = list(options.text)
    if options.side != "both":  # plain texts belong to the requested side
        texts |= {options.side: [*texts["both"], *texts[options.side]], "both": []}
    return _described(tokenizer, texts, options.side, None, options.examples, options.text)


def _trained(texts: Sequence[str], options: TrainTokenizer) -> Tokenizer:
    if options.kind == "characters":
        return CharTokenizer.train(texts)
    size, clip = _DEFAULT_SIZE if options.vocab_size is None else options.vocab_size, options.vocab_size is None
    settings = SubwordSettings(
        options.kind, size, options.coverage, not options.no_bytes, not options.keep_numbers, options.symbols
    )
    return SubwordTokenizer.train(texts, settings, clip=clip, max_texts=options.max_texts, seed=options.seed)


def _has_pairs(path: Path) -> bool:
    """Whether a file has pairs, and not one text a line (a text may have a ``_`` in it, as in the book's file)."""
    return format_of(path) not in (None, "book")


def _read(paths: Sequence[Path], names: Sequence[str], *, parallel: bool) -> Texts:
    """Read files; of two parallel files the first is the source."""
    columns, has_pairs = chosen_columns(names), any(map(_has_pairs, paths))
    if columns is not None and not has_pairs:
        raise UserError("--columns is for files of pairs: give one, or leave it out")
    texts: Texts = {"source": [], "target": [], "both": []}
    is_parallel = parallel and len(paths) == 2 and not has_pairs
    for place, path in enumerate(paths):
        if _has_pairs(path):
            pairs = read_pairs(path, columns=columns)
            texts["source"].extend(pair.source for pair in pairs)
            texts["target"].extend(pair.target for pair in pairs)
        else:
            texts[SIDES[place] if is_parallel else "both"].extend(read_texts(path).lines)
    return texts


def _of(texts: Texts, side: Side) -> list[str]:
    """Return the texts of a side, or all of them."""
    return list(itertools.chain.from_iterable(texts.values())) if side == "both" else texts[side]


def _described(
    tokenizer: Tokenizer, texts: Texts, side: Side, most: int | None, examples: int, shown: Sequence[str] = ()
) -> str:
    """Describe each vocabulary; show the pieces of the texts in `shown`, else of some texts that were measured."""

    def description(vocabulary: Tokenizer, measured: list[str]) -> str:
        return describe(vocabulary, _spread(measured, most), shown or _spread(measured, examples))

    if tokenizer.source is tokenizer.target:
        return description(tokenizer, _of(texts, side))
    if side == "both" and texts["both"]:
        raise UserError("this tokenizer has a vocabulary for each side: say --side source or --side target")
    vocabularies = {"source": tokenizer.source, "target": tokenizer.target}
    parts = [f"{name}\n{description(vocabularies[name], texts[name])}" for name in SIDES if side in ("both", name)]
    return "\n\n".join(parts)


def _spread(texts: Sequence[str], most: int | None) -> list[str]:
    """Take at most so many texts, at equal distances."""
    if most is None or len(texts) <= most:
        return list(texts)
    return [texts[number * len(texts) // most] for number in range(most)]
