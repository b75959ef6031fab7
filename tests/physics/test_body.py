"""Laws of the rigid body: Newton's and Euler's equations against point masses, closed forms, conservation and proof."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from scipy.spatial.transform import Rotation
from scipy.special import ellipj
from support.traced_flights import rotation

from samara.core.algebra import (
    IDENTITY,
    UP,
    ZERO,
    Euler,
    Mat3,
    Quat,
    Vec3,
    cross,
    diagonal,
    dot,
    euler_from_quat,
    quat_from_euler,
    rotate,
    rotate_inverse,
)
from samara.core.integrate import rk4, rk45
from samara.physics.motion.body import (
    angular_acceleration,
    angular_momentum,
    angular_velocity_from_euler_rates,
    attitude_rate,
    body_velocity,
    body_velocity_rate,
    euler_accelerations,
    euler_rates,
    kinetic_energy,
    translational_acceleration,
)

EPS = float(np.finfo(float).eps)
FULL = np.array(
    [[0.012, 0.001, -0.002], [0.001, 0.017, 0.0015], [-0.002, 0.0015, 0.021]]
)  # no axis is principal [kg m²]
MASS, GRAVITY = 1.2, 9.81  # the rigid-body document
INERTIA_002 = diagonal(Vec3(0.0081, 0.0081, 0.0142))
WEIGHT_W = Vec3(0.0, 0.0, -MASS * GRAVITY)


def distance(actual: Any, expected: Any) -> float:
    return float(np.abs(np.asarray(actual, dtype=float) - np.asarray(expected, dtype=float)).max())


def matrix(inertia: np.ndarray) -> Mat3:
    return Mat3(*(float(x) for x in inertia.ravel()))


class Spin(NamedTuple):
    """A body that only turns."""

    q_WB: Quat
    omega_B: Vec3


class Motion(NamedTuple):
    """A body in the variables of the multirotor: world velocity, quaternion."""

    p_W: Vec3
    v_W: Vec3
    q_WB: Quat
    omega_B: Vec3


def spinning(inertia_B: Mat3, tau_B: Vec3 = ZERO):
    def rate(s: Spin) -> Spin:
        return Spin(attitude_rate(s.q_WB, s.omega_B), angular_acceleration(s.omega_B, tau_B, inertia_B=inertia_B))

    return rate


def moving(f_B: Vec3, tau_B: Vec3, f_W: Vec3 = WEIGHT_W):
    """The rigid-body document's body under a constant thrust and torque, its weight, and no air."""

    def rate(s: Motion) -> Motion:
        return Motion(
            s.v_W,
            translational_acceleration(s.q_WB, f_B, f_W, mass=MASS),
            attitude_rate(s.q_WB, s.omega_B),
            angular_acceleration(s.omega_B, tau_B, inertia_B=INERTIA_002),
        )

    return rate


AT_REST = Motion(ZERO, ZERO, IDENTITY, ZERO)


# Euler's and Newton's equations ------------------------------------------------------------------------------------


def random_spins(count: int = 1000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(count, 3)) * 5.0, rng.normal(size=(count, 3)), rng.normal(size=(count, 4))


def test_euler_s_equation_with_a_full_inertia_tensor():
    """J ω̇ = τ − ω × Jω, solved by NumPy."""
    omega, tau, _ = random_spins()
    expected = np.linalg.solve(FULL, (tau - np.cross(omega, omega @ FULL)).T)
    actual = angular_acceleration(Vec3(*omega.T), Vec3(*tau.T), inertia_B=matrix(FULL))
    assert distance(actual, expected) <= 1e-14 * np.abs(expected).max()


def test_newton_s_second_law_in_world_axes():
    """m v̇ = R f_B + f_W, R by SciPy."""
    f_B, f_W, q = random_spins()
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    actual = translational_acceleration(Quat(*q.T), Vec3(*f_B.T), Vec3(*f_W.T), mass=1.7)
    assert distance(actual, ((rotation(q.T).apply(f_B) + f_W) / 1.7).T) <= 1e-14


