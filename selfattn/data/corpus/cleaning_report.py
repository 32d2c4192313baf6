"""What cleaning did: counts of every step, with the first places, as values and as lines to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from selfattn.errors import UserError

_PLACES = 3


@dataclass(frozen=True)
class Step:
    """One step of cleaning one part.

    Attributes:
        name: such as ``"empty"``.
        count: lines or pairs that it met.
        places: the first few of them, as ``file:line``, each with what was found there where that is known.
    """

    name: str
    count: int
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartReport:
    """What became of one part: ``read`` is ``kept`` and all that was dropped or moved.

    Attributes:
        name: ``"train"``, ``"valid"`` or ``"test"``.
        read: lines or records read.
        kept: pairs in the part now.
        dropped: steps that left lines out; each line counts for the first step that met it.
        changed: steps that changed texts of kept pairs (a pair may be in several).
        moved: pairs that were held out of this part for another.
    """

    name: str
    read: int
    kept: int
    dropped: tuple[Step, ...] = ()
    changed: tuple[Step, ...] = ()
    moved: tuple[Step, ...] = ()

    def lines(self) -> list[str]:
        """Say it in lines."""
        gone = sum(step.count for step in self.dropped)
        moved = "".join(f", {step.count:,} moved to {step.name}" for step in self.moved)
        said = [f"{self.name}: {self.read:,} read, {self.kept:,} kept, {gone:,} left out{moved}"]
        for word, steps in (("left out", self.dropped), ("changed", self.changed)):
            for step in steps:
                places = f" ({'; '.join(step.places)}{'; ...' if step.count > len(step.places) else ''})"
                said.append(f"  {word}, {step.name}: {step.count:,}{places if step.places else ''}")
        return said

    def refuse_empty(self, label: str) -> None:
        """Raise where nothing is left.

        Args:
            label: of what was read.

        Raises:
            UserError: no pair was kept; the message has the counts and the first place.
        """
        if not self.kept:
            steps = ", ".join(f"{step.name} {step.count:,}" for step in self.dropped) or "there was none"
            first = f"; first: {self.dropped[0].places[0]}" if self.dropped else ""
            raise UserError(
                f"{label}: no pair is left for {self.name} after cleaning ({steps}{first}); correct the file"
            )


@dataclass(frozen=True)
class Shared:
    """Held-out pairs that the clean training pairs show too, before any are taken out of training.

    Attributes:
        part: ``"valid"`` or ``"test"``.
        sources: its pairs whose source is some training pair's source.
        targets: its pairs whose target is some training pair's target.
        either: its pairs for which one or the other holds.
    """

    part: str
    sources: int
    targets: int
    either: int

    def line(self) -> str:
        """Say it in a line."""
        return (
            f"{self.part}: {self.either:,} of its pairs shared with train "
            f"({self.sources:,} by source, {self.targets:,} by target)"
        )


@dataclass(frozen=True)
class Split:
    """How parts were held out of the training pairs.

    Attributes:
        parts: their names.
        seed: that they were dealt by.
        groups: how many groups of pairs there were, each with a source or a target in common.
        largest: pairs of the largest.
    """

    parts: tuple[str, ...]
    seed: int
    groups: int
    largest: int

    def line(self) -> str:
        """Say it in a line."""
        return (
            f"{' and '.join(self.parts)}: held out of train by sentence (seed {self.seed}): {self.groups:,} groups of "
            f"pairs that share a source or a target, the largest of {self.largest:,}, none divided"
        )


@dataclass(frozen=True)
class CleaningReport:
    """What became of a corpus.

    Attributes:
        parts: one for each part; of a stream, the parts that are not streamed.
        shared: one for each held-out part; of a stream, none.
        length_ratio: characters of target for one of source that the ratio limit went by; None without that limit.
        split: how parts were held out; None where none was.

    Example:
        >>> part = PartReport("train", read=5, kept=4, dropped=(Step("empty", 1, ("a.tsv:2",)),))
        >>> report = CleaningReport((part,), (Shared("test", sources=1, targets=0, either=1),), length_ratio=0.5)
        >>> print("\\n".join(report.lines()))
        train: 5 read, 4 kept, 1 left out
          left out, empty: 1 (a.tsv:2)
        test: 1 of its pairs shared with train (1 by source, 0 by target)
        target length expected: 0.50 characters for one of the source
    """

    parts: tuple[PartReport, ...]
    shared: tuple[Shared, ...] = ()
    length_ratio: float | None = None
    split: Split | None = None

    def part(self, name: str) -> PartReport:
        """Return the report of one part.

        Raises:
            KeyError: there is none of that name.
        """
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)

    def lines(self) -> list[str]:
        """Say all of it in lines."""
        said = [line for part in self.parts for line in part.lines()]
        said += [] if self.split is None else [self.split.line()]
        said += [shared.line() for shared in self.shared]
        if self.length_ratio is not None:
            said.append(f"target length expected: {self.length_ratio:.2f} characters for one of the source")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON; `from_dict` reads them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CleaningReport:
        """Make the report of what `to_dict` returned, JSON in between or not."""

        def steps(part: Mapping[str, Any], kind: str) -> tuple[Step, ...]:
            return tuple(Step(step["name"], step["count"], tuple(step["places"])) for step in part[kind])

        parts = tuple(
            PartReport(
                part["name"],
                part["read"],
                part["kept"],
                steps(part, "dropped"),
                steps(part, "changed"),
                steps(part, "moved"),
            )
            for part in values["parts"]
        )
        split = values["split"]
        return cls(
            parts,
            tuple(Shared(**shared) for shared in values["shared"]),
            values["length_ratio"],
            None if split is None else Split(**split | {"parts": tuple(split["parts"])}),
        )


class Tally:
    """Counts while a part is read; `report` makes the values of them.

    Args:
        label: what the places begin with, such as the file's name.

    Example:
        >>> tally = Tally("a.tsv")
        >>> tally.read = 2
        >>> tally.drop("empty", 2, "target")
        >>> tally.report("train", kept=1).dropped
        (Step(name='empty', count=1, places=('a.tsv:2 target',)),)
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.read = 0
        self._dropped: dict[str, tuple[int, list[str]]] = {}
        self._changed: dict[str, tuple[int, list[str]]] = {}

    def drop(self, step: str, line: int, found: str = "", *, count: int = 1) -> None:
        """Count lines that a step leaves out, from this one on."""
        self._note(self._dropped, step, line, found, count)

    def change(self, step: str, line: int) -> None:
        """Count a pair that a step changes."""
        self._note(self._changed, step, line, "", 1)

    def report(self, name: str, kept: int, moved: tuple[Step, ...] = ()) -> PartReport:
        """Return the counts as values."""
        dropped, changed = (
            tuple(Step(step, count, tuple(places)) for step, (count, places) in steps.items())
            for steps in (self._dropped, self._changed)
        )
        return PartReport(name, self.read, kept, dropped, changed, moved)

    def _note(self, steps: dict[str, tuple[int, list[str]]], step: str, line: int, found: str, count: int) -> None:
        before, places = steps.get(step, (0, []))
        if len(places) < _PLACES:
            places.append(f"{self.label}:{line}{' ' if found else ''}{found}")
        steps[step] = (before + count, places)
