"""Dataclasses that check their fields against the annotations. Imports no torch."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Literal

from selfattn.errors import UserError


class Checked:
    """Checks every field of a dataclass when it is made: choices, positive sizes, probabilities, nested groups."""

    def __post_init__(self) -> None:
        for name, annotation in typing.get_type_hints(type(self)).items():
            _check(f"{type(self).__name__}.{name}", getattr(self, name), annotation)


def _check(name: str, value: Any, annotation: Any) -> None:
    """Check one value against a bool, int, float, Literal or dataclass, or a union of such."""
    is_union = not isinstance(annotation, type) and typing.get_origin(annotation) is not Literal
    options = typing.get_args(annotation) if is_union else (annotation,)
    if value is None and type(None) in options:
        return
    groups = [option for option in options if dataclasses.is_dataclass(option)]
    if groups:
        if type(value) not in groups:
            known = " or ".join(group.__name__ for group in groups if isinstance(group, type))
            raise UserError(f"{name}: expected {known}, got {_short(value)}")
        return
    for option in options:
        if typing.get_origin(option) is Literal:
            if value not in typing.get_args(option):
                raise UserError(f"{name}: {value!r} is not one of {', '.join(map(str, typing.get_args(option)))}")
        elif option is bool:
            if not isinstance(value, bool):
                raise UserError(f"{name}: expected true or false, got {value!r}")
        elif option is int:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"{name}: expected a whole number of at least 1, got {value!r}")
        elif option is float and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1):
            raise UserError(f"{name}: expected a probability in [0, 1), got {value!r}")


def _short(value: Any) -> str:
    return type(value).__name__ if dataclasses.is_dataclass(value) else repr(value)
