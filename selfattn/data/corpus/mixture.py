"""Corpora in chosen shares: how many pairs of each an epoch has, and which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfattn.data.pairs import Pair
from selfattn.data.splits import FiniteSplits, repeated
from selfattn.errors import SettingError, number_of
from selfattn.streams import seed_for


@dataclass(frozen=True)
class Mixture:
    """Shares of corpora in a training: by weights, or by their sizes with a temperature.

    Attributes:
        labels: names of the corpora, in the order of the files.
        weights: of the corpora, in proportion to which they are drawn; empty with a temperature.
        temperature: a corpus of n pairs has a share in proportion to n^(1/T): 1 leaves the sizes, a large T makes all
            shares equal (Arivazhagan et al. 2019). None with weights.

    Example:
        >>> Mixture(("a", "b"), (3.0, 1.0)).shares([10, 90])
        [0.75, 0.25]
        >>> Mixture(("a", "b"), temperature=2.0).shares([1, 9])
        [0.25, 0.75]
    """

    labels: tuple[str, ...]
    weights: tuple[float, ...] = ()
    temperature: float | None = None

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Return the share of each corpus.

        Args:
            sizes: number of pairs of each.
        """
        sampled = self.weights
        if self.temperature is not None:
            largest = max(sizes)
            sampled = tuple((size / largest) ** (1 / self.temperature) for size in sizes)
        total = sum(sampled)
        return [weight / total for weight in sampled]

    def counts(self, sizes: Sequence[int], total: int) -> list[int]:
        """Return how many pairs of each corpus an epoch has.

        The largest remainders are rounded up, so that the numbers add up to the total. Each corpus has at least a pair.

        Args:
            sizes: number of pairs of each corpus.
            total: pairs of an epoch, at least one for each corpus.

        Example:
            >>> Mixture(("a", "b", "c"), (1.0, 1.0, 1.0)).counts([5, 5, 5], 8)
            [3, 3, 2]
        """
        exact = [share * total for share in self.shares(sizes)]
        counts = [max(1, int(number)) for number in exact]
        by_remainder = sorted(range(len(exact)), key=lambda place: counts[place] - exact[place])
        step = 0
        while sum(counts) < total:
            counts[by_remainder[step % len(counts)]] += 1
            step += 1
        while sum(counts) > total:  # tiny shares had a pair each; the largest corpora give them
            counts[counts.index(max(counts))] -= 1
        return counts


class MixedSplits(FiniteSplits):
    """Three parts, of whose training part every epoch has other pairs, in the shares of a mixture.

    An epoch has as many pairs as the training part, unless `items_per_epoch` gives another number. Each corpus is gone
    through in ever new orders: what an epoch does not reach of a large corpus comes in the next, and a small corpus
    repeats. Which pairs an epoch has depends on the seed and its number alone.
    """

    is_same_each_epoch = False

    def mix(self, mixture: Mixture, origins: Mapping[tuple[str, str], str]) -> None:
        """Divide the training part into the corpora that its pairs come from, and add notes.

        Args:
            mixture: the shares.
            origins: the label of each pair's corpus.

        Raises:
            SettingError: no pair of a corpus is left.
        """
        by_label: dict[str, list[Pair]] = {label: [] for label in mixture.labels}
        for pair in self.parts["train"]:
            by_label[origins[pair.source, pair.target]].append(pair)
        for label, pairs in by_label.items():
            if not pairs:
                raise SettingError(f"`data` {label}: no pair of it is left to train on; leave the file out")
        self.mixture = mixture
        self.corpora = list(by_label.values())
        sizes = [len(pairs) for pairs in self.corpora]
        total = sum(sizes)
        counts = mixture.counts(sizes, total)
        lines = []
        for label, share, size, count in zip(mixture.labels, mixture.shares(sizes), sizes, counts, strict=True):
            passes = f"{count / size:.2f} passes through {size:,}"
            lines.append(
                f"  {label}: {100 * share:.1f} % of the training, {number_of(count, 'pair')} an epoch ({passes})"
            )
        self.notes = [*self.notes, f"mixture of {len(sizes)} corpora, {total:,} pairs an epoch:", *lines]
        shares = {"weights": list(mixture.weights)}
        self.settings["mixture"] = shares if mixture.temperature is None else {"temperature": mixture.temperature}

    def train(self, epoch: int, count: int | None) -> Sequence[Pair]:
        """Return the pairs of an epoch, corpus by corpus."""
        sizes = [len(pairs) for pairs in self.corpora]
        total = sum(sizes) if count is None else count
        if total < len(sizes):
            raise SettingError(f"`items_per_epoch` {total}: fewer than the {len(sizes)} corpora; give more")
        mixed: list[Pair] = []
        for place, number in enumerate(self.mixture.counts(sizes, total)):
            seed = seed_for(self.seed, f"data/corpus/{place}")
            mixed += repeated(self.corpora[place], number, start=epoch * number, seed=seed)
        return mixed
