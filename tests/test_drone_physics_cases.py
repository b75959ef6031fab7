"""Document 004's functions, rebuilt from ours, against the 30 groups of cases that are ours, from an independent build.

Its frames are NED and FRD; ours are ENU and FLU. What holds in any right-handed frame (rotation, Newton, Euler) is called
with its numbers as they are; what knows where up is (rotors) goes through `frames`. Where the library is wrong (`out_correct`)
we compare with what is right. Walls, boundaries and its linear rotors are not physics of ours yet.
"""

import json

import numpy as np
import pytest
from conftest import do_without

from samara.algebra import (
    IDENTITY,
    ZERO,
    Euler,
    Quat,
    Vec3,
    cross,
    diagonal,
    dot,
    euler_from_quat,
    matrix_from_quat,
    normalize,
    quat_from_euler,
    rotate,
    rotate_inverse,
)
from samara.frames import flu_from_frd, frd_from_flu
from samara.physics.actuator import Lag, lag_rate, speed_from_command
from samara.physics.body import (
    angular_acceleration,
    angular_velocity_from_euler_rates,
    attitude_rate,
    body_velocity_rate,
    euler_accelerations,
    euler_rates,
    translational_acceleration,
)
from samara.physics.drag import Drag, drag_force
from samara.physics.motor import DcMotor, dc_motor_rate, motor_current
from samara.physics.rotor import Rotor, rotor_load, rotor_momentum_torque, rotor_wrench

NOT_OURS = {  # groups of the file that wait for their phenomenon
    "velocity_after_contact_with_wall__normal",
    "velocity_after_contact_with_wall__points",
    "rotor_thrust_linear",
    "rotor_anti_torque_linear",
    "body_torque_linear",
    "body_thrust_linear",
    "boundary_is_near__distance",
    "boundary_is_near__plane",
}


@pytest.fixture(scope="module")
def groups(shared_folder):
    """The groups of cases by name."""
    path = shared_folder / "reference" / "drone_physics_cases.json"
    if not path.is_file():
        do_without("drone_physics_cases.json is not in the folder `shared` beside the repository")
    return json.loads(path.read_text(encoding="utf-8"))["functions"]


# Document 004's functions, composed of ours ------------------------------------------------------------------------


def attitude(angle):
    return quat_from_euler(*angle)


def body_vectors(drag):
    """Its scalar drag coefficients act on all three axes alike."""
    return Vec3(*drag) if isinstance(drag, list) else Vec3(drag, drag, drag)


def drag_of(given, velocity, wind=ZERO):
    return drag_force(velocity - wind, drag=Drag(body_vectors(given["drag1"]), body_vectors(given["drag2"])))


def acceleration_in_ground_frame(given):
    down = Vec3(0.0, 0.0, given["mass"] * given["gravity"])
    thrust = Vec3(0.0, 0.0, -given["thrust"])
    outside = down + drag_of(given, Vec3(*given["ground_velocity"]))
    return translational_acceleration(attitude(given["angle"]), thrust, outside, mass=given["mass"])


def acceleration_in_body_frame(given):
    q, v_B, mass = attitude(given["angle"]), Vec3(*given["body_velocity"]), given["mass"]
    wind_B = Vec3(*given.get("wind_body", (0.0, 0.0, 0.0)))
    weight_B = rotate_inverse(q, Vec3(0.0, 0.0, mass * given["gravity"]))
    force_B = Vec3(0.0, 0.0, -given["thrust"]) + weight_B + drag_of(given, v_B, wind_B)
    return body_velocity_rate(v_B, Vec3(*given["body_angular_velocity"]), force_B / mass)


def inertia(given):
    return diagonal(Vec3(given["I_xx"], given["I_yy"], given["I_zz"]))


def euler_acceleration(given):
    euler, rates = Euler(*given["euler"]), Vec3(*given["euler_rate"])
    omega = angular_velocity_from_euler_rates(euler, rates)
    alpha = angular_acceleration(omega, Vec3(*given["torque_body"]), inertia_B=inertia(given))
    return euler_accelerations(euler, rates, alpha)


