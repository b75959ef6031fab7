"""Five controllers with one interface: each against its equations, and all in the same flights."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import signal
from scipy.spatial.transform import Rotation
from support.casadi_function import casadi_function
from support.traced_flights import rotation

import samara
from samara.control.default_gains import Gains, control_authority, default_gains, motor_time_constant
from samara.control.geometric import (
    FlightLimits,
    desired_angular_motion,
    geometric,
    geometric_wrench,
    tracking_acceleration,
    update_integral,
)
from samara.control.indi import filter_measurements, indi
from samara.control.lqr import error_scales, flat_error, hover_design, lqr
from samara.control.mellinger import mellinger, mellinger_torque
from samara.control.mpc import MPC
from samara.control.mpc.flight import AccelerationObserver, observe_acceleration
from samara.control.pid import pid, pid_gains
from samara.control.registry import CONTROLLERS, create_controller
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat, norm, quat_from_euler, rotate
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import derivative
from samara.physics.types import Reference
from samara.plan import trajectory
from samara.plan.flatness import attitude_from_thrust_direction
from samara.plan.trajectory import figure8, lissajous
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly

NAMES = tuple(name for name in CONTROLLERS if name != "mpc")  # which is not traced: see test_mpc.py
KINDS = (
    "crazyflie_documented",
    "hakoniwa",
    "hexarotor_tilted",
    "rigid_body_quadrotor",
)  # lag, DC motor, tilted rotors, wrench
PERIOD = 4e-3
ORIGIN = Reference(ZERO)


def airborne_vehicle(name):
    vehicle = samara.vehicle(name)
    return vehicle.without_effect("contact") if vehicle.has("contact") else vehicle


@lru_cache
def build(name, vehicle_name, healthy=()):
    return create_controller(name, airborne_vehicle(vehicle_name), healthy, period=PERIOD).call


@lru_cache
def compile_loop(vehicle, controller):
    return samara.compile(vehicle, backend="llvm", controller=controller)


def hovering_state(vehicle, p_W=(0.0, 0.0, 0.0)):
    return samara.hover(vehicle, p_W=p_W)[0]


def simulate(vehicle, controller, reference, seconds=None, state=None, dt=PERIOD, record_every=1, **options):
    """Simulate the compiled closed loop; the reference is constant, or an array of references."""
    steps = len(reference) if isinstance(reference, np.ndarray) else round(seconds / dt)
    rows = reference if isinstance(reference, np.ndarray) else np.tile(flatten(reference), (steps, 1))
    sim = compile_loop(vehicle, controller)
    return sim.rollout(state or hovering_state(vehicle), reference=rows, dt=dt, record_every=record_every, **options)


def distance(p_W, position=(0.0, 0.0, 0.0)):
    return np.sqrt(sum((np.asarray(p) - target) ** 2 for p, target in zip(p_W, position, strict=True)))


# One interface -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_reference_the_command_is_the_trim(name, kind):
    """Without error the command is the trim, call after call."""
    vehicle, controller = airborne_vehicle(kind), build(name, kind)
    state, trim = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    controller_state = controller.initial_state
    for _ in range(3):
        command, controller_state = controller(state, ORIGIN, vehicle, controller_state)
        assert np.array(command) == pytest.approx(np.array(trim), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_traced_it_gives_the_same_command(name, kind):
    """Traced by CasADi it gives the command and controller state of Python floats, away from its reference and rotating."""
    vehicle, controller = airborne_vehicle(kind), build(name, kind)
    state = hovering_state(vehicle)._replace(
        p_W=Vec3(0.3, -0.2, 0.1),
        v_W=Vec3(0.5, 0.1, -0.2),
        q_WB=quat_from_euler(0.2, -0.1, 0.4),
        omega_B=Vec3(0.4, -0.5, 0.6),
    )
    reference = Reference(
        Vec3(0.1, 0.0, 0.2),
        Vec3(0.2, 0.1, 0.0),
        Vec3(0.5, -0.4, 0.3),
        Vec3(0.3, 0.1, -0.2),
        0.3,
        0.2,
        Vec3(0.2, 0.4, 0.1),
        0.1,
    )
    controller_state = controller(hovering_state(vehicle), ORIGIN, vehicle, controller.initial_state)[1]
    traced = casadi_function(lambda s, r, m: controller(s, r, vehicle, m), state, reference, controller_state)
    expected = controller(state, reference, vehicle, controller_state)
    assert flatten(traced(state, reference, controller_state)) == pytest.approx(flatten(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["pid", "lqr"])
def test_jax_gives_the_same_command(name):
    """The same with JAX; the other controllers use the same functions."""
    jax = pytest.importorskip("jax")
    vehicle, controller = airborne_vehicle("crazyflie_documented"), build(name, "crazyflie_documented")
    state = hovering_state(vehicle)._replace(
        p_W=Vec3(0.3, -0.2, 0.1), q_WB=quat_from_euler(0.2, -0.1, 0.4), omega_B=Vec3(0.4, -0.5, 0.6)
    )
    reference, controller_state = Reference(Vec3(0.1, 0.0, 0.2), a_W=Vec3(0.5, -0.4, 0.3)), controller.initial_state
    result = jax.jit(lambda s, r, m: controller(s, r, vehicle, m))(state, reference, controller_state)
    expected = controller(state, reference, vehicle, controller_state)
    assert [float(x) for x in flatten(result)] == pytest.approx(flatten(expected), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_flies_it_by_name(name):
    """`controller = "…"`: take-off, five seconds of hover, and a landing."""
    run = samara.fly("hover", controller=name)
    assert run.crashed == () and run.position[:, 2].max() > 1.4
    assert run.position[-1, 2] < 0.05 and np.linalg.norm(run.velocity[-1]) < 0.05


def test_a_scenario_sets_the_period_of_a_controller():
    """By name at 125 Hz it flies like the controller built for 8 ms, and unlike the one built for 4 ms."""
    vehicle, settings = samara.vehicle("crazyflie"), {"duration": 1.5, "rates.control": 125}
    by_name = samara.fly("hover", controller="pid", settings=settings)
    matching, mismatched = (
        samara.fly("hover", controller=pid(vehicle, period=period), settings=settings) for period in (8e-3, 4e-3)
    )
    heights = [run.position[:, 2] for run in (by_name, matching, mismatched)]
    assert heights[0] == pytest.approx(heights[1], rel=1e-12, abs=1e-12)
    assert np.abs(heights[0] - heights[2]).max() > 1e-6


def test_a_batch_flies_as_each_alone():
    """The results are equal bit for bit, with controller state."""
    vehicle, controller = airborne_vehicle("crazyflie_documented"), build("pid", "crazyflie_documented")
    starts = [hovering_state(vehicle, (x, 0.0, 0.5 * x)) for x in (0.0, 0.5, 1.0)]
    batch = unflatten(starts[0], iter([np.array(row) for row in zip(*map(flatten, starts), strict=True)]))
    batch_final = simulate(vehicle, controller, ORIGIN, 1.0, batch).final
    for i, start in enumerate(starts):
        single_final = simulate(vehicle, controller, ORIGIN, 1.0, start).final
        assert [leaf[i] for leaf in flatten(batch_final)] == flatten(single_final)


def test_invalid_arguments_are_rejected():
    vehicle = airborne_vehicle("crazyflie_documented")
    with pytest.raises(ValueError, match=r"no controller 'lqg'; expected one of geometric, pid, mellinger, lqr, indi"):
        create_controller("lqg", vehicle)
    for make in (pid, mellinger, lqr, indi):
        with pytest.raises(ValueError, match=r"period = nan s: expected a positive number"):
            make(vehicle, period=math.nan)
        with pytest.raises(ValueError, match=r"healthy = \[True\]: expected True or False for each of the 4 rotors"):
            make(vehicle, healthy=[True])
    for controller in (pid(vehicle), indi(vehicle), mellinger(vehicle, integral=True)):
        with pytest.raises(ValueError, match=r"controller_state = \(\): .* starts with its `initial_state`"):
            controller(hovering_state(vehicle), ORIGIN, vehicle, ())


# Gains from the vehicle --------------------------------------------------------------------------------------------


def test_authority_follows_from_the_thrust_margins():
    """Four rotors with the margin T₀ − T_min or T_max − T₀: α = 4 margin y/J about x, 4 margin kM/kF / J about z"""
    vehicle = samara.vehicle("crazyflie_documented")
    rotor, weight = vehicle.rotors[0], vehicle.mass * vehicle["gravity"].acceleration
    low, high = (rotor.k_thrust * speed**2 for speed in (rotor.motor.speed_min, rotor.motor.speed_max))
    margin = min(weight / 4 - low, high - weight / 4)
    J = vehicle.inertia_B
    lever = abs(rotor.r_B.y)
    expected = [
        4 * margin * lever / J.xx,
        4 * margin * lever / J.yy,
        4 * margin * rotor.k_torque / rotor.k_thrust / J.zz,
    ]
    assert np.array(control_authority(vehicle)) == pytest.approx(expected, rel=1e-12)


def test_a_rotor_at_its_limit_has_a_minimum_margin_of_a_twentieth():
    """At three times the mass it cannot hover: α = 4 (0.05 m g / 4) y / J about x"""
    light = samara.vehicle("crazyflie_documented")
    overloaded = light.replace(mass=3.0 * light.mass)
    margin = 0.05 * overloaded.mass * light["gravity"].acceleration / 4
    expected = 4 * margin * abs(light.rotors[0].r_B.y) / light.inertia_B.xx
    assert control_authority(overloaded).x == pytest.approx(expected, rel=1e-12)


def test_gains_follow_from_lag_or_authority():
    """The crazyflie is limited by its motors, the iris by its thrust: 1.63 weights leave little authority."""
    quick, weak = samara.vehicle("crazyflie_documented"), samara.vehicle("iris_documented")
    assert default_gains(quick).attitude.x == pytest.approx(0.35 / 0.025, rel=1e-12)
    strength = min(control_authority(weak)[:2])
    assert default_gains(weak).attitude.x == pytest.approx(math.sqrt(strength / 0.15), rel=1e-12)
    assert default_gains(weak).attitude.x < 0.35 / (motor_time_constant(weak) + 0.01)
    assert default_gains(weak).position == pytest.approx(default_gains(weak).attitude.x / 4.0, rel=1e-12)


def test_gains_depend_on_authority_and_not_on_mass():
    """With mass, inertia, thrust and torque times ten, the gains are the same. Without thrust margin they stay finite."""
    light = samara.vehicle("crazyflie_documented")
    heavy = light.replace(
        {
            "mass": light.mass * 10.0,
            "inertia_B": light.inertia_B * 10.0,
            "rotors.k_thrust": light.rotors[0].k_thrust * 10.0,
            "rotors.k_torque": light.rotors[0].k_torque * 10.0,
        }
    )
    assert flatten(default_gains(heavy)) == pytest.approx(flatten(default_gains(light)), rel=1e-9)
    overloaded = light.replace(mass=light.mass * 3.0, inertia_B=light.inertia_B * 30.0)
    assert 0.5 < default_gains(overloaded).position < 0.5 * default_gains(light).position


# Step responses in closed form -------------------------------------------------------------------------------------


def test_a_small_step_up_is_the_closed_form():
    """No lag, no drag: 1 − (1 + ωt) e^{−ωt}; and for pid k_p (k_v s + k_i) / (s³ + k_v s² + (k_v k_p + k_i) s + k_i k_p)"""
    vehicle = airborne_vehicle("rigid_body_quadrotor").without_effect("drag")
    dt, step = 5e-4, 0.01
    reference = Reference(Vec3(0.0, 0.0, step))
    flight = simulate(vehicle, geometric(vehicle), reference, 1.5, dt=dt)
    w = default_gains(vehicle).position
    exact = 1.0 - (1.0 + w * flight.time) * np.exp(-w * flight.time)
    assert np.asarray(flight.states.p_W.z) / step == pytest.approx(exact, abs=3e-3)
    k = pid_gains(vehicle)
    flight = simulate(vehicle, pid(vehicle, period=dt), reference, 1.5, dt=dt)
    denominator = [1.0, k.velocity, k.velocity * k.position + k.velocity_integral, k.velocity_integral * k.position]
    loop = signal.TransferFunction(k.position * np.array([k.velocity, k.velocity_integral]), denominator)
    _, exact = signal.step(loop, T=np.concatenate([[0.0], flight.time]))
    assert np.asarray(flight.states.p_W.z) / step == pytest.approx(exact[1:], abs=3e-3)
    assert np.sort(np.roots(denominator).real) / w == pytest.approx([-0.927, -0.927, -0.146], abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_pid_has_the_same_poles_in_attitude_and_position(kind):
    """(1 + k_d) s³ + k_ω s² + (k_ω k_θ + k_i) s + k_i k_θ: −0.146 ω and (−0.927 ± 0.413i) ω, as for the position"""
    vehicle = airborne_vehicle(kind)
    k, loops = pid_gains(vehicle), default_gains(vehicle)
    expected = [-0.927 - 0.4126j, -0.927 + 0.4126j, -0.146]
    for w, angle, rate, integral in zip(loops.attitude, k.attitude, k.rate, k.rate_integral, strict=True):
        poles = np.roots([1.0 + k.rate_derivative, rate, rate * angle + integral, integral * angle]) / w
        assert np.sort_complex(poles) == pytest.approx(expected, abs=1e-3)
    denominator = [1.0, k.velocity, k.velocity * k.position + k.velocity_integral, k.velocity_integral * k.position]
    assert np.sort_complex(np.roots(denominator) / loops.position) == pytest.approx(expected, abs=1e-3)


def test_the_desired_angular_motion_is_the_derivative_of_the_desired_attitude():
    """ω_d and ω̇_d from jerk, snap and the yaw's rates, against differences of R_d along a knot with yaw along the path."""
    knot = lissajous(
        (0, 0, 2), amplitude=(3, 2, 0.8), frequency=(3, 2, 1), phase=(0, 0, math.pi / 2), speed=4.0, yaw="along"
    )

    def desired(time):
        reference = knot.evaluate(time)
        acceleration_W = reference.a_W + Vec3(0.0, 0.0, 9.81)
        R_WD = attitude_from_thrust_direction(acceleration_W, reference.yaw)
        return desired_angular_motion(acceleration_W, reference, R_WD), Rotation.from_matrix(
            np.array(R_WD).reshape(3, 3)
        )

    h = 1e-5
    for time in (2.0, 4.3, 6.1):
        (motion, _), (before, R_0), (after, R_1) = (desired(time + shift) for shift in (0.0, -h, h))
        assert np.array(motion.omega) == pytest.approx((R_0.inv() * R_1).as_rotvec() / (2 * h), abs=1e-8)
        assert np.array(motion.alpha) == pytest.approx(
            (np.array(after.omega) - np.array(before.omega)) / (2 * h), abs=1e-7
        )


