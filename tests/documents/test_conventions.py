"""Document 003's conventions, north-east-down and forward-right-down, against NumPy in those frames and the vehicle `iris`."""

import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.pages import name_exists
from support.traced_flights import rotation

import samara
from samara import Environment
from samara.core.algebra import Quat, Vec3, diagonal, quat_from_euler
from samara.documents.conventions import (
    HOME,
    H_body,
    HomeLocation,
    Propulsor,
    Vax,
    WorldOrigin,
    alt_msl_m,
    body_wrench,
    bus_current_a,
    gravity_accel,
    momentum_torque,
    plant_outputs,
    propulsor_loads,
    propulsor_wrench,
    quat_deriv,
    quat_rotate,
    quat_rotate_inv,
    quat_to_dcm,
    v_air_body,
    v_air_ned,
    v_rel_ned,
    vehicle_propulsors,
    wind_ned,
    yaw_from_quat,
)
from samara.physics.frames import (
    attitude_ned_frd_from_enu_flu,
    enu_from_ned,
    geodetic_from_enu,
    state_enu_flu_from_ned_frd,
    state_ned_frd_from_enu_flu,
    wrench_ned_frd_from_enu_flu,
)
from samara.physics.motion.body import angular_acceleration
from samara.physics.rotors.actuator import Lag, lag_step
from samara.physics.rotors.propulsion import supply_voltage
from samara.scenario.actuators import (
    ActuatorCommand,
    MotorMap,
    disabled_propulsors,
    motor_disable_mask,
    propulsor_duties,
    px4_command,
    sanitized_command,
)
from samara.scenario.snapshot import BUS_SCHEMA_VERSION, Bus, Faults, FaultState
from samara.sensors.site import geodetic

DOWN = Vec3(0.0, 0.0, 1.0)
small = st.floats(-3.0, 3.0)
vectors = st.tuples(small, small, small)
attitudes = st.tuples(small, small, small).map(lambda angles: quat_from_euler(*angles))


@pytest.fixture(scope="module")
def iris():
    return samara.vehicle("iris_documented")


def unit(v):
    return Vec3(*(np.array(v) / np.linalg.norm(v)).tolist())


# Wrench ------------------------------------------------------------------------------------------------------------


def test_two_propulsors_give_the_documents_force_and_torque():
    """(1,0,0) axis z, T 2, Q .5 and (0,1,0) axis y, T 3, Q .2: F (0, −3, −2), τ (0, 2.2, .5)."""
    first, second = Propulsor(Vec3(1.0, 0.0, 0.0), DOWN), Propulsor(Vec3(0.0, 1.0, 0.0), Vec3(0.0, 1.0, 0.0))
    wrench = body_wrench((2.0, 3.0), (0.5, 0.2), (first, second))
    assert wrench.F_body == pytest.approx((0.0, -3.0, -2.0), abs=1e-15)
    assert wrench.tau_body == pytest.approx((0.0, 2.2, 0.5), abs=1e-15)


@given(
    r_b=vectors,
    axis=vectors.filter(lambda v: np.linalg.norm(v) > 0.1),
    T=st.floats(0.0, 20.0),
    Q=st.floats(-1.0, 1.0),
    turn=st.sampled_from([-1, 1]),
)
def test_force_is_against_the_axis_and_the_signed_torque_along_it(r_b, axis, T, Q, turn):
    """F = −T axis_b, τ = r × F + axis_b Q by NumPy in FRD; dir has no effect, because Q has a sign."""
    propulsor = Propulsor(Vec3(*r_b), unit(axis), dir=turn)
    F_body, tau_body = propulsor_wrench(T, Q, propulsor)
    force = -T * np.array(propulsor.axis_b)
    assert np.array(F_body) == pytest.approx(force, abs=1e-15)
    assert np.array(tau_body) == pytest.approx(np.cross(r_b, force) + Q * np.array(propulsor.axis_b), abs=1e-13)


def test_a_spinning_rotor_answers_a_roll_with_a_pitch():
    """J .01, Ω 200, ω (1,0,0), axis z, dir +1, unit inertia: H = (0, 0, −2), α = −ω × H = (0, −2, 0)."""
    propulsor = Propulsor(Vec3(0.0, 0.0, 0.0), DOWN, dir=1, inertia=0.01)
    omega = Vec3(1.0, 0.0, 0.0)
    assert H_body(200.0, propulsor) == pytest.approx((0.0, 0.0, -2.0), abs=1e-15)
    tau = momentum_torque(omega, 200.0, 0.0, propulsor)
    alpha = angular_acceleration(omega, tau, inertia_B=diagonal(Vec3(1.0, 1.0, 1.0)))
    assert alpha == pytest.approx((0.0, -2.0, 0.0), abs=1e-15)


