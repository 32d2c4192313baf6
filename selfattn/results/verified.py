"""What verifying a record gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recomputation:
    """A figure of a record, or the outputs of a run, beside what was computed again.

    Attributes:
        name: path in the record, or name of the run.
        differences: what differs; empty where all values agree.
        values: number of values that were compared.
    """

    name: str
    differences: tuple[str, ...]
    values: int

    @property
    def line(self) -> str:
        """The finding as a line."""
        if not self.differences:
            return f"agrees   {self.name}"
        more = f" and {len(self.differences) - 1} more" if len(self.differences) > 1 else ""
        return f"DIFFERS  {self.name}: {self.differences[0]}{more}"
