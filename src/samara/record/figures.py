"""The figures of a flight: its sums, its largest and its last values. Those of one piece after another are those of the whole.

So a flight in memory is one piece, a long recording is read in many, and both are judged by the same lines of code. Pieces
overlap: where a stream goes on, the last row before is the first of the piece, which way, energy and rate need; it is
counted once.
"""

import math
from collections.abc import Container
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.record.spectrum import Spectrum, spectrum_of
from samara.scenario.autopilot_types import POSITIONS_ONLY
from samara.vehicles.ground import asked_to_fly
from samara.vehicles.limits import command_range

if TYPE_CHECKING:
    from samara.record.run import Track

Array = np.ndarray[Any, Any]

ORDERED = POSITIONS_ONLY
AT_LIMIT = 1e-6  # of the range: a command this near to its limit is at it


class Total(NamedTuple):
    """Numbers or vectors added up, and how many they are."""

    total: Any = 0.0
    number: int = 0

    @property
    def mean(self) -> Any:
        return self.total / self.number

    @property
    def root(self) -> float:
        """√mean, of squares that were added up: RMS"""
        return math.sqrt(float(self.mean))

    def then(self, later: "Total") -> "Total":
        return Total(self.total + later.total, self.number + later.number)


class Most(NamedTuple):
    """The largest number, and when it first was; one that is not a number is worse than any."""

    value: float = -math.inf
    time: float = math.nan

    def then(self, later: "Most") -> "Most":
        return self if math.isnan(self.value) or later.value <= self.value else later


class Least(NamedTuple):
    """The smallest number; one that is not a number is worse than any."""

    value: float = math.inf

    def then(self, later: "Least") -> "Least":
        return self if math.isnan(self.value) or later.value >= self.value else later


class First(NamedTuple):
    """What it was at first."""

    value: Any

    def then(self, later: "First") -> "First":
        return self


class Last(NamedTuple):
    """What it came to."""

    value: Any

    def then(self, later: "Last") -> "Last":
        return later


def most(values: Array, time: Array | None = None) -> Most:
    """The largest of an array, and when"""
    if not values.size:
        return Most()
    at = int(values.argmax())
    return Most(float(values.flat[at]), math.nan if time is None else float(time[at]))


def total(values: Array, count: int | None = None) -> Total:
    """Over all of an array"""
    return Total(values.sum(), values.size if count is None else count)


def followed(track: "Track") -> Array:
    """The rows in which the distance from the reference is an error: in the air, after a path that was given and can be flown

    On the ground a drone is as high as its legs, wherever its reference is: at take-off, or below the ground at a landing.
    """
    if track.controller in ORDERED:
        return np.empty(0, dtype=int)
    return np.flatnonzero(track.in_the_air & _asked_to_fly(track))


def _asked_to_fly(track: "Track") -> Array:
    """Whether its reference is no lower than its legs allow, in every row"""
    return np.asarray(asked_to_fly(Vec3(*track.reference_position.T), track.vehicle, track.ground))


