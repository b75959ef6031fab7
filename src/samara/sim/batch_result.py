"""What comes of many flights of one scenario: named arrays with a number for each flight, and trajectories if asked for."""

from dataclasses import dataclass

import numpy as np

from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import State
from samara.record.metrics import FlightMetrics
from samara.scenario.expectations import DroneResult, Outcome, outcomes
from samara.scenario.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Flights:
    """n flights; arrays have the shape (n,), or (drones, n) where a flight has several drones. Flight i had `seeds[i]`.

    `final` is the state at the end, `landed` and `crashed` as in the status of a recording, `metrics` those of the whole
    flight, and `outcomes` what the scenario expects, each with an array (n,) of what came true. `time` and
    `states` (times, components, n) or (times, components, drones, n), where trajectories are recorded, are the states at those
    times [s]; else they are empty.
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
        drones = f" of {len(self.lost)} drones" if self.lost.ndim > 1 else ""
        return (
            f"{len(self)} flights{drones}: {int(self.landed.sum())} landed, {int(self.crashed.sum())} crashed{told}, "
            f"worst error {self.worst_error[sound].max(initial=0.0):.3g} m, RMS {rms:.3g} m"
        )


def flights_of(
    scenario: Scenario,
    seeds: Array,
    final: State,
    landed: Array,
    crashed: Array,
    metrics: FlightMetrics,
    states: Array,
    record: float,
) -> Flights:
    """Evaluate the expectations of a scenario; arrays are those of `Flights`, `record` is the period of `states` [s]"""
    drones = [DroneResult(scenario.drones[0].name, final.p_W, landed, crashed, metrics.metric)]
    if len(scenario.drones) > 1:
        drones = [
            DroneResult(
                drone.name,
                Vec3(*(x[k] for x in final.p_W)),
                landed[k],
                crashed[k],
                FlightMetrics(*(x[k] for x in metrics)).metric,
            )
            for k, drone in enumerate(scenario.drones)
        ]
    times = np.arange(len(states)) * record
    return Flights(seeds, final, landed, crashed, metrics, tuple(outcomes(scenario.expect, drones)), times, states)
