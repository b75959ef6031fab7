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
from samara.physics.inputs import command_range
from samara.physics.quantities import DEG_PER_RAD, min_charge, position_error
from samara.record.metrics.flight import is_tracking
from samara.record.metrics.registry import METRICS
from samara.record.spectrum import Spectrum, welch_spectrum
from samara.scenario.autopilot_types import POSITIONS_ONLY
from samara.vehicles.defaults import is_reference_airborne

if TYPE_CHECKING:
    from samara.record.run import DroneRecord

T = TypeVar("T")
LIMIT_TOLERANCE = 1e-6  # of the range: a command this close to its limit is at it


class RunningSum(NamedTuple):
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

    def merge(self, later: "RunningSum") -> "RunningSum":
        return RunningSum(self.total + later.total, self.samples + later.samples)


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


def array_max(values: Array, time: Array | None = None) -> Max:
    """Return the largest value of an array."""
    if not values.size:
        return Max()
    index = int(values.argmax())
    return Max(float(values.flat[index]), math.nan if time is None else float(time[index]))


def array_sum(values: Array) -> RunningSum:
    """Return the sum of an array."""
    return RunningSum(values.sum(), values.size)


def sum_in_order(values: Array) -> RunningSum:
    """Return the sum from first to last, rounded as in `FlightMetrics`; NumPy's sum adds pairwise."""
    return RunningSum(np.add.accumulate(values)[-1], values.size) if values.size else RunningSum()


def tracking_rows(drone_record: "DroneRecord") -> Array:
    """Return the indices of the logged states whose position error is a tracking error (see `is_tracking`)."""
    if drone_record.controller in POSITIONS_ONLY:
        return np.empty(0, dtype=int)
    reference_W = Vec3(*drone_record.reference_position.T)
    return np.flatnonzero(is_tracking(drone_record.airborne, reference_W, drone_record.vehicle, drone_record.ground))


def distance_between(a: Array, b: Array) -> Array:
    """|a − b| of positions (m, 3)  [m]."""
    return np.asarray(position_error(Vec3(*a.T), Vec3(*b.T)))


