"""`predict --prefix`, `--prefixes` and `--no-repeat-ngram`, with every engine or refused by name."""

from pathlib import Path

import pytest
from small_runs import Cli, Exported

from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load
from selfattn.runs.run import Run

LANGUAGE_MODEL = Path(__file__).parents[1] / "fixtures/formats/run-lm"
TEXTS = ["May 1, 2001", "", "11/13/08"]
STDIN = "\n".join(TEXTS) + "\n"


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_begin_with_a_prefix(cli: Cli, runs: dict[str, Run], tmp_path: Path, beam: int) -> None:
    run = runs["rnn-attention"]
    lines = cli("predict", run.path, "--prefix", "19", "--beam", beam, stdin=STDIN).out.splitlines()
    assert [line[:2] for line in lines] == ["19", "", "19"]
    assert lines == run.predict(TEXTS, prefix="19", beam=beam)
    file = tmp_path / "prefixes.txt"
    file.write_text("19\n\n2008-1\n")
    lines = cli("predict", run.path, "--prefixes", file, "--beam", beam, stdin=STDIN).out.splitlines()
    assert lines == run.predict(TEXTS, prefix=["19", None, "2008-1"], beam=beam)
    assert lines[2].startswith("2008-1")
    assert run.predict(TEXTS, prefix="") == run.predict(TEXTS)


def test_prefixes_that_do_not_fit_are_refused(runs: dict[str, Run]) -> None:
    run = runs["transformer"]
    with pytest.raises(SettingError, match="expected a prefix for each of 3 texts, got 2"):
        run.predict(TEXTS, prefix=["1", "2"])
    with pytest.raises(SettingError, match="prefix 1: expected a text or None, got 1"):
        run.predict(TEXTS, prefix=[1, 2, 3])  # type: ignore[list-item]
    with pytest.raises(UserError, match="prefix 2: the model cannot write '한'"):
        run.predict(TEXTS, prefix=["", "한", ""])


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("engine", ["onnx", "ctranslate2"])
def test_engines_begin_with_a_prefix_too(runs: dict[str, Run], exported_run: Exported, engine: str, beam: int) -> None:
    run, exported = runs["transformer"], exported_run("transformer", engine)
    prefix = ["1", "", "2008-1"]
    options = DecodingOptions(beam=beam, max_length=12)
    if engine == "ctranslate2" and beam > 1:
        with pytest.raises(UserError, match="`prefix` with a beam: CTranslate2 computes it in another way"):
            exported.decode(TEXTS, options, prefix=prefix)
        return
    ended = [output.text if output.finished else output.text[:5] for (output, *_) in run.decode(TEXTS, options)]
    for beginnings in (prefix, ended):
        outputs = exported.decode(TEXTS, options, prefix=beginnings)
        for found, expected in zip(outputs, run.decode(TEXTS, options, prefix=beginnings), strict=True):
            assert (found[0].text, found[0].finished) == (expected[0].text, expected[0].finished)
            assert found[0].score == pytest.approx(expected[0].score, abs=1e-4)
    if engine == "onnx":
        assert exported.predict(TEXTS, no_repeat_ngram=1) == run.predict(TEXTS, no_repeat_ngram=1)
    else:
        with pytest.raises(UserError, match="`no_repeat_ngram`: CTranslate2 computes it in another way"):
            exported.predict(TEXTS, no_repeat_ngram=1)


def test_no_ngram_of_an_output_comes_twice(cli: Cli, runs: dict[str, Run]) -> None:
    run = runs["transformer"]
    (line,) = cli("predict", run.path, "--no-repeat-ngram", 1, stdin="11/13/08\n").out.splitlines()
    assert len(set(line)) == len(line)


def test_a_continuation_repeats_nothing_of_its_beginning() -> None:
    run = load(LANGUAGE_MODEL)
    beginning = "line 1"
    (text,) = run.predict([beginning], no_repeat_ngram=1)
    assert len(set(text)) == len(text)
