"""Flexible arms: beam theory, conservation laws of a system of masses, and an independent simulation without modes."""

import math
import re

import casadi
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from support.traced_flights import fly, record_state, rotation

import samara
from samara.core.algebra import ZERO, Mat3, Vec3
from samara.core.tree import flatten, unflatten
from samara.physics.effect import Effect, Wrench
from samara.physics.multirotor import derivative, state_at_rest, wrench_breakdown
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.structure.arms import (
    ARMS,
    Arms,
    ArmState,
    bending_frequency,
    coupling_mass,
    coupling_moment,
    displaced_rotor,
    modal_mass,
    rotor_arm,
    tip_rotation,
)
from samara.physics.types import CALM, State
from samara.vehicles.build import ContactShape, switch_on
from samara.vehicles.defaults import free_modes, largest_arm_step
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.writer import vehicle_toml

TIPS = Arms(
    tip_mass=0.06,
    arm_mass=0.03,
    tip_inertia=2e-5,
    axial_stiffness=8.0,
    plane_stiffness=11.0,
    twist_stiffness=4.0,
    damping_ratio=0.0,
)
LIGHT = TIPS._replace(arm_mass=0.0)
IRIS = samara.vehicle("iris_documented")


def tilted_rotor(azimuth, tilt, spin=1.0, height=0.03):
    """A rotor on an arm at an azimuth, with its axis tilted about the arm and slightly outward."""
    outward, side = Vec3(math.cos(azimuth), math.sin(azimuth), 0.0), Vec3(-math.sin(azimuth), math.cos(azimuth), 0.0)
    axis = side * math.sin(tilt) + outward * 0.1 + Vec3(0.0, 0.0, math.cos(tilt))
    axis = axis / math.hypot(*axis)
    return Rotor(
        outward * 0.25 + Vec3(0.0, 0.0, height), axis, spin, 1e-5, 2e-7, 0.0, 0.1, Lag(0.0, 1500.0, 0.05, 0.05)
    )


def flexible_vehicle(arms=TIPS, count=3, gravity=False, **options):
    """A body with arms in an irregular layout, in empty space by default."""
    inertia = Mat3(0.030, 0.001, -0.002, 0.001, 0.033, 0.0015, -0.002, 0.0015, 0.055)
    rotors = tuple(tilted_rotor(0.4 + 2.0 * i, 0.2 * i, (-1.0) ** i, 0.01 * i) for i in range(count))
    vehicle = samara.build_vehicle(
        "craft", **{"mass": 1.5, "inertia": inertia, "rotors": rotors, "actuation": "speed", **options}
    )
    vehicle = vehicle if gravity else vehicle.without_effect("gravity")
    return vehicle.with_effect(ARMS, arms)


