"""Tasks as plugins: splits and options of one that draws its pairs; one whose three files are given."""

from pathlib import Path

import pytest

from selfattn.cli.main import main
from selfattn.errors import SettingError, UserError
from selfattn.registry import TASKS, load_plugin
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.load import load
from selfattn.tokenizers.listed import LetterTokenizer, WordTokenizer

pytestmark = pytest.mark.usefixtures("isolated")
HERE = Path(__file__).parent


@pytest.fixture
def reversal(isolated):
    load_plugin(str(HERE / "reversal_task.py"))
    return TASKS["reversal"]


def test_its_parts_share_no_word_and_never_change(reversal):
    splits = reversal(longest=4).splits(seed=3)
    train, valid, test = splits.train(0, 500), splits.validation(40), splits.test(40)
    sources = [{pair.source for pair in part} for part in (train, valid, test)]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert len(sources[1]) == len(sources[2]) == 40
    assert all(pair.target == pair.source[::-1] for pair in (*train, *valid, *test))
    again = reversal(longest=4).splits(seed=4)
    assert (again.test(40), again.validation(40)) == (test, valid)
    assert again.train(0, 500) != train
    assert splits.train(1, 500) != train
    few = reversal(letters="ab").splits(0).test(1_000)  # there are no more
    assert 1 <= len(few) == len({pair.source for pair in few}) < 100
    with pytest.raises(UserError, match="of 20,000 pairs none falls into this part"):
        reversal(letters="a", longest=3).splits(0).test(1)


def test_its_options_are_checked(reversal):
    with pytest.raises(SettingError, match="`longest`: expected at least 3 letters, got 1"):
        reversal(longest=1)
    with pytest.raises(SettingError, match="`shorted`: there is no such setting here; did you mean `shortest`"):
        reversal(shorted=1)


def test_its_three_files_are_trained_and_tested_on(tmp_path):
    for part, numbers in (("train", range(100, 200)), ("dev", range(200, 220)), ("test", range(300, 330))):
        lines = [f"{n}\t{' '.join(f'<{digit}>' for digit in str(n))}\n" for n in numbers]
        (tmp_path / f"xyz_{part}.tsv").write_text("".join(lines), "utf-8")
    run = tmp_path / "run"
    options = ["--folder", tmp_path, "--word-language", "xyz", "--model", "rnn-attention", "--epochs", 1, "--out", run]
    small = ["--set", "encoder.hidden_dim=16", "--set", "decoder.hidden_dim=16"]
    main([str(word) for word in ("--plugin", HERE / "given_files.py", "train", "pronunciation", *options, *small)])
    trained = load(run)
    assert isinstance(trained.tokenizer.source, LetterTokenizer)
    assert isinstance(trained.tokenizer.target, WordTokenizer)
    results = evaluate_run(trained)
    further = evaluate_run(trained, metric="bleu_tokens,ter")
    assert results["items"] == 30
    assert {"word_error_rate", "phone_error_rate"} <= results["metrics"].keys()
    assert results["metrics"]["word_error_rate"] == pytest.approx(1 - results["metrics"]["exact_match"])
    assert further["metrics"].keys() - results["metrics"].keys() == {"bleu_tokens", "ter"}
