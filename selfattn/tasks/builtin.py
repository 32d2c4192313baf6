"""Register the built-in tasks; imported when the first task is looked up.

They are not registered where they are defined, because `python -m tasks.dates` would define one of them twice.
"""

from selfattn.registry import register
from selfattn.tasks.dates import Dates
from selfattn.tasks.lm import LanguageModel
from selfattn.tasks.recall import Recall
from selfattn.tasks.translation import Translation

for task in (Dates, Translation, LanguageModel, Recall):
    register.task(task.name)(task)
