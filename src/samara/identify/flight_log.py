"""A flight log in one form, whatever wrote it: signals with their own times, SI units, body axes FLU, world axes z up.

Readers (`samara.identify.readers`) make it; everything after them knows no file format. Nothing is resampled here: each signal
has the times it was logged at, in seconds from the first sample of the log, on one clock unless a check finds otherwise.
"""

from dataclasses import dataclass
from typing import NamedTuple

from samara.core.types import Array

MOTION_CAPTURE, ESTIMATE = "motion capture", "estimate"


class Signal(NamedTuple):
    """Times (n,) [s], rising, and values (components, n)"""

    time: Array
    values: Array


@dataclass(frozen=True)
class FlightLog:
    """One flight. A signal that the log does not hold is None; only the motors must be there.

    `command` is one row per motor as the log counts them, 0 … 1 of what its writer can command; `numbering` names that order
    (a system of `samara.vehicles.rotor_numbering`; "samara" is the order of the vehicle's file). `rotor_speed`
    [rad/s] has the same
    order. `position` [m], `velocity` [m/s] in world axes and `attitude` (w, x, y, z; body to world) are from `truth`, motion
    capture or the vehicle's own estimate. `rate` [rad/s] is the gyroscope, or motion capture's where there is none;
    `specific_force` [m/s²] the accelerometer; both in body axes. `voltage` [V] is the battery's. `start` [s] is what the clock
    of its writer said at the first sample.
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