def first_order_rotor(given):
    motor = Lag(0.0, given["Kr"], given["Tr"], given["Tr"])
    return lag_rate(given["omega"], speed_from_command(given["duty"], motor), motor)


def battery_rotor(given):
    motor = DcMotor(given["K"], given["R"], damping=given["D"])
    current = motor_current(given["duty"], given["Vbat"], given["omega"], motor)
    rotor = upright_rotor((0.0, 0.0, 0.0), 1, 1.0, given["Cq"])
    load = rotor_load(given["omega"], rotor)
    return dc_motor_rate(given["omega"], current, load.torque, given["J"], motor)


def upright_rotor(position_frd, ccw, thrust, torque, inertia=0.0):
    """Its rotors push up, along −z of FRD, which is +z of FLU; ccw is our spin."""
    return Rotor(flu_from_frd(Vec3(*position_frd)), Vec3(0.0, 0.0, 1.0), ccw, thrust, torque, inertia)


def body_torque(given):
    total = ZERO
    for place, ccw, omega, omega_dot in zip(
        given["position"], given["ccw"], given["omega"], given["omega_acceleration"], strict=True
    ):
        rotor = upright_rotor(place, ccw, given["Ct"], given["Cq"], given["J"])
        total = total + rotor_wrench(rotor_load(omega, rotor), rotor).tau_B
        total = total + rotor_momentum_torque(ZERO, omega, omega_dot, rotor)
    return frd_from_flu(total)


def anti_torque(given):
    alone = {"position": [[0.0, 0.0, 0.0]], "Ct": 1.0, "Cq": given["Cq"], "J": given["J"], "ccw": [given["ccw"]]}
    alone |= {"omega": [given["omega"]], "omega_acceleration": [given["omega_acceleration"]]}
    return body_torque(alone).z


def blow(given):
    """An impulse is a force for a moment; without one given, for a second."""
    return Vec3(*given["impulse"]) / given.get("delta_time", 1.0)


def linear_effect_of_blow(given):
    return translational_acceleration(IDENTITY, blow(given), ZERO, mass=given["mass"])


def angular_effect_of_blow(given):
    torque = cross(Vec3(*given["r1"]), blow(given))
    return angular_acceleration(ZERO, torque, inertia_B=diagonal(Vec3(*given["inertia_diag"])))


def thrust(given, omega):
    return rotor_load(omega, upright_rotor((0.0, 0.0, 0.0), 1, given["Ct"], 0.0)).thrust


OURS = {
    "ground_vector_from_body": lambda g: rotate(attitude(g["angle"]), Vec3(*g["body"])),
    "body_vector_from_ground": lambda g: rotate_inverse(attitude(g["angle"]), Vec3(*g["ground"])),
    "euler_rate_from_body_angular_velocity": lambda g: euler_rates(
        Euler(*g["euler"]), Vec3(*g["body_angular_velocity"])
    ),
    "body_angular_velocity_from_euler_rate": lambda g: angular_velocity_from_euler_rates(
        Euler(*g["euler"]), Vec3(*g["euler_rate"])
    ),
    "acceleration_in_ground_frame": acceleration_in_ground_frame,
    "acceleration_in_ground_frame__drag2": acceleration_in_ground_frame,
    "acceleration_in_body_frame__wind": acceleration_in_body_frame,
    "acceleration_in_body_frame": acceleration_in_body_frame,
    "angular_acceleration_in_body_frame": lambda g: angular_acceleration(
        Vec3(*g["body_angular_velocity"]), Vec3(*g["torque"]), inertia_B=inertia(g)
    ),
    "euler_acceleration_in_ground_frame": euler_acceleration,
    "quaternion_velocity_from_body_angular_velocity": lambda g: attitude_rate(
        Quat(*g["quaternion_wxyz"]), Vec3(*g["body_angular_velocity"])
    ),
    "quaternion_from_euler": lambda g: quat_from_euler(*g["euler"]),
    "euler_from_quaternion": lambda g: euler_from_quat(Quat(*g["quaternion_wxyz"])),
    "normalize_quaternion": lambda g: normalize(Quat(*g["quaternion_wxyz"])),
    "cross": lambda g: cross(Vec3(*g["u"]), Vec3(*g["v"])),
    "dot": lambda g: dot(Vec3(*g["u"]), Vec3(*g["v"])),
    "rotor_omega_acceleration__first_order": first_order_rotor,
    "rotor_omega_acceleration__battery": battery_rotor,
    "rotor_current": lambda g: motor_current(g["duty"], g["Vbat"], g["omega"], DcMotor(g["K"], g["R"])),
    "rotor_thrust": lambda g: thrust(g, g["omega"]),
    "rotor_anti_torque": anti_torque,
    "body_thrust": lambda g: sum(thrust(g, omega) for omega in g["omega"]),
    "body_torque": body_torque,
    "delta_velocity_from_impulse": linear_effect_of_blow,
    "acceleration_from_impulse": linear_effect_of_blow,
    "force_from_impulse": blow,
    "delta_angular_velocity_from_impulse": angular_effect_of_blow,
    "angular_acceleration_from_impulse": angular_effect_of_blow,
    "torque_from_impulse": lambda g: cross(Vec3(*g["r1"]), blow(g)),
}


