"""The little SVG writing that the charts need: elements with escaped attributes and text, numbers without noise."""

from __future__ import annotations

from html import escape


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


def text(content: str) -> str:
    """Text that is safe between tags."""
    return escape(content, quote=False)


def element(tag: str, *children: str, **attributes: str | float) -> str:
    """One element: children are finished markup, attribute values are escaped; `class_` is class, `_` in names is `-`.

    Example:
        >>> element("text", text("a < b"), x=1.50, text_anchor="end")
        '<text x="1.5" text-anchor="end">a &lt; b</text>'
    """
    parts = [tag]
    for name, value in attributes.items():
        shown = value if isinstance(value, str) else number(value)
        parts.append(f'{name.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    opening = " ".join(parts)
    return f"<{opening}>{''.join(children)}</{tag}>" if children else f"<{opening}/>"