def test_a_rigid_body_is_a_cloud_of_point_masses():
    """Energy, angular momentum and Euler's equation, by summing over twenty masses at fixed distances.

    v = ω × r and a = α × r + ω × (ω × r) are geometry; that Σ r × m a is the torque is Newton's law for each mass.
    """
    rng = np.random.default_rng(2)
    m, r = rng.uniform(0.01, 0.1, 20), rng.normal(size=(20, 3)) * 0.2
    r -= np.average(r, axis=0, weights=m)
    J = sum(mass * (p @ p * np.eye(3) - np.outer(p, p)) for mass, p in zip(m, r, strict=True))
    omega, tau, v = rng.normal(size=(3, 3)) * 3.0
    alpha = np.array(angular_acceleration(Vec3(*omega), Vec3(*tau), inertia_B=matrix(J)))
    acceleration = np.cross(alpha, r) + np.cross(omega, np.cross(omega, r))
    assert distance((m[:, None] * np.cross(r, acceleration)).sum(axis=0), tau) <= 1e-15
    energy = 0.5 * (m * np.square(v + np.cross(omega, r)).sum(axis=1)).sum()
    assert kinetic_energy(Vec3(*v), Vec3(*omega), mass=m.sum(), inertia_B=matrix(J)) == pytest.approx(energy, rel=1e-14)
    momentum = (m[:, None] * np.cross(r, np.cross(omega, r))).sum(axis=0)
    q_WB = quat_from_euler(0.3, -0.8, 2.0)
    actual = angular_momentum(q_WB, Vec3(*omega), inertia_B=matrix(J))
    assert distance(actual, rotation(q_WB).apply(momentum)) <= 1e-15


def test_hakoniwa_angular_acceleration_of_its_own_case():
    """I (2, 5, 8), ω (1, 2, 3), τ (1, 2, 3) → (−8.5, 4, −0.375)."""
    omega_B = tau_B = Vec3(1.0, 2.0, 3.0)
    assert angular_acceleration(omega_B, tau_B, inertia_B=diagonal(Vec3(2.0, 5.0, 8.0))) == (-8.5, 4.0, -0.375)


def test_turning_about_two_axes_accelerates_the_third():
    """ω̇x = (Iyy − Izz) ωy ωz / Ixx at zero torque (002): a sign that another library had wrong for years."""
    alpha_B = angular_acceleration(Vec3(0.0, 3.0, 5.0), ZERO, inertia_B=INERTIA_002)
    assert alpha_B.x == pytest.approx((0.0081 - 0.0142) * 3.0 * 5.0 / 0.0081, rel=4 * EPS)
    assert alpha_B.y == alpha_B.z == 0.0


def test_a_flat_top_wobbles_forwards_around_its_axis():
    """Izz > Ixx = Iyy: ωx + i ωy = A e^{iλt}, λ = +(Izz/Ixx − 1) ωz, seen from the body; a wrong sign turns it back."""
    spin = Spin(IDENTITY, Vec3(0.5, 0.0, 4.0))
    end = rk45(spinning(INERTIA_002), spin, 1.0, rtol=1e-12, atol=1e-13)
    expected = 0.5 * np.exp(1j * (0.0142 / 0.0081 - 1.0) * 4.0)
    assert distance(end.omega_B, (expected.real, expected.imag, 4.0)) <= 1e-12


def rate_along(function, point: tuple, velocity: tuple):
    """d/dt of a function along a motion: JAX's exact directional derivative."""
    return np.array(jax.jvp(function, point, velocity)[1], dtype=float)


def test_torque_is_the_rate_of_angular_momentum_in_the_world():
    """dL_W/dt = R τ_B: from q̇ and ω̇ together, whatever the body does."""
    J = matrix(FULL)
    for omega, tau, q in zip(*random_spins(20), strict=True):
        q_WB, omega_B, tau_B = Quat(*(q / np.linalg.norm(q))), Vec3(*omega), Vec3(*tau)
        velocity = (attitude_rate(q_WB, omega_B), angular_acceleration(omega_B, tau_B, inertia_B=J))
        actual = rate_along(lambda q, w: angular_momentum(q, w, inertia_B=J), (q_WB, omega_B), velocity)
        assert distance(actual, rotation(q_WB).apply(tau)) <= 4e-15


def test_a_spinning_wheel_follows_the_torque():
    """L along x, torque about the world's z: L_W = L₀ + τ t, so the axle swings towards z and not along the pull."""
    J, tau_W = diagonal(Vec3(0.1, 0.06, 0.06)), Vec3(0.0, 0.0, 1.0)

    def rate(s: Spin) -> Spin:
        alpha_B = angular_acceleration(s.omega_B, rotate_inverse(s.q_WB, tau_W), inertia_B=J)
        return Spin(attitude_rate(s.q_WB, s.omega_B), alpha_B)

    end = rk45(rate, Spin(IDENTITY, Vec3(60.0, 0.0, 0.0)), 0.5, rtol=1e-11, atol=1e-12)
    L_W = angular_momentum(end.q_WB, end.omega_B, inertia_B=J)
    assert distance(L_W, (6.0, 0.0, 0.5)) <= 4e-12
    nutation = 2.0 * 1.0 / 6.0 * 0.06 / 6.0  # the axle circles L at L/Jyy = 100 rad/s, at most 2 τ Jyy/L² away from it
    assert distance(rotate(end.q_WB, Vec3(1.0, 0.0, 0.0)), np.array(L_W) / np.linalg.norm(L_W)) <= nutation


