"""The metrics of a flight of which no recording is kept: brought up to date at the ticks of the log and of the scenario."""

from samara.core.algebra import ZERO
from samara.core.quantity import Scalar
from samara.physics.reference import Reference
from samara.physics.types import Command, Environment, State, Vehicle
from samara.sim.measures import START, Measures, measured, touched
from samara.sim.setup import DroneSetup
from samara.sim.stage import Stage, StageFactory, StageSet

LOG_REFERENCE = "log_reference"


def update_touchdown(metrics: Measures, impact_speed: Scalar) -> tuple[Measures]:
    """After a look at how fast the drone came to the ground since the last"""
    return (touched(metrics, impact_speed),)


def update_metrics(
    metrics: Measures,
    state: State,
    command: Command,
    reference: Reference,
    environment: Environment,
    *,
    vehicle: Vehicle,
) -> tuple[Measures]:
    """After one more tick of the log"""
    return (measured(metrics, state, command, reference, vehicle, environment),)


def _build(setup: DroneSetup) -> StageSet:
    touch = Stage("touchdown speed", "scenario", update_touchdown, ("metrics", "touch.impact_speed"), ("metrics",))
    reads = ("metrics", "state", "command", LOG_REFERENCE, "environment")
    stage = Stage("metrics", "log", update_metrics, reads, ("metrics",), (("vehicle", setup.vehicle),))
    return StageSet((touch, stage), {"metrics": START, LOG_REFERENCE: Reference(ZERO)})


METRICS = StageFactory("metrics", "log", _build)
