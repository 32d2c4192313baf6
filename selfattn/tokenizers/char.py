"""Character tokens: the vocabulary consists of the characters of the training texts."""

from collections.abc import Iterable

from selfattn.tokenizers.listed import ListedTokenizer
from selfattn.tokenizers.protocol import Unit


class CharTokenizer(ListedTokenizer):
    """One token for each character (Unicode code point); ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Args:
        texts: whose characters are the vocabulary, such as the sources and targets of the training data; ids follow
            the code points.

    Attributes:
        characters: the vocabulary as a text.

    Example:
        >>> tokenizer = CharTokenizer(["Nov 13", "Dec 2"])
        >>> tokenizer.encode("Nov 2")
        [9, 12, 13, 4, 6]
        >>> tokenizer.decode([9, 12, 13, 4, 6, tokenizer.eos_id])
        'Nov 2'
        >>> tokenizer.pieces([9, 4, 2])
        ['N', '␣', '<eos>']
        >>> tokenizer.unknown("No", "Nå", "å").most_common()
        [('å', 2)]
    """

    unit: Unit = "characters"
    kind = "char"
    between = ""

    def __init__(self, texts: Iterable[str]) -> None:
        self.characters = "".join(sorted(set[str]().union(*texts)))
        super().__init__(self.characters)

    def parts(self, text: str) -> str:
        """Return the text itself, whose items are its characters."""
        return text
