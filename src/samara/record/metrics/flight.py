"""Metrics of a flight without a recording, accumulated at every tick of the log.

    metrics = FlightMetrics.initial()
    metrics = metrics.update(state, command, reference, vehicle, environment)  # pure, of one drone; traced for batches
    metrics = metrics.touch_down(impact_speed)                                 # wherever ground contact is checked
    metrics.rms_error                                                          # [m]

`RecordedMetrics` computes the same numbers from a recording of the same flight.
"""

import math
from typing import Any, NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import logical_and, maximum, minimum, safe_divide, safe_sqrt, where
from samara.core.quantity import Scalar
from samara.physics.ground.contact import Ground
from samara.physics.quantities import min_charge, min_voltage, position_error, speed, tilt_deg
from samara.physics.types import Command, Environment, Reference, State, Vehicle
from samara.scenario.batteries import evaluate_batteries
from samara.vehicles.defaults import is_airborne, is_reference_airborne


class FlightMetrics(NamedTuple):
    """Metrics of one drone since the start of its flight; scalars, or arrays over a batch.

    The position error counts as a tracking error while the drone is in the air and its reference is as well.
    """

    tracking_ticks: Scalar  # ticks in which the position error is a tracking error
    squared_error: Scalar  # Σ e² over these ticks  [m²]
    max_error: Scalar  # the largest tracking error  [m]
    max_tilt_deg: Scalar  # the largest  [°]
    max_speed: Scalar  # the largest  [m/s]
    max_height: Scalar  # the largest z  [m]
    min_height: Scalar  # the smallest z  [m]
    min_charge: Scalar  # the lowest of any battery, from 1 to 0; 1 without a battery
    min_voltage: Scalar  # the lowest  [V]; ∞ without a battery
    max_touchdown_speed: Scalar  # of the hardest ground contact  [m/s]

    @staticmethod
    def initial() -> "FlightMetrics":
        """Return the metrics before the first tick."""
        return FlightMetrics(0.0, 0.0, 0.0, 0.0, 0.0, -math.inf, math.inf, 1.0, math.inf, 0.0)

    def update(
        self, state: State, command: Command, reference: Reference, vehicle: Vehicle, environment: Environment
    ) -> "FlightMetrics":
        """Return the metrics after one more tick of the log."""
        instant = tick_metrics(state, command, reference, vehicle, environment)
        return self.merge(instant)._replace(max_touchdown_speed=self.max_touchdown_speed)

    def touch_down(self, impact_speed: Scalar) -> "FlightMetrics":
        """Return the metrics after a ground contact at `impact_speed` [m/s], 0 if there was none."""
        return self._replace(max_touchdown_speed=maximum(self.max_touchdown_speed, impact_speed))

    def merge(self, later: "FlightMetrics") -> "FlightMetrics":
        """Return the metrics of two consecutive pieces of a flight; NaN in either piece is preserved."""
        return FlightMetrics(
            self.tracking_ticks + later.tracking_ticks,
            self.squared_error + later.squared_error,
            maximum(self.max_error, later.max_error),
            maximum(self.max_tilt_deg, later.max_tilt_deg),
            maximum(self.max_speed, later.max_speed),
            maximum(self.max_height, later.max_height),
            minimum(self.min_height, later.min_height),
            minimum(self.min_charge, later.min_charge),
            minimum(self.min_voltage, later.min_voltage),
            maximum(self.max_touchdown_speed, later.max_touchdown_speed),
        )

    @property
    def rms_error(self) -> Scalar:
        """√(Σe²/n), 0 without tracking ticks  [m]."""
        return safe_sqrt(safe_divide(self.squared_error, self.tracking_ticks))

    def metric(self, name: str) -> Any:
        """Return one of `FLIGHT_METRICS` by its name."""
        return getattr(self, name)


def tick_metrics(
    state: State, command: Command, reference: Reference, vehicle: Vehicle, environment: Environment
) -> FlightMetrics:
    """Compute the metrics of a single tick."""
    batteries = evaluate_batteries(state, command, vehicle, environment)
    error = position_error(state.p_W, reference.p_W)
    ground = environment.ground
    tracking = is_tracking(is_airborne(state, vehicle, ground), reference.p_W, vehicle, ground)
    return FlightMetrics(
        where(tracking, 1.0, 0.0),
        where(tracking, error * error, 0.0),
        where(tracking, error, 0.0),
        tilt_deg(state.q_WB),
        speed(state.v_W),
        state.p_W.z,
        state.p_W.z,
        min_charge([battery.charge for battery in batteries]),
        min_voltage([battery.voltage for battery in batteries]),
        0.0,
    )


def is_tracking(airborne: Scalar, reference_W: Vec3, vehicle: Vehicle, ground: Ground) -> Scalar:
    """Whether the position error is a tracking error: the drone and its reference are both in the air.

    On the ground a drone stands on its legs, wherever its reference is: at take-off, or below the ground at a landing.
    """
    return logical_and(airborne, is_reference_airborne(reference_W, vehicle, ground))
