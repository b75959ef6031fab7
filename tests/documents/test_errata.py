"""The errata page: every row names a test, every named test exists; and the rows that no other test proves."""

import math
import re

import casadi
import numpy as np
import pytest
from support.pages import TEST_REFERENCE, missing_tests, table_rows
from support.traced_flights import rotation

import samara
from samara.core.algebra import UP, Quat, Vec3, euler_from_quat, quat_from_euler, rotate
from samara.core.integrate import rk45
from samara.physics.rotors.actuator import Lag, lag_step

UNDECIDED = "decided; proven with the solver"


# The page ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs" / "evidence" / "errata.md").read_text(encoding="utf-8")


def test_every_test_the_errata_name_exists(page):
    assert len(TEST_REFERENCE.findall(page)) > 40
    assert missing_tests(page) == []


def test_every_row_names_its_proof(page):
    """A row without a test is only a claim."""
    assert [row for row in table_rows(page) if not TEST_REFERENCE.search(row) and UNDECIDED not in row] == []


def test_the_page_covers_every_document(page):
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    for part in ("000", "001", "002", "003", "004", "Between the documents"):
        assert any(part in heading for heading in headings), part


def test_every_row_of_the_list_of_errata_is_on_the_page(page, shared_folder):
    """For each document at least as many rows as in the list from which the page was written."""

    def count(text: str) -> list[int]:
        parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        return [len(table_rows(part)) for part in parts if re.match(r"(Document )?00\d|Between", part)]

    listed = (shared_folder / "reference" / "errata.md").read_text(encoding="utf-8")
    assert len(count(page)) == len(count(listed)) == 6
    assert all(page_count >= list_count for page_count, list_count in zip(count(page), count(listed), strict=True))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`tests/documents/test_errata.py::test_every_row_names_its_proof`", []),
        (
            "`tests/documents/test_errata.py::test_every_row_names_its_prof`",
            ["tests/documents/test_errata.py::test_every_row_names_its_prof"],
        ),
        (
            "`tests/documents/test_eratta.py::test_every_row_names_its_proof`",
            ["tests/documents/test_eratta.py::test_every_row_names_its_proof"],
        ),
    ],
)
def test_a_misspelt_name_is_noticed(text, missing):
    assert missing_tests(text) == missing


def test_a_row_without_a_proof_is_noticed():
    head = "| says | right |\n|---|---|\n"
    assert table_rows(head + "| a | b |\n\ntext\n\n" + head + "| c | d |") == ["| a | b |", "| c | d |"]


# Document 001 ------------------------------------------------------------------------------------------------------


def test_001_the_exact_jacobian_of_the_thrust_axis_is_not_the_cross_product_form():
    """CasADi's ∂(R e₃)/∂q (3 × 4) has the closed form below; only times ∂(q ⊗ (1, δ))/∂δ does it become −2R[e₃]ₓ."""
    q = casadi.SX.sym("q", 4)
    axis = rotate(Quat(*casadi.vertsplit(q)), UP)
    exact = casadi.Function("J", [q], [casadi.jacobian(casadi.vertcat(*axis), q)])
    q_WB = quat_from_euler(0.4, -0.7, 1.9)
    w, x, y, z = q_WB
    jacobian = np.array(exact(list(q_WB)))
    # R e₃ = (2(xz + wy), 2(yz − wx), 1 − 2(x² + y²)), as `rotate` has it for a unit quaternion
    closed = 2.0 * np.array([[y, z, w, x], [-x, -w, z, y], [0.0, -2.0 * x, -2.0 * y, 0.0]])
    assert jacobian == pytest.approx(closed, abs=1e-15)

    skew = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    documented = -2.0 * rotation(q_WB).as_matrix() @ skew
    half_angles = np.array([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]])  # q ⊗ (0, eᵢ)
    assert jacobian @ half_angles == pytest.approx(documented, abs=1e-15)
    assert np.abs(jacobian[:, 1:] - documented).max() > 0.5  # for the stored components it is another matrix


