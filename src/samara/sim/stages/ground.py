"""Ground stage: the plane under each drone, which its contact points and its ground effect use.

It is the ground plane, the tangent plane of a height map, or the top of a solid that is below all feet. It is updated at the
wind's ticks, written into the environment, which is recorded, and constant between the ticks.
"""

from collections.abc import Callable

from samara.core.algebra import Quat, Vec3
from samara.core.block_ops import select
from samara.core.ops import absolute, equal, logical_and
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Capsule, Sphere
from samara.physics.types import Vehicle
from samara.scenario.world import World
from samara.sim.setup import DroneSetup
from samara.sim.stage import Stage, StageFactory, StageSet
from samara.world.ground import ground_below
from samara.world.obstacles import HeightMap, Solid

HEIGHT_TOLERANCE = 1e-12  # [m]


def find_ground(
    p_W: Vec3,
    q_WB: Quat,
    previous: Ground,
    *,
    vehicle: Vehicle,
    ground: Ground | HeightMap,
    tops: tuple[Solid, ...],
) -> tuple[Ground]:
    """Find the plane below a drone; return the previous one if both are the same level plane."""
    feet_B = vehicle["contact"].points_B if vehicle.has("contact") else ()
    plane = ground_below(p_W, q_WB, ground=ground, tops=tops, feet_B=feet_B)
    pairs = [equal(old, new) for old, new in zip(previous.normal_W, plane.normal_W, strict=True)]
    is_level = logical_and(equal(plane.normal_W.z, 1.0), logical_and(pairs[2], logical_and(pairs[0], pairs[1])))
    is_same = logical_and(is_level, absolute(previous.point_W.z - plane.point_W.z) < HEIGHT_TOLERANCE)
    return (select(is_same, previous, plane),)


def standing_surfaces(world: World, ground: Ground) -> tuple[Ground | HeightMap, tuple[Solid, ...]]:
    """Return the ground, and the solids whose tops a drone can stand on."""
    solids = (obstacle.solid for obstacle in world.obstacles)
    tops = tuple(solid for solid in solids if not isinstance(solid, (Sphere, Capsule)))
    return ground if world.terrain is None else world.terrain, tops


def plane_finder(world: World, ground: Ground) -> Callable[[Vec3, Quat, Vehicle], Ground]:
    """Return a function that finds the plane below a drone from its position, attitude and vehicle."""
    surface, tops = standing_surfaces(world, ground)

    def find(p_W: Vec3, q_WB: Quat, vehicle: Vehicle) -> Ground:
        return find_ground(p_W, q_WB, ground, vehicle=vehicle, ground=surface, tops=tops)[0]

    return find


def _build(setup: DroneSetup) -> StageSet:
    ground, tops = standing_surfaces(setup.flight.world, setup.flight.environment.ground)
    reads, writes = ("state.p_W", "state.q_WB", "environment.ground"), ("environment.ground",)
    parameters = (("vehicle", setup.vehicle), ("ground", ground), ("tops", tops))
    return StageSet((Stage("ground", "wind", find_ground, reads, writes, parameters),))


GROUND = StageFactory("ground", "wind", _build)
