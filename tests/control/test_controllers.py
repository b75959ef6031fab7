"""Five controllers, one interface: each against its own equations, and all against the same flights."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import signal
from scipy.spatial.transform import Rotation
from support.worlds import rotation

import samara
from samara.compiler.trace.symbolic import trace
from samara.control.default_gains import Gains, authority, gains_for, motor_time_constant
from samara.control.geometric import (
    FlightLimits,
    geometric,
    geometric_wrench,
    next_balance,
    turning_along,
    wanted_pull,
)
from samara.control.indi import indi, measured
from samara.control.lqr import flat_error, hover_design, lqr, scales
from samara.control.mellinger import mellinger, mellinger_torque
from samara.control.mpc import ILQR
from samara.control.mpc.flight import Observed, observed
from samara.control.pid import pid, pid_gains
from samara.control.registry import CONTROLLERS, controller_named
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat, norm, quat_from_euler, rotate
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import derivative
from samara.physics.types import Reference
from samara.plan import trajectory
from samara.plan.flatness import attitude_along
from samara.plan.trajectory import figure8, lissajous
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly

NAMES = tuple(name for name in CONTROLLERS if name != "ilqr")  # which is not traced: see test_ilqr.py
KINDS = (
    "crazyflie_documented",
    "hakoniwa",
    "hexarotor_tilted",
    "rigid_body_quadrotor",
)  # lag, DC motor, tilted rotors, wrench
PERIOD = 4e-3
ORIGIN = Reference(ZERO)


def in_air(name):
    vehicle = samara.vehicle(name)
    return vehicle.without_effect("contact") if vehicle.has("contact") else vehicle


@lru_cache
def built(name, vehicle_name, healthy=()):
    return controller_named(name, in_air(vehicle_name), healthy, period=PERIOD).call


@lru_cache
def compiled(vehicle, controller):
    return samara.compile(vehicle, backend="llvm", controller=controller)


def at(vehicle, p_W=(0.0, 0.0, 0.0)):
    return samara.hover(vehicle, p_W=p_W)[0]


def flown(vehicle, controller, reference, seconds=None, state=None, dt=PERIOD, every=1, **options):
    """The closed loop, compiled. A reference is one for all the time, or an array of them."""
    steps = len(reference) if isinstance(reference, np.ndarray) else round(seconds / dt)
    rows = reference if isinstance(reference, np.ndarray) else np.tile(flatten(reference), (steps, 1))
    sim = compiled(vehicle, controller)
    return sim.rollout(state or at(vehicle), reference=rows, dt=dt, record_every=every, **options)


def distance(p_W, place=(0.0, 0.0, 0.0)):
    return np.sqrt(sum((np.asarray(p) - own) ** 2 for p, own in zip(p_W, place, strict=True)))


# One interface -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_where_it_should_be_it_asks_for_the_trim(name, kind):
    """No error: the command is the one that holds the vehicle, and goes on to be."""
    vehicle, controller = in_air(kind), built(name, kind)
    state, trim = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    memory = controller.initial_memory
    for _ in range(3):
        command, memory = controller(state, ORIGIN, vehicle, memory)
        assert np.array(command) == pytest.approx(np.array(trim), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_traced_it_gives_the_same_command(name, kind):
    """One source: what CasADi makes of it is what Python floats give, command and memory, off its place and turning."""
    vehicle, controller = in_air(kind), built(name, kind)
    state = at(vehicle)._replace(
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
    memory = controller(at(vehicle), ORIGIN, vehicle, controller.initial_memory)[1]
    traced = trace(lambda s, r, m: controller(s, r, vehicle, m), state, reference, memory)
    wanted = controller(state, reference, vehicle, memory)
    assert flatten(traced(state, reference, memory)) == pytest.approx(flatten(wanted), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["pid", "lqr"])
def test_jax_gives_the_same_command(name):
    """And what JAX makes of it; the others are made of the same functions."""
    jax = pytest.importorskip("jax")
    vehicle, controller = in_air("crazyflie_documented"), built(name, "crazyflie_documented")
    state = at(vehicle)._replace(
        p_W=Vec3(0.3, -0.2, 0.1), q_WB=quat_from_euler(0.2, -0.1, 0.4), omega_B=Vec3(0.4, -0.5, 0.6)
    )
    reference, memory = Reference(Vec3(0.1, 0.0, 0.2), a_W=Vec3(0.5, -0.4, 0.3)), controller.initial_memory
    given = jax.jit(lambda s, r, m: controller(s, r, vehicle, m))(state, reference, memory)
    wanted = controller(state, reference, vehicle, memory)
    assert [float(x) for x in flatten(given)] == pytest.approx(flatten(wanted), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_flies_it_by_name(name):
    """`controller = "…"`: up, five seconds of hover, and down on its feet."""
    run = samara.fly("hover", controller=name)
    assert run.crashed == () and run.position[:, 2].max() > 1.4
    assert run.position[-1, 2] < 0.05 and np.linalg.norm(run.velocity[-1]) < 0.05


def test_a_scenario_tells_a_controller_how_often_it_is_called():
    """By name at 125 Hz it flies as the one built for 8 ms, called as a function; as the one built for 4 ms it would not."""
    vehicle, settings = samara.vehicle("crazyflie"), {"duration": 1.5, "rates.autopilot": 125}
    by_name = samara.fly("hover", controller="pid", settings=settings)
    told, untold = (
        samara.fly("hover", controller=pid(vehicle, period=period), settings=settings) for period in (8e-3, 4e-3)
    )
    heights = [run.position[:, 2] for run in (by_name, told, untold)]
    assert heights[0] == pytest.approx(heights[1], rel=1e-12, abs=1e-12)
    assert np.abs(heights[0] - heights[2]).max() > 1e-6


def test_a_batch_flies_as_each_alone():
    """Bitwise, with memory."""
    vehicle, controller = in_air("crazyflie_documented"), built("pid", "crazyflie_documented")
    starts = [at(vehicle, (x, 0.0, 0.5 * x)) for x in (0.0, 0.5, 1.0)]
    together = unflatten(starts[0], iter([np.array(row) for row in zip(*map(flatten, starts), strict=True)]))
    many = flown(vehicle, controller, ORIGIN, 1.0, together).final
    for i, start in enumerate(starts):
        alone = flown(vehicle, controller, ORIGIN, 1.0, start).final
        assert [leaf[i] for leaf in flatten(many)] == flatten(alone)


def test_what_makes_no_sense_is_told():
    vehicle = in_air("crazyflie_documented")
    with pytest.raises(ValueError, match=r"no controller 'lqg'; expected one of geometric, pid, mellinger, lqr, indi"):
        controller_named("lqg", vehicle)
    for make in (pid, mellinger, lqr, indi):
        with pytest.raises(ValueError, match=r"period = nan s: expected a positive number"):
            make(vehicle, period=math.nan)
        with pytest.raises(ValueError, match=r"healthy = \[True\]: expected True or False for each of the 4 rotors"):
            make(vehicle, healthy=[True])
    for controller in (pid(vehicle), indi(vehicle), mellinger(vehicle, integral=True)):
        with pytest.raises(ValueError, match=r"memory = \(\): a controller with .* starts with its `initial_memory`"):
            controller(at(vehicle), ORIGIN, vehicle, ())


# Gains from the vehicle --------------------------------------------------------------------------------------------


def test_authority_is_what_the_rotors_can_turn_the_body_with():
    """Four rotors, each with T₀ − T_min or T_max − T₀ to give: α = 4 room y/J about x, 4 room kM/kF / J about z"""
    vehicle = samara.vehicle("crazyflie_documented")
    rotor, weight = vehicle.rotors[0], vehicle.mass * vehicle["gravity"].acceleration
    low, high = (rotor.k_thrust * speed**2 for speed in (rotor.motor.speed_min, rotor.motor.speed_max))
    room = min(weight / 4 - low, high - weight / 4)
    J = vehicle.inertia_B
    lever = abs(rotor.r_B.y)
    expected = [4 * room * lever / J.xx, 4 * room * lever / J.yy, 4 * room * rotor.k_torque / rotor.k_thrust / J.zz]
    assert np.array(authority(vehicle)) == pytest.approx(expected, rel=1e-12)


def test_a_rotor_at_its_limit_is_taken_to_have_a_twentieth_of_its_thrust_left():
    """Three times as heavy it cannot hover: α = 4 (0.05 m g / 4) y / J about x"""
    light = samara.vehicle("crazyflie_documented")
    hopeless = light.replace(mass=3.0 * light.mass)
    room = 0.05 * hopeless.mass * light["gravity"].acceleration / 4
    expected = 4 * room * abs(light.rotors[0].r_B.y) / light.inertia_B.xx
    assert authority(hopeless).x == pytest.approx(expected, rel=1e-12)


def test_gains_are_those_of_the_lag_or_of_the_strength():
    """The crazyflie's motors are the limit, the iris' thrust: 1.63 times its weight leaves little to turn with."""
    quick, weak = samara.vehicle("crazyflie_documented"), samara.vehicle("iris_documented")
    assert gains_for(quick).attitude.x == pytest.approx(0.35 / 0.025, rel=1e-12)
    strength = min(authority(weak)[:2])
    assert gains_for(weak).attitude.x == pytest.approx(math.sqrt(strength / 0.15), rel=1e-12)
    assert gains_for(weak).attitude.x < 0.35 / (motor_time_constant(weak) + 0.01)
    assert gains_for(weak).position == pytest.approx(gains_for(weak).attitude.x / 4.0, rel=1e-12)


def test_gains_do_not_know_how_heavy_a_vehicle_is_but_how_strong():
    """Mass, inertia, thrust and torque times ten: the same motion, the same gains. With no thrust to spare they stay finite."""
    light = samara.vehicle("crazyflie_documented")
    heavy = light.replace(
        {
            "mass": light.mass * 10.0,
            "inertia_B": light.inertia_B * 10.0,
            "rotors.k_thrust": light.rotors[0].k_thrust * 10.0,
            "rotors.k_torque": light.rotors[0].k_torque * 10.0,
        }
    )
    assert flatten(gains_for(heavy)) == pytest.approx(flatten(gains_for(light)), rel=1e-9)
    hopeless = light.replace(mass=light.mass * 3.0, inertia_B=light.inertia_B * 30.0)
    assert 0.5 < gains_for(hopeless).position < 0.5 * gains_for(light).position


# Step responses in closed form -------------------------------------------------------------------------------------


def test_a_small_step_up_is_the_closed_form():
    """No lag, no drag: 1 − (1 + ωt) e^{−ωt}; and for pid k_p (k_v s + k_i) / (s³ + k_v s² + (k_v k_p + k_i) s + k_i k_p)"""
    vehicle = in_air("rigid_body_quadrotor").without_effect("drag")
    dt, step = 5e-4, 0.01
    reference = Reference(Vec3(0.0, 0.0, step))
    flight = flown(vehicle, geometric(vehicle), reference, 1.5, dt=dt)
    w = gains_for(vehicle).position
    exact = 1.0 - (1.0 + w * flight.time) * np.exp(-w * flight.time)
    assert np.asarray(flight.states.p_W.z) / step == pytest.approx(exact, abs=3e-3)
    k = pid_gains(vehicle)
    flight = flown(vehicle, pid(vehicle, period=dt), reference, 1.5, dt=dt)
    below = [1.0, k.velocity, k.velocity * k.position + k.velocity_integral, k.velocity_integral * k.position]
    loop = signal.TransferFunction(k.position * np.array([k.velocity, k.velocity_integral]), below)
    _, exact = signal.step(loop, T=np.concatenate([[0.0], flight.time]))
    assert np.asarray(flight.states.p_W.z) / step == pytest.approx(exact[1:], abs=3e-3)
    assert np.sort(np.roots(below).real) / w == pytest.approx([-0.927, -0.927, -0.146], abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_pid_turns_with_the_poles_it_moves_with(kind):
    """(1 + k_d) s³ + k_ω s² + (k_ω k_θ + k_i) s + k_i k_θ: −0.146 ω and (−0.927 ± 0.413i) ω, as of the position"""
    vehicle = in_air(kind)
    k, loops = pid_gains(vehicle), gains_for(vehicle)
    expected = [-0.927 - 0.4126j, -0.927 + 0.4126j, -0.146]
    for w, angle, rate, integral in zip(loops.attitude, k.attitude, k.rate, k.rate_integral, strict=True):
        poles = np.roots([1.0 + k.rate_derivative, rate, rate * angle + integral, integral * angle]) / w
        assert np.sort_complex(poles) == pytest.approx(expected, abs=1e-3)
    below = [1.0, k.velocity, k.velocity * k.position + k.velocity_integral, k.velocity_integral * k.position]
    assert np.sort_complex(np.roots(below) / loops.position) == pytest.approx(expected, abs=1e-3)


def test_what_the_reference_turns_with_is_what_its_attitude_turns_with():
    """ω_d and ω̇_d from jerk, snap and the yaw's rates, against differences of R_d along a knot with the nose along it."""
    knot = lissajous(
        (0, 0, 2), amplitude=(3, 2, 0.8), frequency=(3, 2, 1), phase=(0, 0, math.pi / 2), speed=4.0, yaw="along"
    )

    def wanted(time):
        reference = knot.at(time)
        pull_W = reference.a_W + Vec3(0.0, 0.0, 9.81)
        R_WD = attitude_along(pull_W, reference.yaw)
        return turning_along(pull_W, reference, R_WD), Rotation.from_matrix(np.array(R_WD).reshape(3, 3))

    h = 1e-5
    for time in (2.0, 4.3, 6.1):
        (here, _), (before, R_0), (after, R_1) = (wanted(time + shift) for shift in (0.0, -h, h))
        assert np.array(here.omega) == pytest.approx((R_0.inv() * R_1).as_rotvec() / (2 * h), abs=1e-8)
        assert np.array(here.alpha) == pytest.approx(
            (np.array(after.omega) - np.array(before.omega)) / (2 * h), abs=1e-7
        )


