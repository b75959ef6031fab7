"""Document 000's engine: its promises, its errors, and the corrected flight.

A docstring that begins with "Errata 000" proves that row of the errata; "Common bug" names one of the document's four. The
document's own numbers are typed here once more, so that nothing is compared with itself.
"""

import math
import warnings
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from scipy import signal
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from support.traced_flights import rotation

import samara
from samara import Environment
from samara.control.geometric import geometric
from samara.core.algebra import ZERO, Quat, Vec3, quat_from_euler
from samara.documents.engine import (
    CrazyflieParams,
    DroneEngine,
    DronePhysicsEngine,
    EngineState,
    MotorModel,
    PrincipalInertia,
    body_to_world,
    engine_vehicle,
    euler_angles,
    to_ned,
    world_to_body,
)
from samara.physics.multirotor import state_at_rest
from samara.physics.rotors.rotor import RotorLoad, rotor_wrench
from samara.physics.types import Reference

ALLOCATIONS = ("documented", "geometric")
MASS, GRAVITY, ARM, KF, KM, TAU = 0.028, 9.81, 0.046, 2.88e-8, 7.24e-10, 0.015
IDLE, FASTEST = 300.0, 2500.0
JXX, JYY, JZZ = 1.4e-5, 1.4e-5, 2.17e-5
HOVER = math.sqrt(MASS * GRAVITY / (4 * KF))
STILL_AIR = CrazyflieParams(dragLinear=ZERO, dragAngular=ZERO)  # no drag, no damping
STANDING = replace(STILL_AIR, omegaMin=0.0)  # and rotors that stop at command 0


def documented_torques(w0, w1, w2, w3):
    """The document's torque equations, literally."""
    return np.array(
        [
            (ARM / math.sqrt(2)) * KF * ((w0**2 + w3**2) - (w1**2 + w2**2)),
            (ARM / math.sqrt(2)) * KF * ((w0**2 + w1**2) - (w2**2 + w3**2)),
            KM * (-(w0**2) + w1**2 - w2**2 + w3**2),
        ]
    )


def torque(vehicle, *speeds):
    """The torque of a vehicle's rotors at these speeds."""
    state = state_at_rest(vehicle)._replace(rotor_speed=speeds)
    return np.array(samara.wrench_breakdown(state, (0.0,) * 4, vehicle)["rotors"].tau_B)


def fly(engine, seconds, dt=5e-3):
    for _ in range(round(seconds / dt)):
        engine.step(dt)
    return engine.get_state()


def tilted_state(allocation, faster):
    """A hovering engine after 40 ms in which some of its motors had a slightly higher command."""
    engine = DroneEngine(allocation=allocation)
    engine.reset(motorSpeeds=(HOVER,) * 4)
    u = (HOVER - IDLE) / (FASTEST - IDLE)
    engine.apply_motor_commands(*(u + 0.01 if i in faster else u for i in range(4)))
    return fly(engine, 0.04)


# The numbers -------------------------------------------------------------------------------------------------------


def test_the_parameters_are_the_documents():
    """As printed there; idle, drag and damping as in the document's code."""
    assert CrazyflieParams() == CrazyflieParams(
        mass=MASS,
        armLength=ARM,
        inertia=PrincipalInertia(Jxx=JXX, Jyy=JYY, Jzz=JZZ),
        thrustCoeff=KF,
        torqueCoeff=KM,
        omegaMin=IDLE,
        omegaMax=FASTEST,
        tauMotor=TAU,
        gravity=GRAVITY,
        dragLinear=Vec3(0.1, 0.1, 0.2),
        dragAngular=Vec3(1.0, 1.0, 2.0),
    )
    with pytest.raises(FrozenInstanceError):
        CrazyflieParams().mass = 1.0


def test_the_geometric_engine_is_the_shipped_vehicle():
    """All parameters equal, except for the ground: the document's engine has no floor."""
    assert DroneEngine(allocation="geometric").vehicle == samara.vehicle("crazyflie_documented").without_effect(
        "contact"
    )


def test_every_parameter_reaches_the_flight():
    """A 50 % change of any parameter changes the flight: the reference flight uses all of them."""
    start = {"omega_B": Vec3(1.0, 2.0, 3.0), "v_W": Vec3(1.0, 2.0, 3.0), "motorSpeeds": (900.0, 1000.0, 1200.0, 1500.0)}
    usual = CrazyflieParams()

    def flown(params):
        engine = DroneEngine(params, backend="python")
        engine.reset(**start)
        engine.apply_motor_commands(0.3, 0.4, 0.5, 0.6)
        engine.step(0.002)
        return engine.get_state()

    reference = flown(usual)
    for name, value in vars(usual).items():
        more = type(value)(*(1.5 * x for x in value)) if isinstance(value, tuple) else 1.5 * value
        assert flown(replace(usual, **{name: more})) != reference, name


