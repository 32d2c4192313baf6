"""Parts are checked when they are registered, and tried before they are used; the documented commands work."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_runs import Cli
from third_party import isolated_registries

from selfattn import registry
from selfattn.errors import UserError
from selfattn.plugin import Claim, Metric, TaskData
from selfattn.plugin_loading import load_plugin
from selfattn.registry import METRICS, REGISTRIES, SCORES, Registry, register

HERE = Path(__file__).parent
QUICK = "--quick --epochs 1 --items-per-epoch 64 --validation-items 5 --test-items 10 --seeds 1 --jobs 1"


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    with isolated_registries():
        yield


@pytest.mark.parametrize("options", ["--plan-only", pytest.param(QUICK, marks=pytest.mark.slow)])
def test_the_documented_comparison_of_a_task(cli: Cli, tmp_path: Path, options: str) -> None:
    command = f"compare reversal --models rnn-attention,transformer --match parameters {options} --out".split()
    done = cli("--plugin", HERE / "reversal_task.py", *command, tmp_path / "out")
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "report.html").is_file() == ("--quick" in options)


@pytest.mark.parametrize("wrong", ["not torch.is_grad_enabled() or 1 / 0", "torch.is_grad_enabled()"])
def test_a_part_that_fails_in_use_leaves_no_run(cli: Cli, tmp_path: Path, wrong: str) -> None:
    """In training, or in validation alone."""
    before, line, after = (HERE / "convolutional_family.py").read_text().partition("        x, last, maps =")
    plugin, out = tmp_path / "failing.py", tmp_path / "run"
    plugin.write_text(f"import torch\n{before}        assert {wrong}\n{line}{after}")
    small = ("--set", "dim=8", "--set", "embed_dim=5", "--items-per-epoch", 64, "--validation-items", 5)
    done = cli("--plugin", plugin, "train", "dates", "--model", "convolutional", *small, "--out", out)
    assert (done.code, done.err.count("\n")) == (2, 2), done.err
    assert "tried on two batches first" in done.err
    assert f"error: {plugin}:" in done.err
    assert not out.exists()


def test_a_metric_that_fails_is_told_before_anything_is_trained(cli: Cli, tmp_path: Path) -> None:
    load_plugin(str(HERE / "edit_similarity.py"))
    METRICS["edit_similarity"].counts = lambda self, outputs, references: 1 / 0
    options = ("--models", "rnn-plain", "--metric", "edit_similarity", "--out", tmp_path / "out")
    done = cli("compare", "dates", *options)
    assert (done.code, (tmp_path / "out").exists()) == (2, False)
    assert "error: metric 'edit_similarity': cannot score [" in done.err


class NoCounts(Metric):
    pass


class Percent(Metric):
    unit = "percent"  # type: ignore[assignment]  # what the test is about

    def counts(self, outputs, references):  # type: ignore[no-untyped-def]
        return outputs


class NoPairs(TaskData):
    pass


class LooseOptions(TaskData):
    Options = dict

    def pair(self, chance):  # type: ignore[no-untyped-def]
        return chance


class Silent(Claim):
    arms = measure = contrasts = blocks = lambda self: None  # type: ignore[assignment]
    source, seconds = "nobody", (1.0, 1.0)
    words = {"en": {}}  # noqa: RUF012


class HalfKorean(Silent):
    words = {"en": {"sentence": "Yes.", "rule": "None."}, "ko": {"sentence": "네."}}  # noqa: RUF012


@pytest.mark.parametrize(
    ("kind", "part", "message"),
    [
        ("metric", len, r"metric 'mine': expected a subclass of Metric, got <built-in function len>"),
        ("metric", NoCounts, "NoCounts has no counts"),
        ("metric", Percent, "unit 'percent': expected share or points"),
        ("task", NoPairs, r"NoPairs has none of pair\(\), pairs\(\) and splits\(\)"),
        ("task", LooseOptions, "options are a frozen dataclass"),
        ("section", NoPairs, "has no title and no blocks"),
        ("section", len, "expected a class"),
        ("claim", NoPairs, "expected a subclass of Claim"),
        ("claim", Silent, "its words have no sentence"),
        ("claim", HalfKorean, r"its words lack rule \(ko\)"),
    ],
)
def test_a_part_is_checked_when_it_is_registered(kind: str, part: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        getattr(register, kind)("mine")(part)
    registries: dict[str, Registry[object]] = {registry.what: registry for registry in REGISTRIES}
    assert "mine" not in registries[kind]


def test_threads_wait_for_the_parts_that_one_of_them_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "import time; from selfattn import registry; time.sleep(0.2); registry.SLOW.register('part')(object)"
    (tmp_path / "slow_home.py").write_text(slow)
    monkeypatch.syspath_prepend(str(tmp_path))
    parts: Registry[object] = Registry("part", "slow_home")
    monkeypatch.setattr(registry, "SLOW", parts, raising=False)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda name: parts[name], ["part", "part"])) == [object, object]


def test_threads_wait_for_a_plugin_that_one_of_them_loads(tmp_path: Path) -> None:
    slow = "import time; from selfattn.plugin import Score, register; time.sleep(0.2)\n"
    slow += "@register.score('slow')\nclass Slow(Score):\n    def forward(self, query, key): ...\n"
    (tmp_path / "slow.py").write_text(slow)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: (load_plugin(str(tmp_path / "slow.py")), SCORES["slow"]), range(2)))
