"""Depth images of thousands of drones at once, in JAX: for training and for differentiation.

    images = depth_images(states, solids, camera)        # (drones, rows, columns) [m]

Rays and distances are those of `samara.sensors.ray_sensors`, without noise; pixels beyond the camera's range are at its
`max_range`. On a GPU it is one kernel (Pallas and Triton), each program of which has a tile of one image in its
registers and skips solids that cannot be in it; elsewhere, and for gradients, XLA evaluates all solids.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl

from samara.compiler.jax.arrays import Launch, materialise, triton_options
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.core.ops import fast_minimum, where
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.types import State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.ray_sensors import Beam, RaySensor, beam_ray
from samara.sensors.sensor import AT_CENTRE, Mounting
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid, ray_distance
from samara.world.rays import hit_distance, is_inside, propagate_nan, ray_terms, support_distance

FLAT_GROUND = Ground()
LAUNCH = Launch(block=256, warps=1)
WORD_BITS = 32
CULLING_MARGIN = 1e-3  # of the camera's range: above the error of a radius computed as √(m·m − c) in single precision
KERNELS = ("pallas", "xla")


def depth_images(
    states: State,
    solids: Sequence[Solid],
    camera: DepthCameraPart,
    *,
    mounting: Mounting = AT_CENTRE,
    ground: Ground | HeightMap | None = FLAT_GROUND,
    dtype: str = "float32",
    kernel: str | None = None,
    launch: Launch = LAUNCH,
) -> Array:
    """z of every pixel of every drone's camera, (drones, rows, columns), at most `camera.max_range`  [m]

    Args:
        states: arrays (drones,) for the components of p_W and q_WB.
        solids: obstacles; their parameters are numbers, or arrays (drones,) if each drone flies in a different world.
        camera: parameters of the camera.
        mounting: position and attitude of the camera on the body.
        ground: the ground plane or height map, or None.
        dtype: type of the images ("float16", "float32").
        kernel: "pallas" or "xla"; by default "pallas" on a GPU without height maps.
        launch: block size and warps of the Pallas kernel.

    Gradients are those of the smooth surfaces: edges contribute none, and pixels without a hit give 0.
    """
    if kernel not in (*KERNELS, None):
        raise ValueError(f"kernel = {kernel!r}: expected one of {', '.join(map(repr, KERNELS))}, or None")
    if jnp.ndim(states.p_W.x) != 1:
        raise ValueError(
            f"states.p_W.x has the shape {jnp.shape(states.p_W.x)}; expected (drones,), one number for each"
        )
    solids = ((ground,) if ground is not None else ()) + tuple(solids)
    maps = tuple(solid for solid in solids if isinstance(solid, HeightMap))
    if kernel is None:
        kernel = "pallas" if jax.default_backend() == "gpu" and not maps else "xla"
    if maps and kernel == "pallas":
        raise ValueError("kernel = 'pallas': a ray over a height map takes as many steps as it needs; expected 'xla'")
    inputs = (states.p_W, states.q_WB), [solid for solid in solids if solid not in maps]
    if kernel == "pallas":
        return _render_pallas(inputs, (camera, mounting, dtype, launch))
    return _render_xla(inputs, (camera, mounting, dtype, launch), maps)


class _CameraPoses(NamedTuple):
    """Camera poses of all drones (drones,): start of the rays, attitude, and 0 for cameras inside a solid."""

    start_W: Vec3
    q_WS: Quat
    nearest: Array


def _camera_poses(inputs: Any, settings: Any) -> tuple[_CameraPoses, list[Any]]:
    """Return the camera poses, and the solids relative to the cameras: one tree per shape, with leaves (solids, drones)."""
    (p_W, q_WB), solids = inputs
    _, mounting, _, _ = settings
    start_W, nearest = p_W + rotate(q_WB, mounting.r_B), jnp.full(jnp.shape(p_W.x), NEVER, p_W.x.dtype)
    relative = [ray_terms(start_W, solid) for solid in _stack_by_shape(solids, p_W.x)]
    for solid in relative:
        nearest = where(jnp.any(is_inside(solid), axis=0), 0.0, nearest)
    expanded = [
        unflatten(solid, iter(jnp.broadcast_arrays(*(jnp.asarray(x, p_W.x.dtype) for x in flatten(solid)))))
        for solid in relative
    ]
    return _CameraPoses(start_W, q_WB * mounting.q_BS, nearest), expanded


def _stack_by_shape(solids: Sequence[Any], template_array: Array) -> list[Any]:
    """Return one tree per shape of solid, whose leaves are arrays (solids of that shape, drones)."""
    groups: dict[type, list[Any]] = {}
    for solid in solids:
        groups.setdefault(type(solid), []).append(
            [jnp.broadcast_to(jnp.asarray(x, template_array.dtype), template_array.shape) for x in flatten(solid)]
        )
    templates = {type(solid): solid for solid in solids}
    return [
        unflatten(templates[shape], iter([jnp.stack(leaves) for leaves in zip(*members, strict=True)]))
        for shape, members in groups.items()
    ]


def _directions(camera: DepthCameraPart, float_type: Any) -> Vec3:
    """Return the direction of every pixel (rows, columns), in the camera's axes."""
    return Vec3(*(np.asarray(leaf, float_type).reshape(camera.shape) for leaf in RaySensor(camera).beams.direction_S))


