"""How long the outputs of a validation may be."""

from hypothesis import given
from hypothesis import strategies as st

from selfattn.data.pairs import Pair, encode_pairs
from selfattn.decoding.texts import decode_texts
from selfattn.models.build import build
from selfattn.runs.training_set import output_limits
from selfattn.tokenizers.listed import CharTokenizer

TOKENIZER = CharTokenizer("ab ")
SIDES = st.text("ab ", min_size=1, max_size=40)
PAIRS = st.lists(st.builds(Pair, SIDES, SIDES), min_size=1, max_size=9)


def limits(pairs: list[Pair], known: list[Pair]) -> list[int]:
    return output_limits(pairs, encode_pairs(pairs, TOKENIZER), known, TOKENIZER)


@given(PAIRS, PAIRS)
def test_a_limit_is_twice_the_longest_target_of_sources_up_to_twice_as_long(
    pairs: list[Pair], known: list[Pair]
) -> None:
    for pair, limit in zip(pairs, limits(pairs, known), strict=True):
        near = [each for each in [*pairs, *known] if len(each.source) <= 2 * len(pair.source) + 10]
        assert limit == 2 * max(len(each.target) + 1 for each in near)


def test_each_row_of_a_batch_stops_at_its_own_limit() -> None:
    model = build("transformer", vocab_size=len(TOKENIZER), seed=1)
    texts = ["a", "ab a", "b"]
    outputs = decode_texts(model, TOKENIZER, texts, max_length=[3, 9, 2])
    for text, limit, output in zip(texts, (3, 9, 2), outputs, strict=True):
        alone = decode_texts(model, TOKENIZER, [text], max_length=limit)[0]
        assert output[0].text == alone[0].text
