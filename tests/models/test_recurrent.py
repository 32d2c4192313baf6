"""A language model without attention: a GRU, read once and step by step, with and without a beginning."""

import pytest
import torch
from torch import nn

from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.config import override
from selfattn.models.decoder_only import Continuation
from selfattn.models.families import PRESETS

CONFIG = override(PRESETS["decoder-only-rnn"].config, {"stack.hidden_dim": 7, "stack.embed_dim": 5})


def test_it_is_the_gru_of_torch() -> None:
    model = build(CONFIG, vocab_size=11, pad_id=0, seed=0).eval()
    (gru,) = [module for module in model.modules() if isinstance(module, nn.GRU)]
    tokens = torch.tensor([[1, 5, 6, 7]])
    states, _ = gru(model.embed.tokens(tokens))
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    torch.testing.assert_close(model(nothing, tokens, source_mask=nothing > 0), model.output(states))


def test_beginnings_of_different_lengths_are_continued_as_alone() -> None:
    model = build(CONFIG, vocab_size=11, pad_id=0, seed=0).eval()
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    begun = torch.tensor([[5, 6, 9], [7, 0, 0]])
    rest = Continuation(model, bos_id=1)(begun, torch.tensor([[1, 8], [1, 8]]), source_mask=begun > 0)
    for row, text in zip(rest, ([1, 5, 6, 9, 8], [1, 7, 8]), strict=True):
        full = model(nothing, torch.tensor([text]), source_mask=nothing > 0)
        torch.testing.assert_close(row, full[0, -2:])


@pytest.mark.parametrize("setting", [{"stack.cell": "lstm"}, {"stack.direction": "both"}])
def test_what_cannot_go_on_is_refused(setting: dict[str, str]) -> None:
    with pytest.raises(UserError, match="expected"):
        override(CONFIG, setting)
