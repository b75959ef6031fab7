"""Images of cameras, compiled: the rows of an image run through the kernels of the sky, of every solid that may be in them,
and of the
image sensor.

    renderer = ImageRenderer(model)
    images = renderer.render(motions, planes)       # (13, n), (6, n) → {"rgb": (n, rows, columns, 3), …}

The functions are those of `samara.sensors.pixels`, and the bits those of `samara.sensors.camera.render_camera`, for every n.
A solid is skipped where it cannot be: beyond the planes through the camera that bound a strip of rows or columns.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.compiler.llvm.image_rows import ImageKernel, image_kernel, noise_kernel, padded, run_rows
from samara.compiler.thread_pool import max_threads, run_parallel
from samara.compiler.trace.folding_tape import trace_program
from samara.core.algebra import IDENTITY, ZERO, Mat3, Quat, Vec3, matrix_from_quat, rotate
from samara.core.ops import where
from samara.core.quantity import Scalar, Tree
from samara.core.random import derive_key
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.types import State
from samara.sensors.camera import CameraModel, CameraPart, SeenDrone, luminance, scene_looks
from samara.sensors.depth_camera import Pinhole
from samara.sensors.pixels import Look, View, depth, expose, optical_flow, see_sky, see_surface, vignetting_gain
from samara.sensors.ray_sensors import emission_pose
from samara.sensors.sensor import Mounting
from samara.world.appearance import DAYLIGHT, DRONE_APPEARANCE, Appearance
from samara.world.obstacles import TEMPLATES, HeightMap, Ray, classify_solid
from samara.world.rays import (
    Hit,
    SurfaceTerms,
    hit_distance,
    hit_point,
    is_inside,
    support_distance,
    surface_hit,
    surface_terms,
)

STRIP_COLUMNS, STRIP_ROWS = 16, 4  # pixels of the strips of an image in which a solid may be or not
CULLING_MARGIN = 1e-6  # [m]: above the rounding of a support distance
STATE_TEMPLATE = State(ZERO, ZERO, IDENTITY, ZERO)
MIN_PIXELS_PER_THREAD = 16_384  # below it, 50 µs, a thread costs more than it saves
NO_SOLIDS: Mapping[int, Array] = MappingProxyType({})
INSTANCE = 7  # index of the instance among the fixed numbers of a surface


class SurfaceInputs(NamedTuple):
    """Numbers of a surface that differ between drones and rows: terms of its hit, 1 for a camera inside it, and its motion."""

    terms: SurfaceTerms
    inside: Scalar
    origin_W: Vec3
    p_W: Vec3
    v_W: Vec3
    omega_W: Vec3


class CameraPose(NamedTuple):
    """The rotation from the camera's axes to the world, and the drone's attitude and velocities when a row is exposed."""

    rotation: Mat3
    q_WB: Quat
    v_W: Vec3
    omega_B: Vec3


class SurfaceKind(NamedTuple):
    """What determines the code of a surface: its shape, its texture, whether it moves, and the height map that it is, if any.

    A height map has the numbers of a plane, of which only the origin of the rays is used.
    """

    shape: str
    texture: str
    moves: bool = False
    terrain: HeightMap | None = None


class Outputs(NamedTuple):
    """What determines the code of an image besides its surfaces."""

    names: tuple[str, ...]
    channels: int
    noise: tuple[float, float]
    gamma: float
    samples: int
    max_range: float
    camera: Pinhole
    mounting: Mounting

    @property
    def view(self) -> tuple[bool, ...]:
        """The leaves of `View` that the outputs need."""
        flow, rgb = "optical_flow" in self.names, "rgb" in self.names
        return (True, "instance" in self.names, "segmentation" in self.names, *(rgb,) * 3, *(flow,) * 3)


VIEW_TEMPLATE = View(0.0, 0.0, 0.0, ZERO, ZERO)
STORES = {"rgb": "rgb8", "segmentation": "u8", "depth": "f32", "instance": "u16", "optical_flow": "f32"}


# Compiled code ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _pose_code() -> CompiledStep:
    """pose from (state, age, mounting)."""

    def body(carry: Tree, inputs: Tree) -> Tree:
        state, age, mounting = inputs
        q_WB = emission_pose(state, age)[1]
        return CameraPose(matrix_from_quat(q_WB * mounting.q_BS), q_WB, state.v_W, state.omega_B)

    carry = CameraPose(matrix_from_quat(IDENTITY), IDENTITY, ZERO, ZERO)
    return CompiledStep(body, carry, (STATE_TEMPLATE, 0.0, Mounting()))


@lru_cache(maxsize=16)
def _surface_code(shape: str, moves: bool) -> CompiledStep:
    """surface inputs from (state, age, mounting, solid), or (state, age, mounting, drone) for another drone."""
    drone = SeenDrone(ZERO, ZERO, 0.0, ZERO, ZERO, IDENTITY, ZERO)

    def body(carry: Tree, inputs: Tree) -> Tree:
        state, age, mounting, solid = inputs
        look = Look()
        if moves:
            solid, look = solid.box(age)
        p_W, q_WB = emission_pose(state, age)
        start_W = p_W + rotate(q_WB, mounting.r_B)
        terms = surface_terms(start_W, solid)
        inside = where(is_inside(terms.ray), 1.0, 0.0)
        return SurfaceInputs(terms, inside, start_W, look.p_W, look.v_W, look.omega_W)

    return CompiledStep(
        body, _surface_template(shape), (STATE_TEMPLATE, 0.0, Mounting(), drone if moves else TEMPLATES[shape])
    )


def _surface_template(shape: str) -> SurfaceInputs:
    return SurfaceInputs(surface_terms(Vec3(5.0, 6.0, 7.0), TEMPLATES[shape]), 0.0, ZERO, ZERO, ZERO, ZERO)


def _select(values: Tree, flags: Sequence[bool]) -> tuple[Scalar, ...]:
    return tuple(value for value, flag in zip(flatten(values), flags, strict=True) if flag)


def _view(leaves: Sequence[Scalar], flags: Sequence[bool]) -> View:
    """Return a view from those leaves that are needed; the rest are 0."""
    values = iter(leaves)
    view: View = unflatten(VIEW_TEMPLATE, iter([next(values) if flag else 0.0 for flag in flags]))
    return view


@lru_cache(maxsize=16)
def _sky_kernel(flags: tuple[bool, ...]) -> ImageKernel:
    """(d_W, view) from d_S."""

    def body(pose: CameraPose, light: Tree, d_S: Vec3) -> Tree:
        d_W = pose.rotation @ d_S
        return ((*d_W, *_select(see_sky(d_W, light), flags)),)

    pose = CameraPose(matrix_from_quat(IDENTITY), IDENTITY, ZERO, ZERO)
    return image_kernel(trace_program(body, pose, DAYLIGHT, ZERO), 3, ("f64",) * (3 + sum(flags)))


@lru_cache(maxsize=128)
def _surface_kernel(kind: SurfaceKind, flags: tuple[bool, ...]) -> ImageKernel:
    """view from (d_W, view)."""

    def body(surface: SurfaceInputs, fixed: Tree, pixels: Tree) -> Tree:
        d_W, leaves = pixels
        (colour, texture_colour, size, instance, class_number), light = fixed
        view = _view(leaves, flags)
        ray = Ray(surface.origin_W, d_W)
        if kind.terrain is not None:
            hit = surface_hit(ray, kind.terrain, view.distance)
        else:
            start = where(surface.inside > 0.5, 0.0, view.distance)
            distance = hit_distance(surface.terms.ray, d_W, start)
            hit = Hit(distance, hit_point(surface.terms, d_W, distance))
        appearance = Appearance(colour, kind.texture, texture_colour, size)
        look = Look(appearance, instance, class_number, surface.p_W, surface.v_W, surface.omega_W)
        if not kind.moves:
            look = look._replace(v_W=ZERO, omega_W=ZERO)
        return (_select(see_surface(view, hit, ray, look, light), flags),)

    count = sum(flags)
    fixed = (ZERO, ZERO, 0.0, 0.0, 0.0), DAYLIGHT
    program = trace_program(body, _surface_template(kind.shape), fixed, (ZERO, (0.0,) * count))
    return image_kernel(program, 3 + count, ("f64",) * count)


@lru_cache(maxsize=2)
def _sum_kernel(is_first: bool) -> ImageKernel:
    """Sum of the radiances of the motion samples from (sum, radiance)."""

    def body(varied: Tree, fixed: Tree, pixels: Tree) -> Tree:
        total, radiance = pixels
        return (radiance if is_first else total + radiance,)

    return image_kernel(trace_program(body, (), (), (ZERO, ZERO)), 6, ("f64",) * 3)


@lru_cache(maxsize=16)
def _sensor_kernel(outputs: Outputs) -> ImageKernel:
    """images from (d_S, gain, radiance, normals, view)."""
    flags = outputs.view

    def body(pose: CameraPose, fixed: Tree, pixels: Tree) -> Tree:
        d_S, gain, radiance, normals, leaves = pixels
        view, results = _view(leaves, flags), []
        state = State(ZERO, pose.v_W, pose.q_WB, pose.omega_B)
        for name in outputs.names:
            if name == "rgb":
                mean = radiance / float(outputs.samples)
                channels = tuple(mean) if outputs.channels == 3 else (luminance(mean),)
                results += [
                    expose(channel, gain, normal, *outputs.noise, outputs.gamma)
                    for channel, normal in zip(channels, normals, strict=False)
                ]
            elif name == "optical_flow":
                results += optical_flow(view, d_S, state, outputs.mounting, outputs.camera)
            elif name == "depth":
                results.append(depth(view, d_S, outputs.max_range))
            else:
                results.append(view.class_number if name == "segmentation" else view.instance)
        return (tuple(results),)

    pose = CameraPose(matrix_from_quat(IDENTITY), IDENTITY, ZERO, ZERO)
    pixels = ZERO, 0.0, ZERO, ZERO, (0.0,) * sum(flags)
    stores = []
    for name in outputs.names:
        store = "u8" if name == "rgb" and outputs.channels == 1 else STORES[name]
        stores += [store] * (2 if name == "optical_flow" else 1)
    return image_kernel(trace_program(body, pose, (), pixels), 10 + sum(flags), stores)


@lru_cache(maxsize=1)
def _plane_kernel() -> ImageKernel:
    """n_W from n_S."""
    pose = CameraPose(matrix_from_quat(IDENTITY), IDENTITY, ZERO, ZERO)
    program = trace_program(lambda pose, fixed, n_S: (tuple(pose.rotation @ n_S),), pose, (), ZERO)
    return image_kernel(program, 3, ("f64",) * 3)


@lru_cache(maxsize=16)
def _visibility_kernel(shape: str) -> ImageKernel:
    """1 if the surface may be beyond a plane through the camera, else 0, from the plane's normal."""

    def body(surface: SurfaceInputs, fixed: Tree, n_W: Vec3) -> Tree:
        return ((where(support_distance(surface.terms.ray, n_W) > -CULLING_MARGIN, 1.0, 0.0),),)

    return image_kernel(trace_program(body, _surface_template(shape), (), ZERO), 3, ("u8",))


