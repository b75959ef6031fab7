"""The fuzzer by hand: any number of cases, over all readers or one, from any seed."""

import argparse
import faulthandler
import re
import sys
import time
from collections import Counter
from pathlib import Path

from .law import Reader
from .readers import READERS, SLOW
from .run import PATIENCE, Failure, case_of, judged, run
from .sandbox import sandbox

MEMORY = 8 << 30  # bytes: more than any case needs, and less than makes a machine stand still


def main(arguments: list[str] | None = None) -> int:
    """0 where every case kept its law"""
    options = _options().parse_args(arguments)
    readers = [own for own in (*READERS, *SLOW) if options.only in ("", own.name)]
    _limit_memory()
    if options.case is not None:
        return _one(readers[0], options.seed, options.case, options.keep)
    begun, shown = time.perf_counter(), time.perf_counter()
    counts: Counter[str] = Counter()
    slowest: dict[str, tuple[float, int]] = {}
    problems: dict[str, Failure] = {}
    failed = 0
    for ran in run(readers, range(options.start, options.start + options.cases), options.seed):
        faulthandler.dump_traceback_later(PATIENCE + 60.0, exit=True)  # for what no signal ends
        counts[ran.reader] += 1
        slowest[ran.reader] = max(slowest.get(ran.reader, (0.0, 0)), (ran.seconds, ran.number))
        if ran.failure is not None:
            failed += 1
            kind = f"{ran.reader}: {alike(ran.failure.problem)}"
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


def alike(problem: str) -> str:
    """What problems of one kind have in common: their first words, without numbers and names"""
    return re.sub(r"""\d+|'[^']*'|"[^"]*\"""", "_", problem)[:50]


def _options() -> argparse.ArgumentParser:
    names = [own.name for own in (*READERS, *SLOW)]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (%(default)s)")
    parser.add_argument("--start", type=int, default=0, help="the number of the first (%(default)s)")
    parser.add_argument("--only", choices=names, default="", metavar="READER", help=f"one of {', '.join(names)}")
    parser.add_argument("--case", type=int, help="this one alone, with its traceback; needs --only")
    parser.add_argument("--keep", type=Path, help="the file to write that one's input to")
    return parser


def _one(reader: Reader, seed: int, number: int, keep: Path | None) -> int:
    case = case_of(reader, seed, number)
    if keep is not None:
        keep.write_bytes(case.given if isinstance(case.given, bytes) else repr(case.given).encode())
    print("made wrong:", "; ".join(case.told))
    with sandbox() as folder:
        problem = judged(reader, case, folder)
        print(f"{reader.name}: {problem}" if problem else f"{reader.name}: keeps its law")
        try:
            reader.read(case.given, folder)
        except Exception:
            import traceback

            traceback.print_exc()
    return 1 if problem else 0


def _limit_memory() -> None:
    """What asks for more gets a MemoryError, which is no sentence"""
    try:
        import resource
    except ImportError:
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, most))


if __name__ == "__main__":
    sys.exit(main())
