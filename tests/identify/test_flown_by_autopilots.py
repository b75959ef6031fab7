"""Logs that autopilots wrote themselves while they flew our quadrotors: what they say is what was simulated.

`recordings/autopilots` has the quadrotor, the flight, the logs, and beside each log the true states ten times a second. The
logs are thinned, and hold only what is read here; every value in them is their autopilot's. Its clock is not the simulation's.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from studies.synthetic import doubted
from support.repository import RECORDINGS

import samara
from samara.core.algebra import Quat, Vec3, rotate_inverse
from samara.identify.flight_log import FlightLog
from samara.identify.identification import identify
from samara.identify.parameters import parameters_of, ready
from samara.identify.readers import read_log
from samara.link.motor_outputs import rotor_of_output
from samara.physics.rotors.actuator import Lag
from samara.vehicles.build import build_vehicle

FOLDER = RECORDINGS / "autopilots"


class Flight(NamedTuple):
    """A log, and the truth (states, n) at its times (n,), by the log's clock"""

    log: FlightLog
    time: np.ndarray
    state: np.ndarray


def flight(name, file):
    """The clocks differ by what makes the gyroscope's rates the true ones; ArduPilot's goes 0.03 % slower in a simulation"""
    (log,) = read_log(FOLDER / file)
    with np.load(FOLDER / f"{name}.npz") as held:
        time, state = held["time"], held["state"].astype(float).T
    half = len(time) // 2
    parts = slice(20, half), slice(half, -20)
    apart = [_apart(log, time[part], state[10:13, part]) for part in parts]
    middles = [float(np.mean(time[part])) for part in parts]
    drift = (apart[1] - apart[0]) / (middles[1] - middles[0])
    assert abs(drift) < 5e-4
    return Flight(log, time - log.start + apart[0] + drift * (time - middles[0]), state)


def _apart(log, time, rates):
    """How much later the log's clock is  [s]"""

    def wrong(shift):
        return np.sum((at(log.rate, time - log.start + shift) - rates) ** 2)

    apart = 0.0
    for step in (0.002, 0.0001):
        apart = min(apart + step * np.arange(-30, 31), key=wrong)
    return apart


def at(signal, time):
    return np.stack([np.interp(time, signal.time, row) for row in signal.values])


FLIGHTS = [("px4", "px4.ulg.gz"), ("ardupilot", "ardupilot.bin.gz")]


@pytest.fixture(scope="module", params=FLIGHTS, ids=lambda own: own[0])
def flown(request):
    return flight(*request.param)


def inside(flown):
    return (flown.time > flown.log.rate.time[0] + 0.5) & (flown.time < flown.log.rate.time[-1] - 0.5)


def rms(rows):
    return np.sqrt(np.mean(np.square(rows), axis=1))


def test_rates_attitude_and_place_are_those_of_the_flight(flown):
    """Axes, signs, units and times: what a filter estimates is some centimetres, centimetres a second and a degree off."""
    log, on = flown.log, inside(flown)
    time, state = flown.time[on], flown.state[:, on]
    assert (rms(at(log.rate, time) - state[10:13]) < 0.015).all()
    assert (np.abs(state[10:13]).max(axis=1) > 1.5).all()
    if log.velocity is not None:
        assert (rms(at(log.velocity, time) - state[3:6]) < 0.06).all()
        assert (np.abs(state[3:6]).max(axis=1) > 2.5).all()
        assert (rms(at(log.position, time) - state[0:3]) < 0.1).all()
    apart = np.abs(np.sum(at(log.attitude, time) * state[6:10], axis=0)) / np.linalg.norm(
        at(log.attitude, time), axis=0
    )
    assert np.sqrt(np.mean((2.0 * np.arccos(np.minimum(apart, 1.0))) ** 2)) < 0.02


def test_specific_force_is_thrust_and_drag(flown):
    """m f_z = Σ kF Ω², less what climbing takes; m f_x = −d v_x, and along y: by least squares, to a few percent"""
    on, vehicle = inside(flown), samara.vehicle(FOLDER / "quadrotor.toml")
    state = flown.state[:, on]
    force = vehicle.mass * at(flown.log.specific_force, flown.time[on])
    lift = sum(rotor.k_thrust * speed**2 for rotor, speed in zip(vehicle.rotors, state[13:17], strict=True))
    v_B = np.stack(rotate_inverse(Quat(*state[6:10]), Vec3(*state[3:6])))
    drag = vehicle["drag"].linear
    for axis, said, slope in ((0, v_B[0], -drag.x), (1, v_B[1], -drag.y), (2, lift, 1.0)):
        assert np.polyfit(said, force[axis], 1)[0] == pytest.approx(slope, rel=0.05)


