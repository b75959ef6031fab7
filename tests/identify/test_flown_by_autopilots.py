"""Logs that autopilots wrote while they flew simulated quadrotors: they match the simulation.

`recordings/autopilots` has the quadrotor, the flight, the logs, and beside each log the true states ten times a second. The
logs are thinned to the signals read here; every value is the autopilot's. Its clock is not that of the simulation.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from studies.synthetic import prior_vehicle
from support.repository import RECORDINGS

import samara
from samara.core.algebra import Quat, Vec3, rotate_inverse
from samara.identify.flight_log import FlightLog
from samara.identify.identification import identify
from samara.identify.parameters import identifiable_parameters, prepare_vehicle
from samara.identify.readers import read_log
from samara.link.motor_outputs import rotor_order
from samara.physics.rotors.actuator import Lag
from samara.vehicles.build import build_vehicle

FOLDER = RECORDINGS / "autopilots"


class Flight(NamedTuple):
    """A log, and the truth (states, n) at its times (n,), by the log's clock."""

    log: FlightLog
    time: np.ndarray
    state: np.ndarray


def flight(name, file):
    """Align the clocks so that the gyroscope matches the true rates; ArduPilot's clock is 0.03 % slower in a simulation."""
    (log,) = read_log(FOLDER / file)
    with np.load(FOLDER / f"{name}.npz") as truth:
        time, state = truth["time"], truth["state"].astype(float).T
    half = len(time) // 2
    parts = slice(20, half), slice(half, -20)
    offsets = [_clock_offset(log, time[part], state[10:13, part]) for part in parts]
    middles = [float(np.mean(time[part])) for part in parts]
    drift = (offsets[1] - offsets[0]) / (middles[1] - middles[0])
    assert abs(drift) < 5e-4
    return Flight(log, time - log.start + offsets[0] + drift * (time - middles[0]), state)


def _clock_offset(log, time, rates):
    """Return the offset of the log's clock  [s]."""

    def squared_error(shift):
        return np.sum((interpolate(log.rate, time - log.start + shift) - rates) ** 2)

    offset = 0.0
    for step in (0.002, 0.0001):
        offset = min(offset + step * np.arange(-30, 31), key=squared_error)
    return offset


def interpolate(signal, time):
    return np.stack([np.interp(time, signal.time, row) for row in signal.values])


FLIGHTS = [("px4", "px4.ulg.gz"), ("ardupilot", "ardupilot.bin.gz")]


@pytest.fixture(scope="module", params=FLIGHTS, ids=lambda names: names[0])
def flown(request):
    return flight(*request.param)


def inside(flown):
    return (flown.time > flown.log.rate.time[0] + 0.5) & (flown.time < flown.log.rate.time[-1] - 0.5)


def rms(rows):
    return np.sqrt(np.mean(np.square(rows), axis=1))


def test_rates_attitude_and_place_are_those_of_the_flight(flown):
    """Axes, signs, units and times: estimates are off by some centimetres, centimetres per second and a degree."""
    log, is_inside = flown.log, inside(flown)
    time, state = flown.time[is_inside], flown.state[:, is_inside]
    assert (rms(interpolate(log.rate, time) - state[10:13]) < 0.015).all()
    assert (np.abs(state[10:13]).max(axis=1) > 1.5).all()
    if log.velocity is not None:
        assert (rms(interpolate(log.velocity, time) - state[3:6]) < 0.06).all()
        assert (np.abs(state[3:6]).max(axis=1) > 2.5).all()
        assert (rms(interpolate(log.position, time) - state[0:3]) < 0.1).all()
    cosine = np.abs(np.sum(interpolate(log.attitude, time) * state[6:10], axis=0)) / np.linalg.norm(
        interpolate(log.attitude, time), axis=0
    )
    assert np.sqrt(np.mean((2.0 * np.arccos(np.minimum(cosine, 1.0))) ** 2)) < 0.02


def test_specific_force_is_thrust_and_drag(flown):
    """m f_z = Σ kF Ω², minus losses in climb; m f_x = −d v_x, and along y: by least squares, to a few percent."""
    is_inside, vehicle = inside(flown), samara.vehicle(FOLDER / "quadrotor.toml")
    state = flown.state[:, is_inside]
    force = vehicle.mass * interpolate(flown.log.specific_force, flown.time[is_inside])
    thrust = sum(rotor.k_thrust * speed**2 for rotor, speed in zip(vehicle.rotors, state[13:17], strict=True))
    v_B = np.stack(rotate_inverse(Quat(*state[6:10]), Vec3(*state[3:6])))
    drag = vehicle["drag"].linear
    for axis, predicted, slope in ((0, v_B[0], -drag.x), (1, v_B[1], -drag.y), (2, thrust, 1.0)):
        assert np.polyfit(predicted, force[axis], 1)[0] == pytest.approx(slope, rel=0.05)