def test_hover_is_at_1544_rad_per_s():
    """Errata 000, hover speed: √(mg/4kF) is 1544.142 rad/s and u = 0.565519, not the printed 1633 rad/s."""
    assert pytest.approx(1544.142, abs=5e-4) == HOVER
    for allocation in ALLOCATIONS:
        state, command = samara.hover(DroneEngine(allocation=allocation).vehicle)
        assert state.rotor_speed == pytest.approx([HOVER] * 4, rel=1e-14)
        assert command == pytest.approx([(HOVER - IDLE) / (FASTEST - IDLE)] * 4, rel=1e-13)
        assert command == pytest.approx([0.565519] * 4, abs=5e-7)
    assert pytest.approx(1.118, abs=1e-3) == 4 * KF * 1633.0**2 / (MASS * GRAVITY)  # the printed one climbs at 0.118 g


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_at_the_hover_command_it_stays(allocation):
    """The document's hover test, flown for two seconds: equal motors and nothing moves."""
    engine = DroneEngine(allocation=allocation)
    engine.reset(p_W=Vec3(1.0, 2.0, 3.0), motorSpeeds=(HOVER,) * 4)
    engine.apply_motor_commands(*samara.hover(engine.vehicle)[1])
    state = fly(engine, 2.0)
    assert np.array(state.p_W) == pytest.approx([1.0, 2.0, 3.0], abs=1e-12)
    assert np.abs([*state.v_W, *state.omega_B]).max() < 1e-12


def test_the_torque_ratio_is_several_times_the_firmwares():
    """Errata 000, torque ratio: kM/kF = 0.0251 m; the firmware has 0.0052 to 0.0074 m: yaw is 3.4 to 4.9 times too strong."""
    firmware = {
        "thrust upgrade": 0.00516,
        "brushless": 0.00569,
        "default": 0.00596,
        "2.1+": 0.00699,
        "legacy": 0.00735,
    }
    ratio = CrazyflieParams().torqueCoeff / CrazyflieParams().thrustCoeff
    assert ratio == pytest.approx(0.0251, abs=5e-5)
    times = [ratio / value for value in firmware.values()]
    assert (min(times), max(times)) == (pytest.approx(3.4, abs=0.05), pytest.approx(4.9, abs=0.05))
    measured = samara.vehicle("crazyflie").rotors[0]
    assert measured.k_torque / measured.k_thrust == pytest.approx(firmware["legacy"], rel=1e-12)


# The torques -------------------------------------------------------------------------------------------------------


def test_the_documented_torques_are_the_documents_letter_by_letter():
    """The three equations it calls critical, at any speeds; and T = kF Σω²."""
    vehicle = DroneEngine().vehicle
    for speeds in np.random.default_rng(0).uniform(0.0, 2500.0, (50, 4)):
        assert torque(vehicle, *speeds) == pytest.approx(documented_torques(*speeds), rel=1e-13, abs=1e-17)
        engine = DroneEngine()
        engine.reset(motorSpeeds=speeds)
        assert np.array(engine.motor_wrench().f_B) == pytest.approx([0.0, 0.0, KF * (speeds**2).sum()], rel=1e-14)


def test_the_geometric_torques_are_those_of_the_drawing():
    """Errata 000, pitch torque and yaw torque: r × F and reaction of the airframe drawn turn those two signs, in NumPy."""
    vehicle, half = DroneEngine(allocation="geometric").vehicle, ARM / math.sqrt(2)
    places = {"FL": (half, half, 0.0), "FR": (half, -half, 0.0), "BR": (-half, -half, 0.0), "BL": (-half, half, 0.0)}
    clockwise = {"FL": True, "FR": False, "BR": True, "BL": False}
    for speeds in np.random.default_rng(1).uniform(0.0, 2500.0, (50, 4)):
        tau = np.zeros(3)
        for corner, speed in zip(places, speeds, strict=True):
            tau += np.cross(places[corner], (0.0, 0.0, KF * speed**2))
            tau += (0.0, 0.0, KM * speed**2 if clockwise[corner] else -KM * speed**2)  # against the blades' rotation
        assert torque(vehicle, *speeds) == pytest.approx(tau, rel=1e-13, abs=1e-17)
        assert tau == pytest.approx(documented_torques(*speeds) * (1, -1, -1), rel=1e-13, abs=1e-17)


@pytest.mark.parametrize(("allocation", "signs"), [("documented", (1, 1, -1)), ("geometric", (1, -1, 1))])
def test_the_torque_sign_tests_in_numbers(allocation, signs):
    """The document's torque sign test, u = (.6, .5, .5, .5) until the speeds are 1620 and 1400 rad/s."""
    engine = DroneEngine(allocation=allocation)
    engine.apply_motor_commands(0.6, 0.5, 0.5, 0.5)
    state = fly(engine, 40 * TAU)
    assert state.motorSpeeds == pytest.approx((1620.0, 1400.0, 1400.0, 1400.0), rel=1e-14)
    tau = np.array(engine.motor_wrench().tau_B)
    assert tau == pytest.approx(np.array([6.2239e-4, 6.2239e-4, 4.8103e-4]) * signs, rel=1e-5)


