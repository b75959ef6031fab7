"""Drag and damping against their textbook solutions: terminal velocity, ballistic flight, wind, decay."""

import math

import casadi
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traced_flights import fly, make_body, record_state, record_states, rotation

import samara
from samara import Environment
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.core.integrate import rk45
from samara.physics.air.drag import Damping, Drag, damping_torque, drag_force
from samara.physics.frames import enu_from_ned, ned_from_enu
from samara.physics.multirotor import derivative, state_at_rest

G = 9.80665
NO_COMMAND = (0.0, 0.0, 0.0, 0.0)
vectors = st.tuples(*[st.floats(-20, 20)] * 3).map(lambda v: Vec3(*v))


def falling(**drag):
    return make_body(effects={"drag": {"frame": "world", **drag}})


def test_terminal_velocity_with_linear_drag():
    """m v̇ = −mg − d v from rest: v = −v_t (1 − e^{−t/τ}), z = −v_t (t − τ (1 − e^{−t/τ})), v_t = mg/d, τ = m/d."""
    vehicle = falling(linear=Vec3(0.1, 0.1, 0.8))
    states = record_states(vehicle, fly(vehicle, state_at_rest(vehicle), NO_COMMAND, 100.0, dt=0.01))
    t = 0.01 * np.arange(10001)
    terminal, tau = 2.0 * G / 0.8, 2.0 / 0.8
    lost = 1.0 - np.exp(-t / tau)
    assert states.v_W.z == pytest.approx(-terminal * lost, abs=2e-12 * terminal)
    assert states.p_W.z == pytest.approx(-terminal * (t - tau * lost), abs=1e-9)
    assert states.v_W.z[-1] == pytest.approx(-terminal, rel=1e-13)


def test_terminal_velocity_with_quadratic_drag():
    """m v̇ = −mg + d v² from rest: v = −v_t tanh(gt/v_t), z = −(v_t²/g) ln cosh(gt/v_t), v_t = √(mg/d)."""
    vehicle = falling(quadratic=Vec3(0.1, 0.1, 0.05))
    states = record_states(vehicle, fly(vehicle, state_at_rest(vehicle), NO_COMMAND, 40.0, dt=0.005))
    t = 0.005 * np.arange(8001)
    terminal = math.sqrt(2.0 * G / 0.05)
    assert states.v_W.z == pytest.approx(-terminal * np.tanh(G * t / terminal), abs=2e-12 * terminal)
    fallen = terminal**2 / G * np.log(np.cosh(G * t / terminal))
    assert states.p_W.z == pytest.approx(-fallen, abs=1e-9)
    assert states.v_W.z[-1] == pytest.approx(-terminal, rel=1e-13)


def test_terminal_velocity_with_both_is_the_root_of_the_quadratic():
    """d₁ v + d₂ v² = mg: the final fall speed of every shipped vehicle with drag, without its rotors."""
    for name in samara.vehicle_names():
        vehicle = samara.vehicle(name)
        if not vehicle.has("drag"):
            continue
        if vehicle.rotors:
            vehicle = vehicle.without_effect("rotors")
        d1, d2 = vehicle["drag"].linear.z, vehicle["drag"].quadratic.z + vehicle["drag"].isotropic
        weight = vehicle.mass * vehicle["gravity"].acceleration
        terminal = weight / d1 if d2 == 0.0 else (math.sqrt(d1 * d1 + 4.0 * d2 * weight) - d1) / (2.0 * d2)
        state = state_at_rest(vehicle, Vec3(0.0, 0.0, 1e6))._replace(v_W=Vec3(0.0, 0.0, -terminal))
        command = (0.0,) * vehicle.command_size
        assert derivative(state, command, vehicle).v_W == pytest.approx((0.0, 0.0, 0.0), abs=1e-13)


@pytest.mark.parametrize("frame", ["world", "body"])
def test_ballistic_flight_in_wind(frame):
    """Linear drag d on all axes: with τ = m/d and v∞ = w + τg, v = v∞ + (v₀ − v∞) e^{−t/τ}, however the body tumbles;
    p = p₀ + v∞ t + τ (v₀ − v∞)(1 − e^{−t/τ})."""
    d = 0.6
    vehicle = make_body(effects={"drag": {"frame": frame, "linear": Vec3(d, d, d)}})
    p0, v0, wind = np.array([1.0, -2.0, 30.0]), np.array([12.0, 3.0, 15.0]), np.array([-4.0, 6.0, 1.0])
    state = state_at_rest(vehicle, Vec3(*p0), quat_from_euler(0.5, -0.3, 2.0))
    state = state._replace(v_W=Vec3(*v0), omega_B=Vec3(2.0, -3.0, 1.0))
    flown = rk45(
        lambda s: derivative(s, NO_COMMAND, vehicle, Environment(wind_W=Vec3(*wind))),
        state,
        3.0,
        rtol=1e-12,
        atol=1e-12,
    )
    tau = vehicle.mass / d
    v_end = wind + tau * np.array([0.0, 0.0, -G])
    decay = math.exp(-3.0 / tau)
    assert np.array(flown.v_W) == pytest.approx(v_end + (v0 - v_end) * decay, rel=1e-11)
    assert np.array(flown.p_W) == pytest.approx(p0 + v_end * 3.0 + tau * (v0 - v_end) * (1.0 - decay), rel=1e-11)


