"""Model-predictive control as a Crazyflie app: compiled with the standard library alone and called as in the firmware."""

import ctypes
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.repository import skip_or_fail

import samara
from samara.control import MPC
from samara.control.mpc_c import C_PREFIX
from samara.control.policy_c import compile_library
from samara.link.deploy.crazyflie_mpc import APP, FILES, write_crazyflie_mpc

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-DSAMARA_MPC_HOST", "-O0")
THRUST_MAX, PERIOD_MS = 0.12, 20
DISABLED, ABSOLUTE = 0, 1
TICK = """
int tick(const float *in, int mode, unsigned step, float *out);
int tick(const float *in, int mode, unsigned step, float *out) {
    static control_t control;
    const state_t state = {
        .attitude = {0.0f, 0.0f, in[13]}, .attitudeQuaternion = {in[7], in[8], in[9], in[6]},
        .position = {in[0], in[1], in[2]}, .velocity = {in[3], in[4], in[5]},
    };
    const sensorData_t sensors = {{in[10], in[11], in[12]}};
    const setpoint_t setpoint = {
        .attitude = {0.0f, 0.0f, in[17]}, .position = {in[14], in[15], in[16]}, .mode = {mode, mode, mode, mode}};
    controllerOutOfTree(&control, &setpoint, &sensors, &state, step);
    memcpy(out, control.normalizedForces, sizeof control.normalizedForces);
    out[4] = control.thrustSi, out[5] = control.torqueX, out[6] = control.torqueY, out[7] = control.torqueZ;
    return (int)control.controlMode;
}
int solve(void);
int solve(void) { return solve_once(); }
"""
STATE = (
    0.1,
    -0.2,
    1.0,
    0.3,
    0.1,
    -0.2,
    0.98,
    0.1,
    -0.15,
    0.0866,
    20.0,
    -30.0,
    10.0,
)  # rates in deg/s, as the gyroscope
SETPOINT = (0.6, 0.2, 1.3, 15.0)


class App:
    """The compiled app and the compiled solver beside it."""

    def __init__(self, inputs: str, folder: Path) -> None:
        if shutil.which("cc") is None:
            skip_or_fail("no C compiler")
        options = {"integrator": "euler", "line_search": (1.0, 0.5, 0.1)}
        self.mpc = MPC(samara.vehicle("crazyflie"), inputs=inputs, period=PERIOD_MS * 1e-3, horizon=10, **options)
        write_crazyflie_mpc(self.mpc, folder)
        (folder / "all.c").write_text(f'#include "{C_PREFIX}.c"\n#include "{APP}"\n{TICK}')
        self.library = compile_library(folder / "all.c", folder / "all.so", *STRICT)
        self.library.controllerOutOfTreeInit()
        self.step = 0

    def tick(self, mode: int = ABSOLUTE) -> tuple[int, np.ndarray]:
        """Return the control mode, and forces, thrust and torques."""
        values, result = (ctypes.c_float * 18)(*STATE, 0.0, *SETPOINT), (ctypes.c_float * 8)()
        control_mode: int = self.library.tick(values, mode, self.step, result)
        self.step += 1
        return control_mode, np.array(result)

    def expected_input(self) -> np.ndarray:
        """The first solution for the state and setpoint; it changes the state of the solver."""
        self.library.samara_mpc_init()
        state = [*STATE[:10], *(math.radians(rate) for rate in STATE[10:])]
        result = (ctypes.c_float * 4)()
        arguments = (ctypes.c_float * 13)(*state), (ctypes.c_float * 3)(*SETPOINT[:3])
        self.library.samara_mpc_solve(*arguments, ctypes.c_float(math.radians(SETPOINT[3])), result)
        return np.array(result)


@pytest.mark.parametrize("inputs", ["rotors", "wrench"])
def test_the_app_applies_the_solution_for_the_estimate_and_the_setpoint(inputs: str, tmp_path: Path) -> None:
    app = App(inputs, tmp_path)
    assert app.library.solve() == 0  # nothing to fly to
    mode, values = app.tick()
    assert mode == 2 and not values[:4].any()  # motors off until the first solution
    assert app.library.solve() == 1
    mode, values = app.tick()
    expected = app.expected_input()
    if inputs == "wrench":
        assert mode == 1
        np.testing.assert_allclose(values[4:], expected, rtol=1e-5, atol=1e-9)
    else:
        positions = [rotor.r_B for rotor in app.mpc.vehicle.rotors]
        corners = ((1, -1), (-1, -1), (-1, 1), (1, 1))  # of M1 to M4: signs of x and y
        order = [next(i for i, r in enumerate(positions) if r.x * x > 0.0 and r.y * y > 0.0) for x, y in corners]
        assert mode == 2 and len(set(np.round(expected, 6))) == 4
        np.testing.assert_allclose(values[:4], expected[order] / THRUST_MAX, rtol=1e-5)


def test_motors_stop_without_a_height_and_if_solutions_are_late(tmp_path: Path) -> None:
    app = App("rotors", tmp_path)
    app.tick()
    app.library.solve()
    assert app.tick()[1][:4].any()
    assert not app.tick(DISABLED)[1][:4].any()
    assert app.library.solve() == 0
    assert not app.tick()[1][:4].any()  # the solution of the flight before does not count
    app.library.solve()
    ages = [app.tick()[1][:4].any() for _ in range(6 * PERIOD_MS)]
    assert ages == [True] * (5 * PERIOD_MS + 1) + [False] * (PERIOD_MS - 1)
    app.library.solve()
    assert not app.tick()[1][:4].any()  # until the setpoint was disabled once
    app.tick(DISABLED), app.library.solve(), app.tick(), app.library.solve()
    assert app.tick()[1][:4].any()


def test_the_example_runs_without_the_firmware(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        skip_or_fail("no C compiler")
    mpc = MPC(samara.vehicle("crazyflie"), integrator="euler", horizon=5, period=0.02)
    write_crazyflie_mpc(mpc, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    command = ["cc", "-std=c99", *STRICT, APP, f"{C_PREFIX}.c", "-lm", "-o", "app"]
    subprocess.run(command, cwd=tmp_path, check=True)
    output = subprocess.run([tmp_path / "app"], capture_output=True, text=True, check=True).stdout
    thrust = float(output.split()[0])
    assert 0.5 < thrust / mpc.model.hover_input[0] < 1.5


def test_a_period_that_the_stabilizer_does_not_have_is_refused(tmp_path: Path) -> None:
    mpc = MPC(samara.vehicle("crazyflie"), integrator="euler", horizon=5, period=0.0125)
    with pytest.raises(ValueError, match=r"period = 0\.0125 s: expected a multiple"):
        write_crazyflie_mpc(mpc, tmp_path)
