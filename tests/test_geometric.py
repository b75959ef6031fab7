"""Lee's controller: what it asks for is what the law says, and what it flies arrives."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import samara
from samara.algebra import Quat, Vec3, quat_from_euler
from samara.control.allocation import command_for_wrench, least_squares_allocation
from samara.control.geometric import GeometricGains, gains_for, geometric, geometric_wrench, motor_time_constant
from samara.physics.multirotor import State, wrench
from samara.physics.propulsion import rotor_loads
from samara.plan.reference import Leg, Reference, along_legs, minimum_jerk

FLYERS = samara.vehicle_names()


@pytest.mark.parametrize("name", FLYERS)
def test_where_it_should_be_it_asks_for_the_trim(name):
    """No error, no acceleration wanted: the command is the hover trim."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    asked, memory = geometric(vehicle)(state, Reference(state.p_W), vehicle, ())
    assert np.array(asked) == pytest.approx(np.array(command), rel=1e-12, abs=1e-12)
    assert memory == ()


@pytest.mark.parametrize("name", [name for name in FLYERS if samara.vehicle(name).rotors])
def test_what_is_allocated_is_what_the_rotors_give(name):
    """The command for (f, τ), held until the speeds have settled, gives that f along z and that τ."""
    vehicle = samara.vehicle(name)
    state, _ = samara.hover(vehicle)
    lift = 1.2 * vehicle.mass * vehicle["gravity"].acceleration
    reach = max(abs(rotor.r_B.x) for rotor in vehicle.rotors)
    wanted = Vec3(0.05 * lift * reach, -0.03 * lift * reach, 0.002 * lift * reach)
    command = command_for_wrench(lift, wanted, state, vehicle, least_squares_allocation(vehicle))
    dynamics = vehicle.structure.actuation.rotor_acceleration
    speeds = np.array(state.rotor_speed)
    for _ in range(20000):  # the motors alone, relaxed to rest
        settled = state._replace(rotor_speed=tuple(float(x) for x in speeds))
        rate = np.array(dynamics(settled, command, vehicle, samara.CALM))
        if np.abs(rate).max() < 1e-9 * speeds.max():
            break
        speeds = speeds + 2e-3 * rate
    forces = [
        (load, rotor) for load, rotor in zip(rotor_loads(settled, vehicle, samara.CALM), vehicle.rotors, strict=True)
    ]
    f_B = sum(np.array(rotor.axis_B) * load.thrust for load, rotor in forces)
    tau_B = sum(
        np.cross(rotor.r_B, np.array(rotor.axis_B) * load.thrust) - np.array(rotor.axis_B) * rotor.spin * load.torque
        for load, rotor in forces
    )
    assert f_B[2] == pytest.approx(lift, rel=1e-7)
    assert tau_B == pytest.approx(np.array(wanted), rel=1e-6, abs=1e-7 * lift * reach)


def test_its_wrench_is_lees_law_in_matrices():
    """f = m(g e₃ + a_d − kₓe_p − k_v e_v), e_R = ½(R_dᵀR − RᵀR_d)^∨, e_Ω = ω − RᵀR_d ω_d: with SciPy and NumPy"""
    vehicle = samara.vehicle("hakoniwa")
    gains = GeometricGains(2.0, Vec3(9.0, 8.0, 3.0))
    state, _ = samara.hover(vehicle)
    state = state._replace(
        p_W=Vec3(0.3, -0.2, 1.4),
        v_W=Vec3(0.5, 0.1, -0.2),
        q_WB=quat_from_euler(0.2, -0.3, 0.9),
        omega_B=Vec3(0.4, -0.5, 0.6),
    )
    reference = Reference(Vec3(0.0, 0.1, 1.0), Vec3(0.2, 0.0, 0.1), Vec3(0.7, -0.4, 0.3), yaw=0.5)
    lift, tau_B = geometric_wrench(state, reference, vehicle, gains)

    m, J = vehicle.mass, np.array(vehicle.inertia_B).reshape(3, 3)
    e_p, e_v = np.array(state.p_W - reference.p_W), np.array(state.v_W - reference.v_W)
    f = m * (np.array([0, 0, 9.81]) + np.array(reference.a_W) - 4.0 * e_p - 4.0 * e_v)
    R = Rotation.from_quat([*state.q_WB[1:], state.q_WB[0]]).as_matrix()
    b3 = f / np.linalg.norm(f)
    b2 = np.cross(b3, [math.cos(0.5), math.sin(0.5), 0.0])
    b2 /= np.linalg.norm(b2)
    R_d = np.column_stack([np.cross(b2, b3), b2, b3])
    skew = 0.5 * (R_d.T @ R - R.T @ R_d)
    e_R = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])
    omega = np.array(state.omega_B)
    kR, kO = np.array(gains.attitude) ** 2, 2.0 * np.array(gains.attitude)
    assert lift == pytest.approx(f @ R[:, 2], rel=1e-12)
    assert np.array(tau_B) == pytest.approx(J @ (-kR * e_R - kO * omega) + np.cross(omega, J @ omega), rel=1e-12)


