"""Document 002's quadrotor: its example and table, its equations in plain NumPy, closed forms, and its errata."""

import inspect
import io
import itertools
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from figures import rigid_body as demo
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from scipy.special import ellipj
from support.repository import REPOSITORY
from tools.rigid_body_checks import LAWS, Check, main, seven_checks, table

import samara
from samara.core.algebra import Mat3, Quat, cross, solve_definite
from samara.documents import rigid_body as quadrotor
from samara.documents.rigid_body import GimbalLockWarning, RigidBodyQuadrotor
from samara.physics import multirotor
from samara.physics.motion import gravity

FULL = np.array([[0.0082, 0.0006, -0.0009], [0.0006, 0.0095, 0.0004], [-0.0009, 0.0004, 0.0142]])  # [kg m²]
NOTHING = np.zeros(4)

USAGE = """\
from samara.documents.rigid_body import RigidBodyQuadrotor
import numpy as np
from scipy.integrate import solve_ivp

# Create quadrotor
quad = RigidBodyQuadrotor()

# Initial state: [x,y,z, vx,vy,vz, φ,θ,ψ, ωx,ωy,ωz]
x0 = np.zeros(12)
x0[2] = 3.0  # Start at 3m altitude

# Control: [F, τφ, τθ, τψ]
u = np.array([quad.m * quad.g, 0, 0, 0])  # Hover

# Simulate
def dynamics(t, x):
    return quad.dynamics(t, x, u)

sol = solve_ivp(dynamics, [0, 10], x0, dense_output=True)
"""

TABLE = """\
✓ PASS  | Rotation Matrix Properties
✓ PASS  | Free Fall
✓ PASS  | Hover
✓ PASS  | Pure Rotation
✓ PASS  | Gyroscopic Effect
✓ PASS  | Angular Momentum Conservation
✓ PASS  | Energy Conservation

Total: 7/7 tests passed
"""


def fly(quad, x0, u, seconds, **options):
    """The states (n, k) of `solve_ivp` under a constant u; the last column is the end."""
    tight = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13, **options}
    sol = solve_ivp(lambda t, x: quad.dynamics(t, x, np.asarray(u)), (0.0, seconds), x0, **tight)
    assert sol.success
    return sol.y


def build_state(p=(0.0, 0.0, 0.0), v=(0.0, 0.0, 0.0), euler=(0.0, 0.0, 0.0), omega=(0.0, 0.0, 0.0)):
    return np.array([*p, *v, *euler, *omega])


def rotation(x):
    """SciPy's rotation of a state of 12 or 13 numbers: an independent attitude."""
    return Rotation.from_euler("ZYX", x[8:5:-1]) if len(x) == 12 else Rotation.from_quat(np.roll(x[6:10], -1))


def random_states(count=50, seed=1):
    rng = np.random.default_rng(seed)
    angles = rng.uniform((-3.0, -1.4, -3.0), (3.0, 1.4, 3.0), (count, 3))
    return np.column_stack([rng.normal(size=(count, 6)) * 5.0, angles, rng.normal(size=(count, 3)) * 4.0])


def random_commands(count=50, seed=2):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(0.0, 25.0, count), rng.normal(size=(count, 3)) * 0.1])


# The document's statements ------------------------------------------------------------------------------------------


def test_the_documented_example_runs_and_hovers():
    """Ten seconds under F = m g: the state is the initial one, to the last bit, along the complete solution."""
    names = {}
    exec(USAGE, names)
    sol = names["sol"]
    assert sol.success and sol.t[-1] == 10.0
    assert (sol.sol(np.linspace(0.0, 10.0, 7)) == names["x0"][:, None]).all()


def test_the_example_and_the_table_are_the_documents(shared_folder):
    """Literally, except for the name of the module."""
    (path,) = (shared_folder / "seeds").glob("002_*.txt")
    text = path.read_text(encoding="utf-8")
    assert USAGE.replace("from samara.documents.rigid_body import", "from rigid_body_quadrotor import") in text
    assert TABLE in text


def test_the_defaults_are_the_documents():
    quad = RigidBodyQuadrotor()
    assert (quad.m, quad.g, quad.hover_thrust()) == (1.2, 9.81, 1.2 * 9.81)
    assert quad.I.tolist() == np.diag([0.0081, 0.0081, 0.0142]).tolist()
    assert quad.D.tolist() == np.diag([0.1, 0.1, 0.15]).tolist()
    assert quad.I_inv @ quad.I == pytest.approx(np.eye(3), abs=1e-15)
    assert not quad.vehicle.has("contact")  # the document has no ground
    assert repr(quad).startswith("RigidBodyQuadrotor(mass=1.2, inertia=[[0.0081, ")


def test_dynamics_are_the_printed_equations():
    """m v̇ = R [0,0,F] + [0,0,−mg] − D v, I ω̇ = τ − ω × Iω, η̇ = W ω: the document's matrices in plain NumPy, full I."""
    quad = RigidBodyQuadrotor(mass=0.9, inertia=FULL, g=9.7, D=(0.2, 0.3, 0.4))
    for x, u in zip(random_states(), random_commands(), strict=True):
        v, (phi, theta, psi), omega = x[3:6], x[6:9], x[9:12]
        force = printed_rotation(phi, theta, psi) @ [0, 0, u[0]] + [0, 0, -0.9 * 9.7] - np.diag([0.2, 0.3, 0.4]) @ v
        alpha = np.linalg.inv(FULL) @ (u[1:] - np.cross(omega, FULL @ omega))
        expected = np.concatenate([v, force / 0.9, printed_rates(phi, theta) @ omega, alpha])
        assert quad.dynamics(0.0, x, u) == pytest.approx(expected, rel=1e-13, abs=1e-13 * np.abs(expected).max())


