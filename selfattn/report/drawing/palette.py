"""One sign a model, everywhere: a colour (after Okabe and Ito) and a shape, so that colour is never the only sign."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count, islice

from selfattn.registry import PRESETS

INKS = ("#0072b2", "#d55e00", "#009067", "#b8598f", "#a87400", "#2a86bd", "#333a42")  # on white; --m0 to --m6 in CSS
COLOURS = len(INKS)
ANSI = ("blue", "red", "green", "magenta", "yellow", "cyan", "white")
_SHAPES = (  # as text, and as SVG path data around (0, 0), about 10 px wide
    ("●", "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"),
    ("■", "M-4.1,-4.1h8.2v8.2h-8.2z"),
    ("▲", "M0,-5.2L5.2,4.2H-5.2z"),
    ("◆", "M0,-5.6L5.6,0L0,5.6L-5.6,0z"),
    ("▼", "M0,5.2L5.2,-4.2H-5.2z"),
    ("✚", "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z"),
    ("✖", "M-4.8,-2.7L-2.7,-4.8L0,-2.1L2.7,-4.8L4.8,-2.7L2.1,0L4.8,2.7L2.7,4.8L0,2.1L-2.7,4.8L-4.8,2.7L-2.1,0z"),
)
_SIGNS = COLOURS * len(_SHAPES)
_STRIDE = 4  # with it the models that are usually compared differ in colour and in shape


@dataclass(frozen=True)
class Sign:
    """How one model is drawn.

    Attributes:
        colour: its number, 0 to 6.
        glyph: the shape as one character of text.
        path: the shape as SVG path data.
    """

    colour: int
    glyph: str
    path: str

    @property
    def ink(self) -> str:
        """The colour on white."""
        return INKS[self.colour]


class Signs(dict[str, Sign]):
    """A sign for every name; one that was not given gets the next. The first 49 differ.

    A preset has the same sign on every page, unless a model before it has that colour or shape. Up to seven models
    differ in both.

    Example:
        >>> signs = Signs(["mine", "transformer", "rnn-attention"])
        >>> signs["rnn-attention"].glyph, signs["transformer"].glyph, signs["mine"].glyph
        ('▲', '◆', '●')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.presets = PRESETS.names()
        self.begin(names)

    def begin(self, names: Iterable[str]) -> str:
        """Begin anew, with other names; return an empty text, for templates."""
        self.clear()
        for name in sorted(names, key=lambda name: name not in self.presets):  # stable: others keep their order
            self[name]
        return ""

    def __missing__(self, name: str) -> Sign:
        places = chain([_STRIDE * self.presets.index(name)] if name in self.presets else [], count())
        signs = [Sign(k % COLOURS, *_SHAPES[(k + k // COLOURS) % len(_SHAPES)]) for k in islice(places, 2 * _SIGNS)]
        colours = {sign.colour for sign in self.values()}
        glyphs = {sign.glyph for sign in self.values()}
        of_own_colour = [sign for sign in signs if sign.colour not in colours and sign.glyph not in glyphs]
        others = [sign for sign in signs if sign not in self.values()]
        self[name] = sign = next(chain(of_own_colour, others, signs))
        return sign