def test_lees_law_with_all_feedforward_terms():
    """τ = J (−k_R e_R − k_Ω e_Ω − ω × RᵀR_d ω_d + RᵀR_d ω̇_d) + ω × Jω in matrices, tilted and rotating away from a knot"""
    vehicle, gains = airborne_vehicle("hakoniwa"), Gains(2.0, Vec3(9.0, 8.0, 3.0))
    reference = lissajous(
        (0, 0, 2), amplitude=(3, 2, 0.8), frequency=(3, 2, 1), phase=(0, 0, math.pi / 2), speed=4.0, yaw="along"
    ).evaluate(4.3)
    acceleration_W = reference.a_W + Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    R_WD = attitude_from_thrust_direction(acceleration_W, reference.yaw)
    motion = desired_angular_motion(acceleration_W, reference, R_WD)
    tilted = Rotation.from_matrix(np.array(R_WD).reshape(3, 3)) * Rotation.from_rotvec([0.2, -0.1, 0.0])
    x, y, z, w = tilted.as_quat()
    omega = np.array([0.9, -1.2, 0.7])
    state = hovering_state(vehicle)._replace(q_WB=Quat(w, x, y, z), omega_B=Vec3(*omega))
    R, R_d, k = tilted.as_matrix(), np.array(R_WD).reshape(3, 3), np.array(gains.attitude)
    skew, J = 0.5 * (R_d.T @ R - R.T @ R_d), np.array(vehicle.inertia_B).reshape(3, 3)
    e_R, omega_d = np.array([skew[2, 1], skew[0, 2], skew[1, 0]]), R.T @ R_d @ np.array(motion.omega)
    feedforward = R.T @ R_d @ np.array(motion.alpha) - np.cross(omega, omega_d)
    expected = J @ (feedforward - k**2 * e_R - 2.0 * k * (omega - omega_d)) + np.cross(omega, J @ omega)
    _, tau_B = geometric_wrench(acceleration_W, state, reference, vehicle, gains)
    assert np.array(tau_B) == pytest.approx(expected, rel=1e-12)


