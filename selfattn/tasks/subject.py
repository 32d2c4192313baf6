"""What the project's own tasks ask: the two models a comparison is about by default, and the tasks' words."""

from __future__ import annotations

from importlib import resources

from selfattn.results.record import Subject
from selfattn.words.catalogue import own_words

PAIR = ("transformer", "rnn-attention")


def subject_of(task: str) -> Subject:
    """What a task asks, in the words of its catalogues.

    Example:
        >>> subject_of("dates").words["en"]["items"]
        '{count} unseen dates'
    """
    return Subject(PAIR, own_words(resources.files("selfattn.tasks") / "words", task))
