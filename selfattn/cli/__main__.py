"""Where the program starts, as `selfattn` or `python -m selfattn.cli`; an interrupt is one line from the beginning.

SIGTERM is an interrupt.
"""

import signal
import sys


def main() -> None:
    """Run the command line; see :func:`selfattn.cli.main.main`."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from selfattn.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
