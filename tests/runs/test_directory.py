"""A run directory gives back what was put into it, and names what is broken."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from selfattn.codec import read_json, write
from selfattn.errors import UserError
from selfattn.files import write_atomically
from selfattn.models.build import build
from selfattn.models.families import EncoderDecoderConfig, TransformerConfig
from selfattn.runs.directory import RunDirectory, check_is_free
from selfattn.runs.record import RunConfig, RunRecord, commit, machine, versions
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import EpochReport

STACK = TransformerConfig(dim=8, num_heads=2, ffn_dim=11)
CONFIG = RunConfig(
    "dates",
    "transformer",
    EncoderDecoderConfig(encoder=STACK, decoder=STACK, share_embeddings=True, tie_output=True),
    TrainingConfig(seed=5, betas=(0.8, 0.9)),
    {"kind": "embedded", "locales": ["en_US"]},
    22,
)
TOKENIZER = CharTokenizer(["0123456789-/ é"])
RECORD = RunRecord(
    "running", "2026-11-22T10:00:00+00:00", "test", 5, 7, 3, 0.5, {"torch": "2"}, {"cores": 2, "memory": None}
)
REPORT = EpochReport(1, 2, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"exact_match": 0.5})


def new_model(seed: int = 0) -> torch.nn.Module:
    return build(CONFIG.model, vocab_size=len(TOKENIZER), pad_id=0, seed=seed)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory.create(tmp_path / "some" / "run", CONFIG, TOKENIZER, RECORD)
    directory.save_weights(new_model())
    directory.write_metrics([REPORT])
    return directory


def test_everything_comes_back(run: RunDirectory) -> None:
    again = RunDirectory(run.path)
    assert again.config() == CONFIG
    tokenizer = again.tokenizer()
    assert isinstance(tokenizer, CharTokenizer)
    assert tokenizer.characters == TOKENIZER.characters
    assert again.metrics() == [REPORT]
    assert replace(again.record(), files={}) == RECORD
    saved, loaded = new_model(0), new_model(1)
    again.load_weights(loaded)
    assert all(torch.equal(loaded.state_dict()[name], weight) for name, weight in saved.state_dict().items())
    # Tied weights are one tensor before and after, and stand in the file once.
    assert loaded.decoder.output.weight is loaded.decoder.embed.tokens.weight  # type: ignore[union-attr]  # an encoder-decoder
    assert len(load_file(run.path / "model.safetensors")) == len(saved.state_dict()) - 2
    assert sorted(path.name for path in run.path.iterdir()) == [
        "config.json", "metrics.jsonl", "model.safetensors", "run.json", "tokenizer",
    ]  # fmt: skip


def test_a_directory_with_a_run_is_known_by_its_record(run: RunDirectory) -> None:
    with pytest.raises(UserError, match="already holds a run, which is never overwritten"):
        check_is_free(run.path)
    (run.path / "run.json").unlink()
    with pytest.raises(UserError, match="holds other files"):
        check_is_free(run.path)


def test_a_file_is_refused_and_an_empty_directory_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file; choose another `out`"):
        check_is_free(tmp_path / "file")
    with pytest.raises(UserError, match="cannot be written"):
        RunDirectory.create(tmp_path / "file" / "below", CONFIG, TOKENIZER, RECORD)
    (tmp_path / "empty").mkdir()
    RunDirectory.create(tmp_path / "empty", CONFIG, TOKENIZER, RECORD)


def test_a_run_that_is_read_while_it_trains_is_not_called_damaged(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of the record and that of the file, a training replaces both."""
    read, other = RunDirectory.record, RunDirectory(run.path)
    is_first = True

    def record(self: RunDirectory) -> RunRecord:
        nonlocal is_first
        before = read(self)
        if self is run and is_first:
            is_first = False
            other.save_weights(new_model(3))
            other.save_weights(new_model(4))
        return before

    monkeypatch.setattr(RunDirectory, "record", record)
    run.load_weights(new_model())
    assert not is_first
    (run.path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match=r"model\.safetensors: was changed or damaged"):
        run.load_weights(new_model())


def _load(run: RunDirectory) -> None:
    run.config()
    run.tokenizer()
    run.load_weights(new_model())
    run.metrics()
    run.record()


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer/char.json", "metrics.jsonl", "run.json"]
)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "binary", "directory"])
def test_a_missing_or_damaged_file_is_named_in_one_line(run: RunDirectory, name: str, damage: str) -> None:
    path = run.path / name
    content = path.read_bytes()
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "binary": b"\xff\x00" * 50}[damage])
    with pytest.raises(UserError) as caught:
        _load(run)
    # Without its file, nothing says what kind of tokenizer the folder held.
    where = path.parent if name.startswith("tokenizer/") and damage == "missing" else path
    assert str(caught.value).startswith(str(where))
    assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_refused(run: RunDirectory) -> None:
    other = build(CONFIG.model, vocab_size=len(TOKENIZER) + 1, pad_id=0, seed=0)
    with pytest.raises(UserError, match=r"model.safetensors: not the weights of the model in config.json") as caught:
        run.load_weights(other)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="not the weights of the model"):
        run.load_weights(torch.nn.Linear(2, 3))


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write(path, {"a": 1})

    def fails(temporary: Path) -> None:
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fails)
    assert read_json(path, advice="") == {"a": 1}
    assert os.listdir(tmp_path) == ["x.json"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(path, {"a": float("nan")})
    assert read_json(path, advice="") == {"a": 1}


def test_the_record_of_versions_and_machine_is_filled() -> None:
    assert all(versions().values())
    found = machine()
    assert found["threads"] == torch.get_num_threads()
    assert isinstance(found["cores"], int)
    assert found["cores"] >= 1
    assert commit() is None or len(str(commit())) >= 7
