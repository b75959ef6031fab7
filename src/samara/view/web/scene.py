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
from samara.scenario.meshes import drawable_solids, solid_triangles
from samara.scenario.world import World
from samara.vehicles.shape import (
    CCW_COLOUR,
    COLOURS,
    CW_COLOUR,
    FAILED_COLOUR,
    GRID,
    INK,
    LOAD_COLOUR,
    Disc,
    load_radius,
    outer_frame_radius,
    shape_parts,
    thrust_arrow,
    tip_radius,
)
from samara.view.vision_frames import VisionFrame, common_scale, depth_colours, echo_points, frustum_S
from samara.view.web.mesh import (
    SHADOW,
    SHADOW_HEIGHT_CELLS,
    blade_mesh,
    body_axes_model,
    disc_model,
    failure_mesh,
    frame_model,
    ground_axes_model,
    linear_rgb,
    rgb,
    rotation_from_z,
    shadow_poses,
    silhouette,
)
from samara.view.web.snapshot import ViewFrame

MAX_INDIVIDUAL_DRONES = 8  # up to this drone count, each drone has its colour, name and thrust arrows
GHOST, PLAN, WIND = COLOURS[3], COLOURS[2], COLOURS[0]
GHOST_OPACITY = 0.35
DRAWN_HOVER_SPEED = 9.0  # [rad/s]: drawn speed of blades that carry their fraction of the weight; really hundreds
MAX_FRAME_TIME = 0.05  # [s]: largest time step for the rotation of blades between two pictures
MIN_ARROW_LENGTH = 1e-4  # [m]
UP = Vec3(0.0, 0.0, 1.0)
CABLE_EXTENT_FRACTION = 0.4  # fraction of a cable's length that counts as extent, so that the load is in view
NEIGHBOUR_EXTENT_FRACTION = 0.22  # fraction of the distance to the nearest drone of a swarm that counts as extent
FOLLOW_CAMERA_POSITION = (-5.0, -4.7, 2.8)  # position of the follow camera, in extents from the drone
ONBOARD_CAMERA_POSITION, ONBOARD_CAMERA_DIRECTION = (
    Vec3(-0.45, 0.0, 0.5),
    Vec3(1.0, 0.0, -0.16),
)  # position, in radii, and direction of the camera on board
FIELD_OF_VIEW = math.radians(40.0)
SKY, SUN = 1.4, 1.7  # light intensities; together about π, which reproduces colours as given
FREE_CAMERA_SPANS = 1.25  # distance of the free camera, in spans of the scene


class DroneFigure(NamedTuple):
    """One drone to draw: its name, vehicle, and colour of body and path."""

    name: str
    vehicle: Vehicle
    colour: str


class DroneBatch(NamedTuple):
    """Drones of equal appearance, drawn together. `tilting_discs` are the discs that servos tilt, in order."""

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
    rotor_attitudes: tuple[Quat, ...]
    spins: Array
    hover_speed: Array
    tilting_discs: tuple[viser.BatchedGlbHandle, ...] = ()


