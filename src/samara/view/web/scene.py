"""The 3D scene of the viewer: vehicles, paths, arrows and ground, with few messages for any drone count.

The camera belongs to the browser and is never moved. To follow a drone, the world is moved so that the drone stays at the
point the camera looks at; for the view from on board, the world is also rotated about the drone. Static objects are children of
the node `/world`; moving objects are placed in the moved world directly, so that the followed drone does not jitter.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import trimesh
import viser

from samara.core.algebra import (
    IDENTITY,
    ZERO,
    Quat,
    Vec3,
    conjugate,
    norm,
    quat_from_axis_angle,
    rotate,
    rotate_inverse,
)
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory
from samara.scenario.meshes import drawn, triangles_of
from samara.scenario.world import World
from samara.vehicles.shape import (
    CLOCKWISE,
    COLOURS,
    COUNTER_CLOCKWISE,
    FAILED,
    GRID,
    INK,
    LOAD,
    Disc,
    extent_of,
    load_radius,
    parts_of,
    reach_of,
    thrust_arrow,
)
from samara.view.depth_colours import Seen, coloured, common_scale, frustum_S, points_of
from samara.view.web.mesh import (
    ABOVE,
    SHADOW,
    blades,
    body_axes_model,
    crossed_out,
    disc_model,
    frame_model,
    ground_axes_model,
    linear,
    rgb,
    shadow_poses,
    silhouette,
    turn_to,
)
from samara.view.web.snapshot import Frame

FEW = 8  # up to this drone count, each drone has its colour, name and thrust arrows
GHOST, PLAN, WIND = COLOURS[3], COLOURS[2], COLOURS[0]
GHOST_OPACITY = 0.35
SLOWED = 9.0  # [rad/s]: drawn speed of blades that carry their fraction of the weight; really hundreds
LONGEST_FRAME = 0.05  # [s]: largest time step for the rotation of blades between two pictures
SHORTEST_ARROW = 1e-4  # [m]
UP = Vec3(0.0, 0.0, 1.0)
HUNG_SHARE = 0.4  # fraction of a cable's length that counts as extent, so that the load is in view
NEIGHBOUR_SHARE = 0.22  # fraction of the distance to the nearest drone of a swarm that counts as extent
VIEW = (-5.0, -4.7, 2.8)  # position of the follow camera, in extents from the drone
EYE, AHEAD = Vec3(-0.45, 0.0, 0.5), Vec3(1.0, 0.0, -0.16)  # position, in radii, and direction of the camera on board
FIELD_OF_VIEW = math.radians(40.0)
SKY, SUN = 1.4, 1.7  # light intensities; together about π, which reproduces colours as given
SPAN_SHARE = 1.25  # distance of the free camera, in spans of the scene


class Figure(NamedTuple):
    """One drone to draw: its name, vehicle, and colour of body and path."""

    name: str
    vehicle: Vehicle
    colour: str


class Kind(NamedTuple):
    """Drones of equal appearance, drawn together. `tilting` are the discs that servos tilt, in order."""

    vehicle: Vehicle
    drones: Array
    frame: viser.BatchedGlbHandle
    axes: viser.BatchedGlbHandle
    blades: viser.BatchedMeshHandle
    ghost: viser.BatchedGlbHandle
    shadow: viser.BatchedMeshHandle
    failed: viser.BatchedMeshHandle
    radii: Array
    hubs: tuple[Vec3, ...]
    turns: tuple[Quat, ...]
    spins: Array
    usual_speed: Array
    tilting: tuple[viser.BatchedGlbHandle, ...] = ()


class Scene:
    """The nodes of a page's scene, and their update from a frame."""

    def __init__(self, server: viser.ViserServer, figures: Sequence[Figure], *, ground: float = 0.0) -> None:
        self.server, self.figures = server, tuple(figures)
        self.few = len(figures) <= FEW
        self.reach = max(reach_of(figure.vehicle) for figure in figures)
        self.ground = ground
        self.world_p, self.world_q, self.on_board = ZERO, IDENTITY, False
        self.turned = np.zeros((len(figures), max(len(figure.vehicle.rotors) for figure in figures)))
        self._last_time = 0.0
        scene = server.scene
        scene.world_axes.visible = False
        scene.configure_default_lights(enabled=False)
        scene.configure_environment_map(None)
        scene.add_light_ambient("/sky", intensity=SKY)
        scene.add_light_directional("/sun", intensity=SUN, position=(-2.0, -3.0, 6.0))
        self.world = scene.add_frame("/world", show_axes=False)
        self._add_ground()
        self.kinds = [self._kind(k, *group) for k, group in enumerate(_alike(figures))]
        shaft_radius, no_lines = 0.02 * self.reach, np.zeros((1, 2, 3), dtype=np.float32)
        self.thrust = self._add_arrows("/thrust", INK, shaft_radius)
        self.thrust.visible = self.few
        self.wind = self._add_arrows("/wind", WIND, 2.0 * shaft_radius)
        self.wind_label = scene.add_label("/wind label", "wind", visible=False)
        add_lines = partial(scene.add_line_segments, points=no_lines, thickness_units="screen")
        self.path = add_lines("/world/path", colors=linear(COLOURS[0]), thickness=2.5 if self.few else 1.0)
        self.reference = add_lines("/world/reference", colors=rgb(INK), thickness=1.5)
        self.plan = add_lines("/plan", colors=rgb(PLAN), thickness=4.0, visible=False)
        self.asked = self._add_batch("/asked", _ball(0.12 * self.reach), len(figures), linear(INK), opacity=0.55)
        self._hung = np.array([k for k, figure in enumerate(figures) if figure.vehicle.has("slung_load")], dtype=int)
        if len(self._hung):
            self.cables = add_lines("/cables", colors=linear(INK), thickness=2.0)
            radii = np.array([load_radius(figures[k].vehicle) for k in self._hung])
            self.loads = self._add_batch("/loads", _ball(), len(radii), linear(LOAD), batched_scales=radii, lod="off")
        self.names = [
            scene.add_label(f"/name {k}", figure.name, anchor="bottom-center", visible=len(figures) > 1)
            for k, figure in enumerate(figures if self.few else ())
        ]
        self.shown = dict.fromkeys(("path", "reference", "thrust", "axes", "estimate", "names", "eyes"), True)
        self.shown |= {"thrust": self.few, "axes": self.few}
        self._marks: list[viser.BatchedMeshHandle] = []
        self.sights = Sights(server, self.reach, self.cell)
        self.show_parts()

    # Static objects --------------------------------------------------------------------------------------------------

    def _add_arrows(self, name: str, colour: str, radius: float) -> viser.ArrowsHandle:
        no_arrows = np.zeros((1, 2, 3), dtype=np.float32)
        add = partial(
            self.server.scene.add_arrows, shaft_radius=radius, head_radius=2.6 * radius, head_length=6.0 * radius
        )
        return add(name, no_arrows, linear(colour), visible=False)

    def _add_batch(
        self, name: str, mesh: tuple[Array, Array], count: int, colours: Any, **options: Any
    ) -> viser.BatchedMeshHandle:
        """Add copies of a mesh (vertices, faces) at the origin; a frame places them."""
        poses = {"batched_wxyzs": np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)), "batched_positions": np.zeros((count, 3))}
        add = self.server.scene.add_batched_meshes_simple
        return add(name, *mesh, batched_colors=np.array(colours, dtype=np.uint8), **{**poses, **options})

    def _add_ground(self) -> None:
        scene, cell = self.server.scene, self.cell
        scene.add_grid(
            "/world/grid",
            width=240.0 * cell,
            height=240.0 * cell,
            cell_size=cell,
            section_size=5.0 * cell,
            cell_color=rgb(GRID),
            section_color=(178, 188, 198),
            cell_thickness=0.8,
            section_thickness=1.2,
            fade_distance=150.0 * cell,
            position=(0.0, 0.0, self.ground - 0.002 * cell),
        )
        length = cell if self.few else 1.0
        scene.add_glb("/world/axes", ground_axes_model(length), position=(0.0, 0.0, self.ground))
        for text, tip in (("x east", (1.0, 0.0, 0.0)), ("y north", (0.0, 1.0, 0.0))):
            label_position = np.array(tip) * length * 1.08 + np.array([0.0, 0.0, self.ground])
            scene.add_label(
                f"/world/axes {text}", f"{text}, {length:g} m", position=label_position, font_screen_scale=0.8
            )

    @property
    def cell(self) -> float:
        """Side of a cell of the ground grid [m]."""
        return 1.0 if self.reach > 0.1 else 0.2

    def _kind(self, k: int, vehicle: Vehicle, colour: str, drones: list[int]) -> Kind:
        n, rotors = len(drones), vehicle.rotors
        discs = [part for part in parts_of(vehicle) if isinstance(part, Disc)]
        radii = np.array([disc.radius for disc in discs])
        colours = np.tile([linear(_blade_colour(rotor.spin)) for rotor in rotors], (n, 1)) if rotors else linear(INK)
        add_per_rotor = partial(self._add_batch, count=max(n * len(rotors), 1), lod="off")

        def add_models(name: str, model: bytes, visible: bool = True) -> viser.BatchedGlbHandle:
            attitudes, positions = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), np.zeros((n, 3))
            add = self.server.scene.add_batched_glb
            return add(name, model, attitudes, positions, lod="off", cast_shadow=False, visible=visible)

        tilting_discs = [discs[i] for i in vehicle.servos]
        ghost_model = frame_model(vehicle, GHOST, GHOST_OPACITY)
        mass_per_rotor = float(vehicle.mass) / max(len(rotors), 1)
        return Kind(
            vehicle,
            np.array(drones),
            frame=add_models(f"/drones {k}", frame_model(vehicle, colour, without=tilting_discs)),
            axes=add_models(f"/body axes {k}", body_axes_model(vehicle)),
            blades=add_per_rotor(
                f"/blades {k}",
                blades(),
                colours=colours,
                batched_scales=np.tile(radii, n) if rotors else np.zeros(1),
                side="double",
                visible=bool(rotors),
            ),
            ghost=add_models(f"/estimate {k}", ghost_model, visible=False),
            shadow=self._add_batch(
                f"/shadows {k}", silhouette(vehicle), n, linear(SHADOW), lod="off", cast_shadow=False
            ),
            failed=add_per_rotor(
                f"/failed motors {k}",
                crossed_out(),
                colours=linear(FAILED),
                batched_scales=np.zeros(max(n * len(rotors), 1)),
                visible=False,
            ),
            radii=radii,
            hubs=tuple(disc.centre_B for disc in discs),
            turns=tuple(turn_to(rotor.axis_B) for rotor in rotors),
            spins=np.array([rotor.spin for rotor in rotors]),
            usual_speed=np.array([math.sqrt(9.81 * mass_per_rotor / rotor.k_thrust) for rotor in rotors]),
            tilting=tuple(
                add_models(f"/tilting disc {k} {i}", disc_model(disc)) for i, disc in enumerate(tilting_discs)
            ),
        )

    def mark_way(self, tasks: Sequence[Trajectory]) -> None:
        """Mark the waypoints of tasks: rings to pass, balls to stop at."""
        for node in self._marks:
            node.remove()
        self._marks = []
        if not self.few:
            return
        size = 2.2 * self.reach
        ring = trimesh.creation.torus(size, 0.045 * size, major_sections=48, minor_sections=10)
        for k, (task, figure) in enumerate(zip(tasks, self.figures, strict=True)):
            poses = [_gate(task, waypoint.time, waypoint.p_W) for waypoint in task.waypoints[:200]]
            ring_poses = [(position, attitude) for position, attitude in poses if attitude is not None]
            stop_positions = [position for position, attitude in poses if attitude is None]
            colour = linear(COLOURS[4] if len(self.figures) == 1 else figure.colour)
            add = partial(self._add_batch, colours=colour, opacity=0.8, lod="off")
            if ring_poses:
                positions, attitudes = (np.array(values, dtype=float) for values in zip(*ring_poses, strict=True))
                mesh = ring.vertices, ring.faces
                node = add(
                    f"/world/gates {k}", mesh, len(positions), batched_wxyzs=attitudes, batched_positions=positions
                )
                self._marks.append(node)
            if stop_positions:
                positions, ball = np.array(stop_positions, dtype=float), _ball(0.22 * self.reach)
                self._marks.append(add(f"/world/stops {k}", ball, len(positions), batched_positions=positions))

    def add_solids(self, world: World) -> None:
        """Add the obstacles of the world, which do not move."""
        for name, solid, colour in drawn(world):
            vertices, faces = triangles_of(solid, (0.0, 0.0, self.ground), 40.0 * self.cell)
            self.server.scene.add_mesh_simple(
                f"/world/solid {name}",
                vertices,
                faces,
                color=rgb(colour),
                flat_shading=True,
                side="double",
                opacity=0.5 if isinstance(solid, Ground) else None,
            )

    # Moving objects --------------------------------------------------------------------------------------------------

    def show(self, frame: Frame) -> None:
        """Update all moving objects from a frame, in the world as moved by `look`."""
        self._show_shadows(frame)
        frame = self.moved(frame)
        dt = min(abs(frame.time - self._last_time), LONGEST_FRAME)
        self._last_time = frame.time
        arrows = [self._place(kind, frame, dt) for kind in self.kinds]
        if self.shown["thrust"] and arrows:
            points = np.concatenate(arrows)
            if len(points):
                self.thrust.points = points
        self.asked.batched_positions = frame.reference_W
        for k, (label, position, figure) in enumerate(zip(self.names, frame.p_W, self.figures, strict=False)):
            height = (1.0 + 0.35 * k) * reach_of(
                figure.vehicle
            )  # staggered, so that names of neighbours do not overlap
            label.position = position + self._turn(np.array([[0.0, 0.0, height]]))[0]
        if len(self._hung) and frame.cables_W is not None:
            self.cables.points = frame.cables_W[self._hung]
            self.loads.batched_positions = frame.cables_W[self._hung, 1]
        self._show_plan(frame)
        self._show_wind(frame)
        p, q = frame.p_W[frame.close_index], frame.q_WB[frame.close_index]
        frames, visible = frame.close.eyes if frame.close else (), self.shown["eyes"]
        self.sights.show(frames, p, q, points=visible, frustums=visible and not self.on_board)

    def _show_shadows(self, frame: Frame) -> None:
        positions, attitudes = shadow_poses(frame.p_W, frame.q_WB, self.ground + ABOVE * self.cell)
        positions = self._turn(positions) + np.array(self.world_p, dtype=float)
        attitudes = np.stack(self.world_q * Quat(*attitudes.T), axis=1)
        for kind in self.kinds:
            _pose(kind.shadow, positions[kind.drones], attitudes[kind.drones])

    def _turn(self, vectors: Array) -> Array:
        """Rotate vectors (…, 3) like the world."""
        return np.stack(rotate(self.world_q, Vec3(*np.moveaxis(vectors, -1, 0))), axis=-1)

    def moved(self, frame: Frame) -> Frame:
        """Transform a frame to the moved world."""
        shift = np.array(self.world_p, dtype=float)

        def attitudes(q: Array) -> Array:
            return np.stack(self.world_q * Quat(*q.T), axis=1)

        return frame._replace(
            p_W=self._turn(frame.p_W) + shift,
            q_WB=attitudes(frame.q_WB),
            reference_W=self._turn(frame.reference_W) + shift,
            wind_W=self._turn(frame.wind_W),
            estimate=None
            if frame.estimate is None
            else (self._turn(frame.estimate[0]) + shift, attitudes(frame.estimate[1])),
            plan_W=None if frame.plan_W is None else self._turn(frame.plan_W) + shift,
            cables_W=None if frame.cables_W is None else self._turn(frame.cables_W) + shift,
        )

    def _place(self, kind: Kind, frame: Frame, dt: float) -> Array:
        """Update the drones of one batch, their blades and ghosts; return their thrust arrows, (arrows, 2, 3)."""
        indices, rotors = kind.drones, len(kind.hubs)
        p, q = frame.p_W[indices], frame.q_WB[indices]
        _pose(kind.frame, p, q)
        if self.shown["axes"]:
            _pose(kind.axes, p, q)
        has_ghost = frame.estimate is not None and self.shown["estimate"]
        kind.ghost.visible = has_ghost
        if has_ghost and frame.estimate is not None:
            kind.ghost.batched_positions, kind.ghost.batched_wxyzs = (
                frame.estimate[0][indices],
                frame.estimate[1][indices],
            )
        if not rotors:
            return np.empty((0, 2, 3))
        crashed = frame.crashed[indices]  # blades and arrows of a crashed drone rest, whatever its controller commands
        speed = np.where(crashed[:, None], 0.0, frame.rotor_speed[indices][:, :rotors])
        thrust = np.where(crashed[:, None], 0.0, frame.thrust[indices][:, :rotors])
        self.turned[np.ix_(indices, np.arange(rotors))] += kind.spins * speed / kind.usual_speed * (SLOWED * dt)
        q_WB, p_W = Quat(*q.T), Vec3(*p.T)
        hub_positions, blade_attitudes = np.empty((len(indices), rotors, 3)), np.empty((len(indices), rotors, 4))
        arrows = np.empty((len(indices), rotors, 2, 3))
        tilts = self._tilt(kind, frame)
        for i in range(rotors):
            rotor_attitude = tilts[i] * kind.turns[i] if i in tilts else kind.turns[i]
            blade_attitude = rotor_attitude * quat_from_axis_angle(UP, self.turned[indices, i])
            hub_positions[:, i] = np.stack(p_W + rotate(q_WB, kind.hubs[i]), axis=1)
            blade_attitudes[:, i] = np.stack(q_WB * blade_attitude, axis=1)
            if self.shown["thrust"]:
                ends = thrust_arrow(kind.vehicle, i, np.maximum(thrust[:, i], SHORTEST_ARROW))
                if i in tilts:
                    ends = ends[0], ends[0] + rotate(tilts[i], ends[1] - ends[0])
                for end in range(2):
                    arrows[:, i, end] = np.stack(p_W + rotate(q_WB, ends[end]), axis=1)
        for disc, i in zip(kind.tilting, kind.vehicle.servos, strict=True):
            _pose(disc, hub_positions[:, i], np.stack(q_WB * (tilts[i] * kind.turns[i]), axis=1))
        _pose(kind.blades, hub_positions.reshape(-1, 3), blade_attitudes.reshape(-1, 4))
        failed = frame.motor_power[indices][:, :rotors] == 0.0
        kind.failed.visible = bool(failed.any())
        if failed.any():
            kind.failed.batched_scales = np.where(failed, kind.radii, 0.0).reshape(-1)
            _pose(kind.failed, hub_positions.reshape(-1, 3), blade_attitudes.reshape(-1, 4))
        return arrows.reshape(-1, 2, 3)

    def _tilt(self, kind: Kind, frame: Frame) -> dict[int, Quat]:
        """exp(δ h/2) of every rotor that a servo tilts about its hinge h."""
        if frame.tilt is None:
            return dict.fromkeys(kind.vehicle.servos, IDENTITY)
        rotors, angles = kind.vehicle.rotors, frame.tilt[kind.drones]
        return {i: quat_from_axis_angle(rotors[i].servo.hinge_B, angles[:, i]) for i in kind.vehicle.servos}

    def _show_plan(self, frame: Frame) -> None:
        segments = [] if frame.plan_W is None else [_segments(path) for path in frame.plan_W if np.isfinite(path).all()]
        self.plan.visible = bool(segments)
        if segments:
            self.plan.points = np.concatenate(segments)

    def _show_wind(self, frame: Frame) -> None:
        """Draw a wind arrow above the selected drone, or above each of a few drones if their winds differ."""
        shown_wind = frame.wind_W[frame.close_index] if self.few else frame.wind_W.mean(axis=0)
        speed = float(np.linalg.norm(shown_wind))
        individual = self.few and bool(np.ptp(frame.wind_W, axis=0).max() > 0.01)
        winds = frame.wind_W if individual else shown_wind[None]
        positions = (
            frame.p_W if individual else frame.p_W[[frame.close_index]] if self.few else frame.p_W.mean(axis=0)[None]
        )
        has_wind = np.linalg.norm(winds, axis=1) > 0.01
        self.wind.visible, self.wind_label.visible = bool(has_wind.any()), speed > 0.01
        if has_wind.any():
            speeds = np.linalg.norm(winds[has_wind], axis=1)[:, None]
            directions = winds[has_wind] * (self.reach / speeds)
            tips = positions[has_wind] + self._turn(np.array([[0.0, 0.0, 1.2 * self.reach]])) - 0.3 * directions
            starts = tips - directions * np.minimum(0.35 * speeds, 3.0)
            self.wind.points = np.stack([starts, tips], axis=1)
            label_index = int(np.sum(has_wind[: frame.close_index])) if individual else 0
            if self.wind_label.visible:
                self.wind_label.text, self.wind_label.position = f"wind {speed:.1f} m/s", starts[label_index]

    def draw_paths(self, points: Array) -> None:
        """Draw the paths flown, (points, n, 3)."""
        self.path.points, self.path.colors = self._lines(np.moveaxis(points, 1, 0))

    def draw_references(self, paths: Sequence[Array]) -> None:
        """Draw the references, one (points, 3) per drone, dashed."""
        dashes = [_segments(path)[::2] for path in paths if len(path) > 1]
        self.reference.points = np.concatenate(dashes) if dashes else np.zeros((1, 2, 3))  # type: ignore[assignment]

    def draw_runs(self, paths: Sequence[Array]) -> None:
        """Draw complete flights, one (points, 3) per drone."""
        self.path.points, self.path.colors = self._lines(paths)

    def _lines(self, paths: Iterable[Array]) -> tuple[Array, Array]:
        coloured_segments = [
            (_segments(path), linear(figure.colour))
            for path, figure in zip(paths, self.figures, strict=True)
            if len(path) > 1
        ]
        if not coloured_segments:
            return np.zeros((1, 2, 3), dtype=np.float32), np.zeros((1, 2, 3), dtype=np.uint8)
        colours = [
            np.tile(np.array(colour, dtype=np.uint8), (len(segment_array), 2, 1))
            for segment_array, colour in coloured_segments
        ]
        return np.concatenate([segment_array for segment_array, _ in coloured_segments]), np.concatenate(colours)

    def show_parts(self) -> None:
        """Show and hide parts according to `shown`."""
        self.path.visible, self.reference.visible = self.shown["path"], self.shown["reference"]
        self.asked.visible = self.shown["reference"]
        self.thrust.visible = self.shown["thrust"] and not self.on_board  # arrows would block the view from on board
        for kind in self.kinds:
            kind.axes.visible = self.shown["axes"] and not self.on_board
        for label in self.names:
            label.visible = self.shown["names"] and len(self.figures) > 1

    # Cameras ---------------------------------------------------------------------------------------------------------

    def look(self, mode: str, frame: Frame, chosen: int) -> None:
        """Move the world so that the camera follows the selected drone, is on board, or is free."""
        p, q = Vec3(*frame.p_W[chosen].tolist()), Quat(*frame.q_WB[chosen].tolist())
        self.on_board = mode == "onboard"
        if mode == "follow":
            self.world_p, self.world_q = -p, IDENTITY
        elif mode == "onboard":
            self.world_q = conjugate(q)
            self.world_p = -(rotate(self.world_q, p) + self.eye(chosen))
        else:
            self.world_p, self.world_q = ZERO, IDENTITY
        self.world.position = np.array(self.world_p, dtype=float)
        self.world.wxyz = np.array(self.world_q, dtype=float)

    def eye(self, chosen: int) -> Vec3:
        """Position of the camera on board, in body axes [m]."""
        return EYE * reach_of(self.figures[chosen].vehicle)

    def camera(self, mode: str, frame: Frame, chosen: int) -> tuple[Vec3, Vec3]:
        """Return the initial position of a camera and its target, in the moved world."""
        if mode == "onboard":
            return ZERO, AHEAD * reach_of(self.figures[chosen].vehicle)
        if mode == "follow":
            vehicle = self.figures[chosen].vehicle
            cable_length = vehicle["slung_load"].length if vehicle.has("slung_load") else 0.0
            extent = max(extent_of(vehicle), HUNG_SHARE * cable_length)
            if not self.few:  # in a swarm, far enough to show the neighbours
                distances = np.linalg.norm(frame.p_W - frame.p_W[chosen], axis=1)
                extent = max(extent, min(NEIGHBOUR_SHARE * float(np.partition(distances, 1)[1]), 20.0 * extent))
            return Vec3(*VIEW) * extent, ZERO
        low, high = frame.p_W.min(axis=0), frame.p_W.max(axis=0)
        centre = 0.5 * (low + high)
        span = max(float(np.linalg.norm(high - low)), 8.0 * self.reach)
        offset = np.array(VIEW) / np.linalg.norm(VIEW) * span * SPAN_SHARE
        return Vec3(*(centre + offset).tolist()), Vec3(*centre.tolist())

    def on_ground(self, origin: Sequence[float], ray: Sequence[float]) -> Vec3 | None:
        """Return the intersection of a camera ray with the ground, in world axes [m]; None without an intersection."""
        o = rotate_inverse(self.world_q, Vec3(*origin) - self.world_p)
        d = rotate_inverse(self.world_q, Vec3(*ray))
        if not float(norm(d)) > 0.0 or d.z > -1e-6:
            return None
        distance = (self.ground - o.z) / d.z
        hit = o + d * distance
        return hit if distance > 0.0 and math.hypot(hit.x - o.x, hit.y - o.y) < 1000.0 * self.cell else None


