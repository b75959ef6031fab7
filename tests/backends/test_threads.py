"""Tasks side by side: all are done, what fails is told, and the helpers outlive neither the process nor a fork."""

import os
import subprocess
import sys
import threading

import pytest

from samara.backends.threads import WORTH_A_THREAD, shares_of, side_by_side


def test_all_tasks_run_and_at_the_same_time():
    """Three tasks that wait for each other: one after another they would wait for ever."""
    met, done = threading.Barrier(3, timeout=30.0), []
    side_by_side([lambda k=k: (met.wait(), done.append(k)) for k in range(3)])
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("failing", [0, 1])
def test_what_a_task_raises_is_raised_when_all_are_done(failing):
    done = []

    def fail():
        raise ArithmeticError("lost")

    tasks = [lambda: done.append(True)] * 2
    tasks[failing] = fail
    with pytest.raises(ArithmeticError, match="lost"):
        side_by_side(tasks)
    assert done == [True]
    side_by_side([lambda: done.append(True)] * 2)  # and the helpers go on
    assert len(done) == 3


def test_small_work_is_not_shared():
    assert shares_of(0) == shares_of(1.9 * WORTH_A_THREAD, threads=8) == 1
    assert shares_of(3.5 * WORTH_A_THREAD, threads=8) == 3
    assert shares_of(1e12, threads=2) == 2 and shares_of(1e12) == (os.cpu_count() or 1)


def test_helpers_do_not_keep_the_process_alive():
    program = "from samara.backends.threads import side_by_side; side_by_side([print, print])"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_helpers_of_its_own():
    program = (
        "import os\n"
        "from samara.backends.threads import side_by_side\n"
        "side_by_side([int, int])\n"
        "child = os.fork()\n"
        "side_by_side([int, int])\n"
        "if child: raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