def test_power_is_force_times_velocity_plus_torque_times_rate():
    """dE/dt = F·v + τ·ω."""
    J = matrix(FULL)
    for omega, tau, q in zip(*random_spins(20), strict=True):
        q_WB, omega_B, v_W = Quat(*(q / np.linalg.norm(q))), Vec3(*omega), Vec3(*tau * 3.0)
        f_B, tau_B = Vec3(*omega[::-1]), Vec3(*tau)
        a_W = translational_acceleration(q_WB, f_B, ZERO, mass=MASS)
        alpha_B = angular_acceleration(omega_B, tau_B, inertia_B=J)
        actual = rate_along(lambda v, w: kinetic_energy(v, w, mass=MASS, inertia_B=J), (v_W, omega_B), (a_W, alpha_B))
        power = rotation(q_WB).apply(f_B) @ np.array(v_W) + tau @ omega
        assert actual == pytest.approx(power, rel=1e-12)


# Proofs ------------------------------------------------------------------------------------------------------------


def symbolic_body() -> tuple[Vec3, Mat3]:
    xx, xy, xz, yy, yz, zz = sympy.symbols("J_xx J_xy J_xz J_yy J_yz J_zz", real=True)
    return Vec3(*sympy.symbols("p q r", real=True)), Mat3(xx, xy, xz, xy, yy, yz, xz, yz, zz)


def test_the_gyroscopic_torque_does_no_work_proof():
    """ω · (ω × Jω) = 0 for every ω and every symmetric J, and so ω · Jω̇ = ω · τ of the equation as implemented."""
    omega, J = symbolic_body()
    assert sympy.expand(dot(omega, cross(omega, J @ omega))) == 0
    tau = Vec3(*sympy.symbols("tau_x tau_y tau_z", real=True))
    alpha = angular_acceleration(omega, tau, inertia_B=J)
    assert sympy.cancel(sympy.together(dot(omega, J @ alpha) - dot(omega, tau))) == 0


def test_the_gyroscopic_torque_keeps_the_length_of_the_momentum_proof():
    """d|Jω|²/dt = 2 Jω · Jω̇ = 0 without torque: in the body only the length of L is conserved."""
    omega, J = symbolic_body()
    alpha = angular_acceleration(omega, ZERO, inertia_B=J)
    assert sympy.cancel(sympy.together(dot(J @ omega, J @ alpha))) == 0


def test_a_quaternion_turns_without_growing_proof():
    """q · q̇ = 0 for every q and ω: |q| is constant."""
    q, omega = Quat(*sympy.symbols("w x y z", real=True)), Vec3(*sympy.symbols("p q r", real=True))
    assert sympy.expand(sum(a * b for a, b in zip(q, attitude_rate(q, omega), strict=True))) == 0


# Torque-free tumbling ----------------------------------------------------------------------------------------------


def test_torque_free_tumbling_keeps_energy_and_angular_momentum_for_100_seconds():
    """No torque: ½ω·Jω and the world vector R Jω are constant, to 1e-9 and better, for every tumbling motion; by NumPy."""
    start = Spin(quat_from_euler(0.4, -0.7, 1.9), Vec3(0.6, 0.9, -0.5))
    end = start
    energies, momenta = [], []
    for _ in range(20):
        omega = np.array(end.omega_B)
        energies.append(0.5 * omega @ FULL @ omega)
        momenta.append(rotation(end.q_WB).apply(FULL @ omega))
        end = rk45(spinning(matrix(FULL)), end, 5.0, rtol=2e-11, atol=2e-12)
    assert np.abs(np.array(energies) / energies[0] - 1.0).max() <= 1e-11
    size = np.linalg.norm(momenta[0])
    assert distance(momenta, np.broadcast_to(momenta[0], (20, 3))) / size <= 1e-11
    # it does tumble: in the body the momentum points elsewhere every time
    in_body = [rotation(end.q_WB).inv().apply(momenta[0]), FULL @ np.array(start.omega_B)]
    assert np.linalg.norm(in_body[0] - in_body[1]) > 0.1 * size


