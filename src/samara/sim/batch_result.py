"""The result of a batch of flights: named arrays with one value per flight, and recorded trajectories."""

from dataclasses import dataclass

import numpy as np

from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import State
from samara.record.metrics import FlightMetrics
from samara.scenario.expectations import DroneResult, ExpectationResult, evaluate_expectations
from samara.scenario.scenario import Scenario


@dataclass(frozen=True, eq=False, repr=False)
class Flights:
    """n flights; arrays have the shape (n,), or (drones, n) for several drones. Flight i had `seeds[i]`.

    `final` is the state at the end; `landed` and `crashed` are as in the status of a recording; `metrics` summarise the flight;
    `outcomes` are the scenario's expectations, each with an array (n,) of the flights that satisfied it. `time` [s] and
    `states` (times, components, n) or (times, components, drones, n) are the recorded trajectories, empty without recording.
    """

    seeds: Array
    final: State
    landed: Array
    crashed: Array
    metrics: FlightMetrics
    outcomes: tuple[ExpectationResult, ...]
    time: Array
    states: Array

    @property
    def lost(self) -> Array:
        """Whether the final state is not finite, so that the metrics are meaningless."""
        return np.asarray(~np.isfinite(np.broadcast_arrays(*flatten(self.final))).all(axis=0))

    @property
    def max_error(self) -> Array:
        """Maximum position error over the time in which the drone has to follow its reference [m]."""
        return np.asarray(self.metrics.max_error)

    @property
    def rms_error(self) -> Array:
        """Root mean square of the position error [m]."""
        return np.asarray(self.metrics.rms_error)

    @property
    def max_touchdown_speed(self) -> Array:
        """Maximum speed at ground contact [m/s]; 0 without contact."""
        return np.asarray(self.metrics.max_touchdown_speed)

    @property
    def min_charge(self) -> Array:
        """Minimum charge of the batteries, from 1 to 0; 1 without a battery."""
        return np.asarray(self.metrics.min_charge)

    def __len__(self) -> int:
        return len(self.seeds)

    def __repr__(self) -> str:
        finite, lost = ~self.lost, int(self.lost.sum())
        rms = float(np.sqrt((self.rms_error[finite] ** 2).mean())) if finite.any() else 0.0
        lost_note = f", {lost} lost: their states are not finite" if lost else ""
        drones = f" of {len(self.lost)} drones" if self.lost.ndim > 1 else ""
        return (
            f"{len(self)} flights{drones}: {int(self.landed.sum())} landed, {int(self.crashed.sum())} crashed{lost_note}, "
            f"largest error {self.max_error[finite].max(initial=0.0):.3g} m, RMS {rms:.3g} m"
        )


def evaluate_flights(
    scenario: Scenario,
    seeds: Array,
    final: State,
    landed: Array,
    crashed: Array,
    metrics: FlightMetrics,
    states: Array,
    record_period: float,
) -> Flights:
    """Evaluate the expectations of a scenario; arrays are those of `Flights`, `record_period` is the period of `states` [s]."""
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
    times = np.arange(len(states)) * record_period
    return Flights(
        seeds, final, landed, crashed, metrics, tuple(evaluate_expectations(scenario.expect, drones)), times, states
    )
