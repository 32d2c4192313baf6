"""The laws that every model keeps, whatever it is made of: `zoo` and `variant` come from conftest.py."""

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.models.protocol import DecoderState, Seq2Seq

Close = Callable[[Tensor, Tensor], None]  # the fixture of tests/conftest.py

PRIMES = (1, 2, 3, 5, 7)


def logits_of(model: Seq2Seq, case: Any) -> Tensor:
    logits: Tensor = model(case.source, case.target, source_mask=case.source_mask)
    return logits


def step_through(model: Seq2Seq, state: DecoderState, target: Tensor) -> tuple[Tensor, DecoderState]:
    rows = []
    for token in target.unbind(dim=1):
        logits, state = model.step(token, state)
        rows.append(logits)
    return torch.stack(rows, dim=1), state


@torch.no_grad()
def test_forward_is_stacked_steps_and_padding_and_neighbours_change_nothing(
    close: Close, zoo: Any, variant: str
) -> None:
    """Also with the joined projections of decoding."""
    draw = Random(variant)
    lengths, t, fill = draw.choices(PRIMES, k=draw.randint(1, 3)), draw.choice(PRIMES[:4]), draw.randrange(zoo.vocab)
    model, case = zoo.model(variant), zoo.case(lengths, t, draw.randrange(2**16))
    logits, wider = logits_of(model, case), case.padded(max(lengths) + draw.choice((2, 3, 5)), fill)
    assert logits.shape == (len(lengths), t, zoo.vocab)
    assert logits.dtype == torch.float64
    close(logits_of(model, wider), logits)
    for joined in (False, True):
        for shown in (case, wider):
            with torch.inference_mode(joined):
                state = model.start(model.encode(shown.source, shown.source_mask))
                close(step_through(model, state, shown.target)[0], logits)
    for row, length in enumerate(lengths):
        alone = case.pick([row]).padded(length, fill)
        assert alone.source_mask.all()
        close(logits_of(model, alone), logits[[row]])


@torch.no_grad()
def test_the_future_does_not_leak(zoo: Any, variant: str) -> None:
    draw = Random(variant)
    t = draw.choice((3, 5, 7))
    model, case = zoo.model(variant, torch.float32), zoo.case([5, 3], t, draw.randrange(2**16))
    changed = draw.randrange(1, t)
    before = logits_of(model, case)
    case.target[:, changed:] = 3 + (case.target[:, changed:] - 3 + 7) % 20
    after = logits_of(model, case)
    assert torch.equal(after[:, :changed], before[:, :changed])
    assert (after[:, changed] != before[:, changed]).any(dim=-1).all()  # and the token itself is read


@torch.no_grad()
def test_rows_can_be_picked_and_repeated_midway(close: Close, zoo: Any, state_variant: str) -> None:
    draw = Random(state_variant)
    model, case = zoo.model(state_variant), zoo.case(draw.choices(PRIMES, k=3), 5, draw.randrange(2**16))
    rows, after = draw.choices(range(3), k=draw.randint(1, 5)), draw.randint(0, 3)
    memory = model.encode(case.source, case.source_mask)
    _, state = step_through(model, model.start(memory), case.target[:, :after]) if after else (0, model.start(memory))
    picked, _ = step_through(model, state.reorder(torch.tensor(rows)), case.target[rows, after:])
    close(picked, logits_of(model, case.pick(rows))[:, after:])
    from_memory, _ = step_through(model, model.start(memory.reorder(torch.tensor(rows))), case.target[rows])
    close(from_memory, logits_of(model, case.pick(rows)))


@torch.no_grad()
def test_hypotheses_share_their_source(close: Close, zoo: Any, state_variant: str) -> None:
    draw = Random(state_variant)
    model, case = zoo.model(state_variant), zoo.case(draw.choices(PRIMES, k=3), 5, draw.randrange(2**16))
    state = model.start(model.encode(case.source, case.source_mask))
    _, state = step_through(model, state, case.target[:, :2])
    # Two hypotheses for each sentence, then the second and the third sentence go on, their hypotheses crossed.
    state = state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]), sources=torch.tensor([0, 1, 2]))
    _, state = step_through(model, state, case.target[[0, 1, 1, 2, 2, 0], 2:4])
    state = state.reorder(torch.tensor([3, 2, 5, 4]), sources=torch.tensor([1, 2]))
    last, _ = step_through(model, state, case.target[[0, 0, 1, 1], 4:])
    if isinstance(getattr(state, "memory", None), tuple):
        with pytest.raises(ValueError, match="say with `sources` which stay"):
            state.reorder(torch.tensor([0, 1]))
    rows, told = [1, 1, 2, 2], [2, 1, 0, 2]
    alone = case.pick(rows)
    alone.target[:, 2:4], alone.target[:, 4] = case.target[told, 2:4], case.target[[0, 0, 1, 1], 4]
    close(last[:, 0], logits_of(model, alone)[:, 4])


