"""Metrics of a recorded flight: sums, extremes and final values of its streams, merged from consecutive pieces.

A flight in memory is one piece; a long recording is read in many. Consecutive pieces overlap: the first row of a stream is
the last row of the previous piece, which distance, energy and rates need. Such a row is counted once.
"""

import math
from collections.abc import Container
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.physics.quantities import DEGREES, least_charge, position_error
from samara.record.metrics.flight import is_tracking
from samara.record.metrics.registry import METRICS
from samara.record.spectrum import Spectrum, spectrum_of
from samara.scenario.autopilot_types import POSITIONS_ONLY
from samara.vehicles.defaults import asked_to_fly
from samara.vehicles.limits import command_range

if TYPE_CHECKING:
    from samara.record.run import Track

T = TypeVar("T")
LIMIT_TOLERANCE = 1e-6  # of the range: a command this close to its limit is at it


class Sum(NamedTuple):
    """A sum of numbers or vectors, and its sample count."""

    total: float | Array = 0.0
    samples: int = 0

    @property
    def mean(self) -> float | Array:
        return self.total / self.samples

    @property
    def rms(self) -> float:
        """√mean of a sum of squares; 0 without samples."""
        return math.sqrt(float(self.mean)) if self.samples else 0.0

    def merge(self, later: "Sum") -> "Sum":
        return Sum(self.total + later.total, self.samples + later.samples)


class Max(NamedTuple):
    """The largest number and the first time it occurred [s]; NaN counts as larger than any number."""

    value: float = -math.inf
    time: float = math.nan

    def merge(self, later: "Max") -> "Max":
        return self if math.isnan(self.value) or later.value <= self.value else later


class Min(NamedTuple):
    """The smallest number; NaN counts as smaller than any number."""

    value: float = math.inf

    def merge(self, later: "Min") -> "Min":
        return self if math.isnan(self.value) or later.value >= self.value else later


class First(NamedTuple, Generic[T]):
    """The value at the first sample."""

    value: T

    def merge(self, later: "First[T]") -> "First[T]":
        return self


class Last(NamedTuple, Generic[T]):
    """The value at the last sample."""

    value: T

    def merge(self, later: "Last[T]") -> "Last[T]":
        return later


def max_of(values: Array, time: Array | None = None) -> Max:
    """Return the largest value of an array."""
    if not values.size:
        return Max()
    index = int(values.argmax())
    return Max(float(values.flat[index]), math.nan if time is None else float(time[index]))


def sum_of(values: Array) -> Sum:
    """Return the sum of an array."""
    return Sum(values.sum(), values.size)


def sum_in_order(values: Array) -> Sum:
    """Return the sum from first to last, rounded as in `FlightMetrics`; NumPy's sum adds pairwise."""
    return Sum(np.add.accumulate(values)[-1], values.size) if values.size else Sum()


def tracking_rows(drone_record: "Track") -> Array:
    """Return the indices of the logged states whose position error is a tracking error (see `is_tracking`)."""
    if drone_record.controller in POSITIONS_ONLY:
        return np.empty(0, dtype=int)
    reference_W = Vec3(*drone_record.reference_position.T)
    return np.flatnonzero(is_tracking(drone_record.in_the_air, reference_W, drone_record.vehicle, drone_record.ground))


def distance_between(a: Array, b: Array) -> Array:
    """|a − b| of positions (m, 3)  [m]."""
    return np.asarray(position_error(Vec3(*a.T), Vec3(*b.T)))