def test_lees_law_with_all_that_is_fed_forward():
    """τ = J (−k_R e_R − k_Ω e_Ω − ω × RᵀR_d ω_d + RᵀR_d ω̇_d) + ω × Jω in matrices, leaning and turning away from a knot"""
    vehicle, gains = in_air("hakoniwa"), Gains(2.0, Vec3(9.0, 8.0, 3.0))
    reference = lissajous(
        (0, 0, 2), amplitude=(3, 2, 0.8), frequency=(3, 2, 1), phase=(0, 0, math.pi / 2), speed=4.0, yaw="along"
    ).at(4.3)
    pull_W = reference.a_W + Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    R_WD = attitude_along(pull_W, reference.yaw)
    turning = turning_along(pull_W, reference, R_WD)
    leaned = Rotation.from_matrix(np.array(R_WD).reshape(3, 3)) * Rotation.from_rotvec([0.2, -0.1, 0.0])
    x, y, z, w = leaned.as_quat()
    omega = np.array([0.9, -1.2, 0.7])
    state = at(vehicle)._replace(q_WB=Quat(w, x, y, z), omega_B=Vec3(*omega))
    R, R_d, k = leaned.as_matrix(), np.array(R_WD).reshape(3, 3), np.array(gains.attitude)
    skew, J = 0.5 * (R_d.T @ R - R.T @ R_d), np.array(vehicle.inertia_B).reshape(3, 3)
    e_R, omega_d = np.array([skew[2, 1], skew[0, 2], skew[1, 0]]), R.T @ R_d @ np.array(turning.omega)
    fed = R.T @ R_d @ np.array(turning.alpha) - np.cross(omega, omega_d)
    expected = J @ (fed - k**2 * e_R - 2.0 * k * (omega - omega_d)) + np.cross(omega, J @ omega)
    _, tau_B = geometric_wrench(pull_W, state, reference, vehicle, gains)
    assert np.array(tau_B) == pytest.approx(expected, rel=1e-12)