class RecordedMetrics:
    """Metrics of one piece of a drone record, each computed on first use; `merge_previous` merges pieces."""

    def __init__(self, drone_record: "DroneRecord | None" = None, carried: Container[str] = ()) -> None:
        """`carried` are the streams whose first row is the last row of the previous piece."""
        self._piece, self._carried = drone_record, carried

    def metric(self, name: str) -> Any:
        """Return one of `METRICS` by its name; raise KeyError if recordings do not hold it."""
        read = METRICS[name].recorded
        if read is None:
            raise KeyError(f"metric {name!r} is not in recordings")
        return read(self)

    def merge_previous(self, previous: "RecordedMetrics | None") -> "RecordedMetrics":
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
    def _drone_record(self) -> "DroneRecord":
        if self._piece is None:
            raise KeyError("a stream that this metric needs is not in every piece of the recording")
        return self._piece

    def _new_rows(self, stream: str) -> slice:
        return slice(1 if stream in self._carried else 0, None)

    # Time and position -----------------------------------------------------------------------------------------------

    @cached_property
    def start_time(self) -> First[float]:
        """t of the first state  [s]."""
        return First(float(self._drone_record.time[0]))

    @cached_property
    def end_time(self) -> Last[float]:
        """t of the last state  [s]."""
        return Last(float(self._drone_record.time[-1]))

    @cached_property
    def final_position(self) -> Last[Array]:
        """p_W at the end  [m]."""
        return Last(self._drone_record.position[-1].copy())

    @cached_property
    def final_offset(self) -> Last[tuple[Array, float]]:
        """p − p_reference at the end, and its length  [m]."""
        drone_record = self._drone_record
        return Last((drone_record.position[-1] - drone_record.reference_position[-1], float(drone_record.error[-1])))

    @cached_property
    def reference_in_the_air(self) -> Last[bool]:
        """Whether the reference is in the air at the end."""
        drone_record = self._drone_record
        airborne = is_reference_airborne(
            Vec3(*drone_record.reference_position.T), drone_record.vehicle, drone_record.ground
        )
        return Last(bool(np.asarray(airborne)[-1]))

    @cached_property
    def airborne_samples(self) -> RunningSum:
        """Logged times at which no part of the drone touched the ground."""
        return array_sum(self._drone_record.airborne[self._new_rows("state")])

    @cached_property
    def _tracking(self) -> Array:
        rows = tracking_rows(self._drone_record)
        return rows[rows >= self._new_rows("state").start]

    @cached_property
    def squared_error(self) -> RunningSum:
        """(tracking error)²  [m²]."""
        error = self._drone_record.error[self._tracking]
        return sum_in_order(error * error)

    @cached_property
    def max_error(self) -> Max:
        """The largest tracking error  [m]."""
        return array_max(self._drone_record.error[self._tracking], self._drone_record.time[self._tracking])

    @cached_property
    def squared_estimate_error(self) -> RunningSum:
        """|p_estimated − p|² at every estimate, with the last logged p  [m²]."""
        estimate, state = self._drone_record.tables.get("estimate"), self._drone_record.tables["state"]
        if estimate is None:
            return RunningSum()
        latest = np.maximum(np.searchsorted(state.times_us, estimate.times_us, side="right") - 1, 0)
        error = distance_between(estimate["p_W"], state["p_W"][latest])
        return array_sum(error[self._new_rows("estimate")] ** 2)

    @cached_property
    def max_height(self) -> Max:
        """Largest z  [m]."""
        return array_max(self._drone_record.position[:, 2])

    @cached_property
    def min_height(self) -> Min:
        """Smallest z  [m]."""
        return Min(float(self._drone_record.position[:, 2].min()))

    @cached_property
    def distance(self) -> RunningSum:
        """Length of the path from one logged state to the next  [m]."""
        position = self._drone_record.position
        return array_sum(distance_between(position[1:], position[:-1]))

    # Motion ----------------------------------------------------------------------------------------------------------

    @cached_property
    def max_tilt_deg(self) -> Max:
        """Largest tilt  [°]."""
        return array_max(DEG_PER_RAD * self._drone_record.tilt)

    @cached_property
    def max_speed(self) -> Max:
        """Largest |v|  [m/s]."""
        return array_max(self._drone_record.speed)

    @cached_property
    def max_angular_speed(self) -> Max:
        """Largest |ω|  [rad/s]."""
        return array_max(np.linalg.norm(self._drone_record.angular_velocity, axis=1))

    @cached_property
    def rate_spectrum(self) -> Spectrum:
        """Spectrum of ω_B  [(°/s)²/Hz]."""
        return welch_spectrum(self._drone_record.time, np.degrees(self._drone_record.angular_velocity))

    @cached_property
    def wind_speed(self) -> RunningSum:
        """|wind| at every logged time  [m/s]."""
        return array_sum(np.linalg.norm(self._drone_record.wind[self._new_rows("state")], axis=1))

    @cached_property
    def wind_W(self) -> RunningSum:
        """The wind at every logged time  [m/s]."""
        wind_W = self._drone_record.wind[self._new_rows("state")]
        return RunningSum(wind_W.sum(axis=0), len(wind_W))

    # Effort ----------------------------------------------------------------------------------------------------------

    @cached_property
    def max_rotor_speed(self) -> Max:
        """Largest rotor speed  [rad/s]."""
        return array_max(self._drone_record.rotor_speed)

    @cached_property
    def command(self) -> RunningSum:
        """Every component of every command."""
        return array_sum(self._drone_record.command[self._new_rows("command")])

    @cached_property
    def thrust(self) -> RunningSum:
        """The first component of every command: of a body driven by a wrench, its thrust  [N]."""
        return array_sum(self._drone_record.command[self._new_rows("command"), 0])

    @cached_property
    def max_thrust(self) -> Max:
        """Largest thrust of a body driven by a wrench  [N]."""
        return array_max(self._drone_record.command[:, 0])

    @cached_property
    def squared_command_rate(self) -> RunningSum:
        """(Δu/Δt)² from one command to the next  [1/s²]."""
        drone_record = self._drone_record
        return array_sum((np.diff(drone_record.command, axis=0) / np.diff(drone_record.command_time)[:, None]) ** 2)

    @cached_property
    def command_spectrum(self) -> Spectrum:
        """Spectrum of the commands; of a body driven by a wrench, of the torques."""
        drone_record = self._drone_record
        return welch_spectrum(
            drone_record.command_time,
            drone_record.command if drone_record.vehicle.rotors else drone_record.command[:, 1:],
        )

    @cached_property
    def lower_limit_commands(self) -> RunningSum:
        """Motor commands at their lower limit."""
        return self._limit_commands(low=True)

    @cached_property
    def upper_limit_commands(self) -> RunningSum:
        """Motor commands at their upper limit."""
        return self._limit_commands(low=False)

    def _limit_commands(self, *, low: bool) -> RunningSum:
        limits, command = (
            command_range(self._drone_record.vehicle),
            self._drone_record.command[self._new_rows("command")],
        )
        if limits is None:
            return RunningSum()
        command = command[:, : len(self._drone_record.vehicle.rotors)]  # a servo at its limit is not a saturated motor
        tolerance = LIMIT_TOLERANCE * (limits[1] - limits[0])
        return array_sum(command <= limits[0] + tolerance if low else command >= limits[1] - tolerance)

    @property
    def saturation(self) -> tuple[float, float]:
        """Fractions of all motor commands at their lower and at their upper limit, from 0 to 1."""
        low, high = self.lower_limit_commands, self.upper_limit_commands
        return (float(low.mean), float(high.mean)) if low.samples else (0.0, 0.0)

    @cached_property
    def clipped_commands(self) -> RunningSum:
        """Components in which a custom controller exceeded the range of a command."""
        table = self._drone_record.tables.get("command_excess")
        return array_sum(table.rows[self._new_rows("command_excess")] != 0.0) if table is not None else RunningSum()

    # Energy ----------------------------------------------------------------------------------------------------------

    @cached_property
    def energy(self) -> RunningSum:
        """∫ V I dt by the trapezoidal rule  [J]; no samples without a battery."""
        table = self._drone_record.tables.get("derived")
        if table is None or "voltage" not in table.fields:
            return RunningSum()
        return RunningSum(
            np.trapezoid(table["voltage"] * table["current"], self._drone_record.time),
            len(table.rows[self._new_rows("derived")]),
        )

    @cached_property
    def min_voltage(self) -> Min:
        """Lowest bus voltage  [V]; ∞ without a battery."""
        if not self._drone_record.vehicle.has("battery"):
            return Min()
        return Min(float(self._drone_record.tables["derived"]["voltage"].min()))

    @cached_property
    def max_current(self) -> Max:
        """Largest current  [A]."""
        return array_max(self._drone_record.tables["derived"]["current"])

    @cached_property
    def min_charge(self) -> Min:
        """The lowest state of charge of any battery, from 1 to 0; 1 without a battery model that discharges."""
        return Min(float(np.min(min_charge(self._drone_record.charges))))

    @cached_property
    def final_charge(self) -> Last[float | None]:
        """State of charge of the first battery at the end, from 1 to 0; None without a battery model that discharges."""
        charge = self._drone_record.charge
        return Last(None if charge is None else float(charge[-1]))


REDUCTIONS = tuple(
    name
    for name, member in vars(RecordedMetrics).items()
    if isinstance(member, cached_property) and not name.startswith("_")
)