def printed_rotation(phi, theta, psi):
    (sf, st, sp), (cf, ct, cp) = np.sin([phi, theta, psi]), np.cos([phi, theta, psi])
    return np.array(
        [
            [cp * ct, cp * st * sf - sp * cf, cp * st * cf + sp * sf],
            [sp * ct, sp * st * sf + cp * cf, sp * st * cf - cp * sf],
            [-st, ct * sf, ct * cf],
        ]
    )


def printed_rates(phi, theta):
    s, c, t = np.sin(phi), np.cos(phi), np.tan(theta)
    return np.array([[1, s * t, c * t], [0, c, -s], [0, s / np.cos(theta), c / np.cos(theta)]])


def test_the_rotation_matrix_is_the_printed_one():
    """Entry by entry, and RᵀR = 1, det R = 1; of three angles, of an array of them, of a state, of a quaternion."""
    quad = RigidBodyQuadrotor()
    for x in random_states():
        matrix = quad.rotation_matrix(*x[6:9])
        assert matrix == pytest.approx(printed_rotation(*x[6:9]), abs=1e-15)
        assert matrix.T @ matrix == pytest.approx(np.eye(3), abs=2e-15)
        assert np.linalg.det(matrix) == pytest.approx(1.0, abs=2e-15)
        for argument in (x[6:9], x, quad.quaternion_state(x), quad.quaternion_state(x)[6:10]):
            assert quad.rotation_matrix(argument) == pytest.approx(matrix, abs=2e-15)


def test_the_euler_rate_matrix_is_the_printed_one():
    quad = RigidBodyQuadrotor()
    for x in random_states():
        W = printed_rates(x[6], x[7])
        for arguments in ((x[6], x[7]), (x[6:9],), (x,), (quad.quaternion_state(x),)):
            assert quad.euler_rate_matrix(*arguments) == pytest.approx(W, rel=1e-12, abs=1e-14)


def test_body_axes_are_where_the_body_points():
    """Columns of R: SciPy rotates the three unit vectors."""
    quad = RigidBodyQuadrotor()
    for x in random_states(10):
        for argument in (x, x[6:9]):
            assert np.array(quad.get_body_axes(argument)) == pytest.approx(rotation(x).apply(np.eye(3)), abs=2e-15)


# The seven checks ---------------------------------------------------------------------------------------------------


def test_the_command_prints_the_documents_table():
    done = subprocess.run(
        [sys.executable, "-m", "tools.rigid_body_checks"],
        capture_output=True,
        encoding="utf-8",
        cwd=REPOSITORY / "docs",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, TABLE, "")


