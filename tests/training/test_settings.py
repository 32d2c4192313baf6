"""Which device is taken and which processes there are; training settings; curves for TensorBoard."""

import json
import socket
import sys
from dataclasses import fields, replace
from datetime import timedelta
from unittest.mock import Mock, call

import pytest
import torch

from selfattn import distributed, processes
from selfattn.cli.options import changed_settings, parameters_of
from selfattn.codec import decode, encode
from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.distributed import Processes
from selfattn.errors import UserError
from selfattn.processes import choose_device, is_main_process, rank_and_size
from selfattn.runs.directory import RunDirectory, check_is_free
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import EpochReport, StepReport, TensorBoardObserver
from selfattn.training.step import rows_of


def test_auto_takes_what_is_there(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match="`device` cuda: torch sees no CUDA device; take cpu"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: taken[-1] if taken else 0)
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("cuda") == torch.device("cuda", 1)
    assert taken == [0, 1]
    monkeypatch.delenv("LOCAL_RANK")
    assert choose_device("auto") == torch.device("cuda", 1), "the one that this process has chosen"
    assert choose_device("cuda:0") == choose_device(torch.device("cuda", 0)) == torch.device("cuda", 0)
    with pytest.raises(UserError, match="`device` cuda:2: torch sees 2 CUDA devices, counted from 0"):
        choose_device("cuda:2")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UserError, match="`device` cuda: 3 processes on this host, but 2 CUDA devices; start fewer"):
        choose_device("auto")


