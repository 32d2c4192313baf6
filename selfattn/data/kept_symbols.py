"""Read the file of symbols that tokenizers never divide."""

from pathlib import Path

from selfattn.data.readers.lines import whole_lines_of
from selfattn.data.text import clean_text
from selfattn.errors import UserError
from selfattn.tokenizers.kept import KeptSearch


def read_kept(path: Path) -> tuple[str, ...]:
    """Read symbols and patterns, one a line, see :class:`selfattn.tokenizers.kept.KeptTokenizer`.

    Empty lines count for nothing. Symbols are cleaned as the texts of a training are.

    Raises:
        UserError: the file cannot be read, or a line cannot be used.
    """
    lines = tuple(line for line in map(clean_text, whole_lines_of(path)) if line)
    if "//" in lines:
        raise UserError(
            f"{path}: //: a pattern without content; write one between the slashes, such as /[/]{{2}}/ for //"
        )
    try:
        KeptSearch(lines)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return lines