def test_a_terminal_without_check_marks_still_reads_pass(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", newline="\n", write_through=True))
    assert main() == 0
    assert written.getvalue().decode("ascii") == TABLE.replace("✓", "?")


def gyroscopic_sign(omega_B, tau_B, *, inertia_B):
    return solve_definite(inertia_B, tau_B + cross(omega_B, inertia_B @ omega_B))


def world_rates(q_WB, omega_B):
    return Quat(0.0, *(omega_B * 0.5)) * q_WB


def too_heavy(q_WB, f_B, f_W, *, mass, right=multirotor.translational_acceleration):
    return right(q_WB, f_B, f_W, mass=mass * (1.0 + 1e-9))


def not_a_number(q_WB, f_B, f_W, *, mass):
    return f_W * math.nan


WRONG = {
    "R transposed": (
        (quadrotor, "matrix_from_quat", lambda q, right=quadrotor.matrix_from_quat: right(q).transpose),
        {"Rotation Matrix Properties"},
    ),
    "weight that pushes up": (
        (gravity, "weight", lambda mass, g, right=gravity.weight: -right(mass, g)),
        {"Free Fall", "Hover", "Pure Rotation", "Energy Conservation"},
    ),
    "mass wrong by 1e-9": ((multirotor, "translational_acceleration", too_heavy), {"Free Fall", "Energy Conservation"}),
    "sign of the gyroscopic term": (
        (multirotor, "angular_acceleration", gyroscopic_sign),
        {"Gyroscopic Effect", "Angular Momentum Conservation"},
    ),
    "world rates for body rates": ((quadrotor, "attitude_rate", world_rates), {"Angular Momentum Conservation"}),
    "Euler rates wrong by 1e-9": (
        (
            quadrotor,
            "euler_rates",
            lambda euler, omega_B, right=quadrotor.euler_rates: right(euler, omega_B * (1 + 1e-9)),
        ),
        {"Pure Rotation"},
    ),
    "not a number": (
        (multirotor, "translational_acceleration", not_a_number),
        {"Free Fall", "Hover", "Pure Rotation", "Angular Momentum Conservation", "Energy Conservation"},
    ),
}


@pytest.mark.parametrize(("bug", "caught"), WRONG.values(), ids=WRONG)
def test_the_table_fails_with_wrong_physics_and_says_where(bug, caught, monkeypatch, capsys):
    """A bug planted in the physics fails the checks of the laws it breaks, and sets the exit status."""
    monkeypatch.setattr(*bug)
    assert main() == 1
    lines = capsys.readouterr().out.splitlines()
    failed = {line.removeprefix("✗ FAIL  | ").partition(":")[0] for line in lines if line.startswith("✗")}
    assert failed == caught
    assert lines[-1] == f"Total: {7 - len(caught)}/7 tests passed"


def test_every_line_of_the_table_can_fail():
    assert set().union(*(caught for _, caught in WRONG.values())) == set(LAWS)


def test_a_check_that_is_not_a_number_has_failed():
    assert not Check("law", math.nan, 1.0).passed
    assert table([Check("law", 2.0, 1.0)]).startswith("✗ FAIL  | law: deviation 2, allowed 1e+00\n")


def test_the_checks_pass_with_room():
    """A tolerance that is nearly exceeded here would fail on another machine."""
    assert all(check.deviation <= 0.2 * check.allowed for check in seven_checks())


# Closed forms -------------------------------------------------------------------------------------------------------


def test_free_fall_whatever_the_tumbling():
    """p = p₀ + v₀ t − ½ g t² e₃ without drag: weight has no torque, and rotation no force."""
    quad = RigidBodyQuadrotor(inertia=FULL, D=0)
    x = quad.quaternion_state(build_state(p=(1, 2, 30), v=(3, -1, 2), euler=(0.4, -0.7, 1.9), omega=(3, 2, -1)))
    end = fly(quad, x, NOTHING, 2.0)[:, -1]
    assert end[0:3] == pytest.approx([1 + 6, 2 - 2, 30 + 4 - 0.5 * 9.81 * 4], abs=1e-13)
    assert end[3:6] == pytest.approx([3, -1, 2 - 2 * 9.81], abs=1e-13)


def test_terminal_velocity_and_decay_with_linear_drag():
    """vz = −(mg/d)(1 − e^{−dt/m}), z = −(mg/d)(t − (m/d)(1 − e^{−dt/m})); sideways v₀ e^{−dt/m}. Axis by axis."""
    quad, t = RigidBodyQuadrotor(), 15.0
    end = fly(quad, build_state(v=(4.0, -2.0, 0.0)), NOTHING, t)[:, -1]
    d, m = quad.D.diagonal(), quad.m
    faded = 1.0 - np.exp(-d * t / m)
    terminal, tau = m * quad.g / d[2], m / d[2]
    assert end[3:6] == pytest.approx([4 * (1 - faded[0]), -2 * (1 - faded[1]), -terminal * faded[2]], rel=1e-11)
    displacement = [4 * m / d[0] * faded[0], -2 * m / d[1] * faded[1], -terminal * (t - tau * faded[2])]
    assert end[0:3] == pytest.approx(displacement, rel=1e-11)
    at_last = build_state(v=(0.0, 0.0, -terminal))
    assert quad.dynamics(0.0, at_last, NOTHING)[3:6] == pytest.approx(np.zeros(3), abs=1e-14)


def test_a_flat_top_turns_as_the_textbook_says():
    """Ixx = Iyy: R(t) = exp(t [L_W]ₓ/Ixx) R₀ exp(−λt [e₃]ₓ), λ = (Izz/Ixx − 1) ωz; attitude and rates after 3 s."""
    quad, t = RigidBodyQuadrotor(g=0, D=0), 3.0
    x = quad.quaternion_state(build_state(euler=(0.4, -0.7, 1.9), omega=(1.5, -2.0, 4.0)))
    L_W = rotation(x).apply(quad.I @ x[10:13])
    wobble = (0.0142 / 0.0081 - 1.0) * 4.0
    expected = Rotation.from_rotvec(L_W / 0.0081 * t) * rotation(x) * Rotation.from_rotvec([0.0, 0.0, -wobble * t])
    end = fly(quad, x, NOTHING, t)[:, -1]
    assert (rotation(end) * expected.inv()).magnitude() <= 1e-11
    transverse = (1.5 - 2.0j) * np.exp(1j * wobble * t)
    assert end[10:13] == pytest.approx([transverse.real, transverse.imag, 4.0], abs=1e-11)


def test_three_different_moments_follow_jacobi_s_elliptic_functions():
    """ω = (a cn, b sn, c dn) of one argument, from (a, 0, c) around the largest axis (Landau & Lifshitz §37)."""
    (J1, J2, J3), a, c = (0.0056, 0.0081, 0.0129), 2.0, 3.0
    b = a * math.sqrt(J1 * (J3 - J1) / (J2 * (J3 - J2)))
    speed = c * math.sqrt((J3 - J1) * (J3 - J2) / (J1 * J2))
    modulus = (J2 - J1) * J1 * a * a / ((J3 - J2) * J3 * c * c)
    assert 0.05 < modulus < 1.0  # far from the sines of a flat top
    t = np.linspace(0.0, 8.0, 41)
    sn, cn, dn, _ = ellipj(speed * t, modulus)
    quad = RigidBodyQuadrotor(inertia=(J1, J2, J3), g=0, D=0)
    x0 = quad.quaternion_state(build_state(omega=(a, 0.0, c)))
    flight = itertools.accumulate(t[1:], lambda x, _: fly(quad, x, NOTHING, t[1])[:, -1], initial=x0)
    rates = np.array(list(flight))[:, 10:13]
    assert rates == pytest.approx(np.array([a * cn, b * sn, c * dn]).T, abs=1e-11)


# Errata of document 002 -----------------------------------------------------------------------------------------------


def test_002_thirty_degrees_of_roll_push_to_the_right_and_pitch_pushes_forward():
    """Roll gives (0, −F sin φ, F cos φ), where the document has F_x = F sin φ; that is what pitch gives."""
    quad, F, angle = RigidBodyQuadrotor(g=0, D=0), 7.0, math.radians(30.0)
    half, most = 7.0 / 2.0, 7.0 * math.sqrt(0.75)
    for euler, force in (((angle, 0, 0), (0.0, -half, most)), ((0, angle, 0), (half, 0.0, most))):
        rate = quad.dynamics(0.0, build_state(euler=euler), [F, 0, 0, 0])
        assert quad.m * rate[3:6] == pytest.approx(force, abs=4e-15)


def test_002_hover_thrust_at_thirty_degrees_falls():
    """F = m g tilted: v̇z = g (cos φ − 1), which part of the document has right."""
    quad = RigidBodyQuadrotor()
    rate = quad.dynamics(0.0, build_state(euler=(math.radians(30), 0, 0)), [quad.hover_thrust(), 0, 0, 0])
    assert rate[5] == pytest.approx(9.81 * (math.sqrt(0.75) - 1.0), abs=1e-14)


def test_002_angular_momentum_is_conserved_in_the_world_and_only_its_length_in_the_body():
    """Torque-free for 5 s, under thrust, weight and drag: R I ω is constant, I ω rotates, |I ω| is constant."""
    quad = RigidBodyQuadrotor(inertia=FULL)
    x = quad.quaternion_state(build_state(euler=(0.4, -0.7, 1.9), omega=(3.0, 2.0, -1.0)))
    flight = fly(quad, x, [9.0, 0, 0, 0], 5.0)
    in_body = FULL @ flight[10:13]
    in_world = np.array([rotation(x).apply(L) for x, L in zip(flight.T, in_body.T, strict=True)]).T
    size = np.linalg.norm(in_body[:, 0])
    assert np.abs(in_world - in_world[:, :1]).max() <= 1e-11 * size
    assert np.linalg.norm(in_body, axis=0) == pytest.approx(size, rel=1e-11)
    assert np.linalg.norm(in_body - in_body[:, :1], axis=0).max() > size
    for frame, expected in (("world", in_world), ("body", in_body), (None, in_world)):
        assert quad.angular_momentum(flight, frame) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("thrust", "torque"), [(0.0, 0.0), (9.0, 0.0), (0.0, 0.05)])
