"""Lee's geometric controller: its wrench obeys the law, and its flights reach their references."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.traced_flights import rotation

import samara
from samara.control.allocation import build_allocation, command_for_wrench
from samara.control.default_gains import Gains
from samara.control.geometric import (
    FlightLimits,
    default_gains,
    geometric,
    geometric_wrench,
    limit_acceleration,
    limit_position_error,
    motor_time_constant,
    tracking_acceleration,
)
from samara.core.algebra import Quat, Vec3, matrix_from_quat, quat_from_euler
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import wrench
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Reference, State
from samara.plan.reference import StraightLeg, legs_reference, minimum_jerk
from samara.vehicles.build import with_effects

VEHICLES = samara.vehicle_names()


@pytest.mark.parametrize("name", VEHICLES)
def test_at_the_reference_the_command_is_the_trim(name):
    """Without error and desired acceleration, the command is the hover trim."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    command_at_rest, controller_state = geometric(vehicle)(state, Reference(state.p_W), vehicle, ())
    assert np.array(command_at_rest) == pytest.approx(np.array(command), rel=1e-12, abs=1e-12)
    assert controller_state == ()


@pytest.mark.parametrize("name", [name for name in VEHICLES if samara.vehicle(name).rotors])
def test_the_rotors_give_the_allocated_wrench(name):
    """The command for (f, τ), held until the speeds have settled, gives f along z and τ, computed from kF alone."""
    vehicle = with_effects(samara.vehicle(name), {"thrust_curve": False})
    state, _ = samara.hover(vehicle)
    collective_thrust = 1.2 * vehicle.mass * vehicle["gravity"].acceleration
    arm_length = max(abs(rotor.r_B.x) for rotor in vehicle.rotors)
    desired_tau_B = Vec3(
        0.05 * collective_thrust * arm_length,
        -0.03 * collective_thrust * arm_length,
        0.002 * collective_thrust * arm_length,
    )
    command = command_for_wrench(collective_thrust, desired_tau_B, state, vehicle, build_allocation(vehicle))
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
    assert f_B[2] == pytest.approx(collective_thrust, rel=1e-7)
    assert tau_B == pytest.approx(np.array(desired_tau_B), rel=1e-6, abs=1e-7 * collective_thrust * arm_length)


GAINS = Gains(2.0, Vec3(9.0, 8.0, 3.0))


def displaced_state(vehicle, q_WB):
    """Return a state away from its reference, moving and rotating."""
    state, _ = samara.hover(vehicle)
    return state._replace(p_W=Vec3(0.3, -0.2, 1.4), v_W=Vec3(0.5, 0.1, -0.2), q_WB=q_WB, omega_B=Vec3(0.4, -0.5, 0.6))


def desired_wrench(state, reference, vehicle, controls_yaw=True):
    """Return the desired thrust and torque without limits."""
    acceleration_W = tracking_acceleration(state.p_W - reference.p_W, state, reference, vehicle, GAINS)
    return geometric_wrench(acceleration_W, state, reference, vehicle, GAINS, controls_yaw)


def desired_attitude_matrices(state, reference, vehicle):
    """Return f, R and R_d, computed with SciPy and NumPy."""
    e_p, e_v = np.array(state.p_W - reference.p_W), np.array(state.v_W - reference.v_W)
    f = vehicle.mass * (np.array([0, 0, 9.81]) + np.array(reference.a_W) - 4.0 * e_p - 4.0 * e_v)
    b3 = f / np.linalg.norm(f)
    b2 = np.cross(b3, [math.cos(reference.yaw), math.sin(reference.yaw), 0.0])
    b2 /= np.linalg.norm(b2)
    return f, rotation(state.q_WB).as_matrix(), np.column_stack([np.cross(b2, b3), b2, b3])


def attitude_torque(e_R, state, vehicle):
    """J (−k_R e_R − k_Ω ω) + ω × Jω"""
    omega, J = np.array(state.omega_B), np.array(vehicle.inertia_B).reshape(3, 3)
    gain = np.array(GAINS.attitude)
    return J @ (-(gain**2) * e_R - 2.0 * gain * omega) + np.cross(omega, J @ omega)


