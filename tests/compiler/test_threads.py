"""Parallel tasks: all run, errors are raised, and the worker threads outlive neither the process nor a fork."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from samara.compiler import compiled_step
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.thread_pool import CORES, MIN_INSTRUCTIONS_PER_THREAD, parallel_task_count, run_parallel


def test_all_tasks_run_and_at_the_same_time():
    """Three tasks that wait for each other: in sequence they would wait for ever."""
    met, done = threading.Barrier(3, timeout=30.0), []
    run_parallel([lambda k=k: (met.wait(), done.append(k)) for k in range(3)])
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_a_task_is_raised_when_all_are_done(failing):
    done = []

    def fail():
        raise ArithmeticError("lost")

    tasks = [lambda: done.append(True)] * 2
    tasks[failing] = fail
    with pytest.raises(ArithmeticError, match="lost"):
        run_parallel(tasks)
    assert done == [True]
    run_parallel([lambda: done.append(True)] * 2)  # the workers still run
    assert len(done) == 3


def test_small_work_is_not_shared():
    assert parallel_task_count(0) == parallel_task_count(MIN_INSTRUCTIONS_PER_THREAD * 19 // 10, threads=8) == 1
    assert parallel_task_count(MIN_INSTRUCTIONS_PER_THREAD * 7 // 2, threads=8) == 3
    assert parallel_task_count(10**12, threads=2) == 2 and parallel_task_count(10**12) == CORES


def test_helpers_do_not_keep_the_process_alive():
    program = "from samara.compiler.thread_pool import run_parallel; run_parallel([print, print])"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_helpers_of_its_own():
    program = (
        "import os\n"
        "from samara.compiler.thread_pool import run_parallel\n"
        "run_parallel([int, int])\n"
        "child = os.fork()\n"
        "run_parallel([int, int])\n"
        "if child: raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("shares", [2, 3, 7])
@pytest.mark.parametrize("n", [2, 9, 100])
def test_a_machine_gives_the_same_bits_for_any_thread_count(monkeypatch, n, shares):
    """A logistic map, in which one bit changes the orbit after fifty steps; also drone counts that leave partial tiles."""
    code = CompiledStep(
        lambda machine, held_inputs: (held_inputs[0] * machine[0] * (1.0 - machine[0]),), (0.5,), (3.9,)
    )
    start, orbits = np.random.default_rng(8).uniform(0.1, 0.9, n), []
    for count in (1, shares):
        monkeypatch.setattr(compiled_step, "parallel_task_count", lambda work, count=count: count)
        machine = code.machine(n)
        machine.carry[0] = start
        machine.run(100)
        orbits.append(machine.carry[0].tolist())
    assert orbits[0] == orbits[1]
    by_hand = start
    for _ in range(100):
        by_hand = 3.9 * by_hand * (1.0 - by_hand)
    assert orbits[0] == by_hand.tolist()
