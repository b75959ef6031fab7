"""The family of manoeuvres from which an identification flight is composed: each begins and ends at rest over one position.

A manoeuvre is a list of scenario-file tasks, so that the simulation here and the written file agree. Sizes follow from the
vehicle (tilt, climb acceleration, attitude bandwidth) and from the flight volume.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from samara.control.default_gains import default_gains
from samara.control.registry import ControllerSpec, controller_spec
from samara.core.algebra import Vec3
from samara.core.quantity import Scalar
from samara.core.toml import TomlFile, TomlTable
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory, sequence
from samara.scenario.file.mission import task_parts
from samara.scenario.scenario import ScenarioError
from samara.vehicles.trim import thrust_to_weight

PEAK_ACCELERATION = 10.0 / math.sqrt(3.0)  # peak acceleration of a minimum-jerk leg: 5.77 L/T²
TILT_FRACTION = 0.6  # commanded fraction of the largest tilt, which leaves room for feedback
THRUST_FRACTION = 0.5  # commanded fraction of the thrust above hover
SETTLING_TIME = 2.0  # ω T of the position loop: hover after each manoeuvre
YAW_STEPS_DEG = (30.0, 90.0)  # [deg]
LEG_DURATIONS = (3.0, 5.0, 8.0)  # ω T: duration of a leg relative to the attitude loop's 1/ω
ACCELERATION_FRACTIONS = (0.5, 0.7, 1.0)  # of the full acceleration: quick legs tilt more than commanded
SPEED_FRACTION = 0.9  # commanded fraction of the highest speed
STEADY_SPEED_FRACTION = 0.75  # the same for sprints and curves, which overshoot at their ends
PEAK_SPEED = 15.0 / 8.0 * math.sqrt(2.0)  # peak speed of the long legs of a doublet, 2 L in √2 T: 2.65 L/T


class FlightVolume(NamedTuple):
    """The flight volume and limits.

    `reach` is the distance from the centre along x and y, `low` and `high` bound the height [m]; then the
    highest speed [m/s], tilt [rad] and fraction of the full thrust. `wind` [m/s] is the wind in which the flight must
    stay within these limits.
    """

    reach: float = 4.0
    low: float = 0.5
    high: float = 4.0
    speed: float = 5.0
    tilt: float = math.radians(35.0)
    thrust: float = 0.9
    wind: float = 0.0

    @property
    def wind_W(self) -> Vec3:
        """The wind of the safety check, diagonal to both axes."""
        return Vec3(self.wind / math.sqrt(2.0), self.wind / math.sqrt(2.0), 0.0)

    @property
    def home_W(self) -> Vec3:
        """The centre, at which every manoeuvre begins and ends."""
        return Vec3(0.0, 0.0, 0.5 * (self.low + self.high))


class Manoeuvre(NamedTuple):
    """A name, and the flight tasks in the form of a scenario file."""

    name: str
    tasks: tuple[dict[str, Scalar], ...]


def require_room(room: FlightVolume) -> None:
    """Raise ValueError if a limit is out of range."""
    for name in ("reach", "low", "high", "speed"):
        if not 0.0 < getattr(room, name) < 1e4:
            raise ValueError(f"room: {name} is {getattr(room, name)!r}; expected a positive number")
    if not room.high - room.low >= 0.5:
        raise ValueError(
            f"room: heights are from {room.low:g} to {room.high:g} m; expected at least 0.5 m between them"
        )
    if not 0.0 < room.tilt < 0.5 * math.pi:
        raise ValueError(f"room: tilt is {room.tilt!r} rad; expected an angle between 0 and π/2")
    if not 0.0 <= room.wind < 50.0:
        raise ValueError(f"room: wind is {room.wind!r} m/s; expected a number from 0 to 50")
    if not 0.0 < room.thrust <= 1.0:
        raise ValueError(f"room: thrust is {room.thrust!r}; expected a fraction of the full thrust, up to 1")


def identification_controller(room: FlightVolume) -> ControllerSpec:
    """Return INDI with the tilt limit of the flight volume.

    The airspeed moment accelerates a small vehicle by tens of rad/s² for every m/s. A controller that relies on the rotor model
    answers with an attitude error, and loses vehicles with slow motors; feedback of measured accelerations does not.
    """
    return controller_spec("indi", tilt=room.tilt)


def manoeuvre_trajectory(manoeuvres: Sequence[Manoeuvre], home_W: Vec3) -> Trajectory:
    """Concatenate manoeuvres from hover at home, with the reader of scenario files."""
    file = TomlFile("manoeuvres", ScenarioError)
    tables = [TomlTable(task, file) for manoeuvre in manoeuvres for task in manoeuvre.tasks]
    return sequence(*task_parts(tables, home_W, 0.0))


def manoeuvre_family(vehicle: Vehicle, room: FlightVolume) -> list[Manoeuvre]:
    """Return hover, yaw steps, doublets along each axis at three paces, also turning, sprints, a climb and a Lissajous."""
    g = float(vehicle["gravity"].acceleration)
    lateral = g * math.tan(TILT_FRACTION * room.tilt)
    headroom = max(room.thrust * thrust_to_weight(vehicle) - 1.0, 0.1)
    vertical = min(THRUST_FRACTION * headroom, 0.4) * g
    height, width = 0.4 * (room.high - room.low), 0.8 * room.reach
    gains = default_gains(vehicle)
    stationary = [Manoeuvre("hover", (_hover(4.0),))]
    stationary += [_yaw_steps(angle, 5.0 / float(gains.attitude.z)) for angle in YAW_STEPS_DEG]
    moving = []
    for leg_duration in LEG_DURATIONS:
        for strength in ACCELERATION_FRACTIONS:
            travel = leg_duration / float(gains.attitude.x)
            moving.append(_doublet("z", Vec3(0.0, 0.0, 1.0), travel, strength * vertical, height, room))
            moving.append(_doublet("x", Vec3(1.0, 0.0, 0.0), travel, strength * lateral, width, room))
            moving.append(_doublet("y", Vec3(0.0, 1.0, 0.0), travel, strength * lateral, width, room))
            moving.append(_turning_doublet("x", Vec3(1.0, 0.0, 0.0), travel, strength * lateral, width, room))
    speed = STEADY_SPEED_FRACTION * min(room.speed, math.sqrt(lateral * width))
    for axis, along in (("x", Vec3(1.0, 0.0, 0.0)), ("y", Vec3(0.0, 1.0, 0.0))):
        moving.append(_sprint(f"sprint along {axis} at {speed:.2g} m/s", along, speed, lateral, width, room))
    moving += [_climb(vertical, height, room), _lissajous(0.8 * lateral, width, height, room)]
    settle = _hover(max(SETTLING_TIME / float(gains.position), 1.0))
    return [*stationary, *(manoeuvre._replace(tasks=(*manoeuvre.tasks, settle)) for manoeuvre in moving)]


def _hover(duration: float, **options: Scalar) -> dict[str, Scalar]:
    return {"type": "hover", "duration": _round(duration), **options}


def _rounded_point(point_W: Vec3) -> list[float]:
    return [_round(x) for x in point_W]


def _round(number: float) -> float:
    """Round to a tenth of a millimetre or millisecond, for readable files."""
    return round(float(number), 4)


def _yaw_steps(angle: float, hold: float) -> Manoeuvre:
    turns = tuple(_hover(hold, yaw_deg=yaw_deg) for yaw_deg in (angle, -angle, 0.0))
    return Manoeuvre(f"yaw steps of {angle:g}°", turns)


def _legs(name: str, offsets: Sequence[Vec3], travel: Sequence[float], room: FlightVolume) -> Manoeuvre:
    points = [_rounded_point(room.home_W + offset) for offset in offsets]
    task = {"type": "waypoints", "points": points, "leg_duration": [_round(duration) for duration in travel]}
    return Manoeuvre(name, (task,))


def _doublet(
    axis: str, direction_W: Vec3, travel: float, acceleration: float, max_distance: float, room: FlightVolume
) -> Manoeuvre:
    """Step out, across, back and repeat: every leg has the same peak acceleration, and long legs last √2 times longer."""
    size = min(
        acceleration * travel * travel / PEAK_ACCELERATION,
        max_distance,
        SPEED_FRACTION * room.speed * travel / PEAK_SPEED,
    )
    offsets = [direction_W * (size * side) for side in (1.0, -1.0, 1.0, -1.0, 0.0)]
    across, name = math.sqrt(2.0) * travel, f"steps of {size:.2g} m along {axis} in {travel:.2g} s"
    return _legs(name, offsets, [travel, across, across, across, travel], room)


def _turning_doublet(
    axis: str, direction_W: Vec3, travel: float, acceleration: float, max_distance: float, room: FlightVolume
) -> Manoeuvre:
    """Fly a doublet while yawing: ω × J ω separates J_z from the rotors' torque, which yaw alone cannot."""
    straight = _doublet(axis, direction_W, travel, acceleration, max_distance, room)
    (steps,) = straight.tasks
    count = len(steps["points"])
    tasks = tuple(
        {
            "type": "waypoints",
            "points": [point],
            "leg_duration": [duration],
            "yaw_deg": math.remainder(360.0 * (i + 1) / count, 360.0),
        }
        for i, (point, duration) in enumerate(zip(steps["points"], steps["leg_duration"], strict=True))
    )
    return Manoeuvre(f"{straight.name}, turning", tasks)