def test_spinning_a_rotor_up_turns_the_body_the_other_way():
    """J .01, Ω̇ 100, axis z, dir +1, Izz .2: +5 rad/s² about down, clockwise, for a rotor that turns counter-clockwise."""
    propulsor = Propulsor(Vec3(0.0, 0.0, 0.0), DOWN, dir=1, inertia=0.01)
    still = Vec3(0.0, 0.0, 0.0)
    alpha = angular_acceleration(
        still, momentum_torque(still, 0.0, 100.0, propulsor), inertia_B=diagonal(Vec3(0.1, 0.15, 0.2))
    )
    assert alpha == pytest.approx((0.0, 0.0, 5.0), abs=1e-15)


@given(omega=vectors, axis=vectors.filter(lambda v: np.linalg.norm(v) > 0.1), turn=st.sampled_from([-1, 1]))
def test_the_body_feels_what_the_rotor_gains_and_what_turning_it_costs(omega, axis, turn):
    """τ = −ω × H − Ḣ with H = −dir J Ω axis_b, by NumPy in FRD."""
    propulsor = Propulsor(Vec3(0.0, 0.0, 0.0), unit(axis), dir=turn, inertia=2e-5)
    per_speed = -turn * 2e-5 * np.array(propulsor.axis_b)
    tau = momentum_torque(Vec3(*omega), 700.0, -300.0, propulsor)
    assert np.array(tau) == pytest.approx(-np.cross(omega, 700.0 * per_speed) + 300.0 * per_speed, abs=1e-16)


def test_the_propulsors_of_the_iris_are_where_px4_has_them(iris):
    """FRD, axis down; dir +1 on the two counter-clockwise rotors (CA_ROTORn_PX, _PY and the sign of _KM)."""
    propulsors = vehicle_propulsors(iris)
    assert [propulsor.axis_b for propulsor in propulsors] == [DOWN] * 4
    assert [propulsor.r_b[:2] for propulsor in propulsors] == [
        (0.1515, 0.245),
        (-0.1515, -0.1875),
        (0.1515, -0.245),
        (-0.1515, 0.1875),
    ]
    assert [propulsor.dir for propulsor in propulsors] == [1, 1, -1, -1]