def test_motors_are_those_of_our_rotors_in_our_order(flown):
    """Ω̇ = (Ω_max √u − Ω)/τ of the logged outputs is the simulated speed of the rotor in that place, to 1 % of the fastest"""
    log, on = flown.log, inside(flown)
    vehicle = samara.vehicle(FOLDER / "quadrotor.toml")
    rotors, motor = rotor_of_output(vehicle, log.numbering), vehicle.rotors[0].motor
    target = np.maximum(motor.speed_max * np.sqrt(np.clip(log.command.values, 0.0, 1.0)), motor.speed_min)
    speed = np.empty_like(target)
    speed[:, 0] = target[:, 0]
    for k, dt in enumerate(np.diff(log.command.time)):
        gap = target[:, k] - speed[:, k]
        speed[:, k + 1] = speed[:, k] + gap * -np.expm1(-dt / np.where(gap > 0.0, motor.rise, motor.fall))
    said = np.stack([np.interp(flown.time[on], log.command.time, row) for row in speed])
    for row, rotor in zip(said, rotors, strict=True):
        errors = {i: np.sqrt(np.mean((row - flown.state[13 + i, on]) ** 2)) for i in range(4)}
        assert errors[rotor] < 0.01 * motor.speed_max and errors[rotor] < 0.1 * min(
            errors[i] for i in errors if i != rotor
        )


BARS = {"k_thrust": 0.04, "inertia": 0.1, "motor": 0.2, "drag": 0.2, "airspeed_moment": 0.2}
"""Twice what is aimed at on synthetic flights."""


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_the_quadrotor_is_found_again(flown, number):
    """Thrust, inertia, lag, drag and moment, from starts that are a fifth off"""
    truth = ready(samara.vehicle(FOLDER / "quadrotor.toml"))
    start = doubted(samara.vehicle(FOLDER / "quadrotor.toml"), 1, number)
    found = identify([flown.log], start, outputs="thrust", predictor=False).physical
    true = {own.name: own.get(truth) for own in parameters_of(truth)}
    asked = [own for own in found.estimates if own.name.partition(".")[0] in BARS]
    assert len(asked) == 10
    for own in asked:
        assert own.value == pytest.approx(true[own.name], rel=BARS[own.name.partition(".")[0]]), own.name
        assert own.excited


# Betaflight, which knows no place --------------------------------------------------------------------------------------


def lagging(thrust=1.0, inertia=1.0, lag=1.0):
    """`hakoniwa`, which Betaflight flew, with motors that lag as its DC motors do near hover, K²/(RJ) + 2 kM Ω/J = 1/τ; an
    output of 1 is twice the thrust of hover"""
    own = samara.vehicle("hakoniwa")
    rotor = own.rotors[0]
    hovering = math.sqrt(own.mass * own["gravity"].acceleration / (4.0 * rotor.k_thrust))
    constant, resistance = rotor.motor.constant, rotor.motor.resistance
    tau = rotor.inertia / (constant**2 / resistance + 2.0 * rotor.k_torque * hovering)
    motor = Lag(0.0, math.sqrt(2.0) * hovering, lag * tau, lag * tau)
    rotors = [each._replace(k_thrust=thrust * each.k_thrust, motor=motor) for each in own.rotors]
    moments = [inertia * getattr(own.inertia_B, axis) for axis in ("xx", "yy", "zz")]
    return build_vehicle("lagging", mass=own.mass, inertia=moments, rotors=rotors)


@pytest.mark.long
@pytest.mark.parametrize("off", [(1.2, 0.8, 1.2), (0.85, 1.25, 0.8)])
def test_thrust_inertia_and_lag_are_found_again_in_betaflights_log(off):
    """It holds no velocities: what air does to the vehicle cannot be told, and is said not to be"""
    true = lagging()
    found = identify(read_log(RECORDINGS / "betaflight.bbl"), lagging(*off), outputs="thrust", predictor=False).physical
    assert found.estimate("k_thrust").value == pytest.approx(true.rotors[0].k_thrust, rel=BARS["k_thrust"])
    for axis in ("xx", "yy", "zz"):
        moment = getattr(true.inertia_B, axis)
        assert found.estimate(f"inertia.{axis}").value == pytest.approx(moment, rel=BARS["inertia"])
    lag = 0.5 * (
        found.estimate("motor.rise").value + found.estimate("motor.fall").value
    )  # a DC motor has one for each speed
    assert lag == pytest.approx(true.rotors[0].motor.rise, rel=BARS["motor"])
    untold = {own.name.partition(".")[0] for own in found.estimates if not own.excited}
    assert {"drag", "rotor_drag", "airspeed_moment"} <= untold and not untold & {"k_thrust", "inertia", "motor"}
