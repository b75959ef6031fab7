"""Occurrences of a flight as data: the rows of the stream `event`, and a sentence for each.

The numbers in these rows never change their meaning, because recordings contain them.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from samara.scenario.landing import CRASH_SPEED


class Fact(IntEnum):
    """The type of an occurrence. A drone has taken off when it no longer rests on its feet."""

    TOOK_OFF = 1
    LANDED = 2
    CRASHED = 3
    STRUCK = 4
    MOTOR_FAILED = 5
    MOTOR_DEGRADED = 6
    MOTOR_RESTORED = 7
    AUTOPILOT_LOST = 8
    STATE_NOT_FINITE = 9
    COMMAND_NOT_FINITE = 10
    COMMAND_OUT_OF_RANGE = 11


class PartKind(IntEnum):
    """The part of a drone that touched something; motors, feet and propellers are numbered."""

    NONE = 0
    BODY = 1
    FOOT = 2
    MOTOR = 3
    PROPELLER = 4


class Against(IntEnum):
    """The object that a drone's part touched; `BY_DRONE` if another drone's part touched this drone."""

    NOTHING = 0
    GROUND = 1
    SOLID = 2
    DRONE = 3
    BY_DRONE = 4


class Touch(NamedTuple):
    """The part and its number, the object it touched and its index, and the speed [m/s]."""

    part: PartKind
    number: int
    against: Against
    other: int
    speed: float


class Occurrence(NamedTuple):
    """An occurrence of one drone, by its index in the scenario, at a time in whole microseconds.

    `part` and `number` are those that touched, or `number` is that of the motor; `other` is the index of the other drone in the
    scenario or of the solid in its world; −1 if not applicable. `speed` is that of the contact [m/s], `value` the remaining
    power of a motor, from 0 to 1, or the requested command.
    """

    time_us: int
    drone: int
    fact: Fact
    part: PartKind = PartKind.NONE
    number: int = -1
    against: Against = Against.NOTHING
    other: int = -1
    speed: float = 0.0
    value: float = 0.0

    @property
    def time(self) -> float:
        """Time of the occurrence [s]."""
        return self.time_us / 1e6

    @property
    def row(self) -> tuple[float, ...]:
        """The values in the stream `event`, in the order of `EVENT_FIELDS`."""
        return tuple(float(value) for value in self[2:])


EVENT_FIELDS = Occurrence._fields[2:]


def occurrence(time_us: int, drone: int, row: Sequence[float]) -> Occurrence:
    """Parse a row of the stream `event`, the inverse of `Occurrence.row`; raise a ValueError for an unknown number."""
    fact, part, number, against, other = map(int, row[:5])
    return Occurrence(time_us, drone, Fact(fact), PartKind(part), number, Against(against), other, row[5], row[6])


def part_name(part: PartKind, number: int) -> str:
    """Return the name of a part, such as 'propeller 2' or 'body'."""
    name = part.name.lower()
    return name if number < 0 else f"{name} {number}"


def motor_change(old_power: float, new_power: float) -> Fact:
    """Return the occurrence for a change of a motor's power."""
    if new_power == 0.0:
        return Fact.MOTOR_FAILED
    return Fact.MOTOR_RESTORED if new_power > old_power else Fact.MOTOR_DEGRADED


def status_change(old_status: Sequence[float], new_status: Sequence[float]) -> Fact | None:
    """Return the occurrence for a change of (landed, crashed), each 1 or 0; None after a crash or without a change."""
    if new_status[1]:
        return None if old_status[1] else Fact.CRASHED
    if new_status[0] == old_status[0]:
        return None
    return Fact.LANDED if new_status[0] else Fact.TOOK_OFF


def sentence_of(event: Occurrence, drones: Sequence[str], solids: Sequence[object] = ()) -> str:
    """Describe an occurrence in a sentence, with the names of the scenario's drones and of its world's solids."""
    name = drones[event.drone]
    match event.fact:
        case Fact.CRASHED if event.against != Against.NOTHING:
            return f"{name} crashed: {_describe_contact(event, drones, solids)}"
        case Fact.STRUCK:
            return f"{name}: {_describe_contact(event, drones, solids)}"
        case Fact.MOTOR_FAILED | Fact.MOTOR_RESTORED | Fact.MOTOR_DEGRADED:
            power = f" to {event.value:g}" if event.fact == Fact.MOTOR_DEGRADED else ""
            return f"{name}: {event.fact.name.lower().replace('_', f' {event.number} ')}{power}"
        case Fact.COMMAND_OUT_OF_RANGE:
            return f"{name}: the command of motor {event.number} was out of range: {event.value:.6g}"
        case _:
            return f"{name}: {event.fact.name.lower().replace('_', ' ')}"


def _describe_contact(event: Occurrence, drones: Sequence[str], solids: Sequence[object]) -> str:
    if event.against == Against.GROUND:
        return "touched the ground " + (f"at {event.speed:.1f} m/s" if event.speed > CRASH_SPEED else "tilted over")
    part = part_name(event.part, event.number)
    if event.against == Against.BY_DRONE:
        return f"struck by {drones[event.other]}'s {part} at {event.speed:.1f} m/s"
    target = drones[event.other] if event.against == Against.DRONE else solids[event.other]
    return f"{part} struck {target} at {event.speed:.1f} m/s"
