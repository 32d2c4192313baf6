"""Commands compute on the device that they are given; one that is not there is refused in a line."""

import pytest
import torch

from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load

TEXT = "November 13, 2008"
COMMANDS = {
    "predict": (), "evaluate": ("--data", "PAIRS"), "score": ("--data", "PAIRS"), "align": ("--data", "PAIRS"),
    "heads": ("--data", "PAIRS"), "attention": (TEXT,),
}  # fmt: skip


@pytest.fixture
def call(cli, runs, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"{TEXT}\t2008-11-13\n")

    def call(command, *device):
        further = [pairs if word == "PAIRS" else word for word in COMMANDS[command]]
        return cli(command, runs["rnn-attention"].path, *further, *device, stdin=f"{TEXT}\n")

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_computes_where_it_is_told(command, call):
    there = call(command, "--device", "cpu")
    default = call(command)
    assert (there.code, there.out) == (default.code, default.out)
    assert there.code == 0
    for name in ("meta", "gpu", "cpu:1", "cuda:x"):
        done = call(command, "--device", name)
        assert done.code == 2, name
        assert done.err.startswith("error: --device: expected "), done.err
        assert done.err.count("\n") == 1
    if not torch.cuda.is_available():
        for name in ("cuda", "cuda:1"):
            expected = f"error: --device {name}: torch sees no CUDA device; take cpu\n"
            assert call(command, "--device", name).err == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_gpu_gives_the_same_outputs(command, call):
    done = call(command, "--device", "cuda:0")
    assert done.code == 0
    if command in ("predict", "align", "attention"):
        assert done.out == call(command).out


def test_the_library_takes_devices_of_torch(runs):
    path = runs["rnn-plain"].path
    assert load(path, device=torch.device("cpu")).predict([TEXT]) == load(path).predict([TEXT])
    with pytest.raises(SettingError, match="`device`: expected auto, cpu"):
        load(path, device=torch.device("meta"))
    with pytest.raises(UserError, match="`device`: expected auto, cpu"):
        load(path, device=3.5)
