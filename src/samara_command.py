"""The command `samara`. Outside the package, whose import takes a moment: Ctrl-C in that moment is no traceback either."""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # else it is ignored, as under nohup, and stays so
        signal.signal(signal.SIGINT, _stop)
    from samara.cli import main as run

    run()


def _stop(number: int, frame: FrameType | None) -> None:
    """At once: nothing is open yet, and imports may swallow a KeyboardInterrupt or make another error of it"""
    try:
        os.write(2, b"samara: stopped\n")
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
