"""Ten synthetic vehicles more through each file format: `python bench/identify_formats.py [--formats px4,csv]`.

Flights are written as autopilots log them (`tests/support/log_files.py`), read back and identified. Cases are kept, so that a
campaign that was stopped goes on. Two processes: one for those with motion capture, one for those without.
"""

import argparse
import sys
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from studies.identification import identified, on_screen, read_result, table
from studies.synthetic import is_captured
from support.format_cases import FORMATS, numbers_for, through_each


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"some of {', '.join(FORMATS)}")
    parser.add_argument("--first", type=int, default=200, help="the first vehicle's number")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/identify_formats"))
    asked = parser.parse_args()
    wanted = {name: numbers_for(name, asked.first, asked.count) for name in asked.formats.split(",")}
    every = sorted({own for numbers in wanted.values() for own in numbers})
    files = [asked.out / name / f"case_{own:04d}.json" for name, numbers in wanted.items() for own in numbers]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool, on_screen(len(files)) as progress:
        halves = [[own for own in every if is_captured(own) == captured] for captured in (True, False)]
        waiting = {pool.submit(through_each, wanted, half, asked.out, identified) for half in halves}
        while waiting:
            finished, waiting = wait(waiting, 1.0, FIRST_COMPLETED)
            progress(sum(file.exists() for file in files), len(files))
            for own in finished:
                own.result()
    for name, numbers in wanted.items():
        results = [read_result(asked.out / name / f"case_{own:04d}.json") for own in numbers]
        print(f"{name}\n{table(results)}\n")


if __name__ == "__main__":
    main()