def test_its_wrench_is_lees_law_in_matrices():
    """f = m(g e₃ + a_d − kₓe_p − k_v e_v), e_R = ½(R_dᵀR − RᵀR_d)^∨, e_Ω = ω − RᵀR_d ω_d, without yaw error."""
    vehicle = samara.vehicle("hakoniwa")
    reference = Reference(Vec3(0.0, 0.1, 1.0), Vec3(0.2, 0.0, 0.1), Vec3(0.7, -0.4, 0.3), yaw=0.5)
    f, _, R_d = desired_attitude_matrices(displaced_state(vehicle, Quat(1.0, 0.0, 0.0, 0.0)), reference, vehicle)
    tilted = Rotation.from_matrix(R_d) * Rotation.from_rotvec([0.3, -0.4, 0.0])  # about an axis across b₃: no yaw error
    x, y, z, w = tilted.as_quat()
    state = displaced_state(vehicle, Quat(w, x, y, z))
    skew = 0.5 * (R_d.T @ tilted.as_matrix() - tilted.as_matrix().T @ R_d)
    e_R = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])
    collective_thrust, tau_B = desired_wrench(state, reference, vehicle)
    assert collective_thrust == pytest.approx(f @ tilted.as_matrix()[:, 2], rel=1e-12)
    assert np.array(tau_B) == pytest.approx(attitude_torque(e_R, state, vehicle), rel=1e-12)


def test_a_yaw_error_does_not_affect_the_tilt():
    """Across b₃ the error is sin θ about the axis from f to b₃, for any yaw; about b₃ it is Lee's component."""
    vehicle = samara.vehicle("hakoniwa")
    reference = Reference(Vec3(0.0, 0.1, 1.0), Vec3(0.2, 0.0, 0.1), Vec3(0.7, -0.4, 0.3))
    for yaw in (0.9, -2.5):
        state = displaced_state(vehicle, quat_from_euler(0.2, -0.3, yaw))
        f, R, R_d = desired_attitude_matrices(state, reference, vehicle)
        across = R.T @ np.cross(f / np.linalg.norm(f), R[:, 2])
        skew = 0.5 * (R_d.T @ R - R.T @ R_d)
        _, tau_B = desired_wrench(state, reference, vehicle)
        assert np.array(tau_B) == pytest.approx(attitude_torque([*across[:2], skew[1, 0]], state, vehicle), rel=1e-12)
        _, tau_B = desired_wrench(state, reference._replace(yaw=1.0, yaw_rate=2.0), vehicle, controls_yaw=False)
        assert np.array(tau_B) == pytest.approx(attitude_torque([*across[:2], 0.0], state, vehicle), rel=1e-12)


def test_upside_down_it_turns_as_hard_as_on_its_side():
    """|e_R| = sin θ up to 90°, and 1 from 90° to 180°, where sin θ would vanish; at 180° all directions are equivalent."""
    vehicle, reference = samara.vehicle("hakoniwa"), Reference(Vec3(0.0, 0.0, 1.0))
    hover_state, _ = samara.hover(vehicle)
    for degrees, magnitude in ((30.0, 0.5), (90.0, 1.0), (150.0, 1.0), (179.9, 1.0), (180.0, 0.0)):
        half = math.radians(degrees) / 2.0
        q_WB = Quat(math.cos(half) if degrees < 180.0 else 0.0, 0.6 * math.sin(half), 0.8 * math.sin(half), 0.0)
        _, tau_B = desired_wrench(hover_state._replace(q_WB=q_WB), reference, vehicle)
        e_R = np.array(tau_B)[:2] / (np.array(vehicle.inertia_B)[[0, 4]] * np.array(GAINS.attitude)[:2] ** 2)
        assert e_R == pytest.approx([-0.6 * magnitude, -0.8 * magnitude], abs=1e-9)


