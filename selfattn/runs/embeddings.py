"""Pretrained embeddings from a text file, in the format of word2vec and GloVe, as first values of embedding tables."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from selfattn.errors import SettingError, UserError
from selfattn.files import open_regular, reading
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import SPECIALS, Tokenizer

_SPACE = "\u2581"  # in front of a piece that begins a word, in files of pieces
_SHOWN_SPACE = "\u2423"  # the same in labels of tokens
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
    tables = {name: part for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
    chosen: dict[str, nn.Embedding] = {}
    for side, prefix in (("source", "encoder."), ("target", "decoder.")):
        for name, part in model.named_modules(remove_duplicate=False):
            if isinstance(part, nn.Embedding) and name.startswith(prefix) and name.endswith("embed.tokens"):
                chosen[side] = part
    is_shared = len(chosen) < 2 or chosen["source"] is chosen["target"]
    wanted: list[tuple[str, nn.Embedding, Path]] = []
    for side, path in files.items():
        if side != "both" and is_shared:
            raise SettingError(f"`{side}_embeddings`: source and target share one table; give `embeddings`")
        if side != "both":
            wanted.append((side, chosen[side], path))
        elif is_shared:
            wanted.append((side, chosen.get("source") or next(iter(tables.values())), path))
        else:
            wanted += [(name, table, path) for name, table in chosen.items()]
    sides = {name: _Labels(tokenizer.source if name == "source" else tokenizer.target) for name, _, _ in wanted}
    names: dict[tuple[Path, int], set[str]] = {}
    for name, table, path in wanted:
        names.setdefault((path, table.embedding_dim), set()).update(sides[name].pieces, sides[name].words)
    files_read = {(path, width): read_vectors(path, width, names[path, width]) for path, width in names}
    lines = []
    for name, table, path in wanted:
        vectors, is_of_pieces = files_read[path, table.embedding_dim]
        labels = sides[name]
        filled = _fill(table, labels.pieces if is_of_pieces else labels.words, vectors)
        if not filled:
            raise SettingError(f"{path}: has a vector for none of the tokens; choose a file of this vocabulary")
        covered = f"{filled:,} of {labels.count:,} tokens have a vector in {path.name}"
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
        for number, label in enumerate(labels, len(SPECIALS)):
            begins = label.startswith(_SHOWN_SPACE) and len(label) > 1
            self.pieces.setdefault(_SPACE + label[1:] if begins else label, []).append(number)
            self.words.setdefault(label[1:] if begins else label, []).append(number)
        if any(label.startswith(_SHOWN_SPACE) and len(label) > 1 for label in labels):
            self.words = {name[1:]: ids for name, ids in self.pieces.items() if name.startswith(_SPACE)}


@torch.no_grad()
def _fill(table: nn.Embedding, rows: Mapping[str, Sequence[int]], vectors: Mapping[str, Tensor]) -> int:
    """Put vectors into the rows of their names, and return how many rows there are."""
    filled = 0
    for name, vector in vectors.items():
        for number in rows.get(name, ()):
            table.weight[number] = vector
            filled += 1
    return filled


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
        for number, data in enumerate(file, 1):
            place = f"{path}:{number}"
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
                    raise UserError(f"{place}: has {len(cells) - 1} cells behind the name, others {width}; {_ADVICE}")
                reason = f"{len(cells) - 1} numbers, but the model's table has width {width}"
                raise SettingError(f"{place}: {reason}; choose the width with `set`, or another file")
            name = " ".join(cells[:-width])
            is_of_pieces = is_of_pieces or name.startswith(_SPACE)
            try:
                vector = torch.tensor([float(cell) for cell in cells[-width:]])
            except ValueError:
                raise UserError(f"{place}: expected {width} numbers behind the name; {_ADVICE}") from None
            if not vector.isfinite().all():
                raise UserError(f"{place}: a number is not finite; {_ADVICE}")
            if name in names and name not in vectors:
                vectors[name] = vector
    if not count or expected not in (None, count):
        reason = "is empty" if not count else f"has {count:,} vectors, but its first line says {expected:,}"
        raise UserError(f"{path}: {reason}; {_ADVICE}")
    return vectors, is_of_pieces


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
