"""The world: solids and height maps, rays, gates and tracks, and the collisions of drones with them."""

from samara.core.lazy_import import lazy_attributes as _lazily
from samara.world.gates import Course, Gate
from samara.world.obstacles import HeightMap, Ray, Solid, plane_below, ray_distance, signed_distance, touch

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
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(
        ("CollisionInertia", "advance_with_impacts", "build_obstacles", "parts_table"), "samara.world.collision"
    ),
    "ground_below": "samara.world.ground",
    **dict.fromkeys(("Track", "TrackError", "load_track", "track_names"), "samara.world.track"),
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
