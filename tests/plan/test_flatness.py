"""Differential flatness: from position and yaw over time to state and command, and back by flying them."""

import math
from dataclasses import replace
from functools import cache

import casadi
import numpy as np
import pytest

import samara
from samara.core import ops
from samara.core.algebra import ZERO, Vec3, cross, dot, matrix_from_quat, norm
from samara.core.tree import flatten
from samara.physics.air.drag import BODY_AXES, Drag
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import IDEAL_BATTERY, NORMALIZED
from samara.physics.types import CALM
from samara.plan.flatness import ATTITUDE_SWEEPS, flat_attitude, flat_motion, flat_output, flat_to_state
from samara.plan.taylor import Series, atan2, time_series
from samara.plan.trajectory import circle, figure8, helix, hover, lissajous, race, take_off
from samara.vehicles.trim import hover as trim

EIGHT = figure8((0.0, 0.0, 3.0), half_length=1.5, speed=1.5, laps=math.inf)
LISSAJOUS = lissajous(
    (0.0, 0.0, 3.0),
    amplitude=(1.5, 1.0, 0.4),
    frequency=(1, 2, 1),
    phase=(0.3, 0.0, 0.5),
    speed=1.5,
    laps=math.inf,
    yaw=0.3,
)
CRUISING = 5.0  # [s]: by then both are at full speed, and their derivatives of every order are continuous


def with_ideal_battery(vehicle):
    return vehicle.with_effect(IDEAL_BATTERY, Ideal(12.0))


def with_lag(vehicle, rise=0.05, fall=0.05):
    rotors = tuple(rotor._replace(motor=Lag(50.0, 450.0, rise, fall)) for rotor in vehicle.rotors)
    bare = vehicle.without_effect("battery")
    return replace(bare, rotors=rotors, structure=replace(bare.structure, actuation=NORMALIZED))


VEHICLES = {
    "crazyflie_documented": samara.vehicle("crazyflie_documented"),  # drag in world axes, lag 15 ms
    "crazyflie": samara.vehicle("crazyflie").without_effect(
        "airspeed_moment"
    ),  # drag in body axes, lag 72 ms, J not diagonal
    "iris_documented": with_ideal_battery(samara.vehicle("iris_documented")),  # DC motors, inflow, rotor inertia
    "iris, lag": with_lag(samara.vehicle("iris_documented")),
    "iris, uneven lag": with_lag(samara.vehicle("iris_documented"), rise=0.04, fall=0.06),
    "hakoniwa": samara.vehicle("hakoniwa"),  # a reaction to spin-up that takes 93 ms to settle
    "rigid_body_quadrotor": samara.vehicle("rigid_body_quadrotor"),  # driven by a wrench
}


def each_vehicle(test):
    return pytest.mark.parametrize("vehicle", VEHICLES.values(), ids=VEHICLES.keys())(test)


# Simulated ---------------------------------------------------------------------------------------------------------


@cache
def compile_vehicle(vehicle):
    return samara.compile(vehicle)


def open_loop_error(vehicle, trajectory, seconds=5.0, dt=1e-3):
    """Maximum distance from the trajectory under its flat commands alone, each held for one step about its middle"""
    times = CRUISING + (np.arange(round(seconds / dt)) + 0.5) * dt
    state, _ = flat_to_state(flat_output(trajectory, CRUISING), vehicle)
    _, commands = flat_to_state(flat_output(trajectory, times), vehicle)
    flight = compile_vehicle(vehicle).rollout(state, np.stack(commands, axis=1), dt=dt)
    desired = trajectory.evaluate(CRUISING + flight.time)
    return float(np.linalg.norm(np.array(flight.states.p_W) - np.array(desired.p_W), axis=0).max())


@pytest.mark.parametrize(
    "name", [name for name in VEHICLES if name != "iris, uneven lag"]
)  # a second of compiling each
@pytest.mark.parametrize("trajectory", [EIGHT, LISSAJOUS], ids=["figure8", "lissajous"])
def test_flat_commands_alone_fly_the_trajectory(name, trajectory):
    """Five seconds without feedback, at 1 kHz, stay within 5 µm of the trajectory."""
    assert open_loop_error(VEHICLES[name], trajectory) < 5e-6


