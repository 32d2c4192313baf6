"""Parts are checked when registered and tried before they are used; a run records its plugins and misses them."""

import hashlib
import importlib
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest
from third_party import FILES

import selfattn
import selfattn.plugin
from selfattn import registry
from selfattn.attention import EmbeddingPosition, Position, Score
from selfattn.errors import UserError
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.plugin import Claim, Metric, TaskData
from selfattn.registry import METRICS, REGISTRIES, SCORES, Registry, load_plugin, register, version_of

pytestmark = pytest.mark.usefixtures("isolated")
QUICK = "--quick --epochs 1 --items-per-epoch 64 --validation-items 5 --test-items 10 --seeds 1 --jobs 1"


@pytest.mark.parametrize("options", ["--plan-only --test-items 10", pytest.param(QUICK, marks=pytest.mark.slow)])
def test_the_documented_comparison_of_a_task(cli, tmp_path, options):
    command = f"compare reversal --models rnn-attention,transformer --match parameters {options} --out".split()
    done = cli("--plugin", FILES / "reversal_task.py", *command, tmp_path / "out")
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "report.html").is_file() == ("--quick" in options)


@pytest.mark.parametrize("wrong", ["not torch.is_grad_enabled() or 1 / 0", "torch.is_grad_enabled()"])
def test_a_part_that_fails_in_use_leaves_no_run(cli, tmp_path, wrong):
    """In training, or in validation alone."""
    before, line, after = (FILES / "convolutional_family.py").read_text().partition("        x, last, maps =")
    plugin, out = tmp_path / "failing.py", tmp_path / "run"
    plugin.write_text(f"import torch\n{before}        assert {wrong}\n{line}{after}")
    small = ("--set", "dim=8", "--set", "embed_dim=5", "--items-per-epoch", 64, "--validation-items", 5)
    done = cli("--plugin", plugin, "train", "dates", "--model", "convolutional", *small, "--out", out)
    assert (done.code, done.err.count("\n")) == (2, 2), done.err
    assert "tried on two batches first" in done.err
    assert f"error: {plugin}:" in done.err
    assert not out.exists()


def test_a_metric_that_fails_is_told_before_anything_is_trained(cli, tmp_path):
    load_plugin(str(FILES / "edit_similarity.py"))
    METRICS["edit_similarity"].counts = lambda self, outputs, references: 1 / 0
    options = ("--models", "rnn-plain", "--metric", "edit_similarity", "--out", tmp_path / "out")
    done = cli("compare", "dates", *options)
    assert (done.code, (tmp_path / "out").exists()) == (2, False)
    assert "error: metric 'edit_similarity': cannot score [" in done.err


def mine(base, **attributes):
    return type("Mine", (base,), attributes)


NOTHING, NO_PAIRS, ENGLISH = lambda *given: None, mine(TaskData), {"sentence": "Yes.", "rule": "None."}
SILENT = {
    "source": "nobody",
    "seconds": (1.0, 1.0),
    **dict.fromkeys(("arms", "measure", "contrasts", "blocks"), NOTHING),
}


@pytest.mark.parametrize(
    ("kind", "part", "message"),
    [
        ("score", lambda query, key: query @ key.mT, "score 'mine': expected a subclass of Score, got"),
        ("score", mine(Score), "score 'mine': Mine has no forward"),
        ("position", Position, "position 'mine': expected a subclass of EmbeddingPosition or AttentionPos"),
        ("position", mine(EmbeddingPosition), "position 'mine': Mine has no forward"),
        ("family", Seq2Seq, "model family 'mine': expected a subclass of ModelConfig, got"),
        ("family", mine(ModelConfig), "model family 'mine': Mine is no dataclass; put @data"),
        ("family", dataclass(mine(ModelConfig)), "model family 'mine': Mine has no build"),
        ("preset", ModelConfig, "model 'mine': expected a Preset, got type"),
        ("metric", len, "metric 'mine': expected a subclass of Metric, got <built-in function len>"),
        ("metric", mine(Metric), "Mine has no counts"),
        ("metric", mine(Metric, unit="percent", counts=NOTHING), "unit 'percent': expected share or points"),
        ("task", NO_PAIRS, "Mine has none of pair(), pairs() and splits()"),
        ("task", mine(TaskData, Options=dict, pair=NOTHING), "options are a frozen dataclass"),
        ("section", NO_PAIRS, "has no title and no blocks"),
        ("section", len, "expected a class"),
        ("claim", NO_PAIRS, "expected a subclass of Claim"),
        ("claim", mine(Claim, **SILENT, words={"en": {}}), "its words have no sentence"),
        ("claim", mine(Claim, **SILENT, words={"en": ENGLISH, "ko": {"sentence": "네."}}), "its words lack rule (ko)"),
    ],
)
def test_a_part_is_checked_when_it_is_registered(kind, part, message):
    with pytest.raises(UserError, match=re.escape(message)):
        getattr(register, kind)("mine")(part)
    assert not [each for each in REGISTRIES if "mine" in each]


