"""The world: solids and height maps, rays, gates and tracks, and what happens when drones hit them."""

from samara.core.lazy_import import lazily as _lazily
from samara.world.gates import Course, Gate
from samara.world.obstacles import HeightMap, Ray, Solid, distance_along, distance_to, plane_below, touch

__all__ = [
    "Course",
    "Gate",
    "HeightMap",
    "Inertia",
    "Ray",
    "Solid",
    "Track",
    "TrackError",
    "advance_with_impacts",
    "distance_along",
    "distance_to",
    "ground_below",
    "load_track",
    "obstacles_of",
    "parts_table",
    "plane_below",
    "touch",
    "track_names",
]

_LAZY = {
    "Inertia": "samara.world.collision",
    "advance_with_impacts": "samara.world.collision",
    "obstacles_of": "samara.world.collision",
    "parts_table": "samara.world.collision",
    "ground_below": "samara.world.ground",
    "Track": "samara.world.track",
    "TrackError": "samara.world.track",
    "load_track": "samara.world.track",
    "track_names": "samara.world.track",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