@given(v_air=vectors, scale=st.tuples(*[st.floats(0.5, 1.5)] * 4))
def test_thrusts_and_signed_torques_of_a_vehicle_add_up_to_its_own_wrench(v_air, scale):
    """Σ over propulsors in FRD is the vehicle's `rotors` effect, converted."""
    vehicle = samara.vehicle("hexarotor_tilted")
    state, command = samara.hover(vehicle)
    speeds = tuple(speed * scale[i % 4] for i, speed in enumerate(state.rotor_speed))
    state = state._replace(rotor_speed=speeds)
    environment = Environment(wind_W=Vec3(*v_air), air_density=1.0)
    actual = body_wrench(*propulsor_loads(state, vehicle, environment), vehicle_propulsors(vehicle))
    parts = samara.wrench_breakdown(state, command, vehicle, environment)
    expected = wrench_ned_frd_from_enu_flu(parts["rotors"])
    assert np.array(actual.F_body) == pytest.approx(np.array(expected.f_B), rel=1e-13, abs=1e-13)
    assert np.array(actual.tau_body) == pytest.approx(np.array(expected.tau_B), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_thrust_has_no_sign_of_its_own(bad):
    with pytest.raises(ValueError, match=r"thrust T is .*not negative"):
        propulsor_wrench(bad, 0.0, Propulsor(Vec3(0.0, 0.0, 0.0)))


def test_each_propulsor_takes_one_thrust_and_one_torque():
    with pytest.raises(ValueError, match="2 thrusts and 1 torques for 1 propulsors"):
        body_wrench((1.0, 1.0), (0.0,), (Propulsor(Vec3(0.0, 0.0, 0.0)),))


# Attitude ----------------------------------------------------------------------------------------------------------


@given(q_bn=attitudes, v=vectors)
def test_the_direction_cosine_matrix_is_scipys_and_its_transpose_goes_back(q_bn, v):
    """v_ned = R_bn v_body, v_body = R_bnᵀ v_ned"""
    matrix = rotation(q_bn).as_matrix()
    assert np.array(quat_to_dcm(q_bn)).reshape(3, 3) == pytest.approx(matrix, abs=2e-15)
    assert np.array(quat_rotate(q_bn, Vec3(*v))) == pytest.approx(matrix @ v, abs=1e-14)
    assert np.array(quat_rotate_inv(q_bn, Vec3(*v))) == pytest.approx(matrix.T @ v, abs=1e-14)


@given(q_bn=attitudes, omega=vectors)
def test_the_quaternion_derivative_turns_about_body_axes(q_bn, omega):
    """q̇ is the slope of q ⊗ exp(ω t): the central difference of SciPy's rotations, whose error is t²|ω|³/48."""
    t = 1e-4
    rotated = [(rotation(q_bn) * Rotation.from_rotvec(np.array(omega) * s)).as_quat()[[3, 0, 1, 2]] for s in (t, -t)]
    signs = [math.copysign(1.0, float(np.dot(q, q_bn))) for q in rotated]
    slope = (signs[0] * rotated[0] - signs[1] * rotated[1]) / (2 * t)
    assert np.array(quat_deriv(q_bn, Vec3(*omega))) == pytest.approx(slope, abs=3e-8)


# The document's quick sanity checks --------------------------------------------------------------------------------


def test_check_1_hover_thrust_pushes_up_which_is_negative(iris):
    """Level, q_bn = 1: positive thrust gives F_body.z < 0 and F_ned.z < 0, equal to the weight of gravity_accel."""
    hovering, _ = samara.hover(iris)
    state = state_enu_flu_from_ned_frd(
        state_ned_frd_from_enu_flu(hovering)._replace(q_WB=Quat(1.0, 0.0, 0.0, 0.0))  # level, nose to the north
    )
    T, Q = propulsor_loads(state, iris)
    assert all(thrust > 0 for thrust in T)
    F_body, tau_body = body_wrench(T, Q, vehicle_propulsors(iris))
    F_ned = quat_rotate(Quat(1.0, 0.0, 0.0, 0.0), F_body)
    assert F_ned == pytest.approx((0.0, 0.0, -1.5 * 9.80665), rel=1e-14)
    assert np.array(F_ned) / 1.5 + np.array(gravity_accel(9.80665)) == pytest.approx(np.zeros(3), abs=1e-14)
    assert np.array(tau_body) == pytest.approx(np.zeros(3), abs=1e-14)


@pytest.mark.parametrize("heading", [0.0, 1.0, -2.5])
def test_check_2_air_moving_north_pushes_north(iris, heading):
    """vel_ned = 0, wind_ned = (5, 0, 0): the vehicle accelerates north with d·5/m, at every heading."""
    wind = Vec3(5.0, 0.0, 0.0)
    hovering, command = samara.hover(iris)
    level_ned = state_ned_frd_from_enu_flu(hovering)._replace(q_WB=quat_from_euler(0.0, 0.0, heading))
    environment = Environment(wind_W=enu_from_ned(wind))
    rate = samara.derivative(state_enu_flu_from_ned_frd(level_ned), command, iris, environment)
    vel_dot_ned = state_ned_frd_from_enu_flu(rate).v_W
    assert vel_dot_ned == pytest.approx((0.05 * 5.0 / 1.5, 0.0, 0.0), rel=1e-12, abs=1e-12)
    assert v_rel_ned(level_ned.v_W, wind) == (-5.0, 0.0, 0.0)


def test_check_3_ten_metres_down_is_ten_metres_lower(iris):
    """alt_msl_m = origin.alt_msl_m − pos_ned[2], for a position and for a vehicle there."""
    assert alt_msl_m(Vec3(3.0, 4.0, 10.0), WorldOrigin(0.0, 0.0, 100.0)) == 90.0
    high, _ = samara.hover(iris, p_W=(0.0, 0.0, 25.0))
    assert alt_msl_m(state_ned_frd_from_enu_flu(high).p_W) == 488.0 + 25.0
    assert geodetic_from_enu(high.p_W, geodetic(*HOME)).altitude == pytest.approx(513.0, abs=1e-9)


def test_check_4_yaw_90_degrees_points_the_nose_east(iris):
    """The rotors in front of the iris, with yaw +90°, lie to the east; and clockwise is positive."""
    q_bn = quat_from_euler(0.0, 0.0, math.pi / 2)
    assert quat_rotate(q_bn, Vec3(1.0, 0.0, 0.0)) == pytest.approx((0.0, 1.0, 0.0), abs=1e-15)
    assert yaw_from_quat(q_bn) == pytest.approx(math.pi / 2, abs=1e-15)
    hovering, _ = samara.hover(iris)
    facing = state_enu_flu_from_ned_frd(state_ned_frd_from_enu_flu(hovering)._replace(q_WB=q_bn))
    front = rotation(facing.q_WB).apply(iris.rotors[0].r_B) + rotation(facing.q_WB).apply(iris.rotors[2].r_B)
    assert front == pytest.approx((2 * 0.1515, 0.0, 0.0), abs=1e-15)  # x of ENU is east
    assert yaw_from_quat(q_bn + quat_deriv(q_bn, Vec3(0.0, 0.0, 1.0)) * 1e-3) > math.pi / 2


# Ground ------------------------------------------------------------------------------------------------------------


def test_the_ground_at_z_0_pushes_up_what_is_below_it(iris):
    """Level, facing north: with its feet below the plane, z of NED > 0, the force is −z, up; above it is 0."""
    resting, _ = samara.hover(iris)
    legs = -min(foot.z for foot in iris["contact"].points_B)

    def force_ned(down):
        feet = state_ned_frd_from_enu_flu(resting)._replace(
            p_W=Vec3(1.0, 2.0, down - legs), q_WB=Quat(1.0, 0.0, 0.0, 0.0)
        )
        state = state_enu_flu_from_ned_frd(feet)
        contact = wrench_ned_frd_from_enu_flu(samara.wrench_breakdown(state, (0.0,) * 4, iris)["contact"])
        return quat_rotate(Quat(1.0, 0.0, 0.0, 0.0), contact.f_B) + contact.f_W

    surface = iris["contact"].surface
    assert force_ned(1e-3).z == pytest.approx(-4.0 * surface.stiffness * 1e-3, rel=1e-9)
    assert force_ned(-1e-3) == (0.0, 0.0, 0.0)


# Wind and inflow ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("psi_from_deg", "towards"),
    [(0.0, (-1, 0)), (90.0, (0, -1)), (180.0, (1, 0)), (270.0, (0, 1)), (225.0, (math.sqrt(0.5), math.sqrt(0.5)))],
)
def test_wind_is_named_by_where_it_comes_from(psi_from_deg, towards):
    """From north means towards south; a south-wester blows to the north-east."""
    assert wind_ned(8.0, psi_from_deg) == pytest.approx((8.0 * towards[0], 8.0 * towards[1], 0.0), abs=1e-14)


