"""Lee's controller: what it asks for is what the law says, and what it flies arrives."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.worlds import rotation

import samara
from samara.control.allocation import allocation_for, command_for_wrench
from samara.control.default_gains import Gains
from samara.control.geometric import (
    FlightLimits,
    gains_for,
    geometric,
    geometric_wrench,
    limited_error,
    limited_pull,
    motor_time_constant,
    wanted_pull,
)
from samara.core.algebra import Quat, Vec3, matrix_from_quat, quat_from_euler
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import wrench
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Reference, State
from samara.plan.reference import Leg, along_legs, minimum_jerk
from samara.vehicles.build import with_effects

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
    """The command for (f, τ), held until the speeds have settled, gives that f along z and that τ: by kF alone."""
    vehicle = with_effects(samara.vehicle(name), {"thrust_curve": False})
    state, _ = samara.hover(vehicle)
    lift = 1.2 * vehicle.mass * vehicle["gravity"].acceleration
    reach = max(abs(rotor.r_B.x) for rotor in vehicle.rotors)
    wanted = Vec3(0.05 * lift * reach, -0.03 * lift * reach, 0.002 * lift * reach)
    command = command_for_wrench(lift, wanted, state, vehicle, allocation_for(vehicle))
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


GAINS = Gains(2.0, Vec3(9.0, 8.0, 3.0))


def leaning(vehicle, q_WB):
    """Off its place, moving and turning."""
    state, _ = samara.hover(vehicle)
    return state._replace(p_W=Vec3(0.3, -0.2, 1.4), v_W=Vec3(0.5, 0.1, -0.2), q_WB=q_WB, omega_B=Vec3(0.4, -0.5, 0.6))


def asked(state, reference, vehicle, keeps_yaw=True):
    """Thrust and torque as the controller wants them, nothing limited."""
    pull_W = wanted_pull(state.p_W - reference.p_W, state, reference, vehicle, GAINS)
    return geometric_wrench(pull_W, state, reference, vehicle, GAINS, keeps_yaw)


def wanted_in_matrices(state, reference, vehicle):
    """f, R and R_d by SciPy and NumPy."""
    e_p, e_v = np.array(state.p_W - reference.p_W), np.array(state.v_W - reference.v_W)
    f = vehicle.mass * (np.array([0, 0, 9.81]) + np.array(reference.a_W) - 4.0 * e_p - 4.0 * e_v)
    b3 = f / np.linalg.norm(f)
    b2 = np.cross(b3, [math.cos(reference.yaw), math.sin(reference.yaw), 0.0])
    b2 /= np.linalg.norm(b2)
    return f, rotation(state.q_WB).as_matrix(), np.column_stack([np.cross(b2, b3), b2, b3])


def torque_for(e_R, state, vehicle):
    """J (−k_R e_R − k_Ω ω) + ω × Jω"""
    omega, J = np.array(state.omega_B), np.array(vehicle.inertia_B).reshape(3, 3)
    gain = np.array(GAINS.attitude)
    return J @ (-(gain**2) * e_R - 2.0 * gain * omega) + np.cross(omega, J @ omega)


def test_its_wrench_is_lees_law_in_matrices():
    """f = m(g e₃ + a_d − kₓe_p − k_v e_v), e_R = ½(R_dᵀR − RᵀR_d)^∨, e_Ω = ω − RᵀR_d ω_d, with the nose where it should be"""
    vehicle = samara.vehicle("hakoniwa")
    reference = Reference(Vec3(0.0, 0.1, 1.0), Vec3(0.2, 0.0, 0.1), Vec3(0.7, -0.4, 0.3), yaw=0.5)
    f, _, R_d = wanted_in_matrices(leaning(vehicle, Quat(1.0, 0.0, 0.0, 0.0)), reference, vehicle)
    leaned = Rotation.from_matrix(R_d) * Rotation.from_rotvec([0.3, -0.4, 0.0])  # about an axis across b₃: no yaw error
    x, y, z, w = leaned.as_quat()
    state = leaning(vehicle, Quat(w, x, y, z))
    skew = 0.5 * (R_d.T @ leaned.as_matrix() - leaned.as_matrix().T @ R_d)
    e_R = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])
    lift, tau_B = asked(state, reference, vehicle)
    assert lift == pytest.approx(f @ leaned.as_matrix()[:, 2], rel=1e-12)
    assert np.array(tau_B) == pytest.approx(torque_for(e_R, state, vehicle), rel=1e-12)


def test_a_wrong_yaw_does_not_steer_the_tilt():
    """Across b₃ the error is sin θ about the axis from f to b₃, whatever the yaw; about b₃ it is Lee's own component."""
    vehicle = samara.vehicle("hakoniwa")
    reference = Reference(Vec3(0.0, 0.1, 1.0), Vec3(0.2, 0.0, 0.1), Vec3(0.7, -0.4, 0.3))
    for yaw in (0.9, -2.5):
        state = leaning(vehicle, quat_from_euler(0.2, -0.3, yaw))
        f, R, R_d = wanted_in_matrices(state, reference, vehicle)
        across = R.T @ np.cross(f / np.linalg.norm(f), R[:, 2])
        skew = 0.5 * (R_d.T @ R - R.T @ R_d)
        _, tau_B = asked(state, reference, vehicle)
        assert np.array(tau_B) == pytest.approx(torque_for([*across[:2], skew[1, 0]], state, vehicle), rel=1e-12)
        _, tau_B = asked(state, reference._replace(yaw=1.0, yaw_rate=2.0), vehicle, keeps_yaw=False)
        assert np.array(tau_B) == pytest.approx(torque_for([*across[:2], 0.0], state, vehicle), rel=1e-12)