def test_mellingers_torque_is_his_law_in_matrices():
    """τ = −J (k_R ½ (R_dᵀR − RᵀR_d)^∨ + k_ω (ω − RᵀR_d ω_d)), no gyroscopic term"""
    vehicle, gains = airborne_vehicle("hakoniwa"), Gains(2.0, Vec3(9.0, 8.0, 3.0))
    state = hovering_state(vehicle)._replace(
        v_W=Vec3(0.5, 0.1, -0.2), q_WB=quat_from_euler(0.3, -0.2, 0.9), omega_B=Vec3(0.4, -0.5, 0.6)
    )
    reference = Reference(Vec3(0.1, 0.2, 0.3), a_W=Vec3(0.7, -0.4, 0.3), yaw=0.5)
    acceleration_W = tracking_acceleration(state.p_W - reference.p_W, state, reference, vehicle, gains)
    b3 = np.array(acceleration_W) / np.linalg.norm(acceleration_W)
    b2 = np.cross(b3, [math.cos(0.5), math.sin(0.5), 0.0])
    b2 /= np.linalg.norm(b2)
    R, R_d = rotation(state.q_WB).as_matrix(), np.column_stack([np.cross(b2, b3), b2, b3])
    skew = 0.5 * (R_d.T @ R - R.T @ R_d)
    e_R, k = np.array([skew[2, 1], skew[0, 2], skew[1, 0]]), np.array(gains.attitude)
    J = np.array(vehicle.inertia_B).reshape(3, 3)
    expected = -J @ (k**2 * e_R + 2.0 * k * np.array(state.omega_B))
    assert np.array(mellinger_torque(acceleration_W, state, reference, vehicle, gains)) == pytest.approx(
        expected, rel=1e-12
    )


