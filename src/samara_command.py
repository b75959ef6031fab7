"""Entry point of the command `samara`, outside the package: Ctrl-C while the package is imported prints no traceback either."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
OTHER_PACKAGE = (
    "samara: the package `samara` in this environment is another project (its distribution is `samara`, ours is"
    " `samara-flight`): install samara-flight in an environment of its own"
)


def main() -> None:
    """Run the command line."""
    # an ignored signal, as under nohup, stays ignored
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    try:
        # first what only this project has: the other one has a samara.cli too, which needs packages of its own
        import samara.core.version  # noqa: F401
        from samara.cli import main as run
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("samara"):
            raise
        sys.exit(OTHER_PACKAGE)

    run()


def _stop(number: int, frame: FrameType | None) -> None:
    """Exit at once: no file is open yet, and imports may swallow a KeyboardInterrupt or turn it into another error."""
    try:
        os.write(2, b"samara: stopped\n")
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