def test_the_desired_rate_is_the_derivative_of_the_desired_attitude():
    """ω_d and ω̇_d by finite differences of R_d along a trajectory with jerk and snap, the vehicle exactly on it."""
    vehicle = samara.vehicle("hakoniwa")
    gains = default_gains(vehicle, lead=0.0)
    legs = (StraightLeg("there", Vec3(6.0, 3.0, 2.0), 3.0, 1.0),)

    def desired(time):
        reference = legs_reference(time, Vec3(0.0, 0.0, 1.0), legs, 0.7)
        f = np.array(reference.a_W + Vec3(0.0, 0.0, 9.81))
        b3 = f / np.linalg.norm(f)
        b2 = np.cross(b3, [math.cos(0.7), math.sin(0.7), 0.0])
        b2 /= np.linalg.norm(b2)
        return reference, Rotation.from_matrix(np.column_stack([np.cross(b2, b3), b2, b3]))

    def angular_velocity(time, h=1e-3):
        return (desired(time - h)[1].inv() * desired(time + h)[1]).as_rotvec() / (2.0 * h)

    reference, R_d = desired(1.1)
    omega, alpha = angular_velocity(1.1), (angular_velocity(1.101) - angular_velocity(1.099)) / 2e-3
    x, y, z, w = R_d.as_quat()
    state = State(
        reference.p_W, reference.v_W, Quat(w, x, y, z), Vec3(*omega), (0.0,) * 4, samara.hover(vehicle)[0].effects
    )
    acceleration_W = tracking_acceleration(Vec3(0.0, 0.0, 0.0), state, reference, vehicle, gains)
    _, tau_B = geometric_wrench(acceleration_W, state, reference, vehicle, gains)
    J = np.array(vehicle.inertia_B).reshape(3, 3)
    commanded_alpha = np.linalg.solve(J, np.array(tau_B) - np.cross(omega, J @ omega))
    assert commanded_alpha == pytest.approx(alpha, abs=1e-4)
    assert np.abs(alpha).max() > 0.5


def test_minimum_jerk_is_smooth_and_its_derivatives_are_its_derivatives():
    """s(0) = 0, s(T) = 1, rest at both ends; central differences of each row give the next."""
    assert minimum_jerk(0.0, 3.0)[:3] == (0.0, 0.0, 0.0)
    assert minimum_jerk(3.0, 3.0)[:3] == (1.0, 0.0, 0.0)
    for time in (0.4, 1.5, 2.7):
        before, motion, after = (np.array(minimum_jerk(time + shift, 3.0)) for shift in (-1e-5, 0.0, 1e-5))
        assert (after - before)[:4] / 2e-5 == pytest.approx(motion[1:], abs=1e-8)


def test_a_dc_motor_answers_as_fast_as_its_documents_first_order_pair():
    """Hakoniwa gives the same motor as Kr/(Tr s + 1) with Tr = 0.045 s; linearised at hover it is 0.046 s."""
    assert motor_time_constant(samara.vehicle("hakoniwa")) == pytest.approx(0.045, rel=0.03)


def test_the_controller_traces():
    """The controller traced by CasADi gives the same command."""
    from support.casadi_function import casadi_function

    vehicle = samara.vehicle("iris_documented")
    state, _ = samara.hover(vehicle)
    control = geometric(vehicle)
    reference = Reference(Vec3(0.4, -0.3, 1.5), Vec3(0.1, 0.2, 0.3), yaw=0.3)
    traced = casadi_function(lambda s, r: control(s, r, vehicle, ())[0], state, reference)
    assert traced(state, reference) == pytest.approx(control(state, reference, vehicle, ())[0], rel=1e-13)


def test_a_roll_to_the_right_lowers_the_thrust_of_the_right_rotors():
    """Signs end to end: a desired roll to the right reduces the thrust of the right rotors."""
    vehicle = samara.vehicle("hakoniwa")
    state, _ = samara.hover(vehicle)
    allocation = build_allocation(vehicle)
    command = command_for_wrench(7.0, Vec3(0.01, 0.0, 0.0), state, vehicle, allocation)
    right, left = [command[0], command[3]], [command[1], command[2]]
    assert min(left) > max(right)
    assert wrench(state, command, vehicle).tau_B.x == pytest.approx(0.0, abs=1e-12)  # the rotors have not responded


