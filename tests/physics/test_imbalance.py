"""Unbalanced rotors: the rotating force, the fixed centre of mass, and the signal of an accelerometer."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.traced_flights import fly, make_rotor, record_state, record_states

import samara
from samara.core.algebra import Vec3, diagonal
from samara.physics.multirotor import state_at_rest, wrench_breakdown
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.imbalance import IMBALANCE, Imbalance, ripple_force, unbalance_force
from samara.physics.rotors.rotor import Rotor
from samara.physics.structure.arms import ARMS, Arms
from samara.physics.types import CALM
from samara.sensors.imu import ideal_part
from samara.sensors.registry import part

U, MASS, ARM = 2e-5, 1.5, 0.25
SPEED = math.sqrt(MASS * 9.80665 / 4.0 / 1e-5)  # of hover
SOFT = Arms(0.06, 0.03, 2e-5, 8.0, 11.0, 4.0, damping_ratio=0.05)


def quad(unbalance=(U, 0.0, 0.0, 0.0), ripple=0.0, arms=None):
    """Four equal arms with the rotors at the height of the centre; only the first is unbalanced by default."""
    places = [math.pi / 4 + math.pi / 2 * i for i in range(4)]
    rotors = [
        Rotor(
            Vec3(ARM * math.cos(at), ARM * math.sin(at), 0.0),
            Vec3(0.0, 0.0, 1.0),
            (-1.0) ** i,
            k_thrust=1e-5,
            k_torque=2e-7,
            motor=Lag(0.0, 1500.0, 0.05, 0.05),
        )
        for i, at in enumerate(places)
    ]
    vehicle = samara.build_vehicle("quad", mass=MASS, inertia=(0.03, 0.03, 0.055), rotors=rotors, actuation="speed")
    vehicle = vehicle.with_effect(IMBALANCE, Imbalance(unbalance, ripple))
    return vehicle if arms is None else vehicle.with_effect(ARMS, arms)


def hovering(vehicle):
    return state_at_rest(vehicle, Vec3(0.0, 0.0, 10.0))._replace(rotor_speed=(SPEED,) * 4)


def line_amplitude(times, values, frequency):
    """The complex amplitude of a line, by least squares beside a constant and a drift"""
    columns = [np.cos(frequency * times), np.sin(frequency * times), np.ones_like(times), times]
    c, s, *_ = np.linalg.lstsq(np.stack(columns, axis=1), values, rcond=None)[0]
    return c - 1j * s


# The force -----------------------------------------------------------------------------------------------------------


@given(phase=st.floats(-10.0, 10.0), speed=st.floats(0.0, 2000.0), tilt=st.floats(-1.0, 1.0))
def test_the_force_turns_with_the_rotor(phase, speed, tilt):
    """m e Ω² outward, turned by s φ about the axis; no part of it along the axis"""
    for spin in (-1, 1):
        rotor = make_rotor(tilt, spin)
        f_B = np.array(unbalance_force(phase, speed, U, rotor))
        at_first = np.array(unbalance_force(0.0, speed, U, rotor))
        rotated = Rotation.from_rotvec(spin * phase * np.array(rotor.axis_B)).apply(at_first)
        assert f_B == pytest.approx(rotated, abs=1e-12)
        assert np.linalg.norm(f_B) == pytest.approx(U * speed**2, rel=1e-12, abs=1e-15)
        assert f_B @ np.array(rotor.axis_B) == pytest.approx(0.0, abs=1e-12)


def test_thrust_swells_twice_in_a_turn():
    """ε T along the axis at phase 0, −ε T a quarter turn later, and 0 on average"""
    rotor, phases = make_rotor(0.4), np.arange(64) * math.pi / 32
    along = np.array([np.dot(ripple_force(phase, 4.0, 0.1, rotor), rotor.axis_B) for phase in phases])
    spectrum = np.abs(np.fft.rfft(along)) / 32
    assert spectrum[2] == pytest.approx(0.4, rel=1e-12)
    assert np.delete(spectrum, 2).max() < 1e-14
    assert along[0] == pytest.approx(0.4, rel=1e-12)


def test_each_hub_is_pulled_where_it_is():
    """f and r × f of every rotor, summed in NumPy; the ripple is relative to the rotor's thrust"""
    vehicle = quad((1e-5, 2e-5, 3e-5, 0.0), ripple=0.1)
    phases = (0.3, 1.1, -2.0, 5.0)
    state = hovering(vehicle)._replace(rotor_speed=(500.0, 550.0, 600.0, 650.0))
    at = vehicle.index("imbalance")
    state = state._replace(effects=(*state.effects[:at], phases, *state.effects[at + 1 :]))
    wrench = wrench_breakdown(state, (0.0,) * 4, vehicle)["imbalance"]
    f, tau = np.zeros(3), np.zeros(3)
    for phase, speed, unbalance, rotor in zip(
        phases, state.rotor_speed, vehicle["imbalance"].unbalance, vehicle.rotors, strict=True
    ):
        turning = np.array([math.cos(phase), rotor.spin * math.sin(phase), 0.0])
        pull = unbalance * speed**2 * turning + [0.0, 0.0, 0.1 * 1e-5 * speed**2 * math.cos(2.0 * phase)]
        f, tau = f + pull, tau + np.cross(rotor.r_B, pull)
    assert np.array(wrench.f_B) == pytest.approx(f, rel=1e-12)
    assert np.array(wrench.tau_B) == pytest.approx(tau, rel=1e-12)