def test_upside_down_it_turns_as_hard_as_on_its_side():
    """|e_R| = sin θ up to 90°, and 1 from there to 180°, where sin θ would let it hang; at 180° itself no way is nearer."""
    vehicle, reference = samara.vehicle("hakoniwa"), Reference(Vec3(0.0, 0.0, 1.0))
    still, _ = samara.hover(vehicle)
    for degrees, size in ((30.0, 0.5), (90.0, 1.0), (150.0, 1.0), (179.9, 1.0), (180.0, 0.0)):
        half = math.radians(degrees) / 2.0
        turned = Quat(math.cos(half) if degrees < 180.0 else 0.0, 0.6 * math.sin(half), 0.8 * math.sin(half), 0.0)
        _, tau_B = asked(still._replace(q_WB=turned), reference, vehicle)
        e_R = np.array(tau_B)[:2] / (np.array(vehicle.inertia_B)[[0, 4]] * np.array(GAINS.attitude)[:2] ** 2)
        assert e_R == pytest.approx([-0.6 * size, -0.8 * size], abs=1e-9)


def test_the_wanted_turn_rate_is_that_of_the_wanted_attitude():
    """ω_d and ω̇_d by finite differences of R_d along a trajectory with jerk and snap, the vehicle exactly on it."""
    vehicle = samara.vehicle("hakoniwa")
    gains = gains_for(vehicle, lead=0.0)
    legs = (Leg("there", Vec3(6.0, 3.0, 2.0), 3.0, 1.0),)

    def wanted(time):
        reference = along_legs(time, Vec3(0.0, 0.0, 1.0), legs, 0.7)
        f = np.array(reference.a_W + Vec3(0.0, 0.0, 9.81))
        b3 = f / np.linalg.norm(f)
        b2 = np.cross(b3, [math.cos(0.7), math.sin(0.7), 0.0])
        b2 /= np.linalg.norm(b2)
        return reference, Rotation.from_matrix(np.column_stack([np.cross(b2, b3), b2, b3]))

    def turning(time, h=1e-3):
        return (wanted(time - h)[1].inv() * wanted(time + h)[1]).as_rotvec() / (2.0 * h)

    reference, R_d = wanted(1.1)
    turned, turned_on = turning(1.1), (turning(1.101) - turning(1.099)) / 2e-3
    x, y, z, w = R_d.as_quat()
    state = State(
        reference.p_W, reference.v_W, Quat(w, x, y, z), Vec3(*turned), (0.0,) * 4, samara.hover(vehicle)[0].effects
    )
    pull_W = wanted_pull(Vec3(0.0, 0.0, 0.0), state, reference, vehicle, gains)
    _, tau_B = geometric_wrench(pull_W, state, reference, vehicle, gains)
    J = np.array(vehicle.inertia_B).reshape(3, 3)
    asked = np.linalg.solve(J, np.array(tau_B) - np.cross(turned, J @ turned))
    assert asked == pytest.approx(turned_on, abs=1e-4)
    assert np.abs(turned_on).max() > 0.5