class Figures:
    """The figures of one piece of a track, each computed when it is asked for; those of several pieces by `after`."""

    def __init__(self, track: "Track | None" = None, carried: Container[str] = ()) -> None:
        """`carried` are the streams whose first row was the last of the piece before."""
        self._piece, self._carried = track, carried

    def after(self, before: "Figures | None") -> "Figures":
        """Those of the pieces before and of this one, without their rows"""
        both = Figures()
        for name in NAMES:
            try:
                own = getattr(self, name)
                vars(both)[name] = own if before is None else getattr(before, name).then(own)
            except KeyError:  # a stream that is not there: whoever asks for this figure is told
                continue
        return both

    @property
    def _track(self) -> "Track":
        if self._piece is None:
            raise KeyError("a stream that this figure needs is not in all of the recording")
        return self._piece

    def _new(self, stream: str) -> slice:
        return slice(1 if stream in self._carried else 0, None)

    @cached_property
    def began(self) -> First:
        """t of the first state  [s]"""
        return First(float(self._track.time[0]))

    @cached_property
    def ended(self) -> Last:
        """t of the last state  [s]"""
        return Last(float(self._track.time[-1]))

    @cached_property
    def position(self) -> Last:
        """p_W at the end  [m]"""
        return Last(self._track.position[-1].copy())

    @cached_property
    def off(self) -> Last:
        """p_W − its reference at the end, and how far that is  [m]"""
        track = self._track
        return Last((track.position[-1] - track.reference_position[-1], float(track.error[-1])))

    @cached_property
    def asked_to_fly(self) -> Last:
        """Whether its reference is in the air at the end"""
        return Last(bool(_asked_to_fly(self._track)[-1]))

    @cached_property
    def in_the_air(self) -> Total:
        """Logged times at which no part of it touched the ground"""
        return total(self._track.in_the_air[self._new("state")])

    @cached_property
    def _followed(self) -> Array:
        rows = followed(self._track)
        return rows[rows >= self._new("state").start]

    @cached_property
    def error(self) -> Total:
        """|p − p_reference|² in the rows in which that is an error  [m²]"""
        return total(self._track.error[self._followed] ** 2)

    @cached_property
    def worst(self) -> Most:
        """The largest |p − p_reference| in those rows  [m]"""
        return most(self._track.error[self._followed], self._track.time[self._followed])

    @cached_property
    def tilt(self) -> Most:
        """[rad]"""
        return most(self._track.tilt)

    @cached_property
    def highest(self) -> Most:
        """z  [m]"""
        return most(self._track.position[:, 2])

    @cached_property
    def lowest(self) -> Least:
        """z  [m]"""
        return Least(float(self._track.position[:, 2].min()))

    @cached_property
    def speed(self) -> Most:
        """|v|  [m/s]"""
        return most(np.linalg.norm(self._track.velocity, axis=1))

    @cached_property
    def rate(self) -> Most:
        """|ω|  [rad/s]"""
        return most(np.linalg.norm(self._track.angular_velocity, axis=1))

    @cached_property
    def way(self) -> Total:
        """The length of the path, from one logged state to the next  [m]"""
        return total(np.linalg.norm(np.diff(self._track.position, axis=0), axis=1))

    @cached_property
    def wind_speed(self) -> Total:
        """|wind| at every logged time  [m/s]"""
        return total(np.linalg.norm(self._track.wind[self._new("state")], axis=1))

    @cached_property
    def wind_W(self) -> Total:
        """The wind at every logged time  [m/s]"""
        wind_W = self._track.wind[self._new("state")]
        return Total(wind_W.sum(axis=0), len(wind_W))

    @cached_property
    def rotor_speed(self) -> Most:
        """Of any rotor  [rad/s]"""
        return most(self._track.rotor_speed)

    @cached_property
    def charge(self) -> Last:
        """State of charge at the end, from 1 to 0; None without a battery that empties"""
        charge = self._track.charge
        return Last(None if charge is None else float(charge[-1]))

    @cached_property
    def command(self) -> Total:
        """All numbers of all commands"""
        return total(self._track.command[self._new("command")])

    @cached_property
    def thrust(self) -> Total:
        """Of a body driven by a wrench, the first number of every command  [N]"""
        return total(self._track.command[self._new("command"), 0])

    @cached_property
    def largest_thrust(self) -> Most:
        """[N]"""
        return most(self._track.command[:, 0])

    @cached_property
    def command_rate(self) -> Total:
        """(Δu/Δt)² from one command to the next  [1/s²]"""
        track = self._track
        return total((np.diff(track.command, axis=0) / np.diff(track.command_time)[:, None]) ** 2)

    @cached_property
    def at_least(self) -> Total:
        """Numbers of commands at their lower limit"""
        return self._at_limit(low=True)

    @cached_property
    def at_most(self) -> Total:
        """Numbers of commands at their upper limit"""
        return self._at_limit(low=False)

    def _at_limit(self, *, low: bool) -> Total:
        limits, command = command_range(self._track.vehicle), self._track.command[self._new("command")]
        if limits is None:
            return Total()
        command = command[:, : len(self._track.vehicle.rotors)]  # a servo at its limit is no motor that saturates
        near = AT_LIMIT * (limits[1] - limits[0])
        return total(command <= limits[0] + near if low else command >= limits[1] - near)

    @cached_property
    def cut(self) -> Total:
        """Numbers that a controller of one's own asked beyond the range of a command"""
        table = self._track.tables.get("excess")
        return total(table.rows[self._new("excess")] != 0.0) if table is not None else Total()

    @cached_property
    def energy(self) -> Total:
        """∫ V I dt by trapezoids between the logged times  [J]; of no rows without a battery"""
        table = self._track.tables.get("outputs")
        if table is None or "voltage" not in table.fields:
            return Total()
        return Total(
            np.trapezoid(table["voltage"] * table["current"], self._track.time), len(table.rows[self._new("outputs")])
        )

    @cached_property
    def voltage(self) -> Least:
        """[V]"""
        return Least(float(self._track.tables["outputs"]["voltage"].min()))

    @cached_property
    def current(self) -> Most:
        """[A]"""
        return most(self._track.tables["outputs"]["current"])

    @cached_property
    def estimate_off(self) -> Total:
        """|p_estimated − p|² at every estimate, p as it was last logged  [m²]"""
        told, true = self._track.tables.get("estimate"), self._track.tables["state"]
        if told is None:
            return Total()
        held = np.maximum(np.searchsorted(true.times_us, told.times_us, side="right") - 1, 0)
        off = np.linalg.norm(told["p_W"] - true["p_W"][held], axis=1)
        return total(off[self._new("estimate")] ** 2)

    @cached_property
    def rate_spectrum(self) -> Spectrum:
        """Of ω_B  [(°/s)²/Hz]"""
        return spectrum_of(self._track.time, np.degrees(self._track.angular_velocity))

    @cached_property
    def command_spectrum(self) -> Spectrum:
        """Of the commands; of a body driven by a wrench, of the torques"""
        track = self._track
        return spectrum_of(track.command_time, track.command if track.vehicle.rotors else track.command[:, 1:])


NAMES = tuple(
    name for name, own in vars(Figures).items() if isinstance(own, cached_property) and not name.startswith("_")
)
