"""Predictions keep their order, whatever the batches; evaluation and latency count right."""

import pytest
from torch import Tensor

from selfattn.decoding import texts as decode_module
from selfattn.decoding.texts import decode_texts
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.char import CharTokenizer

TOKENIZER = CharTokenizer.train(["abcdefg 0123456789"])


def predict(model: Seq2Seq, tokenizer: CharTokenizer, texts: list[str], **settings: int) -> list[str]:
    return [found[0].text for found in decode_texts(model, tokenizer, texts, **settings)]  # type: ignore[arg-type]  # lengths and sizes


TEXTS = ["abc", "", "g" * 23, "a", "   ", "0123456789", "abc", "de fg"]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_order_is_kept_empty_lines_stay_and_batches_change_nothing(
    batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(PRESETS["rnn-attention"].config, vocab_size=len(TOKENIZER), pad_id=0, seed=1)
    monkeypatch.setattr(decode_module, "BATCH_SIZE", batch_size)
    found = predict(model, TOKENIZER, TEXTS, max_length=6)
    alone = [predict(model, TOKENIZER, [text], max_length=6)[0] for text in TEXTS]
    assert found == alone
    assert found[1] == found[4] == ""
    assert found[0] == found[6] != ""


def test_long_texts_go_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(PRESETS["transformer"].config, vocab_size=len(TOKENIZER), pad_id=0, seed=1)
    rows: list[int] = []
    encode = model.encode

    def counting(source: Tensor, mask: Tensor) -> object:
        rows.append(source.shape[0])
        return encode(source, mask)

    monkeypatch.setattr(model, "encode", counting)
    monkeypatch.setattr(decode_module, "MAX_TOKENS", 60)
    texts = ["a" * 25, "b", "c", "d" * 25]
    assert len(predict(model, TOKENIZER, texts, max_length=2)) == 4
    assert rows == [2, 2]  # three rows of 26 + 1 tokens would be 81
