"""Settings as the command line that says the same. Imports no torch."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from selfattn.errors import option
from selfattn.plugin_loading import loaded_plugins
from selfattn.settings import Settings


def command_line(command: str, values: Settings) -> str:
    """Return the command line of settings, quoted for a shell, with the loaded plugins.

    Args:
        command: such as ``train dates``.
        values: of the settings that differ from the defaults, in their order on the command line.

    Example:
        >>> command_line("train dates", {"out": Path("my run"), "locales": ("ko_KR", "ja_JP"), "epochs": 3})
        "selfattn train dates --out 'my run' --locales ko_KR,ja_JP --epochs 3"
    """
    plugins = "".join(f" --plugin {shlex.quote(plugin)}" for plugin in loaded_plugins())
    return " ".join([f"selfattn{plugins} {command}", *_options(values)])


def _options(values: Settings) -> Iterator[str]:
    for name, value in values.items():
        if value is None or value is False:
            continue
        if value is True:
            yield option(name)
        elif name in ("set", "space", "system"):  # settings of models may hold commas, files of systems do
            yield from (f"{option(name)} {shlex.quote(setting)}" for setting in value)
        else:
            is_files = isinstance(value, tuple) and any(isinstance(path, Path) for path in value)
            is_list = isinstance(value, tuple | list)
            texts = map(str, value) if is_files else [",".join(map(str, value)) if is_list else str(value)]
            yield " ".join([option(name), *map(shlex.quote, texts)])