def test_mellingers_torque_is_his_law_in_matrices():
    """τ = −J (k_R ½ (R_dᵀR − RᵀR_d)^∨ + k_ω (ω − RᵀR_d ω_d)), no gyroscopic term"""
    vehicle, gains = in_air("hakoniwa"), Gains(2.0, Vec3(9.0, 8.0, 3.0))
    state = at(vehicle)._replace(
        v_W=Vec3(0.5, 0.1, -0.2), q_WB=quat_from_euler(0.3, -0.2, 0.9), omega_B=Vec3(0.4, -0.5, 0.6)
    )
    reference = Reference(Vec3(0.1, 0.2, 0.3), a_W=Vec3(0.7, -0.4, 0.3), yaw=0.5)
    pull_W = wanted_pull(state.p_W - reference.p_W, state, reference, vehicle, gains)
    b3 = np.array(pull_W) / np.linalg.norm(pull_W)
    b2 = np.cross(b3, [math.cos(0.5), math.sin(0.5), 0.0])
    b2 /= np.linalg.norm(b2)
    R, R_d = rotation(state.q_WB).as_matrix(), np.column_stack([np.cross(b2, b3), b2, b3])
    skew = 0.5 * (R_d.T @ R - R.T @ R_d)
    e_R, k = np.array([skew[2, 1], skew[0, 2], skew[1, 0]]), np.array(gains.attitude)
    J = np.array(vehicle.inertia_B).reshape(3, 3)
    expected = -J @ (k**2 * e_R + 2.0 * k * np.array(state.omega_B))
    assert np.array(mellinger_torque(pull_W, state, reference, vehicle, gains)) == pytest.approx(expected, rel=1e-12)