def _depth(ray: Ray, nearest: Array, forward: Array, farthest: float, dtype: str) -> Array:
    """Convert distances along rays to depths along the camera's axis, limited to its range."""
    z = propagate_nan(ray, nearest) * forward
    return where(z > farthest, farthest, z).astype(dtype)


def _column(tree: Any) -> Any:
    return unflatten(tree, iter([x[:, None] for x in flatten(tree)]))


def _render_xla(inputs: Any, settings: Any, maps: Sequence[HeightMap] = ()) -> Array:
    """Render all drones and pixels as one array; quantities per drone are computed once, before the pixels."""
    camera, _, dtype, _ = settings
    pose, shapes = materialise(_camera_poses(inputs, settings))
    direction_S = Vec3(*(x.ravel()[None] for x in _directions(camera, pose.nearest.dtype)))
    ray = beam_ray(State(_column(pose.start_W), ZERO, _column(pose.q_WS), ZERO), AT_CENTRE, Beam(direction_S))
    nearest = pose.nearest[:, None]
    for solid in shapes:
        for k in range(len(flatten(solid)[0])):
            nearest = hit_distance(
                unflatten(solid, iter([x[k][:, None] for x in flatten(solid)])), ray.direction_W, nearest
            )
    for height_map in maps:
        nearest = fast_minimum(ray_distance(ray, height_map), nearest)
    z = _depth(ray, nearest, direction_S.x, camera.max_range, dtype)
    return jnp.broadcast_to(z, (len(pose.nearest), direction_S.x.size)).reshape(-1, *camera.shape)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _render_pallas(inputs: Any, settings: Any) -> Array:
    """Render one tile of one drone's image per program: rays in registers, looping over the solids that may be in it."""
    camera, _, dtype, launch = settings
    pose, shapes = materialise(_camera_poses(inputs, settings))
    drones, (rows, columns) = len(pose.nearest), camera.shape
    height, width = _tile(launch.block, rows, columns)
    padding = (0, -rows % height), (0, -columns % width)
    direction_S = np.stack([np.pad(x, padding, mode="edge") for x in _directions(camera, pose.nearest.dtype)])
    tile_columns = direction_S.shape[2] // width
    words = [_visibility_words(array, pose.q_WS, direction_S, (height, width), camera.max_range) for array in shapes]
    tables = [jnp.stack(flatten(array)) for array in shapes]

    def kernel(poses: Any, rays: Any, *refs: Any) -> None:
        words, tables, image = refs[: len(shapes)], refs[len(shapes) : -1], refs[-1]
        p_W, q_WS, start = unflatten(pose, iter([poses[k, 0] for k in range(8)]))
        direction_S = Vec3(*(rays[k, :, :] for k in range(3)))
        ray = beam_ray(State(p_W, ZERO, q_WS, ZERO), AT_CENTRE, Beam(direction_S))
        nearest = jnp.broadcast_to(start, (height, width))
        for template, word, table in zip(shapes, words, tables, strict=True):
            nearest = _nearest_hit(template, table, word, ray.direction_W, nearest)
        image[0, :, :] = _depth(ray, nearest, direction_S.x, camera.max_range, dtype)

    image = pl.pallas_call(
        kernel,
        grid=(drones, direction_S.shape[1] // height, tile_columns),
        in_specs=[
            pl.BlockSpec((8, 1), lambda i, j, k: (0, i)),
            pl.BlockSpec((3, height, width), lambda i, j, k: (0, j, k)),
            *(pl.BlockSpec((array.shape[0], 1, 1), lambda i, j, k: (0, i, j * tile_columns + k)) for array in words),
            *(pl.BlockSpec((*array.shape[:2], 1), lambda i, j, k: (0, 0, i)) for array in tables),
        ],
        out_specs=pl.BlockSpec((1, height, width), lambda i, j, k: (i, j, k)),
        out_shape=jax.ShapeDtypeStruct((drones, *direction_S.shape[1:]), dtype),  # type: ignore[no-untyped-call]
        interpret=jax.default_backend() == "cpu",
        name="depth",
        **triton_options(launch),
    )(jnp.stack(flatten(pose)), jnp.asarray(direction_S), *words, *tables)
    return image[:, :rows, :columns]


def _nearest_hit(template: Any, table: Any, words: Any, direction_W: Vec3, nearest: Array) -> Array:
    """Return the minimum of `nearest` and the distances along the rays to the solids of one shape with a set bit."""
    for first in range(0, table.shape[1], WORD_BITS):
        word = words[first // WORD_BITS, 0, 0]

        def visit(k: Any, nearest: Array, first: int = first, word: Any = word) -> Array:
            def hit(nearest: Array) -> Array:
                solid = unflatten(template, iter([table[j, first + k, 0] for j in range(table.shape[0])]))
                return hit_distance(solid, direction_W, nearest)

            return lax.cond((word >> k) & 1 > 0, hit, lambda nearest: nearest, nearest)

        nearest = lax.fori_loop(np.int32(0), np.int32(min(WORD_BITS, table.shape[1] - first)), visit, nearest)
    return nearest


def _tile(block: int, rows: int, columns: int) -> tuple[int, int]:
    """Return rows and columns of a tile of at most `block` pixels: powers of two, nearly square, within the image."""
    width = min(1 << -(-(block.bit_length() - 1) // 2), 1 << (columns - 1).bit_length())
    return min(block // width, 1 << (rows - 1).bit_length()), width


def _visibility_words(
    solids: Any, q_WS: Quat, direction_S: np.ndarray[Any, Any], tile: tuple[int, int], farthest: float
) -> Array:
    """Bit k of a word: whether solid k may be in a tile, (words, drones, tiles)

    A solid is not in a tile if it lies completely beyond one of the planes that bound the tile's view: four through the camera,
    one across it and one at its range. The planes have a small margin for rounding.
    """
    normals_S, offsets = _frustum_planes(direction_S, tile, farthest)
    normals_W = materialise(
        [rotate(_column(q_WS), Vec3(*(jnp.asarray(x[None]) for x in normal_S))) for normal_S in normals_S]
    )
    expanded = unflatten(solids, iter([x[:, :, None] for x in flatten(solids)]))
    inside = jnp.ones((), bool)
    for normal_W, offset in zip(normals_W, offsets, strict=True):
        inside = inside & (support_distance(expanded, normal_W) > -offset - CULLING_MARGIN * farthest)
    count = len(flatten(solids)[0])
    inside = (
        jnp.broadcast_to(inside, (count, *inside.shape[1:])) if inside.ndim else jnp.ones((count, len(q_WS.w), 1), bool)
    )
    shifted = inside.astype(jnp.int32) << (np.arange(count, dtype=np.int32) % WORD_BITS)[:, None, None]
    return jnp.stack([shifted[k : k + WORD_BITS].sum(0, dtype=jnp.int32) for k in range(0, count, WORD_BITS)])


def _frustum_planes(
    direction_S: np.ndarray[Any, Any], tile: tuple[int, int], farthest: float
) -> tuple[list[Any], list[float]]:
    """n·x > −d for every point in a tile's view, for each of six planes: n (3, tiles), and d"""
    height, width = tile
    x, y, z = direction_S.astype(float)

    def tile_minimum(slope: Array) -> Array:
        rows, columns = slope.shape
        return slope.reshape(rows // height, height, columns // width, width).min((1, 3)).ravel()

    normals = []
    for slope, axis in ((y / x, 1), (z / x, 2)):
        for sign in (1.0, -1.0):
            normal = np.zeros((3, tile_minimum(slope).size))
            normal[0], normal[axis] = -tile_minimum(sign * slope), sign
            normals.append(normal / np.linalg.norm(normal, axis=0))
    for sign in (1.0, -1.0):
        normals.append(np.repeat([[sign], [0.0], [0.0]], normals[0].shape[1], axis=1))
    return [plane.astype(direction_S.dtype) for plane in normals], [0.0] * 5 + [farthest]


def _forward(inputs: Any, settings: Any) -> tuple[Array, Any]:
    return _render_pallas(inputs, settings), inputs


def _backward(settings: Any, inputs: Any, cotangent: Array) -> tuple[Any]:
    """Return the gradients of the same functions, by XLA."""
    _, vjp = jax.vjp(lambda primal: _render_xla(primal, settings), inputs)
    return vjp(cotangent)


_render_pallas.defvjp(_forward, _backward)
