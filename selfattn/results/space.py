"""The space of a tuning: what is tried of each setting, as the command line, the plan and the record have it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from selfattn.errors import SettingError
from selfattn.settings import LARGEST, shown

_FORM = "expected name=LOW..HIGH, name=LOW..HIGH:log or name=VALUE,VALUE, such as lr=1e-3..1e-2:log or batch_size=8,16"
_DIGITS = 3  # of a drawn value, so that it can be read and typed
_MOST = 64  # values of a setting


@dataclass(frozen=True)
class Axis:
    """A setting and what is tried of it: some values, or a range.

    Attributes:
        name: of the setting.
        values: to choose among, each as probable as any other; empty for a range.
        low: lower end of the range.
        high: its upper end.
        log: whether the logarithm is drawn evenly.
        whole: whether the setting takes whole numbers.
    """

    name: str
    values: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    def __str__(self) -> str:
        if self.values:
            return f"{self.name}={','.join(f'{value:.6g}' for value in self.values)}"
        return f"{self.name}={self.low:.6g}..{self.high:.6g}{':log' if self.log else ''}"

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return (min(self.values), max(self.values)) if self.values else (self.low, self.high)

    def at(self, place: float) -> float:
        """Return the value at a place in ``[0, 1)`` of the axis.

        Example:
            >>> axis = parse_axis("lr=1e-3..1e-1:log")
            >>> axis.at(0.0), axis.at(0.5)
            (0.001, 0.01)
            >>> parse_axis("batch_size=8,16").at(0.5)
            16.0
        """
        if self.values:
            value = self.values[int(place * len(self.values))]
        elif self.log:
            value = self.low * (self.high / self.low) ** place
        else:
            value = self.low + place * (self.high - self.low)
        return self.typed(value if self.values else float(f"{value:.{_DIGITS}g}"))

    def typed(self, value: float) -> float:
        """Return a value as the setting takes it."""
        return round(value) if self.whole else value

    def place(self, value: float) -> float:
        """Return where a value lies, 0 to 1: the reverse of :meth:`at`, in the middle of the part of a listed value."""
        if self.values:
            return (self.values.index(value) + 0.5) / len(self.values) if value in self.values else 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def parse_axis(text: str) -> Axis:
    """Read what is tried of a setting: ``lr=1e-3..1e-2:log``, ``warmup=0..0.4``, ``batch_size=8,16,32``.

    Raises:
        SettingError: it has another form, a range is empty, or a value stands twice.

    Example:
        >>> str(parse_axis("lr=0.001..0.01:log"))
        'lr=0.001..0.01:log'
    """
    name, equals, rest = text.partition("=")
    numbers, colon, scale = rest.partition(":")
    low, dots, high = numbers.partition("..")
    try:
        values = [float(number) for number in ((low, high) if dots else numbers.split(","))]
    except ValueError:
        values = []
    is_formed = bool(name.strip() and equals and values) and (scale == "log" and bool(dots) if colon else True)
    if not is_formed or not all(abs(value) <= LARGEST for value in values):
        raise SettingError(f"`space` {shown(text)}: {_FORM}")
    if dots:
        if not values[0] < values[1] or (colon and values[0] <= 0):
            raise SettingError(f"`space` {shown(text)}: the range is empty{', or begins at 0' if colon else ''}")
        return Axis(name.strip(), low=values[0], high=values[1], log=bool(colon))
    if len(set(values)) < len(values) or not 2 <= len(values) <= _MOST:
        raise SettingError(f"`space` {shown(text)}: expected 2 to {_MOST} different values, or a range")
    return Axis(name.strip(), tuple(values))
