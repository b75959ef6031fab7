"""Tasks side by side, on all cores: calls of machine code that release the interpreter lock.

Helper threads are started when first needed and then wait for the next tasks: handing one over takes some 20 µs, starting a
thread 80. They end with the process and never keep it alive.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

CORES = os.cpu_count() or 1  # asked once: the answer takes 15 µs
WORTH_A_THREAD = 400_000  # vector instructions, some 100 µs: below it a thread costs more than it brings

Task = Callable[[], Any]


class _Helpers:
    """Threads that wait for tasks."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Task, Lock, list[BaseException]]] = SimpleQueue()
        self._count = 0

    def hand_over(self, task: Task, failed: list[BaseException]) -> Lock:
        """A lock that is free once the task is done"""
        done = Lock()
        done.acquire()
        self._waiting.put((task, done, failed))
        return done

    def start(self, count: int) -> None:
        """So many of them at least"""
        while self._count < count:
            self._count += 1
            Thread(target=self._help, name="samara helper", daemon=True).start()

    def _help(self) -> None:
        while True:
            task, done, failed = self._waiting.get()
            try:
                task()
            except BaseException as error:
                failed.append(error)
            finally:
                del task  # what it works on is not kept
                done.release()


_helpers = _Helpers()


def _forget() -> None:
    """In a forked process no thread is left but the one that forked."""
    global _helpers
    _helpers = _Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


_most = CORES


def threads_at_most() -> int:
    """How many threads work side by side: as many as there are cores, or as `limited_to` says"""
    return _most


@contextmanager
def limited_to(count: int) -> Iterator[None]:
    """At most so many threads meanwhile, in the whole process; for one that shares its machine with others of its kind"""
    global _most
    before, _most = _most, max(1, count)
    try:
        yield
    finally:
        _most = before


def shares_of(work: int, threads: int | None = None) -> int:
    """Into how many parts some work is split  [vector instructions]: at most one for each core, or each of so many threads"""
    return max(1, min(threads or _most, work // WORTH_A_THREAD))


def side_by_side(tasks: Sequence[Task]) -> None:
    """Runs all tasks at once, the first in this thread; returns when all are done, and raises what one of them raised"""
    failed: list[BaseException] = []
    _helpers.start(len(tasks) - 1)
    running = [_helpers.hand_over(task, failed) for task in tasks[1:]]
    try:
        tasks[0]()
    finally:
        for done in running:
            done.acquire()
    if failed:
        raise failed[0]