# Renderer --------------------------------------------------------------------------------------------------------------


class Noise(NamedTuple):
    """What the noise of the images depends on: the source of random numbers, and each drone's seed and number; the tick."""

    source: str
    seeds: Sequence[int]
    drones: Sequence[int]
    tick: int


class _Surface(NamedTuple):
    """A surface of the scene, or another drone: its kind, its look, its group of equal shapes and its index there."""

    kind: SurfaceKind
    look: Look
    group: int
    member: int


class ImageRenderer:
    """Renders the images of one camera model for any number of drones at once."""

    def __init__(self, model: CameraModel, other_drones: int = 0) -> None:
        """Compile the camera; with `other_drones`, each image may have up to that many."""
        self.model, part = model, model.part
        self.rows, self.columns = part.shape
        self.width = padded(self.columns)
        self.is_rolling, self.samples = part.row_time > 0.0, int(part.motion_samples)
        if "rgb" not in part.outputs:
            self.samples = 1
        self.ages = np.array([self._ages(k) for k in range(self.samples)])  # (samples, bands)
        self.outputs = _outputs(part, model.mounting)
        self._directions, self._gain = _pixel_arrays(part)
        self._planes = _strip_planes(part, self.is_rolling)
        self._light = np.array(flatten(model.scene.light))
        self._sort_surfaces(other_drones)
        self._batches: dict[int, _Batch] = {}

    def _ages(self, sample: int) -> Array:
        ages = self.model.part.row_ages(sample if self.samples > 1 else None)
        return ages if self.is_rolling else ages[:1]

    def _sort_surfaces(self, other_drones: int) -> None:
        """Group the surfaces by shape; other drones are a group of their own."""
        self.surfaces: list[_Surface] = []
        self.groups: dict[tuple[str, bool], list[Any]] = {}
        drone = Look(DRONE_APPEARANCE, 0.0, float(self.model.scene.class_number(DRONE_APPEARANCE)))
        looks = [(Ground() if solid is None else solid, look) for solid, look in scene_looks(self.model.scene)]
        for solid, look in [*looks, *[(None, drone)] * other_drones]:
            terrain = solid if isinstance(solid, HeightMap) else None
            solid = Ground() if terrain is not None else solid
            shape = "box" if solid is None else classify_solid(solid)
            members = self.groups.setdefault((shape, solid is None), [])
            kind = SurfaceKind(shape, look.appearance.texture, solid is None, terrain)
            self.surfaces.append(_Surface(kind, look, list(self.groups).index((shape, solid is None)), len(members)))
            members.append(solid)
        self.fixed = np.array([[*_look_numbers(surface.look), *self._light] for surface in self.surfaces])

    def render(
        self,
        motions: Array,
        planes: Array,
        drones: Sequence[Sequence[SeenDrone]] = (),
        noise: Noise | None = None,
        solids: Mapping[int, Array] = NO_SOLIDS,
    ) -> dict[str, Array]:
        """Render the images of n drones.

        Args:
            motions: their motions (13, n).
            planes: the planes below them (6, n), seen if the scene has no ground of its own.
            drones: the other drones of each image.
            noise: the source of the noise of grey levels; None for none.
            solids: numbers (leaves, n) of the surfaces that differ between drones, by index: 0 is the ground, then come
                those of the scene.
        """
        n = motions.shape[1]
        if n not in self._batches:
            self._batches.clear()
            self._batches[n] = _Batch(self, n)
        self._batches[n].place(solids)
        return self._batches[n].render(motions, planes, drones, noise)


