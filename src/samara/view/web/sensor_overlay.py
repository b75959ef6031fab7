"""What the chosen drone's cameras and lidars see, in the scene: points in the colours of their distance, and frustums."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import viser

from samara.core.algebra import Quat, rotate
from samara.core.types import Array
from samara.vehicles.colours import INK
from samara.view.depth_colours import Seen, coloured, common_scale, frustum_S, points_of
from samara.view.web.mesh import rgb

MOST_POINTS = 6000  # of an eye
FRUSTUM = 2.0  # how far its edges are drawn, in reaches of the drone
POINT = 0.016  # the side of a point, in cells of the grid


class Sights:
    """Nodes of a scene for each eye that was ever shown; points stay where they were seen until there are newer ones."""

    def __init__(self, server: viser.ViserServer, reach: float, cell: float) -> None:
        self._server, self._reach, self._cell = server, reach, cell
        self._points: dict[str, Any] = {}
        self._frustums: dict[str, Any] = {}
        self._drawn: dict[str, tuple[float, bytes]] = {}

    def show(self, eyes: Sequence[Seen], p: Array, q: Array, *, points: bool, frustums: bool) -> None:
        """The eyes of a drone that stands at p and q as the camera sees it; those of others are hidden"""
        now: Mapping[str, Seen] = {seen.name: seen for seen in eyes}
        far = common_scale(eyes)
        for name, seen in now.items():
            if points:
                self._show_points(name, seen, far)
            if frustums and seen.eye.is_camera:
                self._show_frustum(name, seen, p, q)
        for name, node in self._points.items():
            node.visible = points and name in now
        for name, node in self._frustums.items():
            node.visible = frustums and name in now

    def _show_points(self, name: str, seen: Seen, far: float) -> None:
        key = far, seen.said.tobytes()
        if self._drawn.get(name) == key:
            return
        self._drawn[name] = key
        places, distances = points_of(seen)
        thin = np.linspace(0, len(places) - 1, min(len(places), MOST_POINTS)).round().astype(int)
        places, distances = places[thin].astype(np.float32), distances[thin]
        colours = coloured(distances, far)
        if name in self._points:
            self._points[name].points, self._points[name].colors = places, colours
            return
        self._points[name] = self._server.scene.add_point_cloud(
            f"/world/seen by {len(self._points)}",
            places,
            colours,
            point_size=POINT * self._cell,
            point_shape="circle",
            point_shading="flat",
            precision="float32",
        )

    def _show_frustum(self, name: str, seen: Seen, p: Array, q: Array) -> None:
        r_B, q_BS = seen.eye.mounting
        if name not in self._frustums:
            self._frustums[name] = self._server.scene.add_line_segments(
                f"/frustum {len(self._frustums)}",
                frustum_S(seen.eye, FRUSTUM * self._reach),
                rgb(INK),
                thickness=1.0,
                thickness_units="screen",
            )
        own, q_WB = self._frustums[name], Quat(*q.tolist())
        own.position = p + np.array(rotate(q_WB, r_B), dtype=float)
        own.wxyz = np.array(q_WB * q_BS, dtype=float)
