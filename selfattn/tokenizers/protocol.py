"""The protocol of tokenizers, and printable names of tokens."""

import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol, Self, runtime_checkable

from selfattn.errors import number_of

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
"""The ids of the special tokens, the same in every tokenizer."""

_SHOWN = 10  # of many unknown characters

Unit = Literal["characters", "letters", "words"]
"""What can be missing from a vocabulary."""


class Tokenizer(Protocol):
    """Turns text into token ids and back.

    If both sides of a pair share a tokenizer, `source` and `target` are the tokenizer itself. Code that knows the side
    of a text uses that side's tokenizer, so it also works with separate vocabularies.

    Attributes:
        pad_id: of padding: 0, which training relies on.
        bos_id: at the start of every decoder input: 1.
        eos_id: at the end of a text: 2.
        unk_id: of text outside the vocabulary: 3.
        source: tokenizer of the source side.
        target: tokenizer of the target side.
        unit: what `unknown` counts.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer: Tokenizer = CharTokenizer(["abc"])
        >>> tokenizer.decode(tokenizer.encode("cab"))
        'cab'
        >>> tokenizer.source is tokenizer.target
        True
    """

    pad_id: int = PAD
    bos_id: int = BOS
    eos_id: int = EOS
    unk_id: int = UNK
    unit: Unit = "characters"

    @property
    def source(self) -> "Tokenizer":
        """Tokenizer of the source side; default this one."""
        return self

    @property
    def target(self) -> "Tokenizer":
        """Tokenizer of the target side; default this one."""
        return self

    def __len__(self) -> int:
        """Return the size of the vocabulary, with special tokens."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text, without special tokens. The same text gives the same ids."""

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return the ids of a random segmentation of the text.

        Args:
            text: any.
            seed: of the draw; the same text, seed and alpha give the same ids.
            alpha: strength, as defined by the kind of tokenizer.
        """

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids, without ``<pad>``, ``<bos>`` and ``<eos>``."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id; special tokens have their names."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``.

        The ranges are in the order of the text and cover it. Bytes of one character share its range; an id without a
        character has an empty range.
        """

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters, letters or words of the texts that are not in the vocabulary."""

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the tokenizer into a directory, which is created if it is missing."""

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a tokenizer that `save` wrote."""


def checked_id(number: int, size: int) -> int:
    """Return an id unchanged.

    Raises:
        ValueError: it is outside a vocabulary of this size.
    """
    if not 0 <= number < size:
        raise ValueError(f"token id {number} is outside the vocabulary of {size}")
    return number


@runtime_checkable
class EncodesTogether(Protocol):
    """A tokenizer that encodes many texts faster than one by one."""

    def encode_all(self, texts: Iterable[str]) -> "Iterator[array[int]]":
        """Return the ids of each text, the same as ``encode`` gives, in arrays of 4 bytes an id."""


def printable(text: str) -> str:
    """Make every character of a text visible: a space as ``␣``, an invisible character by its code.

    Example:
        >>> printable(" a\\u200f")
        '␣a<U+200F>'
    """
    return "".join(
        "␣" if character == " " else character if character.isprintable() else f"<U+{ord(character):04X}>"
        for character in text
    )


def token_texts(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    """Return the text of each token, and the name of the end token; a token without text of its own by its name.

    Args:
        tokenizer: of this side.
        text: any text.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> token_texts(CharTokenizer("ab "), "a bz")
        ('a', ' ', 'b', '<unk>', '<eos>')
    """
    ids = tokenizer.encode(text)
    spans = tokenizer.spans(text)
    shared = Counter(spans)
    texts = []
    for number, (start, end) in zip(ids, spans, strict=True):
        has_text = start < end and shared[start, end] == 1 and number != tokenizer.unk_id
        texts.append(text[start:end] if has_text else tokenizer.pieces([number])[0])
    return (*texts, tokenizer.pieces([tokenizer.eos_id])[0])


def unit_of(tokenizer: Tokenizer) -> Unit:
    """Return what `unknown` of a tokenizer counts; characters where a plugin does not say."""
    unit: Unit = getattr(tokenizer, "unit", "characters")
    return unit


def count_units(tokenizer: Tokenizer, texts: Iterable[str]) -> int:
    """Count the characters, letters or words of texts, known or not.

    Example:
        >>> from selfattn.tokenizers.listed import WordTokenizer
        >>> count_units(WordTokenizer(["go left"]), ["go left", "go"])
        3
    """
    if unit_of(tokenizer) != "characters":
        return sum(len(tokenizer.encode(text)) for text in texts)
    return sum(map(len, texts))


def unknown_line(unknown: Counter[str], unit: Unit = "characters") -> str:
    """List the characters, or words, that a model does not know.

    Example:
        >>> unknown_line(Counter("ßß"))
        "2 characters that the model does not know, 1 different: 'ß' 2"
    """
    shown = ", ".join(f"{part!r} {times:,}" for part, times in unknown.most_common(_SHOWN))
    count = number_of(unknown.total(), unit.removesuffix("s"))
    return f"{count} that the model does not know, {len(unknown):,} different: {shown}"


def describe(tokenizer: Tokenizer, texts: Sequence[str], examples: Iterable[str] = ()) -> str:
    """Describe a tokenizer in lines of text. Words are separated by spaces.

    Args:
        tokenizer: of one side.
        texts: to measure it on; coverage is the share of their characters, or words, that are in the vocabulary.
        examples: texts whose pieces and ids are shown; default none.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> print(describe(CharTokenizer("abc "), ["ab ac", "a?"], ["a?"]))
        vocabulary  8 tokens
        measured    2 texts, 3 words, 7 characters, 7 tokens
        coverage    85.71 % of the characters; not covered: ? (1)
        fertility   2.33 tokens per word, 1.00 characters per token
        pieces      a <unk>
        ids         5 3
    """
    unknown = tokenizer.unknown(*texts)
    words = sum(len(text.split()) for text in texts)
    characters = sum(map(len, texts))
    tokens = sum(len(tokenizer.encode(text)) for text in texts)
    listed = ", ".join(f"{printable(part)} ({count:,})" for part, count in unknown.most_common(8))
    covered = 100 - 100 * unknown.total() / max(1, count_units(tokenizer, texts))
    measured = {"text": len(texts), "word": words, "character": characters, "token": tokens}
    lines = [
        f"vocabulary  {len(tokenizer):,} tokens",
        f"measured    {', '.join(number_of(count, noun) for noun, count in measured.items())}",
        f"coverage    {covered:.2f} % of the {unit_of(tokenizer)}" + (f"; not covered: {listed}" if unknown else ""),
        f"fertility   {tokens / max(1, words):.2f} tokens per word, "
        f"{characters / max(1, tokens):.2f} characters per token",
    ]
    for text in examples:
        ids = tokenizer.encode(text)
        lines += [f"pieces      {' '.join(tokenizer.pieces(ids))}", f"ids         {' '.join(map(str, ids))}"]
    return "\n".join(lines)
