"""Limits of a vehicle's motors (commands, speeds, thrusts), and DC motors replaced by first-order lags with the same limits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from samara.core.batch_scalar import BatchScalar, as_scalar, call_for_each
from samara.core.ops import clamp, maximum, where
from samara.core.portable_linalg import product, pseudoinverse
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest
from samara.physics.rotors.actuator import Lag, slowed
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.propulsion import (
    IDEAL_BATTERY,
    NORMALIZED,
    motor_currents,
    rated_voltages,
    rotor_loads,
    supply_voltage,
)
from samara.physics.rotors.rotor import rotor_load
from samara.physics.types import CALM, Vehicle
from samara.vehicles.trim import effectiveness, hover

UNIT_RANGE = (0.0, 1.0)
LARGEST_COMMAND = 1e12  # in size; beyond it a command is not a number


def command_limits(vehicle: Vehicle) -> tuple[float, float] | None:
    """[0, 1] for normalized commands and duties; speeds and wrenches have the motor's own limits"""
    return UNIT_RANGE if vehicle.structure.actuation.name in ("normalized", "duty") else None


def speed_range(vehicle: Vehicle) -> tuple[float, float] | None:
    """The slowest and the fastest a motor with a lag can turn  [rad/s]; a DC motor's depends on its load and supply"""
    own = [rotor.motor for rotor in vehicle.rotors if isinstance(rotor.motor, Lag)]
    return (min(motor.speed_min for motor in own), max(motor.speed_max for motor in own)) if own else None


def command_range(vehicle: Vehicle) -> tuple[float, float] | None:
    """The least and the most that a command can ask; None where it has no limit, as a wrench"""
    return speed_range(vehicle) if vehicle.structure.actuation.name == "speed" else command_limits(vehicle)


_TOO_FAST = 1e5  # [rad/s] for any motor


class Range(NamedTuple):
    """From the least to the most."""

    low: Scalar
    high: Scalar


def thrust_limits(vehicle: Vehicle) -> tuple[Range, ...]:
    """T = kF Ω² at the slowest and at the fastest speed each motor holds, in air of sea-level density  [N]

    After those of the rotors, what the ones that tilt can push across their axes in hover: the columns of `effectiveness`.
    """
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        most = (
            _of_its_rotors(_fastest, vehicle)
            if vehicle.has("battery")
            else [own.motor.speed_max for own in vehicle.rotors]
        )
        speeds = [(rotor.motor.speed_min, own) for rotor, own in zip(vehicle.rotors, most, strict=True)]
    else:
        speeds = [(0.0, own) for own in _of_its_rotors(_full_speed, vehicle)]
    along = tuple(
        Range(*(as_scalar(rotor_load(speed, rotor).thrust) for speed in ends))
        for rotor, ends in zip(vehicle.rotors, speeds, strict=True)
    )
    return along if not vehicle.servos else (*along, *_across_limits(vehicle))


def _across_limits(vehicle: Vehicle) -> tuple[Range, ...]:
    """T_a tan δ at both limits of every servo, T_a the rotor's part of the weight: what it can push across its axis  [N]"""
    weight = vehicle.mass * vehicle["gravity"].acceleration if vehicle.has("gravity") else 1.0
    shares = product(pseudoinverse(effectiveness(vehicle)[2:]), np.array([weight, 0.0, 0.0, 0.0]))
    servos = ((abs(float(shares[i])), vehicle.rotors[i].servo) for i in vehicle.servos)
    return tuple(Range(share * math.tan(servo.low), share * math.tan(servo.high)) for share, servo in servos)


def servo_range(vehicle: Vehicle) -> tuple[Range, ...]:
    """The least and the most of each servo's number in a command: −1 and 1, or radians where rotors are commanded by speed"""
    if vehicle.structure.actuation.name != "speed":
        return (Range(-1.0, 1.0),) * len(vehicle.servos)
    return tuple(Range(vehicle.rotors[i].servo.low, vehicle.rotors[i].servo.high) for i in vehicle.servos)


def command_bounds(vehicle: Vehicle) -> tuple[Range, ...] | None:
    """The range of every number of a command; None where it has no limit, as a wrench"""
    own = command_range(vehicle)
    return None if own is None else ((Range(*own),) * len(vehicle.rotors)) + servo_range(vehicle)


def within_limits(command: Sequence[Scalar], vehicle: Vehicle) -> tuple[Scalar, ...]:
    """Normalized commands and duties brought into [0, 1], those of servos into their range; speeds have their motors' limits"""
    limits, count = command_limits(vehicle), len(vehicle.rotors)
    held = [clamp(u, *limits) if limits else u for u in command[:count]] if count else list(command)
    servos = zip(command[count:], servo_range(vehicle), strict=True) if count else ()
    return (*held, *(clamp(u, *own) for u, own in servos))


