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
ROUNDING = 1e-5  # of a score in float32: two hypotheses that are nearer than this may change places
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


def said(output: Output) -> tuple[str, bool]:
    return output.text, output.finished


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.reliability)])
@pytest.mark.parametrize("name", list(PRESETS))
def test_neighbours_change_no_token(name: str, count: int) -> None:
    model = build(shrink(PRESETS[name].config), vocab_size=len(TOKENIZER), pad_id=0, seed=0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3.0  # as sure of itself as a trained model, and not of one token alone
    texts = [text(random.Random(f"neighbours/{number}")) for number in range(count)]

    def found(options: DecodingOptions, size: int) -> list[list[Output]]:
        size *= options.beam  # hypotheses go together
        return decode_texts(model, TOKENIZER, texts, options, max_length=6, batch_size=size)

    for way, options in WAYS.items():
        alone = found(options, 1)
        assert len({tuple(map(said, outputs)) for outputs in alone}) > 2, "all say the same, whatever they are asked"
        for size in (7, 64):
            together, ties = found(options, size), 0
            for asked, one, other in zip(texts, alone, together, strict=True):
                others = [pair for pair in zip(one, other, strict=True) if said(pair[0]) != said(pair[1])]
                ties += bool(others)
                where = f"{way}, {size} together: {asked!r}"
                assert said(one[0]) == said(other[0]), where
                # What comes after the best of several may be another hypothesis, if its score is the same.
                assert all(a.score == pytest.approx(b.score, abs=ROUNDING) for a, b in others), where
            assert ties <= count // 500, f"{way}, {size} together: {ties} ties"
