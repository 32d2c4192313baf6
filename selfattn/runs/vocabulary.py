"""Characters and words that a vocabulary does not have: what is said about them, and when they are refused."""

from collections.abc import Sequence
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.errors import SettingError
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.listed import ListedTokenizer
from selfattn.tokenizers.load import SeparateTokenizer
from selfattn.tokenizers.protocol import Tokenizer, count_units, unit_of, unknown_line

MOST_UNKNOWN = 0.01
"""Largest share of unknown tokens in the targets of a training that starts from another run."""


def unknown_characters(what: str, texts: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """Return a line with the share and examples of characters, or words, that a vocabulary lacks; none without any.

    Args:
        what: name of the texts.
        texts: as the tokenizer reads them.
        tokenizer: of their side.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> unknown_characters("targets", ["abß", "ß"], CharTokenizer("ab"))
        ["targets: 2 characters that the model does not know, 1 different: 'ß' 2 (50.0 % of all)"]
    """
    unknown = tokenizer.unknown(*texts)
    if not unknown:
        return []
    share = unknown.total() / count_units(tokenizer, texts)
    return [f"{what}: {unknown_line(unknown, unit_of(tokenizer))} ({100 * share:.1f} % of all)"]


def unknown_notes(
    tokenizer: Tokenizer, train: Sequence[Pair], validation: Sequence[Pair], *, is_new: bool
) -> list[str]:
    """Return lines about the characters of a training's data that the vocabulary does not have.

    Args:
        tokenizer: of the training.
        train: pairs; with a new vocabulary, which was made from them, they are not looked through.
        validation: pairs.
        is_new: whether the vocabulary was made for this training.
    """
    parts = {"validation": validation} if is_new else {"training": train, "validation": validation}
    notes = []
    for part, pairs in parts.items():
        notes += unknown_characters(f"{part} sources", [pair.source for pair in pairs], tokenizer.source)
        notes += unknown_characters(f"{part} targets", [pair.target for pair in pairs], tokenizer.target)
    return notes


def refuse_unknown(texts: Sequence[str], tokenizer: Tokenizer) -> None:
    """Refuse targets of which a model would learn little else than the token for what is unknown.

    Bytes of subwords are not unknown: a model can learn and write them.

    Args:
        texts: targets.
        tokenizer: of the target side.

    Raises:
        SettingError: more than `MOST_UNKNOWN` of the tokens are unknown.
    """
    tokens = unknown = 0
    for text in texts:
        ids = tokenizer.encode(text)
        tokens += len(ids)
        unknown += ids.count(tokenizer.unk_id)
    if unknown > MOST_UNKNOWN * tokens:
        (line,) = unknown_characters("targets", texts, tokenizer)
        advice = "train without `init_from`, or allow it with `allow_unknown`"
        share = f"{100 * unknown / tokens:.1f} % of the target tokens are unknown to it"
        raise SettingError(f"`init_from`: {share}; {line}; {advice}")


def token_settings(tokenizer: Tokenizer) -> dict[str, tuple[Any, ...]]:
    """Return the values of the options of a training that would make such a tokenizer.

    Args:
        tokenizer: of a run.

    Returns:
        For each of ``tokenizer``, ``source_tokenizer``, ``target_tokenizer``, ``vocab_size``, ``keep_symbols`` and
        ``separate`` the values that describe it; none for a tokenizer of a plugin.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> settings = token_settings(CharTokenizer("ab"))
        >>> settings["tokenizer"], settings["separate"]
        (('characters',), (False,))
    """
    source = kind_of(tokenizer.source)
    target = kind_of(tokenizer.target)
    side = tokenizer.target
    lines = side.lines if isinstance(side, KeptTokenizer) else ()
    settings = getattr(side.base if isinstance(side, KeptTokenizer) else side, "settings", None)
    size = len(side) - len(lines)
    return {
        "tokenizer": target if source == target else (),
        "source_tokenizer": source,
        "target_tokenizer": target,
        "vocab_size": () if settings is None else (settings.vocab_size, size),
        "keep_symbols": (lines,) if lines else (),
        "separate": (isinstance(tokenizer, SeparateTokenizer),),
    }


def kind_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the kind of a tokenizer of one side, as its option names it; nothing for one of a plugin.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> kind_of(CharTokenizer("ab"))
        ('characters',)
    """
    if isinstance(tokenizer, KeptTokenizer):
        return kind_of(tokenizer.base)
    if isinstance(tokenizer, ListedTokenizer):
        return (tokenizer.unit,)
    settings = getattr(tokenizer, "settings", None)
    return () if settings is None else (settings.kind,)