def test_minimum_jerk_is_smooth_and_its_derivatives_are_its_derivatives():
    """s(0) = 0, s(T) = 1, rest at both ends; central differences of each row give the next."""
    assert minimum_jerk(0.0, 3.0)[:3] == (0.0, 0.0, 0.0)
    assert minimum_jerk(3.0, 3.0)[:3] == (1.0, 0.0, 0.0)
    for time in (0.4, 1.5, 2.7):
        before, here, after = (np.array(minimum_jerk(time + shift, 3.0)) for shift in (-1e-5, 0.0, 1e-5))
        assert (after - before)[:4] / 2e-5 == pytest.approx(here[1:], abs=1e-8)


def test_a_dc_motor_answers_as_fast_as_its_documents_first_order_pair():
    """Hakoniwa gives the same motor as Kr/(Tr s + 1) with Tr = 0.045 s; linearised at hover it is 0.046 s."""
    assert motor_time_constant(samara.vehicle("hakoniwa")) == pytest.approx(0.045, rel=0.03)


def test_the_controller_traces():
    """One source: through CasADi it gives the same command."""
    from samara.compiler.trace.symbolic import trace

    vehicle = samara.vehicle("iris_documented")
    state, _ = samara.hover(vehicle)
    control = geometric(vehicle)
    reference = Reference(Vec3(0.4, -0.3, 1.5), Vec3(0.1, 0.2, 0.3), yaw=0.3)
    traced = trace(lambda s, r: control(s, r, vehicle, ())[0], state, reference)
    assert traced(state, reference) == pytest.approx(control(state, reference, vehicle, ())[0], rel=1e-13)


def test_more_front_left_means_the_body_feels_the_torque_asked_for():
    """Signs end to end: a wanted roll to the right lowers the right side's rotors."""
    vehicle = samara.vehicle("hakoniwa")
    state, _ = samara.hover(vehicle)
    allocation = allocation_for(vehicle)
    command = command_for_wrench(7.0, Vec3(0.01, 0.0, 0.0), state, vehicle, allocation)
    right, left = [command[0], command[3]], [command[1], command[2]]
    assert min(left) > max(right)
    assert wrench(state, command, vehicle).tau_B.x == pytest.approx(
        0.0, abs=1e-12
    )  # not before the rotors have answered


# Wild starts and far-away places -----------------------------------------------------------------------------------

DT = 2e-3


def flown(vehicle, state, seconds, reference, controller=None, environment=None, every=10, **options):
    """The closed loop, compiled: one drone or many at one reference."""
    sim = samara.compile(vehicle, backend="llvm", controller=controller or geometric(vehicle), **options)
    rows = np.tile(flatten(reference), (round(seconds / DT), 1))
    return sim.rollout(state, reference=rows, dt=DT, environment=environment, record_every=every)


def distance(p_W, place=(0.0, 0.0, 0.0)):
    return np.sqrt(sum((np.asarray(p) - own) ** 2 for p, own in zip(p_W, place, strict=True)))


def tilt(q_WB):
    """The angle of b₃ from straight up [deg]"""
    return np.degrees(np.arccos(np.clip(matrix_from_quat(q_WB).zz, -1.0, 1.0)))


ORIGIN = Reference(Vec3(0.0, 0.0, 0.0))