def test_the_remaining_error_is_that_of_holding_the_command():
    """Halving the step quarters the error: held about its middle, a command is exact to second order."""
    coarse, half_step = (open_loop_error(VEHICLES["crazyflie"], EIGHT, dt=dt) for dt in (2e-3, 1e-3))
    assert coarse / half_step == pytest.approx(4.0, rel=0.05)


def test_a_discharging_battery_is_not_determined_by_the_trajectory():
    """The Iris' battery loses voltage in flight; the command for a full one then gives too little thrust."""
    assert open_loop_error(samara.vehicle("iris_documented"), EIGHT) > 0.1


# Equations -------------------------------------------------------------------------------------------------------------


@each_vehicle
def test_the_flat_state_obeys_the_equations_of_motion(vehicle):
    """d/dt of the flat state, by differences of sixth order, is the derivative of the vehicle under the flat command."""
    h, weights = 1e-3, np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 60.0
    time = np.linspace(CRUISING, CRUISING + 5.0, 51)
    around = time + h * np.arange(-3, 4)[:, None]
    state, command = flat_to_state(flat_output(LISSAJOUS, around), vehicle)
    rates = flatten(derivative(state, command, vehicle))
    for component, rate in zip(flatten(state)[: 13 + len(vehicle.rotors)], rates, strict=False):
        expected = np.broadcast_to(rate, around.shape)[3]
        assert np.abs(weights @ component / h - expected).max() < 3e-6 * (1.0 + np.abs(expected).max())


def test_without_drag_it_is_mellingers_closed_form():
    """f = m (a + g e₃), ω_x = −h·y_B, ω_y = h·x_B with h = (m/T)(j − (z_B·j) z_B) (Mellinger & Kumar 2011)."""
    vehicle = VEHICLES["crazyflie_documented"].without_effect("drag", "damping")
    r = LISSAJOUS.evaluate(7.3)
    state, _ = flat_to_state(r, vehicle)
    x, y, z = matrix_from_quat(state.q_WB).columns
    f = (r.a_W + Vec3(0.0, 0.0, 9.81)) * vehicle.mass
    assert z == pytest.approx(f / norm(f), rel=1e-12)
    h = (r.j_W - z * dot(z, r.j_W)) * (vehicle.mass / norm(f))
    assert state.omega_B[:2] == pytest.approx((-dot(h, y), dot(h, x)), rel=1e-10)
    assert dot(y, Vec3(math.cos(0.3), math.sin(0.3), 0.0)) == pytest.approx(0.0, abs=1e-15)
    assert flat_motion(r, vehicle).thrust == pytest.approx(norm(f), rel=1e-12)


@pytest.mark.parametrize("name", ["crazyflie", "hexarotor_tilted", "rigid_body_quadrotor"])
def test_the_attitude_alone_has_the_bits_of_the_complete_motion(name):
    vehicle, reference = samara.vehicle(name), LISSAJOUS.evaluate(np.linspace(0.0, 5.0, 7))
    complete = flat_motion(reference, vehicle).state.q_WB
    assert np.array_equal(np.stack(flat_attitude(reference, vehicle)), np.stack(complete))


def test_at_rest_it_is_the_trim():
    for vehicle in (*VEHICLES.values(), samara.vehicle("hexarotor_x"), samara.vehicle("hexarotor_tilted")):
        state, command = flat_to_state(flat_output(hover((1.0, 2.0, 3.0)), 0.0), vehicle)
        expected, expected_command = trim(vehicle, (1.0, 2.0, 3.0))
        assert flatten(state) == pytest.approx(flatten(expected), rel=1e-9, abs=1e-12)
        assert command == pytest.approx(expected_command, rel=1e-9, abs=1e-12)