def elliptic_rates(t: Any, J: tuple[float, float, float], first: float, third: float) -> np.ndarray:
    """ω(t) about principal axes from ω(0) = (first, 0, third), by Jacobi's elliptic functions (Landau & Lifshitz §37).

    J ascends and the motion circles the third axis, or J descends and it circles the (then smallest) third.
    """
    J1, J2, J3 = J
    second = math.copysign(first * math.sqrt(J1 * (J3 - J1) / (J2 * (J3 - J2))), J3 - J1)
    speed = third * math.sqrt((J3 - J1) * (J3 - J2) / (J1 * J2))
    modulus = (J2 - J1) * J1 * first**2 / ((J3 - J2) * J3 * third**2)
    assert 0.0 < modulus < 1.0
    sn, cn, dn, _ = ellipj(speed * t, modulus)
    return np.array([first * cn, second * sn, third * dn])


@pytest.mark.parametrize(
    ("J", "first", "third"),
    [((0.5, 1.0, 2.0), 1.0, 1.4), ((2.0, 1.0, 0.5), 0.6, 2.5)],
    ids=["around the largest", "around the smallest"],
)
def test_tumbling_follows_jacobi_s_elliptic_functions(J, first, third):
    """ω(t) and the attitude for 10 s, to 1e-8 and far better.

    With L along a frame's third axis, the attitude is Rz(ψ) Rx(θ) Rz(φ): θ and φ are the direction of L in the body,
    and ψ̇ = |L| (L₁ω₁ + L₂ω₂) / (L₁² + L₂²) is integrated by quadrature.
    """
    moments = np.array(J)
    size = np.linalg.norm(moments * (first, 0.0, third))

    def precession_rate(t: float) -> float:
        omega = elliptic_rates(t, J, first, third)
        L = moments * omega
        return size * (L[0] * omega[0] + L[1] * omega[1]) / (L[0] ** 2 + L[1] ** 2)

    def attitude(t: float) -> Rotation:
        L = moments * elliptic_rates(t, J, first, third) / size
        psi = sum(quad(precession_rate, t * i / 20, t * (i + 1) / 20, epsabs=1e-13, epsrel=1e-13)[0] for i in range(20))
        return Rotation.from_euler("ZXZ", [psi, math.acos(L[2]), math.atan2(L[0], L[1])])

    q_WB = quat_from_euler(0.4, -0.7, 1.9)
    state = Spin(q_WB, Vec3(first, 0.0, third))
    for second in range(1, 11):
        state = rk45(spinning(diagonal(Vec3(*J))), state, 1.0, rtol=1e-12, atol=1e-13)
        assert distance(state.omega_B, elliptic_rates(second, J, first, third)) <= 1e-11
        expected = rotation(q_WB) * attitude(0.0).inv() * attitude(second)
        assert (rotation(state.q_WB) * expected.inv()).magnitude() <= 1e-11


def test_the_middle_axis_is_unstable():
    """Dzhanibekov's nut: spin about the middle principal axis turns over; about the two others it stays."""
    J = (0.01, 0.014, 0.02)
    for axis, stays in ((0, True), (1, False), (2, True)):
        omega = [1e-3, 1e-3, 1e-3]
        omega[axis] = 10.0
        state, turned_over = Spin(IDENTITY, Vec3(*omega)), False
        for _ in range(40):
            state = rk45(spinning(diagonal(Vec3(*J))), state, 0.1, rtol=1e-8, atol=1e-9)
            turned_over = turned_over or state.omega_B[axis] < 0.0
        assert turned_over is not stays


# The same motion in other variables --------------------------------------------------------------------------------


class BodyVelocityMotion(NamedTuple):
    """Hakoniwa's variables: the velocity along the body's axes."""

    p_W: Vec3
    u_B: Vec3
    q_WB: Quat
    omega_B: Vec3


class EulerMotion(NamedTuple):
    """The rigid-body document's variables: Euler angles."""

    p_W: Vec3
    v_W: Vec3
    euler: Vec3
    omega_B: Vec3


