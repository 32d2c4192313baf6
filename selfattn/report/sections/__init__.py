"""The project's sections, in the order of the page; they are registered as those of plugins are."""

from importlib import import_module

for _name in ("training", "quality", "models"):
    import_module(f"{__name__}.{_name}")