# The regulator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["crazyflie_documented", "hakoniwa", "rigid_body_quadrotor"])
def test_the_cost_to_go_is_the_cost_that_comes(kind):
    """x₀ᵀPx₀ = Σ xᵀQx + wᵀRw over the flight of the whole nonlinear vehicle, from small errors in everything"""
    vehicle = in_air(kind)
    design = hover_design(vehicle, PERIOD)
    assert np.abs(np.linalg.eigvals(design.a - design.b @ design.gain)).max() < 1.0
    start = at(vehicle)._replace(
        p_W=Vec3(1e-3, -2e-3, 1.5e-3),
        v_W=Vec3(2e-3, 1e-3, -1e-3),
        q_WB=quat_from_euler(1e-4, -2e-4, 3e-4),
        omega_B=Vec3(1e-3, 2e-3, -1e-3),
    )
    flight = flown(vehicle, lqr(vehicle, design), ORIGIN, 12.0, start)
    pull_W = Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    R_WD = attitude_along(pull_W, 0.0)

    def errors(state):
        return np.array(flat_error(state.p_W, state, ORIGIN, vehicle, pull_W, R_WD)[1], dtype=float)

    series = list(zip(*(np.asarray(leaf) for leaf in flatten(flight.states)), strict=True))
    x = np.array([errors(start), *(errors(unflatten(start, iter(map(float, row)))) for row in series)])
    w = -x @ design.gain.T
    spent = np.einsum("ki,ij,kj", x, design.state_weight, x) + np.einsum("ki,ij,kj", w, design.input_weight, w)
    assert spent == pytest.approx(x[0] @ design.cost @ x[0], rel=0.01)


