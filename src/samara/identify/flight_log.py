"""A flight log independent of its file format: signals with separate times, SI units, body axes FLU, world axes z up.

Readers (`samara.identify.readers`) create it; all later code is independent of file formats. Nothing is resampled here: each
signal has the times at which it was logged, in seconds from the first sample of the log, on one clock unless a check finds
otherwise.
"""

from dataclasses import dataclass
from typing import NamedTuple

from samara.core.types import Array

MOTION_CAPTURE, ESTIMATE = "motion capture", "estimate"


class Signal(NamedTuple):
    """Increasing times (n,) [s] and values (components, n)."""

    time: Array
    values: Array


@dataclass(frozen=True)
class FlightLog:
    """One flight. A signal that is missing from the log is None; only motor commands or rotor speeds are required.

    `command` has one row per motor in the order of the log, from 0 to 1, the full range of the autopilot's output; `numbering`
    names that order (a system of `samara.vehicles.rotor_numbering`; "samara" is the order of the vehicle file). `rotor_speed`
    [rad/s] has the same order. `position` [m] and `velocity` [m/s] in world axes and `attitude` (w, x, y, z; body to world)
    come from the source named by `truth`: motion capture or the vehicle's estimate. `rate` [rad/s] is from the
    gyroscope, or from motion capture if the log has no gyroscope; `specific_force` [m/s²] is from the accelerometer;
    both are in body axes. `voltage` [V] is that of the battery. `start` [s] is the clock of the logging system at the
    first sample. Without `has_command` the log holds no commands, and rotor speeds over the fastest take their place.
    """

    name: str
    format: str
    numbering: str
    command: Signal
    rotor_speed: Signal | None = None
    position: Signal | None = None
    velocity: Signal | None = None
    attitude: Signal | None = None
    rate: Signal | None = None
    specific_force: Signal | None = None
    voltage: Signal | None = None
    truth: str = ""
    notes: tuple[str, ...] = ()
    start: float = 0.0
    has_command: bool = True
