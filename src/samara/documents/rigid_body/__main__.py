"""`python -m samara.documents.rigid_body test` checks the physics as document 002 lists it; `demo` draws its three pictures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 when all seven checks pass or all pictures are drawn, 1 when a check fails, 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m samara.documents.rigid_body", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("test", help="run the seven checks of document 002")
    demo = commands.add_parser("demo", help="draw the three pictures of document 002")
    demo.add_argument("--out", type=Path, default=Path("out/rigid_body"), help="the folder for the pictures")
    given = parser.parse_args(arguments)
    if given.command == "demo":
        from samara.documents.rigid_body.picture import draw_demo

        try:
            paths = draw_demo(given.out)
        except OSError as error:
            print(f"samara: {error}", file=sys.stderr)
            return 2
        print("\n".join(f"picture {path}" for path in paths))
        return 0
    from samara.documents.rigid_body.checks import seven_checks, table

    checks = seven_checks()
    # a terminal without ✓ shall still see the words
    encoding = sys.stdout.encoding or "ascii"
    print(table(checks).encode(encoding, errors="replace").decode(encoding))
    return 0 if all(check.passed for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