# The regulator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["crazyflie_documented", "hakoniwa", "rigid_body_quadrotor"])
def test_the_cost_to_go_is_the_cost_of_the_flight(kind):
    """x₀ᵀPx₀ = Σ xᵀQx + wᵀRw over the flight of the nonlinear vehicle, from small errors in all states"""
    vehicle = airborne_vehicle(kind)
    design = hover_design(vehicle, PERIOD)
    assert np.abs(np.linalg.eigvals(design.a - design.b @ design.gain)).max() < 1.0
    start = hovering_state(vehicle)._replace(
        p_W=Vec3(1e-3, -2e-3, 1.5e-3),
        v_W=Vec3(2e-3, 1e-3, -1e-3),
        q_WB=quat_from_euler(1e-4, -2e-4, 3e-4),
        omega_B=Vec3(1e-3, 2e-3, -1e-3),
    )
    flight = simulate(vehicle, lqr(vehicle, design), ORIGIN, 12.0, start)
    acceleration_W = Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    R_WD = attitude_from_thrust_direction(acceleration_W, 0.0)

    def errors(state):
        return np.array(flat_error(state.p_W, state, ORIGIN, vehicle, acceleration_W, R_WD)[1], dtype=float)

    series = list(zip(*(np.asarray(leaf) for leaf in flatten(flight.states)), strict=True))
    x = np.array([errors(start), *(errors(unflatten(start, iter(map(float, row)))) for row in series)])
    w = -x @ design.gain.T
    total_cost = np.einsum("ki,ij,kj", x, design.state_weight, x) + np.einsum("ki,ij,kj", w, design.input_weight, w)
    assert total_cost == pytest.approx(x[0] @ design.cost @ x[0], rel=0.01)