@given(velocity=vectors, wind=vectors, turn=st.tuples(*[st.floats(-3, 3)] * 3))
def test_only_the_motion_through_the_air_matters(velocity, wind, turn):
    """Galileo: the drag on a body that moves with v + w in wind w is the drag at v in still air; at v = w there is none."""
    for frame in ("world", "body"):
        vehicle = make_body(
            effects={"drag": {"frame": frame, "linear": Vec3(0.1, 0.2, 0.3), "quadratic": Vec3(0.03, 0.02, 0.01)}}
        )
        state = state_at_rest(vehicle, q_WB=quat_from_euler(*turn))

        def drag(v_W, wind_W, vehicle=vehicle, state=state):
            parts = samara.wrench_breakdown(state._replace(v_W=v_W), NO_COMMAND, vehicle, Environment(wind_W=wind_W))
            return np.array(parts["drag"].f_B + parts["drag"].f_W)

        assert drag(velocity + wind, wind) == pytest.approx(drag(velocity, ZERO), abs=1e-13)
        assert not drag(wind, wind).any()


def test_a_flight_in_steady_wind_is_the_calm_flight_carried_along():
    """Galilean invariance over two seconds of a tumbling crazyflie: p' = p + wt, v' = v + w, all else equal."""
    vehicle = samara.vehicle("crazyflie").without_effect("contact", "damping")
    state, command = samara.hover(vehicle)
    command = tuple(u + 0.002 * i for i, u in enumerate(command))
    wind = np.array([3.0, -2.0, 0.5])
    calm = record_states(vehicle, fly(vehicle, state, command, 2.0))
    carried = state._replace(v_W=Vec3(*wind))
    windy = record_states(vehicle, fly(vehicle, carried, command, 2.0, Environment(wind_W=Vec3(*wind))))
    t = 1e-3 * np.arange(2001)
    assert np.array(windy.p_W) - np.array(calm.p_W) == pytest.approx(np.outer(wind, t), abs=1e-11)
    assert np.array(windy.v_W) - np.array(calm.v_W) == pytest.approx(np.outer(wind, np.ones_like(t)), abs=1e-11)
    assert np.array(windy.q_WB) == pytest.approx(np.array(calm.q_WB), abs=1e-11)
    assert np.abs(np.array(calm.omega_B)).max() > 1.0  # it did tumble


def test_ned_simulator_wind_push():
    """Air moving north at 5 m/s accelerates a resting vehicle north: for the iris, 0.05 · 5 / 1.5 m/s²."""
    vehicle = samara.vehicle("iris_documented")
    state, command = samara.hover(vehicle)
    wind_W = enu_from_ned(Vec3(5.0, 0.0, 0.0))
    push_ned = ned_from_enu(derivative(state, command, vehicle, Environment(wind_W=wind_W)).v_W)
    assert push_ned == pytest.approx((0.05 * 5.0 / 1.5, 0.0, 0.0), abs=1e-13)


def test_hakoniwa_wind_cases():
    """v (3,6,9), wind (1,2,3), m 1: d1 1 → (−2,−4,−6), d2 1 → (−4,−16,−36), body axes."""
    v_relative = Vec3(3.0, 6.0, 9.0) - Vec3(1.0, 2.0, 3.0)
    one = Vec3(1.0, 1.0, 1.0)
    assert drag_force(v_relative, drag=Drag(linear=one)) == (-2.0, -4.0, -6.0)
    assert drag_force(v_relative, drag=Drag(quadratic=one)) == (-4.0, -16.0, -36.0)


@given(v=vectors)
def test_drag_always_takes_energy_and_quadratic_drag_knows_its_direction(v):
    """f · v ≤ 0, and f(−v) = −f(v): Hakoniwa's code lost the sign of v² (errata)."""
    drag = Drag(Vec3(0.1, 0.2, 0.3), Vec3(0.3, 0.1, 0.2))
    forward, backward = drag_force(v, drag=drag), drag_force(-v, drag=drag)
    assert all(f * component <= 0.0 for f, component in zip(forward, v, strict=True))
    assert backward == -forward