def _alike(figures: Sequence[Figure]) -> list[tuple[Vehicle, str, list[int]]]:
    groups: dict[tuple[Vehicle, str], list[int]] = {}
    for k, figure in enumerate(figures):
        groups.setdefault((figure.vehicle, figure.colour), []).append(k)
    return [(*key, drones) for key, drones in groups.items()]


def _pose(node: viser.BatchedMeshHandle | viser.BatchedGlbHandle, positions: Array, attitudes: Array) -> None:
    node.batched_positions, node.batched_wxyzs = positions, attitudes


def _ball(radius: float = 1.0) -> tuple[Array, Array]:
    """Return vertices and faces of a ball."""
    ball = trimesh.creation.icosphere(subdivisions=2, radius=radius)
    return ball.vertices, ball.faces


def _blade_colour(spin: float) -> str:
    """Return a colour darker than the disc, so that the blades are visible on it."""
    colour = rgb(COUNTER_CLOCKWISE if spin > 0 else CLOCKWISE)
    return "#" + "".join(f"{int(0.6 * channel):02x}" for channel in colour)


def _segments(path: Array) -> Array:
    """(points, 3) → (points − 1, 2, 3)."""
    return np.stack([path[:-1], path[1:]], axis=1)


def _gate(task: Trajectory, time: float, p_W: Vec3) -> tuple[Vec3, Quat | None]:
    """Return a position, and the rotation of a ring across the path there; None for a stop."""
    v = Vec3(*(float(x) for x in task.at(max(time, 0.0)).v_W))
    speed = float(norm(v))
    return p_W, turn_to(v * (1.0 / speed)) if speed > 0.3 else None


