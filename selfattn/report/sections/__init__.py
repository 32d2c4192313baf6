"""The project's own sections, in the order of the page; they come in by the same door as a stranger's."""

from importlib import import_module

_UNTIL_COST = ("limits", "budgets", "learning", "attention", "items", "statistics", "cost")
for _name in (*_UNTIL_COST, "alignment", "fairness", "reproduce"):
    import_module(f"{__name__}.{_name}")