@pytest.mark.parametrize("name", OURS)
def test_document_004_cases(groups, name):
    """Every case of the group to 1e-14 of its largest component: two independent programs, one physics."""
    cases = groups[name]["cases"]
    assert len(cases) == 20
    for case in cases:
        expected = np.atleast_1d(case.get("out_correct", case["out"]))
        ours = np.atleast_1d(np.array(OURS[name](case["in"]), dtype=float))
        assert ours == pytest.approx(expected, rel=0.0, abs=1e-14 * np.abs(expected).max())


def test_document_004_gimbal_lock_cases(groups):
    """θ = ±90°: the angles are not unique, the rotation they stand for is, and roll is set to 0 there as the library does."""
    for case in groups["euler_from_quaternion__gimbal_lock"]["cases"]:
        given = Quat(*case["in"]["quaternion_wxyz"])
        euler = euler_from_quat(given)
        expected = np.array(matrix_from_quat(given))
        assert np.array(matrix_from_quat(quat_from_euler(*euler))) == pytest.approx(expected, abs=1e-12)
        theirs = np.array(matrix_from_quat(quat_from_euler(*case["out"])))
        assert np.array(matrix_from_quat(quat_from_euler(*euler))) == pytest.approx(theirs, abs=1e-7)


def test_the_library_is_wrong_where_the_errata_say_so(groups):
    """Its quadratic drag lost a sign and its φ̈ a secant: ours agrees with the library exactly where the slip vanishes."""
    for name in ("acceleration_in_ground_frame__drag2", "euler_acceleration_in_ground_frame"):
        wrong = 0
        for case in groups[name]["cases"]:
            ours, library = np.array(OURS[name](case["in"])), np.array(case["out"])
            differs = np.abs(ours - library) > 1e-6 * np.abs(library).max()
            if name.startswith("euler"):
                assert not differs[1:].any()
            else:
                assert (differs == (np.array(case["in"]["ground_velocity"]) < 0.0)).all()
            wrong += differs.any()
        assert wrong >= 15


def test_no_group_of_the_file_is_forgotten(groups):
    """Each is either compared above or named as not ours yet."""
    assert set(groups) == set(OURS) | NOT_OURS | {"euler_from_quaternion__gimbal_lock"}
    assert sum(len(group["cases"]) for group in groups.values()) == 760


# The cases printed in the document's tests, which need no file -----------------------------------------------------


def test_document_004_printed_cases():
    """Body x at θ 30°, y at ψ 90°; hello world is (−200, 100, 300), its printed numbers are the inverse (errata)."""
    half = np.pi / 2.0
    assert rotate(quat_from_euler(0.0, np.pi / 6.0, 0.0), Vec3(1.0, 0.0, 0.0)) == pytest.approx((0.75**0.5, 0.0, -0.5))
    assert rotate(quat_from_euler(0.0, 0.0, half), Vec3(0.0, 1.0, 0.0)) == pytest.approx((-1.0, 0.0, 0.0), abs=1e-15)
    hello = Vec3(100.0, 200.0, 300.0)
    assert rotate(quat_from_euler(0.0, 0.0, half), hello) == pytest.approx((-200.0, 100.0, 300.0), rel=1e-14)
    assert rotate_inverse(quat_from_euler(0.0, 0.0, half), hello) == pytest.approx((200.0, -100.0, 300.0), rel=1e-14)


