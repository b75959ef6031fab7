"""The fuzzer from the command line: any count of cases, over all readers or one, from any seed."""

import argparse
import faulthandler
import re
import sys
import time
from collections import Counter
from pathlib import Path

from .law import Reader
from .readers import READERS, SLOW
from .run import TIME_LIMIT_S, Failure, check_case, create_case, run
from .sandbox import sandbox

MEMORY = 8 << 30  # bytes: more than any case needs, and not enough to make a machine swap


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if every case obeyed its law."""
    options = _options().parse_args(arguments)
    readers = [reader for reader in (*READERS, *SLOW) if options.only in ("", reader.name)]
    _limit_memory()
    if options.case is not None:
        return _run_single_case(readers[0], options.seed, options.case, options.keep)
    begun, shown = time.perf_counter(), time.perf_counter()
    counts: Counter[str] = Counter()
    slowest: dict[str, tuple[float, int]] = {}
    problems: dict[str, Failure] = {}
    failed = 0
    for ran in run(readers, range(options.start, options.start + options.cases), options.seed):
        faulthandler.dump_traceback_later(TIME_LIMIT_S + 60.0, exit=True)  # for code that no signal interrupts
        counts[ran.reader] += 1
        slowest[ran.reader] = max(slowest.get(ran.reader, (0.0, 0)), (ran.seconds, ran.number))
        if ran.failure is not None:
            failed += 1
            kind = f"{ran.reader}: {problem_key(ran.failure.problem)}"
            if kind not in problems:
                problems[kind] = ran.failure
                print(ran.failure, flush=True)
        if time.perf_counter() - shown > 60.0:
            shown = time.perf_counter()
            print(f"{counts.total()} cases in {shown - begun:.0f} s, {failed} failed", flush=True)
    faulthandler.cancel_dump_traceback_later()
    for name, count in counts.items():
        seconds, number = slowest[name]
        print(f"{name}: {count} cases, the slowest {seconds:.2f} s (--case {number})")
    print(f"{counts.total()} cases in {time.perf_counter() - begun:.0f} s, {failed} failed in {len(problems)} ways")
    return 1 if failed else 0


def problem_key(problem: str) -> str:
    """Return the common part of similar problems: their first words, without numbers and names."""
    return re.sub(r"""\d+|'[^']*'|"[^"]*\"""", "_", problem)[:50]


def _options() -> argparse.ArgumentParser:
    names = [reader.name for reader in (*READERS, *SLOW)]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="case count (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (%(default)s)")
    parser.add_argument("--start", type=int, default=0, help="number of the first case (%(default)s)")
    parser.add_argument("--only", choices=names, default="", metavar="READER", help=f"one of {', '.join(names)}")
    parser.add_argument("--case", type=int, help="run this case alone, with its traceback; needs --only")
    parser.add_argument("--keep", type=Path, help="write the input of that case to this file")
    return parser


def _run_single_case(reader: Reader, seed: int, number: int, keep: Path | None) -> int:
    case = create_case(reader, seed, number)
    if keep is not None:
        keep.write_bytes(case.given if isinstance(case.given, bytes) else repr(case.given).encode())
    print("made wrong:", "; ".join(case.told))
    with sandbox() as folder:
        problem = check_case(reader, case, folder)
        print(f"{reader.name}: {problem}" if problem else f"{reader.name}: keeps its law")
        try:
            reader.read(case.given, folder)
        except Exception:
            import traceback

            traceback.print_exc()
    return 1 if problem else 0


def _limit_memory() -> None:
    """Limit the memory: larger allocations raise MemoryError, which counts as a failure."""
    try:
        import resource
    except ImportError:
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, most))


if __name__ == "__main__":
    sys.exit(main())
