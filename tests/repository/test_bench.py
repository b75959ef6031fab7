"""The bench: a peer that cannot be measured ends it with one sentence, and committed results change only on request."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.repository import REPOSITORY

BENCH = REPOSITORY / "bench"
sys.path.append(str(BENCH))

from peer_process import PEER_MODULES, PeerError, check_peers, run_peer  # noqa: E402


@pytest.mark.parametrize("peer", PEER_MODULES)
def test_a_peer_that_cannot_be_imported_is_named(peer, monkeypatch):
    """With the interpreter's message; the others are available."""
    monkeypatch.setattr("peer_process.PEER_MODULES", dict.fromkeys(PEER_MODULES, "json") | {peer: "no_such_package"})
    with pytest.raises(PeerError, match=rf"^{peer} cannot be measured: ModuleNotFoundError: .*no_such_package"):
        check_peers(Path(sys.executable))


def test_a_peer_that_fails_while_it_is_measured_is_named():
    """It could be imported, and then it broke."""
    with pytest.raises(PeerError, match=r"^Crocoddyl cannot be measured: ZeroDivisionError"):
        run_peer("Crocoddyl", ["-c", "1 / 0"], Path(sys.executable))
    with pytest.raises(PeerError, match=r"^Crocoddyl cannot be measured: exit status 3"):
        run_peer("Crocoddyl", ["-c", "raise SystemExit(3)"], Path(sys.executable))


def test_a_peer_answers_with_the_last_line_it_prints():
    """Libraries print greetings; the row comes last. Nothing of this environment's path reaches it."""
    code = "import os; print('hello'); print(len(os.environ['PYTHONPATH']))"
    assert run_peer("Crazyflow", ["-c", code], Path(sys.executable)) == 0


def test_the_bench_ends_with_status_1_and_writes_nothing(tmp_path):
    """No interpreter with the peers: one sentence, before any measurement."""
    before = {path: path.read_bytes() for path in (BENCH / "results").iterdir()}
    missing = tmp_path / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(BENCH.parent / "src")}
    command = [sys.executable, BENCH / "run.py", "--update", "--python", missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Crazyflow cannot be measured: {missing} does not run")
    assert done.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in (BENCH / "results").iterdir()} == before


@pytest.mark.parametrize(("arguments", "written"), [((), False), (("UPDATE=1",), True)])
def test_make_bench_updates_the_committed_results_only_when_asked(arguments, written):
    """`make bench` writes below out/, which git ignores."""
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "bench", *arguments],
        cwd=BENCH.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    (measuring,) = (line for line in done.stdout.splitlines() if "bench/run.py" in line)
    assert ("--update" in measuring) == written
    assert "out/" in (BENCH.parent / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("tier", ["near", "hard"])
def test_the_problems_of_the_comparison_are_those_of_the_controller(tier):
    """Goals, model and cost, stated in NumPy for the other solvers, give the controller's goals, states and cost."""
    from mpc_compare import BODY, build_controller
    from mpc_problems import draw_problems, rollout, rollout_cost, shaped_goals

    mpc = build_controller(10)
    for problem in draw_problems(tier, 5):
        result = mpc.solve(*problem, layout="wxyz")
        assert np.abs(result.goals[:, :9] - shaped_goals(problem, 10)).max() < 1e-12
        assert np.abs(result.states - rollout(BODY, problem.start, result.controls)).max() < 1e-9
        assert abs(rollout_cost(BODY, problem, result.controls) - result.cost) < 1e-9 * result.cost