def test_a_rotor_counts_its_turns_while_it_speeds_up():
    """φ = Ω t − (Ω − Ω₀) τ (1 − e^{−t/τ}), the integral of the motor's lag"""
    vehicle = quad()
    end = record_state(vehicle, fly(vehicle, hovering(vehicle), (900.0,) * 4, 0.2, dt=1e-3)[-1])
    phase = 900.0 * 0.2 - (900.0 - SPEED) * 0.05 * (1.0 - math.exp(-4.0))
    assert end.effects[vehicle.index("imbalance")] == pytest.approx((phase,) * 4, rel=1e-9)


def test_the_common_mass_centre_stays():
    """A body too heavy to rotate oscillates about it with amplitude U/m, opposite to the heavy side"""
    vehicle = quad().replace(inertia_B=diagonal(Vec3(1e6, 1e6, 1e6)))
    seconds = 20 * 2.0 * math.pi / SPEED
    start = hovering(vehicle)._replace(v_W=Vec3(0.0, -U * SPEED / MASS, 0.0))
    records = fly(vehicle, start, (SPEED,) * 4, seconds, dt=seconds / 1280)
    path, times = record_states(vehicle, records).p_W, np.linspace(0.0, seconds, 1281)
    assert line_amplitude(times, path.x, SPEED) == pytest.approx(-U / MASS, rel=1e-6)
    assert line_amplitude(times, path.y, SPEED) == pytest.approx(1j * U / MASS, rel=1e-6)


# Accelerometer signal ------------------------------------------------------------------------------------------------


def imu_signal(vehicle, seconds, settle=0.0, dt=2e-4):
    """Times, and the specific force of a perfect IMU at the centre, in hover at constant rotor speeds"""
    state = hovering(vehicle)
    if settle:
        state = record_state(vehicle, fly(vehicle, state, (SPEED,) * 4, settle, dt=dt, every=round(settle / dt))[-1])
    records = fly(vehicle, state, (SPEED,) * 4, seconds, dt=dt)
    imu_part = part("bmi088")
    sensor = imu_part._replace(parameters=ideal_part(imu_part.parameters)).sensor()
    memory = sensor.initial(vehicle, (0.0,) * 24)
    reading, _ = sensor.measure(
        record_states(vehicle, records),
        (SPEED,) * 4,
        vehicle,
        CALM,
        (0.0,) * 12,
        memory,
        1.0 / imu_part.parameters.rate,
    )
    force = np.stack([np.broadcast_to(component, len(records)) for component in reading.specific_force_B])
    return settle + np.arange(len(records)) * dt, force


def test_a_rigid_body_hears_the_rotor_at_its_speed():
    """The highest spectral line is at Ω, U Ω²/m high, in both axes of the plane; the ripple's is at 2Ω, ε g high"""
    vehicle = quad(ripple=0.01)
    times, force = imu_signal(vehicle, 0.5)
    window = np.hanning(len(times))
    frequencies = 2.0 * math.pi * np.fft.rfftfreq(len(times), times[1] - times[0])
    for axis, line, height in (
        (0, SPEED, U * SPEED**2 / MASS),
        (1, SPEED, U * SPEED**2 / MASS),
        (2, 2 * SPEED, 0.0980665),
    ):
        spectrum = np.abs(np.fft.rfft((force[axis] - force[axis].mean()) * window))
        assert frequencies[spectrum.argmax()] == pytest.approx(line, abs=frequencies[1])
        assert abs(line_amplitude(times, force[axis], line)) == pytest.approx(height, rel=1e-6)


