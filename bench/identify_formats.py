"""Identify ten more synthetic vehicles through each log format: `python bench/identify_formats.py [--formats px4,csv]`.

Flights are written as autopilots log them (`tests/support/log_files.py`), read back and identified. Results are saved per case,
so an interrupted campaign resumes. Two processes run: one for vehicles with motion capture, one for those without.
"""

import argparse
import sys
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from studies.identification import identify_case, progress_bar, read_result, table
from studies.synthetic import is_captured
from support.format_cases import FORMATS, format_case_numbers, run_formats


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"comma-separated formats: {', '.join(FORMATS)}")
    parser.add_argument("--first", type=int, default=200, help="number of the first vehicle")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/identify_formats"))
    options = parser.parse_args()
    numbers_by_format = {
        name: format_case_numbers(name, options.first, options.count) for name in options.formats.split(",")
    }
    all_numbers = sorted({number for numbers in numbers_by_format.values() for number in numbers})
    files = [
        options.out / name / f"case_{number:04d}.json"
        for name, numbers in numbers_by_format.items()
        for number in numbers
    ]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool, progress_bar(len(files)) as progress:
        halves = [[number for number in all_numbers if is_captured(number) == captured] for captured in (True, False)]
        pending = {pool.submit(run_formats, numbers_by_format, half, options.out, identify_case) for half in halves}
        while pending:
            finished, pending = wait(pending, 1.0, FIRST_COMPLETED)
            progress(sum(file.exists() for file in files), len(files))
            for future in finished:
                future.result()
    for name, numbers in numbers_by_format.items():
        results = [read_result(options.out / name / f"case_{number:04d}.json") for number in numbers]
        print(f"{name}\n{table(results)}\n")


if __name__ == "__main__":
    main()