def test_one_motion_in_three_sets_of_variables():
    """World velocity and quaternion; body velocity (004); Euler angles (002): after 2 s of tumbling, one state."""
    J, drag = matrix(FULL), 0.3
    thrust_B, torque_B, f_W = Vec3(0.5, -0.3, 13.0), Vec3(0.006, -0.009, 0.02), Vec3(0.0, 0.0, -MASS * GRAVITY)

    def spin_rate(omega_B: Vec3) -> Vec3:
        return angular_acceleration(omega_B, torque_B, inertia_B=J)

    def world_velocity_rate(s: Motion) -> Motion:
        a_W = translational_acceleration(s.q_WB, thrust_B, f_W - s.v_W * drag, mass=MASS)
        return Motion(s.v_W, a_W, attitude_rate(s.q_WB, s.omega_B), spin_rate(s.omega_B))

    def body_velocity_motion_rate(s: BodyVelocityMotion) -> BodyVelocityMotion:
        a_B = (thrust_B - s.u_B * drag + body_velocity(s.q_WB, f_W)) / MASS
        rate = body_velocity_rate(s.u_B, s.omega_B, a_B)
        q_rate = attitude_rate(s.q_WB, s.omega_B)
        return BodyVelocityMotion(rotate(s.q_WB, s.u_B), rate, q_rate, spin_rate(s.omega_B))

    def euler_motion_rate(s: EulerMotion) -> EulerMotion:
        a_W = translational_acceleration(quat_from_euler(*s.euler), thrust_B, f_W - s.v_W * drag, mass=MASS)
        return EulerMotion(s.v_W, a_W, euler_rates(Euler(*s.euler), s.omega_B), spin_rate(s.omega_B))

    p_W, v_W, angles, omega_B = Vec3(1.0, 2.0, 3.0), Vec3(3.0, -2.0, 1.0), Euler(0.3, -0.5, 0.8), Vec3(0.8, 0.4, -0.9)
    q_WB = quat_from_euler(*angles)
    tight = {"rtol": 1e-12, "atol": 1e-13}
    world = rk45(world_velocity_rate, Motion(p_W, v_W, q_WB, omega_B), 2.0, **tight)
    body = rk45(
        body_velocity_motion_rate, BodyVelocityMotion(p_W, body_velocity(q_WB, v_W), q_WB, omega_B), 2.0, **tight
    )
    euler = rk45(euler_motion_rate, EulerMotion(p_W, v_W, Vec3(*angles), omega_B), 2.0, **tight)
    assert np.linalg.norm(np.array(euler.euler) - angles) > 1.0  # the attitude did change
    for p, v, q, omega in (
        (body.p_W, rotate(body.q_WB, body.u_B), body.q_WB, body.omega_B),
        (euler.p_W, euler.v_W, quat_from_euler(*euler.euler), euler.omega_B),
    ):
        assert distance((p, v, omega), (world.p_W, world.v_W, world.omega_B)) <= 1e-11
        assert (rotation(q) * rotation(world.q_WB).inv()).magnitude() <= 1e-11


def test_body_velocity_is_the_world_velocity_seen_from_the_body():
    """u = Rᵀ v, and u̇ = Rᵀ v̇ − ω × u is its derivative along the motion."""
    for omega, v, q in zip(*random_spins(20), strict=True):
        q_WB, omega_B, v_W, a_W = Quat(*(q / np.linalg.norm(q))), Vec3(*omega), Vec3(*v), Vec3(*v[::-1])
        u_B = body_velocity(q_WB, v_W)
        assert distance(u_B, rotation(q_WB).inv().apply(v)) <= 4e-15
        actual = rate_along(body_velocity, (q_WB, v_W), (attitude_rate(q_WB, omega_B), a_W))
        assert distance(actual, body_velocity_rate(u_B, omega_B, body_velocity(q_WB, a_W))) <= 4e-14


def random_angles(count: int = 1000) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.array([rng.uniform(-3, 3, count), rng.uniform(-1.4, 1.4, count), rng.uniform(-3, 3, count)])


def test_euler_rates_turn_about_the_carried_axes():
    """ω = φ̇ x + θ̇ y' + ψ̇ z'': about the body's x, about y before rolling, about the world's z; axes by SciPy."""
    angles, rates = random_angles(), np.random.default_rng(4).normal(size=(3, 1000))
    rolled = Rotation.from_euler("X", angles[0][:, None])
    pitched = Rotation.from_euler("YX", angles[1::-1].T)
    omega = rates[0] * np.array([[1.0], [0.0], [0.0]])
    omega = omega + rates[1] * rolled.inv().apply([0.0, 1.0, 0.0]).T + rates[2] * pitched.inv().apply([0.0, 0.0, 1.0]).T
    actual = angular_velocity_from_euler_rates(Euler(*angles), Vec3(*rates))
    assert distance(actual, omega) <= 4e-15
    assert distance(euler_rates(Euler(*angles), actual), rates) <= 4e-15


