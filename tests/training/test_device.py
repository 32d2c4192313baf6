"""Which device is taken, and which processes there are."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from small_runs import Cli, Train

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory, check_is_free
from selfattn.runs.run import Run
from selfattn.training import device
from selfattn.training import distributed as processes
from selfattn.training.device import choose_device
from selfattn.training.distributed import Processes
from selfattn.training.launch import is_main_process


def test_auto_takes_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match="device: torch sees no CUDA device; take cpu"):
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
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UserError, match="device: 3 processes on this host, but 2 CUDA devices; start fewer"):
        choose_device("auto")


def test_the_first_process_looks_whether_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert is_main_process()
    with pytest.raises(UserError, match="already holds a run"):
        check_is_free(tmp_path)
    monkeypatch.setenv("RANK", "1")
    assert not is_main_process()
    check_is_free(tmp_path)
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(UserError, match="RANK=first: expected a whole number"):
        is_main_process()


@pytest.mark.parametrize(("count", "rows"), [(1, 5), (2, 5), (3, 5), (7, 5), (4, 1)])
def test_the_rows_of_a_batch_are_dealt_out_once(count: int, rows: int) -> None:
    examples = [Example([4] * (n + 1), [5] * (n + 2)) for n in range(rows)]
    batch = collate(examples, 0, 1, range(rows))
    seen: list[int] = []
    for rank in range(count):
        own, tokens = Processes(rank, count).rows_of(batch)
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


def test_who_waits_for_processes_that_never_come_says_so_in_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timedelta(minutes=5) >= processes._MEETING
    monkeypatch.setattr(processes, "_MEETING", timedelta(seconds=1))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(
        UserError, match=r"torch\.distributed: 2 processes could not meet: .*1/2 clients joined"
    ) as caught:
        Processes.join(torch.device("cpu"))
    assert "\n" not in str(caught.value)


def test_threads_follow_from_the_size_of_the_model_alone(
    runs: dict[str, Run], train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    record = RunDirectory(runs["rnn-plain"].path).record()
    assert record.machine["threads"] == 1
    monkeypatch.setattr(device, "LARGE_MODEL", record.parameters)
    train("rnn-plain", tmp_path / "large")
    assert RunDirectory(tmp_path / "large").record().machine["threads"] == 2
    assert torch.get_num_threads() == before


def test_a_number_of_threads_that_cannot_be_is_one_line(cli: Cli, tmp_path: Path) -> None:
    done = cli("train", "dates", "--quick", "--out", tmp_path / "run", "--threads", "0")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "threads" in done.err