def test_no_other_gain_is_cheaper():
    """K is where x₀ᵀP_K x₀ has no slope, P_K the cost of w = −Kx by Lyapunov's equation: ten random directions"""
    from scipy.linalg import solve_discrete_lyapunov

    vehicle, rng = in_air("crazyflie_documented"), np.random.default_rng(3)
    design, (x, w) = hover_design(vehicle, PERIOD), scales(vehicle, 16)
    scale = 1.0 / np.sqrt(np.diag(design.cost))

    def cost(gain):
        closed = design.a - design.b @ gain
        P = solve_discrete_lyapunov(closed.T, design.state_weight + gain.T @ design.input_weight @ gain)
        return float(np.trace(scale[:, None] * P * scale))

    least = cost(design.gain)
    assert least == pytest.approx(16.0, rel=1e-6)  # P_K is P
    for _ in range(10):
        change = 1e-3 * rng.normal(size=design.gain.shape) * w[:, None] / x
        assert cost(design.gain + change) > least and cost(design.gain - change) > least


def test_in_the_frame_of_the_reference_it_is_better_than_in_hover():
    """A figure of eight at 2.4 m/s: hover's regulator learns of every turn by its error, 0.70 m; the other is 1.0 cm off."""
    vehicle = in_air("hakoniwa")
    eight = eight_for(vehicle, gentle=False)
    design = hover_design(vehicle, PERIOD)
    off = [error_along(vehicle, lqr(vehicle, design, along=along), eight) for along in (False, True)]
    assert off[0] > 0.5 and off[1] < 0.02
    turned = flown(vehicle, lqr(vehicle, design, along=False), Reference(Vec3(1.0, -0.5, 0.2), yaw=2.0), 10.0)
    assert distance(turned.final.p_W, (1.0, -0.5, 0.2)) < 1e-3  # about the reference's yaw, wherever that is


# Steady disturbances -----------------------------------------------------------------------------------------------


def test_in_constant_wind_pid_has_no_offset():
    """And its memory is the acceleration that the wind's drag would give."""
    vehicle = in_air("crazyflie_documented")
    wind = samara.Environment(wind_W=Vec3(1.0, -0.5, 0.3))
    flight = flown(vehicle, built("pid", "crazyflie_documented"), ORIGIN, 30.0, environment=wind)
    push = np.array([0.1, 0.1, 0.2]) * [1.0, -0.5, 0.3] / vehicle.mass
    assert np.array(flight.final.p_W) == pytest.approx(np.zeros(3), abs=1e-5)
    assert np.array(flight.memory.balance_W) == pytest.approx(-push, rel=1e-4)


@pytest.mark.parametrize("kind", ["crazyflie_documented", "rigid_body_quadrotor"])
def test_in_constant_wind_indi_has_no_offset_and_knows_the_push(kind):
    """What is measured is D u / m, as the drag's own equation has it; without integral `geometric` hangs 1/ω² of that away."""
    vehicle = in_air(kind)
    wind_W = Vec3(0.6, -0.4, 0.2)
    around = samara.Environment(wind_W=wind_W)
    still = at(vehicle)
    flight, other = (
        flown(vehicle, built(name, kind), ORIGIN, 14.0, environment=around) for name in ("indi", "geometric")
    )
    q_WB = flight.final.q_WB
    dragged = samara.wrench_breakdown(still._replace(q_WB=q_WB), samara.hover(vehicle)[1], vehicle, around)["drag"]
    force_W = rotate(q_WB, dragged.f_B) + dragged.f_W
    assert np.array(flight.memory.push_W) == pytest.approx(np.array(force_W) / vehicle.mass, rel=1e-3, abs=1e-6)
    off = float(distance(other.final.p_W))
    assert off == pytest.approx(float(norm(force_W)) / vehicle.mass / gains_for(vehicle).position ** 2, rel=0.05)
    assert float(distance(flight.final.p_W)) < 1e-3 * off


def test_a_figure_of_eight_in_wind_is_flown_as_without():
    """After the first half, when the wind is known: the error of indi is that of still air, geometric's is the wind's."""
    kind = "crazyflie_documented"
    vehicle, windy = in_air(kind), samara.Environment(wind_W=Vec3(0.6, 0.0, 0.0))
    eight = eight_for(vehicle)
    blown = {name: late_error(vehicle, built(name, kind), eight, windy) for name in ("geometric", "indi")}
    calm = late_error(vehicle, built("indi", kind), eight, samara.CALM)
    assert blown["indi"] < 0.1 * blown["geometric"]
    assert blown["indi"] == pytest.approx(calm, rel=0.1)


def test_the_ground_is_no_push():
    """On its feet a body is carried, which is nothing to fly against: indi lifts off as geometric does."""
    task = trajectory.take_off(ZERO, height=1.0)
    drone = Drone("it", samara.vehicle("crazyflie_documented"), task)
    heights = [
        fly(Scenario("up", (replace(drone, controller=name),), 3.0)).position[:, 2] for name in ("geometric", "indi")
    ]
    assert heights[1] == pytest.approx(heights[0], abs=2e-3) and heights[1][-1] > 0.9


def with_another_centre(vehicle, shift):
    """Its rotors so far forward of where the controller believes them: a steady torque m g · shift, nose up."""
    return vehicle.replace(rotors=tuple(r._replace(r_B=r.r_B + Vec3(shift, 0.0, 0.0)) for r in vehicle.rotors))