class RecordedMetrics:
    """Metrics of one piece of a drone record, each computed on first use; `after` merges pieces."""

    def __init__(self, drone_record: "Track | None" = None, carried: Container[str] = ()) -> None:
        """`carried` are the streams whose first row is the last row of the previous piece."""
        self._piece, self._carried = drone_record, carried

    def metric(self, name: str) -> Any:
        """Return one of `METRICS` by its name; raise KeyError if recordings do not hold it."""
        read = METRICS[name].recorded
        if read is None:
            raise KeyError(f"metric {name!r} is not in recordings")
        return read(self)

    def after(self, previous: "RecordedMetrics | None") -> "RecordedMetrics":
        """Return the metrics of the previous pieces and of this one, without their rows."""
        merged = RecordedMetrics()
        for name in REDUCTIONS:
            try:
                reduction = getattr(self, name)
                vars(merged)[name] = reduction if previous is None else getattr(previous, name).merge(reduction)
            except KeyError:  # a missing stream: reported when this metric is requested
                continue
        return merged

    @property
    def _track(self) -> "Track":
        if self._piece is None:
            raise KeyError("a stream that this metric needs is not in every piece of the recording")
        return self._piece

    def _new(self, stream: str) -> slice:
        return slice(1 if stream in self._carried else 0, None)

    # Time and position -----------------------------------------------------------------------------------------------

    @cached_property
    def start_time(self) -> First[float]:
        """t of the first state  [s]."""
        return First(float(self._track.time[0]))

    @cached_property
    def end_time(self) -> Last[float]:
        """t of the last state  [s]."""
        return Last(float(self._track.time[-1]))

    @cached_property
    def final_position(self) -> Last[Array]:
        """p_W at the end  [m]."""
        return Last(self._track.position[-1].copy())

    @cached_property
    def final_offset(self) -> Last[tuple[Array, float]]:
        """p − p_reference at the end, and its length  [m]."""
        drone_record = self._track
        return Last((drone_record.position[-1] - drone_record.reference_position[-1], float(drone_record.error[-1])))

    @cached_property
    def reference_in_the_air(self) -> Last[bool]:
        """Whether the reference is in the air at the end."""
        drone_record = self._track
        airborne = asked_to_fly(Vec3(*drone_record.reference_position.T), drone_record.vehicle, drone_record.ground)
        return Last(bool(np.asarray(airborne)[-1]))

    @cached_property
    def in_the_air(self) -> Sum:
        """Logged times at which no part of the drone touched the ground."""
        return sum_of(self._track.in_the_air[self._new("state")])

    @cached_property
    def _tracking(self) -> Array:
        rows = tracking_rows(self._track)
        return rows[rows >= self._new("state").start]

    @cached_property
    def squared_error(self) -> Sum:
        """(tracking error)²  [m²]."""
        error = self._track.error[self._tracking]
        return sum_in_order(error * error)

    @cached_property
    def worst_error(self) -> Max:
        """The largest tracking error  [m]."""
        return max_of(self._track.error[self._tracking], self._track.time[self._tracking])

    @cached_property
    def squared_estimate_error(self) -> Sum:
        """|p_estimated − p|² at every estimate, with the last logged p  [m²]."""
        estimate, state = self._track.tables.get("estimate"), self._track.tables["state"]
        if estimate is None:
            return Sum()
        latest = np.maximum(np.searchsorted(state.times_us, estimate.times_us, side="right") - 1, 0)
        error = distance_between(estimate["p_W"], state["p_W"][latest])
        return sum_of(error[self._new("estimate")] ** 2)

    @cached_property
    def highest(self) -> Max:
        """Largest z  [m]."""
        return max_of(self._track.position[:, 2])

    @cached_property
    def lowest(self) -> Min:
        """Smallest z  [m]."""
        return Min(float(self._track.position[:, 2].min()))

    @cached_property
    def distance(self) -> Sum:
        """Length of the path from one logged state to the next  [m]."""
        position = self._track.position
        return sum_of(distance_between(position[1:], position[:-1]))

    # Motion ----------------------------------------------------------------------------------------------------------

    @cached_property
    def tilt_deg(self) -> Max:
        """Largest tilt  [°]."""
        return max_of(DEGREES * self._track.tilt)

    @cached_property
    def speed(self) -> Max:
        """Largest |v|  [m/s]."""
        return max_of(self._track.speed)

    @cached_property
    def angular_speed(self) -> Max:
        """Largest |ω|  [rad/s]."""
        return max_of(np.linalg.norm(self._track.angular_velocity, axis=1))

    @cached_property
    def rate_spectrum(self) -> Spectrum:
        """Spectrum of ω_B  [(°/s)²/Hz]."""
        return spectrum_of(self._track.time, np.degrees(self._track.angular_velocity))

    @cached_property
    def wind_speed(self) -> Sum:
        """|wind| at every logged time  [m/s]."""
        return sum_of(np.linalg.norm(self._track.wind[self._new("state")], axis=1))

    @cached_property
    def wind_W(self) -> Sum:
        """The wind at every logged time  [m/s]."""
        wind_W = self._track.wind[self._new("state")]
        return Sum(wind_W.sum(axis=0), len(wind_W))

    # Effort ----------------------------------------------------------------------------------------------------------

    @cached_property
    def rotor_speed(self) -> Max:
        """Largest rotor speed  [rad/s]."""
        return max_of(self._track.rotor_speed)

    @cached_property
    def command(self) -> Sum:
        """Every component of every command."""
        return sum_of(self._track.command[self._new("command")])

    @cached_property
    def thrust(self) -> Sum:
        """The first component of every command: of a body driven by a wrench, its thrust  [N]."""
        return sum_of(self._track.command[self._new("command"), 0])

    @cached_property
    def largest_thrust(self) -> Max:
        """Largest thrust of a body driven by a wrench  [N]."""
        return max_of(self._track.command[:, 0])

    @cached_property
    def squared_command_rate(self) -> Sum:
        """(Δu/Δt)² from one command to the next  [1/s²]."""
        drone_record = self._track
        return sum_of((np.diff(drone_record.command, axis=0) / np.diff(drone_record.command_time)[:, None]) ** 2)

    @cached_property
    def command_spectrum(self) -> Spectrum:
        """Spectrum of the commands; of a body driven by a wrench, of the torques."""
        drone_record = self._track
        return spectrum_of(
            drone_record.command_time,
            drone_record.command if drone_record.vehicle.rotors else drone_record.command[:, 1:],
        )

    @cached_property
    def at_lower_limit(self) -> Sum:
        """Motor commands at their lower limit."""
        return self._at_limit(low=True)

    @cached_property
    def at_upper_limit(self) -> Sum:
        """Motor commands at their upper limit."""
        return self._at_limit(low=False)

    def _at_limit(self, *, low: bool) -> Sum:
        limits, command = command_range(self._track.vehicle), self._track.command[self._new("command")]
        if limits is None:
            return Sum()
        command = command[:, : len(self._track.vehicle.rotors)]  # a servo at its limit is not a saturated motor
        tolerance = LIMIT_TOLERANCE * (limits[1] - limits[0])
        return sum_of(command <= limits[0] + tolerance if low else command >= limits[1] - tolerance)

    @property
    def saturation(self) -> tuple[float, float]:
        """Fractions of all motor commands at their lower and at their upper limit, from 0 to 1."""
        low, high = self.at_lower_limit, self.at_upper_limit
        return (float(low.mean), float(high.mean)) if low.samples else (0.0, 0.0)

    @cached_property
    def clipped_commands(self) -> Sum:
        """Components in which a custom controller exceeded the range of a command."""
        table = self._track.tables.get("excess")
        return sum_of(table.rows[self._new("excess")] != 0.0) if table is not None else Sum()

    # Energy ----------------------------------------------------------------------------------------------------------

    @cached_property
    def energy(self) -> Sum:
        """∫ V I dt by the trapezoidal rule  [J]; no samples without a battery."""
        table = self._track.tables.get("outputs")
        if table is None or "voltage" not in table.fields:
            return Sum()
        return Sum(
            np.trapezoid(table["voltage"] * table["current"], self._track.time), len(table.rows[self._new("outputs")])
        )

    @cached_property
    def voltage(self) -> Min:
        """Lowest bus voltage  [V]; ∞ without a battery."""
        if not self._track.vehicle.has("battery"):
            return Min()
        return Min(float(self._track.tables["outputs"]["voltage"].min()))

    @cached_property
    def current(self) -> Max:
        """Largest current  [A]."""
        return max_of(self._track.tables["outputs"]["current"])

    @cached_property
    def charge(self) -> Min:
        """The lowest state of charge of any battery, from 1 to 0; 1 without a battery that empties."""
        return Min(float(np.min(least_charge(self._track.charges))))

    @cached_property
    def final_charge(self) -> Last[float | None]:
        """State of charge of the first battery at the end, from 1 to 0; None without a battery that empties."""
        charge = self._track.charge
        return Last(None if charge is None else float(charge[-1]))


REDUCTIONS = tuple(
    name
    for name, member in vars(RecordedMetrics).items()
    if isinstance(member, cached_property) and not name.startswith("_")
)