def test_no_iris_is_lost_from_a_tilted_start():
    """Half a metre, half a metre a second, 40° and 1 rad/s off, thrust 1.63 times the weight: all of 5 × 64 come home

    Without priority four in 64 were lost: torque about z took the thrust that roll and pitch needed.
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
    flight = flown(vehicle, start, 5.0, ORIGIN)
    assert distance(flight.states.p_W).max() < 2.0 and matrix_from_quat(flight.states.q_WB).zz.min() > 0.0
    assert distance(flight.final.p_W).max() < 0.01


@pytest.mark.parametrize(("name", "seconds"), [("crazyflie_documented", 6.0), ("hexarotor_x", 14.0)])
def test_thrown_at_any_attitude_it_comes_home(name, seconds):
    """Upside down or not, turning at up to 5 rad/s about each axis, 2 m away at up to 2 m/s: all 64 end within 5 cm."""
    vehicle = samara.vehicle(name).without_effect("contact")
    trim, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    rng = np.random.default_rng(7)
    p, v, omega = (rng.uniform(-size, size, (3, 64)) for size in (2.0, 2.0, 5.0))
    q = rng.normal(size=(4, 64))
    start = unflatten(trim, iter([np.full(64, leaf) for leaf in flatten(trim)]))
    start = start._replace(
        p_W=Vec3(*p), v_W=Vec3(*v), omega_B=Vec3(*omega), q_WB=Quat(*(q / np.linalg.norm(q, axis=0)))
    )
    flight = flown(vehicle, start, seconds, ORIGIN)
    assert tilt(start.q_WB).max() > 150.0
    assert distance(flight.final.p_W).max() < 0.05


def test_the_pull_is_cut_to_the_tilt_limit_and_to_what_the_rotors_lift():
    """Vertical first: the rest of the thrust, √(f² − f_z²), or tan 60° of the lift, goes sideways, in the direction wanted."""
    vehicle = samara.vehicle("iris_documented")
    allocation, limits = allocation_for(vehicle), FlightLimits()
    most, g = allocation.lift.high / vehicle.mass, 9.80665
    weak = limited_pull(Vec3(30.0, -40.0, g), vehicle, allocation, limits)
    assert np.linalg.norm(weak) == pytest.approx(most, rel=1e-12)
    assert (weak.x / weak.y, weak.z) == pytest.approx((-0.75, g), rel=1e-12)
    slow = limited_pull(Vec3(30.0, 0.0, 0.5 * g), vehicle, allocation, limits)
    assert math.atan2(slow.x, slow.z) == pytest.approx(limits.tilt, rel=1e-12)
    dive = limited_pull(Vec3(3.0, 4.0, -50.0), vehicle, allocation, limits)
    assert dive.z == pytest.approx(0.2 * g) and math.hypot(dive.x, dive.y) < 2.0 * dive.z
    assert limited_pull(Vec3(0.0, 0.0, 99.0), vehicle, allocation, limits) == (0.0, 0.0, most)
    gentle = Vec3(1.0, -2.0, 11.0)
    assert limited_pull(gentle, vehicle, allocation, limits) == gentle


def test_it_never_asks_for_thrust_that_pulls():
    """Upside down f·b₃ < 0: nothing is asked for, also of a body that would do it."""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    state, _ = samara.hover(vehicle)
    control = geometric(vehicle)
    assert control(state._replace(q_WB=quat_from_euler(3.0, 0.0, 0.0)), Reference(state.p_W), vehicle, ())[0][0] == 0.0


def test_a_far_place_pulls_no_harder_than_a_near_one():
    """|e_p| ≤ 2v/ω: there ω² e_p = 2ω v, the pull that a body at the speed limit v no longer feels. For one that lifts little
    more than its weight v is 2a/ω with a = f/m − g."""
    strong, slow = samara.vehicle("hexarotor_x"), FlightLimits(speed=3.0)
    allocation = allocation_for(strong)
    far = limited_error(Vec3(300.0, -400.0, 0.0), strong, allocation, GAINS, slow)
    assert far == pytest.approx((1.8, -2.4, 0.0), rel=1e-12)
    near = Vec3(0.3, -0.2, 0.1)
    assert limited_error(near, strong, allocation, GAINS, slow) == near
    weak = samara.vehicle("iris_documented")
    allocation, gains = allocation_for(weak), gains_for(weak)
    spare = allocation.lift.high / weak.mass - weak["gravity"].acceleration
    far = limited_error(Vec3(0.0, 0.0, -100.0), weak, allocation, gains, FlightLimits())
    assert far == pytest.approx((0.0, 0.0, -4.0 * spare / gains.position**2), rel=1e-12)


def test_it_flies_to_a_far_place_at_the_speed_limit():
    """50 m away: on the way 2ω v + drag/m = 2ω · 5 m/s, at the start a little faster for the lag of the tilt; then it stops."""
    vehicle = samara.vehicle("hexarotor_x").without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    flight = flown(vehicle, state, 20.0, Reference(Vec3(30.0, 40.0, 0.0)))
    speed, w = distance(flight.states.v_W), gains_for(vehicle).position
    cruising = speed[np.searchsorted(flight.time, 7.0)]
    drag = 0.12 * cruising + 0.02 * cruising**2
    assert 2.0 * w * cruising + drag / vehicle.mass == pytest.approx(2.0 * w * 5.0, rel=5e-3)  # the drag's axes lean
    assert speed.max() < 6.0
    assert tilt(flight.states.q_WB).max() < 60.0
    assert distance(flight.states.p_W).max() < 50.01
    assert distance(flight.final.p_W, (30.0, 40.0, 0.0)) < 0.01


def test_a_weak_one_still_stops_in_time():
    """The iris, thrust 1.63 times the weight, sent 15 m down: not a centimetre too far."""
    vehicle = samara.vehicle("iris_documented").without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    flight = flown(vehicle, state, 12.0, Reference(Vec3(0.0, 0.0, -15.0)))
    assert np.asarray(flight.states.p_W.z).min() > -15.01
    assert flight.final.p_W.z == pytest.approx(-15.0, abs=0.01)


# Steady disturbances -----------------------------------------------------------------------------------------------


def test_without_integral_wind_leaves_the_offset_the_spring_says():
    """m ω² e = drag in steady wind; with integral nothing is left, and the memory is the acceleration the drag would give."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    wind = samara.Environment(wind_W=Vec3(1.0, -0.5, 0.3))
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    push = np.array([0.1, 0.1, 0.2]) * [1.0, -0.5, 0.3] / vehicle.mass
    flight = flown(vehicle, state, 10.0, ORIGIN, environment=wind)
    assert np.array(flight.final.p_W) == pytest.approx(push / gains_for(vehicle).position ** 2, rel=1e-3)
    patient = geometric(vehicle, integral=True, period=DT)
    flight = flown(vehicle, state, 30.0, ORIGIN, patient, wind)
    assert np.array(flight.final.p_W) == pytest.approx(np.zeros(3), abs=1e-6)
    assert np.array(flight.memory) == pytest.approx(-push, rel=1e-5)


