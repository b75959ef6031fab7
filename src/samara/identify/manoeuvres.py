"""The family of manoeuvres that an identification flight is chosen from: each begins and ends at rest over one place.

A manoeuvre is written as the tasks of a scenario file, so that what is simulated here and what a file says are the same. Sizes
follow from the vehicle (how hard it can lean and climb, how fast its attitude follows) and from the room it may use.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from samara.control.default_gains import gains_for
from samara.control.registry import Tuned, tuned
from samara.core.algebra import Vec3
from samara.core.quantity import Scalar
from samara.core.toml import File, Table
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory, sequence
from samara.scenario.file.mission import task_parts
from samara.scenario.scenario import ScenarioError
from samara.vehicles.trim import thrust_to_weight

PEAK_ACCELERATION = 10.0 / math.sqrt(3.0)  # of a leg of least jerk: 5.77 L/T²
OF_THE_TILT = 0.6  # of the largest lean: what is asked, so that what feedback adds stays within
OF_THE_LIFT = 0.5  # of the thrust that is left over hover
SETTLING = 2.0  # ω T of the position loop: hover after each manoeuvre
YAW_STEPS = (30.0, 90.0)  # [deg]
QUICKNESS = (3.0, 5.0, 8.0)  # ω T: how long a leg lasts beside the attitude loop's 1/ω
STRENGTH = (0.5, 0.7, 1.0)  # of the acceleration: quick legs lean further than they are asked to
OF_THE_SPEED = 0.9  # of the largest: what is asked
STEADY = 0.75  # the same of sprints and rounds, which overshoot where they end
PEAK_SPEED = 15.0 / 8.0 * math.sqrt(2.0)  # of the long legs of a doublet, 2 L in √2 T: 2.65 L/T


class Room(NamedTuple):
    """Where it may fly, and how: `reach` from the middle along x and y, heights from `low` to `high` [m], speed [m/s],
    tilt [rad], and the part of all its thrust; `wind` [m/s] is how much of it to be safe in"""

    reach: float = 4.0
    low: float = 0.5
    high: float = 4.0
    speed: float = 5.0
    tilt: float = math.radians(35.0)
    thrust: float = 0.9
    wind: float = 0.0

    @property
    def wind_W(self) -> Vec3:
        """The wind to be safe in, across both axes"""
        return Vec3(self.wind / math.sqrt(2.0), self.wind / math.sqrt(2.0), 0.0)

    @property
    def home_W(self) -> Vec3:
        """Its middle: where every manoeuvre begins and ends"""
        return Vec3(0.0, 0.0, 0.5 * (self.low + self.high))


class Manoeuvre(NamedTuple):
    """What it is called, and its tasks as a scenario file has them"""

    name: str
    tasks: tuple[dict[str, Scalar], ...]


def require_room(room: Room) -> None:
    """A room that can be flown in, or a sentence about the number that does not fit"""
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
        raise ValueError(f"room: thrust is {room.thrust!r}; expected a part of all the thrust, up to 1")


def controller_for(room: Room) -> Tuned:
    """INDI, which leans no further than it may

    The moment of airspeed turns a small vehicle by tens of rad/s² for every m/s. A loop that only knows the model of the rotors
    answers with an error of attitude, and loses those with slow motors; one that goes by measured accelerations does not.
    """
    return tuned("indi", tilt=room.tilt)


def trajectory(manoeuvres: Sequence[Manoeuvre], home_W: Vec3) -> Trajectory:
    """One after the other from hover at home, by the reader of scenario files"""
    file = File("manoeuvres", ScenarioError)
    tables = [Table(task, file) for own in manoeuvres for task in own.tasks]
    return sequence(*task_parts(tables, home_W, 0.0))


def family(vehicle: Vehicle, room: Room) -> list[Manoeuvre]:
    """Hover, yaw steps, doublets along each axis at three paces, also while turning, sprints, a climb, and all axes at once"""
    g = float(vehicle["gravity"].acceleration)
    aside = g * math.tan(OF_THE_TILT * room.tilt)
    spare = max(room.thrust * thrust_to_weight(vehicle) - 1.0, 0.1)
    upward = min(OF_THE_LIFT * spare, 0.4) * g
    tall, wide = 0.4 * (room.high - room.low), 0.8 * room.reach
    loop = gains_for(vehicle)
    still = [Manoeuvre("hover", (_hover(4.0),))]
    still += [_yaw_steps(angle, 5.0 / float(loop.attitude.z)) for angle in YAW_STEPS]
    moving = []
    for quick in QUICKNESS:
        for strength in STRENGTH:
            travel = quick / float(loop.attitude.x)
            moving.append(_doublet("z", Vec3(0.0, 0.0, 1.0), travel, strength * upward, tall, room))
            moving.append(_doublet("x", Vec3(1.0, 0.0, 0.0), travel, strength * aside, wide, room))
            moving.append(_doublet("y", Vec3(0.0, 1.0, 0.0), travel, strength * aside, wide, room))
            moving.append(_turning("x", Vec3(1.0, 0.0, 0.0), travel, strength * aside, wide, room))
    fast = STEADY * min(room.speed, math.sqrt(aside * wide))
    for axis, along in (("x", Vec3(1.0, 0.0, 0.0)), ("y", Vec3(0.0, 1.0, 0.0))):
        moving.append(_sprint(f"sprint along {axis} at {fast:.2g} m/s", along, fast, aside, wide, room))
    moving += [_climb(upward, tall, room), _knot(0.8 * aside, wide, tall, room)]
    settle = _hover(max(SETTLING / float(loop.position), 1.0))
    return [*still, *(own._replace(tasks=(*own.tasks, settle)) for own in moving)]


def _hover(duration: float, **more: Scalar) -> dict[str, Scalar]:
    return {"kind": "hover", "duration": _rounded(duration), **more}


def _at(place_W: Vec3) -> list[float]:
    return [_rounded(x) for x in place_W]


def _rounded(number: float) -> float:
    """To a tenth of a millimetre or millisecond: what a person reads in the file"""
    return round(float(number), 4)


def _yaw_steps(angle: float, hold: float) -> Manoeuvre:
    turns = tuple(_hover(hold, yaw_deg=each) for each in (angle, -angle, 0.0))
    return Manoeuvre(f"yaw steps of {angle:g}°", turns)


def _legs(name: str, offsets: Sequence[Vec3], travel: Sequence[float], room: Room) -> Manoeuvre:
    points = [_at(room.home_W + own) for own in offsets]
    task = {"kind": "waypoints", "points": points, "travel": [_rounded(own) for own in travel]}
    return Manoeuvre(name, (task,))


def _doublet(axis: str, along_W: Vec3, travel: float, acceleration: float, reach: float, room: Room) -> Manoeuvre:
    """Out, across to the other side, back and once more: every leg pulls as hard, the long ones last √2 as long"""
    size = min(
        acceleration * travel * travel / PEAK_ACCELERATION, reach, OF_THE_SPEED * room.speed * travel / PEAK_SPEED
    )
    places = [along_W * (size * side) for side in (1.0, -1.0, 1.0, -1.0, 0.0)]
    across, name = math.sqrt(2.0) * travel, f"steps of {size:.2g} m along {axis} in {travel:.2g} s"
    return _legs(name, places, [travel, across, across, across, travel], room)


def _turning(axis: str, along_W: Vec3, travel: float, acceleration: float, reach: float, room: Room) -> Manoeuvre:
    """The same steps while it turns about itself: ω × J ω tells J_z apart from the rotors' torque, which yaw alone cannot"""
    straight = _doublet(axis, along_W, travel, acceleration, reach, room)
    (steps,) = straight.tasks
    count = len(steps["points"])
    tasks = tuple(
        {
            "kind": "waypoints",
            "points": [place],
            "travel": [lasting],
            "yaw_deg": math.remainder(360.0 * (i + 1) / count, 360.0),
        }
        for i, (place, lasting) in enumerate(zip(steps["points"], steps["travel"], strict=True))
    )
    return Manoeuvre(f"{straight.name}, turning", tasks)


