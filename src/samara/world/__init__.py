"""The world: solids and height maps, rays, gates and tracks, and the collisions of drones with them."""

from samara.core.lazy_import import lazily as _lazily
from samara.world.gates import Course, Gate
from samara.world.obstacles import HeightMap, Ray, Solid, distance_along, distance_to, plane_below, touch

__all__ = [
    "Course", "Gate", "HeightMap", "Inertia", "Ray", "Solid", "Track", "TrackError", "advance_with_impacts",
    "distance_along", "distance_to", "ground_below", "load_track", "obstacles_of", "parts_table", "plane_below",
    "touch", "track_names",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("Inertia", "advance_with_impacts", "obstacles_of", "parts_table"), "samara.world.collision"),
    "ground_below": "samara.world.ground",
    **dict.fromkeys(("Track", "TrackError", "load_track", "track_names"), "samara.world.track"),
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
