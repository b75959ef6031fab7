"""The measures of a flight of which no record is kept: worst, least and sums, brought up to date at every tick of the log.

    own = START
    own = measured(own, state, command, reference, vehicle, environment)     # pure, of one drone; traced for many
    own = touched(own, impact_speed)                                         # where touch-downs are looked at
    tracking_error(own)                                                      # RMS  [m]

They are what `samara.record.figures` finds in a recording of the same flight.
"""

import math
from typing import NamedTuple

from samara.core.ops import logical_and, maximum, minimum, safe_divide, safe_sqrt, where
from samara.core.quantity import Scalar
from samara.physics.reference import Reference
from samara.physics.types import Command, Environment, State, Vehicle
from samara.scenario.batteries import batteries_of
from samara.scenario.conditions import QUANTITIES, Watched
from samara.vehicles.ground import asked_to_fly, in_the_air


class Measures(NamedTuple):
    """Of one drone so far. Errors count while it is in the air and asked to be; a drone without a battery is always full."""

    followed: Scalar  # ticks in which the distance from the reference is an error
    squared_error: Scalar  # its sum over them  [m²]
    worst_error: Scalar  # [m]
    tilt_deg: Scalar  # the largest
    speed: Scalar  # the largest  [m/s]
    highest: Scalar  # z  [m]
    lowest: Scalar  # z  [m]
    charge: Scalar  # the least of any battery, from 1 to 0
    voltage: Scalar  # the least  [V]
    touchdown_speed: Scalar  # the hardest touch of the ground  [m/s]


START = Measures(0.0, 0.0, 0.0, 0.0, 0.0, -math.inf, math.inf, 1.0, math.inf, 0.0)


def measured(
    own: Measures, state: State, command: Command, reference: Reference, vehicle: Vehicle, environment: Environment
) -> Measures:
    """The measures after one more tick of the log"""
    drone = Watched(state, reference, 0.0, 0.0, batteries_of(state, command, vehicle, environment))
    error, tilt_deg, speed, height, charge, voltage = (
        QUANTITIES[name](0.0, drone) for name in ("error", "tilt_deg", "speed", "height", "charge", "voltage")
    )
    ground = environment.ground
    follows = logical_and(in_the_air(state, vehicle, ground), asked_to_fly(reference.p_W, vehicle, ground))
    return Measures(
        own.followed + where(follows, 1.0, 0.0),
        own.squared_error + where(follows, error * error, 0.0),
        maximum(own.worst_error, where(follows, error, 0.0)),
        maximum(own.tilt_deg, tilt_deg),
        maximum(own.speed, speed),
        maximum(own.highest, height),
        minimum(own.lowest, height),
        minimum(own.charge, charge),
        minimum(own.voltage, voltage),
        own.touchdown_speed,
    )


def touched(own: Measures, impact_speed: Scalar) -> Measures:
    """The measures after a look at how fast it came to the ground since the last  [m/s]"""
    return own._replace(touchdown_speed=maximum(own.touchdown_speed, impact_speed))


def tracking_error(own: Measures) -> Scalar:
    """√(Σe²/n), 0 where it was never to follow  [m]"""
    return safe_sqrt(safe_divide(own.squared_error, own.followed))