def test_002_energy_is_conserved_without_thrust_and_torque_and_not_with(thrust, torque):
    """Without drag is not enough: E₁ − E₀ = ∫ (F b₃·v + τ·ω) dt, by quadrature over the flight."""
    quad = RigidBodyQuadrotor(inertia=FULL, D=0)
    x = quad.quaternion_state(build_state(v=(1, -2, 3), euler=(0.5, 0.2, 0.0), omega=(1, 2, 3)))
    u = np.array([thrust, torque, 0.0, 0.0])
    points, weights = np.polynomial.legendre.leggauss(40)
    sol = solve_ivp(
        lambda t, x: quad.dynamics(t, x, u), (0, 1), x, method="DOP853", rtol=1e-12, atol=1e-13, dense_output=True
    )
    along = sol.sol(0.5 + 0.5 * points)
    push = np.array([rotation(x).apply([0.0, 0.0, thrust]) for x in along.T])
    work = 0.5 * weights @ ((push * along[3:6].T).sum(axis=1) + torque * along[10])
    first, last = (
        0.6 * x[3:6] @ x[3:6] + 0.5 * x[10:13] @ FULL @ x[10:13] + 1.2 * 9.81 * x[2] for x in (x, sol.y[:, -1])
    )
    assert last - first == pytest.approx(work, abs=2e-9 if thrust or torque else 1e-11)
    assert abs(work) > 1e-2 if thrust or torque else work == 0.0
    assert quad.total_energy(sol.y[:, [0, -1]]) == pytest.approx([first, last], rel=1e-14)


def test_002_momentum_is_m_v_and_weight_takes_m_g_of_it_every_second():
    """m v(t) − m v(0) = −m g t e₃, so it is not conserved; weightless and without drag it is, to the last bit."""
    x = build_state(v=(2.0, -1.0, 3.0), omega=(0.3, 0.2, 0.1))
    heavy_quad, light = RigidBodyQuadrotor(D=0), RigidBodyQuadrotor(D=0, g=0)
    gained = 1.2 * (fly(heavy_quad, x, NOTHING, 1.5)[3:6, -1] - x[3:6])
    assert gained == pytest.approx([0.0, 0.0, -1.2 * 9.81 * 1.5], abs=1e-13)
    assert (fly(light, x, NOTHING, 1.5)[3:6, -1] == x[3:6]).all()


def test_002_only_a_torque_about_z_spins_on_the_spot():
    """ψ = ½ τ/Izz t² at rest; with a torque about x or y the thrust tilts and the body moves off."""
    quad, tau = RigidBodyQuadrotor(), 0.01
    hover = quad.hover_thrust()
    yawed = fly(quad, build_state(), [hover, 0, 0, tau], 1.0)[:, -1]
    assert yawed == pytest.approx(build_state(euler=(0, 0, 0.5 * tau / 0.0142), omega=(0, 0, tau / 0.0142)), abs=1e-13)
    rolled = fly(quad, build_state(), [hover, tau, 0, 0], 1.0)[:, -1]
    pitched = fly(quad, build_state(), [hover, 0, tau, 0], 1.0)[:, -1]
    assert rolled[1] < -0.1 and abs(rolled[0]) < 1e-15
    assert pitched[0] > 0.1 and abs(pitched[1]) < 1e-15
    assert rolled[6] == pytest.approx(0.5 * tau / 0.0081, rel=1e-12)  # small: 0.62 rad, W = 1 about x alone


def test_002_twelve_states_are_six_degrees_of_freedom():
    """The rates of the six coordinates (p, η) are a regular linear map of the six velocities (v, ω), for every u."""
    quad = RigidBodyQuadrotor()
    start = build_state(p=(1, 2, 3), euler=(0.4, -0.7, 1.9))
    coordinates, velocities = [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]
    reached = []
    for k in velocities:
        x = start.copy()
        x[k] = 1.0
        reached.append(quad.dynamics(0.0, x, [5.0, 0.1, 0.2, 0.3])[coordinates])
        assert (reached[-1] == quad.dynamics(0.0, x, NOTHING)[coordinates]).all()
    assert len(start) == 12
    assert np.linalg.matrix_rank(reached) == 6


