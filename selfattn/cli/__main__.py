"""Where the program starts, as `selfattn` or `python -m selfattn.cli`; an interrupt is one line from the beginning.

SIGTERM is an interrupt.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; see :func:`selfattn.cli.main.main`."""
    try:
        signal.signal(signal.SIGTERM, _stop)
        from selfattn.cli.main import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
