"""Where the program starts, as `selfattn` or `python -m selfattn.cli`; an interrupt is one line from the beginning.

SIGTERM is an interrupt.
"""

from __future__ import annotations

import signal
import sys


def _stop() -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; see :func:`selfattn.cli.main.main`."""
    try:
        from selfattn.interrupts import SignalHandler

        heard = SignalHandler(_stop)
        signal.signal(signal.SIGTERM, heard)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as under `nohup`
            signal.signal(signal.SIGINT, heard)
        from selfattn.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
