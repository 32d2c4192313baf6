"""Who else is in the batch changes no token: all presets, greedy and beam, on dates, damaged ones and hostile texts."""

from __future__ import annotations

import random

import pytest
import torch
from zoo import shrink

from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import Output, decode_texts
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.tokenizers.char import CharTokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENIZER = CharTokenizer.train(["0123456789", "january february march april may june july", "JFMASOND,/-. é한ａ"])
WAYS = {"greedy": DecodingOptions(), "beam": DecodingOptions(beam=2, n_best=2, length_penalty=0.6)}
LONGEST = 50  # characters; shrunk models have room for 60


def character(chance: random.Random) -> str:
    """Any character there is, halves of surrogate pairs and what acts in a terminal among them."""
    return chr(chance.randrange(chance.choice((32, 128, 0x3000, 0xE000, 0x110000))))


def text(chance: random.Random) -> str:
    """A date, a date with a few characters lost, doubled or others, or a hostile text."""
    months = ("march", "May", "September", "07")
    said = f"{chance.randrange(1, 32)} {chance.choice(months)} {chance.randrange(1000, 3000)}"
    kind = chance.random()
    if kind < 0.3:
        return said
    if kind < 0.7:
        for _ in range(chance.randrange(1, 5)):
            place = chance.randrange(len(said) + 1)
            said = said[:place] + chance.choice(("", said[place:] * 2, character(chance))) + said[place + 1 :]
        return said[:LONGEST]
    return "".join(character(chance) for _ in range(chance.choice((0, 1, 1, 5, LONGEST))))


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.reliability)])
@pytest.mark.parametrize("name", list(PRESETS))
def test_neighbours_change_no_token(name: str, count: int) -> None:
    model = build(shrink(PRESETS[name].config), vocab_size=len(TOKENIZER), pad_id=0, seed=0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3.0  # as sure of itself as a trained model, and not of one token alone
    texts = [text(random.Random(f"neighbours/{number}")) for number in range(count)]

    def tokens(options: DecodingOptions, size: int) -> list[list[tuple[str, bool]]]:
        def what(found: list[Output]) -> list[tuple[str, bool]]:
            return [(one.text, one.finished) for one in found]

        size *= options.beam  # hypotheses go together
        return [what(one) for one in decode_texts(model, TOKENIZER, texts, options, max_length=6, batch_size=size)]

    for way, options in WAYS.items():
        alone = tokens(options, 1)
        assert len({tuple(found) for found in alone}) > 2, "all say the same, whatever they are asked"
        for size in (7, 64):
            found = tokens(options, size)
            wrong = [number for number in range(count) if found[number] != alone[number]]
            assert not wrong, f"{way}, {size} together: {len(wrong)} of {count}, such as {texts[wrong[0]]!r}"
