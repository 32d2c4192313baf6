"""A language model goes on from a beginning exactly as if it had read the whole text at once."""

import math
from typing import Any

import pytest
import torch

from selfattn.decoding import texts as module
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.scoring import TextScore, score_texts, text_examples
from selfattn.decoding.texts import continue_texts, decode_sources
from selfattn.models.build import build
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.decoder_only.model import Continuation, DecoderOnly
from selfattn.models.transformer_config import TransformerConfig
from selfattn.tokenizers.char import CharTokenizer

TOKENIZER = CharTokenizer("abcdef")
POSITIONS = ("none", "sinusoidal", "rotary", "alibi", "t5")


def language_model(position: str = "sinusoidal", *, prefix: bool = False) -> DecoderOnly:
    stack = TransformerConfig(dim=8, num_heads=2, num_layers=2, ffn_dim=11, position=position)  # type: ignore[arg-type]  # a str of parametrize
    config = DecoderOnlyConfig(stack=stack, bidirectional_prefix=prefix)
    model = build(config, vocab_size=len(TOKENIZER), pad_id=0, seed=5).eval()
    assert isinstance(model, DecoderOnly)
    return model


@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_it_goes_on_as_if_it_had_read_everything_at_once(position: str) -> None:
    model = language_model(position)
    begun, rest = [[5, 6, 7], [], [8]], [[4, 9], [6, 5], [7, 7]]
    source = torch.tensor([row + [0] * (3 - len(row)) for row in begun])
    target_in = torch.tensor([[1, *row] for row in rest])
    mask = source > 0
    continuation = Continuation(model, bos_id=1).eval()
    found = continuation(source, target_in, source_mask=mask)
    state = continuation.start(continuation.encode(source, mask))
    for place in range(3):
        step, state = continuation.step(target_in[:, place], state)
        torch.testing.assert_close(step, found[:, place], rtol=1e-4, atol=1e-5)
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    for row, (beginning, end) in enumerate(zip(begun, rest, strict=True)):
        whole = model(nothing, torch.tensor([[1, *beginning, *end]]), source_mask=nothing > 0)
        torch.testing.assert_close(found[row], whole[0, len(beginning) :], rtol=1e-4, atol=1e-5)


def test_a_model_that_reads_in_both_directions_is_refused() -> None:
    with pytest.raises(ValueError, match="both directions"):
        Continuation(language_model(prefix=True), bos_id=1)


@torch.no_grad()
def test_the_scores_of_continuations_are_those_of_the_whole_text() -> None:
    model, texts = language_model(), ["ab", "", "fade"]
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    sources = [TOKENIZER.encode(text) for text in texts]
    for options in (DecodingOptions(), DecodingOptions(beam=3, n_best=2), DecodingOptions(sample=True, seed=4)):
        found = decode_sources(
            Continuation(model, bos_id=1), TOKENIZER, sources, options, limits=[3, 7, 5], streams=[0, 1, 2]
        )
        for begun, hypotheses in zip(sources, found, strict=True):
            assert len(hypotheses) == options.n_best
            for one in hypotheses:
                ids = [1, *begun, *one.ids, *([2] if one.finished else [])]
                logits = model(nothing, torch.tensor([ids[:-1]]), source_mask=nothing > 0)[0]
                each = logits.log_softmax(dim=-1)[range(len(ids) - 1), ids[1:]]
                assert one.log_probability == pytest.approx(each[len(begun) :].sum().item(), abs=1e-4)


def test_samples_depend_on_the_seed_and_the_number_of_the_text_alone() -> None:
    model = language_model()
    options = DecodingOptions(sample=True, seed=4)
    texts = ["ab", "", "fade", "ab"]
    together = continue_texts(model, TOKENIZER, texts, options, context=12)
    apart = [
        continue_texts(model, TOKENIZER, [text], options, context=12, first=place)[0][0].text
        for place, text in enumerate(texts)
    ]
    assert [outputs[0].text for outputs in together] == apart
    assert all(text.startswith(begun) for text, begun in zip(apart, texts, strict=True))


def test_continuations_end_where_a_window_would(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[list[list[int]], list[int]]] = []

    def recording(
        model: object, tokenizer: object, sources: list[list[int]], *rest: object, **options: Any
    ) -> list[Any]:
        given.append((sources, options["limits"]))
        return [[] for _ in sources]

    monkeypatch.setattr(module, "decode_sources", recording)
    texts = ["", "abc", "abcdef" * 5]
    continue_texts(language_model(), TOKENIZER, texts, DecodingOptions(), context=10)
    continue_texts(language_model(), TOKENIZER, texts, DecodingOptions(max_length=2), context=10)
    (sources, limits), (_, short) = given
    # 10 characters of a window and its end; of the long beginning the last 5 are read.
    assert sources == [[], [4, 5, 6], [5, 6, 7, 8, 9]]
    assert (limits, short) == ([11, 8, 6], [2, 2, 2])


def test_windows_have_every_token_once_and_one_end() -> None:
    examples = text_examples(["abcde", "", "abcd", "a"], TOKENIZER, 2)
    assert [example.target for example in examples] == [[4, 5], [6, 7], [8, 2], [4, 5], [6, 7, 2], [4, 2]]
    assert all(example.source == [] for example in examples)


def test_figures_by_hand() -> None:
    found = TextScore(log_probability=-6 * math.log(4), tokens=6, characters=4)
    assert found.perplexity == pytest.approx(4.0)
    assert found.bits_per_character == pytest.approx(3.0)  # 2 bits for each of 6 tokens, over 4 characters


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary() -> None:
    model = language_model()
    with torch.no_grad():
        for parameter in model.output.parameters():
            parameter.zero_()
    found = score_texts(model, TOKENIZER, ["abc", "fade"], context=2)
    assert found.tokens == 9
    assert found.perplexity == pytest.approx(len(TOKENIZER))
