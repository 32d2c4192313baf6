"""Words as tokens: what stands between spaces, such as the words of a command, or the phones of a pronunciation."""

from collections.abc import Iterable

from selfattn.tokenizers.listed import ListedTokenizer
from selfattn.tokenizers.protocol import Unit


class WordTokenizer(ListedTokenizer):
    """One token for each word; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    A word is what stands between two spaces (U+0020) of a text, of any number of characters; between two spaces in a
    row there is an empty one. So `decode` gives every text back whose words are known.

    Args:
        texts: whose words are the vocabulary, such as the targets of the training data; ids follow the code points.

    Attributes:
        words: the vocabulary.

    Example:
        >>> tokenizer = WordTokenizer(["t͡ɕʰ a", "a n"])
        >>> tokenizer.words, tokenizer.encode("n a t͡ɕʰ")
        (['a', 'n', 't͡ɕʰ'], [5, 4, 6])
        >>> tokenizer.decode([5, 4, 6, tokenizer.eos_id]), tokenizer.spans("n a")
        ('n a t͡ɕʰ', [(0, 1), (1, 3)])
        >>> tokenizer.unknown("a m", "m").most_common()
        [('m', 2)]
    """

    unit: Unit = "words"
    kind = "words"
    between = " "

    def __init__(self, texts: Iterable[str]) -> None:
        self.words = sorted(set[str]().union(*map(self.parts, texts)))
        super().__init__(self.words)

    def parts(self, text: str) -> list[str]:
        """Divide a text at its spaces; an empty text has no word."""
        return text.split(" ") if text else []
