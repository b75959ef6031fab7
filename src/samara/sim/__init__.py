"""The runtime: the schedule of a flight, its stages and slots, the executors that run them, and the recorded results."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.record.diff import distances, first_difference
    from samara.sim.batch_result import Flights
    from samara.sim.collide.impacts import bounce, first_hit
    from samara.sim.collide.parts import collision_parts, part_shapes
    from samara.sim.plant import Plant, plant_state, set_plant_state
    from samara.sim.ros2.bridge import Bridge
    from samara.sim.simulation import Simulation
    from samara.sim.stage import PythonStage, Stage, insert
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "Bridge",
    "Flights",
    "Plant",
    "PythonStage",
    "Simulation",
    "Stage",
    "bounce",
    "collision_parts",
    "distances",
    "first_difference",
    "first_hit",
    "insert",
    "part_shapes",
    "plant_state",
    "set_plant_state",
]