def test_the_documents_three_torque_signs():
    """As it requires, also before the motors have settled: motor 0 up gives τ_x > 0, τ_z < 0; motors 0, 1 up give τ_y > 0."""
    engine = DroneEngine()
    engine.reset(motorSpeeds=(1400.0,) * 4)
    engine.applyMotorCommands(0.6, 0.5, 0.5, 0.5)
    engine.step(0.001)
    assert engine.motor_wrench().tau_B.x > 0
    assert engine.motor_wrench().tau_B.z < 0
    engine.reset(motorSpeeds=(1400.0,) * 4)
    engine.applyMotorCommands(0.6, 0.6, 0.5, 0.5)
    engine.step(0.001)
    assert engine.motor_wrench().tau_B.y > 0


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_positive_roll_torque_puts_the_right_side_down(allocation):
    """Errata 000, roll direction: τ_x > 0 "roll left" is roll right. More thrust on the left, and the right tip sinks."""
    state = tilted_state(allocation, faster=(0, 3))
    right_tip = body_to_world(Vec3(0.0, -1.0, 0.0), state.q_WB)
    assert right_tip.z < -1e-3
    assert euler_angles(state.q_WB).roll > 1e-3
    assert state.v_W.y < 0  # and it drifts to the right


@pytest.mark.parametrize(("allocation", "nose"), [("documented", -1), ("geometric", 1)])
def test_more_front_thrust_lifts_the_nose_only_by_geometry(allocation, nose):
    """Errata 000, pitch torque: +τ_y is nose down, so the document's engine dives when its front motors push harder."""
    state = tilted_state(allocation, faster=(0, 1))
    assert nose * body_to_world(Vec3(1.0, 0.0, 0.0), state.q_WB).z > 1e-3
    assert nose * state.v_W.x < 0  # thrust leans with the nose


@pytest.mark.parametrize(("allocation", "turn"), [("documented", -1), ("geometric", 1)])
def test_faster_clockwise_rotors_turn_the_body_counter_clockwise_only_by_geometry(allocation, turn):
    """Errata 000, yaw torque: the reaction opposes the spin; the document's engine turns with its clockwise rotors 0 and 2."""
    state = tilted_state(allocation, faster=(0, 2))
    assert turn * state.omega_B.z > 1e-3
    assert turn * euler_angles(state.q_WB).yaw > 1e-5


def test_a_clockwise_rotor_gives_positive_yaw_torque():
    """Errata 000, yaw torque: Newton's third law on rotor 0, which turns clockwise seen from above."""
    front_left = samara.vehicle("crazyflie_documented").rotors[0]
    assert front_left.spin == -1
    assert rotor_wrench(RotorLoad(1.0, 0.025), front_left).tau_B.z == 0.025


def test_the_firmwares_power_distribution_agrees_with_both_corrections():
    """Errata 000, pitch torque and yaw torque: the signs of (roll, pitch, yaw) the firmware gives each motor of a real one."""
    firmware = {1: (-1, -1, -1), 2: (-1, 1, 1), 3: (1, 1, -1), 0: (1, -1, 1)}  # m1 FR, m2 BR, m3 BL, m4 FL
    by_geometry, documented = (DroneEngine(allocation=name).vehicle for name in ("geometric", "documented"))
    for motor, signs in firmware.items():
        speeds = [1500.0 if i == motor else 0.0 for i in range(4)]
        assert tuple(np.sign(torque(by_geometry, *speeds))) == signs
        assert tuple(np.sign(torque(documented, *speeds))) == (signs[0], -signs[1], -signs[2])


def test_the_rotors_stand_where_the_drawing_has_them():
    """Errata 000, motor angles: from +x towards +y front left is 45°, front right −45°, back right −135°, back left 135°."""
    rotors = DroneEngine(allocation="geometric").vehicle.rotors
    angles = [math.degrees(math.atan2(rotor.r_B.y, rotor.r_B.x)) for rotor in rotors]
    assert angles == pytest.approx([45.0, -45.0, -135.0, 135.0], abs=1e-12)
    assert [math.hypot(*rotor.r_B) for rotor in rotors] == pytest.approx([ARM] * 4, rel=1e-15)
    printed = (135.0, 45.0, -45.0, -135.0)
    sides = [math.copysign(1, math.sin(math.radians(angle))) for angle in printed]  # +1: left of the nose
    assert sides != [1, -1, -1, 1]  # the printed angles contradict the document's own roll equation


# Gravity, drag and lag ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_without_air_and_with_standing_rotors_it_falls_at_g(allocation):
    """Errata 000, gravity test: v_z = −0.981 m/s and z = −½ g t² after step(0.1), once drag and idle speed are off."""
    engine = DroneEngine(STANDING, allocation)
    engine.apply_motor_commands(0, 0, 0, 0)
    with pytest.warns(UserWarning, match=r"0.1 s is longer than the 0.005 s of the document.*in 100 steps"):
        engine.step(0.1)
    state = engine.get_state()
    assert state.v_W.z == pytest.approx(-0.981, rel=1e-14)
    assert state.p_W.z == pytest.approx(-0.5 * GRAVITY * 0.1**2, rel=1e-14)


