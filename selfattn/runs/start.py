"""What a training starts from: a run, or a Marian model of Hugging Face, in a directory or on the Hub."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.convert.marian import FILES, RECIPE, MarianDirectory, MarianStart
from selfattn.data.readers.lines import read_kept
from selfattn.errors import SettingError, UserError, number_of
from selfattn.files import open_regular, reading, sha256_of
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import choose_device
from selfattn.registry import TASKS
from selfattn.runs.directory import WEIGHTS, RunDirectory, foreign_kind
from selfattn.runs.hub import fetch
from selfattn.runs.load import load
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.runs.task import TaskData
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.listed import ListedTokenizer
from selfattn.tokenizers.load import SeparateTokenizer
from selfattn.tokenizers.protocol import SPECIALS, Tokenizer
from selfattn.training.config import TrainingConfig

PRESET = "marian"
"""Name of a Marian model in a run; no preset has it."""


@dataclass(frozen=True)
class Start:
    """What a training starts from; by default from random weights and a new vocabulary.

    Attributes:
        run: with model, weights and tokenizer; None for random weights.
        sha256: of the file of the weights.
        notes: lines to print when the training begins.
        recipe: settings that replace those of the task's recipe; default none.
    """

    run: Run | None = None
    sha256: str | None = None
    notes: Sequence[str] = ()
    recipe: Mapping[str, Any] = field(default_factory=dict)


def open_start(path: Path, task: TaskData) -> Start:
    """Open a run or a Marian model, and check that a task can be trained from it.

    Args:
        path: of the directory, or ``hf://user/name``.
        task: to be trained.

    Raises:
        UserError: the model cannot be opened, or has other tokens or languages than the task's options say.
    """
    place = fetch(path, *FILES)
    kind = foreign_kind(place)
    if kind not in (None, "marian"):
        raise SettingError(f"`init_from` {path}: a model of Hugging Face ({kind}), of which only Marian can be a start")
    if kind is None:
        run = load(place)
        if not list(run.model.parameters()):
            raise SettingError(f"`init_from` {run.path}: an exported run; take the run itself")
        _check_tokens(task, run)
        return Start(run, RunDirectory(run.path).record().files[WEIGHTS][0])
    if not task.takes_pairs:
        raise SettingError(f"`init_from` {path}: is a model of pairs, and {task.name} trains models of texts")
    run, marian = _open_marian(path, task.name, task.check_languages)
    _check_tokens(task, run)
    return Start(run, sha256_of(MarianDirectory(run.path).weights_file), marian.notes, RECIPE)


def open_model(path: Path, device: str = "cpu") -> Run:
    """Open a run, or a Marian model as if it were a run of the task that has languages.

    Args:
        path: of the directory, or ``hf://user/name``.
        device: to compute on; default the CPU.

    Raises:
        UserError: it cannot be opened, or is another model of Hugging Face.
    """
    if foreign_kind(fetch(path, *FILES)) != "marian":
        return load(path, device=device)
    task = next(name for name in TASKS.names() if TASKS[name].check_languages is not TaskData.check_languages)
    run, _ = _open_marian(path, task)
    run.model.to(choose_device(device))
    return run


def _open_marian(
    path: Path, task: str, check_languages: Callable[[str, str], object] = lambda source, target: None
) -> tuple[Run, MarianStart]:
    """Open a Marian model in a directory or on the Hub, whose languages are checked before its weights are fetched."""
    directory = MarianDirectory(fetch(path, *FILES))
    if not directory.weights_file.is_file():  # not fetched yet
        directory = MarianDirectory(fetch(path, *FILES, directory.weights_file.name))
    check_languages(*directory.languages)
    marian = directory.open()
    longest = marian.config.limits().target or 1
    config = RunConfig(task, PRESET, marian.config, TrainingConfig(), {}, max_length=longest)
    return Run(directory.path, config, marian.model, marian.tokenizer), marian


def _check_tokens(task: TaskData, start: Run) -> None:
    """Check that the task's options name no other tokens than those of the run in ``init_from``."""
    settings = token_settings(start.tokenizer)
    for name, value in task.changed_options().items():
        if name == "keep_symbols" and isinstance(value, Path) and read_kept(value) in settings[name]:
            continue
        if name in settings and value not in settings[name]:
            actual = settings[name][0] if settings[name] else "none"
            reason = f"the tokens are those of `init_from` (`{name}` {actual})"
            raise SettingError(f"`{name}` {value}: {reason}; leave it out")
    if task.sampling() and not settings["vocab_size"]:
        raise SettingError("`sampling`: the tokens of `init_from` have one segmentation; leave it out")


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
    if len(chosen) < 2 or chosen["source"] is chosen["target"]:
        first = next(part for part in model.modules() if isinstance(part, nn.Embedding))
        chosen = {"both": chosen.get("source", first)}
    lines = []
    for side, path in files.items():
        if side != "both" and side not in chosen:
            raise SettingError(f"`{side}_embeddings`: source and target share one table; give `embeddings`")
        filled_tables = chosen if side == "both" else {side: chosen[side]}
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
                actual = len(cells) - 1
                if count > 1:
                    cells_text = number_of(actual, "cell")
                    raise UserError(f"{place}: has {cells_text} behind the name, others {width}; {_ADVICE}")
                reason = f"{number_of(actual, 'number')}, but the model's table has width {width}"
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


def token_settings(tokenizer: Tokenizer) -> dict[str, tuple[Any, ...]]:
    """Return the values of the options of a training that would make such a tokenizer.

    Args:
        tokenizer: of a run.

    Returns:
        For each of ``tokenizer``, ``source_tokenizer``, ``target_tokenizer``, ``vocab_size``, ``keep_symbols`` and
        ``separate`` the values that describe it; none for a tokenizer of a plugin.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> settings = token_settings(CharTokenizer("ab"))
        >>> settings["tokenizer"], settings["separate"]
        (('characters',), (False,))
    """
    source = tokenizer_kind(tokenizer.source)
    target = tokenizer_kind(tokenizer.target)
    side = tokenizer.target
    lines = side.lines if isinstance(side, KeptTokenizer) else ()
    settings = getattr(side.base if isinstance(side, KeptTokenizer) else side, "settings", None)
    size = len(side) - len(lines)
    return {
        "tokenizer": target if source == target else (),
        "source_tokenizer": source,
        "target_tokenizer": target,
        "vocab_size": () if settings is None else (settings.vocab_size, size),
        "keep_symbols": (lines,) if lines else (),
        "separate": (isinstance(tokenizer, SeparateTokenizer),),
    }


def tokenizer_kind(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the kind of a tokenizer of one side, as its option names it; nothing for one of a plugin.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer_kind(CharTokenizer("ab"))
        ('characters',)
    """
    if isinstance(tokenizer, KeptTokenizer):
        return tokenizer_kind(tokenizer.base)
    if isinstance(tokenizer, ListedTokenizer):
        return (tokenizer.unit,)
    settings = getattr(tokenizer, "settings", None)
    return () if settings is None else (settings.kind,)
