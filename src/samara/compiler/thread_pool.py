"""Parallel tasks on all cores: calls of compiled code that release the interpreter lock.

Worker threads start when first needed and then wait for further tasks: submitting a task takes about 20 µs, starting a thread
80 µs. They are daemon threads and end with the process.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

CORES = os.cpu_count() or 1  # a constant because the call takes 15 µs
WORTH_A_THREAD = 400_000  # vector instructions, about 100 µs; below it a thread costs more than it saves

Task = Callable[[], Any]


class _WorkerThreads:
    """Worker threads that wait for tasks."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Task, Lock, list[BaseException]]] = SimpleQueue()
        self._count = 0

    def hand_over(self, task: Task, errors: list[BaseException]) -> Lock:
        """Queue a task; returns a lock that is released once the task is done."""
        done = Lock()
        done.acquire()
        self._waiting.put((task, done, errors))
        return done

    def start(self, count: int) -> None:
        """Start threads until at least `count` are running."""
        while self._count < count:
            self._count += 1
            Thread(target=self._help, name="samara helper", daemon=True).start()

    def _help(self) -> None:
        while True:
            task, done, errors = self._waiting.get()
            try:
                task()
            except BaseException as error:
                errors.append(error)
            finally:
                del task  # release its data
                done.release()


_workers = _WorkerThreads()


def _forget() -> None:
    """Discard the pool in a forked child process, which has only the forking thread."""
    global _workers
    _workers = _WorkerThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


_most = CORES


def threads_at_most() -> int:
    """Return the maximum of parallel threads: the core count, or the limit set by `limited_to`."""
    return _most


@contextmanager
def limited_to(count: int) -> Iterator[None]:
    """Limit the parallel threads of this process inside the block, for processes that share a machine."""
    global _most
    previous, _most = _most, max(1, count)
    try:
        yield
    finally:
        _most = previous


def shares_of(work: int, threads: int | None = None) -> int:
    """Return the count of parallel tasks for `work` vector instructions: at most one per core, or per thread."""
    return max(1, min(threads or _most, work // WORTH_A_THREAD))


def side_by_side(tasks: Sequence[Task]) -> None:
    """Run all tasks in parallel, the first in this thread; return when all are done, and re-raise the first error."""
    errors: list[BaseException] = []
    _workers.start(len(tasks) - 1)
    locks = [_workers.hand_over(task, errors) for task in tasks[1:]]
    try:
        tasks[0]()
    finally:
        for done in locks:
            done.acquire()
    if errors:
        raise errors[0]