def _of_its_rotors(speeds: Callable[[Vehicle], list[Scalar]], vehicle: Vehicle) -> Sequence[Scalar]:
    """What iterations find, in all lanes at once; of a vehicle held still, whose mass and inertia do not matter"""
    structure, numbers = vehicle.structure, (vehicle.rotors, vehicle.parameters)
    still = (vehicle.mass, vehicle.inertia_B)
    mass, inertia_B = unflatten(
        still, (float(own.values[0]) if type(own) is BatchScalar else own for own in flatten(still))
    )
    name = (speeds.__name__, structure)
    found: Sequence[Scalar] = call_for_each(
        name, lambda own: tuple(speeds(Vehicle(structure, mass, inertia_B, *own))), numbers, of_arrays=True
    )
    return found


def _fastest(vehicle: Vehicle) -> list[Scalar]:
    """Ω_max of motors with a lag, on a battery V/V_full of it, at the V of the full battery while all turn as fast  [rad/s]

    That V falls as they turn faster, and they turn faster as V rises: halving finds where both agree.
    """
    motors = [rotor.motor for rotor in vehicle.rotors]
    state, rated = at_rest(vehicle), rated_voltages(vehicle)
    low: Scalar = 0.0
    high = reduce(maximum, rated)
    for _ in range(60):
        voltage = 0.5 * (low + high)
        speeds = [slowed(motor, voltage / full).speed_max for motor, full in zip(motors, rated, strict=True)]
        agrees = voltage < supply_voltage(state._replace(rotor_speed=tuple(speeds)), (), vehicle, CALM)
        low, high = where(agrees, voltage, low), where(agrees, high, voltage)
    return speeds


def _full_speed(vehicle: Vehicle) -> list[Scalar]:
    """Ω̇ = 0 at full duty on a full battery, by Newton from above: there Ω̇ is concave, and he does not overshoot  [rad/s]

    Where it is asked of many lanes, each stops where it would by itself.
    """
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, full = at_rest(direct), (1.0,) * direct.command_size

    def rate(speeds: Array) -> Array:
        turning = state._replace(rotor_speed=tuple(speeds if speeds.ndim > 1 else speeds.tolist()))
        rates = direct.structure.actuation.rotor_acceleration(turning, full, direct, CALM)
        return np.array(np.broadcast_arrays(*rates))

    lanes = rate(np.full(len(direct.rotors), _TOO_FAST)).shape[1:]
    speeds, moving = np.full((len(direct.rotors), *lanes), _TOO_FAST), np.full(lanes, True)
    for _ in range(100):
        here = rate(speeds)
        step = here * (1e-6 * speeds) / (here - rate(speeds * (1.0 + 1e-6)))
        speeds = np.where(moving, speeds + step, speeds)
        moving = moving & ~(np.abs(step).max(axis=0) <= 1e-12 * speeds.max(axis=0))
        if not moving.any():
            break
    return list(speeds) if lanes else speeds.tolist()


_STEP = 1e-5  # of a rotor's speed, for the slope of its acceleration


def with_lag_motors(vehicle: Vehicle) -> Vehicle:
    """Ω_cmd = Ω_min + u (Ω_max − Ω_min), τ = −1 / (∂Ω̇/∂Ω): the vehicle with its DC motors so, u in the place of the duty

    The straight line goes through hover and full duty at the voltage that the bus has at hover; τ is that of hover, up and
    down, and the efficiency is what turns the rotors then. A vehicle whose motors have a lag stays as it is.
    """
    if not any(isinstance(rotor.motor, DcMotor) for rotor in vehicle.rotors):
        return vehicle
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, duties = hover(direct)
    volts = float(supply_voltage(state, duties, direct, CALM))
    currents = motor_currents(state, duties, direct, CALM)
    loads = rotor_loads(state, direct, CALM)
    steady = direct.without_effect("battery").with_effect(IDEAL_BATTERY, Ideal(volts))
    state = hover(steady)[0]
    acceleration = steady.structure.actuation.rotor_acceleration
    rotors = []
    for i, (rotor, most) in enumerate(zip(vehicle.rotors, thrust_limits(steady), strict=True)):
        speed, fastest = float(state.rotor_speed[i]), float((most.high / rotor.k_thrust) ** 0.5)
        slowest = max((speed - duties[i] * fastest) / (1.0 - duties[i]), 0.0)
        ends = []
        for step in (_STEP, -_STEP):
            speeds = (*state.rotor_speed[:i], speed * (1.0 + step), *state.rotor_speed[i + 1 :])
            ends.append(acceleration(state._replace(rotor_speed=speeds), duties, steady, CALM)[i])
        lag = float(2.0 * _STEP * speed / (ends[1] - ends[0]))
        share = min(float(loads[i].torque * speed / (volts * currents[i])), 1.0)
        rotors.append(rotor._replace(motor=Lag(slowest, fastest, lag, lag, share, volts)))
    structure = replace(direct.structure, actuation=NORMALIZED)
    return replace(direct, structure=structure, rotors=tuple(rotors))
