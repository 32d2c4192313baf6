"""How far the claims of a run are."""

from __future__ import annotations

from collections.abc import Sequence

from selfattn.claims.units import Work
from selfattn.comparison.running.live import Live


class Shown(Live):
    """Shows how far all works are.

    Args:
        works: of the claims, whose units are counted.
    """

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__(width=24)
        self.works, self.running = works, 1  # units that go on at once, for the estimate of what is left
        self._told: set[str] = set()
        self._bar = self.bars.add_task("claims", total=None, text="")

    def ended(self, work: Work) -> None:
        """Say when a claim has come to its end."""
        name = work.claim.name
        if work.is_over and name not in self._told:
            self._told.add(name)
            seconds = sum(done.trial.seconds for done in work.done.values())
            self.say(f"{name}: {len(work.done)} units, {seconds:,.0f} s, all added up")

    def look(self) -> None:
        """Show how many units have ended, and about how long the others take."""
        ended = sum(len(work.done) + len(work.failed) for work in self.works)
        total, left = sum(work.total for work in self.works), sum(work.left for work in self.works)
        text = f"{ended} of {total} units, about {left / self.running / 60:.0f} min left"
        self.bars.update(self._bar, completed=ended, total=total, text=text)
        self.tell(text)
