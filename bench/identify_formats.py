"""Ten synthetic vehicles more through each file format: `python bench/identify_formats.py [--formats px4,csv]`.

Flights are written as autopilots log them (`tests/support/log_files.py`), read back and identified; cases are kept, so that a
campaign that was stopped goes on. Two processes.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.format_cases import FORMATS, numbers_for, through

from samara.identify.campaign import on_screen, run, table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"some of {', '.join(FORMATS)}")
    parser.add_argument("--first", type=int, default=200, help="the first vehicle's number")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/identify_formats"))
    asked = parser.parse_args()
    for name in asked.formats.split(","):
        numbers = numbers_for(name, asked.first, asked.count)
        with on_screen(len(numbers)) as progress:
            results = run(numbers, asked.out / name, partial(through, name=name), progress=progress)
        print(f"{name}\n{table(results)}\n")


if __name__ == "__main__":
    main()
