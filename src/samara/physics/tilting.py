"""Vehicles whose rotors tilt: the one there is at an instant, and the command that keeps it so."""

from dataclasses import replace
from typing import Any

from samara.core.quantity import Scalar
from samara.physics.effect import Wrench
from samara.physics.rotors.propulsion import ROTORS
from samara.physics.rotors.tilt import servo_command, tilted_axis
from samara.physics.types import CALM, Command, Environment, State, Vehicle


def tilt_angles(state: State, vehicle: Vehicle) -> tuple[Scalar, ...]:
    """δ of every servo; none without any  [rad]"""
    angles: tuple[Scalar, ...] = state.effects[vehicle.index("tilt")] if vehicle.has("tilt") else ()
    return angles


def with_angles(state: State, angles: Any, vehicle: Vehicle) -> State:
    """The state with its servos elsewhere"""
    if not vehicle.has("tilt"):
        return state
    at = vehicle.index("tilt")
    return state._replace(effects=(*state.effects[:at], tuple(angles), *state.effects[at + 1 :]))


def tilted(state: State, vehicle: Vehicle) -> Vehicle:
    """The vehicle with the axes of its rotors as the servos have turned them; itself without any

    What is given here is the vehicle as it was built: one whose axes are turned already would turn twice.
    """
    if not vehicle.has("tilt"):
        return vehicle
    rotors = list(vehicle.rotors)
    for i, angle in zip(vehicle.servos, tilt_angles(state, vehicle), strict=True):
        own = rotors[i]
        rotors[i] = own._replace(axis_B=tilted_axis(own.axis_B, own.servo.hinge_B, angle))
    return replace(vehicle, rotors=tuple(rotors))


def wrench_of_rotors(state: State, vehicle: Vehicle) -> Wrench:
    """What the rotors do to the body at their speeds and angles, in calm air  [N, N·m]"""
    return ROTORS.wrench((), state, (), tilted(state, vehicle), CALM)


def steady_command(state: State, vehicle: Vehicle, environment: Environment = CALM) -> Command:
    """The command that keeps the rotor speeds of the state, and after those the one that keeps the angles of its servos"""
    command: Command = vehicle.structure.actuation.steady_command(state, vehicle, environment)
    if not vehicle.has("tilt"):
        return command
    angles = tilt_angles(state, vehicle)
    if vehicle.structure.actuation.name == "speed":
        return (*command, *angles)
    servos = (vehicle.rotors[i].servo for i in vehicle.servos)
    return (*command, *(servo_command(angle, servo) for angle, servo in zip(angles, servos, strict=True)))
