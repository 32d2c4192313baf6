"""What may be missing is left out of a file, so that it has to be known without the file."""

import dataclasses
import importlib
import pkgutil
import typing

import pytest

import selfattn.results
from selfattn.codec import Plain

for _module in pkgutil.iter_modules(selfattn.results.__path__, "selfattn.results."):
    importlib.import_module(_module.name)


def kinds() -> list[type]:
    found, left = [], [Plain]
    while left:
        left += (own := left.pop().__subclasses__())
        found += [kind for kind in own if dataclasses.is_dataclass(kind) and kind.__module__.startswith("selfattn.")]
    return sorted(found, key=lambda kind: kind.__qualname__)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: str(kind.__qualname__))
def test_a_field_that_may_be_none_is_none_where_it_is_missing(kind: type) -> None:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if type(None) in typing.get_args(hints[field.name]):
            assert field.default is None, field.name