def test_the_wanted_turn_rate_is_that_of_the_wanted_attitude():
    """ω_d by finite differences of R_d along a trajectory with jerk, the vehicle exactly on it."""
    vehicle = samara.vehicle("hakoniwa")
    gains = gains_for(vehicle)
    legs = (Leg("there", Vec3(6.0, 3.0, 2.0), 3.0, 1.0),)

    def wanted(time):
        reference = along_legs(time, Vec3(0.0, 0.0, 1.0), legs, 0.7)
        f = np.array(reference.a_W + Vec3(0.0, 0.0, 9.81))
        b3 = f / np.linalg.norm(f)
        b2 = np.cross(b3, [math.cos(0.7), math.sin(0.7), 0.0])
        b2 /= np.linalg.norm(b2)
        return reference, Rotation.from_matrix(np.column_stack([np.cross(b2, b3), b2, b3]))

    reference, R_d = wanted(1.1)
    turned = (wanted(1.1 - 1e-5)[1].inv() * wanted(1.1 + 1e-5)[1]).as_rotvec() / 2e-5
    x, y, z, w = R_d.as_quat()
    state = State(
        reference.p_W, reference.v_W, Quat(w, x, y, z), Vec3(*turned), (0.0,) * 4, samara.hover(vehicle)[0].effects
    )
    _, tau_B = geometric_wrench(state, reference, vehicle, gains)
    J = np.array(vehicle.inertia_B).reshape(3, 3)
    asked = np.linalg.solve(J, np.array(tau_B) - np.cross(turned, J @ turned))
    # only the yaw rate that a constant heading needs while tilting is left out of ω_d
    assert asked[:2] == pytest.approx([0.0, 0.0], abs=1e-4)


def test_minimum_jerk_is_smooth_and_its_derivatives_are_its_derivatives():
    """s(0) = 0, s(T) = 1, rest at both ends; central differences of each row give the next."""
    assert minimum_jerk(0.0, 3.0)[:3] == (0.0, 0.0, 0.0)
    assert minimum_jerk(3.0, 3.0)[:3] == (1.0, 0.0, 0.0)
    for time in (0.4, 1.5, 2.7):
        before, here, after = (np.array(minimum_jerk(time + shift, 3.0)) for shift in (-1e-5, 0.0, 1e-5))
        assert (after - before)[:3] / 2e-5 == pytest.approx(here[1:], abs=1e-8)


def test_a_dc_motor_answers_as_fast_as_its_documents_first_order_pair():
    """Document 004 gives the same motor as Kr/(Tr s + 1) with Tr = 0.045 s; linearised at hover it is 0.046 s."""
    assert motor_time_constant(samara.vehicle("hakoniwa")) == pytest.approx(0.045, rel=0.03)


def test_the_controller_traces():
    """One source: through CasADi it gives the same command."""
    from samara.backends.trace import trace

    vehicle = samara.vehicle("iris")
    state, _ = samara.hover(vehicle)
    control = geometric(vehicle)
    reference = Reference(Vec3(0.4, -0.3, 1.5), Vec3(0.1, 0.2, 0.3), yaw=0.3)
    traced = trace(lambda s, r: control(s, r, vehicle, ())[0], state, reference)
    assert traced(state, reference) == pytest.approx(control(state, reference, vehicle, ())[0], rel=1e-13)


def test_more_front_left_means_the_body_feels_the_torque_asked_for():
    """Signs end to end: a wanted roll to the right lowers the right side's rotors."""
    vehicle = samara.vehicle("hakoniwa")
    state, _ = samara.hover(vehicle)
    allocation = least_squares_allocation(vehicle)
    command = command_for_wrench(7.0, Vec3(0.01, 0.0, 0.0), state, vehicle, allocation)
    right, left = [command[0], command[3]], [command[1], command[2]]
    assert min(left) > max(right)
    assert wrench(state, command, vehicle).tau_B.x == pytest.approx(
        0.0, abs=1e-12
    )  # not before the rotors have answered