# Extreme initial states and distant references ---------------------------------------------------------------------

DT = 2e-3


def simulate(vehicle, state, seconds, reference, controller=None, environment=None, record_every=10, **options):
    """Simulate the compiled closed loop of one drone or a batch at a constant reference."""
    sim = samara.compile(vehicle, backend="llvm", controller=controller or geometric(vehicle), **options)
    rows = np.tile(flatten(reference), (round(seconds / DT), 1))
    return sim.rollout(state, reference=rows, dt=DT, environment=environment, record_every=record_every)


def distance(p_W, position=(0.0, 0.0, 0.0)):
    return np.sqrt(sum((np.asarray(p) - target) ** 2 for p, target in zip(p_W, position, strict=True)))


def tilt(q_WB):
    """Angle of b₃ from the vertical [deg]"""
    return np.degrees(np.arccos(np.clip(matrix_from_quat(q_WB).zz, -1.0, 1.0)))


ORIGIN = Reference(Vec3(0.0, 0.0, 0.0))


def test_no_iris_is_lost_from_a_tilted_start():
    """From up to 0.5 m, 0.5 m/s, 40° and 1 rad/s off, with a thrust of 1.63 weights, all 5 × 64 return.

    Without priorities four in 64 were lost: torque about z used up the thrust that roll and pitch needed.
    """
    vehicle = samara.vehicle("iris_documented").without_effect("contact")
    trim, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    uniform = np.random.default_rng(3).uniform
    p, v, g, omega = (
        uniform(-size, size, (3, 5 * 64)) for size in (0.5, 0.5, 0.2, 1.0)
    )  # g = tan(half the angle) · axis
    q = np.array([np.ones(5 * 64), *g]) / np.sqrt(1.0 + (g * g).sum(axis=0))
    start = unflatten(trim, iter([np.full(5 * 64, leaf) for leaf in flatten(trim)]))
    start = start._replace(p_W=Vec3(*p), v_W=Vec3(*v), q_WB=Quat(*q), omega_B=Vec3(*omega))
    flight = simulate(vehicle, start, 5.0, ORIGIN)
    assert distance(flight.states.p_W).max() < 2.0 and matrix_from_quat(flight.states.q_WB).zz.min() > 0.0
    assert distance(flight.final.p_W).max() < 0.01


@pytest.mark.parametrize(("name", "seconds"), [("crazyflie_documented", 6.0), ("hexarotor_x", 14.0)])
def test_thrown_at_any_attitude_it_comes_home(name, seconds):
    """At any attitude, rotating at up to 5 rad/s about each axis, 2 m away at up to 2 m/s: all 64 end within 5 cm."""
    vehicle = samara.vehicle(name).without_effect("contact")
    trim, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    rng = np.random.default_rng(7)
    p, v, omega = (rng.uniform(-size, size, (3, 64)) for size in (2.0, 2.0, 5.0))
    q = rng.normal(size=(4, 64))
    start = unflatten(trim, iter([np.full(64, leaf) for leaf in flatten(trim)]))
    start = start._replace(
        p_W=Vec3(*p), v_W=Vec3(*v), omega_B=Vec3(*omega), q_WB=Quat(*(q / np.linalg.norm(q, axis=0)))
    )
    flight = simulate(vehicle, start, seconds, ORIGIN)
    assert tilt(start.q_WB).max() > 150.0
    assert distance(flight.final.p_W).max() < 0.05