def test_the_first_process_looks_whether_there_is_room(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("RANK", "1")  # of another program: torchrun sets WORLD_SIZE as well
    assert rank_and_size() == (0, 1)
    with pytest.raises(UserError, match="holds other files"):
        check_is_free(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="WORLD_SIZE=2 without MASTER_ADDR and MASTER_PORT: start the processes with t"):
        is_main_process()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert rank_and_size() == (1, 2)
    assert not is_main_process()
    check_is_free(tmp_path)
    for rank, count, reason in (("2", "2", "RANK=2 with WORLD_SIZE=2"), ("1", "1", "RANK=1 with WORLD_SIZE=1")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", count)
        with pytest.raises(UserError, match=reason):
            is_main_process()
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(UserError, match="RANK=first: expected a whole number"):
        is_main_process()


@pytest.mark.parametrize(("count", "rows"), [(1, 5), (2, 5), (3, 5), (7, 5), (4, 1)])
def test_the_rows_of_a_batch_are_dealt_out_once(count, rows):
    examples = [Example([4] * (n + 1), [5] * (n + 2)) for n in range(rows)]
    batch = collate(examples, 0, 1, range(rows))
    seen = []
    for rank in range(count):
        own, tokens = rows_of(batch, Processes(rank, count))
        if rank >= rows:  # it reads what counts for nothing
            assert tokens == 0
            continue
        assert tokens == sum(len(examples[place].target) for place in own.indices)
        assert own.indices == list(range(rows))[rank::count]
        for row, place in enumerate(own.indices):
            for name in ("source", "source_mask", "target_in", "target_out", "target_mask"):
                assert torch.equal(getattr(own, name)[row], getattr(batch, name)[place])
        seen += own.indices
    assert sorted(seen) == list(range(rows))


def test_who_waits_for_processes_that_never_come_says_so_in_minutes(monkeypatch):
    assert timedelta(minutes=5) >= distributed._MEETING
    monkeypatch.setattr(distributed, "_MEETING", timedelta(seconds=1))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(UserError, match=r"torch\.distributed: 2 processes could not meet: .*1/2 client") as caught:
        Processes.join(torch.device("cpu"))
    assert "\n" not in str(caught.value)


def test_threads_follow_from_the_size_of_the_model_alone(runs, train, tmp_path, monkeypatch):
    before = torch.get_num_threads()
    record = RunDirectory(runs["rnn-plain"].path).record()
    assert record.machine["threads"] == 1
    monkeypatch.setattr(processes, "LARGE_MODEL", record.parameters)
    train("rnn-plain", tmp_path / "large")
    assert RunDirectory(tmp_path / "large").record().machine["threads"] == 2
    assert torch.get_num_threads() == before


# Training settings check themselves and travel as JSON; the command line offers them all


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("epochs", 1.5), ("epochs", True), ("epochs", None), ("items_per_epoch", 0), ("batch_size", -1),
        ("max_tokens", 0), ("validation_items", 0), ("seed", 0.5), ("lr", 0.0), ("lr", -1e-3), ("lr", float("nan")),
        ("lr", float("inf")), ("lr", "fast"), ("schedule", "steps"), ("warmup", 1.0), ("warmup", -0.1),
        ("weight_decay", -1.0), ("clip_norm", -1.0), ("clip_norm", float("nan")), ("label_smoothing", 1.0),
        ("precision", "float16"), ("target_exact_match", 0.0), ("target_exact_match", 1.5), ("betas", (0.9,)),
        ("betas", (0.9, 1.0)), ("betas", "ab"),
        ("max_steps", 0), ("accumulate", 0), ("accumulate", None), ("warmup_steps", -1), ("warmup_steps", 0.5),
        ("r_drop", -1.0), ("average", "mean"), ("average", None), ("ema_decay", 1.0), ("ema_decay", -0.1),
        ("average_last", 0), ("validate_every", 0), ("patience", 0), ("schedule", "one"),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(UserError, match=f"^`{name}`: expected .*, got ") as caught:
        TrainingConfig(**{name: value})
    assert "\n" not in str(caught.value)


def test_it_travels_as_json():
    config = TrainingConfig(seed=-3, lr=1, schedule="cosine", betas=(0.8, 0.9), items_per_epoch=7, target_exact_match=1)
    assert decode(TrainingConfig, json.loads(json.dumps(encode(config))), file="x", advice="y") == config


def test_only_what_is_given_replaces_the_recipe():
    recipe = TrainingConfig(lr=0.5, epochs=7)
    settings = {field.name for field in fields(TrainingConfig)}
    not_given = dict.fromkeys(TrainingConfig.__dataclass_fields__)
    options = parameters_of(TrainingConfig, defaults=not_given, leave_out=("seed", "betas"))
    assert {option.name for option in options if option.default is None} == settings - {"seed", "betas"}
    assert replace(recipe, **changed_settings({}, options)) == recipe
    clipped = changed_settings({"clip_norm": 0.0, "patience": None}, options)
    assert replace(recipe, **clipped) == TrainingConfig(lr=0.5, epochs=7, clip_norm=0.0)


# Curves for TensorBoard, and the line that says what to install where it is not there


REPORT = EpochReport(1, 20, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"bleu": 0.5})


@pytest.fixture
def writer(monkeypatch):
    """TensorBoard's class of writers."""
    module = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return module.SummaryWriter


def watch(observer):
    for step in range(1, 21):
        observer.stepped(StepReport(1, step, 20, step / 2, 0.1, 9.0))
    observer.validated(REPORT, None, True)


def test_points_of_steps_and_validations(tmp_path, writer):
    watch(TensorBoardObserver(tmp_path / "curves"))
    writer.assert_called_once_with(str(tmp_path / "curves"))
    values = [(step, {"loss": step / 2, "lr": 0.1, "tokens_per_second": 9.0}) for step in (10, 20)]
    steps = [call(f"train/{name}", value, step) for step, curves in values for name, value in curves.items()]
    validations = [call("valid/bleu", 0.5, 20), call("valid/loss", 6.0, 20)]
    assert writer.return_value.add_scalar.call_args_list == steps + validations


def test_a_resumed_training_takes_back_what_comes_again(tmp_path, writer):
    observer = TensorBoardObserver(tmp_path)
    observer.resumed(7, (REPORT,), None)
    watch(observer)
    writer.assert_called_once_with(str(tmp_path), purge_step=8)


def test_where_it_is_not_installed_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"^TensorBoard is not installed: pip install 'selfattn\[tensorboard\]'$"):
        TensorBoardObserver(tmp_path)
