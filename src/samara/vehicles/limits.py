"""Limits of a vehicle's motors (commands, speeds, thrusts), and DC motors replaced by first-order lags with the same limits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from samara.core.batch_scalar import BatchScalar, float_or_batch_scalar, map_batch
from samara.core.ops import clamp, maximum, where
from samara.core.portable_linalg import product, pseudoinverse
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.inputs import command_limits, command_range
from samara.physics.multirotor import state_at_rest
from samara.physics.rotors.actuator import Lag, scale_speed_range
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

MAX_COMMAND = 1e12  # in magnitude; a larger command is invalid


_SPEED_UPPER_BOUND = 1e5  # [rad/s] for any motor


class ValueRange(NamedTuple):
    """A closed interval."""

    low: Scalar
    high: Scalar


def thrust_limits(vehicle: Vehicle) -> tuple[ValueRange, ...]:
    """T = kF Ω² at the lowest and the highest speed of each motor, in air of sea-level density  [N]

    Entries for tilting rotors follow those of the rotors: their lateral thrust in hover. The order is that of the columns of
    `effectiveness`.
    """
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        max_speeds = (
            _solve_rotor_speeds(_max_lag_speeds, vehicle)
            if vehicle.has("battery")
            else [rotor.motor.speed_max for rotor in vehicle.rotors]
        )
        speeds = [
            (rotor.motor.speed_min, max_speed) for rotor, max_speed in zip(vehicle.rotors, max_speeds, strict=True)
        ]
    else:
        speeds = [(0.0, max_speed) for max_speed in _solve_rotor_speeds(_max_dc_speeds, vehicle)]
    axial = tuple(
        ValueRange(*(float_or_batch_scalar(rotor_load(speed, rotor).thrust) for speed in speed_limits))
        for rotor, speed_limits in zip(vehicle.rotors, speeds, strict=True)
    )
    return axial if not vehicle.servos else (*axial, *_lateral_thrust_limits(vehicle))


def _lateral_thrust_limits(vehicle: Vehicle) -> tuple[ValueRange, ...]:
    """T_a tan δ at both limits of every servo, with T_a the rotor's part of the weight: its lateral thrust  [N]"""
    weight = vehicle.mass * vehicle["gravity"].acceleration if vehicle.has("gravity") else 1.0
    thrusts = product(pseudoinverse(effectiveness(vehicle)[2:]), np.array([weight, 0.0, 0.0, 0.0]))
    servos = ((abs(float(thrusts[i])), vehicle.rotors[i].servo) for i in vehicle.servos)
    return tuple(ValueRange(thrust * math.tan(servo.low), thrust * math.tan(servo.high)) for thrust, servo in servos)


def servo_range(vehicle: Vehicle) -> tuple[ValueRange, ...]:
    """Return the range of each servo's command: −1 to 1, or radians for vehicles whose rotors are commanded by speed."""
    if vehicle.structure.actuation.name != "speed":
        return (ValueRange(-1.0, 1.0),) * len(vehicle.servos)
    return tuple(ValueRange(vehicle.rotors[i].servo.low, vehicle.rotors[i].servo.high) for i in vehicle.servos)


def command_bounds(vehicle: Vehicle) -> tuple[ValueRange, ...] | None:
    """Return the range of every element of a command; None for a command without limits, such as a wrench."""
    rotor_range = command_range(vehicle)
    return None if rotor_range is None else ((ValueRange(*rotor_range),) * len(vehicle.rotors)) + servo_range(vehicle)


def clamp_command(command: Sequence[Scalar], vehicle: Vehicle) -> tuple[Scalar, ...]:
    """Clamp normalized commands and duties to [0, 1] and servo commands to their range; the motors limit speed commands."""
    limits, count = command_limits(vehicle), len(vehicle.rotors)
    rotor_commands = [clamp(u, *limits) if limits else u for u in command[:count]] if count else list(command)
    servos = zip(command[count:], servo_range(vehicle), strict=True) if count else ()
    return (*rotor_commands, *(clamp(u, *servo_limits) for u, servo_limits in servos))


def _solve_rotor_speeds(solver: Callable[[Vehicle], list[Scalar]], vehicle: Vehicle) -> Sequence[Scalar]:
    """Run an iterative solver on all flights of a batch at once; mass and inertia have no influence on it."""
    structure, inputs = vehicle.structure, (vehicle.rotors, vehicle.parameters)
    inertial = (vehicle.mass, vehicle.inertia_B)
    mass, inertia_B = unflatten(
        inertial, (float(leaf.values[0]) if type(leaf) is BatchScalar else leaf for leaf in flatten(inertial))
    )
    name = (solver.__name__, structure)
    solution: Sequence[Scalar] = map_batch(
        name, lambda leaves: tuple(solver(Vehicle(structure, mass, inertia_B, *leaves))), inputs, accepts_arrays=True
    )
    return solution


