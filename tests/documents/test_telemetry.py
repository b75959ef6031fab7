"""Flights stepped by the user's code as a `Run`: `DroneEngine.telemetry` and `RigidBodyQuadrotor.telemetry`."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import samara
from samara.core.algebra import Vec3
from samara.documents.engine import DroneEngine
from samara.documents.rigid_body import RigidBodyQuadrotor
from samara.physics.types import Environment
from samara.view.web.snapshot import recorded_frame

WIND = Vec3(0.5, -0.2, 0.1)


@pytest.fixture(scope="module")
def flown():
    """An engine with telemetry, the states from `get_state` after each step, and the commands."""
    engine = DroneEngine(telemetry=True, wind_W=WIND)
    engine.reset(p_W=Vec3(1.0, 2.0, 3.0), motorSpeeds=(1500.0,) * 4)
    states, commands = [engine.get_state()], []
    for k in range(40):
        commands.append((0.6, 0.6, 0.6 + 1e-3 * k, 0.6))
        engine.apply_motor_commands(*commands[-1])
        engine.step(0.005)
        states.append(engine.get_state())
    return engine, states, commands


def test_the_engines_run_has_every_step(flown):
    engine, states, commands = flown
    run = engine.telemetry()
    assert run.time == pytest.approx(0.005 * np.arange(41), abs=1e-12)
    assert (run.position == [state.p_W for state in states]).all()
    assert (run.velocity == [state.v_W for state in states]).all()
    assert (run.attitude == [tuple(state.q_WB) for state in states]).all()
    assert (run.rotor_speed == [state.motorSpeeds for state in states]).all()
    assert (run.command[:-1] == commands).all() and (run.command[-1] == commands[-1]).all()
    assert (run.wind == [WIND] * 41).all()
    speed = np.linalg.norm(np.array(WIND) - [state.v_W for state in states], axis=1)
    assert run.tables["derived"]["airspeed"] == pytest.approx(speed, rel=1e-12)


def test_without_a_reference_there_are_no_tracking_errors(flown):
    run = flown[0].telemetry(controller="ramp")
    summary = run.summary()
    assert summary["controller"].value == "ramp" and summary["flight time"].value == pytest.approx(0.2)
    assert not [name for name in summary if "error" in name] and "nan" not in repr(run)


def test_the_viewer_shows_a_flight_without_a_reference(flown):
    """All values of a frame are finite: the drone's position replaces the missing reference."""
    frame = recorded_frame([flown[0].telemetry()], 0.1)
    assert (frame.reference_W == frame.p_W).all() and frame.detail.reference_W == tuple(frame.p_W[0])


@pytest.mark.parametrize("form", ["point", "rows", "function"])
def test_a_reference_makes_tracking_errors(flown, form):
    """RMS of |p − p_ref|, from the states themselves."""
    engine, states, _ = flown
    time = 0.005 * np.arange(41)
    desired = np.stack([1.0 + 0.1 * time, 2.0 + 0.0 * time, 3.0 + 0.0 * time], axis=1) if form != "point" else (1, 2, 4)
    run = engine.telemetry((lambda t: (1.0 + 0.1 * t, 2.0, 3.0)) if form == "function" else desired)
    errors = np.linalg.norm(np.array([state.p_W for state in states]) - desired, axis=1)
    assert run.summary()["position error, RMS"].value == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert run.summary()["final position error"].value == pytest.approx(errors[-1], rel=1e-9)


def test_a_run_of_the_engine_is_plotted_saved_and_loaded(flown, tmp_path):
    run = flown[0].telemetry(reference=(1.0, 2.0, 3.0))
    run.plot("attitude", tmp_path / "attitude.png")
    assert (tmp_path / "attitude.png").stat().st_size > 10_000
    loaded = samara.load_run(run.save(tmp_path / "run.mcap"))
    assert (loaded.tables["state"].rows == run.tables["state"].rows).all()
    assert loaded.drone_records[0].vehicle == flown[0].vehicle and repr(loaded) == repr(run)


def test_telemetry_begins_anew_with_a_reset():
    engine = DroneEngine(telemetry=True)
    engine.step(0.001)
    engine.reset()
    with pytest.raises(ValueError, match="nothing was recorded; expected at least one step"):
        engine.telemetry()
    engine.step(0.001, Environment(wind_W=Vec3(1.0, 0.0, 0.0), motor_effectiveness=(1.0, 0.0, 1.0, 1.0)))
    run = engine.telemetry()
    assert run.time.tolist() == [0.0, 0.001] and engine.time == 0.001
    assert run.tables["environment"]["motor_effectiveness"][0].tolist() == [1.0, 0.0, 1.0, 1.0]


def test_telemetry_that_cannot_be_is_one_sentence(flown):
    with pytest.raises(ValueError, match=r"expected DroneEngine\(telemetry=True\)"):
        DroneEngine().telemetry()
    with pytest.raises(ValueError, match=r"reference has the shape \(2,\); expected \(3,\), \(41, 3\), or a function"):
        flown[0].telemetry(reference=(1.0, 2.0))
    with pytest.raises(ValueError, match="reference has numbers that are not finite"):
        flown[0].telemetry(reference=(1.0, 2.0, np.nan))
    quad = RigidBodyQuadrotor()
    with pytest.raises(ValueError, match=r"t has the shape \(3,\) and x \(12, 2\)"):
        quad.telemetry([0, 1, 2], np.zeros((12, 2)), [0, 0, 0, 0])
    with pytest.raises(ValueError, match=r"u has the shape \(3,\); expected \(4,\), \(4, 2\), or a function"):
        quad.telemetry([0, 1], np.zeros((12, 2)), [0, 0, 0])
    with pytest.raises(ValueError, match="t = 0 s after 1 s: expected times that increase"):
        quad.telemetry([1, 0], np.zeros((12, 2)), [0, 0, 0, 0])


@pytest.mark.parametrize("motor_lag", [None, 0.05])
def test_a_motion_of_the_rigid_body_is_a_run(motor_lag):
    """Thrown up without drag and thrust: z = v t − g t²/2; the largest height v²/2g."""
    quad = RigidBodyQuadrotor(D=0, motor_lag=motor_lag)
    x = np.zeros(12 if motor_lag is None else 16)
    x[5] = 5.0
    solution = solve_ivp(quad.dynamics, (0.0, 1.0), x, args=([0.0] * 4,), t_eval=np.linspace(0.0, 1.0, 201), rtol=1e-10)
    run = quad.telemetry(solution.t, solution.y, lambda t, x: [0.0] * 4, controller="none")
    assert run.position[:, 2] == pytest.approx(5.0 * solution.t - 0.5 * 9.81 * solution.t**2, abs=1e-8)
    assert run.position[:, 2].max() == pytest.approx(25.0 / (2 * 9.81), abs=1e-4)
    assert run.summary()["final position"].value == pytest.approx((0.0, 0.0, 5.0 - 0.5 * 9.81), abs=1e-8)
    assert run.rotor_speed.shape == (201, 0 if motor_lag is None else 4)
    tabulated = quad.telemetry(solution.t, solution.y, np.zeros((4, 201)))
    assert (tabulated.command == run.command).all()