def _sprint(
    name: str, direction_W: Vec3, speed: float, acceleration: float, max_distance: float, room: FlightVolume
) -> Manoeuvre:
    """Fly to one edge, to the other and home, at constant speed between smooth ends."""
    tasks = tuple(
        {
            "type": "line",
            "to": _rounded_point(room.home_W + direction_W * (max_distance * side)),
            "speed": _round(speed),
            "acceleration": _round(acceleration),
        }
        for side in (1.0, -1.0, 0.0)
    )
    return Manoeuvre(name, tasks)


def _climb(acceleration: float, max_distance: float, room: FlightVolume) -> Manoeuvre:
    """Fly up, down and home at constant speed, which excites inflow losses and drag along z."""
    speed = SPEED_FRACTION * min(room.speed, math.sqrt(acceleration * max_distance), 3.0)
    return _sprint(f"climb at {speed:.2g} m/s", Vec3(0.0, 0.0, 1.0), speed, acceleration, max_distance, room)


def _lissajous(acceleration: float, max_distance: float, height: float, room: FlightVolume) -> Manoeuvre:
    """Move along all axes at once, the nose along the path."""
    amplitude = 0.3 * max_distance
    speed = min(
        1.15 * math.sqrt(acceleration * amplitude), STEADY_SPEED_FRACTION * room.speed
    )  # |p''| ≤ √97 A, |p'| ≤ √13 A
    task = {
        "type": "lissajous",
        "centre": _rounded_point(room.home_W),
        "amplitude": [_round(amplitude), _round(amplitude), _round(0.4 * height)],
        "frequency": [2.0, 3.0, 1.0],
        "speed": _round(speed),
        "laps": 1.0,
        "yaw": "along",
    }
    return Manoeuvre(f"knot at {speed:.2g} m/s", (task,))
