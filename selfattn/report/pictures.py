"""Charts and attention maps as pictures, and the templates of pictures and pages.

Text is escaped, numbers are without noise, and the same input gives the same bytes.

In a picture of attention, source tokens stand along the top in the order in which the line is read (right-to-left text
too), target tokens down the side. The darker a cell, the larger its weight; zero is the colour of the page. Every cell
tells its value on hover.

An axis of tokens follows the order in which the line is displayed, which differs from memory order for text written
from right to left. The order is that of the Unicode Bidirectional Algorithm (UAX #9) for one paragraph without explicit
embeddings: rules P2-P3, W1-W7, N1-N2, I1-I2 and L2, applied to whole tokens.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import subprocess
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from itertools import accumulate, chain, count, groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from selfattn.errors import UserError, say
from selfattn.ownership import PDF_MARK, PNG_MARK
from selfattn.registry import PRESETS
from selfattn.report.blocks import Chart, ChartLine, Column, Row, Table
from selfattn.report.numbers import NONE, Scale, even_ticks, value_text
from selfattn.words.messages import TextLike

if TYPE_CHECKING:
    from jinja2 import Environment


HOME = "selfattn.report"
_CJK = "[\u1100-\u11ff\u2e80-\uffef]"  # Korean, Japanese and Chinese letters
_NOTO = "Noto Sans CJK KR"
_PNG_HEAD = 33  # bytes of a PNG file's signature and first chunk
_SYSTEM_FONTS = {"darwin": "Apple SD Gothic Neo", "win32": "Malgun Gothic"}


def number(value: float) -> str:
    """A coordinate with at most two decimals and no trailing zeros, so that equal pictures have equal bytes.

    Example:
        >>> number(3.0), number(2.125), number(-0.001)
        ('3', '2.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """A place along an axis as a percentage of its length."""
    return f"{number(100 * share)}%"


def xml_text(line: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(char if char.isprintable() or char in " \u200d" else "▫" for char in line)


@cache
def templates(package: str = HOME) -> Environment:
    """The templates of a package, the report's by default; `number`, `percent` and `xml_text` are filters in them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(package, "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "percent": percent, "xml_text": xml_text}
    return environment


def picture(template: str, **values: object) -> str:
    """One picture of its own, from `TEMPLATE.svg.j2`, in one line."""
    drawn = templates().get_template(f"{template}.svg.j2").render(values)
    return "".join(line.strip() for line in drawn.split("\n"))


def drawn_as(kind: Literal["png", "pdf"], svg: str) -> bytes:
    """Convert a picture to PNG, at twice its size, or PDF.

    Raises:
        UserError: CairoSVG is missing.
    """
    try:
        import cairosvg
    except (ImportError, OSError):  # OSError: the package is there, the cairo library is not
        raise UserError(f"{kind.upper()} needs CairoSVG: pip install 'selfattn[figures]'") from None
    # CairoSVG uses the first font alone, even for letters that it lacks.
    svg = svg.replace("ui-monospace", "'DejaVu Sans Mono'")
    if letters := "".join(sorted({*re.findall(_CJK, svg)})):
        svg = re.sub(f"<text (?=[^>]*>[^<]*{_CJK})", f"<text font-family='{_font_with(letters)}' ", svg)
    if kind == "pdf":
        pdf: bytes = cairosvg.svg2pdf(svg.encode())
        return pdf.rstrip(b"\n") + b"\n" + PDF_MARK
    png: bytes = cairosvg.svg2png(svg.encode(), scale=2)
    text = b"tEXt" + PNG_MARK
    chunk = struct.pack(">I", len(PNG_MARK)) + text + struct.pack(">I", zlib.crc32(text))
    return png[:_PNG_HEAD] + chunk + png[_PNG_HEAD:]


@cache
def _font_with(letters: str) -> str:
    """An installed font that has all of these letters."""
    if sys.platform in _SYSTEM_FONTS:
        return _SYSTEM_FONTS[sys.platform]
    wanted = ":charset=" + " ".join(f"{ord(letter):x}" for letter in letters)
    try:
        fonts = subprocess.run(["fc-list", wanted, "family"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return _NOTO
    if not fonts:
        say(f"no installed font has all letters of {letters!r}: PNG and PDF will show boxes; install {_NOTO}")
        return _NOTO
    return min(fonts.splitlines()).split(",")[0]


@cache
def asset(name: str, package: str = HOME) -> str:
    """A style sheet or a script that stands beside the templates of a package, as text."""
    return resources.files(package).joinpath("templates", name).read_text(encoding="utf-8")


def embed_json(data: Any) -> Markup:
    """JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))