def bent_state(vehicle, seed, size=0.02, speed=0.0):
    """An arbitrary motion: a tumbling body, arms bent by centimetres and moving."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=4)
    arms = tuple(
        ArmState(*rng.normal(size=2) * size, rng.normal() * 0.2, *rng.normal(size=2), rng.normal() * 10.0)
        for _ in vehicle.rotors
    )
    effects = tuple(arms if effect.name == "arms" else effect.initial(vehicle) for effect in vehicle.structure.effects)
    return State(
        Vec3(*rng.normal(size=3)),
        Vec3(*rng.normal(size=3) * 3.0),
        samara.core.algebra.Quat(*q / np.linalg.norm(q)),
        Vec3(*rng.normal(size=3) * 4.0),
        tuple(speed for _ in vehicle.rotors),
        effects,
    )


# The same vehicle as point masses in the world ----------------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
XI = np.append(0.5 * (NODES + 1.0), 1.0)  # along the arm, and its tip
SHAPE = (3.0 * XI**2 - XI**3) / 2.0


def rotor_axes(rotor):
    r, a = np.array(rotor.r_B), np.array(rotor.axis_B)
    out = r - a * (r @ a)
    length = np.linalg.norm(out)
    e = out / length
    return r, a, e, np.cross(a, e), length


def turn(q):
    """R of a quaternion, for complex numbers too"""
    w, x, y, z = q
    return np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )


def masses(vehicle, state):
    """Every mass of the arms: m, its straight position, its position and its velocity, in the world"""
    arms = vehicle["arms"]
    R, p, v = turn(state.q_WB), np.array(state.p_W), np.array(state.v_W)
    for rotor, arm_state in zip(vehicle.rotors, state.effects[vehicle.index("arms")], strict=True):
        r, a, e, b, length = rotor_axes(rotor)
        for m, xi, phi in zip(np.append(0.5 * WEIGHTS * arms.arm_mass, arms.tip_mass), XI, SHAPE, strict=True):
            x0 = r + e * (xi - 1.0) * length
            x = x0 + phi * (a * arm_state.axial + b * arm_state.plane)
            rate = phi * (a * arm_state.axial_rate + b * arm_state.plane_rate) + np.cross(np.array(state.omega_B), x)
            yield m, x0, p + R @ x, v + R @ rate


def mechanics(vehicle, state):
    """Linear momentum, angular momentum about the world's origin, and energy: of the body without arms, and of every mass"""
    arms, R, omega = vehicle["arms"], turn(state.q_WB), np.array(state.omega_B)
    P, L, energy = 0.0, 0.0, 0.0
    rest_mass, rest_moment = vehicle.mass, np.zeros(3)
    rest_inertia = np.array(vehicle.inertia_B).reshape(3, 3)
    for m, x0, place, speed in masses(vehicle, state):
        P, L, energy = P + m * speed, L + m * np.cross(place, speed), energy + 0.5 * m * speed @ speed
        rest_mass, rest_moment = rest_mass - m, rest_moment - m * x0
        rest_inertia = rest_inertia - m * (x0 @ x0 * np.eye(3) - np.outer(x0, x0))
    for rotor, arm_state in zip(vehicle.rotors, state.effects[vehicle.index("arms")], strict=True):
        _, _, e, _, length = rotor_axes(rotor)
        spin = arms.tip_inertia * (arm_state.twist_rate + e @ omega)
        rest_inertia = rest_inertia - arms.tip_inertia * np.outer(e, e)
        L, energy = L + R @ e * spin, energy + 0.5 * spin * spin / arms.tip_inertia
        bending = arms.axial_stiffness * arm_state.axial**2 + arms.plane_stiffness * arm_state.plane**2
        energy = energy + 1.5 * bending / length**3 + 0.5 * arms.twist_stiffness / length * arm_state.twist**2
    centre = rest_moment / rest_mass
    rest_inertia = rest_inertia - rest_mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    place, speed = np.array(state.p_W) + R @ centre, np.array(state.v_W) + R @ np.cross(omega, centre)
    P, L = P + rest_mass * speed, L + rest_mass * np.cross(place, speed) + R @ rest_inertia @ omega
    energy = energy + 0.5 * rest_mass * speed @ speed + 0.5 * omega @ rest_inertia @ omega
    return np.append(np.append(P, L), energy)


def mechanics_rates(vehicle, state, command=None, environment=CALM):
    """d/dt of momentum, angular momentum and energy along the equation of motion, by a complex step: no rounding"""
    command = command or tuple(0.0 for _ in vehicle.rotors)
    rate = derivative(state, command, vehicle, environment)
    leaves = [x + 1e-30j * dx for x, dx in zip(flatten(state), flatten(rate), strict=True)]
    return mechanics(vehicle, unflatten(state, iter(leaves))).imag / 1e-30


# Beam theory ---------------------------------------------------------------------------------------------------------


def exact_root(ratio):
    """βL of 1 + cosh cos + (m_t/m_b) βL (cos sinh − sin cosh) = 0, the cantilever with a mass at its tip"""

    def characteristic(x):
        return 1.0 + math.cosh(x) * math.cos(x) + ratio * x * (math.cos(x) * math.sinh(x) - math.sin(x) * math.cosh(x))

    return brentq(characteristic, 1e-3, 1.9)


@pytest.mark.parametrize(
    ("ratio", "worst"), [(0.0, 0.015), (0.5, 1.6e-3), (1.0, 6e-4), (3.0, 1e-4), (10.0, 1e-5), (50.0, 1e-6)]
)
def test_the_first_frequency_is_the_exact_beams(ratio, worst):
    """ω = (βL)² √(EI/(m_b L³)); Rayleigh's shape is never below it, and 1.5 % above for a beam without a tip"""
    beam = TIPS._replace(arm_mass=0.04, tip_mass=0.04 * ratio)
    exact = exact_root(ratio) ** 2 * math.sqrt(8.0 / (0.04 * 0.3**3))
    actual = bending_frequency(8.0, 0.3, beam)
    assert 0.0 < actual / exact - 1.0 < worst
    assert actual == pytest.approx(math.sqrt(3 * 8.0 / (0.3**3 * 0.04 * (ratio + 33 / 140))), rel=1e-14)


