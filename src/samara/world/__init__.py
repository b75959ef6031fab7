"""The world: solids and height maps, rays, gates and tracks, and the collisions of drones with them."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.world.gates import Course, Gate
from samara.world.obstacles import HeightMap, Ray, Solid, plane_below, ray_distance, signed_distance, touch

if TYPE_CHECKING:
    from samara.world.collision import CollisionInertia, advance_with_impacts, build_obstacles, parts_table
    from samara.world.ground import ground_below
    from samara.world.track import Track, TrackError, load_track, track_names
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "CollisionInertia",
    "Course",
    "Gate",
    "HeightMap",
    "Ray",
    "Solid",
    "Track",
    "TrackError",
    "advance_with_impacts",
    "build_obstacles",
    "ground_below",
    "load_track",
    "parts_table",
    "plane_below",
    "ray_distance",
    "signed_distance",
    "touch",
    "track_names",
]
