"""What is changed inside a model is changed alike however it is computed; nothing else changes."""

import copy
import math
from functools import cache, partial

import pytest
import torch
from fake_models import Writer

from selfattn.attention import DeltaAttention
from selfattn.decoding.beam import beam_search
from selfattn.errors import UserError
from selfattn.models import inside
from selfattn.models.build import build
from selfattn.models.inside import Edit, ablate, attention_layers, edited, intermediates, patch, reweigh, trace_model
from selfattn.models.protocol import stepped_logits


@pytest.fixture(autouse=True)
def _names_are_asked_for_once(monkeypatch):
    """Of each model in a test, however often it is edited."""
    monkeypatch.setattr(inside, "intermediates", cache(intermediates))


def logits_of(model, case):
    return model(case.source, case.target, source_mask=case.source_mask)


def steps_of(model, case):
    return stepped_logits(model, case.target, model.start(model.encode(case.source, case.source_mask)))


@torch.no_grad()
def test_looking_changes_nothing_and_changes_are_the_same_by_step(close, zoo, some_variant):
    model = zoo.model(some_variant)
    case = zoo.case([5, 3], 4, 7)
    names = intermediates(model)
    plain = logits_of(model, case)
    close(logits_of(edited(model, *(Edit(name, lambda x, place: x.clone()) for name in names)), case), plain)
    layers = [name for name in attention_layers(model) if f"{name}.heads" in names]  # a state shows itself alone
    changes = (ablate(layers[0], [0]), reweigh(layers[-1], "uniform"), reweigh(layers[0], "permuted")) if layers else ()
    for edit in changes:
        twin = edited(model, edit)
        logits = logits_of(twin, case)
        close(steps_of(twin, case), logits)
        alone = case.pick([1]).padded(3, 0)
        assert alone.source_mask.all()  # neither padding nor a neighbour is felt
        close(logits_of(twin, alone), logits[[1]])
    assert torch.equal(logits_of(model, case), plain)


@torch.no_grad()
def test_patches_of_another_input(close, zoo, state_variant):
    """By its own values nothing changes; by another input's values of the last part everything is the other's."""
    model = zoo.model(state_variant)
    case = zoo.case([5, 5], 4, 11)
    traces = [trace_model(model, case.source[row], case.target[row]) for row in (0, 1)]
    mine = case.pick([0])
    twin = edited(model, *(patch(name, traces[0]) for name in traces[0].names))
    close(logits_of(twin, mine), logits_of(model, mine))
    close(steps_of(twin, mine), logits_of(model, mine))
    last = [name for name in traces[1].names if name.endswith("output")]
    if last:
        twin = edited(model, patch(last[-1], traces[1], steps=[1, 3]))
        expected = logits_of(model, mine).clone()
        expected[:, [1, 3]] = logits_of(model, case.pick([1]))[:, [1, 3]]
        close(logits_of(twin, mine), expected)


@torch.no_grad()
def test_a_trace_holds_what_the_layers_compute(zoo, state_variant, close):
    model = zoo.model(state_variant)
    case = zoo.case([5], 3, 13)
    trace = trace_model(model, case.source[0], case.target[0])
    for name in trace.names:  # also of a state that grows, such as the positions of what was read
        assert not name.startswith("state.") or len(trace[name]) == len(trace.steps)
    maps = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    cross = [name for name in attention_layers(model) if name.endswith("cross_attn")]
    for name, weights in zip(cross, maps.cross if cross else (), strict=True):
        if not isinstance(model.get_submodule(name), DeltaAttention):  # inside are weights of its corrected values
            close(trace[f"{name}.weights"], weights[0])
        heads = trace[f"{name}.weights"] @ trace[f"{name}.value"].repeat_interleave(
            len(weights[0]) // len(trace[f"{name}.value"]), dim=0
        )
        close(trace[f"{name}.heads"], heads)


