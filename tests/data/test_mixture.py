"""Several corpora with weights or a temperature: shares of an epoch, the same for the same seed, refused by name."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from marian_model import pairs, write_pairs
from training_parts import StopAt, Stopped

from selfattn.data.pairs import Pair
from selfattn.data.splits import Mixture
from selfattn.runs.load import load
from selfattn.runs.train import train
from selfattn.tasks.translation import Translation

BRIEF: dict[str, Any] = {
    "source": "en", "target": "de", "model": "rnn-plain", "tokenizer": "words", "batch_size": 16, "epochs": 2,
    "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"), "validation_items": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A large and a small corpus, in two formats: a table and parallel files would not mix, so two tables."""
    folder = tmp_path_factory.mktemp("corpora")
    return write_pairs(folder / "large.tsv", 1, 300), write_pairs(folder / "small.tsv", 2, 60)


def origin(files: tuple[Path, Path]) -> dict[str, str]:
    small = {source for source, _ in pairs(2, 60)}
    large = {source for source, _ in pairs(1, 300)}
    return dict.fromkeys(small, "small") | dict.fromkeys(large, "large")


def epoch(number: int, seed: int, count: int | None = None, **settings: Any) -> list[Pair]:
    return list(Translation(source="en", target="de", **settings).splits(seed).train(number, count))


@pytest.mark.parametrize(
    ("settings", "share"), [({"weights": (1, 3)}, 0.75), ({"temperature": 1000.0}, 0.5), ({"weights": (9, 1)}, 0.1)]
)
def test_shares_of_an_epoch(files: tuple[Path, Path], settings: dict[str, Any], share: float) -> None:
    drawn = epoch(0, 0, data=files, **settings)
    counts = Counter(origin(files)[pair.source] for pair in drawn)
    total = len(Translation(source="en", target="de", data=files).splits(0).parts["train"])  # type: ignore[attr-defined]
    assert sum(counts.values()) == total
    assert abs(counts["small"] / total - share) < 0.01
    assert len(epoch(0, 0, 40, data=files, **settings)) == 40


def test_epochs_go_through_each_corpus(files: tuple[Path, Path]) -> None:
    """An epoch depends on seed and number alone; later ones bring the pairs that the first ones did not reach."""
    settings: dict[str, Any] = {"data": files, "weights": (1, 3)}
    assert epoch(3, 0, **settings) == epoch(3, 0, **settings)
    assert epoch(3, 0, **settings) != epoch(4, 0, **settings)
    assert epoch(3, 0, **settings) != epoch(3, 1, **settings)
    seen = [pair for number in range(4) for pair in epoch(number, 0, **settings)]
    counts = Counter(pair for pair in seen if origin(files)[pair.source] == "large")
    sizes = Translation(source="en", target="de", **settings).splits(0).corpora  # type: ignore[attr-defined]
    passes = {4 * len([pair for pair in epoch(0, 0, **settings) if origin(files)[pair.source] == "large"])}
    assert sum(counts.values()) in passes
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(counts) == min(len(sizes[0]), sum(counts.values()))


def test_a_temperature_of_one_leaves_the_sizes() -> None:
    assert Mixture(("a", "b"), temperature=1.0).shares([30, 10]) == [0.75, 0.25]
    assert Mixture(("a", "b", "c"), (1e-6, 1e-6, 1.0)).counts([1, 1, 9], 5) == [1, 1, 3]


def test_a_training_is_told_its_shares_and_resumes(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Stopped after an epoch and resumed, the weights are those of a training that did not stop, bit for bit."""
    settings = BRIEF | {"data": files, "weights": (1, 3)}
    full = train("translation", out=tmp_path / "full", **settings)
    with pytest.raises(Stopped):
        train("translation", out=tmp_path / "stopped", observers=[StopAt(25)], **settings)
    resumed = train("translation", out=tmp_path / "stopped", resume=True, **settings)
    for name, tensor in resumed.model.state_dict().items():
        assert tensor.equal(full.model.state_dict()[name]), name
    assert load(full.path).config.data["mixture"] == {"weights": [1, 3]}
    notes = "\n".join(Translation(source="en", target="de", data=files, weights=(1, 3)).splits(0).notes)
    assert "large.tsv: 25.0 % of the training" in notes
    assert "small.tsv: 75.0 % of the training" in notes
