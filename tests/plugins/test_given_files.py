"""A task with given files as a plugin: trained from the command line, tested on its own test file."""

from pathlib import Path

import pytest
from third_party import isolated_registries

from selfattn.cli.main import main
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.load import load
from selfattn.tokenizers.listed import LetterTokenizer, WordTokenizer

PLUGIN = str(Path(__file__).with_name("given_files.py"))


def test_its_three_files_are_trained_and_tested_on(tmp_path: Path) -> None:
    for part, numbers in (("train", range(100, 200)), ("dev", range(200, 220)), ("test", range(300, 330))):
        lines = [f"{n}\t{' '.join(f'<{digit}>' for digit in str(n))}\n" for n in numbers]
        (tmp_path / f"xyz_{part}.tsv").write_text("".join(lines), "utf-8")
    run = tmp_path / "run"
    options = ["--folder", tmp_path, "--word-language", "xyz", "--model", "rnn-attention", "--epochs", 1, "--out", run]
    small = ["--set", "encoder.hidden_dim=16", "--set", "decoder.hidden_dim=16"]
    with isolated_registries():
        main([str(word) for word in ("--plugin", PLUGIN, "train", "pronunciation", *options, *small)])
        trained = load(run)
        assert isinstance(trained.tokenizer.source, LetterTokenizer)
        assert isinstance(trained.tokenizer.target, WordTokenizer)
        results = evaluate_run(trained)
        further = evaluate_run(trained, metric="bleu_tokens,ter")
    assert results["items"] == 30
    assert {"word_error_rate", "phone_error_rate"} <= results["metrics"].keys()
    assert results["metrics"]["word_error_rate"] == pytest.approx(1 - results["metrics"]["exact_match"])
    assert further["metrics"].keys() - results["metrics"].keys() == {"bleu_tokens", "ter"}