def test_the_beams_masses_are_the_integrals_of_its_shape():
    """∫φ² dm, ∫φ dm, ∫φ x dm by Gauss"""
    rotor = flexible_vehicle().rotors[1]
    r, _, e, _, length = rotor_axes(rotor)
    weights = np.append(0.5 * WEIGHTS * TIPS.arm_mass, TIPS.tip_mass)
    assert modal_mass(TIPS) == pytest.approx(weights @ SHAPE**2, rel=1e-14)
    assert coupling_mass(TIPS) == pytest.approx(weights @ SHAPE, rel=1e-14)
    moment = sum(m * phi * (r + e * (xi - 1) * length) for m, phi, xi in zip(weights, SHAPE, XI, strict=True))
    assert np.array(coupling_moment(rotor_arm(rotor, TIPS), TIPS)) == pytest.approx(moment, rel=1e-13, abs=1e-17)


def test_a_bent_beam_leans_by_the_slope_of_its_shape():
    """φ'(1) = 3/2 by differences; up at the tip tilts the thrust inward, a twist tilts it sideways"""
    slope = (1.0 - (3.0 * (1 - 1e-6) ** 2 - (1 - 1e-6) ** 3) / 2.0) / 1e-6
    rotor = tilted_rotor(0.7, 0.0)._replace(axis_B=Vec3(0.0, 0.0, 1.0))
    arm = rotor_arm(rotor, TIPS)
    up = displaced_rotor(ArmState(0.01, 0.0, 0.0, 0.0, 0.0, 0.0), arm, rotor)
    inward = -np.array([math.cos(0.7), math.sin(0.7), 0.0])
    assert np.array(up.axis_B) - [0, 0, 1] == pytest.approx(inward * 0.01 / 0.25 * slope, rel=1e-5, abs=1e-12)
    twisted = displaced_rotor(ArmState(0.0, 0.0, 0.02, 0.0, 0.0, 0.0), arm, rotor)
    exact = rotation(samara.core.algebra.quat_from_axis_angle(Vec3(*-inward), 0.02)).apply([0, 0, 1])
    assert np.array(twisted.axis_B) == pytest.approx(exact, abs=3e-4)
    assert np.array(up.r_B) - np.array(rotor.r_B) == pytest.approx([0.0, 0.0, 0.01], abs=1e-15)
    assert np.array(tip_rotation(ArmState(0.0, 0.01, 0.0, 0.0, 0.0, 0.0), arm)) == pytest.approx(
        [0, 0, 0.06], abs=1e-12
    )


# Conservation laws ---------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_momentum_and_energy_are_conserved(seed):
    """Body and arms together, as masses in the world, bent by centimetres and tumbling: Ṗ = L̇ = Ė = 0"""
    vehicle = flexible_vehicle()
    rates = mechanics_rates(vehicle, bent_state(vehicle, seed))
    assert rates == pytest.approx(np.zeros(7), abs=2e-11)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_weight_pulls_on_every_mass(seed):
    """Ṗ = m g, L̇ about the origin = Σ mᵢ xᵢ × g, Ė = Σ mᵢ vᵢ·g: the weight acts at the centre of mass, wherever the arms are"""
    vehicle = flexible_vehicle(gravity=True)
    state = bent_state(vehicle, seed)
    g = np.array([0.0, 0.0, -vehicle["gravity"].acceleration])
    R = turn(state.q_WB)
    shift = sum(m * (place - np.array(state.p_W) - R @ x0) for m, x0, place, _ in masses(vehicle, state))
    centre = np.array(state.p_W) + shift / vehicle.mass
    speed = mechanics(vehicle, state)[:3] / vehicle.mass
    expected = vehicle.mass * np.concatenate([g, np.cross(centre, g), [speed @ g]])
    assert mechanics_rates(vehicle, state) == pytest.approx(expected, abs=1e-10)


@given(seed=st.integers(0, 10_000), ratio=st.floats(0.001, 0.3))
@settings(max_examples=10, deadline=None)
def test_damping_takes_energy_and_no_momentum(seed, ratio):
    """Ė = −Σ c η̇² with c = 2ζ√(kμ), of each mode; Ṗ = L̇ = 0"""
    vehicle = flexible_vehicle(TIPS._replace(damping_ratio=ratio))
    state = bent_state(vehicle, seed)
    dissipated = 0.0
    for rotor, arm_state in zip(vehicle.rotors, state.effects[-1], strict=True):
        length, mass = rotor_axes(rotor)[-1], 0.06 + 33 / 140 * 0.03
        dissipated += 2 * ratio * math.sqrt(3 * 8.0 / length**3 * mass) * arm_state.axial_rate**2
        dissipated += 2 * ratio * math.sqrt(3 * 11.0 / length**3 * mass) * arm_state.plane_rate**2
        dissipated += 2 * ratio * math.sqrt(4.0 / length * 2e-5) * arm_state.twist_rate**2
    assert mechanics_rates(vehicle, state) == pytest.approx([0.0] * 6 + [-dissipated], abs=2e-11)