def test_002_near_gimbal_lock_it_warns_and_goes_on():
    """Pitching over at 1 rad/s through θ = 90°: a warning that names the solution, and SciPy's attitude beyond."""
    quad = RigidBodyQuadrotor(g=0, D=0)
    before, beyond = math.pi / 2 - 0.01, math.pi / 2 + 0.02
    with pytest.warns(GimbalLockWarning, match=r"\|cos θ\| < 0\.001: .*quaternion_state") as caught:
        end = fly(quad, build_state(euler=(0, before, 0), omega=(0, 1, 0)), NOTHING, 0.03, max_step=1e-3)[:, -1]
    assert {warning.filename for warning in caught} == {__file__}
    assert end[6:9] == pytest.approx([0.0, beyond, 0.0], abs=1e-14)
    assert (rotation(end) * Rotation.from_rotvec([0.0, -beyond, 0.0])).magnitude() <= 1e-14


@pytest.mark.parametrize("theta", [math.pi / 2, -math.pi / 2, math.pi / 2 - 9e-4, -math.pi / 2 + 9e-4])
def test_002_the_rates_at_gimbal_lock_are_finite(theta):
    quad = RigidBodyQuadrotor()
    with pytest.warns(GimbalLockWarning):
        rate = quad.dynamics(0.0, build_state(euler=(0.3, theta, 0.5), omega=(1, 2, 3)), NOTHING)
    assert np.isfinite(rate).all()
    assert rate[7] == pytest.approx(2.0 * math.cos(0.3) - 3.0 * math.sin(0.3), rel=1e-15)
    with pytest.warns(GimbalLockWarning):
        assert np.isfinite(quad.euler_rate_matrix(0.3, theta)).all()


def test_002_the_warning_begins_where_the_document_s_threshold_is():
    """|cos θ| = 1.01e-3 is silent (any warning here is an error), and one state of a batch is enough for a warning."""
    quad = RigidBodyQuadrotor()
    near, nearer = math.pi / 2 - 1.01e-3, math.pi / 2 - 0.99e-3
    quad.dynamics(0.0, build_state(euler=(0.0, near, 0.0)), NOTHING)
    both = np.column_stack([build_state(euler=(0.0, near, 0.0)), build_state(euler=(0.0, nearer, 0.0))])
    with pytest.warns(GimbalLockWarning):
        quad.dynamics(0.0, both, NOTHING)


def test_002_a_solver_that_stays_near_gimbal_lock_is_told_once():
    """The text does not change with θ, so Python's default filter prints one warning for one line of code."""
    quad = RigidBodyQuadrotor()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for small in np.linspace(0.0, 9e-4, 50):
            quad.dynamics(0.0, build_state(euler=(0.0, math.pi / 2 - small, 0.0)), NOTHING)
    assert len(caught) == 1


def test_002_the_quaternion_form_knows_no_gimbal_lock():
    """A constant body rate through θ = 90° with all three components: exp(t ω) by SciPy, without a warning (it would fail)."""
    quad = RigidBodyQuadrotor(inertia=(0.01, 0.01, 0.01), g=0, D=0)
    omega = np.array([0.3, 2.0, -0.4])
    start = quad.quaternion_state(build_state(euler=(0.2, 1.4, -0.5), omega=omega))
    flight = fly(quad, start, NOTHING, 2.0, max_step=0.01)
    pitch = quad.euler_state(flight)[7]
    assert np.diff(pitch).min() < 0.0 < np.diff(pitch).max() and pitch.max() > 1.45  # over the top
    assert (rotation(flight[:, -1]) * (rotation(start) * Rotation.from_rotvec(2.0 * omega)).inv()).magnitude() <= 1e-12


@pytest.mark.parametrize("ratio", [1.7, 0.4])
def test_002_motors_lag_by_a_first_order_in_their_speed(ratio):
    """Ω = Ω₁ + (Ω₀ − Ω₁) e^{−t/τ} from hover to more or less, F = F₁ (Ω/Ω₁)², and v = ∫ (F/m − g) dt in closed form.

    With a = Ω₀/Ω₁ − 1 and e = e^{−t/τ}: v = (F₁/m)(t + 2aτ(1 − e) + ½a²τ(1 − e²)) − g t.
    """
    tau, t = 0.05, 0.12
    quad = RigidBodyQuadrotor(motor_lag=tau, D=0)
    F0, F1 = quad.hover_thrust(), ratio * quad.hover_thrust()
    before = np.array(samara.hover(quad.vehicle)[0].rotor_speed)
    after = before * math.sqrt(F1 / F0)
    end = fly(quad, np.concatenate([build_state(), before]), [F1, 0, 0, 0], t)[:, -1]
    e, a = math.exp(-t / tau), math.sqrt(F0 / F1) - 1.0
    assert end[12:16] == pytest.approx(after + (before - after) * e, rel=1e-12)
    v = F1 / quad.m * (t + 2 * a * tau * (1 - e) + 0.5 * a * a * tau * (1 - e * e)) - quad.g * t
    assert end[5] == pytest.approx(v, rel=1e-11)
    assert end[[3, 4, *range(6, 12)]] == pytest.approx(np.zeros(8), abs=1e-14)


