"""Pairs in three parts, wherever they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from selfattn.data.pairs import Pair


class PairData(ABC):
    """Pairs in three parts."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What makes the same data again, as plain JSON values."""

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of the data once they are used; nothing where nothing was done to them."""
        return ()

    @abstractmethod
    def sample(self) -> Sequence[Pair]:
        """Training pairs that show every character; the same for every seed."""

    @abstractmethod
    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """Training pairs of an epoch, counted from 0; ``None`` asks for as many as there are."""

    @abstractmethod
    def validation(self, count: int) -> list[Pair]:
        """Pairs to choose the best weights by, at most so many."""

    @abstractmethod
    def test(self, count: int | None) -> list[Pair]:
        """Pairs that nothing was chosen by, at most so many; the same for every seed."""

    @abstractmethod
    def known(self) -> Sequence[Pair] | None:
        """Everything that is not test; None where training and test cannot share a pair."""
