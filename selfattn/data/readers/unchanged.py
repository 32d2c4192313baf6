"""Files that stay what they were when their checksum was taken, also where a training reads them as a stream."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from selfattn.data.readers.containers import file_sha256, named_errors
from selfattn.errors import UserError

_EVERY = 1000  # items between two looks at the files
_T = TypeVar("_T")


@dataclass
class KnownFile:
    """A file with its checksum, and with what the file system said of it then.

    Attributes:
        path: of the file.
        sha256: of its content.
        state: size, time of the last change and number of the file.
    """

    path: Path
    sha256: str
    state: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> "KnownFile":
        """Take the checksum of a file.

        Raises:
            UserError: the file is missing or cannot be read.
        """
        state = _state_of(path)  # before: a change while it is read shows later
        return cls(path, file_sha256(path), state)

    def check(self) -> None:
        """Check that the file has the content that it had. One that was only touched, or copied back, has it.

        Raises:
            UserError: it was changed or replaced, or is gone.
        """
        state = _state_of(self.path)
        if state != self.state:
            if file_sha256(self.path) != self.sha256:
                raise UserError(f"{self.path}: was changed while it was in use; restore it, or start again with it")
            self.state = state


def unchanged(items: Iterable[_T], files: Iterable[KnownFile]) -> Iterator[_T]:
    """Iterate over items that are read from files, as long as the files stay what they were.

    Raises:
        UserError: a file has changed.
    """
    files = list(files)
    for number, item in enumerate(items):
        if number % _EVERY == 0:
            for file in files:
                file.check()
        yield item
    for file in files:
        file.check()


def _state_of(path: Path) -> tuple[int, ...]:
    with named_errors(path):
        status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
