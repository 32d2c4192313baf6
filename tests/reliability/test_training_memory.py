"""Training on a stream takes as much memory as it takes, however long the stream is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# 200 steps over a generated corpus of so many pairs; prints the steps and the growth of the memory that belongs to the
# process alone from step 40 to step 200, and its size then, in KiB. Argument 2 is where a run is to be put down.
PROGRAM = """
import sys
from pathlib import Path
import torch
from selfattn.data.pairs import Pair
from selfattn.data.examples import encode_stream
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig
from selfattn.tokenizers.char import CharTokenizer
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import train_model
from selfattn.training.observer import Observer
from selfattn.training.validation import Criterion

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

class Watcher(Observer):
    early = 0
    def stepped(self, report):
        if report.step == 40:
            self.early = memory()

count, seen = int(sys.argv[1]), 0
tokenizer = CharTokenizer("0123456789")

def epoch(number):
    global seen
    for seen in range(1, count + 1):
        text = f"{seen * 7919 % 1000003:06d}"
        yield from encode_stream([Pair(text, text[:3])], tokenizer)

torch.set_num_threads(1)
stack = TransformerConfig(dim=8, num_heads=1, ffn_dim=8, num_layers=1)
model = build(EncoderDecoderConfig(encoder=stack, decoder=stack), vocab_size=len(tokenizer), pad_id=0, seed=0)
config = TrainingConfig(max_steps=200, batch_size=600, average="ema")
validation = [next(epoch(0))]
watcher = Watcher()
outcome = train_model(model, epoch, validation, config, pad_id=0, bos_id=1, observers=[watcher],
    criterion=Criterion(lambda model, loss, _: {"loss": loss}, "loss", False),
    checkpoints=CheckpointFile(Path(sys.argv[2]), every=50))
print(outcome.reports[-1].step, seen, memory() - watcher.early, memory())
"""


def figures(pairs: int, folder: Path) -> list[int]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(pairs), str(folder / f"{pairs}.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    print(pairs, done.stdout)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_million_pairs_take_no_more_than_a_hundred_thousand(tmp_path: Path) -> None:
    small, large = figures(100_000, tmp_path), figures(1_000_000, tmp_path)
    assert small[0] == large[0] == 200
    assert large[1] > 100_000  # the steps needed them, and drew them one after the other
    assert large[2] < 20_000
    assert large[3] - small[3] < 20_000