def _sprint(name: str, along_W: Vec3, speed: float, acceleration: float, reach: float, room: Room) -> Manoeuvre:
    """To one edge, to the other and home, at constant speed between smooth ends"""
    tasks = tuple(
        {
            "kind": "line",
            "to": _at(room.home_W + along_W * (reach * side)),
            "speed": _rounded(speed),
            "acceleration": _rounded(acceleration),
        }
        for side in (1.0, -1.0, 0.0)
    )
    return Manoeuvre(name, tasks)


def _climb(acceleration: float, reach: float, room: Room) -> Manoeuvre:
    """Up, down and home at constant speed: what thrust loses to climb, and drag along z"""
    speed = OF_THE_SPEED * min(room.speed, math.sqrt(acceleration * reach), 3.0)
    return _sprint(f"climb at {speed:.2g} m/s", Vec3(0.0, 0.0, 1.0), speed, acceleration, reach, room)


def _knot(pull: float, reach: float, tall: float, room: Room) -> Manoeuvre:
    """All axes at once, the nose along the path"""
    small = 0.3 * reach
    speed = min(1.15 * math.sqrt(pull * small), STEADY * room.speed)  # |p''| ≤ √97 A, |p'| ≤ √13 A
    task = {
        "kind": "lissajous",
        "centre": _at(room.home_W),
        "amplitude": [_rounded(small), _rounded(small), _rounded(0.4 * tall)],
        "frequency": [2.0, 3.0, 1.0],
        "speed": _rounded(speed),
        "laps": 1.0,
        "yaw": "along",
    }
    return Manoeuvre(f"knot at {speed:.2g} m/s", (task,))