def believing(controller, vehicle):
    """The controller, told of another vehicle than it flies."""

    def control(state, reference, _, memory):
        return controller(state, reference, vehicle, memory)

    control.initial_memory = controller.initial_memory
    return control


def test_a_steady_torque_is_measured_by_indi_and_integrated_by_pid():
    """A centre of mass 3 mm off: geometric hangs g θ/ω² away, θ = m g d (1 + 2 ω_n T) / (J ω_n²); indi and pid do not.

    T is the lead: the model takes the torque that holds the centre of mass for a turn, and leads against that.
    """
    vehicle = in_air("hexarotor_x")
    wrong, d = with_another_centre(vehicle, 3e-3), 3e-3
    w, attitude, lead = gains_for(vehicle)
    g = vehicle["gravity"].acceleration
    tilt = vehicle.mass * g * d * (1.0 + 2.0 * attitude.y * lead) / (vehicle.inertia_B.yy * attitude.y**2)
    off = {}
    for name, seconds in (("geometric", 12.0), ("indi", 12.0), ("pid", 40.0)):
        flight = flown(wrong, believing(built(name, "hexarotor_x"), vehicle), ORIGIN, seconds, at(vehicle))
        off[name] = float(distance(flight.final.p_W))
    assert off["geometric"] == pytest.approx(g * tilt / w**2, rel=0.02)
    assert off["indi"] < 1e-4
    assert off["pid"] < 1e-4


def test_a_wrong_inertia_does_not_change_how_indi_turns():
    """A body 30 % more inert than believed, leaning 20°: how far it leans differs by 2.5° under geometric, 0.6° under indi."""
    vehicle = in_air("hexarotor_x")
    heavier = vehicle.replace(inertia_B=vehicle.inertia_B * 1.3)
    start = at(vehicle)._replace(q_WB=quat_from_euler(math.radians(20.0), 0.0, 0.0))
    worst = {}
    for name in ("geometric", "indi"):
        controller = believing(built(name, "hexarotor_x"), vehicle)
        as_known, as_is = (
            np.degrees(rotation(flown(own, controller, ORIGIN, 3.0, start).states.q_WB).as_euler("xyz")[:, 0])
            for own in (vehicle, heavier)
        )
        worst[name] = np.abs(as_known - as_is).max()
    assert worst["indi"] < 0.35 * worst["geometric"]
    assert worst["geometric"] > 1.0


@pytest.mark.parametrize("kind", ["crazyflie_documented", "hexarotor_tilted", "octorotor_x"])
def test_what_indi_measures_is_what_happened_between_two_calls(kind):
    """Between, a mean of both ends: ½ (τ₋ + τ) + τ_Ω̇ and (ω − ω₋)/dt; and (v − v₋)/dt + g − ½ (f₋ + f)/m, each with its lag

    Torque and force by the rotors' own sums: r × a T − s a Q, a T, with T = k Ω² and Q = c Ω²; spinning up costs s J Ω̇ a.
    """
    vehicle, dt = in_air(kind), PERIOD
    vehicle = vehicle.without_effect("drag")
    rng, g, gains = np.random.default_rng(4), vehicle["gravity"].acceleration, gains_for(vehicle)
    q = quat_from_euler(0.1, -0.2, 0.7)
    states = [
        at(vehicle)._replace(
            v_W=Vec3(*rng.normal(size=3) * 0.01),
            omega_B=Vec3(*rng.normal(size=3) * 0.1),
            q_WB=q,
            rotor_speed=tuple(own * rng.uniform(1.0, 1.1) for own in at(vehicle).rotor_speed),
        )
        for _ in range(2)
    ]

    def given(state):
        f, tau = np.zeros(3), np.zeros(3)
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True):
            axis = np.array(rotor.axis_B)
            f += axis * rotor.k_thrust * speed**2
            tau += np.cross(rotor.r_B, axis * rotor.k_thrust * speed**2) - axis * rotor.spin * rotor.k_torque * speed**2
        return Rotation.from_quat([q.x, q.y, q.z, q.w]).apply(f), tau

    start = indi(vehicle, period=dt).initial_memory._replace(aloft=1.0)
    before = measured(states[0], vehicle, start, dt, gains)._replace(
        filtered_alpha_B=ZERO, filtered_tau_B=ZERO, push_W=ZERO, aloft=1.0
    )
    after = measured(states[1], vehicle, before, dt, gains)
    (f0, tau0), (f1, tau1) = map(given, states)
    turned = 0.5 * (tau0 + tau1)
    if vehicle.has("rotor_momentum"):
        for speed, then, rotor in zip(states[1].rotor_speed, states[0].rotor_speed, vehicle.rotors, strict=True):
            h, change = (np.array(rotor.axis_B) * rotor.spin * rotor.inertia * own for own in (speed, speed - then))
            turned -= np.cross(states[1].omega_B, h) + change / dt
    alpha = (np.array(states[1].omega_B) - np.array(states[0].omega_B)) / dt
    push = (np.array(states[1].v_W) - np.array(states[0].v_W)) / dt + [0.0, 0.0, g] - 0.5 * (f0 + f1) / vehicle.mass
    k, k_push = dt / (0.010 + dt), dt / (1.0 / gains.attitude.x + dt)
    assert np.abs(push).max() * k_push < g
    assert np.array(after.filtered_alpha_B) == pytest.approx(k * alpha, rel=1e-9)
    assert np.array(after.filtered_tau_B) == pytest.approx(k * turned, rel=1e-9, abs=1e-15)
    assert np.array(after.push_W) == pytest.approx(k_push * push, rel=1e-9)
    again = measured(states[1], vehicle, after, dt, gains)
    still = np.array(after.filtered_alpha_B) * (1.0 - k)
    assert np.array(again.filtered_alpha_B) == pytest.approx(still, rel=1e-9)