MOST_POINTS = 6000  # points per sensor
FRUSTUM = 2.0  # length of the drawn field of view, in radii of the drone
POINT = 0.016  # size of a point, in cells of the grid


class Sights:
    """Nodes for each vision sensor that was ever shown; points stay in place until newer ones arrive."""

    def __init__(self, server: viser.ViserServer, vehicle_radius: float, cell: float) -> None:
        self._server, self._reach, self._cell = server, vehicle_radius, cell
        self._points: dict[str, viser.PointCloudHandle] = {}
        self._frustums: dict[str, viser.LineSegmentsHandle] = {}
        self._drawn: dict[str, tuple[float, bytes]] = {}

    def show(self, frames: Sequence[Seen], p: Array, q: Array, *, points: bool, frustums: bool) -> None:
        """Show the sensors of a drone at p and q in the moved world; hide those of other drones."""
        shown: Mapping[str, Seen] = {frame.name: frame for frame in frames}
        max_distance = common_scale(frames)
        for name, frame in shown.items():
            if points:
                self._show_points(name, frame, max_distance)
            if frustums and frame.eye.is_camera:
                self._show_frustum(name, frame, p, q)
        for name, cloud in self._points.items():
            cloud.visible = points and name in shown
        for name, lines in self._frustums.items():
            lines.visible = frustums and name in shown

    def _show_points(self, name: str, frame: Seen, max_distance: float) -> None:
        key = max_distance, frame.said.tobytes()
        if self._drawn.get(name) == key:
            return
        self._drawn[name] = key
        positions, distances = points_of(frame)
        selected = np.linspace(0, len(positions) - 1, min(len(positions), MOST_POINTS)).round().astype(int)
        positions, distances = positions[selected].astype(np.float32), distances[selected]
        colours = coloured(distances, max_distance)
        if name in self._points:
            self._points[name].points, self._points[name].colors = positions, colours
            return
        self._points[name] = self._server.scene.add_point_cloud(
            f"/world/seen by {len(self._points)}",
            positions,
            colours,
            point_size=POINT * self._cell,
            point_shape="circle",
            point_shading="flat",
            precision="float32",
        )

    def _show_frustum(self, name: str, frame: Seen, p: Array, q: Array) -> None:
        r_B, q_BS = frame.eye.mounting
        if name not in self._frustums:
            self._frustums[name] = self._server.scene.add_line_segments(
                f"/frustum {len(self._frustums)}",
                frustum_S(frame.eye, FRUSTUM * self._reach),
                rgb(INK),
                thickness=1.0,
                thickness_units="screen",
            )
        lines, q_WB = self._frustums[name], Quat(*q.tolist())
        lines.position = p + np.array(rotate(q_WB, r_B), dtype=float)
        lines.wxyz = np.array(q_WB * q_BS, dtype=float)