def test_steady_flight_tilts_against_its_drag():
    """On a circle of radius R at speed v the drag D v is along the path and m v²/R across it: tan of the tilt of each."""
    vehicle, v, R = VEHICLES["crazyflie_documented"], 1.2, 2.0
    ring = circle((0.0, 0.0, 2.0), radius=R, speed=v, laps=math.inf)
    m = flat_motion(flat_output(ring, 30.0), vehicle)
    z = matrix_from_quat(m.state.q_WB).columns[2]
    direction = ring.evaluate(30.0).v_W / v
    inwards = cross(Vec3(0.0, 0.0, 1.0), direction)
    weight = 0.028 * 9.81
    assert dot(z, direction) / z.z == pytest.approx(0.1 * v / weight, rel=1e-12)
    assert dot(z, inwards) / z.z == pytest.approx(0.028 * v * v / R / weight, rel=1e-12)


def test_wind_is_the_same_as_moving_through_air():
    """Galileo: hovering in a wind −w requires the same of the body as flying at w in calm air."""
    vehicle, speed = VEHICLES["crazyflie"], 2.0
    ring = circle((0.0, 0.0, 2.0), radius=1e9, speed=speed, laps=math.inf)
    moving = flat_motion(flat_output(ring, 100.0), vehicle)
    wind = CALM._replace(wind_W=ring.evaluate(100.0).v_W * -1.0)
    hovering = flat_motion(flat_output(hover((0.0, 0.0, 2.0)), 0.0), vehicle, wind)
    assert flatten(moving.state.q_WB) == pytest.approx(flatten(hovering.state.q_WB), abs=1e-8)
    assert moving.command == pytest.approx(hovering.command, rel=1e-7)


def test_drag_in_body_axes_is_solved_for():
    """m a = R f_B + f_W to 1e-13 of the weight, with a drag whose axes differ by a third of the weight at this speed."""
    vehicle = VEHICLES["crazyflie"].with_effect(BODY_AXES, Drag(Vec3(0.02, 0.05, 0.08), ZERO))
    time = np.linspace(CRUISING, CRUISING + 4.0, 41)
    state, command = flat_to_state(flat_output(LISSAJOUS, time), vehicle)
    a = np.array(derivative(state, command, vehicle).v_W)
    assert np.abs(a - np.array(LISSAJOUS.evaluate(time).a_W)).max() < 1e-12 * 9.8
    assert ATTITUDE_SWEEPS == 16


def test_a_reference_ends_at_the_snap():
    """State, torques and rotor speeds are the same; the command of a motor with a lag lacks the crackle."""
    vehicle, time = VEHICLES["crazyflie"].without_effect("rotor_momentum"), np.linspace(CRUISING, CRUISING + 3.0, 31)
    complete, truncated = (
        flat_motion(flat_output(LISSAJOUS, time), vehicle),
        flat_motion(LISSAJOUS.evaluate(time), vehicle),
    )
    for a, b in zip(
        flatten((complete.state, complete.tau_B)), flatten((truncated.state, truncated.tau_B)), strict=True
    ):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-12)
    assert np.abs(np.array(complete.command) - np.array(truncated.command)).max() > 1e-6


@pytest.mark.parametrize(
    "trajectory",
    [
        race([(0, 0, 1), (5, 2, 2), (9, -1, 3), (6, -6, 1.5)], speed=4.0, yaw="along"),
        race([(0, 0, 1), (5, 2, 2), (9, -1, 3), (6, -6, 1.5)], speed=4.0, closed=True, laps=2.0),
        helix((0, 0, 1), radius=1.5, height_per_turn=0.6, turns=3.0, speed=2.0, yaw="along"),
        take_off((0, 0, 0), height=3.0),
    ],
    ids=["race", "closed race", "helix", "take_off"],
)
def test_series_of_a_trajectory_are_its_references(trajectory):
    """Every derivative to the snap, and those of the yaw, by two methods: Taylor series, and the closed forms."""
    time = np.random.default_rng(0).uniform(0.01, trajectory.duration - 0.01, 50)
    r, output = trajectory.evaluate(time), flat_output(trajectory, time, 6)
    for k, name in enumerate(("p_W", "v_W", "a_W", "j_W", "s_W")):
        for series, expected in zip(output.p_W, getattr(r, name), strict=True):
            assert series.derivative(k) == pytest.approx(expected, rel=1e-8, abs=1e-8), name
    assert np.cos(output.yaw.value - r.yaw) == pytest.approx(np.ones(50), abs=1e-12)
    for k, name in ((1, "yaw_rate"), (2, "yaw_acceleration")):
        series = output.yaw.derivative(k)
        assert np.broadcast_to(series, (50,)) == pytest.approx(getattr(r, name), rel=1e-7, abs=1e-8), name