class WebScene:
    """The nodes of a page's scene; a frame updates them."""

    def __init__(self, server: viser.ViserServer, figures: Sequence[DroneFigure], *, ground: float = 0.0) -> None:
        self.server, self.figures = server, tuple(figures)
        self.is_individual = len(figures) <= MAX_INDIVIDUAL_DRONES
        self.vehicle_radius = max(outer_frame_radius(figure.vehicle) for figure in figures)
        self.ground = ground
        self.world_p, self.world_q, self.on_board = ZERO, IDENTITY, False
        self.rotor_angles = np.zeros((len(figures), max(len(figure.vehicle.rotors) for figure in figures)))
        self._last_time = 0.0
        scene = server.scene
        scene.world_axes.visible = False
        scene.configure_default_lights(enabled=False)
        scene.configure_environment_map(None)
        scene.add_light_ambient("/sky", intensity=SKY)
        scene.add_light_directional("/sun", intensity=SUN, position=(-2.0, -3.0, 6.0))
        self.world = scene.add_frame("/world", show_axes=False)
        self._add_ground()
        self.drone_batches = [self._add_drone_batch(k, *group) for k, group in enumerate(_group_figures(figures))]
        shaft_radius, no_lines = 0.02 * self.vehicle_radius, np.zeros((1, 2, 3), dtype=np.float32)
        self.thrust = self._add_arrows("/thrust", INK, shaft_radius)
        self.thrust.visible = self.is_individual
        self.wind = self._add_arrows("/wind", WIND, 2.0 * shaft_radius)
        self.wind_label = scene.add_label("/wind label", "wind", visible=False)
        add_lines = partial(scene.add_line_segments, points=no_lines, thickness_units="screen")
        self.path = add_lines(
            "/world/path", colors=linear_rgb(COLOURS[0]), thickness=2.5 if self.is_individual else 1.0
        )
        self.reference = add_lines("/world/reference", colors=rgb(INK), thickness=1.5)
        self.plan = add_lines("/plan", colors=rgb(PLAN), thickness=4.0, visible=False)
        self.reference_markers = self._add_batch(
            "/asked", _ball(0.12 * self.vehicle_radius), len(figures), linear_rgb(INK), opacity=0.55
        )
        self._loaded_drones = np.array(
            [k for k, figure in enumerate(figures) if figure.vehicle.has("slung_load")], dtype=int
        )
        if len(self._loaded_drones):
            self.cables = add_lines("/cables", colors=linear_rgb(INK), thickness=2.0)
            radii = np.array([load_radius(figures[k].vehicle) for k in self._loaded_drones])
            self.loads = self._add_batch(
                "/loads", _ball(), len(radii), linear_rgb(LOAD_COLOUR), batched_scales=radii, lod="off"
            )
        self.names = [
            scene.add_label(f"/name {k}", figure.name, anchor="bottom-center", visible=len(figures) > 1)
            for k, figure in enumerate(figures if self.is_individual else ())
        ]
        self.visible_parts = dict.fromkeys(("path", "reference", "thrust", "axes", "estimate", "names", "eyes"), True)
        self.visible_parts |= {"thrust": self.is_individual, "axes": self.is_individual}
        self._marks: list[viser.BatchedMeshHandle] = []
        self.vision_display = VisionDisplay(server, self.vehicle_radius, self.cell)
        self.show_parts()

    # Static objects --------------------------------------------------------------------------------------------------

    def _add_arrows(self, name: str, colour: str, radius: float) -> viser.ArrowsHandle:
        no_arrows = np.zeros((1, 2, 3), dtype=np.float32)
        add = partial(
            self.server.scene.add_arrows, shaft_radius=radius, head_radius=2.6 * radius, head_length=6.0 * radius
        )
        return add(name, no_arrows, linear_rgb(colour), visible=False)

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
        length = cell if self.is_individual else 1.0
        scene.add_glb("/world/axes", ground_axes_model(length), position=(0.0, 0.0, self.ground))
        for text, tip in (("x east", (1.0, 0.0, 0.0)), ("y north", (0.0, 1.0, 0.0))):
            label_position = np.array(tip) * length * 1.08 + np.array([0.0, 0.0, self.ground])
            scene.add_label(
                f"/world/axes {text}", f"{text}, {length:g} m", position=label_position, font_screen_scale=0.8
            )

    @property
    def cell(self) -> float:
        """Side of a cell of the ground grid [m]."""
        return 1.0 if self.vehicle_radius > 0.1 else 0.2

    def _add_drone_batch(self, k: int, vehicle: Vehicle, colour: str, drones: list[int]) -> DroneBatch:
        n, rotors = len(drones), vehicle.rotors
        discs = [part for part in shape_parts(vehicle) if isinstance(part, Disc)]
        radii = np.array([disc.radius for disc in discs])
        colours = (
            np.tile([linear_rgb(_blade_colour(rotor.spin)) for rotor in rotors], (n, 1)) if rotors else linear_rgb(INK)
        )
        add_per_rotor = partial(self._add_batch, count=max(n * len(rotors), 1), lod="off")

        def add_models(name: str, model: bytes, visible: bool = True) -> viser.BatchedGlbHandle:
            attitudes, positions = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), np.zeros((n, 3))
            add = self.server.scene.add_batched_glb
            return add(name, model, attitudes, positions, lod="off", cast_shadow=False, visible=visible)

        tilting_discs = [discs[i] for i in vehicle.servos]
        ghost_model = frame_model(vehicle, GHOST, GHOST_OPACITY)
        mass_per_rotor = float(vehicle.mass) / max(len(rotors), 1)
        return DroneBatch(
            vehicle,
            np.array(drones),
            frame=add_models(f"/drones {k}", frame_model(vehicle, colour, excluded=tilting_discs)),
            axes=add_models(f"/body axes {k}", body_axes_model(vehicle)),
            blades=add_per_rotor(
                f"/blades {k}",
                blade_mesh(),
                colours=colours,
                batched_scales=np.tile(radii, n) if rotors else np.zeros(1),
                side="double",
                visible=bool(rotors),
            ),
            ghost=add_models(f"/estimate {k}", ghost_model, visible=False),
            shadow=self._add_batch(
                f"/shadows {k}", silhouette(vehicle), n, linear_rgb(SHADOW), lod="off", cast_shadow=False
            ),
            failed=add_per_rotor(
                f"/failed motors {k}",
                failure_mesh(),
                colours=linear_rgb(FAILED_COLOUR),
                batched_scales=np.zeros(max(n * len(rotors), 1)),
                visible=False,
            ),
            radii=radii,
            hubs=tuple(disc.centre_B for disc in discs),
            rotor_attitudes=tuple(rotation_from_z(rotor.axis_B) for rotor in rotors),
            spins=np.array([rotor.spin for rotor in rotors]),
            hover_speed=np.array([math.sqrt(9.81 * mass_per_rotor / rotor.k_thrust) for rotor in rotors]),
            tilting_discs=tuple(
                add_models(f"/tilting disc {k} {i}", disc_model(disc)) for i, disc in enumerate(tilting_discs)
            ),
        )

    def mark_waypoints(self, tasks: Sequence[Trajectory]) -> None:
        """Mark the waypoints of tasks: rings to pass, balls to stop at."""
        for node in self._marks:
            node.remove()
        self._marks = []
        if not self.is_individual:
            return
        size = 2.2 * self.vehicle_radius
        ring = trimesh.creation.torus(size, 0.045 * size, major_sections=48, minor_sections=10)
        for k, (task, figure) in enumerate(zip(tasks, self.figures, strict=True)):
            poses = [_waypoint_pose(task, waypoint.time, waypoint.p_W) for waypoint in task.waypoints[:200]]
            ring_poses = [(position, attitude) for position, attitude in poses if attitude is not None]
            stop_positions = [position for position, attitude in poses if attitude is None]
            colour = linear_rgb(COLOURS[4] if len(self.figures) == 1 else figure.colour)
            add = partial(self._add_batch, colours=colour, opacity=0.8, lod="off")
            if ring_poses:
                positions, attitudes = (np.array(values, dtype=float) for values in zip(*ring_poses, strict=True))
                mesh = ring.vertices, ring.faces
                node = add(
                    f"/world/gates {k}", mesh, len(positions), batched_wxyzs=attitudes, batched_positions=positions
                )
                self._marks.append(node)
            if stop_positions:
                positions, ball = np.array(stop_positions, dtype=float), _ball(0.22 * self.vehicle_radius)
                self._marks.append(add(f"/world/stops {k}", ball, len(positions), batched_positions=positions))

    def add_obstacles(self, world: World) -> None:
        """Add the obstacles of the world, which do not move."""
        for name, solid, colour in drawable_solids(world):
            vertices, faces = solid_triangles(solid, (0.0, 0.0, self.ground), 40.0 * self.cell)
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

    def show(self, frame: ViewFrame) -> None:
        """Update all moving objects from a frame, in the world as moved by `set_view`."""
        self._show_shadows(frame)
        frame = self.transform_frame(frame)
        dt = min(abs(frame.time - self._last_time), MAX_FRAME_TIME)
        self._last_time = frame.time
        arrows = [self._update_batch(kind, frame, dt) for kind in self.drone_batches]
        if self.visible_parts["thrust"] and arrows:
            points = np.concatenate(arrows)
            if len(points):
                self.thrust.points = points
        self.reference_markers.batched_positions = frame.reference_W
        for k, (label, position, figure) in enumerate(zip(self.names, frame.p_W, self.figures, strict=False)):
            height = (1.0 + 0.35 * k) * outer_frame_radius(
                figure.vehicle
            )  # staggered, so that names of neighbours do not overlap
            label.position = position + self._rotate_vectors(np.array([[0.0, 0.0, height]]))[0]
        if len(self._loaded_drones) and frame.cables_W is not None:
            self.cables.points = frame.cables_W[self._loaded_drones]
            self.loads.batched_positions = frame.cables_W[self._loaded_drones, 1]
        self._show_plan(frame)
        self._show_wind(frame)
        p, q = frame.p_W[frame.detail_index], frame.q_WB[frame.detail_index]
        frames, visible = frame.detail.vision_frames if frame.detail else (), self.visible_parts["eyes"]
        self.vision_display.show(frames, p, q, points=visible, frustums=visible and not self.on_board)

    def _show_shadows(self, frame: ViewFrame) -> None:
        positions, attitudes = shadow_poses(frame.p_W, frame.q_WB, self.ground + SHADOW_HEIGHT_CELLS * self.cell)
        positions = self._rotate_vectors(positions) + np.array(self.world_p, dtype=float)
        attitudes = np.stack(self.world_q * Quat(*attitudes.T), axis=1)
        for kind in self.drone_batches:
            _pose(kind.shadow, positions[kind.drones], attitudes[kind.drones])

    def _rotate_vectors(self, vectors: Array) -> Array:
        """Rotate vectors (…, 3) like the world."""
        return np.stack(rotate(self.world_q, Vec3(*np.moveaxis(vectors, -1, 0))), axis=-1)

    def transform_frame(self, frame: ViewFrame) -> ViewFrame:
        """Transform a frame to the moved world."""
        shift = np.array(self.world_p, dtype=float)

        def attitudes(q: Array) -> Array:
            return np.stack(self.world_q * Quat(*q.T), axis=1)

        return frame._replace(
            p_W=self._rotate_vectors(frame.p_W) + shift,
            q_WB=attitudes(frame.q_WB),
            reference_W=self._rotate_vectors(frame.reference_W) + shift,
            wind_W=self._rotate_vectors(frame.wind_W),
            estimate=None
            if frame.estimate is None
            else (self._rotate_vectors(frame.estimate[0]) + shift, attitudes(frame.estimate[1])),
            plan_W=None if frame.plan_W is None else self._rotate_vectors(frame.plan_W) + shift,
            cables_W=None if frame.cables_W is None else self._rotate_vectors(frame.cables_W) + shift,
        )

    def _update_batch(self, kind: DroneBatch, frame: ViewFrame, dt: float) -> Array:
        """Update the drones of one batch, their blades and ghosts; return their thrust arrows, (arrows, 2, 3)."""
        indices, rotors = kind.drones, len(kind.hubs)
        p, q = frame.p_W[indices], frame.q_WB[indices]
        _pose(kind.frame, p, q)
        if self.visible_parts["axes"]:
            _pose(kind.axes, p, q)
        has_ghost = frame.estimate is not None and self.visible_parts["estimate"]
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
        self.rotor_angles[np.ix_(indices, np.arange(rotors))] += (
            kind.spins * speed / kind.hover_speed * (DRAWN_HOVER_SPEED * dt)
        )
        q_WB, p_W = Quat(*q.T), Vec3(*p.T)
        hub_positions, blade_attitudes = np.empty((len(indices), rotors, 3)), np.empty((len(indices), rotors, 4))
        arrows = np.empty((len(indices), rotors, 2, 3))
        tilts = self._servo_rotations(kind, frame)
        for i in range(rotors):
            rotor_attitude = tilts[i] * kind.rotor_attitudes[i] if i in tilts else kind.rotor_attitudes[i]
            blade_attitude = rotor_attitude * quat_from_axis_angle(UP, self.rotor_angles[indices, i])
            hub_positions[:, i] = np.stack(p_W + rotate(q_WB, kind.hubs[i]), axis=1)
            blade_attitudes[:, i] = np.stack(q_WB * blade_attitude, axis=1)
            if self.visible_parts["thrust"]:
                ends = thrust_arrow(kind.vehicle, i, np.maximum(thrust[:, i], MIN_ARROW_LENGTH))
                if i in tilts:
                    ends = ends[0], ends[0] + rotate(tilts[i], ends[1] - ends[0])
                for end in range(2):
                    arrows[:, i, end] = np.stack(p_W + rotate(q_WB, ends[end]), axis=1)
        for disc, i in zip(kind.tilting_discs, kind.vehicle.servos, strict=True):
            _pose(disc, hub_positions[:, i], np.stack(q_WB * (tilts[i] * kind.rotor_attitudes[i]), axis=1))
        _pose(kind.blades, hub_positions.reshape(-1, 3), blade_attitudes.reshape(-1, 4))
        failed = frame.motor_effectiveness[indices][:, :rotors] == 0.0
        kind.failed.visible = bool(failed.any())
        if failed.any():
            kind.failed.batched_scales = np.where(failed, kind.radii, 0.0).reshape(-1)
            _pose(kind.failed, hub_positions.reshape(-1, 3), blade_attitudes.reshape(-1, 4))
        return arrows.reshape(-1, 2, 3)

    def _servo_rotations(self, kind: DroneBatch, frame: ViewFrame) -> dict[int, Quat]:
        """exp(δ h/2) of every rotor that a servo tilts about its hinge h."""
        if frame.tilt is None:
            return dict.fromkeys(kind.vehicle.servos, IDENTITY)
        rotors, angles = kind.vehicle.rotors, frame.tilt[kind.drones]
        return {i: quat_from_axis_angle(rotors[i].servo.hinge_B, angles[:, i]) for i in kind.vehicle.servos}

    def _show_plan(self, frame: ViewFrame) -> None:
        segments = [] if frame.plan_W is None else [_segments(path) for path in frame.plan_W if np.isfinite(path).all()]
        self.plan.visible = bool(segments)
        if segments:
            self.plan.points = np.concatenate(segments)

    def _show_wind(self, frame: ViewFrame) -> None:
        """Draw a wind arrow above the selected drone, or above each of a few drones if their winds differ."""
        shown_wind = frame.wind_W[frame.detail_index] if self.is_individual else frame.wind_W.mean(axis=0)
        speed = float(np.linalg.norm(shown_wind))
        individual = self.is_individual and bool(np.ptp(frame.wind_W, axis=0).max() > 0.01)
        winds = frame.wind_W if individual else shown_wind[None]
        positions = (
            frame.p_W
            if individual
            else frame.p_W[[frame.detail_index]]
            if self.is_individual
            else frame.p_W.mean(axis=0)[None]
        )
        has_wind = np.linalg.norm(winds, axis=1) > 0.01
        self.wind.visible, self.wind_label.visible = bool(has_wind.any()), speed > 0.01
        if has_wind.any():
            speeds = np.linalg.norm(winds[has_wind], axis=1)[:, None]
            directions = winds[has_wind] * (self.vehicle_radius / speeds)
            tips = (
                positions[has_wind]
                + self._rotate_vectors(np.array([[0.0, 0.0, 1.2 * self.vehicle_radius]]))
                - 0.3 * directions
            )
            starts = tips - directions * np.minimum(0.35 * speeds, 3.0)
            self.wind.points = np.stack([starts, tips], axis=1)
            label_index = int(np.sum(has_wind[: frame.detail_index])) if individual else 0
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
            (_segments(path), linear_rgb(figure.colour))
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
        """Show and hide parts according to `visible_parts`."""
        self.path.visible, self.reference.visible = self.visible_parts["path"], self.visible_parts["reference"]
        self.reference_markers.visible = self.visible_parts["reference"]
        self.thrust.visible = (
            self.visible_parts["thrust"] and not self.on_board
        )  # arrows would block the view from on board
        for kind in self.drone_batches:
            kind.axes.visible = self.visible_parts["axes"] and not self.on_board
        for label in self.names:
            label.visible = self.visible_parts["names"] and len(self.figures) > 1

    # Cameras ---------------------------------------------------------------------------------------------------------

    def set_view(self, mode: str, frame: ViewFrame, chosen: int) -> None:
        """Move the world so that the camera follows the selected drone, is on board, or is free."""
        p, q = Vec3(*frame.p_W[chosen].tolist()), Quat(*frame.q_WB[chosen].tolist())
        self.on_board = mode == "onboard"
        if mode == "follow":
            self.world_p, self.world_q = -p, IDENTITY
        elif mode == "onboard":
            self.world_q = conjugate(q)
            self.world_p = -(rotate(self.world_q, p) + self.onboard_camera_position(chosen))
        else:
            self.world_p, self.world_q = ZERO, IDENTITY
        self.world.position = np.array(self.world_p, dtype=float)
        self.world.wxyz = np.array(self.world_q, dtype=float)

    def onboard_camera_position(self, chosen: int) -> Vec3:
        """Position of the camera on board, in body axes [m]."""
        return ONBOARD_CAMERA_POSITION * outer_frame_radius(self.figures[chosen].vehicle)

    def camera(self, mode: str, frame: ViewFrame, chosen: int) -> tuple[Vec3, Vec3]:
        """Return the initial position of a camera and its target, in the moved world."""
        if mode == "onboard":
            return ZERO, ONBOARD_CAMERA_DIRECTION * outer_frame_radius(self.figures[chosen].vehicle)
        if mode == "follow":
            vehicle = self.figures[chosen].vehicle
            cable_length = vehicle["slung_load"].length if vehicle.has("slung_load") else 0.0
            extent = max(tip_radius(vehicle), CABLE_EXTENT_FRACTION * cable_length)
            if not self.is_individual:  # in a swarm, far enough to show the neighbours
                distances = np.linalg.norm(frame.p_W - frame.p_W[chosen], axis=1)
                extent = max(
                    extent, min(NEIGHBOUR_EXTENT_FRACTION * float(np.partition(distances, 1)[1]), 20.0 * extent)
                )
            return Vec3(*FOLLOW_CAMERA_POSITION) * extent, ZERO
        low, high = frame.p_W.min(axis=0), frame.p_W.max(axis=0)
        centre = 0.5 * (low + high)
        span = max(float(np.linalg.norm(high - low)), 8.0 * self.vehicle_radius)
        offset = np.array(FOLLOW_CAMERA_POSITION) / np.linalg.norm(FOLLOW_CAMERA_POSITION) * span * FREE_CAMERA_SPANS
        return Vec3(*(centre + offset).tolist()), Vec3(*centre.tolist())

    def intersect_ground(self, origin: Sequence[float], ray: Sequence[float]) -> Vec3 | None:
        """Return the intersection of a camera ray with the ground, in world axes [m]; None without an intersection."""
        o = rotate_inverse(self.world_q, Vec3(*origin) - self.world_p)
        d = rotate_inverse(self.world_q, Vec3(*ray))
        if not float(norm(d)) > 0.0 or d.z > -1e-6:
            return None
        distance = (self.ground - o.z) / d.z
        hit = o + d * distance
        return hit if distance > 0.0 and math.hypot(hit.x - o.x, hit.y - o.y) < 1000.0 * self.cell else None