class _Batch:
    """The memory of a renderer for n images."""

    def __init__(self, renderer: ImageRenderer, n: int) -> None:
        self.renderer, self.n = renderer, n
        samples = renderer.samples
        self.bands = renderer.ages.shape[1]
        self.lanes = n * samples * self.bands  # an image, a motion sample and a row of equal age each
        ages = np.broadcast_to(renderer.ages[None], (n, samples, self.bands)).reshape(-1)
        mounting = np.array(flatten(renderer.model.mounting))
        self._image_of_lane = np.repeat(np.arange(n), samples * self.bands)
        self._poses = _pose_code().machine(self.lanes)
        self._poses.held_inputs[13], self._poses.held_inputs[14:] = ages, mounting[:, None]
        self._groups: list[Machine] = []
        for (shape, moves), members in renderer.groups.items():
            machine = _surface_code(shape, moves).machine(self.lanes * len(members))
            inputs = machine.held_inputs.reshape(-1, self.lanes, len(members))
            inputs[13], inputs[14:21] = ages[:, None], mounting[:, None, None]
            if not moves:
                inputs[21:] = np.array([flatten(Ground() if s is None else s) for s in members], dtype=float).T[:, None]
            self._groups.append(machine)
        self._tasks = _share_images(n, renderer.rows, renderer.columns)
        self._spans = np.zeros((n, samples, len(renderer.surfaces), renderer.rows, 2), dtype=np.int32)
        self._full = np.tile(np.array([0, renderer.width], dtype=np.int32), (renderer.rows, 1))
        self._visible = np.zeros(
            (n, samples, len(renderer.surfaces), self.bands, renderer._planes.shape[2]), dtype=np.uint8
        )
        self._noise = np.zeros((n, 6), dtype=np.int64)
        self._fixed = np.tile(renderer.fixed, (n, 1, 1))
        self._scratch = [_Scratch(renderer) for _ in self._tasks]
        self._keep: list[Any] = []
        self._kernels()

    def _kernels(self) -> None:
        renderer = self.renderer
        flags = renderer.outputs.view
        kinds = {surface.kind for surface in renderer.surfaces}
        self._code = {kind: self._load(_surface_kernel(kind, flags)) for kind in kinds}
        self._visibility = {kind.shape: self._load(_visibility_kernel(kind.shape)) for kind in kinds}
        self._cull_entries = self._build_cull()
        self._render_entries = [self._build_entries(scratch) for scratch in self._scratch]

    def _load(self, kernel: ImageKernel) -> int:
        """Return the address of a kernel, which this batch keeps from being freed."""
        self._keep.append(kernel)
        return kernel.address

    def _varied(self, group: int, index: int, image: int, sample: int) -> tuple[int, int, int]:
        """Return the address, the stride and the row step of a surface's numbers."""
        machine = self._groups[group]
        members = machine.carry.shape[1] // self.lanes
        lane = (image * self.renderer.samples + sample) * self.bands
        address = machine.carry.ctypes.data + 8 * (lane * members + index)
        return address, 8 * machine.carry.shape[1], 8 * members if self.renderer.is_rolling else 0

    def _pose(self, image: int, sample: int) -> tuple[int, int, int]:
        lane = (image * self.renderer.samples + sample) * self.bands
        return self._poses.carry.ctypes.data + 8 * lane, 8 * self.lanes, 8 if self.renderer.is_rolling else 0

    def _table(self, arrays: Sequence[tuple[int, int]]) -> int:
        table = np.array(arrays, dtype=np.int64)
        self._keep.append(table)
        return int(table.ctypes.data)

    def _build_cull(self) -> Array:
        """Entries (images × samples, 1 + surfaces, fields) that find the strips each surface may be in, a band per row."""
        renderer = self.renderer
        planes = renderer._planes  # (bands, 3, planes)
        count = planes.shape[2]
        normals = np.zeros((3, count))
        self._keep.append(normals)
        spans = np.tile(np.array([0, count], dtype=np.int32), (self.bands, 1))
        self._keep.append(spans)
        sources = [(planes.ctypes.data + 8 * count * k, 24 * count) for k in range(3)]
        targets = [(normals.ctypes.data + 8 * count * k, 0) for k in range(3)]
        plane_table, entries = self._table([*sources, *targets]), []
        for image in range(self.n):
            for sample in range(renderer.samples):
                group = [(self._load(_plane_kernel()), *self._pose(image, sample), 0, plane_table, spans.ctypes.data)]
                for k, surface in enumerate(renderer.surfaces):
                    if surface.kind.shape == "plane":
                        continue
                    flags = self._visible[image, sample, k]
                    table = self._table([*targets, (flags.ctypes.data, flags.strides[0])])
                    varied = self._varied(surface.group, surface.member, image, sample)
                    kernel = self._visibility[surface.kind.shape]
                    group.append((kernel, *varied, 0, table, spans.ctypes.data))
                entries.append(group)
        return np.array(entries, dtype=np.int64)

    def _build_entries(self, scratch: "_Scratch") -> Array:
        """Entries (images, entries, fields) of the images; the last one's array table is set for each image."""
        renderer, flags = self.renderer, self.renderer.outputs.view
        d_S, gain = renderer._directions, renderer._gain
        pixel = [(d_S.ctypes.data + 8 * renderer.width * k, 24 * renderer.width) for k in range(3)]
        full = self._full.ctypes.data
        view_arrays = scratch.arrays(scratch.view)
        sky = self._table([*pixel, *scratch.arrays(scratch.d_W), *view_arrays])
        surface_table = self._table([*scratch.arrays(scratch.d_W), *view_arrays, *view_arrays])
        radiance = scratch.arrays(scratch.view[scratch.radiance]) if any(flags[3:6]) else [(full, 0)] * 3
        total = scratch.arrays(scratch.total)
        sum_table = self._table([*total, *radiance, *total])
        noise_table = self._table(scratch.arrays(scratch.normals))
        middle = (renderer.samples - 1) // 2
        geometry = scratch.arrays(scratch.geometry)
        copy_table = self._table([*view_arrays, *geometry])
        entries = []
        for image in range(self.n):
            group: list[tuple[int, ...]] = []
            for sample in range(renderer.samples):
                pose = self._pose(image, sample)
                group.append((self._load(_sky_kernel(flags)), *pose, renderer._light.ctypes.data, sky, full))
                for k, surface in enumerate(renderer.surfaces):
                    spans = self._spans[image, sample, k]
                    address = full if surface.kind.shape == "plane" else spans.ctypes.data
                    varied = self._varied(surface.group, surface.member, image, sample)
                    fixed = self._fixed[image, k].ctypes.data
                    group.append((self._code[surface.kind], *varied, fixed, surface_table, address))
                if renderer.samples > 1:
                    group.append((self._load(_sum_kernel(sample == 0)), full, 0, 0, 0, sum_table, full))
                    if sample == middle:
                        group.append((self._load(_copy_kernel(sum(flags))), full, 0, 0, 0, copy_table, full))
            if renderer.model.part.has_noise:
                noise = self._noise[image].ctypes.data
                channels = renderer.outputs.channels
                group.append((self._load(noise_kernel(channels)), full, 0, 0, noise, noise_table, full))
            pose = self._pose(image, middle)
            group.append((self._load(_sensor_kernel(renderer.outputs)), *pose, 0, 0, full))
            entries.append(group)
        self._sensor_inputs = getattr(self, "_sensor_inputs", [])
        final_view = geometry if renderer.samples > 1 else view_arrays
        final_radiance = total if renderer.samples > 1 else radiance
        self._sensor_inputs.append(
            [
                *pixel,
                (gain.ctypes.data, 8 * renderer.width),
                *final_radiance,
                *scratch.arrays(scratch.normals),
                *final_view,
            ]
        )
        return np.array(entries, dtype=np.int64)

    def place(self, solids: Mapping[int, Array]) -> None:
        """Set the numbers (leaves, n) of surfaces, by index."""
        groups = list(self.renderer.groups.values())
        for index, numbers in solids.items():
            surface = self.renderer.surfaces[index]
            inputs = self._groups[surface.group].held_inputs.reshape(-1, self.lanes, len(groups[surface.group]))
            inputs[21:, :, surface.member] = numbers[:, self._image_of_lane]

    def render(
        self, motions: Array, planes: Array, drones: Sequence[Sequence[SeenDrone]], noise: Noise | None
    ) -> dict[str, Array]:
        """Render all images."""
        self._set_poses(motions, planes, drones)
        self._cull()
        if noise is not None and self.renderer.model.part.has_noise:
            for image, (seed, drone) in enumerate(zip(noise.seeds, noise.drones, strict=True)):
                key = derive_key(seed, noise.source)
                self._noise[image] = *key, drone, noise.tick & 0xFFFFFFFF, noise.tick >> 32, self.renderer.columns
        images = self._allocate()
        tasks = []
        for task, (chosen, first, last) in enumerate(self._tasks):
            entries, tables = self._render_entries[task], []
            for image in chosen:
                outputs = self._output_arrays(images, image)
                tables.append(np.array([*self._sensor_inputs[task], *outputs], dtype=np.int64))
                entries[image, -1, 5] = tables[-1].ctypes.data
            tasks.append(partial(_run_images, entries, chosen, first, last, tables))
        run_parallel(tasks)
        columns = self.renderer.columns
        result = {}
        for name, array in images.items():
            if name == "optical_flow":
                result[name] = np.ascontiguousarray(np.moveaxis(array[..., :columns], 1, -1))
            else:
                result[name] = array if array.shape[2] == columns else np.ascontiguousarray(array[:, :, :columns])
        return result

    def _set_poses(self, motions: Array, planes: Array, drones: Sequence[Sequence[SeenDrone]]) -> None:
        """Compute the poses of the cameras and the surfaces relative to them."""
        renderer, lanes = self.renderer, self._image_of_lane
        motion = motions if len(lanes) == self.n else motions[:, lanes]
        self._poses.held_inputs[:13] = motion
        self._poses.run()
        for (_, moves), members, machine in zip(renderer.groups, renderer.groups.values(), self._groups, strict=True):
            inputs = machine.held_inputs.reshape(-1, self.lanes, len(members))
            inputs[:13] = motion[:, :, None]
            for index, solid in enumerate(members):
                if solid is None and not moves:  # the plane below each drone
                    inputs[21:, :, index] = planes[:, lanes]
            if moves:
                numbers = np.array([[flatten(drone) for drone in neighbours] for neighbours in drones], dtype=float)
                inputs[21:] = np.moveaxis(numbers, -1, 0)[:, lanes]
                self._fixed[:, -len(members) :, INSTANCE] = [
                    [drone.instance for drone in neighbours] for neighbours in drones
                ]
            machine.run()

    def _cull(self) -> None:
        """Find the span of columns of every row that each surface may be in."""
        renderer = self.renderer
        if self._cull_entries.shape[1] == 1:
            return
        for entries in self._cull_entries:
            run_rows(entries, 0, self.bands)
        columns, rows = -(-renderer.columns // STRIP_COLUMNS), -(-renderer.rows // STRIP_ROWS)
        rows = 1 if renderer.is_rolling else rows
        is_visible = self._visible.view(bool)
        left, right, top, bottom = (
            is_visible[..., first : first + count]
            for first, count in ((0, columns), (columns, columns), (2 * columns, rows), (2 * columns + rows, rows))
        )
        in_column, in_row = left & right, top & bottom & is_visible[..., -1:]
        first = STRIP_COLUMNS * in_column.argmax(-1)
        last = np.minimum(STRIP_COLUMNS * (columns - in_column[..., ::-1].argmax(-1)), renderer.width)
        last = np.where(in_column.any(-1), last, 0)
        shown = (
            in_row[..., 0]
            if renderer.is_rolling
            else np.repeat(in_row[..., 0, :], STRIP_ROWS, -1)[..., : renderer.rows]
        )
        np.multiply(shown, first, out=self._spans[..., 0], casting="unsafe")
        np.multiply(shown, last, out=self._spans[..., 1], casting="unsafe")

    def _allocate(self) -> dict[str, Array]:
        renderer = self.renderer
        shape, images = (self.n, renderer.rows, renderer.width), {}
        for image in renderer.model.images:
            if image.name == "rgb":
                images["rgb"] = np.empty((*shape, renderer.outputs.channels), np.uint8)
            elif image.name == "optical_flow":
                images[image.name] = np.empty((self.n, 2, renderer.rows, renderer.width), np.float32)
            else:
                images[image.name] = np.empty(shape, image.dtype)
        return images

    def _output_arrays(self, images: dict[str, Array], image: int) -> list[tuple[int, int]]:
        outputs = []
        for name in self.renderer.outputs.names:
            array = images[name][image]
            parts = array if name == "optical_flow" else [array]
            outputs += [(part.ctypes.data, part.strides[0]) for part in parts]
        return outputs


class _Scratch:
    """The intermediate results of one row, for one thread."""

    def __init__(self, renderer: ImageRenderer) -> None:
        width, count = renderer.width, sum(renderer.outputs.view)
        self.d_W, self.normals, self.total = (np.zeros((3, width)) for _ in range(3))
        self.view, self.geometry = np.zeros((count, width)), np.zeros((count, width))
        first = sum(renderer.outputs.view[:3])
        self.radiance = slice(first, first + 3)

    @staticmethod
    def arrays(rows: Array) -> list[tuple[int, int]]:
        """Return the address of each row, the same for every row of the image."""
        return [(row.ctypes.data, 0) for row in rows]


def _run_images(entries: Array, images: Sequence[int], first_row: int, last_row: int, tables: list[Array]) -> None:
    for image in images:
        run_rows(entries[image], first_row, last_row)


def _share_images(n: int, rows: int, columns: int) -> list[tuple[range, int, int]]:
    """Return a task for each thread: its images, and its first and last row of them; one image is shared by rows."""
    threads = max(1, min(max_threads(), n * rows * columns // MIN_PIXELS_PER_THREAD))
    if n >= threads:
        cuts = [n * k // threads for k in range(threads + 1)]
        return [(range(first, last), 0, rows) for first, last in pairwise(cuts)]
    cuts = [rows * k // threads for k in range(threads + 1)]
    return [(range(n), first, last) for first, last in pairwise(cuts)]


@lru_cache(maxsize=8)
def _copy_kernel(count: int) -> ImageKernel:
    """The view of the middle of the exposure, apart from those of other motion samples."""
    program = trace_program(lambda varied, fixed, pixels: (pixels,), (), (), (0.0,) * count)
    return image_kernel(program, count, ("f64",) * count)


def _outputs(part: CameraPart, mounting: Mounting) -> Outputs:
    names = tuple(name for name in part.outputs if name in STORES)
    samples = int(part.motion_samples) if "rgb" in names else 1
    return Outputs(names, int(part.channels), part.noise, part.gamma, samples, part.max_range, part.camera, mounting)


def _look_numbers(look: Look) -> list[float]:
    appearance = look.appearance
    return [
        *appearance.colour,
        *appearance.texture_colour,
        appearance.texture_size,
        look.instance,
        look.class_number,
    ]


@lru_cache(maxsize=16)
def _pixel_arrays(part: CameraPart) -> tuple[Array, Array]:
    """Directions (rows, 3, width) and gains (rows, width) of all pixels, rows padded with their last pixel."""
    rows, columns = part.shape
    d_S = CameraModel(part).directions
    gain = part.exposure * vignetting_gain(d_S, part.vignetting)
    padding = (0, 0), (0, padded(columns) - columns)
    directions, gains = (
        np.stack(
            [np.pad(np.broadcast_to(x, d_S.x.shape).reshape(rows, columns), padding, mode="edge") for x in leaves], 1
        )
        for leaves in (d_S, (gain,))
    )
    return np.ascontiguousarray(directions), np.ascontiguousarray(gains[:, 0])


@lru_cache(maxsize=16)
def _strip_planes(part: CameraPart, is_rolling: bool) -> Array:
    """Normals (bands, 3, planes) of the planes through the camera that bound strips: n·x > 0 for every point seen in the strip.

    They bound the strips of columns to the left and to the right, those of rows above and below, and the half-space ahead. A
    band of a rolling shutter is one row.
    """
    rows, columns = part.shape
    x, y, z = (component.reshape(rows, columns) for component in CameraModel(part).directions)
    bands = []
    for band in range(rows) if is_rolling else [slice(None)]:
        normals = []
        for slope, axis in ((y / x, 1), (z / x, 2)):
            if axis == 1:
                cuts, extent, over = range(0, columns, STRIP_COLUMNS), slope[band].reshape(-1, columns).T, STRIP_COLUMNS
            elif is_rolling:
                cuts, extent, over = range(1), slope[band][None], 1
            else:
                cuts, extent, over = range(0, rows, STRIP_ROWS), slope, STRIP_ROWS
            for sign in (1.0, -1.0):
                for start in cuts:
                    normal = np.zeros(3)
                    normal[0], normal[axis] = -(sign * extent[start : start + over]).min(), sign
                    normals.append(normal / np.linalg.norm(normal))
        ahead = np.array([1.0, 0.0, 0.0])
        bands.append(np.array([*normals, *[ahead] * (padded(len(normals) + 1) - len(normals))]).T)
    return np.ascontiguousarray(np.array(bands))