def test_a_flight_keeps_momentum_and_energy():
    """A fifth of a second of tumbling, arms ringing at 20 to 150 Hz: momentum to 1e-10; RK4 damps energy by its fifth power"""
    vehicle = flexible_vehicle()
    start = bent_state(vehicle, 3, size=0.005)
    lost = []
    for dt in (1e-4, 5e-5):
        end = record_state(vehicle, fly(vehicle, start, (0.0,) * 3, 0.2, dt=dt)[-1])
        before, after = mechanics(vehicle, start), mechanics(vehicle, end)
        lost.append(1.0 - after[6] / before[6])
    assert np.abs(after[:6] - before[:6]).max() < 1e-10 * np.abs(before[:6]).max()
    assert 0.0 < lost[1] < 3e-8
    assert lost[0] / lost[1] == pytest.approx(2.0**5, rel=0.03)


def test_damped_arms_never_gain_energy():
    vehicle = flexible_vehicle(TIPS._replace(damping_ratio=0.03))
    records = fly(vehicle, bent_state(vehicle, 4, size=0.005), (0.0,) * 3, 0.2, dt=1e-4, every=20)
    energy = np.array([mechanics(vehicle, record_state(vehicle, record))[6] for record in records])
    assert (np.diff(energy) < 0.0).all()


# A simulation without modes -------------------------------------------------------------------------------------------