def _group_figures(figures: Sequence[DroneFigure]) -> list[tuple[Vehicle, str, list[int]]]:
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
    colour = rgb(CCW_COLOUR if spin > 0 else CW_COLOUR)
    return "#" + "".join(f"{int(0.6 * channel):02x}" for channel in colour)


def _segments(path: Array) -> Array:
    """(points, 3) → (points − 1, 2, 3)."""
    return np.stack([path[:-1], path[1:]], axis=1)


def _waypoint_pose(task: Trajectory, time: float, p_W: Vec3) -> tuple[Vec3, Quat | None]:
    """Return a position, and the rotation of a ring across the path there; None for a stop."""
    v = Vec3(*(float(x) for x in task.evaluate(max(time, 0.0)).v_W))
    speed = float(norm(v))
    return p_W, rotation_from_z(v * (1.0 / speed)) if speed > 0.3 else None


MAX_POINTS = 6000  # points per sensor
FRUSTUM_RADII = 2.0  # length of the drawn field of view, in radii of the drone
POINT_SIZE_CELLS = 0.016  # size of a point, in cells of the grid


class VisionDisplay:
    """Nodes for each vision sensor that was ever shown; points stay in place until newer ones arrive."""

    def __init__(self, server: viser.ViserServer, vehicle_radius: float, cell: float) -> None:
        self._server, self._vehicle_radius, self._cell = server, vehicle_radius, cell
        self._points: dict[str, viser.PointCloudHandle] = {}
        self._frustums: dict[str, viser.LineSegmentsHandle] = {}
        self._drawn: dict[str, tuple[float, bytes]] = {}

    def show(self, frames: Sequence[VisionFrame], p: Array, q: Array, *, points: bool, frustums: bool) -> None:
        """Show the sensors of a drone at p and q in the moved world; hide those of other drones."""
        shown: Mapping[str, VisionFrame] = {frame.name: frame for frame in frames}
        max_distance = common_scale(frames)
        for name, frame in shown.items():
            if points and len(frame.distances):
                self._show_points(name, frame, max_distance)
            if frustums and frame.sensor_model.is_camera:
                self._show_frustum(name, frame, p, q)
        for name, cloud in self._points.items():
            cloud.visible = points and name in shown
        for name, lines in self._frustums.items():
            lines.visible = frustums and name in shown

    def _show_points(self, name: str, frame: VisionFrame, max_distance: float) -> None:
        key = max_distance, frame.distances.tobytes()
        if self._drawn.get(name) == key:
            return
        self._drawn[name] = key
        positions, distances = echo_points(frame)
        selected = np.linspace(0, len(positions) - 1, min(len(positions), MAX_POINTS)).round().astype(int)
        positions, distances = positions[selected].astype(np.float32), distances[selected]
        colours = depth_colours(distances, max_distance)
        if name in self._points:
            self._points[name].points, self._points[name].colors = positions, colours
            return
        self._points[name] = self._server.scene.add_point_cloud(
            f"/world/seen by {len(self._points)}",
            positions,
            colours,
            point_size=POINT_SIZE_CELLS * self._cell,
            point_shape="circle",
            point_shading="flat",
            precision="float32",
        )

    def _show_frustum(self, name: str, frame: VisionFrame, p: Array, q: Array) -> None:
        r_B, q_BS = frame.sensor_model.mounting
        if name not in self._frustums:
            self._frustums[name] = self._server.scene.add_line_segments(
                f"/frustum {len(self._frustums)}",
                frustum_S(frame.sensor_model, FRUSTUM_RADII * self._vehicle_radius),
                rgb(INK),
                thickness=1.0,
                thickness_units="screen",
            )
        lines, q_WB = self._frustums[name], Quat(*q.tolist())
        lines.position = p + np.array(rotate(q_WB, r_B), dtype=float)
        lines.wxyz = np.array(q_WB * q_BS, dtype=float)