def test_with_air_and_idle_it_falls_slower():
    """Errata 000, gravity test: from idling rotors v_z(0.1 s) = −0.6746 m/s, closed form; explicit Euler at 1 ms, the code
    behind the document, gets −0.676. It is idle speed, 300 rad/s, that number starts from: standing rotors give −0.679."""
    k, thrust = 0.2 / MASS, 4 * KF * IDLE**2 / MASS
    engine = DroneEngine()
    engine.reset(motorSpeeds=(IDLE,) * 4)
    fallen = fly(engine, 0.1, dt=1e-3).v_W.z
    assert fallen == pytest.approx((thrust - GRAVITY) / k * (1 - math.exp(-k * 0.1)), rel=1e-10)
    assert fallen == pytest.approx(-0.6746, abs=5e-5)

    state = state_at_rest(engine.vehicle)._replace(rotor_speed=(IDLE,) * 4)
    for _ in range(100):
        state = samara.step(state, (0.0,) * 4, engine.vehicle, 1e-3, method="euler")
    assert state.v_W.z == pytest.approx((thrust - GRAVITY) / k * (1 - (1 - k * 1e-3) ** 100), rel=1e-12)
    assert state.v_W.z == pytest.approx(-0.676, abs=5e-4)


def test_from_standing_rotors_the_fall_is_three_exponentials():
    """Errata 000, gravity test: Ω = 300 (1 − e^{−t/τ}) and drag give v_z(0.1 s) = −0.6792; one explicit Euler step, +0.665."""
    k, a, T = 0.2 / MASS, 4 * KF * IDLE**2 / MASS, 0.1

    def faded(rate):  # ∫ e^{−k(T−t)} e^{−rate t} dt
        return (math.exp(-rate * T) - math.exp(-k * T)) / (k - rate)

    exact = a * (faded(0.0) - 2 * faded(1 / TAU) + faded(2 / TAU)) - GRAVITY * faded(0.0)
    fallen = fly(DroneEngine(), T, dt=1e-3).v_W.z
    assert fallen == pytest.approx(exact, abs=2e-9)
    assert fallen == pytest.approx(-0.6792, abs=5e-5)

    overshot = IDLE * T / TAU  # 2000 rad/s: seven times too fast
    assert T * (4 * KF * overshot**2 / MASS - GRAVITY) == pytest.approx(0.665, abs=5e-4)


@pytest.mark.parametrize("dt", [1e-9, 1e-4, 1e-3, 1 / 240, 5e-3, 0.0123, 0.1, 3.0])
def test_the_motor_lag_is_exact_for_any_step(dt):
    """Ω(dt) = Ω_cmd + (Ω₀ − Ω_cmd) e^{−dt/τ}, to the last digits."""
    before, u = (0.0, 500.0, 1400.0, 2600.0), (0.1, 0.4, 0.7, 1.0)
    engine = DroneEngine()
    engine.reset(motorSpeeds=before)
    engine.apply_motor_commands(*u)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if dt > 5e-3 else "error")
        engine.step(dt)
    target = np.array([IDLE + command * (FASTEST - IDLE) for command in u])
    exact = target + (np.array(before) - target) * math.exp(-dt / TAU)
    assert np.array(engine.get_state().motorSpeeds) == pytest.approx(exact, rel=1e-15, abs=1e-12)


def test_uneven_steps_add_up():
    """For every division of 50 ms into steps, rotors and body end at one state: the lag to 1e-12, the body to RK4's error."""
    ends = []
    for cut in ([5e-3] * 10, [1e-3] * 50, [0.3e-3, 4.1e-3, 2.6e-3, 3e-3] * 5):
        engine = DroneEngine()
        engine.apply_motor_commands(0.6, 0.5, 0.4, 0.55)
        for dt in cut:
            engine.step(dt)
        ends.append(engine.get_state())
    for end in ends[1:]:
        assert end.motorSpeeds == pytest.approx(ends[0].motorSpeeds, rel=1e-12)
        assert np.array(end.v_W) == pytest.approx(np.array(ends[0].v_W), abs=1e-7)
        assert np.array(end.q_WB) == pytest.approx(np.array(ends[0].q_WB), abs=1e-7)


