"""Pairs of texts in files, for every command and the library: `PairFiles` says which they are and how to read them.

Each file is opened twice: once to learn what it is, and once to read it. Several files are one corpus where names and
contents say how they belong together; else they are refused.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, Protocol, Self

from selfattn.data.pairs import Pair, clean_text
from selfattn.data.readers.groups import GROUPING, group_files, label_of, refuse_repeats
from selfattn.data.readers.lines import BAD_BYTE, LearnedFile, checked_encoding, encoding_advice
from selfattn.data.readers.rows import (
    FORMAT_NAMES,
    BadRecord,
    Columns,
    RawPair,
    RawRecord,
    Understood,
    chosen_columns,
    file_format,
    is_encodable,
    understand,
)
from selfattn.errors import SettingError, UserError, describe_error, number_of
from selfattn.settings import shown

_ADVICE = "mend the line, or take it out"
_UNDECODED = 0.01  # share of undecoded records above which the encoding is another
_BROKEN = 0.1  # share of broken lines above which the format is another
_FIRST_CHECK = 1_000  # records, after which the shares are checked, and whenever they have doubled


class PairSource(Protocol):
    """Raw pairs of one part of a corpus: `PairFiles`, or a split of a dataset on the Hub."""

    @property
    def label(self) -> str:
        """Start of the places in messages, such as the file's name."""

    @property
    def settings(self) -> dict[str, Any]:
        """JSON values from which the source can be opened again."""

    def rows(self) -> Iterator[RawRecord]:
        """Read the pairs from the beginning."""

    def about(self) -> Sequence[str]:
        """Say how the source is understood, a line for each of its files; or nothing."""


