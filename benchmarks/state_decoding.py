"""Time one more token after texts of several lengths: ``python -m benchmarks.state_decoding``; docs/models.md."""

import time
from statistics import median

import torch

from selfattn.models.build import build

MODELS = ("decoder-only", *(f"decoder-only-{kind}" for kind in ("linear", "linear-decay", "delta", "delta-hybrid")))
LENGTHS = (64, 256, 1024, 4096, 8192)
STEPS = 40


@torch.inference_mode()
def milliseconds(name: str, length: int) -> float:
    """Return the median CPU time of a step behind so many tokens."""
    model = build(name, vocab_size=64, seed=0).eval()
    source = torch.randint(4, 64, (1, length))
    state = model.start(model.encode(source, source > 0))
    times = []
    for _ in range(STEPS):
        started = time.process_time()
        _, state = model.step(source[:, 0], state)
        times.append(time.process_time() - started)
    return 1000 * median(times)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in MODELS:
        print(f"{name:28}", *(f"{milliseconds(name, length):6.2f}" for length in LENGTHS), flush=True)
