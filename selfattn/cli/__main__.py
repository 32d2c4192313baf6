"""Where the program starts, as `selfattn` or `python -m selfattn.cli`; an interrupt is one line from the beginning.

SIGTERM is an interrupt.
"""

import atexit
import gc
import signal
import sys

# What a command imports, torch above all, are 200,000 objects that stay. By default the collector of cycles looks
# through them 400 times, and once more when the process ends, which gives their memory back anyway.
YOUNG_OBJECTS = 10_000


def main() -> None:
    """Run the command line; see :func:`selfattn.cli.main.main`."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        gc.set_threshold(YOUNG_OBJECTS)
        atexit.register(gc.freeze)
        from selfattn.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