def test_a_motor_is_its_transfer_function():
    """SciPy's step response of 1/(τs + 1) is `step`; at the corner s = i/τ the gain is 1/√2 and the phase −45°."""
    times = np.linspace(0.0, 0.1, 41)
    _, response = signal.step(signal.TransferFunction(*MotorModel().polynomials), T=times)
    motor = MotorModel()
    speeds = [0.0, *(motor.step(2000.0, dt) for dt in np.diff(times))]
    assert np.array(speeds) == pytest.approx(2000.0 * response, rel=1e-9, abs=1e-9)
    corner = motor.transfer_function(1j / TAU)
    assert (abs(corner), math.degrees(np.angle(corner))) == (pytest.approx(math.sqrt(0.5)), pytest.approx(-45.0))
    w = np.array([1.0, 30.0, 500.0])
    _, by_scipy = signal.freqresp(signal.TransferFunction(*motor.polynomials), w)
    assert [motor.transfer_function(1j * frequency) for frequency in w] == pytest.approx(list(by_scipy), rel=1e-12)


def test_a_motor_takes_one_long_step_as_many_short_ones():
    """e^{−Σdt/τ}: exact for any dt, where explicit Euler has overshot after 2τ."""
    long, short = MotorModel(), MotorModel()
    for _ in range(1000):
        short.step(1500.0, 1e-4)
    assert long.step(1500.0, 0.1) == pytest.approx(short.speed, rel=1e-12)
    assert long.speed == pytest.approx(1500.0 * (1 - math.exp(-0.1 / TAU)), rel=1e-15)
    assert MotorModel(tau=0.05, speed=100.0).step(0.0, 0.05) == pytest.approx(100.0 / math.e, rel=1e-15)


def test_spin_decays_as_in_the_code_behind_the_document():
    """ω(t) = ω₀ e^{−kt} with k = 1, 1, 2 1/s: about one axis at a time, without other torques."""
    for axis, rate in enumerate((1.0, 1.0, 2.0)):
        engine = DroneEngine(CrazyflieParams(omegaMin=0.0))
        engine.reset(omega_B=Vec3(*(4.0 if i == axis else 0.0 for i in range(3))))
        spun = fly(engine, 0.5).omega_B
        assert spun[axis] == pytest.approx(4.0 * math.exp(-0.5 * rate), rel=1e-12)


def test_a_top_precesses():
    """Coriolis: for J_x = J_y the rates turn at λ = (J_z − J_x)/J_x · ω_z, and ω_z stays."""
    engine = DroneEngine(STANDING)
    engine.reset(omega_B=Vec3(3.0, 0.0, 10.0))
    rates = fly(engine, 0.5).omega_B
    angle = (JZZ - JXX) / JXX * 10.0 * 0.5
    assert np.array(rates) == pytest.approx([3.0 * math.cos(angle), 3.0 * math.sin(angle), 10.0], rel=1e-9)


def test_a_wind_carries_it_away():
    """v = w (1 − e^{−dt/m}): drag is relative to the air, and a level drone is not tilted by it."""
    engine = DroneEngine()
    engine.reset(motorSpeeds=(HOVER,) * 4)
    engine.apply_motor_commands(*samara.hover(engine.vehicle)[1])
    for _ in range(100):
        engine.step(5e-3, Environment(wind_W=Vec3(2.0, 0.0, 0.0)))
    assert engine.get_state().v_W.x == pytest.approx(2.0 * (1 - math.exp(-0.1 / MASS * 0.5)), rel=1e-9)


# Complete flights, independently -----------------------------------------------------------------------------------


def rate_by_matrices(_, x, targets, signs):
    """The document's engine in NumPy, attitude as a rotation matrix: Ṙ = R [ω]ₓ."""
    v, R, omega, speeds = x[3:6], x[6:15].reshape(3, 3), x[15:18], x[18:22]
    J = np.array([JXX, JYY, JZZ])
    wx, wy, wz = omega
    thrust = R @ (0.0, 0.0, KF * (speeds**2).sum())
    v_dot = thrust / MASS - np.array([0.1, 0.1, 0.2]) * v / MASS - (0.0, 0.0, GRAVITY)
    omega_dot = (documented_torques(*speeds) * signs - np.cross(omega, J * omega)) / J - np.array(
        [1.0, 1.0, 2.0]
    ) * omega
    R_dot = R @ np.array([[0.0, -wz, wy], [wz, 0.0, -wx], [-wy, wx, 0.0]])
    return np.concatenate([v, v_dot, R_dot.ravel(), omega_dot, (targets - speeds) / TAU])