@given(q_bn=attitudes, vel=vectors, wind=vectors)
def test_the_relative_wind_is_the_motion_through_the_air_turned_round(q_bn, vel, wind):
    """v_air = wind − vel = −v_rel, and R_bnᵀ turns it into the body"""
    relative = v_rel_ned(Vec3(*vel), Vec3(*wind))
    assert v_air_ned(Vec3(*vel), Vec3(*wind)) == -relative
    actual = v_air_body(q_bn, Vec3(*vel), Vec3(*wind))
    assert np.array(actual) == pytest.approx(rotation(q_bn).inv().apply(-np.array(relative)), abs=1e-14)


def test_a_descent_gives_positive_axial_inflow(iris):
    """Sinking at 3 m/s the air comes from below: Vax = +3 on every rotor of the iris, −3 in a climb."""
    level, still = Quat(1.0, 0.0, 0.0, 0.0), Vec3(0.0, 0.0, 0.0)
    for sinking in (3.0, -3.0):
        v_air = v_air_body(level, Vec3(0.0, 0.0, sinking), still)
        assert [Vax(v_air, propulsor.axis_b) for propulsor in vehicle_propulsors(iris)] == [sinking] * 4


@given(v_air=vectors, axis=vectors.filter(lambda v: np.linalg.norm(v) > 0.1))
def test_axial_inflow_is_minus_the_dot_product(v_air, axis):
    """Vax = −v_air_body · axis_b"""
    assert Vax(Vec3(*v_air), unit(axis)) == pytest.approx(-np.dot(v_air, unit(axis)), abs=1e-14)


# Current -----------------------------------------------------------------------------------------------------------