def test_002_settled_motors_give_the_thrust_and_torques_asked_for():
    """At Ω = Ω_des the body moves as under u: a lag has gain one. K(Ω_des² − Ω²) would be zero here."""
    ideal, lagging = RigidBodyQuadrotor(), RigidBodyQuadrotor(motor_lag=0.05)
    for x, u in zip(random_states(20), random_commands(20), strict=True):
        u = u * [1.0, 0.5, 0.5, 0.1] + [8.0, 0.0, 0.0, 0.0]  # no rotor needs negative thrust
        still = np.concatenate([x, np.zeros(4)])
        settled = np.concatenate([x, 0.05 * lagging.dynamics(0.0, still, u)[12:]])
        rate = lagging.dynamics(0.0, settled, u)
        assert rate[:12] == pytest.approx(ideal.dynamics(0.0, x, u), rel=1e-11, abs=1e-11)
        assert rate[12:] == pytest.approx(np.zeros(4), abs=1e-9)


def test_002_the_rotors_that_speed_up_are_those_that_push_the_right_way():
    """+τφ (right side down) by the left ones, +τθ (nose down) by the rear, +τψ by the clockwise: front left, back right."""
    quad = RigidBodyQuadrotor(motor_lag=0.05)
    hovering = np.concatenate([build_state(), samara.hover(quad.vehicle)[0].rotor_speed])
    for axis, faster in ((1, {0, 3}), (2, {2, 3}), (3, {0, 2})):  # front left, front right, back right, back left
        u = np.array([quad.hover_thrust(), 0.0, 0.0, 0.0])
        u[axis] = 0.02
        assert set(np.flatnonzero(quad.dynamics(0.0, hovering, u)[12:] > 0.0)) == faster


# The same motion in other variables, and in other solvers ---------------------------------------------------------------


def test_euler_angles_and_quaternion_are_one_motion():
    """Thrust, torque, drag and a full inertia for 2 s, each form integrated separately."""
    quad = RigidBodyQuadrotor(inertia=FULL)
    x = build_state(p=(1, 2, 3), v=(3, -2, 1), euler=(0.3, -0.5, 0.8), omega=(0.8, 0.4, -0.9))
    u = [13.0, 0.004, -0.006, 0.01]
    angles, quaternion = (fly(quad, start, u, 2.0)[:, -1] for start in (x, quad.quaternion_state(x)))
    assert np.abs(angles[6:9] - x[6:9]).max() > 1.0  # the attitude did change
    assert np.delete(angles, [6, 7, 8]) == pytest.approx(np.delete(quaternion, [6, 7, 8, 9]), abs=2e-11)
    assert (rotation(angles) * rotation(quaternion).inv()).magnitude() <= 2e-11
    assert quad.euler_state(quad.quaternion_state(x)) == pytest.approx(x, abs=1e-15)


def test_a_quaternion_that_drifted_still_turns_as_it_should():
    """q of length 1.01: the same accelerations, and a rate with the same rotation that keeps the length."""
    quad = RigidBodyQuadrotor(inertia=FULL)
    for x, u in zip(random_states(10), random_commands(10), strict=True):
        unit = quad.quaternion_state(x)
        long = unit.copy()
        long[6:10] *= 1.01
        a, b = quad.dynamics(0.0, unit, u), quad.dynamics(0.0, long, u)
        assert np.delete(b, [6, 7, 8, 9]) == pytest.approx(np.delete(a, [6, 7, 8, 9]), rel=1e-13, abs=1e-13)
        assert b[6:10] == pytest.approx(1.01 * a[6:10], rel=1e-13)
        assert b[6:10] @ long[6:10] == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("lag", [None, 0.05])
@pytest.mark.parametrize("form", ["euler_state", "quaternion_state"])
def test_many_states_at_once_are_each_of_them(form, lag):
    """(n, k) is k columns: rates, rotations, axes, momenta, energies."""
    quad = RigidBodyQuadrotor(inertia=FULL, motor_lag=lag)
    x, u = random_states(7), random_commands(7)
    if lag:
        x = np.column_stack([x, np.random.default_rng(3).uniform(400, 700, (7, 4))])
    states = getattr(quad, form)(x.T)
    for function in (
        lambda x, u: quad.dynamics(0.0, x, u),
        lambda x, u: quad.dynamics(0.0, x, [11.0, 0.1, 0.0, 0.0]),
        lambda x, u: quad.rotation_matrix(x),
        lambda x, u: quad.euler_rate_matrix(x),
        lambda x, u: np.array(quad.get_body_axes(x)),
        lambda x, u: quad.angular_momentum(x),
        lambda x, u: quad.total_energy(x),
        lambda x, u: quad.quaternion_state(x),
    ):
        batch_result = function(states, u.T)
        single_results = np.stack([function(states[:, k], u[k]) for k in range(7)], axis=-1)
        assert batch_result.shape == single_results.shape
        assert batch_result == pytest.approx(single_results, rel=1e-14, abs=1e-14)


def test_an_implicit_solver_takes_it_vectorized():
    """`solve_ivp(vectorized=True)` evaluates many columns at once, and ends where the explicit solver does."""
    quad = RigidBodyQuadrotor()
    x, u = (
        build_state(v=(3, -2, 1), euler=(0.3, -0.5, 0.8), omega=(0.8, 0.4, -0.9)),
        np.array([13.0, 0.004, -0.006, 0.01]),
    )
    widths = set()

    def rate(t, x):
        widths.add(np.shape(x)[1:])
        return quad.dynamics(t, x, u)

    sol = solve_ivp(rate, (0.0, 1.0), x, method="Radau", vectorized=True, rtol=1e-8, atol=1e-10)
    assert sol.success
    assert (12,) in widths
    assert sol.y[:, -1] == pytest.approx(fly(quad, x, u, 1.0)[:, -1], abs=2e-7)