def test_the_acceleration_is_limited_by_tilt_and_rotor_thrust():
    """Vertical first: √(f² − f_z²), or tan 60° of the vertical part, remains for the horizontal part, in the desired
    direction."""
    vehicle = samara.vehicle("iris_documented")
    allocation, limits = build_allocation(vehicle), FlightLimits()
    max_acceleration, g = allocation.thrust_range.high / vehicle.mass, 9.80665
    weak = limit_acceleration(Vec3(30.0, -40.0, g), vehicle, allocation, limits)
    assert np.linalg.norm(weak) == pytest.approx(max_acceleration, rel=1e-12)
    assert (weak.x / weak.y, weak.z) == pytest.approx((-0.75, g), rel=1e-12)
    slow = limit_acceleration(Vec3(30.0, 0.0, 0.5 * g), vehicle, allocation, limits)
    assert math.atan2(slow.x, slow.z) == pytest.approx(limits.tilt, rel=1e-12)
    dive = limit_acceleration(Vec3(3.0, 4.0, -50.0), vehicle, allocation, limits)
    assert dive.z == pytest.approx(0.2 * g) and math.hypot(dive.x, dive.y) < 2.0 * dive.z
    assert limit_acceleration(Vec3(0.0, 0.0, 99.0), vehicle, allocation, limits) == (0.0, 0.0, max_acceleration)
    gentle = Vec3(1.0, -2.0, 11.0)
    assert limit_acceleration(gentle, vehicle, allocation, limits) == gentle


def test_the_desired_thrust_is_never_negative():
    """Upside down, f·b₃ < 0: the thrust is zero, even for a body driven by a wrench."""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    state, _ = samara.hover(vehicle)
    control = geometric(vehicle)
    assert control(state._replace(q_WB=quat_from_euler(3.0, 0.0, 0.0)), Reference(state.p_W), vehicle, ())[0][0] == 0.0


def test_the_position_error_is_limited():
    """|e_p| ≤ 2v/ω: at that length ω² e_p = 2ω v balances the damping at the speed limit v. With little thrust margin, v is
    2a/ω with a = f/m − g."""
    strong, slow = samara.vehicle("hexarotor_x"), FlightLimits(speed=3.0)
    allocation = build_allocation(strong)
    far = limit_position_error(Vec3(300.0, -400.0, 0.0), strong, allocation, GAINS, slow)
    assert far == pytest.approx((1.8, -2.4, 0.0), rel=1e-12)
    near = Vec3(0.3, -0.2, 0.1)
    assert limit_position_error(near, strong, allocation, GAINS, slow) == near
    weak = samara.vehicle("iris_documented")
    allocation, gains = build_allocation(weak), default_gains(weak)
    headroom = allocation.thrust_range.high / weak.mass - weak["gravity"].acceleration
    far = limit_position_error(Vec3(0.0, 0.0, -100.0), weak, allocation, gains, FlightLimits())
    assert far == pytest.approx((0.0, 0.0, -4.0 * headroom / gains.position**2), rel=1e-12)


def test_it_flies_to_a_far_place_at_the_speed_limit():
    """50 m away: at cruise 2ω v + drag/m = 2ω · 5 m/s, slightly faster at first because the tilt lags; then it stops."""
    vehicle = samara.vehicle("hexarotor_x").without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    flight = simulate(vehicle, state, 20.0, Reference(Vec3(30.0, 40.0, 0.0)))
    speed, w = distance(flight.states.v_W), default_gains(vehicle).position
    cruising = speed[np.searchsorted(flight.time, 7.0)]
    drag = 0.12 * cruising + 0.02 * cruising**2
    assert 2.0 * w * cruising + drag / vehicle.mass == pytest.approx(
        2.0 * w * 5.0, rel=5e-3
    )  # the drag's axes are tilted
    assert speed.max() < 6.0
    assert tilt(flight.states.q_WB).max() < 60.0
    assert distance(flight.states.p_W).max() < 50.01
    assert distance(flight.final.p_W, (30.0, 40.0, 0.0)) < 0.01


def test_a_vehicle_with_little_thrust_margin_stops_in_time():
    """The iris, thrust 1.63 times the weight, sent 15 m down: not a centimetre too far."""
    vehicle = samara.vehicle("iris_documented").without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    flight = simulate(vehicle, state, 12.0, Reference(Vec3(0.0, 0.0, -15.0)))
    assert np.asarray(flight.states.p_W.z).min() > -15.01
    assert flight.final.p_W.z == pytest.approx(-15.0, abs=0.01)