def test_euler_rates_at_gimbal_lock_are_finite():
    """At θ = ±90° the yaw rate is undefined: the result is finite, and θ̇ is correct."""
    for pitch in (math.pi / 2, -math.pi / 2):
        rates = euler_rates(Euler(0.3, pitch, 0.5), Vec3(1.0, 2.0, 3.0))
        assert all(math.isfinite(x) for x in rates)
        assert rates.y == pytest.approx(2.0 * math.cos(0.3) - 3.0 * math.sin(0.3), rel=2 * EPS)


def test_euler_accelerations_are_the_rates_differentiated_along_a_motion():
    """η̈ by a fourth-order difference of η̇ over the flight itself, ±1 and ±2 steps of 0.2 ms (an erratum of 004)."""
    J, tau_B = matrix(FULL), Vec3(0.02, -0.03, 0.01)
    rate = spinning(J, tau_B)
    start = Spin(quat_from_euler(0.5, -0.6, 1.1), Vec3(1.5, -2.0, 1.0))
    h = 2e-4

    def angle_rates(s: Spin) -> np.ndarray:
        return np.array(euler_rates(euler_from_quat(s.q_WB), s.omega_B))

    before, after = rk4(rate, start, -h), rk4(rate, start, h)
    twice_before, twice_after = rk4(rate, before, -h), rk4(rate, after, h)
    slope = 8.0 * (angle_rates(after) - angle_rates(before)) - (angle_rates(twice_after) - angle_rates(twice_before))
    actual = euler_accelerations(
        euler_from_quat(start.q_WB),
        Vec3(*angle_rates(start)),
        angular_acceleration(start.omega_B, tau_B, inertia_B=J),
    )
    assert distance(actual, slope / (12.0 * h)) <= 1e-11


# Statements of the documents, and their corrections -----------------------------------------------------------------


def test_ilqr_body_rates_multiply_from_the_right():
    """Yaw 90°, then p = 1 rad/s for 1 s: a roll about the world's y, b3 = (sin 1, 0, cos 1) = (0.841, 0, 0.540).

    The document's q̇ = ½ (0, ω) ⊗ q would roll about the world's x instead: (0, −sin 1, cos 1).
    """
    q_WB, omega_B = quat_from_euler(0.0, 0.0, math.pi / 2), Vec3(1.0, 0.0, 0.0)
    final = rk45(lambda s: Spin(attitude_rate(s.q_WB, s.omega_B), ZERO), Spin(q_WB, omega_B), 1.0)
    assert distance(rotate(final.q_WB, UP), (math.sin(1.0), 0.0, math.cos(1.0))) <= 2e-11
    written = rk45(lambda s: Spin(Quat(0.0, 0.5, 0.0, 0.0) * s.q_WB, ZERO), Spin(q_WB, omega_B), 1.0)
    assert distance(rotate(written.q_WB, UP), (0.0, -math.sin(1.0), math.cos(1.0))) <= 2e-11


def test_ilqr_the_cross_product_form_differentiates_by_half_angles():
    """∂(R e₃)/∂δ = −2R[e₃]ₓ for q ⊗ (1, δ), a half-angle δ; by the stored components it is another matrix."""
    q_WB = quat_from_euler(0.4, -0.7, 1.9)
    skew = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    expected = -2.0 * rotation(q_WB).as_matrix() @ skew

    def thrust_axis(x, y, z):
        return rotate(q_WB * Quat(1.0, x, y, z), UP)

    local = np.array(jax.jacfwd(thrust_axis, argnums=(0, 1, 2))(0.0, 0.0, 0.0), dtype=float)
    assert distance(local, expected) <= 1e-15
    stored = np.array(jax.jacfwd(lambda q: rotate(q, UP))(q_WB), dtype=float)[:, 1:]
    assert distance(stored, expected) > 0.1


def test_rigid_body_thrust_tilts_with_the_body():
    """30° of roll gives (0, −F sin φ, F cos φ), not an F_x; 30° of pitch gives (F sin θ, 0, F cos θ)."""
    F, angle = 7.0, math.radians(30.0)
    rolled = translational_acceleration(quat_from_euler(angle, 0.0, 0.0), UP * F, ZERO, mass=1.0)
    pitched = translational_acceleration(quat_from_euler(0.0, angle, 0.0), UP * F, ZERO, mass=1.0)
    assert distance(rolled, (0.0, -F * 0.5, F * math.sqrt(0.75))) <= 4e-15
    assert distance(pitched, (F * 0.5, 0.0, F * math.sqrt(0.75))) <= 4e-15