@torch.no_grad()
def test_the_state_of_an_lstm_decoder_is_patched():
    """Without attention the state is all that is known of the source: from the next step on the other input speaks."""
    model = build("rnn-plain", vocab_size=11, seed=0).eval()
    source = torch.tensor([[5, 6, 7, 2], [8, 3, 9, 2]])
    target = torch.tensor([[1, 4, 5, 6]]).expand(2, -1)
    other = trace_model(model, source[1], target[1])
    states = [name for name in other.names if name.startswith("state.recurrent")]
    assert len(states) == 2  # h and c
    logits = model(source, target, source_mask=source > 0)
    twin = edited(model, *(patch(name, other, steps=[1]) for name in states))
    changed = twin(source[:1], target[:1], source_mask=source[:1] > 0)
    torch.testing.assert_close(changed[0, :2], logits[0, :2])
    torch.testing.assert_close(changed[0, 2:], logits[1, 2:])
    assert not torch.allclose(logits[0, 2:], logits[1, 2:], atol=1e-3)


@torch.no_grad()
def test_ablation_by_hand():
    """The textbook's decoder without its context: the output layer reads zeros in its place."""
    model = build("rnn-attention", vocab_size=11, seed=0).eval()
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7, 8]])
    state = model.start(model.encode(source, source > 0))
    h, _ = model.decoder.stack(model.decoder.embed(target), state.recurrent)
    expected = model.decoder.output(torch.cat([torch.zeros_like(h), h], dim=-1))
    twin = edited(model, ablate("decoder.cross_attn"))
    torch.testing.assert_close(twin(source, target, source_mask=source > 0), expected)
    mean = inside.head_means([trace_model(model, source[0], target[0])], "decoder.cross_attn")
    context = mean.expand_as(h)
    expected = model.decoder.output(torch.cat([context, h], dim=-1))
    twin = edited(model, ablate("decoder.cross_attn", to=mean))
    torch.testing.assert_close(twin(source, target, source_mask=source > 0), expected)


@pytest.mark.parametrize("name", ["transformer", "rnn-multi-head", "bahdanau-gru", "luong-general", "decoder-only"])
@torch.no_grad()
def test_a_beam_search_decodes_the_changed_model(name):
    model = build(name, vocab_size=11, seed=3).eval()
    source = torch.tensor([[5, 6, 7, 2], [8, 3, 2, 0]])
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    other = trace_model(model, torch.tensor([4, 9, 7, 2]), torch.tensor([1, 5, 5, 5, 5, 5]))
    layer = list(attention_layers(model))[-1]
    edits = [reweigh(layer, "permuted"), patch(f"{layer}.heads", other, steps=[0, 2])]
    twin = edited(model, *edits)
    for row, found in enumerate(beam_search(twin, source, mask, bos_id=1, eos_id=2, max_length=5, beam_size=3)):
        ids = found[0].ids
        target = torch.tensor([[1, *ids]])
        s = int(mask[row].sum())
        logits = twin(source[row : row + 1, :s], target, source_mask=mask[row : row + 1, :s]).log_softmax(-1)
        written = torch.tensor([*ids, 2][: len(ids) + found[0].finished])
        score = logits[0, : len(written)].gather(-1, written[:, None]).sum()
        assert score.item() == pytest.approx(found[0].log_probability, abs=1e-4)


def test_heads_and_steps_are_read_once_and_a_copy_counts_its_own_steps():
    model = build("transformer", vocab_size=11, seed=0).eval()
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7, 8, 9]])
    trace = trace_model(model, torch.tensor([7, 8, 2]), target[0])
    assert list(trace) == list(trace.names)

    def logits(model):
        return model(source, target, source_mask=source > 0)

    cross = "decoder.layers.0.cross_attn"
    for make, name in ((partial(patch, cross, trace), "steps"), (partial(ablate, cross), "heads")):
        changed = edited(model, make(**{name: [1, 2]}))
        once = edited(model, make(**{name: iter([1, 2])}))
        for twin in (once, once, copy.deepcopy(changed), copy.deepcopy(copy.deepcopy(changed))):
            assert torch.equal(logits(twin), logits(changed))
        assert not torch.equal(logits(changed), logits(model))


