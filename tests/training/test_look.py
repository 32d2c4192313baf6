"""A look asks which tokens come first; written outputs must agree."""

import pytest
import torch

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.decoding.greedy import greedy
from selfattn.distributed import Processes
from selfattn.models.build import build
from selfattn.tokenizers.protocol import BOS, EOS, PAD
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import first_look, validation_loss


@pytest.mark.parametrize("preset", ["rnn-attention", "rnn-plain", "transformer", "transformer-rope", "decoder-only"])
def test_a_look_counts_the_outputs_that_greedy_search_would_get_right(preset: str) -> None:
    model = build(preset, vocab_size=12, seed=1).eval()
    generator = torch.Generator().manual_seed(0)
    sources = [torch.randint(3, 12, (length,), generator=generator).tolist() for length in (2, 3, 4, 5, 6, 7)]
    examples = []
    for number, source in enumerate(sources):
        batch = collate([Example([*source, EOS], [EOS])], PAD, BOS, [0])
        with torch.inference_mode():
            (written,) = greedy(model, batch.source, batch.source_mask, bos_id=BOS, eos_id=EOS, max_length=8)
        tokens = [*written.ids, EOS] if written.finished else list(written.ids)
        if number % 3 == 0:  # the last token is another one
            tokens[-1] = 3 + (tokens[-1] + 1) % 9
        examples.append(Example([*source, EOS], tokens))
    loss, share = first_look(model, examples, TrainingConfig(batch_size=2), Processes())
    assert share == pytest.approx(4 / 6)
    assert loss == pytest.approx(validation_loss(model, examples, TrainingConfig(batch_size=2)), rel=1e-5)