def test_rigid_body_only_the_length_of_the_angular_momentum_is_constant_in_the_body():
    """Torque-free: the world vector is constant; its body components are not, only their length."""
    J, start = matrix(FULL), Spin(quat_from_euler(0.4, -0.7, 1.9), Vec3(3.0, 2.0, -1.0))
    end = rk45(spinning(J), start, 1.0, rtol=1e-12, atol=1e-13)
    before, after = (np.array(J @ s.omega_B) for s in (start, end))
    world = [angular_momentum(s.q_WB, s.omega_B, inertia_B=J) for s in (start, end)]
    assert distance(world[1], world[0]) <= 1e-11 * np.linalg.norm(before)
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before), rel=1e-11)
    assert np.linalg.norm(after - before) > 0.5 * np.linalg.norm(before)


class MotionWithWork(NamedTuple):
    """A motion, and the work of all forces but its weight."""

    motion: Motion
    work: Any


def mechanical_energy(s: Motion) -> float:
    return kinetic_energy(s.v_W, s.omega_B, mass=MASS, inertia_B=INERTIA_002) + MASS * GRAVITY * s.p_W.z


@pytest.mark.parametrize(("thrust", "torque"), [(0.0, 0.0), (14.0, 0.0), (0.0, 0.01), (14.0, 0.01)])
def test_rigid_body_energy_is_constant_without_thrust_and_torque_and_otherwise_gains_their_work(thrust, torque):
    """E₁ − E₀ = ∫ (F·v + τ·ω) dt, integrated beside the motion: "no drag" is not enough."""
    f_B, tau_B = UP * thrust, Vec3(torque, torque, 0.0)

    def rate(s: MotionWithWork) -> MotionWithWork:
        m = s.motion
        return MotionWithWork(moving(f_B, tau_B)(m), dot(rotate(m.q_WB, f_B), m.v_W) + dot(tau_B, m.omega_B))

    start = Motion(ZERO, Vec3(2.0, -1.0, 3.0), quat_from_euler(0.5, 0.2, 0.0), Vec3(1.0, 2.0, 3.0))
    end = rk45(rate, MotionWithWork(start, 0.0), 1.5, rtol=1e-12, atol=1e-13)
    gained = mechanical_energy(end.motion) - mechanical_energy(start)
    assert gained == pytest.approx(end.work, rel=0, abs=1e-11)
    if thrust == torque == 0.0:
        assert end.work == 0.0
    else:
        assert abs(end.work) > 1e-3  # joules that "no drag" would leave constant


def test_rigid_body_weight_changes_momentum_by_its_impulse():
    """m v(t) − m v(0) = −m g t: momentum is m v, and under gravity it is not conserved."""
    start = Motion(ZERO, Vec3(2.0, -1.0, 3.0), quat_from_euler(0.5, 0.2, 0.0), Vec3(1.0, 2.0, 3.0))
    end = rk45(moving(ZERO, ZERO), start, 1.5)
    assert distance((end.v_W - start.v_W) * MASS, (0.0, 0.0, -MASS * GRAVITY * 1.5)) <= 2e-14
    free = rk45(moving(ZERO, ZERO, f_W=ZERO), start, 1.5)
    assert free.v_W == start.v_W


def test_rigid_body_only_yaw_torque_spins_in_place():
    """Hover thrust with τ_z turns by ½ (τ/I) t² in place; with roll or pitch torque the thrust tilts and the body moves off."""
    hover = UP * (MASS * GRAVITY)
    yawed = rk45(moving(hover, Vec3(0.0, 0.0, 0.01)), AT_REST, 1.0)
    assert distance((yawed.p_W, yawed.v_W), 0.0) <= 1e-14
    assert euler_from_quat(yawed.q_WB).yaw == pytest.approx(0.5 * 0.01 / 0.0142, rel=1e-9)
    rolled = rk45(moving(hover, Vec3(0.01, 0.0, 0.0)), AT_REST, 1.0)
    pitched = rk45(moving(hover, Vec3(0.0, 0.01, 0.0)), AT_REST, 1.0)
    assert rolled.p_W.y < -0.1 and rolled.p_W.x == 0.0
    assert pitched.p_W.x > 0.1 and pitched.p_W.y == 0.0