@given(v=vectors, turn=st.tuples(*[st.floats(-3, 3)] * 3))
def test_isotropic_drag_knows_no_axes(v, turn):
    """f(R v) = R f(v) = −d |v| R v; axis by axis, a diagonal flow would give 1/√3 of it"""
    drag, rotated = Drag(isotropic=0.02), rotation(quat_from_euler(*turn))
    force = np.array(drag_force(Vec3(*rotated.apply(v)), drag=drag))
    speed = math.sqrt(sum(component * component for component in v))
    assert force == pytest.approx(-0.02 * speed * rotated.apply(v), rel=1e-9, abs=1e-12)
    along = Vec3(0.0, v.y, 0.0)
    assert drag_force(along, drag=drag) == pytest.approx(drag_force(along, drag=Drag(quadratic=Vec3(0.02, 0.02, 0.02))))
    diagonal = Vec3(v.x, v.x, v.x)
    by_axes = np.array(drag_force(diagonal, drag=Drag(quadratic=Vec3(0.02, 0.02, 0.02))))
    assert by_axes == pytest.approx(np.array(drag_force(diagonal, drag=drag)) / math.sqrt(3.0), abs=1e-12)


def test_a_body_thrown_through_the_air_loses_its_speed_as_one_over_time():
    """m v̇ = −d |v| v without weight: v = v₀/(1 + d |v₀| t/m), straight on, in any axes and however it tumbles"""
    start = np.array([6.0, -3.0, 2.0])
    for frame in ("world", "body"):
        vehicle = make_body(effects={"drag": {"frame": frame, "isotropic": 0.1}}).without_effect("gravity")
        state = state_at_rest(vehicle)._replace(v_W=Vec3(*start), omega_B=Vec3(1.0, 2.0, -3.0))
        flown = record_states(vehicle, fly(vehicle, state, NO_COMMAND, 2.0, dt=0.002))
        t = 0.002 * np.arange(1001)
        expected = np.outer(start, 1.0 / (1.0 + 0.1 * np.linalg.norm(start) * t / vehicle.mass))
        assert np.array(flown.v_W) == pytest.approx(expected, abs=1e-10)


def test_drag_without_an_isotropic_part_takes_no_root():
    """With the default 0 a program contains no square root; with a number, or an input, it does"""
    v, d = casadi.SX.sym("v", 3), casadi.SX.sym("d")

    def roots(**isotropic):
        force = drag_force(Vec3(v[0], v[1], v[2]), drag=Drag(Vec3(0.1, 0.2, 0.3), Vec3(0.3, 0.1, 0.2), **isotropic))
        program = casadi.Function("f", [v, d], [casadi.vertcat(*force)])
        return sum(program.instruction_id(k) == casadi.OP_SQRT for k in range(program.n_instructions()))

    assert (roots(), roots(isotropic=0.1), roots(isotropic=d)) == (0, 1, 1)


def test_body_drag_turns_with_the_body_and_world_drag_does_not():
    """f = −R d Rᵀ v in body axes, f = −d v in world axes."""
    linear = np.array([0.1, 0.2, 0.9])
    q_WB = quat_from_euler(0.3, 1.2, -0.7)
    v_W = np.array([1.0, -2.0, 3.0])
    rotated = rotation(q_WB)
    for frame, expected in (
        ("body", -rotated.apply(linear * rotated.inv().apply(v_W))),
        ("world", -linear * v_W),
    ):
        vehicle = make_body(effects={"drag": {"frame": frame, "linear": Vec3(*linear)}})
        state = state_at_rest(vehicle, q_WB=q_WB)._replace(v_W=Vec3(*v_W))
        part = samara.wrench_breakdown(state, NO_COMMAND, vehicle)["drag"]
        assert rotated.apply(np.array(part.f_B)) + np.array(part.f_W) == pytest.approx(expected, rel=1e-14)


def test_crazyflie_engine_rates_decay_exponentially():
    """Spinning about one axis the crazyflie loses its rate as e^{−t} about x and y, e^{−2t} about z."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("rotors", "gravity", "drag", "contact")
    for axis, decay in ((0, 1.0), (1, 1.0), (2, 2.0)):
        omega_B = [0.0, 0.0, 0.0]
        omega_B[axis] = 5.0
        record = fly(vehicle, state_at_rest(vehicle)._replace(omega_B=Vec3(*omega_B)), (0.0,) * 4, 1.5)[-1]
        omega_B[axis] = 5.0 * math.exp(-decay * 1.5)
        assert record_state(vehicle, record).omega_B == pytest.approx(omega_B, rel=1e-12)


def test_damping_takes_the_power_it_says():
    """τ · ω = −Σ cᵢ ωᵢ²: the rate at which a free tumbling body loses its energy of rotation (finite differences)."""
    damping = Damping(Vec3(0.002, 0.003, 0.001))
    vehicle = make_body(effects={"damping": damping}).without_effect("gravity")
    start = state_at_rest(vehicle)._replace(omega_B=Vec3(1.0, 2.0, -3.0))
    h = 1e-3
    records = np.array(record_states(vehicle, fly(vehicle, start, NO_COMMAND, 4 * h, dt=h)).omega_B)
    energy = 0.5 * np.array([0.02, 0.03, 0.04]) @ records**2
    slope = (energy[0] - 8 * energy[1] + 8 * energy[3] - energy[4]) / (12 * h)
    middle = Vec3(*records[:, 2])
    assert np.dot(damping_torque(middle, damping=damping), middle) == pytest.approx(slope, rel=1e-9)
    assert slope < 0.0