def separate_bodies(vehicle, start, push_W, seconds):
    """Integrate the body without arms, and every tip as a mass on a rail: Newton's law for each, springs and rail forces
    between them, all in the world. The rail force keeps each tip at its distance along e."""
    arms, g = vehicle["arms"], np.array([0.0, 0.0, -9.80665])
    rotors = [rotor_axes(rotor) for rotor in vehicle.rotors]
    n, m = len(rotors), arms.tip_mass
    J = np.array(vehicle.inertia_B).reshape(3, 3)
    mass, moment = vehicle.mass - n * m, -sum(m * r for r, *_ in rotors)
    J = J - sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for r, *_ in rotors)
    centre = moment / mass
    J = J - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    stiff = [(3 * arms.axial_stiffness / L**3, 3 * arms.plane_stiffness / L**3) for *_, L in rotors]
    zeta = arms.damping_ratio

    def rate(_, y):
        c, v, q, omega = y[:3], y[3:6], y[6:10], y[10:13]
        x, u = y[13 : 13 + 3 * n].reshape(n, 3), y[13 + 3 * n : 13 + 6 * n].reshape(n, 3)
        R, w = turn(q / np.linalg.norm(q)), None
        w = R @ omega
        inertia = R @ J @ R.T
        anchor, anchor_v = c - R @ centre, v - np.cross(w, R @ centre)
        forces, rails = [], []
        for i, (r, a, e, b, _) in enumerate(rotors):
            lever, closing = R.T @ (x[i] - anchor) - r, R.T @ (u[i] - anchor_v - np.cross(w, x[i] - anchor))
            f = sum(
                -d * (k * (d @ lever) + 2 * zeta * math.sqrt(k * m) * (d @ closing))
                for d, k in zip((a, b), stiff[i], strict=True)
            )
            forces.append(R @ f)
            rails.append(R @ e)
        # unknowns: acceleration of c, ω̇ (world), tips' accelerations, the rails' pushes
        size = 6 + 3 * n + n
        A, rhs = np.zeros((size, size)), np.zeros(size)
        A[:3, :3], A[3:6, 3:6] = mass * np.eye(3), inertia
        rhs[:3] = mass * g + push_W - sum(forces)
        rhs[3:6] = -np.cross(w, inertia @ w) + np.cross(-R @ centre, push_W)
        rhs[3:6] -= sum(np.cross(x[i] - c, forces[i]) for i in range(n))
        for i in range(n):
            tip, rail = slice(6 + 3 * i, 9 + 3 * i), 6 + 3 * n + i
            d, arm = rails[i], x[i] - c
            A[tip, tip], rhs[tip] = m * np.eye(3), m * g + forces[i]
            A[tip, rail], A[:3, rail], A[3:6, rail] = -d, d, np.cross(arm, d)
            # d²/dt² of e·(x − c) = const: e·(ẍ − c̈ − ω̇ × arm) = e·(ω × (ω × arm) + 2 ω × (ẋ − v − ω × arm))
            A[rail, tip], A[rail, :3], A[rail, 3:6] = d, -d, -np.cross(arm, d)
            slip = u[i] - v - np.cross(w, arm)
            rhs[rail] = d @ (np.cross(w, np.cross(w, arm)) + 2 * np.cross(w, slip))
        solved = np.linalg.solve(A, rhs)
        q_rate = 0.5 * np.array(
            [
                -q[1:] @ omega,
                *(q[0] * omega + np.cross(q[1:], omega)),
            ]
        )
        alpha_B = R.T @ solved[3:6]
        return np.concatenate([v, solved[:3], q_rate, alpha_B, u.ravel(), solved[6 : 6 + 3 * n]])

    R, omega = turn(start.q_WB), np.array(start.omega_B)
    p, v = np.array(start.p_W), np.array(start.v_W)
    tips, speeds = [], []
    for (r, a, _, b, _), arm_state in zip(rotors, start.effects[vehicle.index("arms")], strict=True):
        tip = r + a * arm_state.axial + b * arm_state.plane
        tips.append(p + R @ tip)
        speeds.append(v + R @ (np.cross(omega, tip) + a * arm_state.axial_rate + b * arm_state.plane_rate))
    y0 = np.concatenate([p + R @ centre, v + R @ np.cross(omega, centre), start.q_WB, omega, *tips, *speeds])
    end = solve_ivp(rate, (0.0, seconds), y0, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    R = turn(end[6:10] / np.linalg.norm(end[6:10]))
    return end[:3] - R @ centre, end[6:10] / np.linalg.norm(end[6:10]), end[10:13], end[13 : 13 + 3 * n].reshape(n, 3)


def test_masses_on_springs_in_the_world_fly_the_same_way():
    """Without beam mass and twist each arm is one mass on a rail: Newton's law for every mass, and the rail's force"""
    push = Vec3(2.0, -3.0, 20.0)
    arms = LIGHT._replace(damping_ratio=0.02, tip_inertia=1e-12, twist_stiffness=1e-6)
    vehicle = flexible_vehicle(arms, gravity=True).with_effect(Effect("push", wrench=lambda *_: Wrench(f_W=push)))
    start = bent_state(vehicle, 11, size=0.01)
    still = tuple(arm_state._replace(twist=0.0, twist_rate=0.0) for arm_state in start.effects[vehicle.index("arms")])
    at = vehicle.index("arms")
    start = start._replace(effects=(*start.effects[:at], still, *start.effects[at + 1 :]))
    p, q, omega, tips = separate_bodies(vehicle, start, np.array(push), 0.1)
    end = record_state(vehicle, fly(vehicle, start, (0.0,) * 3, 0.1, dt=2e-5, every=5000)[-1])
    assert np.array(end.p_W) == pytest.approx(p, abs=1e-9)
    assert np.array(end.q_WB) * np.sign(end.q_WB[0] * q[0]) == pytest.approx(q, abs=1e-9)
    assert np.array(end.omega_B) == pytest.approx(omega, abs=1e-7)
    for rotor, arm_state, tip in zip(vehicle.rotors, end.effects[at], tips, strict=True):
        r, a, _, b, _ = rotor_axes(rotor)
        assert p + turn(q) @ (r + a * arm_state.axial + b * arm_state.plane) == pytest.approx(tip, abs=1e-9)


# Limits and closed forms ---------------------------------------------------------------------------------------------


def cross_vehicle(arms, **options):
    """Four equal arms with upright rotors: no torque about the centre at equal speeds."""
    rotors = tuple(
        tilted_rotor(math.pi / 4 + math.pi / 2 * i, 0.0, (-1.0) ** i, 0.0)._replace(axis_B=Vec3(0.0, 0.0, 1.0))
        for i in range(4)
    )
    return flexible_vehicle(arms, **{"rotors": rotors, "inertia": (0.03, 0.03, 0.055), **options})


def eigenvalues(vehicle, state, command=None, environment=CALM):
    """Of the equation of motion about a state, through CasADi's exact Jacobian"""
    command = command or tuple(0.0 for _ in vehicle.rotors)
    x = casadi.SX.sym("x", len(flatten(state)))
    rate = derivative(unflatten(state, iter(casadi.vertsplit(x))), command, vehicle, environment)
    jacobian = casadi.Function("J", [x], [casadi.jacobian(casadi.vertcat(*flatten(rate)), x)])
    return np.linalg.eigvals(np.array(jacobian(np.array(flatten(state)))))


@pytest.mark.parametrize("arm_mass", [0.0, 0.05])
def test_arms_that_flap_together_shake_a_free_body_faster(arm_mass):
    """ω² = k/(μ − 4p²/M): of a light beam k/(m(1 − 4m/M)); in the plane against the yaw, ω² = k/(μ − 4(s·e)²/J)"""
    arms = TIPS._replace(arm_mass=arm_mass)
    vehicle = cross_vehicle(arms)
    actual = np.sort(np.abs(eigenvalues(vehicle, state_at_rest(vehicle)).imag))
    mu, pull, moment = 0.06 + 33 / 140 * arm_mass, 0.06 + 3 / 8 * arm_mass, 0.25 * (0.06 + 11 / 40 * arm_mass)
    flapping = math.sqrt(3 * 8.0 / 0.25**3 / (mu - 4 * pull**2 / 1.5))
    turning = math.sqrt(3 * 11.0 / 0.25**3 / (mu - 4 * moment**2 / 0.055))
    if arm_mass == 0.0:
        assert flapping == pytest.approx(math.sqrt(3 * 8.0 / 0.25**3 / (0.06 * (1 - 4 * 0.06 / 1.5))), rel=1e-14)
    for exact in (flapping, turning):
        assert np.abs(actual / exact - 1.0).min() < 1e-9


def test_the_modes_a_step_is_judged_by_are_those_of_the_motion():
    """Roots of M s² + C s + K = 0 for an irregular layout with damping: the eigenvalues of the equation of motion"""
    vehicle = flexible_vehicle(TIPS._replace(damping_ratio=0.05))
    mass, damping, spring = free_modes(vehicle)
    linear = np.zeros((30, 30))
    linear[:15, 15:], linear[15:] = np.eye(15), -np.linalg.solve(mass, np.hstack([spring, damping]))
    expected, actual = (
        np.sort_complex(roots[roots.imag > 1.0])
        for roots in (np.linalg.eigvals(linear), eigenvalues(vehicle, state_at_rest(vehicle)))
    )
    assert actual == pytest.approx(expected, rel=1e-9)
    assert len(actual) == 9


def test_in_hover_every_arm_bends_as_the_beam_formulas_say():
    """δ = (T − m_t g) L³/3EI − m_b g L³/8EI, in the plane ε = −s Q L²/2EI − T θ L³/3EI, and θ = s Q (3δ/2L) L/GJ

    The last is the rotor's torque leaning inward with its axis; it bends the arm up again by a second-order 1e-5.
    """
    arms = TIPS._replace(damping_ratio=0.3)
    vehicle = cross_vehicle(arms, gravity=True)
    g, L = vehicle["gravity"].acceleration, 0.25
    speed = math.sqrt(1.5 * g / 4 / 1e-5)
    start = state_at_rest(vehicle)._replace(rotor_speed=(speed,) * 4)
    end = record_state(vehicle, fly(vehicle, start, (speed,) * 4, 0.6, dt=2e-4, every=3000)[-1])
    thrust, torque = 1.5 * g / 4, 2e-7 * speed**2
    up = (thrust - 0.06 * g) * L**3 / (3 * 8.0) - 0.03 * g * L**3 / (8 * 8.0)
    for rotor, arm_state in zip(vehicle.rotors, end.effects[vehicle.index("arms")], strict=True):
        twist = rotor.spin * torque * 1.5 * arm_state.axial / L * L / 4.0
        assert arm_state.axial == pytest.approx(up, rel=2e-5)
        assert arm_state.twist == pytest.approx(twist, rel=1e-9)
        plane = -rotor.spin * torque * L**2 / (2 * 11.0) - thrust * twist * L**3 / (3 * 11.0)
        assert arm_state.plane == pytest.approx(plane, rel=1e-6)
        assert np.abs(arm_state[3:]).max() < 1e-8
    assert np.array(end.omega_B) == pytest.approx(np.zeros(3), abs=1e-10)


def test_stiff_arms_are_a_rigid_body():
    """Position and attitude differ from the rigid body's in inverse proportion to the stiffness"""
    speeds = (500.0, 620.0, 560.0, 600.0)
    rigid = cross_vehicle(TIPS, gravity=True).without_effect("arms")
    start = state_at_rest(rigid)._replace(omega_B=Vec3(2.0, -1.0, 3.0), rotor_speed=speeds)
    reference = fly(rigid, start, speeds, 0.1, dt=1e-4)[-1]
    differences = []
    for factor in (100.0, 400.0):
        names = ("axial_stiffness", "plane_stiffness", "twist_stiffness")
        arms = TIPS._replace(damping_ratio=0.05, **{name: getattr(TIPS, name) * factor for name in names})
        vehicle = cross_vehicle(arms, gravity=True)
        flexible_start = start._replace(effects=state_at_rest(vehicle).effects)
        end = fly(vehicle, flexible_start, speeds, 0.1, dt=2e-5 * math.sqrt(400.0 / factor), every=1)[-1]
        differences.append(np.abs(end[:10] - reference[:10])[[0, 1, 2, 6, 7, 8, 9]].max())
    assert differences[0] < 1e-4
    assert differences[0] / differences[1] == pytest.approx(4.0, rel=0.1)


def test_a_spinning_rotor_resists_the_lean_of_its_hub():
    """L̇ = 0 with the spin of the rotors along the tilted axes; the residual is of second order in the tilt"""
    rotors = tuple(rotor._replace(inertia=6e-5) for rotor in flexible_vehicle().rotors)
    vehicle = flexible_vehicle(rotors=rotors).without_effect("rotors")
    residuals = []
    for size in (1e-3, 1e-4):
        state = bent_state(vehicle, 5, speed=700.0)
        at = vehicle.index("arms")
        small = unflatten(state.effects[at], iter([size * x for x in flatten(state.effects[at])]))
        state = state._replace(effects=(*state.effects[:at], small, *state.effects[at + 1 :]))
        rate = derivative(state, (700.0,) * 3, vehicle, CALM)
        leaves = [x + 1e-30j * dx for x, dx in zip(flatten(state), flatten(rate), strict=True)]
        moved = unflatten(state, iter(leaves))
        spin = 0.0
        for rotor, arm_state in zip(vehicle.rotors, moved.effects[at], strict=True):
            axis = displaced_rotor(arm_state, rotor_arm(rotor, TIPS), rotor).axis_B
            spin = spin + turn(moved.q_WB) @ np.array(axis) * (rotor.spin * 6e-5 * 700.0)
        total = (mechanics(vehicle, moved)[3:6] + spin).imag / 1e-30
        residuals.append(np.abs(total).max())
    assert residuals[0] < 1e-5
    assert residuals[0] / residuals[1] == pytest.approx(100.0, rel=0.05)


# One source -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_backend_bends_the_arms_alike():
    """The whole equation of motion of a body with one arm: floats, NumPy, JAX, and two steps of compiled code"""
    vehicle, command = flexible_vehicle(TIPS._replace(damping_ratio=0.02), count=1, gravity=True), (700.0,)
    state = bent_state(vehicle, 8, speed=650.0)
    expected = np.array(flatten(derivative(state, command, vehicle)))
    batch = unflatten(state, iter([np.full(3, x) for x in flatten(state)]))
    actual = [np.broadcast_to(x, 3)[1] for x in flatten(derivative(batch, command, vehicle))]
    assert np.array(actual) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    by_jax = jax.jit(lambda s: derivative(s, command, vehicle))(state)
    assert np.array(flatten(by_jax)) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    stepped = samara.step(samara.step(state, command, vehicle, 1e-4), command, vehicle, 1e-4)
    compiled = samara.compile(vehicle, backend="llvm").step(state, command, 1e-4, steps=2)
    assert np.array(flatten(compiled)) == pytest.approx(np.array(flatten(stepped)), rel=1e-12, abs=1e-12)


def test_the_other_effects_are_computed_once():
    """In compiled code, feet add little more to a body with arms than without: the rotation of their force into body axes"""

    def instructions(vehicle):
        x = casadi.SX.sym("x", len(flatten(state_at_rest(vehicle))))
        state = unflatten(state_at_rest(vehicle), iter(casadi.vertsplit(x)))
        rate = derivative(state, (0.5,), vehicle)
        return casadi.Function("f", [x], [casadi.cse(casadi.vertcat(*flatten(rate)))]).n_instructions()

    feet = {"contact": ContactShape([Vec3(0.1, 0.1, -0.1), Vec3(-0.1, 0.0, -0.1)])}
    vehicles = [flexible_vehicle(count=1, gravity=True, **options) for options in ({}, feet)]
    bare, standing = (
        instructions(vehicle_with_arms) - instructions(vehicle_with_arms.without_effect("arms"))
        for vehicle_with_arms in vehicles
    )
    feet_alone = instructions(vehicles[1].without_effect("arms")) - instructions(vehicles[0].without_effect("arms"))
    assert standing - bare < 0.25 * feet_alone


def test_the_arms_are_quiet_where_nothing_bends_them():
    """A rigid fall: straight arms at rest exert no wrench"""
    vehicle = cross_vehicle(TIPS, gravity=True)
    wrench = wrench_breakdown(state_at_rest(vehicle), (0.0,) * 4, vehicle)["arms"]
    assert wrench == Wrench(ZERO, ZERO, ZERO)


# In a vehicle file ------------------------------------------------------------------------------------------------------


TABLES = """
[arms]
tip_mass = { value = 0.06, unit = "kg", source = "weighed" }
arm_mass = { value = 0.03, unit = "kg", source = "weighed" }
tip_inertia = { value = 4e-5, unit = "kg m^2", source = "from the drawing" }
frequency = { value = 45, unit = "Hz", source = "tapped, with the body held in a vice" }

[imbalance]
unbalance = { value = [2e-6, 0, 0, 0], unit = "kg m", source = "a nick in the first propeller" }
"""


def test_a_file_names_arms_by_what_was_measured(tmp_path):
    """45 Hz with a fixed root gives EI; missing values are those of a tube; a written file reads back the same"""
    text = vehicle_toml(IRIS)
    read = parse_vehicle(text + TABLES, "shaky.toml")
    L = math.hypot(0.1515, 0.245)
    arms = read["arms"]
    assert bending_frequency(arms.axial_stiffness, L, arms) == pytest.approx(2.0 * math.pi * 45.0, rel=1e-12)
    assert (arms.plane_stiffness, arms.twist_stiffness) == pytest.approx(
        (arms.axial_stiffness, arms.axial_stiffness / 1.3), rel=1e-12
    )
    assert read["imbalance"].unbalance == (2e-6, 0.0, 0.0, 0.0)
    samara.save_vehicle(read, tmp_path / "again.toml")
    assert samara.vehicle(tmp_path / "again.toml") == read


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ("value = 0.06", "value = 0.5"),
            "arms.tip_mass + arm_mass = 0.53 kg on 4 arms: expected less than the vehicle's",
        ),
        (("value = 0.06", "value = 0.3"), "expected arms with less inertia than the vehicle"),
        (("value = 45", "value = 150"), "expected arms that are stable at the default step 0.001 s, these need dt <= "),
        (("value = 45", "value = -1"), "arms.frequency = -1 Hz: expected a positive number"),
        (("[2e-6, 0, 0, 0]", "[2e-6, 0]"), "imbalance.unbalance has 2 numbers: expected 4, one for each rotor"),
        (("tip_inertia", "tip_inertness"), "arms.tip_inertness = "),
    ],
)
def test_a_file_that_cannot_be_gets_one_sentence(change, sentence):
    with pytest.raises(samara.VehicleError, match=re.escape(sentence)) as error:
        parse_vehicle(vehicle_toml(IRIS) + TABLES.replace(*change), "shaky.toml")
    assert str(error.value).startswith("shaky.toml: ")
    assert "\n" not in str(error.value)


