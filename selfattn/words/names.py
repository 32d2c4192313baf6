"""Keys of the names that records hold: metrics, gates, parts of the test, models.

A record holds a name alone (`overlap`); its text stands in the catalogues under the kind of name, a point and the name
(`gate.overlap`). No other key begins like this.
"""

from typing import Literal

from selfattn.words.messages import SOURCE, catalogue

NameKind = Literal["metric", "gate", "bucket", "bucket.part", "bucket.note", "name", "full name", "scores", "preset"]


def name_key(kind: NameKind, name: str) -> str:
    """Return the key of a name in a record.

    Args:
        kind: of what it is the name.
        name: in the record. The catalogues need not have it: a task brings texts for names of its own.

    Example:
        >>> name_key("gate", "overlap")
        'gate.overlap'
    """
    return f"{kind}.{name}"


def has_text(key: str) -> bool:
    """Return whether the catalogues have a text for a key.

    Example:
        >>> has_text(name_key("gate", "overlap")), has_text(name_key("gate", "my gate"))
        (True, False)
    """
    return key in catalogue(SOURCE)
