"""A tokenizer described in plain text: coverage, fertility, and how texts are cut into pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from selfattn.tokenizers.protocol import Tokenizer, printable

_NAMED = 8  # uncovered characters that are listed


def measure(tokenizer: Tokenizer, texts: Iterable[str]) -> dict[str, float]:
    """Measure a tokenizer on texts. A word is what stands between spaces.

    Args:
        tokenizer: of one side; measure ``tokenizer.source`` and ``tokenizer.target`` apart where they differ.
        texts: read once.

    Returns:
        ``coverage`` (share of the characters, by count, that the vocabulary has: neither bytes nor ``<unk>``),
        ``fertility`` (tokens per word) and ``characters_per_token``; then the counts ``texts``, ``words``,
        ``characters`` and ``tokens``.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> figures = measure(CharTokenizer("abc "), ["ab ac", "a?"])
        >>> round(figures["coverage"], 3), round(figures["fertility"], 3), figures["tokens"]
        (0.857, 2.333, 7)
    """
    counts: Counter[str] = Counter(texts=0, words=0, characters=0, tokens=0)
    unknown = 0
    for text in texts:
        counts.update(texts=1, words=len(text.split()), characters=len(text), tokens=len(tokenizer.encode(text)))
        unknown += tokenizer.unknown(text).total()
    return {
        "coverage": 1 - unknown / max(1, counts["characters"]),
        "fertility": counts["tokens"] / max(1, counts["words"]),
        "characters_per_token": counts["characters"] / max(1, counts["tokens"]),
        **counts,
    }


def describe(tokenizer: Tokenizer, texts: Sequence[str], examples: Iterable[str] = ()) -> str:
    """Describe a tokenizer in lines of text.

    Args:
        tokenizer: of one side.
        texts: to measure it on.
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
    figures = measure(tokenizer, texts)
    unknown = tokenizer.unknown(*texts)
    listed = ", ".join(f"{printable(character)} ({count:,})" for character, count in unknown.most_common(_NAMED))
    more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
    counts = ", ".join(f"{figures[name]:,} {name}" for name in ("texts", "words", "characters", "tokens"))
    per_token = figures["characters_per_token"]
    lines = [
        f"vocabulary  {len(tokenizer):,} tokens",
        f"measured    {counts}",
        f"coverage    {figures['coverage']:.2%} of the characters".replace("%", " %")
        + (f"; not covered: {listed}{more}" if unknown else ""),
        f"fertility   {figures['fertility']:.2f} tokens per word, {per_token:.2f} characters per token",
    ]
    for text in examples:
        ids = tokenizer.encode(text)
        lines += [f"pieces      {' '.join(tokenizer.pieces(ids))}", f"ids         {' '.join(map(str, ids))}"]
    return "\n".join(lines)