def test_the_balance_learns_only_where_an_offset_lasts():
    """b − (4/27) ω³ e dt, within ±g; held while the pull is cut by more than g/1000, or an offset closes faster than 0.4 ω"""
    vehicle = in_air("crazyflie_documented")
    g, gains, e_p, b = 9.81, gains_for(vehicle), Vec3(0.3, -0.4, 0.0), Vec3(0.1, 0.2, -0.3)
    closing = 0.4 * gains.position * 0.5
    learnt = np.array(b) - 4.0 / 27.0 * gains.position**3 * np.array(e_p) * PERIOD

    def after(speed=0.0, cut=0.0, start=b, period=PERIOD):
        return np.array(next_balance(start, e_p, Vec3(0.0, 0.0, speed), cut, vehicle, gains, period))

    assert after() == pytest.approx(learnt, rel=1e-12)
    assert after(0.99 * closing, 0.99e-3 * g) == pytest.approx(learnt, rel=1e-12)
    assert np.array_equal(after(1.01 * closing), b) and np.array_equal(after(0.0, 1.01e-3 * g), b)
    assert after(period=1e3) == pytest.approx([-g, g, -0.3], rel=1e-12)


def test_what_the_predictive_controller_has_left_over_is_what_no_force_explains():
    """d + s ((v − v₋)/dt − ½ (a₋ + a) − d), each component within ±g"""
    vehicle = in_air("crazyflie_documented")
    (state, command), g = samara.hover(vehicle), vehicle["gravity"].acceleration
    state = state._replace(v_W=Vec3(0.3, -0.2, 0.1), q_WB=quat_from_euler(0.2, 0.1, 0.3))
    a = np.array(derivative(state, command, vehicle).v_W)
    before = Observed(Vec3(0.5, -0.4, 0.3), Vec3(0.31, -0.22, 0.12), Vec3(0.1, 0.2, 0.3))
    d, v0, a0 = map(np.array, before)
    left_over = (np.array(state.v_W) - v0) / 0.01 - 0.5 * (a0 + a)
    after = observed(before, state, command, vehicle, 0.2, 0.01)
    assert np.array(after.push_W) == pytest.approx(d + 0.2 * (left_over - d), rel=1e-12)
    assert np.array([after.v_W, after.a_W]) == pytest.approx(np.array([state.v_W, a]), rel=1e-12)
    blown = state._replace(v_W=Vec3(9.0, -9.0, 0.1))
    assert observed(before, blown, command, vehicle, 1.0, 0.01).push_W[:2] == pytest.approx((g, -g), rel=1e-12)
    gain = ILQR(samara.vehicle("crazyflie_documented"), period=0.02, disturbance_time_constant=0.1).observer_gain
    assert gain == pytest.approx(1.0 - math.exp(-0.2), rel=1e-12)


def test_the_regulator_cuts_an_error_where_it_asks_for_half_the_tilt():
    """v = g tan(θ/2) / 2ω, ω² = g k_x/k_θ or k_z/m, whichever is more; a lower limit of one's own stays"""
    vehicle = in_air("crazyflie_documented")
    design, g = hover_design(vehicle, PERIOD), vehicle["gravity"].acceleration
    k = design.gain
    w = math.sqrt(max(g * k[2, 0] / k[2, 7], -g * k[1, 1] / k[1, 6], k[0, 2] / vehicle.mass))
    for tilt in (0.3, 0.6):
        limits = FlightLimits(tilt=tilt, speed=100.0)
        assert lqr(vehicle, design, limits=limits).limits.speed == pytest.approx(g * math.tan(tilt / 2.0) / (2.0 * w))
    assert lqr(vehicle, design, limits=FlightLimits(speed=0.01)).limits.speed == 0.01


