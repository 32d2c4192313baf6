"""The experiment of the book's chapter 7: sums of two numbers, written `864+394_1258`, and reversed input.

- `python docs/class/addition.py addition.txt` writes 50,000 different sums.
- `selfattn --plugin docs/class/addition.py ...` knows the preset `rnn-reversed`: `rnn-plain` that reads its input from
  the end.
- `python docs/class/addition.py DIRECTORY` draws the learning curves of a comparison, `DIRECTORY/curves.svg`.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

from selfattn import register
from selfattn.models.presets import Preset, get_preset

WIDTHS = (7, 4)  # characters of a question, such as "864+394", and of an answer; shorter ones end in spaces

plain = get_preset("rnn-plain")
backward = replace(plain.config, encoder=replace(plain.config.encoder, direction="backward"))
register.preset("rnn-reversed")(
    Preset("rnn-plain that reads its input from the end", "Sutskever et al. 2014", lambda: backward, attention=False)
)


def sums(count: int, seed: int = 0) -> list[str]:
    """Return different sums of two numbers below 1,000, one a line, in the layout of the book."""
    chance = random.Random(seed)
    drawn: dict[str, int] = {}
    while len(drawn) < count:
        first, second = (chance.randrange(10 ** chance.randint(1, 3)) for _ in range(2))
        drawn[f"{first}+{second}"] = first + second
    return [f"{question:{WIDTHS[0]}}_{answer:<{WIDTHS[1]}}" for question, answer in drawn.items()]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(sums(50_000)) + "\n", encoding="utf-8")