def test_001_one_euler_step_of_50_ms_at_full_torque_is_no_step():
    """τ/J dt = 0.02 / 1.4e-5 · 0.05 = 71 rad/s; ½ (τ/J) dt² = 102° of roll, which explicit Euler misses completely.

    RK4 in one such step is 2° off, the adaptive method right: no method resolves the motion at 20 Hz.
    """
    body = samara.build_vehicle(
        "crazyflie body",
        mass=0.028,
        inertia=(1.4e-5, 1.4e-5, 2.17e-5),
        actuation="wrench",
        effects={"gravity": {"acceleration": 9.81}},
    )
    state, hover = samara.hover(body)
    full_torque = (hover[0], 0.02, 0.0, 0.0)
    rolled = 0.5 * 0.02 / 1.4e-5 * 0.05**2
    after = {method: samara.step(state, full_torque, body, 0.05, method=method) for method in ("euler", "rk4", "rk45")}
    for end in after.values():
        assert end.omega_B == pytest.approx((0.02 / 1.4e-5 * 0.05, 0.0, 0.0), rel=1e-14)
    assert after["euler"].omega_B.x == pytest.approx(71.43, abs=5e-3)
    assert math.degrees(rolled) == pytest.approx(102.3, abs=0.05)
    assert euler_from_quat(after["euler"].q_WB).roll == 0.0
    assert euler_from_quat(after["rk4"].q_WB).roll == pytest.approx(rolled, rel=0.02)
    assert euler_from_quat(after["rk45"].q_WB).roll == pytest.approx(rolled, rel=1e-9)


# Document 002 ------------------------------------------------------------------------------------------------------


def test_002_a_torque_of_squared_speeds_is_not_a_lag():
    """J ω̇ = K (ω_d² − ω²) gives ω_d tanh(K ω_d t / J): twice the step is reached in half the time.

    A first-order lag has one time constant: 1 − 1/e of any step after τ, twice the answer to twice the step.
    """
    K_over_J = 0.02

    def reached(target: float, time: float) -> float:
        (speed,) = rk45(lambda s: (K_over_J * (target**2 - s[0] ** 2),), (0.0,), time, rtol=1e-12, atol=1e-12)
        return float(speed)

    for target in (500.0, 1000.0):
        assert reached(target, 0.05) == pytest.approx(target * math.tanh(K_over_J * target * 0.05), rel=1e-10)
    assert reached(1000.0, 0.02) == pytest.approx(2.0 * reached(500.0, 0.04), rel=1e-10)
    motor = Lag(0.0, 2000.0, 0.05, 0.05)
    for target in (500.0, 1000.0):
        assert lag_step(0.0, target, 0.05, motor) == pytest.approx(target * (1.0 - math.exp(-1.0)), rel=1e-14)


# Document 003, and between the documents ---------------------------------------------------------------------------


def test_003_what_the_document_leaves_out_the_iris_has():
    """Damping c = (.02, .02, .01), rotor angular momentum and friction each act, and are named in the breakdown."""
    iris = samara.vehicle("iris_documented")
    hovering, command = samara.hover(iris)
    turning = hovering._replace(omega_B=Vec3(1.0, 2.0, 3.0), rotor_speed=(250.0, 213.0, 213.0, 213.0))
    parts = samara.wrench_breakdown(turning, command, iris)
    assert parts["damping"].tau_B == pytest.approx((-0.02, -0.04, -0.03), rel=1e-15)
    # −ω × H: the first rotor, 37 rad/s faster than its equals, turns counter-clockwise about z
    momentum = 1.2e-5 * 37.0
    tau = np.array(parts["rotor_momentum"].tau_B)
    assert tau[:2] == pytest.approx(-np.cross([1.0, 2.0, 3.0], [0.0, 0.0, momentum])[:2], rel=1e-12)
    assert iris["contact"].surface.friction == 0.8


def test_each_vehicle_keeps_its_documents_gravity_drag_and_current():
    """g 9.81, 9.81, 9.80665, 9.81; drag along world axes (document 004 takes it as an argument); which may charge."""
    gravity = {"crazyflie_documented": 9.81, "rigid_body_quadrotor": 9.81, "iris_documented": 9.80665, "hakoniwa": 9.81}
    vehicles = {name: samara.vehicle(name) for name in gravity}
    for name, vehicle in vehicles.items():
        assert vehicle["gravity"].acceleration == gravity[name]
    assert vehicles["iris_documented"].rotors[0].motor.current_min == 0.0
    assert vehicles["hakoniwa"].rotors[0].motor.current_min < -1e6
    turning = {name: _drag_turns_with_the_body(vehicle) for name, vehicle in vehicles.items() if vehicle.has("drag")}
    assert turning == {"crazyflie_documented": False, "rigid_body_quadrotor": False, "iris_documented": False}


def _drag_turns_with_the_body(vehicle):
    """Drag along body axes comes as f_B, along world axes as f_W."""
    state, command = samara.hover(vehicle)
    drag = samara.wrench_breakdown(state._replace(v_W=Vec3(1.0, 2.0, 3.0)), command, vehicle)["drag"]
    return drag.f_B != (0.0, 0.0, 0.0)
