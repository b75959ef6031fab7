"""Occurrences of a flight as data: the rows of the stream `occurrence`, and a sentence for each.

The numbers in these rows never change their meaning, because recordings contain them.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from samara.scenario.landing import CRASH_SPEED


class OccurrenceType(IntEnum):
    """The type of an occurrence. A drone has taken off when it no longer rests on its feet."""

    TOOK_OFF = 1
    LANDED = 2
    CRASHED = 3
    COLLIDED = 4
    MOTOR_FAILED = 5
    MOTOR_DEGRADED = 6
    MOTOR_RESTORED = 7
    AUTOPILOT_LOST = 8
    STATE_NOT_FINITE = 9
    COMMAND_NOT_FINITE = 10
    COMMAND_OUT_OF_RANGE = 11


class PartType(IntEnum):
    """The part of a drone that touched something; motors, feet and propellers are numbered."""

    NONE = 0
    BODY = 1
    FOOT = 2
    MOTOR = 3
    PROPELLER = 4


class ContactTarget(IntEnum):
    """The object that a drone's part touched; `OTHER_DRONE` if another drone's part touched this drone."""

    NOTHING = 0
    GROUND = 1
    OBSTACLE = 2
    DRONE = 3
    OTHER_DRONE = 4


class ContactDetails(NamedTuple):
    """The part and its index, the object it touched and its index, and the speed [m/s]."""

    part: PartType
    part_index: int
    target: ContactTarget
    target_index: int
    speed: float


class Occurrence(NamedTuple):
    """An occurrence of one drone, by its index in the scenario, at a time in whole microseconds.

    `part` and `part_index` identify the part that touched something; for an occurrence of a motor, `part_index` is its index.
    `target_index` is the index of the other drone in the scenario, or of the obstacle in its world. An index that does not
    apply is −1. `speed` is the speed of the contact [m/s]; `value` is the effectiveness of a motor, from 0 to 1, or the
    requested command.
    """

    time_us: int
    drone: int
    type: OccurrenceType
    part: PartType = PartType.NONE
    part_index: int = -1
    target: ContactTarget = ContactTarget.NOTHING
    target_index: int = -1
    speed: float = 0.0
    value: float = 0.0

    @property
    def time(self) -> float:
        """Time of the occurrence [s]."""
        return self.time_us / 1e6

    @property
    def row(self) -> tuple[float, ...]:
        """The values in the stream `occurrence`, in the order of `OCCURRENCE_FIELDS`."""
        return tuple(float(value) for value in self[2:])


OCCURRENCE_FIELDS = Occurrence._fields[2:]


def parse_occurrence(time_us: int, drone: int, row: Sequence[float]) -> Occurrence:
    """Parse a row of the stream `occurrence`, the inverse of `Occurrence.row`; raise a ValueError for an unknown number."""
    occurrence_type, part, part_index, target, target_index = map(int, row[:5])
    return Occurrence(
        time_us,
        drone,
        OccurrenceType(occurrence_type),
        PartType(part),
        part_index,
        ContactTarget(target),
        target_index,
        row[5],
        row[6],
    )


def part_name(part: PartType, number: int) -> str:
    """Return the name of a part, such as 'propeller 2' or 'body'."""
    name = part.name.lower()
    return name if number < 0 else f"{name} {number}"


def motor_change(old_power: float, new_power: float) -> OccurrenceType:
    """Return the occurrence for a change of a motor's power."""
    if new_power == 0.0:
        return OccurrenceType.MOTOR_FAILED
    return OccurrenceType.MOTOR_RESTORED if new_power > old_power else OccurrenceType.MOTOR_DEGRADED


def status_change(old_status: Sequence[float], new_status: Sequence[float]) -> OccurrenceType | None:
    """Return the occurrence for a change of (landed, crashed), each 1 or 0; None after a crash or without a change."""
    if new_status[1]:
        return None if old_status[1] else OccurrenceType.CRASHED
    if new_status[0] == old_status[0]:
        return None
    return OccurrenceType.LANDED if new_status[0] else OccurrenceType.TOOK_OFF


def describe_occurrence(occurrence: Occurrence, drones: Sequence[str], solids: Sequence[object] = ()) -> str:
    """Describe an occurrence in a sentence, with the names of the scenario's drones and of its world's solids."""
    name = drones[occurrence.drone]
    match occurrence.type:
        case OccurrenceType.CRASHED if occurrence.target != ContactTarget.NOTHING:
            return f"{name} crashed: {_describe_contact(occurrence, drones, solids)}"
        case OccurrenceType.COLLIDED:
            return f"{name}: {_describe_contact(occurrence, drones, solids)}"
        case OccurrenceType.MOTOR_FAILED | OccurrenceType.MOTOR_RESTORED | OccurrenceType.MOTOR_DEGRADED:
            power = f" to {occurrence.value:g}" if occurrence.type == OccurrenceType.MOTOR_DEGRADED else ""
            return f"{name}: {occurrence.type.name.lower().replace('_', f' {occurrence.part_index} ')}{power}"
        case OccurrenceType.COMMAND_OUT_OF_RANGE:
            return f"{name}: the command of motor {occurrence.part_index} was out of range: {occurrence.value:.6g}"
        case _:
            return f"{name}: {occurrence.type.name.lower().replace('_', ' ')}"


def _describe_contact(occurrence: Occurrence, drones: Sequence[str], solids: Sequence[object]) -> str:
    if occurrence.target == ContactTarget.GROUND:
        return "touched the ground " + (
            f"at {occurrence.speed:.1f} m/s" if occurrence.speed > CRASH_SPEED else "tilted over"
        )
    part = part_name(occurrence.part, occurrence.part_index)
    if occurrence.target == ContactTarget.OTHER_DRONE:
        return f"struck by {drones[occurrence.target_index]}'s {part} at {occurrence.speed:.1f} m/s"
    target = (
        drones[occurrence.target_index] if occurrence.target == ContactTarget.DRONE else solids[occurrence.target_index]
    )
    return f"{part} struck {target} at {occurrence.speed:.1f} m/s"