@dataclass(frozen=True)
class PairFiles:
    """Files of pairs, or a source and a target file in turn, and how they are read.

    It is made from what a user gave; nothing is read until it is asked for. The first question opens each file once and
    remembers what it learned; each reading opens it once more. The formats, told by a file's name or its first lines:

    - Parallel files: line n of the one and line n of the other.
    - TSV: nothing is quoted. The columns ``source`` and ``target`` if the first line names them, else the first two,
      unless others are chosen; further columns are ignored, but each line must have as many as the first. A first line
      that looks like other headings, such as ``en`` and ``de``, is refused unless columns are chosen.
    - CSV: quoted as usual, with commas, semicolons, tabs or bars between cells; the first record names the columns.
    - JSON lines: an object a line, with the texts at the top or within ``"translation"``.
    - The format of fast_align, ``source ||| target``, as TSV.
    - Notes exported from Anki, whose first lines say how they are written.
    - SCAN's files: ``IN: words OUT: actions``.
    - The book's file (Saito, *Deep Learning from Scratch 2*): the input padded with spaces, ``_``, the target. The
      padding is taken off. The last ``_`` of a line counts.

    Attributes:
        paths: of the files, plain or packed.
        columns: names of the source's and the target's column, or (tables) their numbers from 1, such as
            ``("2", "3")``; with names, the first record of a table names the columns, with numbers it is a pair
            already. Default, or empty: numbers 1 and 2 for TSV, the names source and target for CSV and JSON lines.
        encoding: of the files, such as cp949; default that of a byte order mark, or UTF-8.
        tag: name or number of the column with the tag of each pair, of a table or JSON lines; default none.

    Raises:
        SettingError: columns or encoding are none.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "pairs.tsv")
        ...     _ = path.write_text("Go.\\tVa !\\tby a friend\\nHi.\\tSalut !\\tby me\\n")
        ...     files = PairFiles(path)
        ...     files.about(), files.read()[1].target
        (["pairs.tsv: TSV, columns 1 and 2 of 3 (others can be chosen), first pair 'Go.' → 'Va !'"], 'Salut !')
    """

    paths: tuple[Path, ...]
    columns: Columns = None
    encoding: str | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        paths = (self.paths,) if isinstance(self.paths, str | os.PathLike) else self.paths
        object.__setattr__(self, "paths", tuple(map(Path, paths)))
        object.__setattr__(self, "columns", chosen_columns(self.columns or ()))
        object.__setattr__(self, "encoding", checked_encoding(self.encoding))

    def __reduce__(self) -> Any:
        """Return how to make it again, without what was learned of the files, which another process learns itself."""
        return type(self), (self.paths, self.columns, self.encoding, self.tag)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return the files of a run from its settings; see `settings`. Those of older runs for dates are read, too.

        Raises:
            LookupError, TypeError, AttributeError, ValueError: they are no settings of files.

        Example:
            >>> PairFiles.from_settings({"files": [{"path": "a.tsv", "sha256": "0"}], "columns": ["en", "de"]}).columns
            ('en', 'de')
        """
        paths = tuple(Path(file["path"]) for file in recorded_files(settings))
        return cls(paths, settings.get("columns"), settings.get("encoding"), settings.get("tag"))

    @property
    def settings(self) -> dict[str, Any]:
        """JSON values: the files with their checksums, and how they are read.

        Raises:
            UserError: a file is missing or cannot be read.
        """
        files = [{"path": str(file.path), "sha256": file.sha256} for file in self.files]
        settings: dict[str, Any] = {"files": files, "columns": self.columns and list(self.columns)}
        further = (("encoding", self.encoding), ("tag", self.tag))
        return settings | {name: value for name, value in further if value is not None}

    def are_those_of(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the files have the contents of those in settings, in the same order.

        Raises:
            UserError: a file is missing or cannot be read.
        """
        recorded = [file["sha256"] for file in recorded_files(settings)]
        return len(recorded) == len(self.paths) and [file.sha256 for file in self.files] == recorded

    @property
    def label(self) -> str:
        """Names of the files, as places in messages have them."""
        return label_of(self.paths)

    @cached_property
    def files(self) -> tuple[LearnedFile, ...]:
        """What one pass through each file has told.

        Raises:
            UserError: a file is missing, damaged, empty or not text.
        """
        return tuple(LearnedFile.learn(path, self.encoding) for path in self.paths)

    @cached_property
    def groups(self) -> list[tuple[LearnedFile, ...]]:
        """The files as they are read one after the other: a file of pairs each, or a source file and its target file.

        Raises:
            UserError: there is no file; a file is given twice, or a copy of it; names and contents do not tell what
                belongs together; or see `files`.
        """
        if not self.paths:
            raise SettingError(f"`data`: no file; {GROUPING}")
        refuse_repeats(self.paths, {file.path: file.content_sha256 for file in self.files}.__getitem__)
        return group_files(self.files)

    @cached_property
    def _understood(self) -> list[Understood | None]:
        """How each group is read; None for two parallel files."""
        return [self._understand(group) for group in self.groups]

    def _understand(self, group: tuple[LearnedFile, ...]) -> Understood | None:
        if len(group) == 1:
            return understand(group[0], self.columns, self.tag)
        for name, value in (("columns", self.columns), ("tag", self.tag)):
            if value is not None:
                raise SettingError(f"`{name}` is for files of pairs, two parallel files have none; leave it out")
        source, target = group
        if source.count != target.count:
            lines = f"{source.path} has {number_of(source.count, 'line')} and {target.path} {target.count:,}"
            raise UserError(f"{lines}; parallel files need as many")
        return None

    @property
    def is_book(self) -> bool:
        """Whether they are the book's file, which has its own split."""
        return len(self.paths) == 1 and file_format(self.files[0]) == "book"

    @property
    def corpora(self) -> list[str]:
        """The name of each corpus: a file of pairs, or a source file with its target file."""
        return [_label(group) for group in self.groups]

    @property
    def num_lines(self) -> int:
        """Lines of all files, of parallel files those of one side; about as many as pairs."""
        return sum(group[0].count for group in self.groups)

    def check(self) -> None:
        """Check that the files can be read: learn what they are, and look at their first records.

        Raises:
            UserError: see `records`.
        """
        for understood in self._understood:
            if understood is not None:
                understood.first()

    def has_tags(self) -> bool:
        """Return whether the files have the column of tags.

        Raises:
            UserError: something else is wrong with them; see `records`.
        """
        replace(self, tag=None).check()
        try:
            self.check()
        except SettingError:
            return False
        return True

    def records(self) -> Iterator[RawRecord]:
        """Read the records from the beginning, one after the other.

        Raises:
            UserError: names and contents do not tell how the files belong together; a file is missing, damaged, empty
                or not text; parallel files differ in length (both counts are told); the format cannot be told; a chosen
                column is not there, or the format has none to choose.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = Path(folder, "pairs.tsv")
            ...     _ = path.write_text("Go.\\tVa !\\tby a friend\\nNo tab\\n")
            ...     for record in PairFiles(path).records():
            ...         print(record)
            RawPair(line=1, source='Go.', target='Va !', file='', tag='')
            BadRecord(line=2, reason='1 column(s), not 3', lines=1, file='')
        """
        for group, understood in zip(self.groups, self._understood, strict=True):
            records: Iterable[RawRecord]
            if understood is None:
                source, target = group
                records = map(RawPair, count(1), source.lines(), target.lines())
            else:
                records = understood.records(group[0].lines())
            if len(self.groups) > 1:
                label = _label(group)
                records = (record._replace(file=label) for record in records)
            yield from records

    def rows(self) -> Iterator[RawRecord]:
        """Read the records as `records` does; refuse the files where too many are broken or not in their encoding.

        Above a hundredth of undecoded records, the encoding is another; above a tenth of broken lines, the format is.
        One such record is never too many.

        Raises:
            UserError: with the counts, the first place, and what to do; or see `records`.
        """
        read = broken = undecoded = 0
        bad: RawPair | None = None
        torn: BadRecord | None = None
        limit = _FIRST_CHECK
        end: list[RawRecord | None] = [None]
        for record in chain(self.records(), end):
            if read >= limit or record is None:
                limit *= 2
                if bad is not None and undecoded > max(1, _UNDECODED * read):
                    path = self._undecoded_file(bad)
                    counts = f"{undecoded:,} of {read:,} pairs (first {bad.file or path.name}:{bad.line})"
                    raise UserError(f"{path}: {counts} are {encoding_advice(path, self.encoding)}")
                if torn is not None and broken > max(1, _BROKEN * read):
                    counts = f"{broken:,} of {read:,} lines are broken"
                    place = f"{torn.file or self.label}:{torn.line}"
                    raise UserError(f"{place}: {torn.reason}; {counts}, so mend the file or its format")
            if record is None:
                return
            if type(record) is RawPair:
                read += 1
                if not is_encodable(record.source, record.target) and _has_bad_byte(record):
                    undecoded += 1
                    bad = bad or record
            else:
                assert isinstance(record, BadRecord)
                read += record.lines
                broken += record.lines
                torn = torn or record
            yield record

    def _undecoded_file(self, pair: RawPair) -> Path:
        """Return the file whose bytes an undecoded pair has."""
        group = next((group for group in self.groups if _label(group) == pair.file), self.groups[0])
        return group[0 if BAD_BYTE.search(pair.source) else -1].path

    def read(self) -> list[Pair]:
        """Read the pairs, each cleaned as for a training. A broken line is an error.

        Returns:
            The pairs in the order of the files, with their tags.

        Raises:
            UserError: see `records`; or a line is not a pair with text on both sides. The message names the file and
                the line.
        """
        label = ", ".join(map(str, self.paths))
        pairs = []
        for row in self.records():
            if isinstance(row, BadRecord):
                raise UserError(f"{row.file or label}:{row.line}: {row.reason}; {_ADVICE}")
            pair = Pair(clean_text(row.source), clean_text(row.target), clean_text(row.tag) if row.tag else "")
            if problem := self._problem(row, pair):
                raise UserError(f"{row.file or label}:{row.line}: {problem}")
            pairs.append(pair)
        if not pairs:
            raise UserError(f"{label}: no pairs in it; give at least one")
        return pairs

    def _problem(self, row: RawPair, pair: Pair) -> str | None:
        """Return what is wrong with a row, and what to do."""
        if not is_encodable(row.source, row.target):
            if _has_bad_byte(row):
                return encoding_advice(self._undecoded_file(row), self.encoding)
            return f"half of a surrogate pair, no character; {_ADVICE}"
        return None if pair.source and pair.target else f"the source or the target is empty; {_ADVICE}"

    def about(self) -> list[str]:
        """Say how the files are understood, a line for each group: the format, the columns, and the first pair.

        Raises:
            UserError: see `records`.
        """
        lines = []
        for group, understood in zip(self.groups, self._understood, strict=True):
            if understood is None:
                parts = [f"{_label(group)}: parallel files"]
                texts = zip(group[0].head, group[1].head, strict=False)
                pair = next((texts for texts in texts if all(texts)), None)
            else:
                parts = [f"{_label(group)}: {FORMAT_NAMES[understood.kind]}"]
                first = understood.first()
                pair = first and (first.source, first.target)
                if layout := understood.layout:
                    choice = " (others can be chosen)" if self.columns is None and layout.width > 2 else ""
                    parts.append(f"{layout}{choice}")
            if pair is not None:
                parts.append(f"first pair {shown(pair[0])} → {shown(pair[1])}")
            lines.append(", ".join(parts))
        return lines

    def read_as(self, settings: Mapping[str, Any]) -> "PairFiles":
        """Return the files with the columns and the encoding that a run read them with, if they are its own.

        Args:
            settings: of the run's data. What was chosen here counts before what they say.

        Raises:
            UserError: a file cannot be read, or the settings are broken.
        """
        try:
            for part in (settings, *settings.get("sources", {}).values()):
                digests = {file["sha256"] for file in recorded_files(part)} if self.paths else ()
                if digests and all(file.sha256 in digests for file in self.files):
                    of_run = PairFiles.from_settings(part)
                    columns = self.columns or of_run.columns
                    return replace(self, columns=columns, encoding=self.encoding or of_run.encoding)
        except (AttributeError, LookupError, TypeError) as error:  # JSON values of another form
            reason = describe_error(error)
            raise UserError(f"the settings of the run's data are broken ({reason}); train again") from None
        return self


