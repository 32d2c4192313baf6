"""Pictures and pages from the report's templates: text escaped, numbers without noise, the same bytes each time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


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
def templates() -> Environment:
    """The templates of the report; `number`, `percent` and `xml_text` are filters in them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("selfattn.report", "templates")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters |= {"number": number, "percent": percent, "xml_text": xml_text}
    return found


def picture(template: str, **values: object) -> str:
    """One picture of its own, from `TEMPLATE.svg.j2`, in one line."""
    drawn = templates().get_template(f"{template}.svg.j2").render(values)
    return "".join(line.strip() for line in drawn.split("\n"))
