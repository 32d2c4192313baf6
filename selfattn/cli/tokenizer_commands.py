"""The commands of ``selfattn tokenizer`` and their settings. Imports neither torch nor sentencepiece."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from selfattn.cli.options import options_of
from selfattn.console import visible

TokenizerKind = Literal["characters", "unigram", "bpe"]
Side = Literal["both", "source", "target"]


@dataclass(frozen=True, kw_only=True)
class TrainTokenizer:
    """Settings of ``selfattn tokenizer train``.

    Attributes:
        out: where the tokenizer is kept; must not hold one already.
        columns: of files of pairs, names of the source's and the target's column, or their numbers from 1, separated by
            a comma.
        kind: characters, or subwords: BPE or unigram.
        vocab_size: tokens of the vocabulary, specials and bytes included; where not given 8,000, or as many as the
            texts have pieces for.
        coverage: share of the characters, by count, that become tokens; 0.98 to 1.
        no_bytes: a character outside the vocabulary is unknown, instead of its bytes.
        keep_numbers: numbers may be one token; otherwise every digit is one.
        symbols: texts that are one token each wherever they occur, separated by commas.
        separate: one vocabulary for the sources and one for the targets; for files of pairs, or two parallel files.
        max_texts: learn from so many texts, drawn at random where there are more.
        seed: of that draw.
    """

    out: Path
    columns: tuple[str, ...] = ()
    kind: TokenizerKind = "bpe"
    vocab_size: int | None = None
    coverage: float = 1.0
    no_bytes: bool = False
    keep_numbers: bool = False
    symbols: tuple[str, ...] = ()
    separate: bool = False
    max_texts: int = 1_000_000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class InspectTokenizer:
    """Settings of ``selfattn tokenizer inspect``.

    Attributes:
        data: texts to measure it on: files of pairs (TSV, CSV or JSON lines) or of one text a line, plain or .gz; of
            two of these, where each side has a vocabulary, the first is the source.
        columns: of files of pairs, names of the source's and the target's column, or their numbers from 1, separated by
            a comma.
        text: a text to show the tokens of; may be given several times. Without --data it is measured on these.
        side: of files of pairs, the texts of this side only; of a tokenizer with a vocabulary for each side, this one.
        examples: so many texts of the files are shown as they are cut, where no --text is given.
    """

    repeated: ClassVar[tuple[str, ...]] = ("text",)

    data: tuple[Path, ...] = ()
    columns: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    side: Side = "both"
    examples: int = 5


_Train: Any = options_of(TrainTokenizer)
_Inspect: Any = options_of(InspectTokenizer)
_AS_IT_IS = _Inspect()


def train(*data: Path, options: _Train) -> None:
    """Train a tokenizer on files and describe it.

    Args:
        data: files of pairs (TSV, CSV or JSON lines), whose two sides then share the vocabulary, or of one text a line,
            plain or .gz.
    """
    from selfattn.cli.tokenizer import train_tokenizer

    print(visible(train_tokenizer(data, options)))


def inspect(path: Path, /, options: _Inspect = _AS_IT_IS) -> None:
    """Describe a tokenizer: coverage, tokens per word, and the pieces and ids of texts.

    Args:
        path: a run directory, or a tokenizer's own.
    """
    from selfattn.cli.tokenizer import inspect_tokenizer

    print(visible(inspect_tokenizer(path, options)))