@pytest.mark.parametrize(
    ("angle", "omega", "expected"),
    [
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, -4.0)),
        ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (-1.0, 2.0, -5.0)),
        ((np.pi / 6.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.5, -5.0 + 0.75**0.5)),
    ],
)
def test_document_004_body_accelerations(angle, omega, expected):
    """v (1,2,3), T 10, m 2, g 1: (0,0,−4), turning (−1,2,−5), rolled 30° (0, .5, −4.134)."""
    given = {"body_velocity": (1.0, 2.0, 3.0), "angle": angle, "body_angular_velocity": omega, "thrust": 10.0}
    given |= {"mass": 2.0, "gravity": 1.0, "drag1": 0.0, "drag2": 0.0}
    assert acceleration_in_body_frame(given) == pytest.approx(expected, abs=1e-14)


def test_document_004_euler_equation():
    """I (2,5,8), ω (1,2,3), τ (1,2,3): (−8.5, 4, −.375); no body has such moments, and the equation does not mind."""
    alpha = angular_acceleration(Vec3(1.0, 2.0, 3.0), Vec3(1.0, 2.0, 3.0), inertia_B=diagonal(Vec3(2.0, 5.0, 8.0)))
    assert alpha == pytest.approx((-8.5, 4.0, -0.375), rel=1e-15)


def test_document_004_rotor_torques():
    """Anti-torque Cq 1, J 1, ω 10, ω̇ 1: ±101; + layout of 0.3 m: front alone (0, 3000, 0), left alone (3000, 0, 0); the
    left and right pair faster: (0, 0, 60000)."""
    for ccw in (1, -1):
        assert anti_torque({"Cq": 1.0, "J": 1.0, "omega": 10.0, "omega_acceleration": 1.0, "ccw": ccw}) == ccw * 101.0
    layout = {
        "position": [(0.3, 0.0, 0.0), (0.0, -0.3, 0.0), (-0.3, 0.0, 0.0), (0.0, 0.3, 0.0)],
        "ccw": [-1, 1, -1, 1],
        "omega_acceleration": [0.0] * 4,
        "J": 0.0,
    }
    for speeds, expected in (((100.0, 0, 0, 0), (0.0, 3000.0, 0.0)), ((0, 100.0, 0, 0), (3000.0, 0.0, 0.0))):
        assert body_torque({**layout, "Ct": 1.0, "Cq": 0.0, "omega": speeds}) == pytest.approx(expected, rel=1e-14)
    pairs = {**layout, "Ct": 10.0, "Cq": 1.0, "omega": (100.0, 200.0, 100.0, 200.0)}
    assert body_torque(pairs) == pytest.approx((0.0, 0.0, 60000.0), abs=1e-10)


def test_document_004_ground_rows_need_psi_and_cos_phi():
    """v̇ = −T/m (cφ sθ cψ + sφ sψ, cφ sθ sψ − sφ cψ, cφ cθ) + g e₃, not the printed sinφ of rows two and three (errata)."""
    phi, theta, psi = 0.3, -0.4, 1.1
    given = {
        "ground_velocity": (0.0, 0.0, 0.0),
        "angle": (phi, theta, psi),
        "thrust": 12.0,
        "mass": 1.5,
        "gravity": 9.81,
    }
    s, c = np.sin, np.cos
    expected = -8.0 * np.array(
        [
            c(phi) * s(theta) * c(psi) + s(phi) * s(psi),
            c(phi) * s(theta) * s(psi) - s(phi) * c(psi),
            c(phi) * c(theta),
        ]
    ) + (0.0, 0.0, 9.81)
    assert acceleration_in_ground_frame({**given, "drag1": 0.0, "drag2": 0.0}) == pytest.approx(expected, rel=1e-14)
