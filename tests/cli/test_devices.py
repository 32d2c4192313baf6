"""Commands compute on the device that they are given; one that is not there is refused in a line."""

import pytest
import torch
from small_runs import words

from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load

TEXT = "November 13, 2008"
COMMANDS = (
    "predict RUN", "evaluate RUN --data PAIRS", "score RUN --data PAIRS", "align RUN --data PAIRS",
    "heads RUN --data PAIRS", "attention RUN 11/13/08",
)  # fmt: skip


@pytest.fixture
def call(cli, runs, tmp_path):
    (tmp_path / "pairs.tsv").write_text(f"{TEXT}\t2008-11-13\n")
    places = {"RUN": runs["rnn-attention"].path, "PAIRS": tmp_path / "pairs.tsv"}
    return lambda command, *device: cli(*words(command, **places), *device, stdin=f"{TEXT}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_computes_where_it_is_told(command, call):
    there = call(command, "--device", "cpu")
    default = call(command)
    assert (there.code, there.out) == (0, default.success().out)
    for name in ("meta", "gpu", "cpu:1", "cuda:x"):
        assert call(command, "--device", name).refusal().startswith("error: --device: expected ")
    if not torch.cuda.is_available():
        for name in ("cuda", "cuda:1"):
            expected = f"error: --device {name}: torch sees no CUDA device; take cpu\n"
            assert call(command, "--device", name).err == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_gpu_gives_the_same_outputs(command, call):
    done = call(command, "--device", "cuda:0")
    assert done.code == 0
    if command.split()[0] in ("predict", "align", "attention"):
        assert done.out == call(command).out


def test_the_library_takes_devices_of_torch(runs):
    path = runs["rnn-plain"].path
    assert load(path, device=torch.device("cpu")).predict([TEXT]) == load(path).predict([TEXT])
    with pytest.raises(SettingError, match="`device`: expected auto, cpu"):
        load(path, device=torch.device("meta"))
    with pytest.raises(UserError, match="`device`: expected auto, cpu"):
        load(path, device=3.5)
