"""A training that starts from another run says what its vocabulary lacks, and refuses options that it decides."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli

from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory
from selfattn.runs.run import Run
from selfattn.runs.train import train

SMALL = ("encoder.hidden_dim=16", "decoder.hidden_dim=16")


def pairs(path: Path, target: str) -> Path:
    path.write_text("".join(f"day {n}\t{target}{n}\n" for n in range(120)), "utf-8")
    return path


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with 280 pieces."""
    folder = tmp_path_factory.mktemp("subwords")
    return train(
        "translation", target="de", data=pairs(folder / "a.tsv", "Tag "), model="rnn-plain", epochs=1, set=SMALL,
        vocab_size=280, out=folder / "run",
    )  # fmt: skip


def test_targets_that_a_run_cannot_write_are_refused(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: Any = {"data": pairs(tmp_path / "a.tsv", "日"), "init_from": runs["rnn-plain"].path, "epochs": 1}
    with pytest.raises(UserError, match=r"target tokens are unknown to it; targets: .* '日' .* `allow_unknown`$"):
        train("dates", out=tmp_path / "refused", **settings)
    assert not (tmp_path / "refused").exists()
    train("dates", out=tmp_path / "run", allow_unknown=True, **settings)
    said = capsys.readouterr().err
    assert "training targets: " in said
    assert "validation targets: " in said
    assert "--allow-unknown" in RunDirectory(tmp_path / "run").record().command


def test_a_language_model_refuses_unknown_characters_too(tmp_path: Path) -> None:
    for name, letters in (("a", "abc"), ("b", "xyz")):
        (tmp_path / name).write_text("".join(f"{letters}{n}\n" for n in range(40)), "utf-8")
    settings: Any = {"epochs": 1, "set": ("stack.dim=16", "stack.num_layers=1")}
    train("lm", data=tmp_path / "a", out=tmp_path / "first", **settings)
    with pytest.raises(UserError, match="of the target tokens are unknown to it"):
        train("lm", data=tmp_path / "b", out=tmp_path / "run", init_from=tmp_path / "first", epochs=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tokenizer": "unigram"}, r"`tokenizer` unigram: the tokens are those of `init_from` \(`tokenizer` bpe\)"),
        ({"vocab_size": 400}, r"`vocab_size` 400: the tokens are those of `init_from` \(`vocab_size` 280\)"),
        ({"separate": True}, r"`separate` True: the tokens are those of `init_from` \(`separate` False\)"),
        ({"model": "transformer"}, "`model` transformer: the model is that of `init_from`"),
    ],
)
def test_what_the_first_run_decides_is_refused_beside_it(
    subwords: Run, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    settings: Any = {"target": "de", "init_from": subwords.path, "data": pairs(tmp_path / "a.tsv", "Tag "), **given}
    with pytest.raises(UserError, match=message):
        train("translation", out=tmp_path / "run", **settings)


def test_equal_settings_of_tokens_are_accepted(subwords: Run, tmp_path: Path) -> None:
    settings: Any = {"target": "de", "init_from": subwords.path, "data": pairs(tmp_path / "a.tsv", "Tag ")}
    run = train("translation", out=tmp_path / "run", epochs=1, tokenizer="bpe", vocab_size=280, **settings)
    assert len(run.tokenizer) == 280


def test_sampling_of_characters_is_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    data = pairs(tmp_path / "a.tsv", "1")
    with pytest.raises(UserError, match="`sampling`: the tokens of `init_from` have one segmentation"):
        train("translation", data=data, target="de", init_from=runs["rnn-plain"].path, out=tmp_path / "r", sampling=0.1)


def test_score_and_align_and_evaluate_say_what_is_unknown(cli: Cli, runs: dict[str, Run], tmp_path: Path) -> None:
    data = tmp_path / "a.tsv"
    data.write_text("May 1, 2001 ☃\t2001☀\n", "utf-8")
    sources = "sources: 1 character that the model does not know, 1 different: '☃' 1 (7.7 % of all)\n"
    targets = "targets: 1 character that the model does not know, 1 different: '☀' 1 (20.0 % of all)\n"
    for command in ("score", "align"):
        done = cli(command, runs["rnn-attention"].path, "--data", data)
        assert done.code == 0
        assert done.err == sources + targets
    done = cli("evaluate", runs["rnn-attention"].path, "--data", data)
    assert (done.code, done.err) == (0, targets)