def test_no_other_gain_is_cheaper():
    """K is where x₀ᵀP_K x₀ has no slope, P_K the cost of w = −Kx by Lyapunov's equation: ten random directions"""
    from scipy.linalg import solve_discrete_lyapunov

    vehicle, rng = airborne_vehicle("crazyflie_documented"), np.random.default_rng(3)
    design, (x, w) = hover_design(vehicle, PERIOD), error_scales(vehicle, 16)
    scale = 1.0 / np.sqrt(np.diag(design.cost))

    def cost(gain):
        closed = design.a - design.b @ gain
        P = solve_discrete_lyapunov(closed.T, design.state_weight + gain.T @ design.input_weight @ gain)
        return float(np.trace(scale[:, None] * P * scale))

    optimal_cost = cost(design.gain)
    assert optimal_cost == pytest.approx(16.0, rel=1e-6)  # P_K is P
    for _ in range(10):
        change = 1e-3 * rng.normal(size=design.gain.shape) * w[:, None] / x
        assert cost(design.gain + change) > optimal_cost and cost(design.gain - change) > optimal_cost


def test_in_the_frame_of_the_reference_it_is_better_than_in_hover():
    """A figure of eight at 2.4 m/s: the hover regulator reacts to errors only, 0.70 m; in the reference's frame 1.0 cm."""
    vehicle = airborne_vehicle("hakoniwa")
    eight = figure_eight(vehicle, gentle=False)
    design = hover_design(vehicle, PERIOD)
    max_errors = [max_position_error(vehicle, lqr(vehicle, design, along=along), eight) for along in (False, True)]
    assert max_errors[0] > 0.5 and max_errors[1] < 0.02
    yawed_flight = simulate(vehicle, lqr(vehicle, design, along=False), Reference(Vec3(1.0, -0.5, 0.2), yaw=2.0), 10.0)
    assert distance(yawed_flight.final.p_W, (1.0, -0.5, 0.2)) < 1e-3  # at any yaw of the reference


# Steady disturbances -----------------------------------------------------------------------------------------------


def test_in_constant_wind_pid_has_no_offset():
    """Its velocity integral is the acceleration of the wind's drag."""
    vehicle = airborne_vehicle("crazyflie_documented")
    wind = samara.Environment(wind_W=Vec3(1.0, -0.5, 0.3))
    flight = simulate(vehicle, build("pid", "crazyflie_documented"), ORIGIN, 30.0, environment=wind)
    drag_acceleration = np.array([0.1, 0.1, 0.2]) * [1.0, -0.5, 0.3] / vehicle.mass
    assert np.array(flight.final.p_W) == pytest.approx(np.zeros(3), abs=1e-5)
    assert np.array(flight.controller_state.velocity_integral_W) == pytest.approx(-drag_acceleration, rel=1e-4)


@pytest.mark.parametrize("kind", ["crazyflie_documented", "rigid_body_quadrotor"])
def test_in_constant_wind_indi_has_no_offset_and_estimates_the_disturbance(kind):
    """The measured disturbance is D u / m, by the equation of the drag; `geometric` without integral has the error of 1/ω²."""
    vehicle = airborne_vehicle(kind)
    wind_W = Vec3(0.6, -0.4, 0.2)
    windy = samara.Environment(wind_W=wind_W)
    hover_state = hovering_state(vehicle)
    flight, geometric_flight = (
        simulate(vehicle, build(name, kind), ORIGIN, 14.0, environment=windy) for name in ("indi", "geometric")
    )
    q_WB = flight.final.q_WB
    drag_wrench = samara.wrench_breakdown(hover_state._replace(q_WB=q_WB), samara.hover(vehicle)[1], vehicle, windy)[
        "drag"
    ]
    force_W = rotate(q_WB, drag_wrench.f_B) + drag_wrench.f_W
    assert np.array(flight.controller_state.disturbance_W) == pytest.approx(
        np.array(force_W) / vehicle.mass, rel=1e-3, abs=1e-6
    )
    geometric_error = float(distance(geometric_flight.final.p_W))
    assert geometric_error == pytest.approx(
        float(norm(force_W)) / vehicle.mass / default_gains(vehicle).position ** 2, rel=0.05
    )
    assert float(distance(flight.final.p_W)) < 1e-3 * geometric_error


def test_a_figure_of_eight_in_wind_is_flown_as_without():
    """In the second half, when indi has estimated the wind, its error is that of still air; geometric has the wind's."""
    kind = "crazyflie_documented"
    vehicle, windy = airborne_vehicle(kind), samara.Environment(wind_W=Vec3(0.6, 0.0, 0.0))
    eight = figure_eight(vehicle)
    errors_in_wind = {name: late_error(vehicle, build(name, kind), eight, windy) for name in ("geometric", "indi")}
    calm = late_error(vehicle, build("indi", kind), eight, samara.CALM)
    assert errors_in_wind["indi"] < 0.1 * errors_in_wind["geometric"]
    assert errors_in_wind["indi"] == pytest.approx(calm, rel=0.1)


def test_the_ground_is_not_a_disturbance():
    """The ground's force on a standing body is not compensated: indi takes off like geometric."""
    task = trajectory.take_off(ZERO, height=1.0)
    drone = Drone("it", samara.vehicle("crazyflie_documented"), task)
    heights = [
        fly(Scenario("up", (replace(drone, controller=name),), 3.0)).position[:, 2] for name in ("geometric", "indi")
    ]
    assert heights[1] == pytest.approx(heights[0], abs=2e-3) and heights[1][-1] > 0.9


