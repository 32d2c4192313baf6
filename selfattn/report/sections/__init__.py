"""The project's own sections, in the order of the page; they come in by the same door as a stranger's."""

from importlib import import_module

for _name in ("limits", "learning", "attention", "items", "statistics", "cost", "alignment", "fairness", "reproduce"):
    import_module(f"{__name__}.{_name}")