def test_positive_current_discharges_the_battery(iris):
    """In hover the power V I of the battery, V = 12.6 − R0 I, is that of the motors; the charge falls at −I/C.

    Each motor needs I_m = I0 + (Q + bΩ)/K and U = R I_m + KΩ; at 12 V that is the document's 10.6 A of bus current.
    """
    state, command = samara.hover(iris)
    current = bus_current_a(state, command, iris)
    weight, kv, speed = 1.5 * 9.80665, 60.0 / (2.0 * math.pi * 920.0), state.rotor_speed[0]
    motor = 0.6 + (0.05 * weight / 4 + 2e-6 * speed) / kv
    power = (0.25 * motor + kv * speed) * motor / 0.98
    assert power / 12.0 == pytest.approx(10.6, abs=0.05)
    assert current > 0.0
    assert current * (12.6 - 0.02 * current) == pytest.approx(4 * power, rel=1e-12)
    assert bus_current_a(state, command, iris, Environment(battery_connected=0.0)) == 0.0
    for environment in (Environment(), Environment(motor_effectiveness=(1.0, 1.0, 0.0, 0.5))):
        rate = samara.derivative(state, command, iris, environment).effects[iris.index("battery")][0]
        current = bus_current_a(state, command, iris, environment)
        assert rate.charge == pytest.approx(-current / (5.0 * 3600.0), rel=1e-12)


def test_a_fast_rotor_charges_only_where_the_controller_lets_it():
    """Back-EMF above the duty's voltage: document 004's motor feeds the battery, I < 0; document 003's does not."""
    for name, sign in (("hakoniwa", -1.0), ("iris_documented", 0.0)):
        vehicle = samara.vehicle(name)
        state, _ = samara.hover(vehicle)
        fast = state._replace(rotor_speed=tuple(1.5 * speed for speed in state.rotor_speed))
        current = bus_current_a(fast, (0.05,) * 4, vehicle)
        assert (current < 0.0) if sign < 0 else (current == 0.0)


def test_the_plant_reports_what_its_parts_do(iris):
    """Σ Iᵢ = I; T and Q are those of `propulsor_loads`; the relative wind in FRD is v_air_body of the motion in NED."""
    state, command = samara.hover(iris)
    tilted = state._replace(q_WB=Quat(0.8, 0.0, 0.6, 0.0), v_W=Vec3(1.0, -2.0, 0.5))
    conditions = Environment(wind_W=Vec3(0.3, 4.0, -1.0), motor_effectiveness=(1.0, 0.5, 1.0, 0.0))
    outputs = plant_outputs(tilted, command, iris, conditions)
    assert sum(rotor.bus_current_a for rotor in outputs.rotors) == pytest.approx(outputs.bus_current_a, rel=1e-14)
    assert outputs.rotors[3].bus_current_a == 0.0 < outputs.rotors[0].bus_current_a
    assert outputs.bus_voltage_v == supply_voltage(tilted, command, iris, conditions)
    assert (
        [rotor_output.T for rotor_output in outputs.rotors],
        [rotor_output.Q for rotor_output in outputs.rotors],
    ) == tuple(map(list, propulsor_loads(tilted, iris, conditions)))
    q_bn = attitude_ned_frd_from_enu_flu(tilted.q_WB)
    expected = v_air_body(q_bn, Vec3(-2.0, 1.0, -0.5), Vec3(4.0, 0.3, 1.0))
    assert outputs.air_vel_body == pytest.approx(expected, abs=1e-14)


def test_the_bus_has_the_documents_wind_and_faults():
    """An east wind blows towards +x of ENU when it comes from the west: NED (0, 3, 0)"""
    assert Bus(0, (), wind_W=Vec3(3.0, 0.0, -1.0)).wind_ned == Vec3(0.0, 3.0, 1.0)
    assert Bus(0, ()).schema == BUS_SCHEMA_VERSION
    assert FaultState(motor_effectiveness=(1.0, 0.0, 0.5, 0.0)).motor_disable_mask == motor_disable_mask(1, 3)
    assert HomeLocation(1.0, 2.0, 3.0) == WorldOrigin(1.0, 2.0, 3.0)