def digest(text: str) -> str:
    """The hash by which a page's content security policy lets a script or a style sheet in."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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


_MOST_PLACES = 6  # columns of a chart that is written as a table
_HEIGHT = 280
_LABEL = 17  # least distance of two direct labels, px

Coordinates = tuple[float, float]


@dataclass(frozen=True)
class DrawnLine:
    """The places of a line, as shares of the chart's width and height from its top left corner.

    Attributes:
        name: the line's name.
        title: its name in the legend; empty where the name stands beside the end of the line.
        sign: its colour and shape.
        band: the corners of the band around it; empty where there is none.
        points: the line itself.
        rings: the points that are ringed.
        tips: what each point shows on hover.
        label: where the name stands, px from the top.
    """

    name: str
    title: TextLike
    sign: Sign
    band: list[Coordinates]
    points: list[Coordinates]
    rings: list[Coordinates]
    tips: list[str]
    label: float


@dataclass(frozen=True)
class Curves:
    """The places of everything in a chart.

    Attributes:
        height: px.
        rules: horizontal lines with their labels, as shares of the height from the top.
        ticks: marks of the horizontal axis with their labels, as shares of the width.
        lines: the lines with their bands and names.
    """

    height: int
    rules: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    lines: list[DrawnLine]

    @property
    def has_legend(self) -> bool:
        """Whether a legend names the lines."""
        return any(line.title for line in self.lines)


def curves(chart: Chart, sign_of: Mapping[str, Sign]) -> Curves | None:
    """Place the lines of a chart, their bands and their names; return None when no line has a spot."""
    lines = [line for line in chart.lines if line.spots]
    scale = chart.scale
    if not lines:
        return None
    last = max(spot.x for spot in chain.from_iterable(line.spots for line in lines))
    across = chart.across or Scale(None, last or 1.0, "number")
    height = max(_HEIGHT, _LABEL * len(lines) + 20)

    def point(x: float, y: float) -> Coordinates:
        return across.place(x), 1 - scale.place(y)

    labels = _pushed_apart([height * (1 - scale.place(line.spots[-1].y)) for line in lines], height)
    drawn = []
    for line, label in zip(lines, labels, strict=True):
        around = [(s.x, s.low, s.high) for s in line.spots if s.low is not None and s.high is not None]
        edge = [point(x, high) for x, _, high in around] + [point(x, low) for x, low, _ in reversed(around)]
        name = "" if line.label else f"{line.name} · "
        tips = [f"{name}{chart.show(spot.x)} · {_value(spot.y, scale)}" for spot in line.spots]
        points = [point(spot.x, spot.y) for spot in line.spots]
        rings = [point(spot.x, spot.y) for spot in line.spots if spot.chosen]
        drawn.append(DrawnLine(line.name, line.label, sign_of[line.name], edge, points, rings, tips, label))
    rules = [(1 - scale.place(quality), mark) for quality, mark in scale.ticks]
    marks = chart.across.ticks if chart.across else _marks(chart, across.top)
    return Curves(height, rules, [(across.place(x), mark) for x, mark in marks], drawn)


def _marks(chart: Chart, top: float) -> list[tuple[float, str]]:
    """Return round places of the horizontal axis; whole numbers where every point stands at one, such as a layer."""
    ticks = [round(x, 9) for x in even_ticks(top, count=4)]
    if all(float(spot.x).is_integer() for line in chart.lines for spot in line.spots):
        ticks = [x for x in ticks if x.is_integer()]
    return [(x, chart.show(x) if x else "0") for x in ticks]


def _value(value: float, scale: Scale) -> str:
    if scale.kind in ("number", "bits"):
        return f"{value:.3g}".replace("-", "−")
    return value_text(value, scale.kind, None if scale.floor else 1)


def _pushed_apart(ends: list[float], height: float) -> list[float]:
    """Push the names at the right edge apart where they would overlap."""
    order = sorted(range(len(ends)), key=ends.__getitem__)
    places = list(accumulate((ends[k] for k in order), lambda above, end: max(end, above + _LABEL)))
    places = [min(place, height - _LABEL * k) for k, place in zip(range(len(places))[::-1], places, strict=True)]
    at = dict(zip(order, places, strict=True))
    return [at[k] for k in range(len(ends))]


def label_margin(lines: Sequence[ChartLine]) -> int:
    """Return the width that the names beside the lines need, px."""
    return 12 if any(line.label for line in lines) else min(190, 30 + 7 * max(len(line.name) for line in lines))


def chart_table(chart: Chart) -> Table:
    """Return a chart as a table: the value of every line at a few places of the horizontal axis, ◎ by ringed ones."""
    lines = [line for line in chart.lines if line.spots]
    spots = list(chain.from_iterable(line.spots for line in lines))
    places = sorted({spot.x for spot in spots})
    if len(places) > _MOST_PLACES:
        few = {places[round(k * (len(places) - 1) / (_MOST_PLACES - 1))] for k in range(_MOST_PLACES)}
        places = sorted(few | {spot.x for spot in spots if spot.chosen})
    columns = (Column(chart.unit, numeric=False), *(Column(chart.show(x)) for x in places))
    return Table(chart.name, columns, tuple(_values(line, places, chart.scale) for line in lines))


def _values(line: ChartLine, places: Sequence[float], scale: Scale) -> Row:
    """Return the last value of a line up to each place; a line that ended long before has none there."""
    cells = []
    for x in places:
        before = [spot for spot in line.spots if spot.x <= x]
        ring = "◎" if before and before[-1].chosen and before[-1].x == x else ""
        cells.append(ring + _value(before[-1].y, scale) if before and line.spots[-1].x >= 0.9 * x else NONE)
    return Row((line.label or line.name, *cells), line.name)


SPECIAL = {"<eos>": "⏎", "<bos>": "⊢", "<pad>": "∅", "<unk>": "□"}
_INVISIBLE = {
    " ": "␣", "\t": "⇥", "\n": "↵", "\u00a0": "⍽", "\u202f": "⍽", "\u2009": "⍽", "\u3000": "␣",
    "\u200e": "⇢", "\u200f": "⇠",
}  # fmt: skip
_ENDS = frozenset(["<eos>", "<bos>", "<pad>"])  # have no characters in the text
_DIRECTED = ("L", "R", "AL", "AN", "EN")
# Bidirectional classes as one letter each, so that a line is a string; neutral classes are O.
_LETTERS = {"L": "L", "R": "R", "AL": "A", "EN": "E", "AN": "N", "ES": "S", "CS": "C", "ET": "T", "NSM": "M"}
_RULES = (  # pattern of a stretch, letters to replace in it, their replacement
    (r"A[^LRA]*", "E", "N"),  # W2
    (r"A", "A", "R"),  # W3
    (r"(?<=E)[SC](?=E)", "[SC]", "E"),  # W4
    (r"(?<=N)C(?=N)", "C", "N"),
    (r"T*E[ET]*", "T", "E"),  # W5
    (r"[^LREN]", ".", "O"),  # W6
    (r"L[^R]*", "E", "L"),  # W7
    (r"(?<=L)O+(?=L)", "O", "L"),  # N1
    (r"(?<=[REN])O+(?=[REN])", "O", "R"),
)


def shown(token: str) -> str:
    """Return a token as drawn: spaces as ␣, `<eos>` as ⏎, other invisible characters as ▫, a lone accent on ◌.

    Example:
        >>> [shown(token) for token in ("a", " ", "<eos>", "\\u0301")]
        ['a', '␣', '⏎', '◌́']
    """
    if token in SPECIAL:
        return SPECIAL[token]
    text = "".join(_INVISIBLE.get(char) or ("▫" if unicodedata.category(char)[0] == "C" else char) for char in token)
    return f"◌{text}" if text and unicodedata.combining(text[0]) else text


def width(text: str) -> int:
    """Return the columns of a text in a monospace font: 2 for a CJK character, 0 for an accent, else 1.

    Example:
        >>> width("年a"), width("e\\u0301")
        (3, 1)
    """
    taking = (c for c in text if not unicodedata.combining(c) and unicodedata.category(c) not in ("Cf", "Mn", "Me"))
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in taking)


def token_places(tokens: Sequence[str], start: int, end: int) -> list[int]:
    """Return the indices of the tokens that contain characters [start, end) of their joined text.

    Example:
        >>> token_places(["20", "08", "<eos>"], 1, 3)
        [0, 1]
    """
    places = []
    position = 0
    for k, token in enumerate(tokens):
        size = 1 if token == "<unk>" else len(token)
        if token in _ENDS:
            size = 0
        if size and position < end and position + size > start:
            places.append(k)
        position += size
    return places


def visual_order(tokens: Sequence[str]) -> list[int]:
    """Return the indices of the tokens from left to right as displayed.

    Example:
        >>> visual_order(["a", "b"]), visual_order(["א", "ב", "1", "2"])
        ([0, 1], [2, 3, 1, 0])
    """
    levels = _line_levels(tokens)
    order = list(range(len(tokens)))
    for level in range(max(levels, default=0), 0, -1):  # L2
        reordered: list[int] = []
        for inside, run in groupby(order, lambda k: levels[k] >= level):  # noqa: B023  # read at once
            stretch = list(run)
            reordered += stretch[::-1] if inside else stretch
        order = reordered
    return order


def _line_levels(tokens: Sequence[str]) -> list[int]:
    """Return the embedding level of every token; odd levels run from right to left."""
    kinds = [_kind(token) for token in tokens]
    if not {"R", "AL", "AN"} & set(kinds):
        return [0] * len(kinds)
    base = "L" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") == "L" else "R"  # P2, P3
    line = f"{base}{''.join(_LETTERS.get(kind, 'O') for kind in kinds)}{base}"
    line = re.sub("(.)M+", lambda marked: marked[1] * len(marked[0]), line)  # W1
    for stretch, letters, other in (*_RULES, ("O", "O", base)):  # N2
        line = re.sub(stretch, lambda run: re.sub(letters, other, run[0]), line)  # noqa: B023  # called at once
    return [{"R": 1, "L": 0 if base == "L" else 2}.get(letter, 2) for letter in line[1:-1]]  # I1, I2


def _kind(token: str) -> str:
    """Return the bidirectional class of a token: of its first character with a direction, else of its first."""
    if token in SPECIAL or not token:
        return "ON"
    kinds = [unicodedata.bidirectional(char) for char in token]
    return next((kind for kind in kinds if kind in _DIRECTED), kinds[0])


def pieces(prediction: str, target: str) -> list[tuple[Literal["same", "wrong", "missing"], str]]:
    """Compare a prediction with its target, character by character.

    Texts of the same length are compared place by place (a date with one wrong digit has one wrong digit); others by
    the longest common stretches.

    Returns:
        Stretches of characters, each with its kind: `same` stands in both, `wrong` only in the prediction, `missing`
        only in the target. `same` and `wrong` together are the prediction; where lengths differ, `same` and `missing`
        together are the target.

    Example:
        >>> pieces("2008-11-31", "2008-11-13")
        [('same', '2008-11-'), ('wrong', '31')]
        >>> pieces("208", "2008")
        [('same', '20'), ('missing', '0'), ('same', '8')]
    """
    if len(prediction) == len(target):
        runs = groupby(zip(prediction, target, strict=True), key=lambda pair: pair[0] == pair[1])
        return [("same" if same else "wrong", "".join(char for char, _ in run)) for same, run in runs]
    parts: list[tuple[Literal["same", "wrong", "missing"], str]] = []
    for tag, i, j, m, n in SequenceMatcher(None, prediction, target, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(("same", prediction[i:j]))
        else:
            parts += [("wrong", prediction[i:j]), ("missing", target[m:n])]
    return [(kind, text) for kind, text in parts if text]


# Pixels.
_CELL = 19
_ROW = 21
_SHADES = " ░▒▓█"


def attention_svg(
    weights: Iterable[Iterable[SupportsFloat]],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    title: str = "",
    axes: str = "",
) -> str:
    """Draw attention weights.

    Args:
        weights: [t][s], nested sequences or a 2-D tensor, between 0 and 1.
        source_tokens: s tokens, in the order of the text.
        target_tokens: t tokens.
        title: a line above the picture; default none.
        axes: what rows, columns and colours mean, a line beside the scale of colours; default none.

    Returns:
        An `<svg>` element that can stand in a page or be a file of its own.

    Raises:
        ValueError: the weights are not t rows of s.

    Example:
        >>> picture = attention_svg([[0.9, 0.1]], ["a", " "], ["b"])
        >>> picture.startswith("<svg"), "b ← ␣: 0.1000" in picture
        (True, True)
    """
    rows = weight_rows(weights, source_tokens, target_tokens, "attention_svg")
    order = visual_order(source_tokens)
    columns = [shown(token) for token in source_tokens]
    labels = [shown(token) for token in target_tokens]

    turned = max(map(width, columns), default=1) > 2
    top = (8 * max(map(width, columns)) + 12 if turned else 24) + (24 if title else 0)
    left = 8 * max(map(width, labels), default=1) + 12
    across = [left + _CELL * place for place in range(len(order) + 1)]
    down = [top + _ROW * k for k in range(len(labels) + 1)]
    cells: list[tuple[float, float, float, str]] = []
    for y, row, label in zip(down, rows, labels, strict=False):
        for x, k in zip(across, order, strict=False):
            if row[k] >= 0.00005:  # less is drawn as nothing and rounds to 0.0000
                cells.append((x + 0.5, y + 0.5, min(1.0, row[k]), f"{label} ← {columns[k]}: {row[k]:.4f}"))
    return picture(
        "attention",
        title=title,
        axes=axes,
        width=max(across[-1], left + 150 + 7 * width(axes), 8 * width(title)) + 10,
        height=down[-1] + 30,
        left=left,
        columns=[(x + _CELL / 2, top - 8, columns[k], turned) for x, k in zip(across, order, strict=False)],
        labels=[(left - 8, y + 15, label) for y, label in zip(down, labels, strict=False)],
        rules=[*((x, top, x, down[-1]) for x in across), *((left, y, across[-1], y) for y in down)],
        cells=cells,
        cell=_CELL,
        row=_ROW,
    )


def weight_rows(
    weights: Iterable[Iterable[SupportsFloat]], source: Sequence[str], target: Sequence[str], what: str
) -> list[list[float]]:
    """Weights as lists [t][s].

    Raises:
        ValueError: they are not t rows of s; the message says what expects them.
    """
    rows = [[float(weight) for weight in row] for row in weights]
    if len(rows) != len(target) or any(len(row) != len(source) for row in rows):
        expected = f"{len(target)} rows (target tokens) of {len(source)} weights (source tokens)"
        raise ValueError(f"{what} expects {expected}, got rows of {[len(row) for row in rows][:3]}")
    return rows


def attention_text(
    weights: Iterable[Iterable[SupportsFloat]],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    columns: int = 80,
) -> RenderableType:
    """Draw attention weights as text.

    Args:
        weights: [t][s], nested sequences or a 2-D tensor, between 0 and 1.
        source_tokens: s tokens; they stand in the order of the text, as not all terminals turn right-to-left lines.
        target_tokens: t tokens.
        columns: width to keep to; a longer source goes on in further blocks. Default 80.

    Returns:
        Something that `rich` can print.

    Raises:
        ValueError: the weights are not t rows of s.

    Example:
        >>> from rich.console import Console
        >>> picture = attention_text([[0.95, 0.05], [0.1, 0.9]], ["a", " "], ["x", "<eos>"])
        >>> Console(width=40, color_system=None).print(picture)
          a␣
        x █   a 0.95
        ⏎  █  ␣ 0.90
    """
    rows = weight_rows(weights, source_tokens, target_tokens, "attention_text")
    source = [_unjoined(shown(token)) for token in source_tokens]
    target = [_unjoined(shown(token)) for token in target_tokens]
    label, best = (max(map(width, tokens), default=0) for tokens in (target, source))
    sizes = [max(map(width, token), default=1) or 1 for token in source]

    def block(places: list[int]) -> Text:
        text = Text(no_wrap=True)
        stacks = [_characters(source[k]) for k in places]
        tallest = max(map(len, stacks))
        for line in zip(*([""] * (tallest - len(stack)) + stack for stack in stacks), strict=True):
            chars = (char + " " * (sizes[k] - width(char)) for char, k in zip(line, places, strict=True))
            text.append(f"{' ' * (label + 1)}{''.join(chars)}\n")
        for row, token in zip(rows, target, strict=True):
            text.append(token + " " * (label - width(token) + 1), style="bold")
            for k in places:
                shade = _SHADES[min(len(_SHADES) - 1, round(row[k] * (len(_SHADES) - 1)))]
                text.append(shade * sizes[k], style="blue")
            top = max(range(len(row)), key=row.__getitem__)
            text.append(f"  {source[top]} ", style="bold").append(f"{row[top]:.2f}\n", style="dim")
        text.rstrip()
        return text

    return Group(*map(block, _blocks(sizes, columns - label - best - 9)))


def _blocks(sizes: Sequence[int], columns: int) -> list[list[int]]:
    """Cut the places of the source into stretches that fit."""
    blocks: list[list[int]] = []
    for k, size in enumerate(sizes):
        if not blocks or sum(sizes[place] for place in blocks[-1]) + size > columns:
            blocks.append([])
        blocks[-1].append(k)
    return blocks


def _unjoined(token: str) -> str:
    """Return a single Hangul letter in the form that does not join its neighbours in a syllable."""
    if len(token) == 1:
        kind, _, letter = unicodedata.name(token, "").partition("SEONG ")
        if kind in ("HANGUL CHO", "HANGUL JUNG", "HANGUL JONG"):
            with suppress(KeyError):  # a letter of old Korean that has no other form
                return unicodedata.lookup(f"HANGUL LETTER {letter}")
    return token


def _characters(token: str) -> list[str]:
    """Return the characters of a token, accents kept with their letters."""
    firsts = [k for k, char in enumerate(token) if k == 0 or width(char)]
    return [token[start:end] for start, end in pairwise([*firsts, len(token)])]
