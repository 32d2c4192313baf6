"""Language models are compared by bits per character: counts of each text decide, are archived, and are verified."""

import math
import shutil

import pytest
import torch
from forging import differing
from small_runs import accept_changes

from selfattn.comparison import tested
from selfattn.comparison.compare import compare
from selfattn.comparison.preparation import prepare
from selfattn.comparison.report import PACKED
from selfattn.comparison.verify import verify
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.gates import unigrams
from selfattn.evaluation.metrics import counts_agree, make_metric, read_counts
from selfattn.report.write import RESULTS
from selfattn.results.record import read_record
from selfattn.runs.evaluate import answer, uniform_outputs
from selfattn.runs.load import load
from selfattn.runs.task import task_of_settings
from selfattn.tasks.lm import SPACE, LanguageModel

LINES = [f"{name} saw {other} {where} {number}." for name in ("Ann", "Ben", "Cy") for other in ("a cat", "two dogs")
         for where in ("at home", "in town") for number in range(12)]  # fmt: skip
SMALL = ("stack.dim=8", "stack.num_heads=2", "stack.ffn_dim=8", "stack.num_layers=1")
SETTINGS = {
    "models": ("first=decoder-only", "second=decoder-only"), "set": SMALL, "seeds": 2, "quick": True, "max_steps": 3,
    "validation_items": 10, "context": 16, "jobs": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture(scope="module")
def compared(text, tmp_path_factory):
    """A model under two names, with two seeds."""
    out = tmp_path_factory.mktemp("lm") / "out"
    compare("lm", out=out, data=text, **SETTINGS)
    return out


@pytest.fixture
def run(compared):
    return load(compared / "runs" / "first-seed0")


def test_for_a_uniform_model_bits_are_the_logarithm_of_the_vocabulary(run):
    pairs = [Pair("", line) for line in LINES[:5]]
    tokens = sum(len(line) + 1 for line in LINES[:5])  # the end of each counts
    with torch.no_grad():
        run.model.output.weight.zero_()
        run.model.output.bias.zero_()
    outputs = [output.text for output in answer(run, pairs)]
    bits = math.log2(len(run.tokenizer)) * tokens / (tokens - 5)
    assert make_metric("bits_per_character").of(outputs, pairs) == pytest.approx(bits)
    assert make_metric("perplexity").of(outputs, pairs) == pytest.approx(len(run.tokenizer))
    # A diverged training counts as such a model.
    assert all(map(counts_agree, outputs, [output.text for output in uniform_outputs(pairs, run.tokenizer)]))


def test_the_ratio_of_sums_decides_not_the_mean_of_ratios():
    outputs, texts = [f"{2 * math.log(2)} 3", f"{30 * math.log(2)} 11"], ["ab", "abcdefghij"]
    assert make_metric("bits_per_character").of(outputs, texts) == pytest.approx(32 / 12)
    assert make_metric("perplexity").of(outputs, texts) == pytest.approx(2 ** (32 / 14))
    with pytest.raises(UserError, match="is for language models"):  # an output of another model is no count
        make_metric("bits_per_character").of(["2008-11-13"], ["2008-11-13"])


def test_a_model_under_two_names_has_identical_outputs(compared):
    record = read_record(compared / RESULTS)
    assert [(test.word, test.identical) for test in record.pairs] == [("not told apart", True)]
    assert record.headline.metric == "bits_per_character"
    assert (record.test_items, record.differences, record.models[0].cut_off) == (13, (), None)
    gates = {gate.name for gate in record.gates}
    assert {"causal", "unigrams", "overlap", "validation = test", "matched budgets"} <= gates
    assert not {"endings", "variety"} & gates
    page = (compared / "report.html").read_text()
    assert "bits per character" in page
    assert "글자당 비트" in page


def test_every_figure_follows_from_weights_and_from_the_archive(compared, tmp_path):
    assert differing(compared) == []
    for name in (RESULTS, PACKED):
        shutil.copy(compared / name, tmp_path)
    assert differing(tmp_path) == []
    names = {finding.name for finding in verify(tmp_path)}
    assert {"models.first.metrics.bits_per_character", "models.first.metrics.perplexity"} <= names
    # Changed counts of a run differ from its weights.
    copy = shutil.copytree(compared, tmp_path / "copy")
    file = copy / "runs" / "first-seed0" / tested.ANSWERS
    output = tested.RunOnDisk(file.parent).outputs.answers[0].output
    nats, tokens = read_counts(output)
    changed = f"{nats - 0.1:.6f} {tokens}"
    assert not counts_agree(output, changed)
    file.write_text(file.read_text().replace(output, changed, 1))
    accept_changes(file.parent)
    assert "outputs of first-seed0" in differing(copy)


def test_files_for_validation_and_test_are_kept_apart_and_remembered(text, tmp_path):
    valid, test = tmp_path / "valid.txt", tmp_path / "test.txt"
    valid.write_text("Ann saw me.\n")
    test.write_text("Ben saw me.\nCy saw me.\n")
    splits = LanguageModel(data=text, valid=valid, test=test).splits(0)
    assert len(splits.train(0, None)) == len(LINES)
    for part in (splits, task_of_settings("lm", splits.settings, "run").splits(0)):
        assert part.validation(9) == [Pair("", "Ann saw me.")]
        assert [pair.target for pair in part.test(None)] == ["Ben saw me.", "Cy saw me."]
    held_out = LanguageModel(data=text).splits(0)
    parts = [{pair.target for pair in part} for part in (held_out.train(0, None), held_out.validation(99))]
    assert not {pair.target for pair in held_out.test(None)} & set().union(*parts)


def test_without_data_there_are_generated_lines():
    splits = LanguageModel().splits(0, 5)
    source, date = splits.test(1)[0].target.rsplit(" = ", 1)
    assert (bool(source), len(date)) == (True, len("2008-11-13"))
    assert task_of_settings("lm", splits.settings, "run").splits(0, 5).validation(5) == splits.validation(5)


def test_frequencies_alone_are_no_language_model(run):
    texts = LINES[:9]
    counts = torch.bincount(torch.tensor([id for line in LINES for id in [*run.tokenizer.encode(line), 2]]))
    shares = (1 + counts.double()) / (len(run.tokenizer) + counts.sum())
    ids = [id for line in texts for id in [*run.tokenizer.encode(line), 2]]
    nats = -float(shares.log()[ids].sum())

    def gate(factor):  # all nats of the texts stand at the first
        return unigrams(LINES, texts, [f"{factor * nats} 1", *["0 1"] * 8], run.tokenizer)

    assert gate(1).value == pytest.approx(1)
    assert (gate(1.01).passed, gate(0.99).passed) == (False, True)


@pytest.mark.parametrize("settings", [{}, {"quick": True, "tune": True}])
def test_batches_are_tuned_in_lines_also_in_a_quick_comparison(settings):
    assert prepare("lm", settings)[0].options.space == SPACE