@pytest.mark.parametrize(("allocation", "signs"), [("documented", (1, 1, 1)), ("geometric", (1, -1, -1))])
def test_a_tumbling_flight_is_that_of_an_independent_engine(allocation, signs):
    """0.3 s with all axes turning, 5 ms at a time, against SciPy's DOP853 on the document's equations in matrices."""
    q_WB, u = quat_from_euler(0.3, -0.4, 1.0), (0.62, 0.6, 0.57, 0.64)
    engine = DroneEngine(allocation=allocation)
    engine.reset(
        Vec3(1.0, -2.0, 3.0), Vec3(0.5, 1.0, -0.7), q_WB, Vec3(4.0, -3.0, 6.0), (1300.0, 1500.0, 1600.0, 1450.0)
    )
    engine.apply_motor_commands(*u)
    state = engine.get_state()
    R0 = rotation(q_WB).as_matrix()
    x0 = np.concatenate([state.p_W, state.v_W, R0.ravel(), state.omega_B, state.motorSpeeds])
    targets = IDLE + np.array(u) * (FASTEST - IDLE)
    end = solve_ivp(rate_by_matrices, (0, 0.3), x0, "DOP853", args=(targets, signs), rtol=1e-12, atol=1e-12).y[:, -1]
    flown = fly(engine, 0.3)
    assert np.array(flown.p_W) == pytest.approx(end[:3], abs=1e-8)
    assert np.array(flown.v_W) == pytest.approx(end[3:6], abs=1e-7)
    assert rotation(flown.q_WB).as_matrix() == pytest.approx(end[6:15].reshape(3, 3), abs=1e-7)
    assert np.array(flown.omega_B) == pytest.approx(end[15:18], abs=1e-6)
    assert np.array(flown.motorSpeeds) == pytest.approx(end[18:], rel=1e-10)
    assert math.hypot(*flown.q_WB) == pytest.approx(1.0, abs=1e-15)


def test_controllers_must_match_the_allocation():
    """The document's third rule for controllers: Lee's, built for either vehicle, arrives; built for the other, it is lost."""
    for flown, made_for in [(a, b) for a in ALLOCATIONS for b in ALLOCATIONS]:
        engine = DroneEngine(allocation=flown)
        engine.reset(motorSpeeds=(HOVER,) * 4)
        vehicle = DroneEngine(allocation=made_for).vehicle
        control, target = geometric(vehicle), Reference(Vec3(0.3, -0.2, 0.4), yaw=0.5)
        for _ in range(800):
            command, _ = control(engine.state, target, vehicle, ())
            engine.apply_motor_commands(*command)
            engine.step(5e-3)
        missed = math.dist(engine.get_state().p_W, target.p_W)
        assert missed < 0.02 if flown == made_for else missed > 1.0


def test_full_throttle_is_the_thrust_limit():
    """0 ≤ T_i ≤ kF ω_max² per motor; a command above 1 gives no more, one below 0 no less than idle."""
    engine = DroneEngine()
    engine.apply_motor_commands(1.0, 7.5, -3.0, math.inf)
    assert engine.command == (1.0, 1.0, 0.0, 1.0)
    fly(engine, 40 * TAU)
    assert engine.motor_wrench().f_B.z == pytest.approx(KF * (3 * FASTEST**2 + IDLE**2), rel=1e-14)


# The document's four common bugs -----------------------------------------------------------------------------------


def falls(vehicle):
    return samara.step(state_at_rest(vehicle), (0.0,) * 4, vehicle, 1e-3).v_W.z < 0


def yaws_clockwise_with_motor_0(vehicle):
    return torque(vehicle, 1620.0, 1400.0, 1400.0, 1400.0)[2] < 0


def has_the_right_lever_arm(vehicle):
    return torque(vehicle, 1620.0, 1400.0, 1400.0, 1400.0)[0] == pytest.approx(6.2239e-4, rel=1e-5)


def change_rotors(vehicle, change):
    return replace(vehicle, rotors=tuple(change(rotor) for rotor in vehicle.rotors))