def test_it_is_the_vehicle_that_the_rest_of_samara_flies():
    """`samara.step` on `quad.vehicle` from `quad.state(x)` arrives where `solve_ivp` does."""
    quad = RigidBodyQuadrotor(mass=0.9, inertia=FULL, motor_lag=0.05)
    x = np.concatenate(
        [build_state(v=(3, -2, 1), euler=(0.3, -0.5, 0.8), omega=(0.8, 0.4, -0.9)), [400.0, 500.0, 450.0, 480.0]]
    )
    u = [9.0, 0.004, -0.006, 0.01]
    end = fly(quad, quad.quaternion_state(x), u, 0.5)[:, -1]
    speeds = tuple(quad.dynamics(0.0, np.concatenate([x[:12], np.zeros(4)]), u)[12:] * 0.05)
    state = samara.step(quad.state(x), speeds, quad.vehicle, 0.5, method="rk45")
    assert state.to_numpy() == pytest.approx(end, rel=1e-8, abs=1e-8)


def test_momentum_of_omega_alone_is_in_the_body():
    """Three numbers carry no attitude: L_B = I ω; of a level state both frames are the same."""
    quad, omega = RigidBodyQuadrotor(inertia=FULL), np.array([1.0, -2.0, 3.0])
    assert quad.angular_momentum(omega) == pytest.approx(FULL @ omega, rel=1e-15)
    assert quad.angular_momentum(build_state(omega=omega)) == pytest.approx(FULL @ omega, rel=1e-15)


# Parameters, valid and invalid ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inertia",
    [
        {"Ixx": 0.01, "Iyy": 0.011, "Izz": 0.012},
        {"inertia": (0.01, 0.011, 0.012)},
        {"inertia": np.diag([0.01, 0.011, 0.012])},
        {"inertia": Mat3(0.01, 0.0, 0.0, 0.0, 0.011, 0.0, 0.0, 0.0, 0.012)},
    ],
)
def test_inertia_is_spelt_in_four_ways(inertia):
    assert RigidBodyQuadrotor(mass=1, **inertia).I.tolist() == np.diag([0.01, 0.011, 0.012]).tolist()


@pytest.mark.parametrize("D", [0.2, (0.2, 0.2, 0.2), 0.2 * np.eye(3)])
def test_drag_is_spelt_in_three_ways(D):
    assert RigidBodyQuadrotor(D=D).D.tolist() == (0.2 * np.eye(3)).tolist()


def test_no_drag_and_no_weight():
    quad = RigidBodyQuadrotor(D=0, g=0)
    assert (quad.g, quad.hover_thrust(), quad.D.any()) == (0.0, 0.0, False)
    assert (quad.dynamics(0.0, build_state(v=(1, 2, 3)), NOTHING)[3:6] == 0.0).all()


def test_positional_arguments_are_mass_and_moments():
    """The order that code written for the document uses."""
    names = list(inspect.signature(RigidBodyQuadrotor).parameters)
    assert names[:4] == ["mass", "Ixx", "Iyy", "Izz"]
    assert RigidBodyQuadrotor(1.0, 0.01, 0.01, 0.015).I[2, 2] == 0.015


def test_the_numbers_of_a_quadrotor_can_be_set():
    """A new value acts in the next call of `dynamics`, by the document's equation; a refused value changes nothing."""
    quad = RigidBodyQuadrotor()
    x, u = np.zeros(12), [6.0, 0.1, 0.2, 0.3]
    x[3:6] = 1.0, 2.0, 3.0
    quad.D = 0
    assert quad.dynamics(0.0, x, u)[3:6] == pytest.approx([0.0, 0.0, 6.0 / 1.2 - 9.81], abs=1e-14)
    quad.D = (0.1, 0.2, 0.3)
    quad.m = 2.0
    quad.g = 1.0
    assert quad.dynamics(0.0, x, u)[3:6] == pytest.approx([-0.05, -0.2, 3.0 - 1.0 - 0.45], abs=1e-14)
    quad.I = (0.01, 0.02, 0.025)
    assert quad.dynamics(0.0, x, u)[9:] == pytest.approx([10.0, 10.0, 12.0], rel=1e-12)
    assert quad.mass == 2.0 and quad.inertia[1, 1] == 0.02 and quad.I_inv[1, 1] == pytest.approx(50.0)
    quad.motor_lag = 0.05
    assert len(quad.dynamics(0.0, np.zeros(16), u)) == 16 and quad.motor_lag == 0.05
    quad.rotor_radius = 0.1
    assert quad.rotor_radius == 0.1
    with pytest.raises(ValueError, match=r"body.mass = -1.0 kg: expected a positive number"):
        quad.m = -1
    assert quad.m == 2.0


def test_the_elements_of_its_matrices_are_read_only():
    """A changed element without an effect would be worse."""
    quad = RigidBodyQuadrotor()
    for array in (quad.I, quad.D, quad.I_inv):
        with pytest.raises(ValueError, match="read-only"):
            array[2, 2] = 0.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mass": -1}, "body.mass = -1.0 kg: expected a positive number"),
        ({"mass": math.nan}, "body.mass = nan kg: expected a finite number"),
        ({"mass": "heavy"}, "mass = 'heavy': expected numbers"),
        ({"g": -9.81}, "gravity.acceleration = -9.81 m/s^2: expected a positive number"),
        ({"inertia": (0.01, 0.01)}, "inertia has the shape (2,); expected 3 numbers (the diagonal) or 3 rows of 3"),
        ({"inertia": (0.01, 0.01, 0.05)}, "expected principal moments that satisfy the triangle inequality"),
        ({"inertia": [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]}, "expected a symmetric matrix"),
        ({"inertia": (1, 1, 1), "Ixx": 1}, "inertia and Ixx, Iyy, Izz were both given"),
        ({"D": (0.1, -0.1, 0.1)}, "drag.linear = -0.1 N s/m: expected a number that is not negative"),
        ({"D": np.ones((3, 3))}, "expected one number, three, or a diagonal 3x3 matrix"),
        ({"motor_lag": 0}, "motor.time_constant_up = 0.0 s: expected a positive number"),
    ],
)
def test_a_body_that_cannot_be_is_refused_in_one_sentence(options, sentence):
    with pytest.raises(ValueError) as refused:
        RigidBodyQuadrotor(**options)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def corrupted_copy(array, *at, value=math.nan):
    array = np.array(array, dtype=float)
    array[at] = value
    return array


