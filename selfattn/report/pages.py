"""Pictures and pages from templates: text escaped, numbers without noise, the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import subprocess
import sys
import zlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from selfattn.errors import UserError, say
from selfattn.ownership import PDF_MARK, PNG_MARK

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


def embedded(data: Any) -> Markup:
    """JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))


def digest(text: str) -> str:
    """The hash by which a page's content security policy lets a script or a style sheet in."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
