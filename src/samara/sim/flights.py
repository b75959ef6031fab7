"""What comes of many flights of one scenario: named arrays with a number for each flight, and trajectories if asked for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from samara.core.tree import flatten
from samara.physics.types import State
from samara.record.metrics import FlightMetrics
from samara.scenario.expectations import Outcome

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Flights:
    """n flights of one drone each; all arrays have n columns, and flight i had `seeds[i]`.

    `final` is the state at the end, `landed` and `crashed` as in the status of a recording, `metrics` those of the whole
    flight, and `outcomes` what the scenario expects, each with an array of what came true. `time` and `states`
    (times, components, n), where trajectories are recorded, are the states at those times [s]; else they are empty.
    """

    seeds: Array
    final: State
    landed: Array
    crashed: Array
    metrics: FlightMetrics
    outcomes: tuple[Outcome, ...]
    time: Array
    states: Array

    @property
    def lost(self) -> Array:
        """Whether its state was no longer finite at the end: none of its metrics means anything then"""
        return np.asarray(~np.isfinite(np.broadcast_arrays(*flatten(self.final))).all(axis=0))

    @property
    def worst_error(self) -> Array:
        """The largest distance from the reference while it was to be followed  [m]"""
        return np.asarray(self.metrics.worst_error)

    @property
    def rms_error(self) -> Array:
        """The root mean square of that distance  [m]"""
        return np.asarray(self.metrics.rms_error)

    @property
    def touchdown_speed(self) -> Array:
        """The greatest speed at which it came to the ground; 0 where it never did  [m/s]"""
        return np.asarray(self.metrics.touchdown_speed)

    @property
    def min_charge(self) -> Array:
        """The least charge of its batteries, from 1 to 0; 1 without one"""
        return np.asarray(self.metrics.charge)

    def __len__(self) -> int:
        return len(self.seeds)

    def __str__(self) -> str:
        sound, lost = ~self.lost, int(self.lost.sum())
        rms = float(np.sqrt((self.rms_error[sound] ** 2).mean())) if sound.any() else 0.0
        told = f", {lost} lost: their states are not finite" if lost else ""
        return (
            f"{len(self)} flights: {int(self.landed.sum())} landed, {int(self.crashed.sum())} crashed{told}, "
            f"worst error {self.worst_error[sound].max(initial=0.0):.3g} m, RMS {rms:.3g} m"
        )