def response(arms):
    """Acceleration of the centre at Ω by linear algebra: masses along every arm, springs, and the force at the first hub

    The generalised velocities are those of the centre, of the rotation, and of each tip along the axis and in the plane.
    """
    nodes, weights = np.polynomial.legendre.leggauss(8)
    xi = np.append(0.5 * (nodes + 1.0), 1.0)
    shape, m = (3.0 * xi**2 - xi**3) / 2.0, np.append(0.5 * weights * arms.arm_mass, arms.tip_mass)
    M = np.diag([MASS] * 3 + [0.03, 0.03, 0.055] + [0.0] * 8)
    K, C, hub = np.zeros((14, 14)), np.zeros((14, 14)), None
    for i in range(4):
        at = math.pi / 4 + math.pi / 2 * i
        e, a = np.array([math.cos(at), math.sin(at), 0.0]), np.array([0.0, 0.0, 1.0])
        for mass, x, phi in zip(m, xi, shape, strict=True):
            place = e * ARM * x
            rigid = np.hstack([np.eye(3), np.cross(np.eye(3), place)])  # rows: v + ω × place
            G = np.zeros((3, 14))
            G[:, :6], G[:, 6 + 2 * i], G[:, 7 + 2 * i] = rigid, phi * a, phi * np.cross(a, e)
            M += mass * G.T @ G
            M[:6, :6] -= mass * rigid.T @ rigid  # already part of the body
        if i == 0:
            hub = G
        mu = m @ shape**2
        for j, stiffness in ((6 + 2 * i, arms.axial_stiffness), (7 + 2 * i, arms.plane_stiffness)):
            K[j, j] = 3.0 * stiffness / ARM**3
            C[j, j] = 2.0 * arms.damping_ratio * math.sqrt(K[j, j] * mu)
    force = U * SPEED**2 * np.array([1.0, -1j, 0.0])  # the first rotor turns right-handed
    moved = np.linalg.solve(K - SPEED**2 * M + 1j * SPEED * C, hub.T @ force)
    return -(SPEED**2) * moved[:3], np.sqrt(np.linalg.eigvals(np.linalg.pinv(M) @ K).real.clip(0.0))


@pytest.mark.parametrize(
    "stiffness", [pytest.param(11.0, marks=pytest.mark.long), 118.0, pytest.param(2000.0, marks=pytest.mark.long)]
)
def test_arms_hold_it_back_or_amplify_it(stiffness):
    """Softer than Ω they attenuate the in-plane part, at resonance they amplify it, and stiff ones act as the rigid body"""
    arms = SOFT._replace(plane_stiffness=stiffness)
    expected, _ = response(arms)
    times, force = imu_signal(quad(arms=arms), 0.1, settle=0.5)
    amplitudes = np.array([line_amplitude(times, component, SPEED) for component in force[:2]])
    assert np.abs(amplitudes) == pytest.approx(np.abs(expected[:2]), rel=1e-3)
    loudest, rigid = np.linalg.norm(amplitudes), math.sqrt(2.0) * U * SPEED**2 / MASS
    assert {11.0: loudest < 0.95 * rigid, 118.0: loudest > 4.0 * rigid, 2000.0: abs(loudest / rigid - 1.0) < 0.15}[
        stiffness
    ]


def test_an_imu_with_an_imbalance_does_not_shake_twice():
    """A part with an imbalance ignores it on a vehicle that has the effect"""
    sensor = part("bmi088", imbalance=1e-6).sensor()
    assert sensor.initial(quad(), (0.0,) * 24).phases == ()
    assert len(sensor.initial(quad().without_effect("imbalance"), (0.0,) * 24).phases) == 4


SHAKY = """
schema = 1
name = "shaky"
description = "an iris on soft arms, its propellers out of balance"
duration = 7.0

[[drones]]
name = "drone"
vehicle = "iris_documented"
controller = "geometric"
sensors = ["bmi088"]
effects = { arms = { frequency = 45.0 }, imbalance = { unbalance = 4e-6 } }

[[drones.tasks]]
type = "take_off"
height = 1.5
speed = 0.75

[[drones.tasks]]
type = "hover"
duration = 5.0
"""


@pytest.mark.long
def test_a_flight_on_soft_arms_arrives_and_its_imu_hears_the_rotors(tmp_path):
    """Take off and hover in a simulation: the strongest line of its IMU is at the speed of its rotors"""
    (tmp_path / "shaky.toml").write_text(SHAKY)
    run = samara.fly(tmp_path / "shaky.toml")
    assert run.tables["state"]["p_W"][-1] == pytest.approx([0.0, 0.0, 1.5], abs=1e-3)
    force = run.tables["imu"]["specific_force_B"][-512:, 0]
    frequencies = 2.0 * math.pi * np.fft.rfftfreq(512, 1.0 / 250.0)
    loudest = frequencies[np.abs(np.fft.rfft((force - force.mean()) * np.hanning(512))).argmax()]
    speeds = run.tables["state"]["rotor_speed"][-200:]
    assert loudest == pytest.approx(float(np.mean(speeds)), abs=frequencies[1])
