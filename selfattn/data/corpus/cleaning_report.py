"""What cleaning did: counts of every step, with the first places, as values and as lines to read."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.codec import Plain
from selfattn.errors import UserError

_PLACES = 3


@dataclass(frozen=True)
class CleaningStep(Plain):
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
class PartReport(Plain):
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
    dropped: tuple[CleaningStep, ...] = ()
    changed: tuple[CleaningStep, ...] = ()
    moved: tuple[CleaningStep, ...] = ()

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
class SharedPairs(Plain):
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
class HoldOut(Plain):
    """How parts were held out of the training pairs.

    Attributes:
        parts: their names.
        seed: that decided which.
        groups: how many connected components of pairs there were, each with a source or a target in common.
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
class CleaningReport(Plain):
    """What became of a corpus.

    Attributes:
        parts: one for each part; of a stream, the parts that are not streamed.
        shared: one for each held-out part; of a stream, none.
        length_ratio: characters of target for one of source that the ratio limit went by; None without that limit.
        split: how parts were held out; None where none was.

    Example:
        >>> part = PartReport("train", read=5, kept=4, dropped=(CleaningStep("empty", 1, ("a.tsv:2",)),))
        >>> report = CleaningReport((part,), (SharedPairs("test", sources=1, targets=0, either=1),), length_ratio=0.5)
        >>> print("\\n".join(report.lines()))
        train: 5 read, 4 kept, 1 left out
          left out, empty: 1 (a.tsv:2)
        test: 1 of its pairs shared with train (1 by source, 0 by target)
        target length expected: 0.50 characters for one of the source
    """

    parts: tuple[PartReport, ...]
    shared: tuple[SharedPairs, ...] = ()
    length_ratio: float | None = None
    split: HoldOut | None = None

    def part(self, name: str) -> PartReport:
        """Return the report of one part.

        Raises:
            KeyError: there is none of that name.
        """
        return {part.name: part for part in self.parts}[name]

    def lines(self) -> list[str]:
        """Say all of it in lines."""
        said = [line for part in self.parts for line in part.lines()]
        said += [] if self.split is None else [self.split.line()]
        said += [shared.line() for shared in self.shared]
        if self.length_ratio is not None:
            said.append(f"target length expected: {self.length_ratio:.2f} characters for one of the source")
        return said


class Tally:
    """Counts while a part is read; `report` makes the values of them.

    Args:
        label: what the places begin with, such as the file's name.

    Example:
        >>> tally = Tally("a.tsv")
        >>> tally.read = 2
        >>> tally.drop("empty", 2, "target")
        >>> tally.report("train", kept=1).dropped
        (CleaningStep(name='empty', count=1, places=('a.tsv:2 target',)),)
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.read = 0
        self._dropped: dict[str, CleaningStep] = {}
        self._changed: dict[str, CleaningStep] = {}

    def drop(self, step: str, line: int, found: str = "", *, count: int = 1) -> None:
        """Count lines that a step leaves out, from this one on."""
        self._note(self._dropped, step, line, found, count)

    def change(self, step: str, line: int) -> None:
        """Count a pair that a step changes."""
        self._note(self._changed, step, line, "", 1)

    def report(self, name: str, kept: int, moved: tuple[CleaningStep, ...] = ()) -> PartReport:
        """Return the counts as values."""
        return PartReport(name, self.read, kept, tuple(self._dropped.values()), tuple(self._changed.values()), moved)

    def _note(self, steps: dict[str, CleaningStep], name: str, line: int, found: str, count: int) -> None:
        known = steps.get(name, CleaningStep(name, 0))
        place = (f"{self.label}:{line}{' ' if found else ''}{found}",) if len(known.places) < _PLACES else ()
        steps[name] = CleaningStep(name, known.count + count, known.places + place)