def test_motors_are_those_of_our_rotors_in_our_order(flown):
    """Ω̇ = (Ω_max √u − Ω)/τ of the logged outputs is the simulated speed of that rotor, to 1 % of the maximum."""
    log, is_inside = flown.log, inside(flown)
    vehicle = samara.vehicle(FOLDER / "quadrotor.toml")
    rotors, motor = rotor_order(vehicle, log.numbering), vehicle.rotors[0].motor
    target = np.maximum(motor.speed_max * np.sqrt(np.clip(log.command.values, 0.0, 1.0)), motor.speed_min)
    speed = np.empty_like(target)
    speed[:, 0] = target[:, 0]
    for k, dt in enumerate(np.diff(log.command.time)):
        gap = target[:, k] - speed[:, k]
        speed[:, k + 1] = speed[:, k] + gap * -np.expm1(
            -dt / np.where(gap > 0.0, motor.time_constant_up, motor.time_constant_down)
        )
    predicted = np.stack([np.interp(flown.time[is_inside], log.command.time, row) for row in speed])
    for row, rotor in zip(predicted, rotors, strict=True):
        errors = {i: np.sqrt(np.mean((row - flown.state[13 + i, is_inside]) ** 2)) for i in range(4)}
        assert errors[rotor] < 0.01 * motor.speed_max and errors[rotor] < 0.1 * min(
            errors[i] for i in errors if i != rotor
        )


BARS = {"k_thrust": 0.04, "inertia": 0.1, "motor": 0.2, "drag": 0.2, "airspeed_moment": 0.2}
"""Twice the targets of synthetic flights."""


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_the_quadrotor_is_found_again(flown, number):
    """Thrust, inertia, lag, drag and moment, from starts that are a fifth off"""
    truth = prepare_vehicle(samara.vehicle(FOLDER / "quadrotor.toml"))
    start = prior_vehicle(samara.vehicle(FOLDER / "quadrotor.toml"), 1, number)
    identified = identify([flown.log], start, outputs="thrust", predictor=False).physical
    true_values = {parameter.name: parameter.get(truth) for parameter in identifiable_parameters(truth)}
    estimates = [estimate for estimate in identified.estimates if estimate.name.partition(".")[0] in BARS]
    assert len(estimates) == 10
    for estimate in estimates:
        assert estimate.value == pytest.approx(true_values[estimate.name], rel=BARS[estimate.name.partition(".")[0]]), (
            estimate.name
        )
        assert estimate.excited


# Betaflight, without position estimate ------------------------------------------------------------------------------------


def lag_vehicle(thrust=1.0, inertia=1.0, lag=1.0):
    """Return `hakoniwa`, which Betaflight flew, with lag motors like its DC motors near hover, 1/τ = K²/(RJ) + 2 kM Ω/J; an
    output of 1 is twice the thrust of hover."""
    model = samara.vehicle("hakoniwa")
    rotor = model.rotors[0]
    hover_speed = math.sqrt(model.mass * model["gravity"].acceleration / (4.0 * rotor.k_thrust))
    constant, resistance = rotor.motor.constant, rotor.motor.resistance
    tau = rotor.inertia / (constant**2 / resistance + 2.0 * rotor.k_torque * hover_speed)
    motor = Lag(0.0, math.sqrt(2.0) * hover_speed, lag * tau, lag * tau)
    rotors = [base_rotor._replace(k_thrust=thrust * base_rotor.k_thrust, motor=motor) for base_rotor in model.rotors]
    moments = [inertia * getattr(model.inertia_B, axis) for axis in ("xx", "yy", "zz")]
    return build_vehicle("lagging", mass=model.mass, inertia=moments, rotors=rotors)


@pytest.mark.long
@pytest.mark.parametrize("factors", [(1.2, 0.8, 1.2), (0.85, 1.25, 0.8)])
def test_thrust_inertia_and_lag_are_found_again_in_betaflights_log(factors):
    """The log has no velocities: aerodynamic parameters cannot be identified, and are marked as not excited."""
    true_vehicle = lag_vehicle()
    identified = identify(
        read_log(RECORDINGS / "betaflight.bbl"), lag_vehicle(*factors), outputs="thrust", predictor=False
    ).physical
    assert identified.estimate("k_thrust").value == pytest.approx(true_vehicle.rotors[0].k_thrust, rel=BARS["k_thrust"])
    for axis in ("xx", "yy", "zz"):
        moment = getattr(true_vehicle.inertia_B, axis)
        assert identified.estimate(f"inertia.{axis}").value == pytest.approx(moment, rel=BARS["inertia"])
    lag = 0.5 * (
        identified.estimate("motor.time_constant_up").value + identified.estimate("motor.time_constant_down").value
    )  # a DC motor has one for each speed
    assert lag == pytest.approx(true_vehicle.rotors[0].motor.time_constant_up, rel=BARS["motor"])
    unexcited = {estimate.name.partition(".")[0] for estimate in identified.estimates if not estimate.excited}
    assert {"drag", "rotor_drag", "airspeed_moment"} <= unexcited and not unexcited & {"k_thrust", "inertia", "motor"}
