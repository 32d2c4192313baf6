"""Pretrained embeddings from a text file, in the format of word2vec and GloVe, as first values of embedding tables."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn

from selfattn.errors import SettingError, UserError, number_of
from selfattn.files import open_regular, reading
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import SPECIALS, Tokenizer

_SPACE = "\u2581"  # in front of a piece that begins a word, in files of pieces
_BEGINS = re.compile("\u2423.")  # a label of a token that begins a word
_LONGEST = 1 << 20  # bytes of a line, of a vector of 4,096 numbers about 80,000
_ADVICE = "name a text file of word2vec or GloVe"


def fill_tables(model: Seq2Seq, tokenizer: Tokenizer, files: Mapping[str, Path]) -> list[str]:
    """Give the rows of embedding tables the vectors that files have for their tokens; other rows keep their values.

    A token's vector is that of its label. A piece that begins a word has that of the word, in a file of pieces (with
    U+2581 for spaces) that of the piece; other pieces have one in a file of pieces alone.

    Args:
        model: whose tables are filled, in place.
        tokenizer: of the model.
        files: by side: ``source``, ``target``, or ``both``.

    Returns:
        A line for each table: how many of its tokens have a vector.

    Raises:
        SettingError: the model has no table of that side alone, or of that width, or the file has none of its tokens.
        UserError: a file is broken; the message names the line.
    """
    chosen: dict[str, nn.Embedding] = {}
    for side, prefix in (("source", "encoder."), ("target", "decoder.")):
        for name, part in model.named_modules(remove_duplicate=False):
            if isinstance(part, nn.Embedding) and name.startswith(prefix) and name.endswith("embed.tokens"):
                chosen[side] = part
    is_shared = len(chosen) < 2 or chosen["source"] is chosen["target"]
    lines = []
    for side, path in files.items():
        if side != "both" and is_shared:
            raise SettingError(f"`{side}_embeddings`: source and target share one table; give `embeddings`")
        filled_tables = chosen if side == "both" else {side: chosen[side]}
        if is_shared:
            first = next(part for part in model.modules() if isinstance(part, nn.Embedding))
            filled_tables = {side: chosen.get("source", first)}
        labels = {name: _Labels(tokenizer.source if name == "source" else tokenizer.target) for name in filled_tables}
        names = set[str]().union(*(of_side.pieces.keys() | of_side.words.keys() for of_side in labels.values()))
        read = cache(partial(read_vectors, path, names=names))  # once for tables of one width
        for name, table in filled_tables.items():
            vectors, is_of_pieces = read(table.embedding_dim)
            filled = _fill(table, labels[name].pieces if is_of_pieces else labels[name].words, vectors)
            if not filled:
                raise SettingError(f"{path}: has a vector for none of the tokens; choose a file of this vocabulary")
            covered = f"{filled:,} of {labels[name].count:,} tokens have a vector in {path.name}"
            lines.append(f"{name} embeddings: {covered}; the others keep their first values")
    return lines


class _Labels:
    """The tokens of a tokenizer by the names that they may have in a file.

    Attributes:
        pieces: ids by names in a file of pieces.
        words: ids by names in a file of words; where tokens are pieces, only those that begin a word.
        count: of the tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pieces: dict[str, list[int]] = {}
        self.words: dict[str, list[int]] = {}
        labels = tokenizer.pieces(range(len(tokenizer)))[len(SPECIALS) :]
        self.count = len(labels)
        are_words = not any(map(_BEGINS.match, labels))
        for number, label in enumerate(labels, len(SPECIALS)):
            begins = _BEGINS.match(label) is not None
            name = label[1:] if begins else label
            self.pieces.setdefault(_SPACE + name if begins else name, []).append(number)
            if begins or are_words:
                self.words.setdefault(name, []).append(number)


@torch.no_grad()
def _fill(table: nn.Embedding, rows: Mapping[str, Sequence[int]], vectors: Mapping[str, Tensor]) -> int:
    """Put vectors into the rows of their names, and return how many rows there are."""
    named = rows.keys() & vectors.keys()
    for name in named:
        table.weight[rows[name]] = vectors[name]
    return sum(len(rows[name]) for name in named)


def read_vectors(path: Path, width: int, names: Collection[str]) -> tuple[dict[str, Tensor], bool]:
    """Read the vectors of some names.

    Args:
        path: a line for each name: the name and its numbers, between spaces. A first line of two numbers, how many
            vectors and how wide, is checked.
        width: of the model's table.
        names: that are wanted. Of a name that stands twice, the first vector counts.

    Returns:
        The vectors, and whether the file is one of pieces.

    Raises:
        SettingError: the vectors have another width.
        UserError: a line is broken, or the file has other lines than its first line says.
    """
    vectors: dict[str, Tensor] = {}
    is_of_pieces = False
    expected = None
    count = 0
    with reading(path, _ADVICE), open_regular(path) as file:
        for number, data in enumerate(iter(lambda: file.readline(_LONGEST), b""), 1):
            place = f"{path}:{number}"
            if len(data) == _LONGEST:
                raise UserError(f"{place}: longer than {_LONGEST >> 20} MiB; {_ADVICE}")
            try:
                cells = data.decode().rstrip(" \r\n").replace("\t", " ").split(" ")
            except UnicodeDecodeError:
                raise UserError(f"{place}: is not UTF-8; {_ADVICE}") from None
            if number == 1 and len(cells) == 2 and all(cell.isdecimal() for cell in cells):
                expected = int(cells[0])
                if int(cells[1]) != width:
                    raise SettingError(f"{place}: vectors of width {cells[1]}, but the model's table has {width}")
                continue
            count += 1
            is_wider = len(cells) > width + 1 and _is_number(cells[-width - 1])  # some names of GloVe have spaces
            if len(cells) <= width or is_wider:
                if count > 1:
                    raise UserError(
                        f"{place}: has {number_of(len(cells) - 1, 'cell')} behind the name, others {width}; {_ADVICE}"
                    )
                reason = f"{number_of(len(cells) - 1, 'number')}, but the model's table has width {width}"
                raise SettingError(f"{place}: {reason}; choose the width with `set`, or another file")
            name = " ".join(cells[:-width])
            is_of_pieces = is_of_pieces or name.startswith(_SPACE)
            try:
                vector = torch.tensor([float(cell) for cell in cells[-width:]])
            except ValueError:
                raise UserError(f"{place}: expected {number_of(width, 'number')} behind the name; {_ADVICE}") from None
            if not vector.isfinite().all():
                raise UserError(f"{place}: a number is not finite; {_ADVICE}")
            if name in names and name not in vectors:
                vectors[name] = vector
    if not count or expected not in (None, count):
        reason = "is empty" if not count else f"has {number_of(count, 'vector')}, but its first line says {expected:,}"
        raise UserError(f"{path}: {reason}; {_ADVICE}")
    return vectors, is_of_pieces


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
