"""The settings of ``selfattn tokenizer`` as frozen dataclasses. Imports neither torch nor sentencepiece."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfattn.cli.settings import MaybeWhole, Names, Whole

TokenizerKind = Literal["characters", "unigram", "bpe"]
Side = Literal["both", "source", "target"]


@Parameter(name="*")
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
        svg: draw the card into this file as well.
    """

    out: Path
    columns: Names = ()
    kind: TokenizerKind = "bpe"
    vocab_size: MaybeWhole = None
    coverage: float = 1.0
    no_bytes: bool = False
    keep_numbers: bool = False
    symbols: Names = ()
    separate: bool = False
    max_texts: Whole = 1_000_000
    seed: Whole = 0
    svg: Path | None = None


@Parameter(name="*")
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
        svg: draw the card into this file as well.
    """

    data: Annotated[tuple[Path, ...], Parameter(consume_multiple=True)] = ()
    columns: Names = ()
    text: tuple[str, ...] = ()
    side: Side = "both"
    examples: Whole = 5
    svg: Path | None = None


INSPECT_DEFAULTS = InspectTokenizer()
