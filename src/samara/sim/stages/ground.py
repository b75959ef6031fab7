"""The plane under each drone: what its feet, its ground effect and nothing else take for the ground.

It is the ground's own, or the plane that touches a height map below, or the top of a solid that all of the feet are over. It is
put into the plants' environments, where a recording finds it, and held until the next time.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.machine import CompiledStep
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Capsule, Sphere
from samara.physics.types import Vehicle
from samara.scenario.world import World
from samara.sim.collide.nearness import run_lanes
from samara.sim.fleet import Fleet
from samara.sim.plant import Plant
from samara.sim.stage import PythonStage
from samara.world.ground import GroundBelow, nearer_top, terrain_below
from samara.world.obstacles import TEMPLATES, HeightMap, Solid, kind_of

Array = np.ndarray[Any, Any]


class GroundStage(PythonStage):
    """The plane under each drone, where it is not the same everywhere."""

    rate = "wind"
    reason = "the ground below each drone"

    def __init__(self, world: World, ground: Ground) -> None:
        self._varies = bool(world.solids) or world.terrain is not None
        self.ground: Ground | HeightMap = ground if world.terrain is None else world.terrain
        self._groups: list[object] = []
        self.tops: list[Solid] = [own.solid for own in world.solids if not isinstance(own.solid, (Sphere, Capsule))]

    @property
    def varies(self) -> bool:
        """Whether the plane depends on the place"""
        return self._varies

    def below(self, p_W: Vec3, q_WB: Quat, vehicle: Vehicle) -> Ground:
        """The plane below one drone"""
        here = Vec3(*(np.array([x], dtype=float) for x in p_W))
        rows = self._planes(here, q_WB, vehicle, 1)[:, 0].tolist()
        return Ground(Vec3(*rows[:3]), Vec3(*rows[3:]))

    def update(self, fleet: Fleet) -> None:
        for group in fleet.groups:
            if self.put_below(group.plant):
                fleet.environment_changed = True

    def prepare(self, fleet: Fleet) -> None:
        """Grounds for the arrays that are new"""
        if self._groups is not fleet.groups:
            self._groups = fleet.groups
            self.update(fleet)

    def put_below(self, plant: Plant) -> bool:
        """The planes below the drones of a plant, into its environment; whether any is another one"""
        planes = self._planes(Vec3(*plant.state[:3]), Quat(*plant.state[6:10]), plant.vehicle, plant.n)
        first = plant.row("ground.point_W.x")
        held = plant.environment[first : first + 6]
        # A level plane is the same wherever on it its point is; of a slope the point is kept below the drone.
        same = (held[3:] == planes[3:]).all(axis=0) & (planes[5] == 1.0) & (np.abs(held[2] - planes[2]) < 1e-12)
        same |= (held == planes).all(axis=0)
        if same.all():
            return False
        held[:, ~same] = planes[:, ~same]
        return True

    def _planes(self, p_W: Vec3, q_WB: Quat, vehicle: Vehicle, n: int) -> Array:
        """Point and normal of the plane below each of n drones, as six rows: `ground_below`, solid by solid"""
        feet_B = vehicle["contact"].points_B if vehicle.has("contact") else ()
        below = terrain_below(p_W, self.ground)
        for solid in self.tops:
            if isinstance(solid, HeightMap):
                below = nearer_top(below, solid, p_W, q_WB, feet_B)
            else:
                code, rows = _top_code(kind_of(solid), len(feet_B)), flatten((p_W, q_WB, feet_B))
                below = unflatten(below, iter(run_lanes(code, 1, solid, rows, _rows(below, n))))
        return _rows(below.plane, n)


@lru_cache(maxsize=32)
def _top_code(kind: str, feet: int) -> CompiledStep:
    """`nearer_top` for any solid of one type and a given number of feet"""
    template = TEMPLATES[kind], ZERO, IDENTITY, (ZERO,) * feet
    return CompiledStep(
        lambda below, inputs: nearer_top(below, *inputs), GroundBelow(Ground(), 0.0), template, as_written=True
    )


def _rows(tree: Any, n: int) -> Array:
    """The leaves of a nested tuple as rows of n."""
    return np.stack([np.broadcast_to(np.asarray(x, dtype=float), (n,)) for x in flatten(tree)])
