"""The project's own tasks come in through the door that a stranger's take; imported when the first is asked for.

They are registered here and not where they are made, so that `python -m tasks.dates` makes none of them twice.
"""

from __future__ import annotations

from selfattn.registry import register
from selfattn.tasks.dates import Dates
from selfattn.tasks.lm import LanguageModel
from selfattn.tasks.translation import Translation

for task in (Dates, Translation, LanguageModel):
    register.task(task.name)(task)