def _max_lag_speeds(vehicle: Vehicle) -> list[Scalar]:
    """Ω_max of motors with a lag, scaled by V/V_full of a full battery, with V at the load of all rotors at Ω_max  [rad/s]

    V falls as the rotors turn faster, and they turn faster as V rises: bisection finds the equilibrium.
    """
    motors = [rotor.motor for rotor in vehicle.rotors]
    state, rated = state_at_rest(vehicle), rated_voltages(vehicle)
    low: Scalar = 0.0
    high = reduce(maximum, rated)
    for _ in range(60):
        voltage = 0.5 * (low + high)
        speeds = [
            scale_speed_range(motor, voltage / full_voltage).speed_max
            for motor, full_voltage in zip(motors, rated, strict=True)
        ]
        is_below = voltage < supply_voltage(state._replace(rotor_speed=tuple(speeds)), (), vehicle, CALM)
        low, high = where(is_below, voltage, low), where(is_below, high, voltage)
    return speeds


def _max_dc_speeds(vehicle: Vehicle) -> list[Scalar]:
    """Ω̇ = 0 at full duty on a full battery, by Newton's method from above, where Ω̇ is concave: no overshoot  [rad/s]

    Each flight of a batch stops at its own convergence.
    """
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, full_duty = state_at_rest(direct), (1.0,) * direct.command_size

    def rate(speeds: Array) -> Array:
        spinning_state = state._replace(rotor_speed=tuple(speeds if speeds.ndim > 1 else speeds.tolist()))
        rates = direct.structure.actuation.rotor_acceleration(spinning_state, full_duty, direct, CALM)
        return np.array(np.broadcast_arrays(*rates))

    batch_shape = rate(np.full(len(direct.rotors), _SPEED_UPPER_BOUND)).shape[1:]
    speeds, unconverged = np.full((len(direct.rotors), *batch_shape), _SPEED_UPPER_BOUND), np.full(batch_shape, True)
    for _ in range(100):
        acceleration = rate(speeds)
        step = acceleration * (1e-6 * speeds) / (acceleration - rate(speeds * (1.0 + 1e-6)))
        speeds = np.where(unconverged, speeds + step, speeds)
        unconverged = unconverged & ~(np.abs(step).max(axis=0) <= 1e-12 * speeds.max(axis=0))
        if not unconverged.any():
            break
    return list(speeds) if batch_shape else speeds.tolist()


_DIFFERENCE_STEP = 1e-5  # of a rotor's speed, for the slope of its acceleration


def replace_dc_motors(vehicle: Vehicle) -> Vehicle:
    """Ω_cmd = Ω_min + u (Ω_max − Ω_min), τ = −1 / (∂Ω̇/∂Ω): replace DC motors by first-order lags with command u

    The line passes through hover and full duty at the bus voltage of hover. τ is the time constant at hover, up and down, and
    the efficiency is that of hover. A vehicle whose motors already have a lag is returned unchanged.
    """
    if not any(isinstance(rotor.motor, DcMotor) for rotor in vehicle.rotors):
        return vehicle
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, duties = hover(direct)
    voltage = float(supply_voltage(state, duties, direct, CALM))
    currents = motor_currents(state, duties, direct, CALM)
    loads = rotor_loads(state, direct, CALM)
    constant_supply = direct.without_effect("battery").with_effect(IDEAL_BATTERY, Ideal(voltage))
    state = hover(constant_supply)[0]
    acceleration = constant_supply.structure.actuation.rotor_acceleration
    rotors = []
    for i, (rotor, limits) in enumerate(zip(vehicle.rotors, thrust_limits(constant_supply), strict=True)):
        speed, max_speed = float(state.rotor_speed[i]), float((limits.high / rotor.k_thrust) ** 0.5)
        min_speed = max((speed - duties[i] * max_speed) / (1.0 - duties[i]), 0.0)
        accelerations = []
        for step in (_DIFFERENCE_STEP, -_DIFFERENCE_STEP):
            speeds = (*state.rotor_speed[:i], speed * (1.0 + step), *state.rotor_speed[i + 1 :])
            accelerations.append(acceleration(state._replace(rotor_speed=speeds), duties, constant_supply, CALM)[i])
        lag = float(2.0 * _DIFFERENCE_STEP * speed / (accelerations[1] - accelerations[0]))
        efficiency = min(float(loads[i].torque * speed / (voltage * currents[i])), 1.0)
        rotors.append(rotor._replace(motor=Lag(min_speed, max_speed, lag, lag, efficiency, voltage)))
    structure = replace(direct.structure, actuation=NORMALIZED)
    return replace(direct, structure=structure, rotors=tuple(rotors))
