"""What attention cannot compute is refused, with what was expected and what came: one table."""

import re
from dataclasses import replace
from warnings import catch_warnings

import numpy as np
import pytest
import torch

from selfattn.attention import (
    Alibi,
    DeltaAttention,
    Dot,
    Learned,
    LinearAttention,
    Location,
    MultiHeadAttention,
    Normalizer,
    RelativeBias,
    Rotary,
    Score,
    Sinusoidal,
    attend,
    read_on,
)
from selfattn.attention.cache import Cache, KeyValue
from selfattn.attention.masks import Mask
from selfattn.convert.torch_modules import attention_to_torch
from selfattn.errors import UserError
from selfattn.layers import RecurrentStack


def x(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


def call(**changes):
    """Call ``attend`` with right arguments but for these."""
    right = {"query": x(2, 3, 5, 11), "key": x(2, 3, 7, 11), "value": x(2, 3, 7, 13)}
    return lambda: attend(**right | changes)


def made(*sizes, **options):
    return lambda: MultiHeadAttention(*sizes, **{"num_heads": 2} | options)


LAYER, BARE = made(8)(), made(8, project=False)()
PLACED = made(8, position=Rotary(4))()
SHARED = replace(LAYER.project_context(x(2, 5, 8)), shared_by=3)
DELTA = DeltaAttention(6, num_heads=2)
STATE = DELTA.advance(x(2, 3, 6), None, causal=True)[1]
PAST = Cache(KeyValue(x(2, 3, 2, 5), x(2, 3, 2, 7)))
POSITIONS = tuple(made(8, position=position)() for position in (Rotary(4), Alibi(2), RelativeBias(2)))


class FlatScore(Score):
    """Forgets an axis that broadcasting would take for another, with as many rows as heads."""

    def forward(self, query, key):
        return (query @ key.transpose(-2, -1))[:, 0]

    def as_dot(self, query, key):
        return query[:, :1], key, 1.0


FlatNormalizer = type("FlatNormalizer", (Normalizer,), {"forward": lambda self, scores: scores[..., :1]})
FLAT = {"query": x(3, 3, 5, 7), "key": x(3, 3, 5, 7), "value": x(3, 3, 5, 7), "score": FlatScore()}
with catch_warnings(action="ignore"):
    NESTED = torch.nested.nested_tensor([x(2, 3, 4)])  # its layout is strided, as of a dense tensor
BROADCASTS = "that broadcasts to [b h i j] (2, 3, 5, 7), got "
NO_ORDER = "rows that share a context have no order"
NO_KEYS = "a state has no keys to compare"
SAME_TOKENS = "a state holds the same tokens for all queries"
REFUSED = [
    # queries, keys and values
    (call(query=x(2, 5, 11)), ValueError, "expected query [b h i e], got 3 axes (2, 5, 11)"),
    (call(value=x(1, 2, 3, 7, 13)), ValueError, "expected value [b h j c], got 5 axes (1, 2, 3, 7, 13)"),
    (call(query=x(17, 3, 5, 11)), ValueError, "do not fit: ((17, 3, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13))"),
    (call(value=x(2, 3, 17, 13)), ValueError, "do not fit: ((2, 3, 5, 11), (2, 3, 7, 11), (2, 3, 17, 13))"),
    (call(value=x(2, 1, 7, 13)), ValueError, "do not fit: ((2, 3, 5, 11), (2, 3, 7, 11), (2, 1, 7, 13))"),
    (call(key=x(2, 2, 7, 11), value=x(2, 2, 7, 13)), ValueError, "2 key-value heads do not divide 3 query heads"),
    (call(key=x(2, 0, 7, 11), value=x(2, 0, 7, 13)), ValueError, "0 key-value heads do not divide 3 query heads"),
    (call(key=x(2, 3, 7, 17)), ValueError, "ScaledDot: query width 11 and key width 17 differ"),
    (call(query=x(2, 3, 5, 0), key=x(2, 3, 7, 0)), ValueError, "heads at least 1 wide, got query 0 and key 0"),
    (call(value=x(2, 3, 7, 13, dtype=torch.float64)), TypeError, "expected query, key and value of one dtype, got ("),
    *((call(**{name: value}), TypeError, f"expected {name} as a floating point tensor [b h {axes}], got {got}")
      for name, axes in (("query", "i e"), ("key", "j e"), ("value", "j c")) for value, got in (
          (x(2, 3, 5, 7, dtype=torch.complex64), "torch.complex64"), (x(2, 3, 5, 7, dtype=torch.int64), "torch.int64"),
          (np.zeros((2, 3, 5, 7)), "ndarray"))),
    *((call(query=query), TypeError, "expected query as a dense tensor of at least 16-bit numbers") for query in (
        x(1, 2, 3, 4).to_sparse(), x(1, 2, 3, 4).to(torch.float8_e4m3fn), NESTED)),
    # masks, biases, dropout
    (call(mask=x(2, 7).bool()), ValueError, f"expected a mask {BROADCASTS}(2, 7)"),
    (call(mask=x(1, 1, 1, 5, 7).bool()), ValueError, f"expected a mask {BROADCASTS}(1, 1, 1, 5, 7)"),
    (call(mask=x(2, 7).bool(), key=x(2, 3, 7, 11)), ValueError, "a mask of tokens [b s] hides keys as key_mask(mask)"),
    *((call(mask=Mask(x(*shape).bool())), ValueError, "expected a mask that broadcasts")
      for shape in ((4, 1, 1, 7), (1, 1, 1, 5))),
    (call(mask=x(5, 7)), TypeError, "expected a bool mask, True = may attend, got torch.float32"),
    (call(mask=np.zeros((5, 7))), TypeError, "got numpy.ndarray; make it a tensor: torch.as_tensor(mask)"),
    (lambda: Mask(additive=x(1, 1, 1, 3)), ValueError, "additive says the same as allowed"),
    (lambda: Mask(x(1, 1, 1, 3).long()), TypeError, "expected allowed as bool, True = may attend, got torch.int64"),
    (call(bias=x(2, 5, 7)), ValueError, f"expected a bias {BROADCASTS}(2, 5, 7)"),
    (call(bias=x(5, 7).bool()), TypeError, "expected bias as a floating point tensor, got torch.bool"),
    (call(bias=0.5), TypeError, "expected bias as a floating point tensor, got float"),
    *((call(dropout_p=p), ValueError, f"dropout_p must be a number in [0, 1), got {p!r}") for p in (1.0, "0.1", -0.5)),
    # scores and normalizers
    *((make, TypeError, got) for score, got in ((lambda q, k: q @ k.mT, "got <function"), (Dot, "got <class"))
      for make in (call(score=score), made(8, score=score))),
    (call(**FLAT, need_weights=True), ValueError, "expected FlatScore.forward to return"),
    (call(**FLAT), ValueError, "expected FlatScore.as_dot to return"),
    (call(normalize=torch.softmax), TypeError, "attend: expected an instance of Normalizer"),
    (call(normalize=FlatNormalizer()), ValueError, "FlatNormalizer.forward to return weights [b h i j] [2, 3, 5, 7]"),
    (made(8, normalize="sparsmax"), UserError, "normalizer 'sparsmax' is not known; did you mean sparsemax"),
    (made(12, score="angle"), UserError, "score 'angle' is not known; known: dot, scaled_dot"),
    (lambda: attention_to_torch(made(8, normalize="sparsemax")()), ValueError, "the normalizer Sparsemax"),
    (call(score=Location(11, max_length=6)), ValueError, "7 source positions, but it was built for at most 6; "),
    # a layer
    (made(10, num_heads=3), ValueError, "query_dim 10 is not divisible by 3 heads"),
    (made(6, 10, num_heads=3, project=False), ValueError, "context_dim 10 is not divisible by 3 heads"),
    (made(12, num_heads=6, num_kv_heads=4), ValueError, "4 key-value heads do not divide 6 heads"),
    (made(-8), ValueError, "query_dim must be at least 1, got -8"),
    (made(12, num_heads=0), ValueError, "0 key-value heads do not divide 0 heads"),
    (made(12, dropout=1.5), ValueError, "dropout must be a number in [0, 1), got 1.5"),
    (made(12, position="rotary"), TypeError, "position as an AttentionPosition, got 'rotary'"),
    (made(12, position=Sinusoidal(4)), TypeError, "position as an AttentionPosition, got Sin"),
    (lambda: LAYER(x(2, 5, 8), bias=x(5, 4)), ValueError, "expected a bias that broadcasts to [b h i j] (2, 2, 5, 5)"),
    (lambda: LAYER(x(2, 5, 8), mask=x(5, 4).bool()), ValueError, "expected a mask that broadcasts to [b h i j] (2, 2"),
    (lambda: made(8, 6, score="dot", project=False)()(x(2, 5, 8), x(2, 5, 6)), ValueError,
     "Dot: query width 4 and key width 3 differ"),
    # rows that share a context, and positions
    (lambda: LAYER(x(6, 1, 8), SHARED, causal=True), ValueError, NO_ORDER),
    (lambda: LAYER(x(6, 1, 8), SHARED, positions=torch.arange(1)), ValueError, NO_ORDER),
    (lambda: LAYER(x(6, 1, 8), SHARED, mask=Mask(causal=True)), ValueError, NO_ORDER),
    (lambda: PLACED(x(6, 5, 8), replace(PLACED.project_context(x(2, 5, 8)), shared_by=3)), ValueError, NO_ORDER),
    (lambda: PLACED(x(2, 5, 8), LAYER.project_context(x(2, 7, 8))), ValueError,
     "uses positions, but context was projected without"),
    (lambda: LAYER(x(2, 5, 8), PLACED.project_context(x(2, 5, 8))), ValueError,
     "context was projected with positions, but the layer uses none"),
    (lambda: PLACED.project_context(x(2, 7, 8), torch.arange(5)), ValueError, "expected 7 positions of keys, got 5"),
    (lambda: PLACED(x(2, 5, 8), x(2, 7, 8), positions=torch.arange(1)), ValueError, "5 positions of queries, got 1"),
    # With one query more than keys, "the last five of four" must not become "the last one, five times".
    (lambda: PLACED(x(2, 5, 8), x(2, 4, 8)), ValueError, "expected 5 positions of queries, got 4; state positions="),
    *((lambda layer=layer, dtype=dtype: layer(x(2, 5, 8), positions=torch.arange(5).to(dtype)), TypeError,
       f"expected positions of keys as int64, got {dtype}")  # their differences wrap around
      for layer in POSITIONS for dtype in (torch.uint8, torch.bool)),
    *((lambda layer=layer: layer(x(2, 5, 8), positions=torch.arange(5)[None, None]), ValueError,
       "expected positions of keys [i] or [b i], got (1, 1, 5)") for layer in POSITIONS),
    (lambda: made(8, position=Rotary(2))()(x(1, 3, 8)), ValueError, "heads 2 wide, got heads 4 wide"),
    (lambda: Sinusoidal(5), ValueError, "even width, got 5"),
    *((lambda width=width: Rotary(width), ValueError, f"even head width, got {width}") for width in (5, 0, -2)),
    (lambda: Rotary(4, base=0), ValueError, "base above 0, got 0"),
    (lambda: Alibi(0), ValueError, "at least 1 head, got 0"),
    *((lambda options=options: RelativeBias(2, **options), ValueError, "t5 positions need at least") for options in (
        {"num_buckets": 1}, {"num_buckets": 3, "bidirectional": True}, {"max_distance": 16})),
    *((lambda place=place: Learned(5, 3)(torch.tensor([0, 4, place])), ValueError,
       f"learned positions: expected 0 to 4, got {place}; build with a larger") for place in (5, -1, 99)),
    # caches and states
    *((lambda new=new: PAST.append(new), ValueError, "cache: expected keys [b h j e]") for new in (
        KeyValue(x(1, 3, 1, 5), x(1, 3, 1, 7)),  # one row for every text
        KeyValue(x(2, 1, 1, 5), x(2, 1, 1, 7)),  # one head for every head
        KeyValue(x(2, 3, 1, 7), x(2, 3, 1, 5)),  # changed places
        KeyValue(x(2, 3, 1, 5).double(), x(2, 3, 1, 7).double()))),
    (lambda: DELTA.advance(x(2, 3, 6), STATE, causal=True, need_weights=True), ValueError, NO_KEYS),
    (lambda: DELTA.advance(x(2, 3, 6), STATE), ValueError, NO_KEYS),
    (lambda: DELTA(x(2, 3, 6), mask=x(3, 3).bool()), ValueError, SAME_TOKENS),
    (lambda: DELTA(x(2, 3, 6), mask=Mask(x(2, 2, 1, 3).bool())), ValueError, SAME_TOKENS),
    (lambda: DELTA(x(2, 3, 6), bias=x(3, 3)), ValueError, "takes no bias"),
    (lambda: read_on(*[x(1, 1, 3, 3)] * 4, decay=x(1, 1, 3), corrects=True), ValueError, "the delta rule has no decay"),
    (lambda: LinearAttention(8, num_heads=2, position=Rotary(4)), ValueError, "Retention or no position inside"),
    (lambda: DeltaAttention(8, num_heads=2, position=Alibi(2)), ValueError, "expected no position inside, got Alibi"),
    *((lambda way=way: RecurrentStack(3, 5, direction=way)(x(2, 7, 3)), ValueError, "cannot go on from a state")
      for way in ("backward", "both")),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "error", "message"), REFUSED, ids=[message[:60] for *_, message in REFUSED])
def test_what_cannot_be_computed_is_named(refused, error, message):
    for with_gradients in (True, False):
        with torch.set_grad_enabled(with_gradients), pytest.raises(error, match=re.escape(message)):
            refused()


@pytest.mark.parametrize("layer", [LAYER, BARE], ids=["projected", "bare"])
@pytest.mark.parametrize("states", [x(5, 8), x(2, 5, 9), x(2, 5), np.zeros((2, 5, 8))], ids=["2", "9", "flat", "numpy"])
def test_states_of_another_form_are_refused(states, layer):
    right = x(2, 5, 8)
    calls = [lambda: layer(states), lambda: layer.project_context(states)]
    calls += [lambda: layer(right, states), lambda: layer(states, right)]
    for refused in calls:
        with pytest.raises(ValueError, match=r"MultiHeadAttention: expected (x|context) \[b . d\] with 8 features"):
            refused()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 12])
def test_rows_of_queries_and_of_keys_are_never_mixed(rows):
    context = x(rows, 5, 8)
    for keys in (context, PLACED.project_context(context)):
        with pytest.raises(ValueError, match=f"x has 6 rows, context {rows}; give each row its own"):
            PLACED(x(6, 5, 8), keys, causal=True, positions=torch.arange(5))