def test_a_fault_state_is_constructed_from_its_mask():
    """Document 003: bit i is physical propulsor i."""
    faults = FaultState(motor_disable_mask=0b0101, propulsors=4, battery_connected=False)
    assert faults.motor_effectiveness == (0.0, 1.0, 0.0, 1.0) and not faults.battery_connected
    assert faults.motor_disable_mask == 5 and faults.healthy == (False, True, False, True)
    assert faults == Faults(motor_effectiveness=(0.0, 1.0, 0.0, 1.0), battery_connected=False)
    assert faults._replace(battery_connected=True).battery_connected
    assert pickle.loads(pickle.dumps(faults)) == faults
    assert FaultState(motor_disable_mask=0).motor_effectiveness == ()
    assert FaultState(motor_disable_mask=2).motor_effectiveness == (1.0, 0.0)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"motor_disable_mask": -1}, "motor_disable_mask = -1: expected an integer from 0 to 0b111111111111"),
        ({"motor_disable_mask": 1 << 12}, "motor_disable_mask = 4096: expected an integer"),
        ({"motor_disable_mask": 1.0}, "motor_disable_mask = 1.0: expected an integer"),
        ({"motor_disable_mask": 0b1000, "propulsors": 3}, "0b1000 of 3 propulsors: expected 4 to 12"),
        ({"motor_disable_mask": 1, "motor_effectiveness": (1.0, 1.0)}, "were both given: expected one of them"),
        ({"propulsors": 3}, "propulsors = 3 without motor_disable_mask: expected both"),
    ],
)
def test_a_wrong_mask_is_refused(fields, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        FaultState(**fields)


def test_a_vehicle_without_a_battery_has_no_current():
    vehicle = samara.vehicle("crazyflie_documented")
    state, command = samara.hover(vehicle)
    with pytest.raises(
        ValueError, match="vehicle 'crazyflie_documented' draws no current; expected one with a battery"
    ):
        bus_current_a(state, command, vehicle)


# Commands ----------------------------------------------------------------------------------------------------------


def test_a_command_has_12_motors_and_8_servos():
    command = ActuatorCommand([0.1, np.float32(0.5)], (-1.0,))
    assert command.motors == (0.1, 0.5) + (0.0,) * 10
    assert command.servos == (-1.0,) + (0.0,) * 7
    assert all(type(value) is float for value in command.motors + command.servos)
    assert command == ActuatorCommand(command.motors, command.servos)
    assert len({command, ActuatorCommand()}) == 2  # hashable, so it can be compared and recorded
    with pytest.raises(AttributeError):
        command.motors = ()


@pytest.mark.parametrize(
    ("motors", "servos", "complaint"),
    [
        ((0.5, 1.1), (), r"motors\[1\] is 1.1; expected a number within \[0, 1\]"),
        ((-1e-9,), (), r"motors\[0\] is -1e-09; expected a number within \[0, 1\]"),
        ((0.5, 0.5, math.nan), (), r"motors\[2\] is nan; expected a number within \[0, 1\]"),
        ((), (0.0, -1.5), r"servos\[1\] is -1.5; expected a number within \[-1, 1\]"),
        ((), (math.inf,), r"servos\[0\] is inf; expected a number within \[-1, 1\]"),
        ((0.0,) * 13, (), "motors has 13 channels; expected at most 12"),
        ((), (0.0,) * 9, "servos has 9 channels; expected at most 8"),
    ],
)
def test_a_command_out_of_range_is_refused_by_channel(motors, servos, complaint):
    with pytest.raises(ValueError, match=complaint):
        ActuatorCommand(motors, servos)


def test_px4_marks_unused_channels_with_nan():
    """NaN becomes 0, rounding errors up to 1e-6 are clipped, and larger excesses are errors."""
    command = px4_command((0.5, math.nan, 1.0 + 5e-7), (math.nan, -1.0 - 5e-7))
    assert command == ActuatorCommand((0.5, 0.0, 1.0), (0.0, -1.0))
    for bad in (1.0 + 2e-6, -2e-6, math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"motors\[0\] is .*within \[0, 1\]"):
            px4_command((bad,))


def test_sanitizing_takes_the_nearest_command():
    command = sanitized_command((1.7, -0.2, math.nan, math.inf, 0.3), (-9.0, -math.inf, 0.5))
    assert command == ActuatorCommand((1.0, 0.0, 0.0, 0.0, 0.3), (-1.0, 0.0, 0.5))


def test_the_first_order_actuator_of_the_document():
    """τ .1, dt .05: 1 − e^{−.5} of the step."""
    assert lag_step(0.0, 1.0, 0.05, Lag(0.0, 1.0, 0.1, 0.1)) == pytest.approx(1.0 - math.exp(-0.5), rel=1e-15)


# Wiring and faults -------------------------------------------------------------------------------------------------


@given(order=st.permutations(range(6)), duties=st.tuples(*[st.floats(0.0, 1.0)] * 6))
def test_every_propulsor_gets_its_own_channel(order, duties):
    """The map is a permutation matrix: P d"""
    matrix = np.zeros((6, 6))
    matrix[list(order), range(6)] = 1.0
    driven = propulsor_duties(ActuatorCommand(duties), MotorMap(tuple(order)))
    assert driven == tuple((matrix @ duties).tolist())


def test_channels_may_be_left_free():
    """Motors on outputs 4 to 7: channel 4 drives propulsor 0."""
    motor_map = MotorMap((None, None, None, None, 0, 1, 2, 3))
    command = ActuatorCommand(tuple(0.1 * channel for channel in range(8)))
    assert motor_map.count == 4
    assert propulsor_duties(command, motor_map) == command.motors[4:8]


@pytest.mark.parametrize(
    ("propulsor", "complaint"),
    [
        ((0, 1, 2, 4), "channel 3 drives propulsor 4; expected one of 0 to 3"),
        ((0, -1), "channel 1 drives propulsor -1; expected one of 0 to 1"),
        ((0, None, 2), "channel 2 drives propulsor 2; expected one of 0 to 1"),
        ((1, 0, 1), "channels 0 and 2 both drive propulsor 1; expected one"),
        (tuple(range(13)), "the motor map has 13 channels; expected at most 12"),
    ],
)
def test_a_map_that_is_not_one_to_one_is_refused(propulsor, complaint):
    with pytest.raises(ValueError, match=complaint):
        MotorMap(propulsor)


@given(propulsors=st.sets(st.integers(0, 11)))
def test_a_mask_is_the_set_of_failed_propulsors(propulsors):
    assert disabled_propulsors(motor_disable_mask(*propulsors)) == tuple(sorted(propulsors))
    assert motor_disable_mask(*propulsors) == sum(2**propulsor for propulsor in propulsors)


def test_a_mask_names_propulsors_that_exist():
    with pytest.raises(ValueError, match="propulsor 12 cannot fail; expected one of 0 to 11"):
        motor_disable_mask(12)
    for mask in (motor_disable_mask(4), -1):
        with pytest.raises(ValueError, match="names propulsors that do not exist; 4 are driven"):
            propulsor_duties(ActuatorCommand(), MotorMap((0, 1, 2, 3)), mask)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (1, 2, 3, 0)])
