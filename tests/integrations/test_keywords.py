"""What layers of Hugging Face models hand over beside query, key and value: understood as eager does, or refused."""

import pytest
import torch
import transformers
from torch import nn

from selfattn.errors import UserError
from selfattn.integrations.transformers import attention, register
from tests.fixtures.eager_sweep import compared
from tests.fixtures.families import configuration, tiny

pytestmark = pytest.mark.filterwarnings("ignore")


class Layer(nn.Module):
    """An attention layer that says it is causal, as most do."""

    layer_idx = 3
    is_causal = True


def tensors(i=3, j=5):
    """Queries ``[1 2 i 4]``, keys and values ``[1 2 j 4]``."""
    torch.manual_seed(0)
    return torch.randn(1, 2, i, 4), torch.randn(1, 2, j, 4), torch.randn(1, 2, j, 4)


def by_hand(query, key, value, added):
    """Attention ``[b i h e]`` by its formula."""
    return ((query @ key.transpose(-2, -1) / 2 + added).softmax(-1) @ value).transpose(1, 2)


@pytest.mark.parametrize("others", [{"temperature": None}, {"gate": False}, {"position_ids": torch.arange(3)}])
def test_what_is_not_there_or_only_describes_changes_nothing(others):
    expected, _ = attention(Layer(), *tensors(), None)
    assert torch.equal(attention(Layer(), *tensors(), None, **others)[0], expected)


@pytest.mark.parametrize("is_causal", [None, True, False])
def test_without_a_mask_nothing_is_hidden(is_causal, close):
    """Eager hides nothing either; causality is the mask's, never guessed."""
    query, key, value = tensors()
    output, _ = attention(Layer(), query, key, value, None, is_causal=is_causal)
    close(output, by_hand(query, key, value, torch.zeros(3, 5)))


def test_indices_are_the_keys_that_a_query_may_attend_to(close):
    query, key, value = tensors()
    indices = torch.tensor([[[0, 1], [4, 4], [2, 3]]])
    hidden = torch.full((3, 5), -torch.inf)
    hidden[0, :2] = hidden[1, 4] = hidden[2, 2:4] = 0
    output, _ = attention(Layer(), query, key, value, None, indices=indices)
    close(output, by_hand(query, key, value, hidden))


def test_a_sink_for_each_query_takes_its_share(close):
    query, key, value = tensors()
    sinks = torch.randn(1, 2, 3, 1)
    scores = torch.cat([query @ key.transpose(-2, -1) / 2, sinks], dim=-1)
    weights = scores.softmax(-1)[..., :-1]
    output, seen = attention(Layer(), query, key, value, None, sinks=sinks, output_attentions=True)
    close(seen, weights)
    close(output, (weights @ value).transpose(1, 2))


@pytest.mark.parametrize(
    "packing",
    [{f"cu_seq_lens_{side}": torch.tensor([0, 2, 5]) for side in "qk"}, {"seq_idx": torch.tensor([[0, 0, 1, 1, 1]])}],
)
def test_packed_sequences_do_not_see_each_other(packing):
    query, key, value = tensors(5)
    output, _ = attention(Layer(), query, key, value, None, **packing)
    for part in (slice(0, 2), slice(2, 5)):
        alone, _ = attention(Layer(), query[:, :, part], key[:, :, part], value[:, :, part], None)
        torch.testing.assert_close(output[:, part], alone)


ENDS = torch.tensor([0, 2, 5])


@pytest.mark.parametrize(
    ("handed", "message"),
    [
        (
            {"cu_seq_lens_q": torch.tensor([2, 1, 5]), "cu_seq_lens_k": ENDS},
            "`cu_seq_lens_q` that does not rise from 0",
        ),
        (dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k"), ENDS[:2]), "`cu_seq_lens_q` that does not end at 5"),
        *(
            ({name: value}, f"Layer of layer 3 hands over `{name}`.*'eager'")
            for name, value in (("block_indices", ENDS), ("temperature", 2.0), ("cache", object()), ("gate", True))
        ),
        ({"s_aux": torch.zeros(1)}, r"`s_aux` of \(1,\) for 2 heads"),
        ({"s_aux": torch.zeros(2), "sinks": torch.zeros(1, 2, 5, 1)}, "or `sinks` beside it"),
        ({"sinks": torch.zeros(1, 1, 1, 1)}, r"`sinks` of \(1, 1, 1, 1\)"),
        ({"attention_mask": torch.ones(1, 1, 5, 5).long()}, "a mask of torch.int64, neither bool nor"),
        ({"attention_mask": torch.ones(1, 1, 5, 3).bool()}, "a mask of 3 keys for 5 keys"),
    ],
)
def test_what_is_not_understood_or_fits_in_part_alone_is_refused(handed, message):
    with pytest.raises(UserError, match=message):
        attention(Layer(), *tensors(5), **({"attention_mask": None} | handed))


def test_two_ways_of_packing_hold_together():
    packing = {"cu_seq_lens_q": ENDS, "cu_seq_lens_k": ENDS}
    query, key, value = tensors(5)
    expected, _ = attention(Layer(), query[:, :, 4:], key[:, :, 4:], value[:, :, 4:], None)
    output, _ = attention(Layer(), query, key, value, None, **packing, seq_idx=torch.tensor([[0, 0, 0, 0, 1]]))
    torch.testing.assert_close(output[:, 4:], expected)


def eager_attention_forward(module, query, **_):
    """Of a family that nobody knows: its temperature is not handed over."""
    return query / module.temperature


class Foreign(Layer):
    """A layer of such a family."""

    temperature = 2.0

    def forward(self, query):
        return eager_attention_forward(self, query)


def test_a_layer_whose_eager_attention_reads_more_than_is_handed_over_is_refused():
    with pytest.raises(UserError, match="Foreign of layer 3 reads its `temperature`"):
        attention(Foreign(), *tensors(), None)


def test_experts_that_mix_tokens_read_the_rows_of_padding_as_eager_gives_them():
    register()
    model = tiny("DogeForCausalLM", configuration(transformers.DogeConfig, {"is_moe": True}))
    result = compared(model, 1e-4, sides=("left",))
    assert result.result == "equal", result
