"""The examples of an epoch, of which each of several processes has read and encoded a share.

All processes know how long every example is, so all of them cut the same batches. What is in the batches they give
each other shortly before it is needed, so none of them ever holds all of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from selfattn.data.batches import lengths_of
from selfattn.data.examples import Example
from selfattn.training.distributed.processes import Processes

AHEAD = 1000
"""Examples that are fetched at once."""


class SharedExamples:
    """The examples of an epoch, each encoded and held by one process.

    Args:
        own: this process's :attr:`~selfattn.training.distributed.processes.Processes.share` of them.
        processes: that have the others; each has to do the same with its own.

    Example:
        >>> shared = SharedExamples([Example([7, 2], [8, 9, 2]), Example([2], [2])], Processes())
        >>> shared.lengths(), [len(group) for group in shared.fetched([[1], [0]])]
        ([(2, 3), (1, 1)], [1, 1])
    """

    def __init__(self, own: Sequence[Example], processes: Processes) -> None:
        self.own, self.processes = own, processes

    def lengths(self) -> list[tuple[int, int]]:
        """Return how many ids the source and the target of every example have.

        Raises:
            UserError: what the processes have are not shares of the same.
        """
        return self.processes.joined([lengths_of(example) for example in self.own])

    def fetched(self, groups: Iterable[list[int]]) -> Iterator[list[Example]]:
        """Return the examples at the places of each group, some groups ahead of need.

        Args:
            groups: the same in all processes, which also have to go on alike.
        """
        rank, count = self.processes.rank, self.processes.count
        for some in _portions(groups):
            mine = (self.own[place // count] for group in some for place in group if place % count == rank)
            found = self.processes.gather([(example.source, example.target) for example in mine])
            rests = [iter(part) for part in found]
            for group in some:
                yield [Example(*next(rests[place % count])) for place in group]


def _portions(groups: Iterable[list[int]]) -> Iterator[list[list[int]]]:
    """Take groups together until they have ``AHEAD`` items."""
    some: list[list[int]] = []
    for group in groups:
        some.append(group)
        if sum(map(len, some)) >= AHEAD:
            yield some
            some = []
    if some:
        yield some


def shared_stream(own: Iterable[Example], processes: Processes) -> Iterator[Example]:
    """Go through all examples of a stream, of which every process encodes its share.

    Args:
        own: this process's share.
        processes: that have the others; each has to go on like this one.

    Raises:
        UserError: what the processes have are not shares of the same.

    Example:
        >>> len(list(shared_stream([Example([2], [2])] * 3, Processes())))
        3
    """
    rest = iter(own)
    if processes.count == 1:
        yield from rest
    while found := processes.joined(list(islice(rest, -(-AHEAD // processes.count)))):
        yield from found