def test_no_arm_without_a_rotor_beside_the_centre():
    body = samara.vehicle("rigid_body_quadrotor")
    if not body.rotors:
        with pytest.raises(samara.VehicleError, match="arms is on and rotors has 0 entries"):
            switch_on(body, "arms")
    middle = IRIS.replace(rotors=(IRIS.rotors[0]._replace(r_B=Vec3(0.0, 0.0, 0.1)), *IRIS.rotors[1:]))
    with pytest.raises(
        samara.VehicleError, match=re.escape("rotors[0].r_B = (0.0, 0.0, 0.1) m: expected a hub on an arm")
    ):
        switch_on(middle, "arms")


def test_the_step_that_is_asked_for_is_the_one_that_holds():
    """RK4 slightly below that step never gains energy; slightly above it does, within 60 steps"""
    vehicle = flexible_vehicle(TIPS._replace(damping_ratio=0.001), count=1)
    step = largest_arm_step(vehicle)
    start = state_at_rest(vehicle)
    kicked = start.effects[-1][0]._replace(twist_rate=0.01, plane_rate=0.01, axial_rate=0.01)
    start = start._replace(effects=(*start.effects[:-1], (kicked,)))
    energy = []
    for factor in (0.97, 1.03):
        end = record_state(vehicle, fly(vehicle, start, (0.0,), 60 * factor * step, dt=factor * step, every=60)[-1])
        energy.append(mechanics(vehicle, end)[6] / mechanics(vehicle, start)[6])
    assert energy[0] < 1.0 < energy[1]


@pytest.mark.parametrize("name", ["crazyflie_documented", "hexarotor_tilted", "iris_documented"])
def test_a_shipped_vehicle_hovers_with_settled_arms(name):
    """Every arm is at rest under its rotor and its weight; unequal arms of the iris leave less than a thousandth of g"""
    vehicle = switch_on(switch_on(samara.vehicle(name), "arms"), "imbalance", unbalance=0.0)
    state, command = samara.hover(vehicle)
    rate = derivative(state, command, vehicle)
    left = {"iris_documented": 1e-3, "hexarotor_tilted": 2e-6}.get(name, 1e-8)
    assert np.abs([*rate.v_W, *rate.omega_B]).max() < left
    assert np.abs(flatten(rate.effects[vehicle.index("arms")])).max() < left
    assert all(arm_state.axial > 0.0 for arm_state in state.effects[vehicle.index("arms")])