# Steady disturbances -----------------------------------------------------------------------------------------------


def test_without_integral_action_wind_leaves_the_error_of_the_position_gain():
    """m ω² e = drag in steady wind; with integral action the error is zero, and the integral is the drag's acceleration."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    wind = samara.Environment(wind_W=Vec3(1.0, -0.5, 0.3))
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    drag_acceleration = np.array([0.1, 0.1, 0.2]) * [1.0, -0.5, 0.3] / vehicle.mass
    flight = simulate(vehicle, state, 10.0, ORIGIN, environment=wind)
    assert np.array(flight.final.p_W) == pytest.approx(
        drag_acceleration / default_gains(vehicle).position ** 2, rel=1e-3
    )
    with_integral = geometric(vehicle, integral=True, period=DT)
    flight = simulate(vehicle, state, 30.0, ORIGIN, with_integral, wind)
    assert np.array(flight.final.p_W) == pytest.approx(np.zeros(3), abs=1e-6)
    assert np.array(flight.controller_state) == pytest.approx(-drag_acceleration, rel=1e-5)


def test_the_integral_does_not_wind_up():
    """A step of 40 m: the integral is held while the acceleration is saturated or the error shrinks fast enough."""
    vehicle = samara.vehicle("hexarotor_x").without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    with_integral = geometric(vehicle, integral=True, period=DT)
    flight = simulate(vehicle, state, 20.0, Reference(Vec3(40.0, 0.0, 0.0)), with_integral)
    assert np.asarray(flight.states.p_W.x).max() < 40.01
    assert np.array(flight.final.p_W) == pytest.approx([40.0, 0.0, 0.0], abs=1e-3)


def test_the_controller_state_is_the_integral():
    """b ← b − (4/27) ω³ e_p dt, within ±g; held while the error is not due to a steady disturbance."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    state, command = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    assert geometric(vehicle).initial_state == ()
    controller = geometric(vehicle, integral=True)
    assert controller.initial_state == Vec3(0.0, 0.0, 0.0)
    assert samara.compile(vehicle, controller=controller).initial_controller_state == controller.initial_state
    command_at_rest, integral = controller(state, ORIGIN, vehicle, controller.initial_state)
    assert command_at_rest == pytest.approx(command, rel=1e-12) and integral == Vec3(0.0, 0.0, 0.0)
    offset_state = state._replace(p_W=Vec3(0.1, 0.0, -0.2))
    _, integral = controller(offset_state, ORIGIN, vehicle, integral)
    w = controller.gains.position
    assert integral == pytest.approx(np.array([-0.1, 0.0, 0.2]) * 4.0 / 27.0 * w**3 * 4e-3, rel=1e-12)
    approaching, distant = (
        offset_state._replace(v_W=Vec3(-0.41 * w * 0.1, 0.0, 0.41 * w * 0.2)),
        offset_state._replace(p_W=Vec3(5.0, 0.0, 0.0)),
    )
    steep, strong = ORIGIN._replace(a_W=Vec3(30.0, 0.0, 0.0)), ORIGIN._replace(a_W=Vec3(0.0, 0.0, 30.0))
    for case in ((approaching, ORIGIN), (distant, ORIGIN), (offset_state, steep), (offset_state, strong)):
        assert controller(*case, vehicle, integral)[1] == integral
    assert controller(offset_state, ORIGIN, vehicle, Vec3(-9.8099, 0.0, 0.0))[1].x == -vehicle["gravity"].acceleration
    with pytest.raises(
        ValueError, match=r"controller_state = \(\): a controller with integral action starts with its `initial_s"
    ):
        controller(state, ORIGIN, vehicle, ())