def test_a_failure_stops_the_physical_propulsor_whatever_its_channel(iris, order):
    """Propulsor 2 of the iris, front left, fails: it runs down, the front left goes down, for every channel that feeds it."""
    state, hover_command = samara.hover(iris)
    hover_speed = state.rotor_speed[0]
    motor_map = MotorMap(order)
    motors = tuple(hover_command[order[channel]] for channel in range(4))
    duties = propulsor_duties(ActuatorCommand(motors), motor_map, motor_disable_mask(2))
    for _ in range(40):
        state = samara.step(state, duties, iris, dt=2e-3)
    assert state.rotor_speed[2] < 0.7 * hover_speed
    assert all(state.rotor_speed[i] > 0.99 * hover_speed for i in (0, 1, 3))
    corner = rotation(state.q_WB).apply(iris.rotors[2].r_B)
    assert corner[2] < -1e-3
    p, q, _ = state_ned_frd_from_enu_flu(state).omega_B
    assert p < 0 and q < 0  # FRD: left side down, nose down


# The pages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    [
        "docs/howto/coming-from.md",
        "docs/reference/conventions.md",
        "docs/evidence/documents.md",
        "docs/evidence/errata.md",
        "tests/documents/requirements.md",
    ],
)
def test_every_samara_name_on_the_pages_exists(repository, page):
    """`samara.physics.rotors.rotor.rotor_wrench` resolves; a renamed name is detected."""
    text = (repository / page).read_text(encoding="utf-8")
    names = set(re.findall(r"`(samara(?:\.\w+)+)", text))
    assert names
    assert sorted(name for name in names if not name_exists(name)) == []


def test_a_name_that_leads_nowhere_is_noticed():
    assert name_exists("samara.physics.rotors.rotor.rotor_wrench") and name_exists("samara.documents.conventions")
    assert not name_exists("samara.physics.rotors.rotor.rotor_wrenches") and not name_exists("samara.convention")
