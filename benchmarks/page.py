"""The page docs/benchmarks.md and its picture, from what was measured."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator
from html import escape
from typing import Any

from benchmarks.measure import Row, spread

TITLES = {
    "processes": "Start, and several processes at once",
    "training": "The training step",
    "decoding": "Decoding",
    "attention": "Attention",
    "program": "The textbook's program",
}
OPTION = re.compile(r"(?:selfattn )?--[a-z-]+(?: [\d.]+)?")  # code, whose dashes a page keeps
HEAD = """# Benchmarks

<!-- made by `python -m benchmarks`; do not edit -->

Programs run by turns (A B A B ...) in one process. Tables give medians, with the lower and upper quartile in brackets.
"Times" is the other program's figure divided by ours, turn by turn, as a median: above 1, ours needs less. A goal is
what this project aimed at, against the best of the others. Columns "AVX2" hold the same with the processor's wider
instructions (AVX-512, bfloat16, AMX) hidden from all programs, as on a processor that has none. With one thread,
processor time counts, because other work on the machine disturbs it less. Several processes at once are timed by wall
time. To run it yourself:

```bash
python -m venv peers && source peers/bin/activate
pip install -e . && pip install -r benchmarks/peers.txt
python -m benchmarks --quick --page   # 10 minutes; --all: all of it; --only decoding; --avx2; --device cuda
```

![How many times as much the best of the others takes as ours, with what was aimed at](images/benchmarks.svg)
"""


def page(kept: dict[str, Any]) -> dict[str, str]:
    """Return the texts of the files, by their paths."""
    rows = {name: [Row(**row) for row in kept["groups"][name]["rows"]] for name in TITLES if name in kept["groups"]}
    text = HEAD
    for name, found in rows.items():
        twin = kept["groups"].get(f"{name}, AVX2")
        text += f"\n## {TITLES[name]}\n\n{_group(kept['groups'][name], found, twin)}"
    return {
        "docs/benchmarks.md": text,
        "docs/images/benchmarks.svg": picture([row for found in rows.values() for row in found]),
    }


def _group(group: dict[str, Any], rows: list[Row], twin: dict[str, Any] | None) -> str:
    twins = {row["title"]: Row(**row) for row in twin["rows"]} if twin else {}
    how = f"{_how(group)} AVX2: {_how(twin)}" if twin else _how(group)
    heads = ["what", "way", "taken", "times", *(["taken, AVX2", "times, AVX2"] if twin else []), "goal"]
    numbers = ["---:"] * (len(heads) - 3)
    lines = [
        *textwrap.wrap(how, 120, break_on_hyphens=False),
        "",
        f"| {' | '.join(heads)} |",
        f"| {' | '.join(['---', '---', *numbers, '---'])} |",
        *(line for row in rows for line in _lines(row, twins.get(row.title) if twin else None, bool(twin))),
    ]
    return "\n".join(lines) + "\n"


def _how(group: dict[str, Any]) -> str:
    """Say by what command, when and on what a group was measured."""
    machine = group["machine"]
    products = ", ".join(f"{rate:,.0f} GF/s in {dtype}" for dtype, rate in machine["products"].items())
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    where = f"{machine['cores']} cores of {machine['processor']}" + (f", {machine['gpu']}" if machine["gpu"] else "")
    if "instructions" in machine:
        where += f" ({', '.join(machine['instructions'])})"
    return (
        f"`{group['command']}`, {machine['date']}, {where}; threads: {group['threads']}, load of the machine at "
        f"the end {machine['load']:.1f}; a product of 1,024 x 1,024 x 1,024: {products}. "
        f"Python {machine['python']}, {packages}."
    )


def _lines(row: Row, twin: Row | None, has_twin: bool) -> Iterator[str]:
    title = row.title + (f" ({row.clock} time)" if row.clock else "")
    asked = None if row.goal is None else row.against if row.against in row.taken else next(iter(row.taken), None)
    for place, (name, values) in enumerate(row.taken.items()):
        times = f"{_spread(row.ratios[name])}" if place else ""
        goal = "" if name != asked else f"{row.goal:.2g}: {'reached' if row.is_reached else 'not reached'}"
        shown = OPTION.sub(r"`\g<0>`", name)
        cells = [title if not place else "", shown, _amount(values, row.unit), times]
        if has_twin:
            again = twin.taken.get(name) if twin else None
            cells.append(_amount(again, row.unit) if again else "")
            cells.append(_spread(twin.ratios[name]) if twin and again and name in twin.ratios else "")
        yield f"| {' | '.join([*cells, goal])} |"
    for name, error in row.errors.items():
        said = escape(error, quote=False).replace("|", "/")
        yield f"| {title if not row.taken else ''} | {name} | did not run |{' |' * (3 if has_twin else 1)} {said} |"


def _amount(values: list[float], unit: str) -> str:
    median = spread(values)[0]
    factor, shown = next(((f, u) for f, u in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if median * f >= 1), (1e6, "µs"))
    if unit != "s":
        factor, shown = 1, unit
    return f"{_spread(tuple(factor * value for value in spread(values)))} {shown}"


def _spread(values: tuple[float, ...]) -> str:
    median, low, high = (f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values)
    return median if low == high else f"{median} ({low} to {high})"


def picture(rows: list[Row]) -> str:
    """Bars on a scale of powers of two: the best other way's times, whiskers to the quartiles, a line at the goal."""
    drawn = [(row, row.compared) for row in rows if row.goal is not None and row.compared is not None]
    left, width, step = 470, 330, 24
    height = step * len(drawn) + 40

    def x(value: float) -> float:
        return left + width * (min(6.0, max(-3.0, math.log2(max(value, 1e-9)))) + 3) / 9

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {height}" font-family="sans-serif" '
        'font-size="12"><title>Times the best of the others took, over ours</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
    ]
    for power in range(-3, 7):
        place = x(2.0**power)
        label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
        parts.append(f'<path d="M{place:.1f} 10V{height - 24}" stroke="{"#555" if power == 0 else "#ddd"}"/>')
        parts.append(f'<text x="{place:.1f}" y="{height - 8}" text-anchor="middle" fill="#333">{label}</text>')
    for number, (row, (median, low, high)) in enumerate(drawn):
        y = 14 + step * number
        start, end = sorted((x(1.0), x(median)))
        color = "#0072b2" if row.is_reached else "#d55e00"
        name = row.title if len(row.title) < 76 else row.title[:73] + "..."
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end" fill="#111">{escape(name)}</text>')
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 3}" width="{max(1.0, end - start):.1f}" height="12" fill="{color}"/>'
        )
        parts.append(f'<path d="M{x(low):.1f} {y + 9}H{x(high):.1f}" stroke="#111"/>')
        parts.append(f'<path d="M{x(row.goal or 1):.1f} {y}v18" stroke="#111" stroke-width="2"/>')
    return "".join(parts) + "</svg>\n"
