"""The commands of ``selfattn tokenizer``: train, inspect."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Group, Parameter

from selfattn.cli.options import Files, MaybeWhole, Names, Whole
from selfattn.errors import UserError
from selfattn.files import writing

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer

TokenizerKind = Literal["characters", "unigram", "bpe"]
Side = Literal["both", "source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
Texts: TypeAlias = dict[Side, list[str]]  # under "both" the texts of an unknown side
_MORE = Parameter(group=Group.create_ordered("More"))
_DEFAULT_SIZE = 8000
_MEASURED, _EXAMPLES = 10_000, 5  # texts that a new tokenizer is measured on, and shown


def train(
    *data: Path,
    out: Path,
    kind: TokenizerKind = "bpe",
    vocab_size: MaybeWhole = None,
    separate: bool = False,
    columns: Annotated[Names, _MORE] = (),
    coverage: Annotated[float, _MORE] = 1.0,
    no_bytes: Annotated[bool, _MORE] = False,
    keep_numbers: Annotated[bool, _MORE] = False,
    symbols: Annotated[Names, _MORE] = (),
    max_texts: Annotated[Whole, _MORE] = 1_000_000,
    seed: Annotated[Whole, _MORE] = 0,
) -> str:
    """Train a tokenizer on files and describe it.

    Args:
        data: Files of pairs (TSV, CSV, JSON lines) or of one text per line, plain or .gz.
        out: New directory for the tokenizer.
        kind: Token type: characters, or subwords by unigram or BPE.
        vocab_size: Vocabulary size, with special tokens and bytes. Default: 8,000, or fewer for few texts.
        separate: Learn one vocabulary for the sources and one for the targets.
        columns: Source and target column, by name or number, separated by a comma.
        coverage: Share of the characters, by count, that become tokens; 0.98 to 1.
        no_bytes: Map characters outside the vocabulary to <unk> instead of bytes.
        keep_numbers: Allow numbers as one token. Default: one token per digit.
        symbols: Texts that always are one token, separated by commas.
        max_texts: Largest number of texts to learn from, drawn at random.
        seed: Seed of that draw.
    """
    from selfattn.tokenizers.char import CharTokenizer
    from selfattn.tokenizers.load import SeparateTokenizer
    from selfattn.tokenizers.subword import SubwordTokenizer
    from selfattn.tokenizers.subword_training import SubwordSettings

    def trained(side: Side) -> "Tokenizer":
        if kind == "characters":
            return CharTokenizer.train(_of(texts, side))
        size = _DEFAULT_SIZE if vocab_size is None else vocab_size
        settings = SubwordSettings(kind, size, coverage, not no_bytes, not keep_numbers, symbols)
        return SubwordTokenizer.train(
            _of(texts, side), settings, clip=vocab_size is None, max_texts=max_texts, seed=seed
        )

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is not empty; name a new directory")
    texts = _read(data, columns, parallel=separate)
    if separate and texts["both"]:
        raise UserError("--separate: nothing says which texts are sources; give files of pairs, or two text files")
    tokenizer = SeparateTokenizer(trained("source"), trained("target")) if separate else trained("both")
    with writing(out, "choose another --out"):
        tokenizer.save(out)
    return _described(tokenizer, texts, "both", _MEASURED, _EXAMPLES)


def inspect(
    path: Path,
    /,
    *,
    data: Files = (),
    columns: Names = (),
    text: tuple[str, ...] = (),
    side: Side = "both",
    examples: Whole = _EXAMPLES,
) -> str:
    """Describe a tokenizer: coverage, tokens per word, and the pieces and ids of texts.

    Args:
        path: Run directory, or a tokenizer's directory.
        data: Texts to measure on: files of pairs, or of one text per line, plain or .gz.
        columns: Source and target column, by name or number, separated by a comma.
        text: Text whose pieces to show. May be repeated.
        side: Measure only the sources or the targets.
        examples: Number of texts from the files to show, without --text.
    """
    from selfattn.tokenizers.load import load_tokenizer

    tokenizer = load_tokenizer(path / "tokenizer" if (path / "tokenizer").is_dir() else path)
    if not data and not text:
        raise UserError("tokenizer inspect: no text to measure it on; give --data FILE or --text TEXT")
    is_separate = tokenizer.source is not tokenizer.target
    texts = _read(data, columns, parallel=is_separate and side == "both")
    if not data:
        texts["both"] = list(text)
    if side != "both":  # plain texts belong to the requested side
        texts |= {side: [*texts["both"], *texts[side]], "both": []}
    return _described(tokenizer, texts, side, None, examples, text)


def _read(paths: Sequence[Path], names: Sequence[str], *, parallel: bool) -> Texts:
    """Read files; of two parallel files the first is the source."""
    from selfattn.data.readers.lines import read_texts
    from selfattn.data.readers.pair_files import chosen_columns, read_pairs
    from selfattn.data.readers.records import format_of

    columns = chosen_columns(names)
    has_pairs = {path: format_of(path) not in (None, "book") for path in paths}  # a text may contain the book's `_`
    if columns is not None and not any(has_pairs.values()):
        raise UserError("--columns is for files of pairs: give one, or leave it out")
    texts: Texts = {"source": [], "target": [], "both": []}
    is_parallel = parallel and len(paths) == 2 and not any(has_pairs.values())
    sides: list[Side] = [*SIDES] if is_parallel else ["both"] * len(paths)
    for path, side in zip(paths, sides, strict=True):
        if has_pairs[path]:
            pairs = read_pairs(path, columns=columns)
            texts["source"].extend(pair.source for pair in pairs)
            texts["target"].extend(pair.target for pair in pairs)
        else:
            texts[side].extend(read_texts(path).lines)
    return texts


def _of(texts: Texts, side: Side) -> list[str]:
    """Return the texts of a side, or all of them."""
    return [text for part in texts.values() for text in part] if side == "both" else texts[side]


def _described(
    tokenizer: "Tokenizer", texts: Texts, side: Side, most: int | None, examples: int, shown: Sequence[str] = ()
) -> str:
    """Describe each vocabulary; show the pieces of the texts in `shown`, else of some texts that were measured."""
    from selfattn.tokenizers.inspection import describe

    def description(vocabulary: "Tokenizer", measured: list[str]) -> str:
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