@torch.no_grad()
def test_a_state_is_never_changed_in_place(zoo: Any, state_variant: str) -> None:
    model, case = zoo.model(state_variant), zoo.case([3, 5], 3, 0)
    state = model.start(model.encode(case.source, case.source_mask))
    _, state = model.step(case.target[:, 0], state)
    kept = copy.deepcopy(state)
    first, _ = step_through(model, state, case.target[:, 1:])
    _, ahead = model.step(case.target[:, 1], state)
    step_through(model, state, case.target.flip(1))
    assert torch.equal(model.step(case.target[:, 2], ahead)[0], first[:, 1])
    assert torch.equal(step_through(model, state, case.target[:, 1:])[0], first)
    assert torch.equal(step_through(model, kept, case.target[:, 1:])[0], first)


def gradients(model: Seq2Seq, case: Any, rows: list[int]) -> dict[str, Tensor]:
    model.zero_grad()
    logits_of(model, case)[rows].log_softmax(dim=-1)[..., 2::3].sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_a_neighbour_without_tokens_changes_nothing(close: Close, zoo: Any, variant: str) -> None:
    """Law 4 for whole models: a row that is all padding gives finite numbers, and its neighbours do not feel it."""
    model, case = copy.deepcopy(zoo.model(variant)), zoo.case([5, 3, 2], 3, 0)
    case.source_mask[1] = False
    assert logits_of(model, case).isfinite().all()
    expected = gradients(model, case.pick([0, 2]), [0, 1])
    actual = gradients(model, case, [0, 2])
    assert actual.keys() == expected.keys()
    for name in expected:
        close(actual[name], expected[name])
    for gradient in gradients(model, case, [0, 1, 2]).values():
        assert gradient.isfinite().all()
    source, nothing, target = case.source[[1]], case.source_mask[[1]], case.target[[1]]
    shorter = model(source[:, :2], target, source_mask=nothing[:, :2])
    close(model(source, target, source_mask=nothing), shorter)  # and nothing is read from its padding


def test_nan_at_padding_cannot_be_felt(zoo: Any, variant: str) -> None:
    """Law 5 for whole models: the embedding of padding may even be NaN, forward and in gradients."""
    model, case = zoo.fresh(zoo.untied(variant)).eval(), zoo.case([5, 3, 7], 3, 0).padded(7, zoo.pad)
    logits, clean = logits_of(model, case), gradients(model, case, [0, 1, 2])
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = torch.nan
    assert torch.equal(logits_of(model, case), logits)
    dirty = gradients(model, case, [0, 1, 2])
    for name, gradient in clean.items():
        assert torch.equal(dirty[name], gradient), name


def test_dropout_is_off_in_eval_and_on_in_training(zoo: Any, variant: str) -> None:
    model, case = zoo.fresh(zoo.dropping(variant, 0.5)), zoo.case([5, 3], 3, 0)
    plain = zoo.model(variant, torch.float32)
    assert torch.equal(logits_of(model.eval(), case), logits_of(plain, case))
    torch.manual_seed(0)
    first, second = (logits_of(model.train(), case) for _ in range(2))
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(logits_of(model, case), first)


def test_other_dtypes_run(zoo: Any, variant: str) -> None:
    model, case = copy.deepcopy(zoo.model(variant, torch.float32)).to(torch.bfloat16), zoo.case([5, 3], 3, 0)
    expected = logits_of(zoo.model(variant, torch.float32), case)
    torch.testing.assert_close(logits_of(zoo.model(variant), case).float(), expected, rtol=1e-4, atol=1e-4)
    logits = logits_of(model, case)
    stepped, _ = step_through(model, model.start(model.encode(case.source, case.source_mask)), case.target)
    assert logits.dtype == stepped.dtype == torch.bfloat16
    for actual in (logits, stepped):  # bfloat16 keeps eight bits of each of many numbers
        torch.testing.assert_close(actual.float(), expected, rtol=0.2, atol=0.2)
    for gradient in gradients(model, case, [0, 1]).values():
        assert gradient.isfinite().all()


def test_mixed_precision_runs(zoo: Any, state_variant: str) -> None:
    model, case = copy.deepcopy(zoo.model(state_variant, torch.float32)), zoo.case([5, 3], 3, 0)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = logits_of(model, case)
        stepped, _ = step_through(model, model.start(model.encode(case.source, case.source_mask)), case.target)
    for actual in (mixed, stepped):
        torch.testing.assert_close(actual.float(), logits_of(model, case), rtol=0.2, atol=0.2)
    mixed.float().logsumexp(dim=-1).sum().backward()
    assert all(p.grad is None or (p.grad.isfinite().all() and p.grad.dtype == p.dtype) for p in model.parameters())


@torch.no_grad()
def test_decoder_only_is_a_language_model(close: Close, zoo: Any, decoder_only_variant: str) -> None:
    """With a source of no tokens, and the same whether there is none or it is all padding."""
    model, case = zoo.model(decoder_only_variant), zoo.case([3, 3], 5, 0)
    nothing, no_mask = case.source[:, :0], case.source_mask[:, :0]
    logits = model(nothing, case.target, source_mask=no_mask)
    stepped, _ = step_through(model, model.start(model.encode(nothing, no_mask)), case.target)
    close(stepped, logits)
    close(model(case.source, case.target, source_mask=torch.zeros_like(case.source_mask)), logits)
