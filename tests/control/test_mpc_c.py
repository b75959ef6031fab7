"""Model-predictive control exported as C against the same iterations of the solver in Python, in double precision."""

import ctypes
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import call
from support.repository import skip_or_fail

import samara
from samara.control import MPC
from samara.control.mpc.constraints import keep_out_sphere, max_speed
from samara.control.mpc.flight import shift_inputs, split_shift
from samara.control.mpc.iteration import RolloutChoice
from samara.control.mpc_c import C_PREFIX, ExportedMpc, instructions_per_iteration, write_mpc_c
from samara.control.policy_c import compile_library
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.export.c_figures import CORTEX_M4F, HOST, measure_code

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wdouble-promotion", "-Wfloat-conversion")
CHOICE_ADDRESS = "float *choice_address(void) { return choice; }"
STEP_SIZES = (1.0, 0.5, 0.1)
MOVING = (0.0, 0.0, 1.0, 0.5, -0.3, 0.2, 0.97, 0.1, -0.15, 0.1, 0.5, -0.4, 0.3)
RESTING = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
OBSTACLE_AND_SPEED = (keep_out_sphere((1.0, 0.2, 1.2), 0.3), max_speed(1.5, weight=10.0))
TARGET, YAW = (3.0, 0.5, 1.5), 0.3


class CController:
    """The exported C code, compiled."""

    def __init__(self, mpc: MPC, folder: Path, optimisation: str = "-O0") -> None:
        if shutil.which("cc") is None:
            skip_or_fail("no C compiler")
        self.exported, code = write_mpc_c(mpc, folder), folder / "with_choice.c"
        code.write_text(f'#include "{C_PREFIX}.c"\nfloat *choice_address(void);\n{CHOICE_ADDRESS}\n')
        self._library = compile_library(code, folder / "mpc.so", *STRICT, optimisation)
        self._library[f"{C_PREFIX}_init"]()

    def solve(self, x: Any, target: Any = TARGET, yaw: float = YAW) -> tuple[Array, int]:
        """Return the input and the status."""
        arguments = [(ctypes.c_float * len(values))(*values) for values in (x, target)]
        result = (ctypes.c_float * 4)()
        status: int = self._library[f"{C_PREFIX}_solve"](*arguments, ctypes.c_float(yaw), result)
        return np.array(result, dtype=float), status

    @property
    def choice(self) -> RolloutChoice:
        """The choice of the last line search."""
        self._library.choice_address.restype = ctypes.POINTER(ctypes.c_float * len(RolloutChoice._fields))
        return RolloutChoice(*self._library.choice_address().contents)


class PythonController:
    """The same real-time iterations by the solver of one problem: shift, the better of two starts, one iteration.

    Two step sizes whose costs differ by less than single precision resolves are a tie: the plan follows that of C.
    """

    def __init__(self, mpc: MPC) -> None:
        self.mpc, self._solver = mpc, mpc._solver
        self._inputs, self._previous = np.tile(mpc.model.hover_input, (mpc.horizon, 1)), mpc.model.hover_input
        self.multipliers = self._solver.initial_multipliers.copy()
        self._shift = split_shift(mpc.period, mpc.model.dt, mpc.horizon)
        self.ties = 0

    def solve(self, x: Array, c_choice: RolloutChoice) -> Array:
        target, yaw = (float(np.float32(values)) for values in TARGET), float(np.float32(YAW))
        assert self.mpc._goals.write(tuple(target), x.tolist(), 0.0, yaw) is None
        self._solver.multipliers[:] = shift_inputs(self.multipliers, *self._shift)
        cost = self._solver.begin(x.tolist(), self._previous, shift_inputs(self._inputs, *self._shift))
        self._iterate(cost, c_choice)
        self._inputs, self.multipliers = self._solver.controls.copy(), self._solver.multipliers.copy()
        self._previous = self._inputs[0]
        return self._inputs[0]

    def _iterate(self, cost: float, c_choice: RolloutChoice) -> None:
        """Do the same as `Solver.iterate`, except for ties."""
        solver = self._solver
        solver._reset(cost, self.mpc.tolerance)
        start = solver.nominal_index
        solver._calls().iteration()
        choice = RolloutChoice(*solver._accept_best())
        if (choice.accepted, choice.alpha) != (c_choice.accepted, pytest.approx(c_choice.alpha)):
            self.ties += 1
            c_cost = solver._arrays["cost"][int(c_choice.index)] if c_choice.accepted else cost
            assert c_cost == pytest.approx(choice.cost, rel=1e-5)
            solver._side, solver._lane = (1 - start[0], int(c_choice.index)) if c_choice.accepted else start
        if self.mpc.problem.sizes.constraints:
            solver._arrays["worst"][0] = math.inf
            solver._call_report("update")


