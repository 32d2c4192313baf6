"""The laws that every model keeps, whatever it is made of: `zoo` and `variant` come from conftest.py."""

import copy
from dataclasses import replace
from random import Random

import pytest
import torch
from zoo import hybrid, rnn, stack, transformer

from selfattn.attention import causal_mask
from selfattn.layers import TransformerBlock
from selfattn.models.families import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    RecurrentConfig,
    RNNDecoderConfig,
    TransformerConfig,
)
from selfattn.models.protocol import Decoded

PRIMES = (1, 2, 3, 5, 7)


def logits_of(model, case):
    return model(case.source, case.target, source_mask=case.source_mask)


def step_through(model, state, target):
    rows = []
    for token in target.unbind(dim=1):
        logits, state = model.step(token, state)
        rows.append(logits)
    return torch.stack(rows, dim=1), state


@torch.no_grad()
def test_forward_is_stacked_steps_and_padding_and_neighbours_do_nothing(close, zoo, variant):
    """Also with the joined projections of decoding."""
    draw = Random(variant)
    lengths, t, fill = draw.choices(PRIMES, k=draw.randint(1, 3)), draw.choice(PRIMES[:4]), draw.randrange(zoo.vocab)
    model, case = zoo.model(variant), zoo.case(lengths, t, draw.randrange(2**16))
    logits, wider = logits_of(model, case), case.padded(max(lengths) + draw.choice((2, 3, 5)), fill)
    assert logits.shape == (len(lengths), t, zoo.vocab)
    assert logits.dtype == torch.float64
    close(logits_of(model, wider), logits)
    for joined, shown in zip((False, True), draw.sample((case, wider), 2), strict=True):
        with torch.inference_mode(joined):
            state = model.start(model.encode(shown.source, shown.source_mask))
            close(step_through(model, state, shown.target)[0], logits)
    for row, length in enumerate(lengths):
        alone = case.pick([row]).padded(length, fill)
        assert alone.source_mask.all()
        close(logits_of(model, alone), logits[[row]])


@torch.no_grad()
def test_the_future_does_not_leak(zoo, variant):
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
def test_rows_can_be_picked_and_repeated_midway(close, zoo, state_variant):
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
def test_hypotheses_share_their_source(close, zoo, state_variant):
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
def test_a_state_is_never_changed_in_place(zoo, state_variant):
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


def gradients(model, case, rows):
    model.zero_grad()
    logits_of(model, case)[rows].log_softmax(dim=-1)[..., 2::3].sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_a_neighbour_without_tokens_changes_nothing(close, zoo, some_variant):
    """Law 4 for whole models: a row that is all padding gives finite numbers, and its neighbours do not feel it."""
    model, case = copy.deepcopy(zoo.model(some_variant)), zoo.case([5, 3, 2], 3, 0)
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


def test_nan_at_padding_cannot_be_felt(zoo, some_variant):
    """Law 5 for whole models: the embedding of padding may even be NaN, forward and in gradients."""
    model, case = zoo.fresh(zoo.untied(some_variant)).eval(), zoo.case([5, 3, 7], 3, 0).padded(7, zoo.pad)
    logits, clean = logits_of(model, case), gradients(model, case, [0, 1, 2])
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = torch.nan
    assert torch.equal(logits_of(model, case), logits)
    dirty = gradients(model, case, [0, 1, 2])
    for name, gradient in clean.items():
        assert torch.equal(dirty[name], gradient), name


def test_dropout_is_off_in_eval_and_on_in_training(zoo, some_variant):
    model, case = zoo.fresh(zoo.dropping(some_variant, 0.5)), zoo.case([5, 3], 3, 0)
    plain = zoo.model(some_variant, torch.float32)
    assert torch.equal(logits_of(model.eval(), case), logits_of(plain, case))
    torch.manual_seed(0)
    first, second = (logits_of(model.train(), case) for _ in range(2))
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(logits_of(model, case), first)