def test_the_integral_does_not_wind_up_on_the_way():
    """A step of 40 m: while the pull is cut, and while the place comes nearer by itself, nothing is added up."""
    vehicle = samara.vehicle("hexarotor_x").without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    patient = geometric(vehicle, integral=True, period=DT)
    flight = flown(vehicle, state, 20.0, Reference(Vec3(40.0, 0.0, 0.0)), patient)
    assert np.asarray(flight.states.p_W.x).max() < 40.01
    assert np.array(flight.final.p_W) == pytest.approx([40.0, 0.0, 0.0], abs=1e-3)


def test_what_is_remembered():
    """b ← b − (4/27) ω³ e_p dt, within ±g, and as it was where nothing can be learnt."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    state, command = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    assert geometric(vehicle).initial_memory == ()
    patient = geometric(vehicle, integral=True)
    assert patient.initial_memory == Vec3(0.0, 0.0, 0.0)
    assert samara.compile(vehicle, controller=patient).initial_memory == patient.initial_memory
    given, memory = patient(state, ORIGIN, vehicle, patient.initial_memory)
    assert given == pytest.approx(command, rel=1e-12) and memory == Vec3(0.0, 0.0, 0.0)
    beside = state._replace(p_W=Vec3(0.1, 0.0, -0.2))
    _, memory = patient(beside, ORIGIN, vehicle, memory)
    w = patient.gains.position
    assert memory == pytest.approx(np.array([-0.1, 0.0, 0.2]) * 4.0 / 27.0 * w**3 * 4e-3, rel=1e-12)
    closing, far = (
        beside._replace(v_W=Vec3(-0.41 * w * 0.1, 0.0, 0.41 * w * 0.2)),
        beside._replace(p_W=Vec3(5.0, 0.0, 0.0)),
    )
    steep, strong = ORIGIN._replace(a_W=Vec3(30.0, 0.0, 0.0)), ORIGIN._replace(a_W=Vec3(0.0, 0.0, 30.0))
    for unsaid in ((closing, ORIGIN), (far, ORIGIN), (beside, steep), (beside, strong)):
        assert patient(*unsaid, vehicle, memory)[1] == memory
    assert patient(beside, ORIGIN, vehicle, Vec3(-9.8099, 0.0, 0.0))[1].x == -vehicle["gravity"].acceleration
    with pytest.raises(
        ValueError, match=r"memory = \(\): a controller with integral action starts with its `initial_m"
    ):
        patient(state, ORIGIN, vehicle, ())


def test_limits_that_make_no_sense_are_told():
    vehicle = samara.vehicle("crazyflie_documented")
    with pytest.raises(ValueError, match=r"period = 0.0 s: expected a positive number"):
        geometric(vehicle, integral=True, period=0.0)
    with pytest.raises(ValueError, match=r"FlightLimits\(tilt=2.0, speed=5.0\): expected a tilt between 0 and π/2 rad"):
        geometric(vehicle, limits=FlightLimits(tilt=2.0))


# Failed rotors -----------------------------------------------------------------------------------------------------


def with_a_dead_rotor(name, dead, seconds=10.0, start=None):
    """From hover, one motor dead and the controller told so."""
    vehicle = samara.vehicle(name).without_effect("contact")
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    state = start(state) if start else state
    healthy = [i != dead for i in range(len(vehicle.rotors))]
    controller = geometric(vehicle, healthy=healthy)
    environment = samara.Environment(motor_power=tuple(float(works) for works in healthy))
    return flown(vehicle, state, seconds, ORIGIN, controller, environment, integrator="semi_implicit")


@pytest.mark.parametrize(
    ("name", "dead"), [("hexarotor_x", dead) for dead in range(6)] + [("octorotor_x", dead) for dead in range(8)]
)
def test_six_or_eight_rotors_hover_on_without_one(name, dead):
    """10 s after the failure: never half a metre off nor 40° from level. Six let the yaw go, slowly; eight keep it."""
    flight = with_a_dead_rotor(name, dead)
    assert distance(flight.states.p_W).max() < 0.15
    assert tilt(flight.states.q_WB).max() < 3.0
    assert distance(flight.final.p_W) < 1e-3
    turning = abs(flight.final.omega_B.z)
    assert 0.5 < turning < 1.0 if name == "hexarotor_x" else turning < 1e-3


def test_with_a_dead_rotor_it_can_still_be_thrown():
    """Six less one, 30° from level, 1 m off and moving: home again, without a wanted yaw to get in the way."""
    lean = quat_from_euler(0.4, -0.3, 1.0)
    flight = with_a_dead_rotor(
        "hexarotor_x",
        2,
        14.0,
        lambda state: state._replace(p_W=Vec3(1.0, -0.5, 0.3), v_W=Vec3(-1.0, 1.0, 0.0), q_WB=lean),
    )
    assert tilt(flight.states.q_WB).max() < 60.0
    assert distance(flight.final.p_W) < 0.01


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented"])
def test_four_less_one_spin_and_sink_but_stay_numbers(name):
    """Three rotors of a quad hold no torque about z: it spins up, and one that lifts 1.63 weights with four falls."""
    flight = with_a_dead_rotor(name, 0, 5.0)
    assert all(np.isfinite(leaf).all() for leaf in flatten(flight.states))
    assert np.abs(flight.states.omega_B.z).max() > 3.0
    assert flight.final.p_W.z < -0.5


@pytest.mark.parametrize("name", ["crazyflie_documented", "crazyflie", "iris_documented"])
def test_on_a_straight_way_thrust_carries_weight_and_drag(name):
    """At the velocity asked for and without error, m f + d(v) = m g e₃: nothing is left to accelerate with."""
    vehicle, v_W = samara.vehicle(name), Vec3(1.3, -0.7, 0.4)
    state = samara.hover(vehicle)[0]._replace(v_W=v_W, q_WB=quat_from_euler(0.1, 0.2, -0.4))
    pull_W = wanted_pull(Vec3(0.0, 0.0, 0.0), state, Reference(state.p_W, v_W), vehicle, gains_for(vehicle))
    drag = samara.wrench_breakdown(state, samara.hover(vehicle)[1], vehicle)["drag"]
    drag_W = np.array(drag.f_W) + np.array(matrix_from_quat(state.q_WB) @ drag.f_B)
    weight = vehicle.mass * vehicle["gravity"].acceleration
    assert np.linalg.norm(drag_W) > 0.0
    assert vehicle.mass * np.array(pull_W) + drag_W == pytest.approx(np.array([0.0, 0.0, weight]), abs=1e-14)