def shift_rotors(vehicle, shift):
    """Shift the rotors relative to the controller's model: a steady torque m g · shift, nose up."""
    return vehicle.replace(rotors=tuple(r._replace(r_B=r.r_B + Vec3(shift, 0.0, 0.0)) for r in vehicle.rotors))


def override_model(controller, vehicle):
    """Return the controller with `vehicle` as its model, whatever vehicle it flies."""

    def control(state, reference, _, controller_state):
        return controller(state, reference, vehicle, controller_state)

    control.initial_state = controller.initial_state
    return control


def test_a_steady_torque_is_measured_by_indi_and_integrated_by_pid():
    """A centre of mass 3 mm off: geometric has the error g θ/ω², θ = m g d (1 + 2 ω_n T) / (J ω_n²); indi and pid have none.

    T is the lead: the model takes the torque that holds the centre of mass for a rotation, and leads against it.
    """
    vehicle = airborne_vehicle("hexarotor_x")
    shifted, d = shift_rotors(vehicle, 3e-3), 3e-3
    w, attitude, lead = default_gains(vehicle)
    g = vehicle["gravity"].acceleration
    tilt = vehicle.mass * g * d * (1.0 + 2.0 * attitude.y * lead) / (vehicle.inertia_B.yy * attitude.y**2)
    errors = {}
    for name, seconds in (("geometric", 12.0), ("indi", 12.0), ("pid", 40.0)):
        flight = simulate(
            shifted, override_model(build(name, "hexarotor_x"), vehicle), ORIGIN, seconds, hovering_state(vehicle)
        )
        errors[name] = float(distance(flight.final.p_W))
    assert errors["geometric"] == pytest.approx(g * tilt / w**2, rel=0.02)
    assert errors["indi"] < 1e-4
    assert errors["pid"] < 1e-4


def test_a_wrong_inertia_does_not_change_how_indi_turns():
    """With 30 % more inertia than modelled, from a tilt of 20°: the tilt differs by 2.5° with geometric, 0.6° with indi."""
    vehicle = airborne_vehicle("hexarotor_x")
    heavier = vehicle.replace(inertia_B=vehicle.inertia_B * 1.3)
    start = hovering_state(vehicle)._replace(q_WB=quat_from_euler(math.radians(20.0), 0.0, 0.0))
    worst = {}
    for name in ("geometric", "indi"):
        controller = override_model(build(name, "hexarotor_x"), vehicle)
        modelled_roll, heavier_roll = (
            np.degrees(
                rotation(simulate(flown_vehicle, controller, ORIGIN, 3.0, start).states.q_WB).as_euler("xyz")[:, 0]
            )
            for flown_vehicle in (vehicle, heavier)
        )
        worst[name] = np.abs(modelled_roll - heavier_roll).max()
    assert worst["indi"] < 0.35 * worst["geometric"]
    assert worst["geometric"] > 1.0


@pytest.mark.parametrize("kind", ["crazyflie_documented", "hexarotor_tilted", "octorotor_x"])
def test_indi_filters_the_means_between_two_calls(kind):
    """Means of two calls: ½ (τ₋ + τ) + τ_Ω̇ and (ω − ω₋)/dt; and (v − v₋)/dt + g − ½ (f₋ + f)/m, each with its filter

    Torque and force by sums over the rotors: r × a T − s a Q, a T, with T = k Ω² and Q = c Ω²; spinning up costs s J Ω̇ a.
    """
    vehicle, dt = airborne_vehicle(kind), PERIOD
    vehicle = vehicle.without_effect("drag")
    rng, g, gains = np.random.default_rng(4), vehicle["gravity"].acceleration, default_gains(vehicle)
    q = quat_from_euler(0.1, -0.2, 0.7)
    states = [
        hovering_state(vehicle)._replace(
            v_W=Vec3(*rng.normal(size=3) * 0.01),
            omega_B=Vec3(*rng.normal(size=3) * 0.1),
            q_WB=q,
            rotor_speed=tuple(value * rng.uniform(1.0, 1.1) for value in hovering_state(vehicle).rotor_speed),
        )
        for _ in range(2)
    ]

    def force_and_torque(state):
        f, tau = np.zeros(3), np.zeros(3)
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True):
            axis = np.array(rotor.axis_B)
            f += axis * rotor.k_thrust * speed**2
            tau += np.cross(rotor.r_B, axis * rotor.k_thrust * speed**2) - axis * rotor.spin * rotor.k_torque * speed**2
        return Rotation.from_quat([q.x, q.y, q.z, q.w]).apply(f), tau

    start = indi(vehicle, period=dt).initial_state._replace(airborne=1.0)
    before = filter_measurements(states[0], vehicle, start, dt, gains)._replace(
        filtered_alpha_B=ZERO, filtered_tau_B=ZERO, disturbance_W=ZERO, airborne=1.0
    )
    after = filter_measurements(states[1], vehicle, before, dt, gains)
    (f0, tau0), (f1, tau1) = map(force_and_torque, states)
    mean_tau = 0.5 * (tau0 + tau1)
    if vehicle.has("rotor_momentum"):
        for speed, speed_before, rotor in zip(
            states[1].rotor_speed, states[0].rotor_speed, vehicle.rotors, strict=True
        ):
            h, change = (
                np.array(rotor.axis_B) * rotor.spin * rotor.inertia * value for value in (speed, speed - speed_before)
            )
            mean_tau -= np.cross(states[1].omega_B, h) + change / dt
    alpha = (np.array(states[1].omega_B) - np.array(states[0].omega_B)) / dt
    disturbance = (
        (np.array(states[1].v_W) - np.array(states[0].v_W)) / dt + [0.0, 0.0, g] - 0.5 * (f0 + f1) / vehicle.mass
    )
    k, k_disturbance = dt / (0.010 + dt), dt / (1.0 / gains.attitude.x + dt)
    assert np.abs(disturbance).max() * k_disturbance < g
    assert np.array(after.filtered_alpha_B) == pytest.approx(k * alpha, rel=1e-9)
    assert np.array(after.filtered_tau_B) == pytest.approx(k * mean_tau, rel=1e-9, abs=1e-15)
    assert np.array(after.disturbance_W) == pytest.approx(k_disturbance * disturbance, rel=1e-9)
    repeated = filter_measurements(states[1], vehicle, after, dt, gains)
    expected_alpha = np.array(after.filtered_alpha_B) * (1.0 - k)
    assert np.array(repeated.filtered_alpha_B) == pytest.approx(expected_alpha, rel=1e-9)