BUGS = {
    "#1, gravity upwards": (falls, lambda vehicle: vehicle.replace({"gravity.acceleration": -GRAVITY})),
    "#2, spins turned round in the yaw torque": (
        yaws_clockwise_with_motor_0,
        lambda vehicle: change_rotors(vehicle, lambda rotor: rotor._replace(spin=-rotor.spin)),
    ),
    "#3, L instead of L/√2": (
        has_the_right_lever_arm,
        lambda vehicle: change_rotors(vehicle, lambda rotor: rotor._replace(r_B=rotor.r_B * math.sqrt(2.0))),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_each_of_the_documents_bugs_would_be_caught(bug):
    """Common bugs #1 to #3: a law that the engine obeys, and that the vehicle with that bug breaks."""
    law, plant = BUGS[bug]
    vehicle = DroneEngine().vehicle
    assert law(vehicle)
    assert not law(plant(vehicle))


def test_ned_is_reached_by_a_rotation():
    """Common bug #4 and errata 000, ENU to NED: a rotation keeps a × b; the document's change of sign of z does not."""
    random = np.random.default_rng(2).normal(size=(2, 3))

    def mapped(v):
        return np.array(to_ned(EngineState(Vec3(*v), ZERO, Quat(1.0, 0.0, 0.0, 0.0), ZERO, (0.0,) * 4)).p_W)

    def z_negated(v):
        return np.array([v[0], v[1], -v[2]])

    for mapping, determinant in ((mapped, 1.0), (z_negated, -1.0)):
        assert np.linalg.det([mapping(axis) for axis in np.eye(3)]) == pytest.approx(determinant)
        a, b = random
        assert np.cross(mapping(a), mapping(b)) == pytest.approx(determinant * mapping(np.cross(a, b)), rel=1e-12)
    assert tuple(mapped((1.0, 2.0, 3.0))) == (2.0, 1.0, -3.0)


def test_facing_east_is_yaw_90_degrees_in_ned():
    """Errata 000, ENU to NED: level along +x becomes yaw +90°; half a turn about X or Y, the document's recipe, does not."""
    engine = DroneEngine()
    assert math.degrees(euler_angles(to_ned(engine.get_state()).q_WB).yaw) == pytest.approx(90.0)
    for half_turn in (Quat(0.0, 1.0, 0.0, 0.0), Quat(0.0, 0.0, 1.0, 0.0)):
        nose = body_to_world(Vec3(1.0, 0.0, 0.0), half_turn)
        assert abs(nose.y) < 1e-15  # of NED: still north or south


def test_a_flight_is_the_same_flight_in_ned():
    """Errata 000, ENU to NED: a mapped point of the body equals that of the mapped state; mapping twice is the identity."""
    engine = DroneEngine()
    engine.reset(Vec3(1.0, 2.0, 3.0), Vec3(0.1, 0.2, 0.3), quat_from_euler(0.2, 0.5, -1.0), Vec3(1.0, 2.0, 3.0))
    enu = fly(engine, 0.1)
    ned = to_ned(enu)
    point = Vec3(0.4, 0.5, 0.6)  # forward, left, up
    x, y, z = enu.p_W + body_to_world(point, enu.q_WB)
    mapped_point = ned.p_W + body_to_world(Vec3(point.x, -point.y, -point.z), ned.q_WB)
    assert np.array(mapped_point) == pytest.approx([y, x, -z], rel=1e-14)
    assert np.array(ned.omega_B) == pytest.approx(np.array(enu.omega_B) * (1, -1, -1), rel=0)
    again = to_ned(ned)
    assert np.array(again.p_W) == pytest.approx(np.array(enu.p_W), rel=0)
    assert np.array(again.q_WB) == pytest.approx(np.array(enu.q_WB), abs=1e-15)
    assert ned.motorSpeeds == enu.motorSpeeds


# The cheat sheet ---------------------------------------------------------------------------------------------------


def test_body_to_world_and_back():
    """R v by SciPy's matrix, Rᵀ v back."""
    q_WB, v = quat_from_euler(0.4, -0.7, 2.1), Vec3(1.0, -2.0, 3.0)
    R = Rotation.from_quat([q_WB.x, q_WB.y, q_WB.z, q_WB.w]).as_matrix()  # three.js order, by name
    assert np.array(body_to_world(v, q_WB)) == pytest.approx(R @ np.array(v), rel=1e-14)
    assert np.array(world_to_body(v, q_WB)) == pytest.approx(R.T @ np.array(v), rel=1e-14)


def test_euler_angles_are_zyx():
    """Errata 000, Euler angles: Rz Ry Rx, as SciPy's 'ZYX'; three.js's 'XYZ' is Rx Ry Rz with other angles."""
    roll, pitch, yaw = 0.4, -0.3, 1.2
    R = Rotation.from_euler("ZYX", [yaw, pitch, roll])
    x, y, z, w = R.as_quat()
    assert euler_angles(Quat(w, x, y, z)) == pytest.approx((roll, pitch, yaw), rel=1e-13)
    assert R.as_euler("XYZ")[1] > 0.25  # a pitch of +15° for one of −17°


# The interface -----------------------------------------------------------------------------------------------------


def test_it_says_which_allocation_it_is():
    assert repr(DroneEngine()) == (
        "<DroneEngine crazyflie_documented_torques, allocation 'documented': torques as the document writes them>"
    )
    assert "'geometric': torques by r × F" in repr(DroneEngine(allocation="geometric"))
    assert DroneEngine().vehicle.name == "crazyflie_documented_torques"  # the name in recordings


def test_the_documents_names_are_there():
    """Its class, its methods in camelCase, its state's fields."""
    assert DronePhysicsEngine is DroneEngine
    engine = DronePhysicsEngine()
    engine.applyMotorCommands(0.1, 0.2, 0.3, 0.4)
    assert engine.command == (0.1, 0.2, 0.3, 0.4)
    assert engine.getState() == engine.get_state()
    assert engine.getState()._fields == ("p_W", "v_W", "q_WB", "omega_B", "motorSpeeds")


def test_a_state_once_taken_does_not_change():
    """It is a copy: neither later steps nor its holder change it; and the engine can return to it."""
    engine = DroneEngine()
    engine.apply_motor_commands(0.6, 0.5, 0.5, 0.5)
    taken = fly(engine, 0.05)
    original = repr(taken)
    later = fly(engine, 0.05)
    assert repr(taken) == original
    assert taken != later
    with pytest.raises(AttributeError):
        taken.p_W = ZERO
    with pytest.raises(TypeError):
        taken.motorSpeeds[0] = 0.0
    engine.reset(**taken._asdict())
    engine.apply_motor_commands(0.6, 0.5, 0.5, 0.5)
    assert fly(engine, 0.05) == later


def test_a_quaternion_is_brought_to_length_one():
    """q and 3q are one attitude; the state contains the unit quaternion."""
    engine, q = DroneEngine(), quat_from_euler(0.3, 0.2, 0.1)
    engine.reset(q_WB=q * 3.0)
    assert np.array(engine.get_state().q_WB) == pytest.approx(np.array(q), rel=1e-15)


def test_engines_do_not_share_a_state():
    """Engines of one vehicle share compiled code, nothing else."""
    one, other = DroneEngine(), DroneEngine()
    one.step(0.005)
    assert other.get_state() == DroneEngine().get_state()


def test_steps_within_the_documents_limit_come_without_a_warning():
    """Warnings are errors here: 5 ms passes, one microsecond more does not, and then nothing has moved."""
    engine = DroneEngine()
    engine.step(0.005)
    before = engine.get_state()
    with pytest.raises(UserWarning, match="commands are held for all of it"):
        engine.step(0.005001)
    assert engine.get_state() == before


@pytest.mark.parametrize("bad", [math.nan, None, "0.5", 1j])
def test_a_command_that_is_no_number_is_refused(bad):
    """The previous commands stay."""
    engine = DroneEngine()
    engine.apply_motor_commands(0.1, 0.2, 0.3, 0.4)
    with pytest.raises(ValueError, match=r"motor command u2 is .*; expected a number within \[0, 1\]"):
        engine.apply_motor_commands(0.5, 0.5, bad, 0.5)
    assert engine.command == (0.1, 0.2, 0.3, 0.4)


@pytest.mark.parametrize("dt", [0.0, -0.001, math.nan, math.inf, 1e9, None, "fast"])
def test_a_step_that_is_no_time_is_refused(dt):
    engine = DroneEngine()
    with pytest.raises(ValueError, match=r"dt = .* s: expected a positive number, at most 3600"):
        engine.step(dt)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"p_W": Vec3(0.0, math.nan, 0.0)}, r"p_W y is nan; expected a finite number"),
        ({"v_W": (1.0, 2.0)}, r"v_W = \(1.0, 2.0\): expected 3 numbers"),
        ({"q_WB": (0.0, 0.0, 0.0, 1.0)}, r"q_WB = .*: expected a Quat, whose components have names"),
        ({"q_WB": Quat(0.0, 0.0, 0.0, 0.0)}, r"q_WB = .*: expected finite numbers that are not all 0"),
        ({"q_WB": Quat(1.0, math.nan, 0.0, 0.0)}, r"q_WB = .*: expected finite numbers that are not all 0"),
        ({"motorSpeeds": (1.0, 2.0, 3.0)}, r"motorSpeeds = .* rad/s: expected 4 numbers that are not negative"),
        ({"motorSpeeds": (1.0, 2.0, 3.0, math.nan)}, r"motorSpeeds = .* rad/s: expected 4 numbers"),
    ],
)
def test_a_state_that_cannot_be_is_refused(state, message):
    """In one sentence, and the engine is unchanged."""
    engine = DroneEngine()
    before = fly(engine, 0.01)
    with pytest.raises(ValueError, match=message):
        engine.reset(**state)
    assert engine.get_state() == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mass": 0.0}, r"CrazyflieParams.mass = 0.0 kg: expected a positive number"),
        ({"thrustCoeff": math.nan}, r"CrazyflieParams.thrustCoeff = nan N s\^2/rad\^2: expected a finite number"),
        ({"inertia": 1e-5}, r"CrazyflieParams.inertia = 1e-05: expected 3 numbers"),
        (
            {"dragLinear": Vec3(0.1, -0.1, 0.2)},
            r"CrazyflieParams.dragLinear = -0.1 N s/m: expected a number that is not",
        ),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CrazyflieParams(**parameters)


def test_other_mistakes_are_refused():
    with pytest.raises(ValueError, match=r"allocation 'guessed': expected one of documented, geometric"):
        engine_vehicle(CrazyflieParams(), "guessed")
    with pytest.raises(ValueError, match=r"params is a dict; expected CrazyflieParams"):
        DroneEngine({"mass": 0.03})
    with pytest.raises(ValueError, match=r"expected 0 <= speed_min < speed_max"):
        DroneEngine(CrazyflieParams(omegaMin=3000.0))
    with pytest.raises(ValueError, match=r"expected principal moments that satisfy the triangle inequality"):
        DroneEngine(CrazyflieParams(inertia=PrincipalInertia(1e-5, 1e-5, 3e-5)))
    with pytest.raises(ValueError, match=r"MotorModel.tau = 0.0 s: expected a positive number"):
        MotorModel(tau=0.0)
    with pytest.raises(ValueError, match=r"dt = -1.0: expected a finite positive number"):
        MotorModel().step(100.0, -1.0)
    with pytest.raises(ValueError, match=r"command = nan: expected a finite number"):
        MotorModel().step(math.nan, 0.01)