def tilt_angle(x: Array) -> float:
    return math.acos(1.0 - 2.0 * (x[7] ** 2 + x[8] ** 2))


@pytest.mark.parametrize(
    ("vehicle", "options", "optimisation"),
    [
        ("crazyflie", {"integrator": "euler"}, "-O0"),
        ("crazyflie", {"integrator": "euler", "inputs": "rotors", "max_tilt": math.radians(15.0)}, "-O0"),
        pytest.param("crazyflie", {"max_tilt": math.radians(15.0)}, "-O2", marks=pytest.mark.long),
        pytest.param("crazyflie", {"inputs": "rotors", "max_input_rate": 2.0}, "-Os", marks=pytest.mark.long),
        pytest.param("crazyflie", {"constraints": OBSTACLE_AND_SPEED}, "-O2", marks=pytest.mark.long),
        pytest.param("iris", {"inputs": "rotors", "max_tilt": math.radians(20.0)}, "-O2", marks=pytest.mark.long),
    ],
)
def test_fifty_iterations_in_closed_loop_are_those_of_python(
    vehicle: str, options: dict[str, Any], optimisation: str, tmp_path: Path
) -> None:
    mpc = MPC(samara.vehicle(vehicle), line_search=STEP_SIZES, period=0.02, **options)
    c, python = CController(mpc, tmp_path, optimisation), PythonController(mpc)
    limit = mpc.options.max_tilt
    motion, x = replace(mpc.model, dt=0.02), np.array(MOVING if limit is None else RESTING)
    low, high = (np.array(values) for values in mpc.model.limits)
    worst = largest_tilt = largest_multiplier = 0.0
    is_at_limit = False
    for _ in range(50):
        x = np.float32(x).astype(float)
        c_input, status = c.solve(x)
        x[6:10] /= np.linalg.norm(x[6:10])
        python_input = python.solve(x, c.choice)
        worst = max(worst, float(np.max(np.abs(c_input - python_input) / (high - low))))
        assert status == 0
        assert np.all(c_input >= low - 1e-6 * (high - low)) and np.all(c_input <= high + 1e-6 * (high - low))
        is_at_limit |= bool(np.any(np.minimum(c_input - low, high - c_input) < 1e-6 * (high - low)))
        largest_tilt = max(largest_tilt, tilt_angle(x))
        largest_multiplier = max(largest_multiplier, float(python.multipliers[:, 1:].max(initial=0.0)))
        x = np.array(flatten(motion.step(unflatten(mpc.model.template, iter(x.tolist())), tuple(c_input))))
    assert worst < 1e-4
    assert python.ties <= 5
    assert x[0] > 0.5  # it flies
    if limit is None:
        assert math.degrees(largest_tilt) > 25.0  # what the constraint of the others prevents
    else:
        assert limit - math.radians(1.0) < largest_tilt < limit + math.radians(2.0)
    assert (largest_multiplier > 0.01) == (mpc.problem.sizes.constraints > 0)  # the constraint is active


def test_what_is_not_finite_gives_hover_and_starts_anew(tmp_path: Path) -> None:
    mpc = MPC(samara.vehicle("crazyflie_documented"), horizon=5, line_search=STEP_SIZES)
    c = CController(mpc, tmp_path)
    first, status = c.solve(MOVING)
    second, _ = c.solve(MOVING)
    assert status == 0 and np.abs(second - first).max() > 1e-6  # the plan is carried over
    invalid = [(*MOVING[:3], math.nan, *MOVING[4:]), (*MOVING[:6], 0.0, 0.0, 0.0, 0.0, *MOVING[10:])]
    hover = np.float32(mpc.model.hover_input)
    for x, target in [*((x, TARGET) for x in invalid), (MOVING, (math.inf, 0.0, 0.0)), ([1e30] * 13, TARGET)]:
        result, status = c.solve(x, target)
        assert status == 1
        np.testing.assert_array_equal(result, hover)
        np.testing.assert_array_equal(c.solve(MOVING)[0], first)


