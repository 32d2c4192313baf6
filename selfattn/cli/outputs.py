"""The command `compare outputs`: systems that were trained anywhere, judged by files of their outputs."""

from collections.abc import Callable
from typing import Any

from selfattn.cli.options import changed_settings, parameters_of, takes
from selfattn.words.messages import SOURCE

OUTPUTS_HELP = (
    "Compare systems by their outputs, whoever trained them.\n\n"
    "Each system has a file for each training (seed), with an output a line. With several files of each, intervals and "
    "tests are over trainings and test items; with one, over the items alone. Nothing is trained."
)


def outputs_command() -> Callable[..., None]:
    """Make the command."""
    from selfattn.comparison.outputs_options import OutputsOptions, systems_of

    parameters = parameters_of(OutputsOptions)

    @takes(*parameters)
    def run(**options: Any) -> None:
        from rich.console import Console

        from selfattn.comparison.outputs import compare_outputs
        from selfattn.report.render.terminal import print_summary

        settings = changed_settings(options, parameters)
        systems = systems_of(settings.pop("system"))
        record, files = compare_outputs(settings.pop("reference"), systems, **settings)
        print_summary(record, Console(highlight=False), files.html, options.get("lang", SOURCE))

    run.__doc__ = OUTPUTS_HELP
    return run