def recorded_files(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return path and checksum of each file in the settings of a part, also of older runs for dates; else nothing.

    Example:
        >>> recorded_files({"path": "a.en", "sha256": "0", "target_path": "a.de", "target_sha256": "1"})
        [{'path': 'a.en', 'sha256': '0'}, {'path': 'a.de', 'sha256': '1'}]
    """
    files = list(settings.get("files") or ())
    for side in ("", "target_"):
        if settings.get(f"{side}path"):
            files.append({name: settings[f"{side}{name}"] for name in ("path", "sha256")})
    return [*files, *(settings.get("further_files") or ())]


def _label(group: Iterable[LearnedFile]) -> str:
    return label_of(file.path for file in group)


def _has_bad_byte(pair: RawPair) -> bool:
    return bool(BAD_BYTE.search(pair.source) or BAD_BYTE.search(pair.target))


def read_pairs(
    *paths: str | os.PathLike[str], columns: Columns = None, encoding: str | None = None, tag: str | None = None
) -> list[Pair]:
    """Read pairs of texts, each cleaned as for a training. A broken line is an error.

    Args:
        paths: files of pairs (TSV, CSV, JSON lines, Anki's, the book's), or source and target in turn, plain or packed;
            see `PairFiles`. Each text is cleaned by :func:`selfattn.data.pairs.clean_text`, as every input of a model.
        columns: see `PairFiles`.
        encoding: see `PairFiles`.
        tag: see `PairFiles`.

    Returns:
        The pairs in the order of the files, with their tags.

    Raises:
        UserError: see `PairFiles.read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     read_pairs(path)
        [Pair(source='2/10/93', target='1993-02-10', tag='', spans=())]
    """
    return PairFiles(tuple(map(Path, paths)), columns, encoding, tag).read()