def test_the_integral_changes_only_for_a_lasting_error():
    """b − (4/27) ω³ e dt, within ±g; held while the acceleration is cut by over g/1000, or an error shrinks at over 0.4 ω"""
    vehicle = airborne_vehicle("crazyflie_documented")
    g, gains, e_p, b = 9.81, default_gains(vehicle), Vec3(0.3, -0.4, 0.0), Vec3(0.1, 0.2, -0.3)
    approach_speed = 0.4 * gains.position * 0.5
    expected = np.array(b) - 4.0 / 27.0 * gains.position**3 * np.array(e_p) * PERIOD

    def next_integral(speed=0.0, cut=0.0, start=b, period=PERIOD):
        return np.array(update_integral(start, e_p, Vec3(0.0, 0.0, speed), cut, vehicle, gains, period))

    assert next_integral() == pytest.approx(expected, rel=1e-12)
    assert next_integral(0.99 * approach_speed, 0.99e-3 * g) == pytest.approx(expected, rel=1e-12)
    assert np.array_equal(next_integral(1.01 * approach_speed), b) and np.array_equal(
        next_integral(0.0, 1.01e-3 * g), b
    )
    assert next_integral(period=1e3) == pytest.approx([-g, g, -0.3], rel=1e-12)


def test_the_observer_of_the_predictive_controller_estimates_unmodelled_acceleration():
    """d + s ((v − v₋)/dt − ½ (a₋ + a) − d), each component within ±g"""
    vehicle = airborne_vehicle("crazyflie_documented")
    (state, command), g = samara.hover(vehicle), vehicle["gravity"].acceleration
    state = state._replace(v_W=Vec3(0.3, -0.2, 0.1), q_WB=quat_from_euler(0.2, 0.1, 0.3))
    a = np.array(derivative(state, command, vehicle).v_W)
    before = AccelerationObserver(Vec3(0.5, -0.4, 0.3), Vec3(0.31, -0.22, 0.12), Vec3(0.1, 0.2, 0.3))
    d, v0, a0 = map(np.array, before)
    residual = (np.array(state.v_W) - v0) / 0.01 - 0.5 * (a0 + a)
    after = observe_acceleration(before, state, command, vehicle, 0.2, 0.01)
    assert np.array(after.push_W) == pytest.approx(d + 0.2 * (residual - d), rel=1e-12)
    assert np.array([after.v_W, after.a_W]) == pytest.approx(np.array([state.v_W, a]), rel=1e-12)
    accelerated = state._replace(v_W=Vec3(9.0, -9.0, 0.1))
    assert observe_acceleration(before, accelerated, command, vehicle, 1.0, 0.01).push_W[:2] == pytest.approx(
        (g, -g), rel=1e-12
    )
    gain = MPC(samara.vehicle("crazyflie_documented"), period=0.02, disturbance_time_constant=0.1).observer_gain
    assert gain == pytest.approx(1.0 - math.exp(-0.2), rel=1e-12)


def test_the_regulator_limits_errors_to_those_of_half_the_tilt():
    """v = g tan(θ/2) / 2ω, ω² = g k_x/k_θ or k_z/m, whichever is larger; a lower limit of the user is retained"""
    vehicle = airborne_vehicle("crazyflie_documented")
    design, g = hover_design(vehicle, PERIOD), vehicle["gravity"].acceleration
    k = design.gain
    w = math.sqrt(max(g * k[2, 0] / k[2, 7], -g * k[1, 1] / k[1, 6], k[0, 2] / vehicle.mass))
    for tilt in (0.3, 0.6):
        limits = FlightLimits(tilt=tilt, speed=100.0)
        assert lqr(vehicle, design, limits=limits).limits.speed == pytest.approx(g * math.tan(tilt / 2.0) / (2.0 * w))
    assert lqr(vehicle, design, limits=FlightLimits(speed=0.01)).limits.speed == 0.01


