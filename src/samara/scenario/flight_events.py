"""What happened to a drone, as data: the rows of the stream `event`, and the one sentence that tells a person of each.

A number in such a row never changes its meaning: recordings hold them.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from samara.scenario.landing import CRASH_SPEED


class Fact(IntEnum):
    """What happened. It took off when it no longer stands at rest on its feet."""

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
    """What of a drone touched something; of some parts there are several, which have numbers."""

    NONE = 0
    BODY = 1
    FOOT = 2
    MOTOR = 3
    PROPELLER = 4


class Against(IntEnum):
    """What a drone's part touched; `BY_DRONE` where it was the other drone's part that touched this one."""

    NOTHING = 0
    GROUND = 1
    SOLID = 2
    DRONE = 3
    BY_DRONE = 4


class Touch(NamedTuple):
    """Which part touched what, by its number, and how fast  [m/s]"""

    part: PartKind
    number: int
    against: Against
    other: int
    speed: float


class Occurrence(NamedTuple):
    """A fact of one drone, by its number in the scenario, at a time in whole microseconds.

    `part` and `number` are what touched, or the number is that of the motor; `other` is that of the drone in the scenario or of
    the solid in its world; −1 where there is none. `speed` is that of a touch [m/s], `value` the power that a motor has left,
    from 0 to 1, or the command that was asked for.
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
        """[s]"""
        return self.time_us / 1e6

    @property
    def row(self) -> tuple[float, ...]:
        """Its numbers in the stream `event`, in the order of `EVENT_FIELDS`"""
        return tuple(float(own) for own in self[2:])


EVENT_FIELDS = Occurrence._fields[2:]


def occurrence(time_us: int, drone: int, row: Sequence[float]) -> Occurrence:
    """The inverse of `Occurrence.row`; ValueError of a number that has no meaning here"""
    fact, part, number, against, other = map(int, row[:5])
    return Occurrence(time_us, drone, Fact(fact), PartKind(part), number, Against(against), other, row[5], row[6])


def part_name(part: PartKind, number: int) -> str:
    """'propeller 2', 'body'"""
    name = part.name.lower()
    return name if number < 0 else f"{name} {number}"


def motor_change(before: float, after: float) -> Fact:
    """What it is called when a motor that obeyed one share of its command obeys another"""
    if after == 0.0:
        return Fact.MOTOR_FAILED
    return Fact.MOTOR_RESTORED if after > before else Fact.MOTOR_DEGRADED


def status_change(before: Sequence[float], after: Sequence[float]) -> Fact | None:
    """What it is called when (landed, crashed), each 1 or 0, change: a wreck has neither landed nor taken off"""
    if after[1]:
        return None if before[1] else Fact.CRASHED
    if after[0] == before[0]:
        return None
    return Fact.LANDED if after[0] else Fact.TOOK_OFF


def sentence_of(own: Occurrence, drones: Sequence[str], solids: Sequence[object] = ()) -> str:
    """One sentence for people, with the names of the scenario's drones and of its world's solids"""
    name = drones[own.drone]
    match own.fact:
        case Fact.CRASHED if own.against != Against.NOTHING:
            return f"{name} crashed: {_touch(own, drones, solids)}"
        case Fact.STRUCK:
            return f"{name}: {_touch(own, drones, solids)}"
        case Fact.MOTOR_FAILED | Fact.MOTOR_RESTORED | Fact.MOTOR_DEGRADED:
            left = f" to {own.value:g}" if own.fact == Fact.MOTOR_DEGRADED else ""
            return f"{name}: {own.fact.name.lower().replace('_', f' {own.number} ')}{left}"
        case Fact.COMMAND_OUT_OF_RANGE:
            return f"{name}: the command of motor {own.number} was out of range: {own.value:.6g}"
        case _:
            return f"{name}: {own.fact.name.lower().replace('_', ' ')}"


def _touch(own: Occurrence, drones: Sequence[str], solids: Sequence[object]) -> str:
    if own.against == Against.GROUND:
        return "touched the ground " + (f"at {own.speed:.1f} m/s" if own.speed > CRASH_SPEED else "leaning over")
    part = part_name(own.part, own.number)
    if own.against == Against.BY_DRONE:
        return f"struck by {drones[own.other]}'s {part} at {own.speed:.1f} m/s"
    what = drones[own.other] if own.against == Against.DRONE else solids[own.other]
    return f"{part} struck {what} at {own.speed:.1f} m/s"
