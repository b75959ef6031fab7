"""Metrics stage: the metrics of a flight without a recording, updated at the ticks of the log and of the scenario."""

from samara.core.algebra import ZERO
from samara.core.quantity import Scalar
from samara.physics.types import Command, Environment, Reference, State, Vehicle
from samara.record.metrics import FlightMetrics
from samara.sim.setup import DroneSetup
from samara.sim.stage import Stage, StageFactory, StageSet

LOG_REFERENCE = "log_reference"


def update_touchdown(metrics: FlightMetrics, impact_speed: Scalar) -> tuple[FlightMetrics]:
    """Update the touchdown speed with the impact speed since the last tick."""
    return (metrics.touch_down(impact_speed),)


def update_metrics(
    metrics: FlightMetrics,
    state: State,
    command: Command,
    reference: Reference,
    environment: Environment,
    *,
    vehicle: Vehicle,
) -> tuple[FlightMetrics]:
    """Update the metrics with a tick of the log."""
    return (metrics.update(state, command, reference, vehicle, environment),)


def _build(setup: DroneSetup) -> StageSet:
    touch = Stage(
        "touchdown speed", "scenario", update_touchdown, ("metrics", "impact_status.impact_speed"), ("metrics",)
    )
    reads = ("metrics", "state", "command", LOG_REFERENCE, "environment")
    stage = Stage("metrics", "log", update_metrics, reads, ("metrics",), (("vehicle", setup.vehicle),))
    return StageSet((touch, stage), {"metrics": FlightMetrics.initial(), LOG_REFERENCE: Reference(ZERO)})


METRICS = StageFactory("metrics", "log", _build)