def test_invalid_limits_are_rejected():
    vehicle = samara.vehicle("crazyflie_documented")
    with pytest.raises(ValueError, match=r"period = 0.0 s: expected a positive number"):
        geometric(vehicle, integral=True, period=0.0)
    with pytest.raises(ValueError, match=r"FlightLimits\(tilt=2.0, speed=5.0\): expected a tilt between 0 and π/2 rad"):
        geometric(vehicle, limits=FlightLimits(tilt=2.0))


# Failed rotors -----------------------------------------------------------------------------------------------------


def fly_with_failed_rotor(name, failed, seconds=10.0, start=None):
    """Fly from hover with one failed motor, which the controller is informed of."""
    vehicle = samara.vehicle(name).without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    state = start(state) if start else state
    healthy = [i != failed for i in range(len(vehicle.rotors))]
    controller = geometric(vehicle, healthy=healthy)
    environment = samara.Environment(motor_effectiveness=tuple(float(is_healthy) for is_healthy in healthy))
    return simulate(vehicle, state, seconds, ORIGIN, controller, environment, integrator="semi_implicit")


@pytest.mark.parametrize(
    ("name", "dead"), [("hexarotor_x", dead) for dead in range(6)] + [("octorotor_x", dead) for dead in range(8)]
)
def test_six_or_eight_rotors_hover_on_without_one(name, dead):
    """10 s after the failure: never 0.15 m off nor 3° from level. Six rotors give up yaw, slowly; eight hold it."""
    flight = fly_with_failed_rotor(name, dead)
    assert distance(flight.states.p_W).max() < 0.15
    assert tilt(flight.states.q_WB).max() < 3.0
    assert distance(flight.final.p_W) < 1e-3
    yaw_rate = abs(flight.final.omega_B.z)
    assert 0.5 < yaw_rate < 1.0 if name == "hexarotor_x" else yaw_rate < 1e-3


def test_with_a_dead_rotor_it_can_still_be_thrown():
    """With five of six rotors, 30° from level, 1 m off and moving, it returns; the uncontrolled yaw does not interfere."""
    q_WB = quat_from_euler(0.4, -0.3, 1.0)
    flight = fly_with_failed_rotor(
        "hexarotor_x",
        2,
        14.0,
        lambda state: state._replace(p_W=Vec3(1.0, -0.5, 0.3), v_W=Vec3(-1.0, 1.0, 0.0), q_WB=q_WB),
    )
    assert tilt(flight.states.q_WB).max() < 60.0
    assert distance(flight.final.p_W) < 0.01


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented"])
def test_four_less_one_spin_and_sink_but_stay_numbers(name):
    """Three rotors of a quadrotor cannot balance the torque about z: it spins up; with 1.63 weights on four, it falls."""
    flight = fly_with_failed_rotor(name, 0, 5.0)
    assert all(np.isfinite(leaf).all() for leaf in flatten(flight.states))
    assert np.abs(flight.states.omega_B.z).max() > 3.0
    assert flight.final.p_W.z < -0.5


@pytest.mark.parametrize("name", ["crazyflie_documented", "crazyflie", "iris_documented"])
def test_at_constant_velocity_thrust_balances_weight_and_drag(name):
    """At the reference velocity and without error, m f + d(v) = m g e₃: the acceleration is zero."""
    vehicle, v_W = samara.vehicle(name), Vec3(1.3, -0.7, 0.4)
    state = samara.hover(vehicle)[0]._replace(v_W=v_W, q_WB=quat_from_euler(0.1, 0.2, -0.4))
    acceleration_W = tracking_acceleration(
        Vec3(0.0, 0.0, 0.0), state, Reference(state.p_W, v_W), vehicle, default_gains(vehicle)
    )
    drag = samara.wrench_breakdown(state, samara.hover(vehicle)[1], vehicle)["drag"]
    drag_W = np.array(drag.f_W) + np.array(matrix_from_quat(state.q_WB) @ drag.f_B)
    weight = vehicle.mass * vehicle["gravity"].acceleration
    assert np.linalg.norm(drag_W) > 0.0
    assert vehicle.mass * np.array(acceleration_W) + drag_W == pytest.approx(np.array([0.0, 0.0, weight]), abs=1e-14)
