"""Check what a user hands to a run or a training: texts, pairs, how to decode them, and settings in groups."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

from selfattn.data.pairs import Pair, clean_text
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import SettingError, UserError, number_of
from selfattn.settings import Settings, changed, divide, shown
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig


def checked_texts(call: str, texts: Any) -> list[str]:
    """Return texts as a list.

    Args:
        call: name of the function, for the message.
        texts: any iterable of texts with an order, such as a list, a column of a table, or an open file.

    Raises:
        SettingError: it is a single text, no such iterable, or an item is no text.

    Example:
        >>> checked_texts("predict", ("a", "b"))
        ['a', 'b']
        >>> checked_texts("predict", "a")
        Traceback (most recent call last):
        selfattn.errors.SettingError: predict: expected a list of texts, got 'a'; write ['a']
    """
    if isinstance(texts, str):
        raise SettingError(f"{call}: expected a list of texts, got {shown(texts)}; write [{shown(texts)}]")
    items = _items(call, texts, "texts")
    for number, text in enumerate(items, 1):
        if not isinstance(text, str):
            raise SettingError(f"{call}: text {number}: expected a text, got {shown(text)}")
    return items


def checked_text(call: str, text: Any) -> str:
    """Return a text unchanged.

    Args:
        call: name of the function, for the message.
        text: to be checked.

    Raises:
        SettingError: it is no text.
    """
    if not isinstance(text, str):
        raise SettingError(f"{call}: expected a single text, got {shown(text)}")
    return text


def checked_prefixes(prefix: Any, texts: Sequence[str], tokenizer: Tokenizer, *, first: int = 0) -> list[str]:
    """Return what the outputs of each text begin with; nothing where nothing is requested.

    Spaces at the end stay. Otherwise a prefix is cleaned as the targets of a training are.

    Args:
        prefix: a text for all, or for each text one or None.
        texts: the inputs.
        tokenizer: of the targets.
        first: number of the first text, for the message; default 0.

    Raises:
        SettingError: it is none of these, or not one for each text.
        UserError: the tokenizer has no tokens for a prefix.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> checked_prefixes("20", ["11/13/08", "1/2/03"], CharTokenizer("0123456789-"))
        ['20', '20']
    """
    if prefix is None:
        return []
    items = [prefix] * len(texts) if isinstance(prefix, str) else _items("decode", prefix, "prefixes")
    if len(items) != len(texts):
        raise SettingError(
            f"decode: `prefix`: expected a prefix for each of {number_of(len(texts), 'text')}, got {len(items)}"
        )
    prefixes = []
    for number, item in enumerate(items, first + 1):
        if item is not None and not isinstance(item, str):
            raise SettingError(f"decode: prefix {number}: expected a text or None, got {shown(item)}")
        text = clean_text(f"{item}|")[:-1] if item else ""
        ids = tokenizer.encode(text)
        if tokenizer.unk_id in ids or tokenizer.decode(ids) != text:
            where = "`prefix`" if isinstance(prefix, str) else f"prefix {number}"
            raise UserError(f"decode: {where}: the model cannot write {shown(text)}; its vocabulary has no such tokens")
        prefixes.append(text)
    return prefixes


def checked_pairs(call: str, pairs: Any) -> list[Pair]:
    """Return pairs as a list.

    Args:
        call: name of the function, for the message.
        pairs: any iterable of pairs with an order.

    Raises:
        SettingError: it is a single pair, no such iterable, an item is no pair, or a side of a pair is no text.

    Example:
        >>> checked_pairs("score", [("a", "b")])
        Traceback (most recent call last):
        selfattn.errors.SettingError: score: pair 1: expected selfattn.Pair(source, target), got ('a', 'b')
    """
    if isinstance(pairs, Pair):
        raise SettingError(f"{call}: expected a list of pairs, got a single pair; write [pair]")
    items = _items(call, pairs, "pairs")
    for number, pair in enumerate(items, 1):
        if not isinstance(pair, Pair):
            raise SettingError(f"{call}: pair {number}: expected selfattn.Pair(source, target), got {shown(pair)}")
        for side in (pair.source, pair.target):
            if not isinstance(side, str):
                raise SettingError(f"{call}: pair {number}: expected two texts, got {shown(side)}")
    return items


def _items(call: str, values: Any, what: str) -> list[Any]:
    """Return the items of an iterable; a text, a set and a mapping have none that could be meant."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping | Set):
        raise SettingError(f"{call}: expected a list of {what}, got {shown(values)}")
    return list(values)


def decoding_options(call: str, options: DecodingOptions | None, settings: Mapping[str, Any]) -> DecodingOptions:
    """Return how to decode, from options or from settings by name; without either greedily.

    Args:
        call: name of the function, for the message.
        options: all options.
        settings: fields of :class:`selfattn.decoding.options.DecodingOptions`.

    Raises:
        SettingError: both are given, a name is unknown, or a value is not allowed.

    Example:
        >>> decoding_options("predict", None, {"beam": 5}).beam
        5
    """
    if options is not None and not isinstance(options, DecodingOptions):
        names = ", ".join(field.name for field in fields(DecodingOptions))
        raise SettingError(f"{call}: expected DecodingOptions, got {shown(options)}; settings have names: {names}")
    if options is not None and settings:
        raise SettingError(f"{call}: `{next(iter(settings))}` beside DecodingOptions; set it there")
    (known,) = divide(settings, DecodingOptions)
    return DecodingOptions(**known) if known else options or GREEDY


def gathered(
    flat: Settings, options: object, kind: type[Any], training: object, task_options: object, *task_kinds: type[Any]
) -> dict[str, Any]:
    """Return the settings of a call by name, wherever they stand.

    Args:
        flat: settings by name.
        options: an object with settings, or None. Fields that have their default count as not given.
        kind: its class.
        training: settings of the training by name, or None.
        task_options: settings of the task by name, an object of one of its classes, or None.
        task_kinds: these classes.

    Raises:
        SettingError: a setting is given twice or in the wrong place, or one of the objects is of another class.

    Example:
        >>> gathered({"lr": 0.1}, None, DecodingOptions, {"epochs": 3}, None)
        {'lr': 0.1, 'epochs': 3}
    """
    settings = dict(flat)
    if options is not None:
        if not isinstance(options, kind):
            raise SettingError(f"`options`: expected {kind.__name__}, got {shown(options)}")
        for field in fields(kind):
            if field.name in settings:
                raise SettingError(f"`{field.name}`: beside `options`; set it there")
        settings |= changed(options)
    of_task = changed(task_options) if isinstance(task_options, task_kinds) else task_options
    groups = {"training": _by_name("training", training), "task_options": _by_name("task_options", of_task)}
    if "seed" in groups["training"]:
        raise SettingError("`seed`: it is no part of `training`; give it beside")
    divide(groups["training"], TrainingConfig)
    if task_kinds:
        divide(groups["task_options"], *task_kinds)
    for group, values in groups.items():
        for name in values:
            if name in settings:
                raise SettingError(f"`{name}`: given twice, once in `{group}`; leave one of them out")
        settings |= values
    return settings


def _by_name(argument: str, settings: object) -> Settings:
    """Return settings by name; None are no settings."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise SettingError(f"`{argument}`: expected settings by name, {{'name': value}}, got {shown(settings)}")
    return settings