def test_blown_away_for_five_seconds_pid_comes_back_without_overshoot():
    """5 m/s of wind push the crazyflie with 1.8 times its weight, more than a tilt of 60° balances: the integral is held.

    The overshoot is 3 % of the 2.5 m; with an integral that winds up to its limit it would be 14 %.
    """
    vehicle, controller = airborne_vehicle("crazyflie_documented"), build("pid", "crazyflie_documented")
    storm = samara.Environment(wind_W=Vec3(5.0, 0.0, 0.0))
    away = simulate(vehicle, controller, ORIGIN, 5.0, environment=storm)
    assert away.final.p_W.x > 2.0
    back = simulate(
        vehicle, controller, ORIGIN, 20.0, away.final, controller_state=away.controller_state, environment=samara.CALM
    )
    x = np.asarray(back.states.p_W.x)
    assert x.min() > -0.05 * away.final.p_W.x
    assert abs(x[-1]) < 0.01


# Wild starts, failed rotors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["crazyflie_documented", pytest.param("iris_documented", marks=pytest.mark.long)])
def test_geometric_rights_itself_from_175_degrees(kind):
    """Upside down except for 5°: upright within 1.5 s, and back at the reference."""
    vehicle = airborne_vehicle(kind)
    start = hovering_state(vehicle)._replace(q_WB=quat_from_euler(math.radians(175.0), 0.0, 0.3))
    flight = simulate(vehicle, build("geometric", kind), ORIGIN, 12.0, start)
    tilt = np.degrees(np.arccos(np.clip(matrix_from_quat(flight.states.q_WB).zz, -1.0, 1.0)))
    assert tilt[0] > 170.0
    assert tilt[np.searchsorted(flight.time, 1.5)] < 65.0
    assert distance(flight.final.p_W) < 0.01


def test_indi_models_the_spin_up_torque_of_rotors():
    """−J_r Ω̇ turns the octorotor more than the drag of its blades; treated as a disturbance it would disturb the yaw."""
    vehicle = airborne_vehicle("octorotor_x")
    start = hovering_state(vehicle)._replace(q_WB=quat_from_euler(0.0, 0.0, 0.5))
    yaws = {}
    for name in ("geometric", "indi"):
        flight = simulate(vehicle, build(name, "octorotor_x"), ORIGIN, 10.0, start)
        yaws[name] = rotation(flight.states.q_WB).as_euler("xyz")[:, 2]
    assert yaws["indi"] == pytest.approx(yaws["geometric"], abs=0.01)
    assert abs(yaws["indi"][-1]) < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_six_rotors_less_one_hover_on(name):
    """Informed of the failed rotor, each holds its position within 5 cm and 3°, and gives up yaw."""
    vehicle, healthy = airborne_vehicle("hexarotor_x"), (True, True, False, True, True, True)
    power = samara.Environment(motor_effectiveness=tuple(float(is_healthy) for is_healthy in healthy))
    flight = simulate(vehicle, build(name, "hexarotor_x", healthy), ORIGIN, 10.0, environment=power)
    assert distance(flight.states.p_W).max() < 0.05
    assert matrix_from_quat(flight.states.q_WB).zz.min() > math.cos(math.radians(3.0))
    assert 0.5 < abs(flight.final.omega_B.z) < 1.0


# A figure of eight -------------------------------------------------------------------------------------------------


def figure_eight(vehicle, gentle=True):
    """Two metres each way, v²/2 m ≤ 0.3 g, v ≤ 1.6 m ω, and if gentle no more drag than an error of 8 cm balances"""
    g, w = vehicle["gravity"].acceleration, default_gains(vehicle).position
    state, trim = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    braking = -derivative(state._replace(v_W=Vec3(1.0, 0.0, 0.0)), trim, vehicle).v_W.x
    speeds = [math.sqrt(0.3 * g * 2.0), 1.6 * w, *([0.08 * w * w / braking] if gentle and braking > 0.0 else [])]
    return figure8((0, 0, 0), half_length=2.0, speed=min(speeds), acceleration=1.0)


def position_errors(vehicle, controller, trajectory, **options):
    """Position error at every call  [m]"""
    rows = np.array(flatten(trajectory.evaluate(np.arange(0.0, trajectory.duration, PERIOD)))).T
    flight = simulate(vehicle, controller, rows, **options)
    return np.sqrt(sum((np.asarray(p) - r) ** 2 for p, r in zip(flight.states.p_W, rows[:, :3].T, strict=True)))


def max_position_error(vehicle, controller, trajectory):
    """Maximum position error  [m]"""
    return position_errors(vehicle, controller, trajectory).max()


def late_error(vehicle, controller, trajectory, environment):
    """Maximum position error in the second half  [m]"""
    errors = position_errors(vehicle, controller, trajectory, environment=environment)
    return errors[len(errors) // 2 :].max()


@pytest.mark.parametrize("name", NAMES)
def test_each_follows_a_figure_of_eight(name):
    """The position error of the hexarotor is below 10 cm on 2 m."""
    vehicle = airborne_vehicle("hexarotor_x")
    assert max_position_error(vehicle, build(name, "hexarotor_x"), figure_eight(vehicle)) < 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", samara.vehicle_names())
def test_every_vehicle_follows_a_figure_of_eight_with_every_controller(kind, name):
    """At a speed that suits the vehicle, the position error is below a tenth of the curve's half length."""
    vehicle = airborne_vehicle(kind)
    assert max_position_error(vehicle, build(name, kind), figure_eight(vehicle)) < 0.2
