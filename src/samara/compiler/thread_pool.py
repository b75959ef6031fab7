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
MIN_INSTRUCTIONS_PER_THREAD = 400_000  # vector instructions, about 100 µs; below it a thread costs more than it saves

Task = Callable[[], Any]


class _WorkerThreads:
    """Worker threads that wait for tasks."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Task, Lock, list[BaseException]]] = SimpleQueue()
        self._count = 0

    def submit(self, task: Task, errors: list[BaseException]) -> Lock:
        """Queue a task; returns a lock that is released once the task is done."""
        done = Lock()
        done.acquire()
        self._queue.put((task, done, errors))
        return done

    def start(self, count: int) -> None:
        """Start threads until at least `count` are running."""
        while self._count < count:
            self._count += 1
            Thread(target=self._work, name="samara helper", daemon=True).start()

    def _work(self) -> None:
        while True:
            task, done, errors = self._queue.get()
            try:
                task()
            except BaseException as error:
                errors.append(error)
            finally:
                del task  # release its data
                done.release()


_workers = _WorkerThreads()


def _reset_after_fork() -> None:
    """Discard the pool in a forked child process, which has only the forking thread."""
    global _workers
    _workers = _WorkerThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


_max_threads = CORES


def max_threads() -> int:
    """Return the maximum of parallel threads: the core count, or the limit set by `limit_threads`."""
    return _max_threads


@contextmanager
def limit_threads(count: int) -> Iterator[None]:
    """Limit the parallel threads of this process inside the block, for processes that share a machine."""
    global _max_threads
    previous, _max_threads = _max_threads, max(1, count)
    try:
        yield
    finally:
        _max_threads = previous


def parallel_task_count(work: int, threads: int | None = None) -> int:
    """Return the count of parallel tasks for `work` vector instructions: at most one per core, or per thread."""
    return max(1, min(threads or _max_threads, work // MIN_INSTRUCTIONS_PER_THREAD))


def run_parallel(tasks: Sequence[Task]) -> None:
    """Run all tasks in parallel, the first in this thread; return when all are done, and re-raise the first error."""
    errors: list[BaseException] = []
    _workers.start(len(tasks) - 1)
    locks = [_workers.submit(task, errors) for task in tasks[1:]]
    try:
        tasks[0]()
    finally:
        for done in locks:
            done.acquire()
    if errors:
        raise errors[0]