def test_the_code_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    mpc = MPC(samara.vehicle("crazyflie_documented"), horizon=5, max_tilt=0.5, line_search=STEP_SIZES)
    exported = write_mpc_c(mpc, tmp_path)
    text = exported.source.read_text()
    assert re.findall(r"#include (.*)", text) == ['"samara_mpc.h"', "<math.h>"]
    assert not re.search(r"\b(malloc|calloc|realloc|alloca|free|double)\b", text)
    again = write_mpc_c(mpc, tmp_path / "again")
    assert again.source.read_text() == text and again.header.read_text() == exported.header.read_text()
    if shutil.which("cc") is None:
        skip_or_fail("no C compiler")
    variables = re.findall(r"^static float (\w+)(?:\[2\])?\[(.+)\];", text, re.MULTILINE)
    sizes = [2 * 7 * 17 if name == "trajectories" else int(size) for name, size in variables]
    assert exported.state_bytes == 4 * sum(sizes)


def test_a_delay_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"delay = 0\.02 s: is not exported"):
        write_mpc_c(MPC(samara.vehicle("crazyflie_documented"), horizon=5, delay=0.02), tmp_path)


def _example(tmp_path: Path) -> ExportedMpc:
    return write_mpc_c(MPC(samara.vehicle("crazyflie_documented"), horizon=5, line_search=STEP_SIZES), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("optimisation", ["-O2", "-Os"])
@pytest.mark.parametrize("compiler", [HOST, CORTEX_M4F], ids=["host", "cortex-m4f"])
def test_code_and_stack_fit_a_crazyflie(compiler: tuple[str, ...], optimisation: str, tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        skip_or_fail(f"no {compiler[0]}")
    figures = measure_code(_example(tmp_path).source, f"{C_PREFIX}_solve", compiler, optimisation)
    assert figures is not None
    assert 10_000 < figures.code_bytes < 250_000
    assert 500 < figures.stack_bytes < 4_000


@pytest.mark.long
def test_instructions_grow_with_the_horizon(tmp_path: Path) -> None:
    if shutil.which("cc") is None or shutil.which("valgrind") is None:
        skip_or_fail("no C compiler or no valgrind")
    counts = []
    for horizon in (5, 10):
        mpc = MPC(samara.vehicle("crazyflie_documented"), horizon=horizon, line_search=STEP_SIZES)
        count = instructions_per_iteration(write_mpc_c(mpc, tmp_path))
        assert count is not None
        counts.append(count)
    assert 20_000 * 5 < counts[0] < 60_000 * 5
    assert 1.9 < counts[1] / counts[0] < 2.05


def test_the_command_reports_what_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("PATH", "")
    words = (
        "export mpc --c --vehicle crazyflie_documented --horizon 5 --period 0.01 --max-tilt 30 --step-sizes 1,0.3 -o"
    )
    status, out, _ = call(monkeypatch, capsys, *words.split(), str(tmp_path), columns=200)
    assert status == 0
    memory = re.search(r"memory (\d+) bytes of constants, (\d+) bytes of variables", out)
    assert memory is not None and int(memory[1]) > 100 and int(memory[2]) > 1000
    assert "not measured for this machine: cc is not there" in out and "instructions are not counted" in out
    header = (tmp_path / "samara_mpc.h").read_text()
    assert "SAMARA_MPC_HORIZON 5 " in header and "SAMARA_MPC_PERIOD 0.01f" in header and "Constraints: tilt." in header
    assert "static const float sizes[2]" in (tmp_path / "samara_mpc.c").read_text()


@pytest.mark.parametrize("step_sizes", ["1,fast", "2", "0"])
def test_wrong_step_sizes_are_one_message(
    step_sizes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    status, _, error = call(
        monkeypatch, capsys, "export", "mpc", "--step-sizes", step_sizes, "-o", str(tmp_path), columns=200
    )
    assert status != 0 and "step sizes" in error.replace("numbers", "step sizes") and "Traceback" not in error
    assert not list(tmp_path.iterdir())
