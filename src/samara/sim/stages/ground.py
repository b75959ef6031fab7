"""The plane under each drone: what its feet, its ground effect and nothing else take for the ground.

It is the ground's own, or the plane that touches a height map below, or the top of a solid that all of the feet are over. It is
put into the plants' environments, where a recording finds it, and held until the next time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3, dot, rotate
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Capsule, Sphere
from samara.physics.types import Vehicle
from samara.scenario.world import World
from samara.sim.collide.nearness import touches
from samara.sim.fleet import Fleet
from samara.sim.plant import Plant
from samara.sim.stage import PythonStage
from samara.world.obstacles import HeightMap, Solid, plane_below

STEEPEST = 0.5  # the least of a normal's z to stand on: 60°
OVER = 1e-3  # [m]: a foot is over a face when its distance from the solid is its height over the face's plane
UNDER = 0.05  # [m]: how far below a top a centre may be and still stand on it
VICINITY = 5.0  # [m]: further above a solid its top is not felt

Array = np.ndarray[Any, Any]


class GroundStage(PythonStage):
    """The plane under each drone, where it is not the same everywhere."""

    rate = "wind"
    reason = "the ground below each drone"

    def __init__(self, world: World, ground: Ground) -> None:
        self._varies = bool(world.solids) or world.terrain is not None
        self.ground: Ground | HeightMap = ground if world.terrain is None else world.terrain
        self._groups: Sequence[object] = ()
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
        """Point and normal of the plane below each of n drones, as six rows."""
        planes = _rows(plane_below(self.ground, p_W), n)
        depth = _height(planes, p_W) / planes[5]
        for solid in self.tops:
            own = touches(solid, p_W)
            over = (own.normal_W.z > STEEPEST) & (own.distance > -UNDER) & (own.distance < VICINITY)
            if not np.any(over):
                continue
            top = _rows(Ground(p_W - own.normal_W * own.distance, own.normal_W), n)
            below = own.distance / np.where(over, top[5], 1.0)  # straight down, where there is a top
            over = over & (below < depth)
            for point_B in vehicle["contact"].points_B if vehicle.has("contact") else ():
                foot_W = p_W + rotate(q_WB, point_B)
                over &= np.abs(touches(solid, foot_W).distance - _height(top, foot_W)) < OVER
            planes[:, over] = top[:, over]
            depth = np.where(over, below, depth)
        return planes


def _rows(plane: Ground, n: int) -> Array:
    """Point and normal as six rows of n."""
    return np.stack([np.broadcast_to(np.asarray(x, dtype=float), (n,)) for x in (*plane.point_W, *plane.normal_W)])


def _height(planes: Array, p_W: Vec3) -> Any:
    return dot(p_W - Vec3(*planes[:3]), Vec3(*planes[3:]))
