"""What an output depends on, and how far attention agrees: against independent computations."""

import pytest
import torch
from torch import Tensor

from selfattn.data.pairs import Example
from selfattn.evaluation.attention import agreement, by_blocking, by_gradient
from selfattn.models.build import build
from selfattn.models.families import PRESETS
from selfattn.models.protocol import Seq2Seq

SOURCE, TARGET = torch.tensor([5, 6, 7, 8, 2]), torch.tensor([9, 4, 2])
TARGET_IN = torch.tensor([1, 9, 4])
NAMES = ("rnn-plain", "transformer-rope", "decoder-only", "rnn-encoder-transformer-decoder")


def small(name: str) -> Seq2Seq:
    return build(PRESETS[name].config, vocab_size=11, pad_id=0, seed=3)


def probabilities(model: Seq2Seq, source: Tensor, mask: Tensor | None = None) -> Tensor:
    mask = torch.ones_like(source, dtype=torch.bool) if mask is None else mask
    return model.eval()(source[None], TARGET_IN[None], source_mask=mask[None]).softmax(dim=-1)[0].detach()


@pytest.mark.parametrize("name", NAMES)
def test_blocking_is_the_change_without_the_token(name: str) -> None:
    model = small(name)
    found = by_blocking(model, SOURCE, TARGET_IN)
    whole = probabilities(model, SOURCE)
    for place in range(len(SOURCE)):
        if model.takes_gaps:
            without = probabilities(model, SOURCE, torch.arange(len(SOURCE)) != place)
        else:  # a recurrent encoder reads a source that never had it
            without = probabilities(model, torch.cat([SOURCE[:place], SOURCE[place + 1 :]]))
        torch.testing.assert_close(found[:, place], 0.5 * (whole - without).abs().sum(dim=-1), atol=1e-6, rtol=1e-4)
    assert found.max() > 1e-4


def log_probabilities(model: Seq2Seq, place: int, scale: float) -> Tensor:
    """Of the target's tokens, when the embedding of one source token is so much longer."""

    def grow(_: object, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if inputs[0].shape != (1, len(SOURCE)) or not torch.equal(inputs[0][0], SOURCE):
            return output
        factor = torch.ones(len(SOURCE), 1, dtype=output.dtype)
        factor[place] = scale
        return output * factor

    tables = [part for part in model.modules() if isinstance(part, torch.nn.Embedding)]
    hooks = [table.register_forward_hook(grow) for table in tables]
    memory = model.encode(SOURCE[None], torch.ones(1, len(SOURCE), dtype=torch.bool))
    for hook in hooks:
        hook.remove()
    logits = model.advance(TARGET_IN[None], model.start(memory))[0].logits()[0]
    return logits.log_softmax(dim=-1)[torch.arange(len(TARGET)), TARGET].detach()


@pytest.mark.parametrize("name", NAMES)
def test_gradient_times_input_is_the_slope_along_the_embedding(name: str) -> None:
    """By finite differences: the log-probability changes by g . e when one token's embedding grows."""
    model = small(name).double().eval()
    found = by_gradient(model, SOURCE, TARGET)
    up, down = (
        torch.stack([log_probabilities(model, place, scale) for place in range(len(SOURCE))], dim=1)
        for scale in (1 + 1e-5, 1 - 1e-5)
    )
    slopes = (up - down).abs() / 2e-5
    torch.testing.assert_close(found, (slopes / slopes.sum(dim=1, keepdim=True)).float(), atol=1e-4, rtol=1e-3)


def test_agreement_of_every_family_and_none_without_attention() -> None:
    examples = [Example([5, 6, 7, 2], [9, 4, 2]), Example([8, 7, 5, 6, 2], [4, 2])]
    for name in ("rnn-attention", "transformer"):
        found = agreement(small(name), examples)
        assert found.items == 2
        for one in (found.blocking, found.gradient, found.between):
            assert -1 <= one.low <= one.mean <= one.high <= 1
    assert agreement(small("rnn-plain"), examples) is None


def test_attention_that_is_what_the_output_depends_on_agrees_fully(monkeypatch: pytest.MonkeyPatch) -> None:
    from selfattn.evaluation import attention as module

    model, example = small("transformer"), Example([5, 6, 7, 2], [9, 4, 2])
    attention = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.05, 0.4, 0.3]])
    monkeypatch.setattr(module, "source_shares", lambda *_, **__: [(0, [attention[None]])])
    monkeypatch.setattr(module, "by_blocking", lambda *_: attention**2)
    monkeypatch.setattr(module, "by_gradient", lambda *_, **__: -attention)
    found = agreement(model, [example])
    means = [one and one.mean for one in (found.blocking, found.gradient, found.between)]
    assert means == pytest.approx([1, -1, -1])