# Series ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda t: ops.sin(t) / (2.0 + ops.cos(t * t)),
        lambda t: ops.sqrt(1.0 + t * t) - ops.exp(-t),
        lambda t: ops.atan2(ops.sin(t) + 0.3, ops.cos(t)),
        lambda t: (1.0 + t * t) ** -1.5,
        lambda t: ops.where(t > 1.0, t * t, 3.0) + ops.absolute(t - 2.0) * ops.safe_divide(1.0, 1.0 + t),
        lambda t: ops.clamp(t, 0.0, 5.0) * ops.safe_norm(t, 1.0, 2.0) + ops.wrap_angle(3.0 * t),
    ],
)
def test_series_carry_every_derivative(function):
    """Six derivatives of elementary functions, against CasADi's repeated differentiation."""
    t = casadi.SX.sym("t")
    expression = function(t)
    for time in (0.4, 1.7):
        series = function(time_series(time, 6))
        derivative_expression = expression
        for k in range(7):
            exact = float(casadi.Function("f", [t], [derivative_expression])(time))
            assert series.derivative(k) == pytest.approx(exact, rel=1e-11, abs=1e-11), k
            derivative_expression = casadi.jacobian(derivative_expression, t)
    assert len(series.rate) == 6


def test_series_of_arrays_and_of_different_lengths():
    a, b = Series([np.array([1.0, 2.0]), 3.0, 4.0]), Series([5.0, 6.0])
    assert len(a * b) == len(a + b) == len(a / b) == len(atan2(a, b)) == 2
    assert (np.array([2.0, 3.0]) * a).value == pytest.approx([2.0, 6.0])
    assert (2.0 / a).value == pytest.approx([2.0, 1.0])
    assert (1.0 - a).coefficients[1] == -3.0


# Rejected ----------------------------------------------------------------------------------------------------------


def test_infeasible_motions_are_rejected():
    dive = lissajous(
        (0, 0, 9), amplitude=(0.1, 0, 4), frequency=(1, 1, 1), speed=15.0, laps=math.inf, acceleration=50.0
    )
    with pytest.raises(ValueError, match="would need a thrust of −"):
        flat_to_state(flat_output(dive, np.linspace(3.0, 5.0, 100)), VEHICLES["crazyflie"])
    with pytest.raises(ValueError, match="time is not finite"):
        flat_output(EIGHT, math.nan)
    broken = EIGHT.evaluate(6.0)._replace(a_W=Vec3(math.nan, 0.0, 0.0))
    with pytest.raises(ValueError, match="not finite"):
        flat_to_state(broken, VEHICLES["crazyflie_documented"])
    three_rotors = replace(VEHICLES["crazyflie_documented"], rotors=VEHICLES["crazyflie_documented"].rotors[:3])
    with pytest.raises(ValueError, match="is not flat: its rotors"):
        flat_to_state(EIGHT.evaluate(6.0), three_rotors)


@each_vehicle
def test_commands_for_a_spin_up_are_the_inverse_of_the_motors(vehicle):
    """Ω̇(state, command_for(state, Ω̇)) = Ω̇, for motors with lag, uneven lag, and currents on a shared bus."""
    state, _ = trim(vehicle)
    accelerations = tuple(50.0 * (-1.0) ** i + 10.0 * i for i in range(len(vehicle.rotors)))
    actuation = vehicle.structure.actuation
    command = actuation.command_from_acceleration(state, accelerations, vehicle, CALM)
    assert actuation.rotor_acceleration(state, command, vehicle, CALM) == pytest.approx(accelerations, rel=1e-9)
