"""The standard sequence of a flight: the stages run at each instant, after the physics steps that lead to it."""

from typing import TYPE_CHECKING

from samara.scenario.scenario import Scenario
from samara.sim.python_controllers import ControllerStage
from samara.sim.python_sensors import SensorsStage
from samara.sim.stage import Entry, StageFactory, StageSequence, StageSet
from samara.sim.stages.air import DENSITY, WAKE, WindStage
from samara.sim.stages.estimator import ESTIMATOR
from samara.sim.stages.events import EventsStage
from samara.sim.stages.ground import GROUND
from samara.sim.stages.metrics import METRICS
from samara.sim.stages.physics import CONTACT, PhysicsStage

if TYPE_CHECKING:
    from samara.sim.log import StatusReport

LOG = StageFactory("log", "log", lambda setup: StageSet())


def standard_sequence(
    scenario: Scenario,
    physics_us: int,
    *,
    status: "StatusReport | None" = None,
    recording: tuple[Entry, ...] = (),
    with_metrics: bool = False,
) -> StageSequence:
    """List the stages of a scenario in order; `recording` has the entries after the controller that record changes."""
    world, drones = scenario.world, scenario.drones
    ground: tuple[Entry, ...] = ()
    downwash: tuple[Entry, ...] = ()
    if world.obstacles or world.terrain is not None:
        ground = (GROUND,)
    if len(drones) > 1 and any(drone.vehicle.has("downwash") for drone in drones):
        from samara.sim.stages.downwash import DownwashStage

        downwash = (DownwashStage(),)
    return (
        PhysicsStage(scenario, status),
        CONTACT,
        EventsStage(scenario, physics_us),
        *ground,
        DENSITY,
        WindStage(),
        WAKE,
        *downwash,
        *((SensorsStage(),) if any(drone.sensors for drone in drones) else ()),
        ESTIMATOR,
        ControllerStage(),
        *recording,
        *((METRICS,) if with_metrics else ()),
        LOG,
    )