def test_blown_away_for_five_seconds_pid_comes_back_without_overshoot():
    """5 m/s of wind push the crazyflie with 1.8 times its weight, which no tilt of 60° holds: the integral waits all the time.

    3 % of the 2.5 m; with an integral that goes on to its limit it is 14 %.
    """
    vehicle, controller = in_air("crazyflie_documented"), built("pid", "crazyflie_documented")
    storm = samara.Environment(wind_W=Vec3(5.0, 0.0, 0.0))
    away = flown(vehicle, controller, ORIGIN, 5.0, environment=storm)
    assert away.final.p_W.x > 2.0
    back = flown(vehicle, controller, ORIGIN, 20.0, away.final, memory=away.memory, environment=samara.CALM)
    x = np.asarray(back.states.p_W.x)
    assert x.min() > -0.05 * away.final.p_W.x
    assert abs(x[-1]) < 0.01


# Wild starts, failed rotors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["crazyflie_documented", pytest.param("iris_documented", marks=pytest.mark.long)])
def test_geometric_rights_itself_from_175_degrees(kind):
    """On its back but for 5°: upright within a second and a half, and home."""
    vehicle = in_air(kind)
    start = at(vehicle)._replace(q_WB=quat_from_euler(math.radians(175.0), 0.0, 0.3))
    flight = flown(vehicle, built("geometric", kind), ORIGIN, 12.0, start)
    tilt = np.degrees(np.arccos(np.clip(matrix_from_quat(flight.states.q_WB).zz, -1.0, 1.0)))
    assert tilt[0] > 170.0
    assert tilt[np.searchsorted(flight.time, 1.5)] < 65.0
    assert distance(flight.final.p_W) < 0.01


def test_indi_knows_what_spinning_up_a_rotor_does():
    """−J_r Ω̇ turns the octorotor more than the drag of its blades does; taken for a disturbance it would shake the yaw."""
    vehicle = in_air("octorotor_x")
    start = at(vehicle)._replace(q_WB=quat_from_euler(0.0, 0.0, 0.5))
    yaws = {}
    for name in ("geometric", "indi"):
        flight = flown(vehicle, built(name, "octorotor_x"), ORIGIN, 10.0, start)
        yaws[name] = rotation(flight.states.q_WB).as_euler("xyz")[:, 2]
    assert yaws["indi"] == pytest.approx(yaws["geometric"], abs=0.01)
    assert abs(yaws["indi"][-1]) < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_six_rotors_less_one_hover_on(name):
    """Told which one is dead, each keeps its place within half a metre and 40°, and lets the yaw go."""
    vehicle, healthy = in_air("hexarotor_x"), (True, True, False, True, True, True)
    power = samara.Environment(motor_power=tuple(float(works) for works in healthy))
    flight = flown(vehicle, built(name, "hexarotor_x", healthy), ORIGIN, 10.0, environment=power)
    assert distance(flight.states.p_W).max() < 0.05
    assert matrix_from_quat(flight.states.q_WB).zz.min() > math.cos(math.radians(3.0))
    assert 0.5 < abs(flight.final.omega_B.z) < 1.0


# A figure of eight -------------------------------------------------------------------------------------------------


def eight_for(vehicle, gentle=True):
    """Two metres each way, v²/2 m ≤ 0.3 g, v ≤ 1.6 m ω, and where it is gentle no more drag than 8 cm of error hold"""
    g, w = vehicle["gravity"].acceleration, gains_for(vehicle).position
    state, trim = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    braking = -derivative(state._replace(v_W=Vec3(1.0, 0.0, 0.0)), trim, vehicle).v_W.x
    speeds = [math.sqrt(0.3 * g * 2.0), 1.6 * w, *([0.08 * w * w / braking] if gentle and braking > 0.0 else [])]
    return figure8((0, 0, 0), reach=2.0, speed=min(speeds), acceleration=1.0)


def errors_along(vehicle, controller, trajectory, **options):
    """The distance from where it should be, at every call  [m]"""
    rows = np.array(flatten(trajectory.at(np.arange(0.0, trajectory.duration, PERIOD)))).T
    flight = flown(vehicle, controller, rows, **options)
    return np.sqrt(sum((np.asarray(p) - r) ** 2 for p, r in zip(flight.states.p_W, rows[:, :3].T, strict=True)))


def error_along(vehicle, controller, trajectory):
    """The largest of them  [m]"""
    return errors_along(vehicle, controller, trajectory).max()


def late_error(vehicle, controller, trajectory, environment):
    """The largest of the second half  [m]"""
    errors = errors_along(vehicle, controller, trajectory, environment=environment)
    return errors[len(errors) // 2 :].max()


@pytest.mark.parametrize("name", NAMES)
def test_each_follows_a_figure_of_eight(name):
    """The hexarotor, 10 cm of error in 2 m at the most."""
    vehicle = in_air("hexarotor_x")
    assert error_along(vehicle, built(name, "hexarotor_x"), eight_for(vehicle)) < 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", samara.vehicle_names())
def test_every_vehicle_follows_a_figure_of_eight_with_every_controller(kind, name):
    """Each as fast as suits it, never a tenth of its reach off."""
    vehicle = in_air(kind)
    assert error_along(vehicle, built(name, kind), eight_for(vehicle)) < 0.2