HOVER = (1.2 * 9.81, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("x", "u", "sentence"),
    [
        (corrupted_copy(build_state(), 7), HOVER, "x[7] (θ) is nan; expected a finite number"),
        (corrupted_copy(build_state(), 2, value=math.inf), HOVER, "x[2] (z) is inf; expected a finite number"),
        (build_state(), corrupted_copy(HOVER, 3), "u[3] (τψ) is nan; expected a finite number"),
        (corrupted_copy(np.zeros((12, 3)), 9, 2), HOVER, "x[9, 2] (ωx) is nan; expected a finite number"),
        (np.zeros(11), HOVER, "x has the shape (11,); expected (12,) [x y z vx vy vz φ θ ψ ωx ωy ωz] or (13,) ["),
        (build_state(), HOVER[:3], "u has the shape (3,); expected (4,) [F τφ τθ τψ]"),
        (np.zeros(13), HOVER, "the quaternion has length 0; expected 1"),
        (build_state(), "fast", "u = 'fast': expected numbers"),
    ],
)
def test_what_is_no_state_or_command_is_refused_by_name(x, u, sentence):
    with pytest.raises(ValueError) as refused:
        RigidBodyQuadrotor().dynamics(0.0, x, u)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda quad: quad.angular_momentum(build_state(), "ground"), "frame = 'ground': expected 'world' or 'body'"),
        (lambda quad: quad.angular_momentum((1, 2, 3), "world"), "L in the world needs the attitude"),
        (lambda quad: quad.rotation_matrix(0.1, 0.2), "an attitude of 2 arguments; expected φ, θ, ψ, or one array"),
        (lambda quad: quad.rotation_matrix(0.1, math.nan, 0.2), "angles[1] (θ) is nan"),
        (lambda quad: quad.total_energy(np.zeros(5)), "x has the shape (5,)"),
    ],
)
def test_what_cannot_be_asked_is_answered_in_a_sentence(call, sentence):
    with pytest.raises(ValueError) as refused:
        call(RigidBodyQuadrotor())
    assert str(refused.value).startswith(sentence)


# The three demonstrations ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_pictures_are_the_documents_three(tmp_path):
    """With the document's names, each a PNG, no other file in the folder, and no open figure."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    open_before = pyplot.get_fignums()
    paths = demo.draw_demo(tmp_path / "new")
    names = ["rigid_body_simulation.png", "gyroscopic_effect.png", "rigid_body_vs_point_mass.png"]
    assert paths == [tmp_path / "new" / name for name in names]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(names)
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size > 20_000 for path in paths)
    assert pyplot.get_fignums() == open_before


def test_the_step_response_arrives_and_leans_to_get_there():
    """At both targets within 5 cm and at rest; forward by pitch, never beyond 60°."""
    flown = demo.step_response()
    halfway = int(np.searchsorted(flown.time, demo.STEP_SECONDS))
    for moment, reference in ((halfway, demo.STEPS[0]), (-1, demo.STEPS[1])):
        assert np.linalg.norm(flown.x[0:3, moment] - np.array(reference.p_W)) < 0.05
        assert np.linalg.norm(flown.x[3:6, moment]) < 0.1
    euler = flown.quad.euler_state(flown.x)
    tilt = np.arccos(np.cos(euler[6]) * np.cos(euler[7]))
    assert 0.5 < tilt.max() < math.radians(60)
    assert euler[7, 20] > 0.3  # nose down to go forward
    assert euler[8, -1] == pytest.approx(math.pi / 2, abs=0.02)


def test_a_point_mass_stays_and_the_tilted_body_falls_and_drifts():
    """y = −(F sin φ/d)(t − T(1 − e^{−t/T})), T = m/d, and z likewise under F cos φ − m g: drag's closed form."""
    point, falling, level = demo.tilted().values()
    assert (point.x == point.x[:, :1]).all()
    quad, t = falling.quad, falling.time
    weight = quad.m * quad.g

    def moved(force, d):
        return force / d * (t - quad.m / d * (1.0 - np.exp(-d * t / quad.m)))

    assert falling.x[1] == pytest.approx(-moved(weight / 2, 0.1), abs=1e-6)
    assert falling.x[2] - 10 == pytest.approx(moved(weight * (math.sqrt(0.75) - 1), 0.15), abs=1e-6)
    assert level.x[2] == pytest.approx(10.0, abs=1e-12)
    assert level.x[1] == pytest.approx(-moved(weight / math.sqrt(3), 0.1), abs=1e-6)


def test_the_tumbling_bodies_have_no_torque_and_still_change_their_rates():
    for flown in demo.tumbling().values():
        assert not flown.u.any()
        assert np.ptp(flown.x[11]) > 3.9  # ωy, from one extreme to the other
        L_W = flown.quad.angular_momentum(flown.x)
        assert np.abs(L_W - L_W[:, :1]).max() <= 1e-10 * np.linalg.norm(L_W[:, 0])