def test_other_dtypes_run(zoo, some_variant):
    model, case = copy.deepcopy(zoo.model(some_variant, torch.float32)).to(torch.bfloat16), zoo.case([5, 3], 3, 0)
    expected = logits_of(zoo.model(some_variant, torch.float32), case)
    torch.testing.assert_close(logits_of(zoo.model(some_variant), case).float(), expected, rtol=1e-4, atol=1e-4)
    logits = logits_of(model, case)
    stepped, _ = step_through(model, model.start(model.encode(case.source, case.source_mask)), case.target)
    assert logits.dtype == stepped.dtype == torch.bfloat16
    for actual in (logits, stepped):  # bfloat16 keeps eight bits of each of many numbers
        torch.testing.assert_close(actual.float(), expected, rtol=0.2, atol=0.2)
    for gradient in gradients(model, case, [0, 1]).values():
        assert gradient.isfinite().all()


def test_mixed_precision_runs(zoo, state_variant):
    model, case = copy.deepcopy(zoo.model(state_variant, torch.float32)), zoo.case([5, 3], 3, 0)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = logits_of(model, case)
        stepped, _ = step_through(model, model.start(model.encode(case.source, case.source_mask)), case.target)
    for actual in (mixed, stepped):
        torch.testing.assert_close(actual.float(), logits_of(model, case), rtol=0.2, atol=0.2)
    mixed.float().logsumexp(dim=-1).sum().backward()
    assert all(p.grad is None or (p.grad.isfinite().all() and p.grad.dtype == p.dtype) for p in model.parameters())


@torch.no_grad()
def test_decoder_only_is_a_language_model(close, zoo, decoder_only_variant):
    """With a source of no tokens, and the same whether there is none or it is all padding."""
    model, case = zoo.model(decoder_only_variant), zoo.case([3, 3], 5, 0)
    nothing, no_mask = case.source[:, :0], case.source_mask[:, :0]
    logits = model(nothing, case.target, source_mask=no_mask)
    stepped, _ = step_through(model, model.start(model.encode(nothing, no_mask)), case.target)
    close(stepped, logits)
    close(model(case.source, case.target, source_mask=torch.zeros_like(case.source_mask)), logits)


# --- attention maps, and law 8: what self-attention knows of the order of words ---------------------------------------


def heads_by_layer(part):
    """How many heads each layer of attention has, inside a Transformer or from an RNN decoder."""
    if isinstance(part, TransformerConfig):
        return [part.num_heads] * part.num_layers
    if isinstance(part, RNNDecoderConfig) and part.attention not in ("none", "peeky"):
        return [part.num_heads]
    return []


def expected_heads(config):
    if isinstance(config, DecoderOnlyConfig):
        return (heads_by_layer(config.stack),) * 3
    if isinstance(config, RecurrentConfig):
        return [], [], []
    if not isinstance(config, EncoderDecoderConfig):  # a plugin's: one head of cross-attention in each layer
        return [], [], [1] * config.num_layers
    decoder = heads_by_layer(config.decoder)
    return heads_by_layer(config.encoder), decoder if isinstance(config.decoder, TransformerConfig) else [], decoder


@torch.no_grad()
def test_maps_have_a_weight_for_what_may_be_seen_alone(zoo, variant):
    draw = Random(variant)
    lengths, t = draw.choices(PRIMES, k=draw.randint(1, 3)), draw.choice(PRIMES[:4])
    model, config, case = zoo.model(variant), zoo.variants[variant], zoo.case(lengths, t, draw.randrange(2**16))
    b, s = case.source.shape
    maps = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    encoder, decoder, cross = expected_heads(config)
    assert [w.shape for w in maps.encoder] == [(b, h, s, s) for h in encoder]
    assert [w.shape for w in maps.decoder] == [(b, h, t, t) for h in decoder]
    assert [w.shape for w in maps.cross] == [(b, h, t, s) for h in cross]

    for weights in (*maps.encoder, *maps.cross):
        assert (weights.transpose(1, 3)[~case.source_mask] == 0).all()
    for weights in maps.decoder:
        assert (weights[..., ~causal_mask(t, t)] == 0).all()
    if isinstance(config, DecoderOnlyConfig):
        unseen = ~(causal_mask(s, s) | config.bidirectional_prefix)
        for weights in maps.encoder:
            real = case.source_mask[:, None, :, None].expand_as(weights)
            assert (weights[..., unseen] == 0)[real[..., unseen]].all()


