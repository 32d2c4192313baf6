"""A training that the user stops comes to the end of its step first."""

from __future__ import annotations

import os
from contextlib import suppress

from selfattn.training.distributed.launch import is_main_process
from selfattn.training.observer import Observer, StepReport


class StopAtStep(Observer):
    """Stops a training when the user asks for it: at the end of its step, when everything can be saved.

    Of several processes the first one stops them all; the others only hear that they are not to stop at once.
    """

    def __init__(self) -> None:
        self.is_asked, self.has_begun = False, not is_main_process()

    def ask(self) -> None:
        """Ask for it.

        Raises:
            KeyboardInterrupt: there has been no step yet that could be saved.
        """
        self.is_asked = True
        if not self.has_begun:
            raise KeyboardInterrupt
        if is_main_process():
            with suppress(OSError):  # not by `print`, which may be what was interrupted
                os.write(2, b"stopping: this step comes to its end and is saved; once more stops at once\n")

    def started(self, epochs: int | None, steps: int) -> None:
        """From now on there are steps to be saved.

        Raises:
            KeyboardInterrupt: it was asked for before, and what ran then swallowed it.
        """
        self.has_begun = True
        if self.is_asked:
            raise KeyboardInterrupt

    def stepped(self, report: StepReport) -> None:
        """Stop here where that was asked for.

        Raises:
            KeyboardInterrupt: it was.
        """
        if self.is_asked:
            raise KeyboardInterrupt