def test_what_cannot_be_done_is_refused():
    model = build("transformer", vocab_size=11, seed=0).eval()
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]])
    trace = trace_model(model, torch.tensor([5, 2]), target[0])
    cross = "decoder.layers.0.cross_attn"
    writer = Writer(lambda source, read: torch.zeros(len(read), 11))
    double = Edit("state.source", lambda tensor, place: 2 * tensor)

    def run(make):
        make()(source, target, source_mask=source > 0)

    for make, message in (
        (lambda: trace_model(writer, source[0], target[0]), "Writer cannot be looked into; take the run that it was"),
        (lambda: edited(writer, double), "Writer cannot be looked into"),
        (lambda: edited(model, ablate("decoder.layers.0.cross")), "there is no 'decoder.layers.0.cross.heads'; there"),
        (lambda: edited(model, ablate("encoder.layers.0.self_attn", [9])), "head 9: the layer has heads 0 to 3"),
        (lambda: edited(model, patch("encoder.embed", trace)), r"\[2, 96\] and here \[3, 96\]; take inputs of as"),
        (lambda: edited(model, Edit("encoder.embed", lambda x, _: x[:, :1])), r"dtype \[1, 3, 96\] torch.float32, got"),
        (lambda: patch("encoder.embed", trace, heads=[0]), "encoder.embed has no heads; leave `heads` out"),
        (lambda: patch("encoder.nothing", trace), "there is no 'encoder.nothing'"),
        (lambda: reweigh(cross, "even"), "expected 'uniform', 'permuted' or a trace, got 'even'"),
        (lambda: trace["decoder"], "there is no 'decoder'; there is encoder.embed"),
        (lambda: edited(model, Edit("encoder.embed", lambda x, place: None)), "must return a tensor, got None"),
        (lambda: edited(model, Edit("encoder.embed", lambda x, place: x.double())), "float32, got .* torch.float64"),
        (lambda: edited(model, [ablate(cross)]), r"expected edits, such as ablate\(...\), got \[Edit"),
        (lambda: ablate(cross, 0), r"`heads`: expected whole numbers from 0, such as \[0, 2\], got 0"),
        (lambda: ablate(cross, []), "`heads`: expected whole numbers from 0"),
        (lambda: ablate(cross, [True, False]), "`heads`: expected whole numbers from 0"),
        (lambda: ablate(cross, to=math.nan), "`to`: expected a finite number or a tensor"),
        (lambda: ablate(cross, to="mean"), "`to`: expected a finite number or a tensor"),
        (lambda: edited(model, ablate(cross, to=torch.zeros(3))), r"\[h c\] \[4, 24\], got \[3\]"),
        (lambda: reweigh(cross, "permuted", seed="a"), "`seed`: expected a whole number, got 'a'"),
        (lambda: inside.head_means([], cross), "there are no traces"),
        (lambda: patch(cross, None), "expected a trace"),
        (lambda: patch(cross, trace, steps=2), "`steps`: expected whole numbers from 0"),
        (lambda: patch(cross, trace, steps="23"), "`steps`: expected whole numbers from 0"),
        (lambda: patch(cross, trace, steps=[-1]), "`steps`: expected whole numbers from 0"),
        (lambda: patch(cross, trace, steps=[2, 99]), "steps 2, 99: the trace has steps 0 to 1"),
        (lambda: patch("encoder.embed", trace, steps=[0]), "it is computed while the source is read"),
    ):
        with pytest.raises(UserError, match=message):
            run(make)


@torch.no_grad()
def test_decodings_by_turns_count_their_own_steps(zoo, state_variant):
    """Two sources are decoded in one thread, one step of each at a time, and rows of one of them are picked."""
    model = zoo.model(state_variant)
    case = zoo.case([5, 3], 4, 7)
    met = []
    turn = 0

    def watch(tensor, place):
        met.append((turn, place.step))
        return tensor

    outputs = [name for name in intermediates(model) if name.endswith("output")]
    twin = edited(model, Edit(outputs[-1], watch))
    states = [twin.start(twin.encode(side.source, side.source_mask)) for side in (case, case.pick([0]))]
    for step in range(3):
        for turn, rows in enumerate((2, 1)):
            _, state = twin.step(case.target[:rows, step], states[turn])
            states[turn] = state.reorder(torch.arange(rows))
        if step == 1:
            turn = 2
            twin.start(twin.encode(case.source, case.source_mask))
    assert met == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