@torch.no_grad()
def test_asking_for_maps_changes_no_output(close, zoo, variant):
    """The maps come from the reference path, the logits from the fused one; blocks and decoders return the same."""
    model, case = zoo.model(variant), zoo.case([5, 3, 2], 7, 0)
    outputs = []
    watched = [module for module in model.modules() if isinstance(module, TransformerBlock)]
    watched += [model.decoder] if hasattr(model, "decoder") else []
    hooks = [
        module.register_forward_hook(
            lambda _, __, output: outputs.append(output[0].states if isinstance(output[0], Decoded) else output.x)
        )
        for module in watched
    ]
    model(case.source, case.target, source_mask=case.source_mask)
    count = len(outputs)
    model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    for hook in hooks:
        hook.remove()
    assert len(outputs) == 2 * count == 2 * len(watched)
    for plain, with_maps in zip(outputs[:count], outputs[count:], strict=True):
        close(with_maps, plain)


@torch.no_grad()
def test_a_row_of_the_map_belongs_to_the_step_that_predicts(zoo, variant):
    """Row ``k`` is that of step ``k``: targets that agree up to and including input ``k`` agree in rows up to ``k``."""
    model, case = zoo.model(variant), zoo.case([5, 3], 5, 0)
    maps = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    case.target[:, 3] = 3 + (case.target[:, 3] - 3 + 7) % 20
    changed = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    # Bahdanau's state asks before it reads its token, so the changed input shows one row later.
    first = 4 if "bahdanau" in variant else 3
    for before, after in zip((*maps.decoder, *maps.cross), (*changed.decoder, *changed.cross), strict=True):
        assert torch.equal(before[:, :, :first], after[:, :, :first])
    for before, after in zip(maps.cross, changed.cross, strict=True):
        assert not torch.equal(before[:, :, first], after[:, :, first])


BLIND = DecoderOnlyConfig(stack=stack(position="none"))


def permuted(zoo, config):
    """States and logits before (rows permuted afterwards) and after permuting the real tokens of a padded source."""
    model = zoo.fresh(config).double().eval()
    case = zoo.case([5, 7], 3, 0)
    order = torch.tensor([[3, 0, 4, 1, 2, 5, 6], [6, 2, 0, 5, 1, 3, 4]])
    source = case.source.take_along_dim(order, dim=1)
    with torch.no_grad():
        logits = [model(x, case.target, source_mask=case.source_mask) for x in (case.source, source)]
        if isinstance(config, DecoderOnlyConfig):
            states = [model.encode(x, case.source_mask).caches[1].entries.value[:, 0] for x in (case.source, source)]
        else:
            states = [model.encode(x, case.source_mask).states for x in (case.source, source)]
    moved = states[0].take_along_dim(order[..., None], dim=1)
    return moved[case.source_mask], states[1][case.source_mask], logits[0], logits[1]


ORDERED = {position: transformer(position=position) for position in ("sinusoidal", "learned", "rotary", "alibi", "t5")}
ORDERED["causal"] = BLIND  # a causal mask is position information
ORDERED |= {"rnn": rnn({}, {}), "rnn-transformer": hybrid("rnn", {"position": "none"})}


@pytest.mark.parametrize("config", [transformer(position="none"), replace(BLIND, bidirectional_prefix=True)])
def test_without_positions_words_are_a_set(close, zoo, config):
    """Law 8: permute the source, and its states are permuted; the target, which looks at all of them, feels nothing."""
    expected, actual, before, after = permuted(zoo, config)
    close(actual, expected)
    close(after, before)


@pytest.mark.parametrize("name", ORDERED)
def test_with_positions_order_matters(zoo, name):
    """The other half of law 8."""
    expected, actual, before, after = permuted(zoo, ORDERED[name])
    assert (actual - expected).abs().max() > 1e-3
    assert (after - before).abs().max() > 1e-3