def test_a_name_is_taken_once():
    for kind, name in (("section", "cost"), ("score", "dot")):
        with pytest.raises(UserError, match=f"{kind} '{name}': the name is taken"):
            getattr(register, kind)(name)(object)


def test_threads_wait_for_what_one_of_them_imports_or_loads(tmp_path, monkeypatch):
    slow = "import time; from selfattn import registry; time.sleep(0.2); registry.SLOW.register('part')(object)"
    (tmp_path / "slow_home.py").write_text(slow)
    monkeypatch.syspath_prepend(str(tmp_path))
    parts = Registry("part", "slow_home")
    monkeypatch.setattr(registry, "SLOW", parts, raising=False)
    slow = "import time; from selfattn.plugin import Score, register; time.sleep(0.2)\n"
    slow += "@register.score('slow')\nclass Slow(Score):\n    def forward(self, query, key): ...\n"
    (tmp_path / "slow.py").write_text(slow)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda name: parts[name], ["part", "part"])) == [object, object]
        list(pool.map(lambda _: (load_plugin(str(tmp_path / "slow.py")), SCORES["slow"]), range(2)))


@pytest.mark.parametrize("module", [selfattn, selfattn.plugin])
def test_every_name_exists(module):
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module) or module is selfattn.plugin
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("path", sorted(FILES.glob("*.py")))
def test_a_plugin_needs_one_import(path):
    text = path.read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("from selfattn", "import selfattn"))]
    assert [line.split()[:2] for line in imports] == [["from", "selfattn.plugin"]]


# Which plugins a run records, and what happens when they are missing or have changed

SETTINGS = {"model": "rnn-attention", "epochs": 1, "items_per_epoch": 16, "validation_items": 2}
SETTINGS["set"] = ("decoder.score=cosine", "encoder.hidden_dim=8", "decoder.hidden_dim=8")


@pytest.fixture
def my_score(isolated, tmp_path, monkeypatch):
    """A plugin file that can also be imported as a module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield shutil.copy(FILES / "cosine_score.py", tmp_path / "my_score.py")
    sys.modules.pop("my_score", None)


def test_an_imported_module_counts_and_an_installed_one_is_read_by_load(my_score, tmp_path, monkeypatch):
    importlib.import_module("my_score")
    run = selfattn.train("dates", out=tmp_path / "run", **SETTINGS)
    ((name, version),) = run.config.plugins.items()
    assert (name, version[:7], len(version)) == ("my_score", "sha256:", 71)
    assert selfattn.load(run.path).config.plugins == run.config.plugins
    registry._loaded.clear()
    point = EntryPoint("mine", "my_score", "selfattn.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    monkeypatch.setattr(registry, "_installed", False)
    assert selfattn.load(run.path).predict(["1 May 1999"])


def test_a_run_records_what_it_uses_and_tells_what_has_changed_or_is_missing(my_score, train, tmp_path, capsys):
    selfattn.load_plugin(str(my_score))
    assert train("rnn-plain", tmp_path / "plain").config.plugins == {}
    run = selfattn.train("dates", out=tmp_path / "run", **SETTINGS)
    assert list(run.config.plugins) == [str(my_score)]
    registry._loaded[str(my_score)] = "sha256:another"
    capsys.readouterr()
    assert selfattn.load(run.path).predict(["1 May 1999"])
    assert "my_score.py is not the same as when this was made" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"my_score\.py is not the same .*; restore it, or start anew"):
        selfattn.train("dates", out=run.path, resume=True, **SETTINGS)
    registry._loaded.clear()
    with pytest.raises(UserError, match=r"needs plugins that are not loaded .*; give `plugin` .*my_score\.py$"):
        selfattn.load(run.path)


def test_a_plugin_is_known_by_its_own_file(tmp_path):
    (tmp_path / "bare.py").write_text("import near\n")
    digest = hashlib.sha256((tmp_path / "bare.py").read_bytes()).hexdigest()
    for text in ("", "# changed\n"):
        (tmp_path / "near.py").write_text(text)
        assert version_of("bare", str(tmp_path / "bare.py")) == f"sha256:{digest}"
