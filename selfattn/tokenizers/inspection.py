"""Describe a tokenizer in plain text: coverage, tokens per word, pieces and ids of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from selfattn.tokenizers.protocol import Tokenizer, printable

_NAMED = 8  # uncovered characters that are listed


def describe(tokenizer: Tokenizer, texts: Sequence[str], examples: Iterable[str] = ()) -> str:
    """Describe a tokenizer in lines of text. Words are separated by spaces.

    Args:
        tokenizer: of one side.
        texts: to measure it on; coverage is the share of their characters, by count, that are in the vocabulary.
        examples: texts whose pieces and ids are shown; default none.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> print(describe(CharTokenizer("abc "), ["ab ac", "a?"], ["a?"]))
        vocabulary  8 tokens
        measured    2 texts, 3 words, 7 characters, 7 tokens
        coverage    85.71 % of the characters; not covered: ? (1)
        fertility   2.33 tokens per word, 1.00 characters per token
        pieces      a <unk>
        ids         5 3
    """
    unknown = tokenizer.unknown(*texts)
    words, characters = sum(len(text.split()) for text in texts), sum(map(len, texts))
    tokens = sum(len(tokenizer.encode(text)) for text in texts)
    listed = ", ".join(f"{printable(character)} ({count:,})" for character, count in unknown.most_common(_NAMED))
    more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
    coverage = f"{100 - 100 * unknown.total() / max(1, characters):.2f} % of the characters"
    lines = [
        f"vocabulary  {len(tokenizer):,} tokens",
        f"measured    {len(texts):,} texts, {words:,} words, {characters:,} characters, {tokens:,} tokens",
        f"coverage    {coverage}" + (f"; not covered: {listed}{more}" if unknown else ""),
        f"fertility   {tokens / max(1, words):.2f} tokens per word, "
        f"{characters / max(1, tokens):.2f} characters per token",
    ]
    for text in examples:
        ids = tokenizer.encode(text)
        lines += [f"pieces      {' '.join(tokenizer.pieces(ids))}", f"ids         {' '.join(map(str, ids))}"]
    return "\n".join(lines)