def test_a_rigid_body_has_six_degrees_of_freedom_and_twelve_states():
    """(v, ω) ↦ (ṗ, q̇) reaches six independent directions among seven numbers, all along the sphere |q| = 1."""
    q_WB = quat_from_euler(0.4, -0.7, 1.9)
    reached = [[*v, *attitude_rate(q_WB, Vec3(*w))] for v, w in np.eye(6).reshape(6, 2, 3)]
    assert np.linalg.matrix_rank(reached) == 6
    assert np.abs(np.array(reached)[:, 3:] @ np.array(q_WB)).max() <= EPS


def test_hakoniwa_ground_rows():
    """−T/m (cφ sθ cψ + sφ sψ, cφ sθ sψ − sφ cψ, cφ cθ) + (0, 0, g), in NED/FRD.

    The document's third row has sin φ cos θ: a level drone would get no lift.
    """
    phi, theta, psi = random_angles()
    T, m, g = 9.0, 0.71, 9.81
    (sf, st, sp), (cf, ct, cp) = np.sin([phi, theta, psi]), np.cos([phi, theta, psi])
    expected = -T / m * np.array([cf * st * cp + sf * sp, cf * st * sp - sf * cp, cf * ct])
    expected[2] += g
    actual = translational_acceleration(
        quat_from_euler(phi, theta, psi), Vec3(0.0, 0.0, -T), Vec3(0.0, 0.0, m * g), mass=m
    )
    assert distance(actual, expected) <= 2e-14
    level = translational_acceleration(IDENTITY, Vec3(0.0, 0.0, -m * g), Vec3(0.0, 0.0, m * g), mass=m)
    assert distance(level, 0.0) <= 2e-15


def test_hakoniwa_hello_world_prints_minus_200_100_300():
    """Yaw 90°: the body's (100, 200, 300) is (−200, 100, 300) on the ground; the document prints the inverse."""
    q_WB = quat_from_euler(0.0, 0.0, math.pi / 2)
    assert distance(rotate(q_WB, Vec3(100.0, 200.0, 300.0)), (-200.0, 100.0, 300.0)) <= 1e-13
    assert distance(body_velocity(q_WB, Vec3(100.0, 200.0, 300.0)), (200.0, -100.0, 300.0)) <= 1e-13


@pytest.mark.parametrize(
    ("omega_B", "roll", "expected"),
    [
        ((0.0, 0.0, 0.0), 0.0, (0.0, 0.0, -4.0)),
        ((1.0, 1.0, 1.0), 0.0, (-1.0, 2.0, -5.0)),
        ((0.0, 0.0, 0.0), math.radians(30.0), (0.0, 0.5, -5.0 + math.sqrt(0.75))),
    ],
)
def test_hakoniwa_acceleration_in_the_body_frame(omega_B, roll, expected):
    """v (1, 2, 3), T 10, m 2, g 1 in FRD: u̇ = Rᵀ g − T/m e₃ − ω × u; the published values."""
    u_B, q_WB = Vec3(1.0, 2.0, 3.0), quat_from_euler(roll, 0.0, 0.0)
    a_B = body_velocity(q_WB, Vec3(0.0, 0.0, 1.0)) + Vec3(0.0, 0.0, -10.0 / 2.0)
    assert distance(body_velocity_rate(u_B, Vec3(*omega_B), a_B), expected) <= 1e-15


@pytest.mark.parametrize(("inertia", "holds"), [((0.01, 0.01, 0.01), True), ((0.01, 0.014, 0.02), False)])
def test_hakoniwa_only_a_sphere_obeys_i_omega_dot_equals_tau_on_the_ground(inertia, holds):
    """In ground axes d(J_W ω_W)/dt = τ_W with J_W = R J Rᵀ rotating along; I ω̇ = τ would omit that term."""
    q_WB, omega_B, tau_B = quat_from_euler(0.4, -0.7, 1.9), Vec3(3.0, 2.0, -1.0), Vec3(0.01, -0.02, 0.03)
    R = rotation(q_WB).as_matrix()
    J_W, omega_W, tau_W = R @ np.diag(inertia) @ R.T, R @ np.array(omega_B), R @ np.array(tau_B)
    alpha_W = R @ np.array(angular_acceleration(omega_B, tau_B, inertia_B=diagonal(Vec3(*inertia))))
    turning = np.cross(omega_W, J_W @ omega_W)  # (dJ_W/dt) ω_W
    assert distance(J_W @ alpha_W + turning, tau_W) <= 1e-16
    assert (distance(J_W @ alpha_W, tau_W) <= 1e-16) is holds
