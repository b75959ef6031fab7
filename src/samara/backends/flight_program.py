"""A flight as a program: units of arithmetic, due at the ticks of their axes, and the physics steps between them.

A unit is a pure function of named tuples of scalars. A slot is such a tuple under a name, and carries it from one unit to the
next. At each tick of the finest axis the units that are due run in their order, then the physics steps to the next tick.
`flight_jax` and `flight_pallas` compile it for many flights at once.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Draws(NamedTuple):
    """Which normals a unit takes: the source's name, how many, and the axis whose ticks are counted, its own by default."""

    source: str
    normals: int
    axis: str = ""


class Unit(NamedTuple):
    """`update(*reads[, normals]) → writes`, due at each tick of an axis; "time" and "dt" may be read [s].

    `first_dt` is the dt of the first tick, where that is another one; with `after_us` all its ticks are so much later [µs].
    `needed(*reads)`, where there is one, is a condition: where it holds for no flight, nothing would change, and the unit is
    left out.
    """

    name: str
    axis: str
    update: Callable[..., Any]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    draws: Draws | None = None
    first_dt: float | None = None
    needed: Callable[..., Any] | None = None
    after_us: int = 0


class Physics(NamedTuple):
    """The step, and a `quiet` one without what is idle most of the time, for when `busy(*reads)` holds for no flight.

    All read and write the same slots; `busy` answers for all steps up to the next tick.
    """

    step: Unit
    quiet: Unit | None = None
    busy: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Program:
    """The units in their order at one instant, the shapes of the slots, and how often each axis is due  [µs]

    `tables` are slots with a row for each tick of an axis, alike in all flights. Units in `last` run at the end as well.
    """

    units: tuple[Unit, ...]
    physics: Physics
    slots: Mapping[str, Any]
    periods: Mapping[str, int]
    duration_us: int
    tables: Mapping[str, str]
    last: tuple[str, ...] = ()

    @property
    def tick_us(self) -> int:
        """The finest period of the units"""
        return math.gcd(*(self.periods[unit.axis] for unit in self.units), *(unit.after_us for unit in self.units))

    @property
    def ticks(self) -> int:
        """How many there are from the start to the end"""
        if self.duration_us % self.tick_us or self.tick_us % self.periods["physics"]:
            raise ValueError(
                f"a flight of {self.duration_us} µs with ticks every {self.tick_us} µs and physics every "
                f"{self.periods['physics']} µs: expected each to be a multiple of the next"
            )
        return self.duration_us // self.tick_us

    def every(self, axis: str) -> int:
        """How many ticks there are to one of an axis"""
        return self.periods[axis] // self.tick_us

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all that is drawn"""
        return tuple(sorted({unit.draws.source for unit in self.units if unit.draws}))

    @property
    def written(self) -> tuple[str, ...]:
        """The slots that change"""
        names = {name for unit in (*self.units, self.physics.step) for name in unit.writes}
        return tuple(name for name in self.slots if name in names)
