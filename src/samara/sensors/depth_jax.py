"""Depth pictures of thousands of drones at once, in JAX: to learn from, and to differentiate.

    images = depth_images(states, solids, camera)        # (drones, rows, columns) [m]

The rays are those of `samara.sensors.ray_sensors`, and so are the distances along them; there is no noise, and what
is farther than
the camera sees is at `farthest`. On a GPU it is one kernel (Pallas and Triton), each program of which has a tile of one picture
in its registers and passes over solids that cannot be in it; elsewhere, and for slopes, XLA goes through all of them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl

from samara.compiler.jax.arrays import Launch, triton_options
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.core.ops import lesser_of, where
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.types import State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.ray_sensors import Beam, Eye, ray_sent
from samara.sensors.sensor import AT_CENTRE, Mounting
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid, distance_along
from samara.world.rays import along, is_inside, kept_nan, reach, seen_from

FLAT = Ground()
LAUNCH = Launch(block=256, warps=1)
BITS = 32
ROOM = 1e-3  # of how far a camera sees: more than a radius found as √(m·m − c) is off in single precision
KERNELS = ("pallas", "xla")


def depth_images(
    states: State,
    solids: Sequence[Solid],
    camera: DepthCameraPart,
    *,
    mounting: Mounting = AT_CENTRE,
    ground: Ground | HeightMap | None = FLAT,
    dtype: str = "float32",
    kernel: str | None = None,
    launch: Launch = LAUNCH,
) -> Array:
    """z of every pixel of every drone's camera, (drones, rows, columns), at most `farthest`  [m]

    `states` has arrays (drones,) for the components of p_W and q_WB. So may the solids, where each drone flies in a world of
    its own; a number in them is the same for all. `dtype` is that of the pictures ("float16", "float32"). `kernel` is "pallas"
    or "xla", by default the first where there is a GPU and no height map. Slopes are those of the smooth surfaces: at an edge
    of what is seen there is none, and 0 where nothing is.
    """
    if kernel not in (*KERNELS, None):
        raise ValueError(f"kernel = {kernel!r}: expected one of {', '.join(map(repr, KERNELS))}, or None")
    if jnp.ndim(states.p_W.x) != 1:
        raise ValueError(
            f"states.p_W.x has the shape {jnp.shape(states.p_W.x)}; expected (drones,), one number for each"
        )
    solids = ((ground,) if ground is not None else ()) + tuple(solids)
    maps = tuple(own for own in solids if isinstance(own, HeightMap))
    if kernel is None:
        kernel = "pallas" if jax.default_backend() == "gpu" and not maps else "xla"
    if maps and kernel == "pallas":
        raise ValueError("kernel = 'pallas': a ray over a height map takes as many steps as it needs; expected 'xla'")
    given = (states.p_W, states.q_WB), [own for own in solids if own not in maps]
    if kernel == "pallas":
        return _by_pallas(given, (camera, mounting, dtype, launch))
    return _by_xla(given, (camera, mounting, dtype, launch), maps)


class _Pose(NamedTuple):
    """Of each drone's camera (drones,): where its rays start, how it is turned, and 0 where that is inside a solid."""

    start_W: Vec3
    q_WS: Quat
    nearest: Array


def _pose(given: Any, about: Any) -> tuple[_Pose, list[Any]]:
    """Where the cameras are, and what they see from there: of each kind of solid all, with numbers (solids, drones)"""
    (p_W, q_WB), solids = given
    _, mounting, _, _ = about
    start_W, nearest = p_W + rotate(q_WB, mounting.r_B), jnp.full(jnp.shape(p_W.x), NEVER, p_W.x.dtype)
    seen = [seen_from(start_W, own) for own in _of_each_kind(solids, p_W.x)]
    for own in seen:
        nearest = where(jnp.any(is_inside(own), axis=0), 0.0, nearest)
    full = [
        unflatten(own, iter(jnp.broadcast_arrays(*(jnp.asarray(x, p_W.x.dtype) for x in flatten(own))))) for own in seen
    ]
    return _Pose(start_W, q_WB * mounting.q_BS, nearest), full


def _of_each_kind(solids: Sequence[Any], like: Array) -> list[Any]:
    """One solid for each kind among them, all numbers of which are arrays (solids of it, drones)"""
    kinds: dict[type, list[Any]] = {}
    for own in solids:
        kinds.setdefault(type(own), []).append(
            [jnp.broadcast_to(jnp.asarray(x, like.dtype), like.shape) for x in flatten(own)]
        )
    templates = {type(own): own for own in solids}
    return [
        unflatten(templates[kind], iter([jnp.stack(leaves) for leaves in zip(*own, strict=True)]))
        for kind, own in kinds.items()
    ]


def _directions(camera: DepthCameraPart, kind: Any) -> Vec3:
    """Of every pixel (rows, columns), in the camera's axes"""
    return Vec3(*(np.asarray(leaf, kind).reshape(camera.shape) for leaf in Eye(camera).beams.direction_S))


def _z(ray: Ray, nearest: Array, forward: Array, farthest: float, dtype: str) -> Array:
    """Along the axis of the camera, and no farther than it sees"""
    z = kept_nan(ray, nearest) * forward
    return where(z > farthest, farthest, z).astype(dtype)


def _kept(tree: Any) -> Any:
    """What is computed before the pixels: fused with them it would be computed for every one"""
    return lax.optimization_barrier(tree)  # type: ignore[no-untyped-call]


def _column(tree: Any) -> Any:
    return unflatten(tree, iter([x[:, None] for x in flatten(tree)]))


def _by_xla(given: Any, about: Any, maps: Sequence[HeightMap] = ()) -> Array:
    """All drones and pixels as one array; what is seen from each drone is computed before, and kept"""
    camera, _, dtype, _ = about
    pose, kinds = _kept(_pose(given, about))
    direction_S = Vec3(*(x.ravel()[None] for x in _directions(camera, pose.nearest.dtype)))
    ray = ray_sent(State(_column(pose.start_W), ZERO, _column(pose.q_WS), ZERO), AT_CENTRE, Beam(direction_S))
    nearest = pose.nearest[:, None]
    for own in kinds:
        for k in range(len(flatten(own)[0])):
            nearest = along(unflatten(own, iter([x[k][:, None] for x in flatten(own)])), ray.direction_W, nearest)
    for hill in maps:
        nearest = lesser_of(distance_along(ray, hill), nearest)
    z = _z(ray, nearest, direction_S.x, camera.farthest, dtype)
    return jnp.broadcast_to(z, (len(pose.nearest), direction_S.x.size)).reshape(-1, *camera.shape)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _by_pallas(given: Any, about: Any) -> Array:
    """One program for a tile of one drone's picture: its rays in registers, solid after solid that may be in it"""
    camera, _, dtype, launch = about
    pose, kinds = _kept(_pose(given, about))
    drones, (rows, columns) = len(pose.nearest), camera.shape
    height, width = _tile(launch.block, rows, columns)
    missing = (0, -rows % height), (0, -columns % width)
    direction_S = np.stack([np.pad(x, missing, mode="edge") for x in _directions(camera, pose.nearest.dtype)])
    across = direction_S.shape[2] // width
    words = [_words(own, pose.q_WS, direction_S, (height, width), camera.farthest) for own in kinds]
    tables = [jnp.stack(flatten(own)) for own in kinds]

    def kernel(poses: Any, rays: Any, *others: Any) -> None:
        words, tables, image = others[: len(kinds)], others[len(kinds) : -1], others[-1]
        p_W, q_WS, inside = unflatten(pose, iter([poses[k, 0] for k in range(8)]))
        direction_S = Vec3(*(rays[k, :, :] for k in range(3)))
        ray = ray_sent(State(p_W, ZERO, q_WS, ZERO), AT_CENTRE, Beam(direction_S))
        nearest = jnp.broadcast_to(inside, (height, width))
        for template, word_of, table in zip(kinds, words, tables, strict=True):
            nearest = _nearest_of(template, table, word_of, ray.direction_W, nearest)
        image[0, :, :] = _z(ray, nearest, direction_S.x, camera.farthest, dtype)

    image = pl.pallas_call(
        kernel,
        grid=(drones, direction_S.shape[1] // height, across),
        in_specs=[
            pl.BlockSpec((8, 1), lambda i, j, k: (0, i)),
            pl.BlockSpec((3, height, width), lambda i, j, k: (0, j, k)),
            *(pl.BlockSpec((own.shape[0], 1, 1), lambda i, j, k: (0, i, j * across + k)) for own in words),
            *(pl.BlockSpec((*own.shape[:2], 1), lambda i, j, k: (0, 0, i)) for own in tables),
        ],
        out_specs=pl.BlockSpec((1, height, width), lambda i, j, k: (i, j, k)),
        out_shape=jax.ShapeDtypeStruct((drones, *direction_S.shape[1:]), dtype),  # type: ignore[no-untyped-call]
        interpret=jax.default_backend() == "cpu",
        name="depth",
        **triton_options(launch),
    )(jnp.stack(flatten(pose)), jnp.asarray(direction_S), *words, *tables)
    return image[:, :rows, :columns]


def _nearest_of(template: Any, table: Any, words: Any, direction_W: Vec3, nearest: Array) -> Array:
    """The least of `nearest` and of how far along its rays the solids of one kind are, whose bits are set"""
    for first in range(0, table.shape[1], BITS):
        word = words[first // BITS, 0, 0]

        def turn(k: Any, nearest: Array, first: int = first, word: Any = word) -> Array:
            def met(nearest: Array) -> Array:
                own = unflatten(template, iter([table[j, first + k, 0] for j in range(table.shape[0])]))
                return along(own, direction_W, nearest)

            return lax.cond((word >> k) & 1 > 0, met, lambda nearest: nearest, nearest)

        nearest = lax.fori_loop(np.int32(0), np.int32(min(BITS, table.shape[1] - first)), turn, nearest)
    return nearest


def _tile(block: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a tile of at most so many pixels, powers of two: about square, and no larger than the picture"""
    width = min(1 << -(-(block.bit_length() - 1) // 2), 1 << (columns - 1).bit_length())
    return min(block // width, 1 << (rows - 1).bit_length()), width


def _words(seen: Any, q_WS: Quat, direction_S: np.ndarray[Any, Any], tile: tuple[int, int], farthest: float) -> Array:
    """Bit k of a word: whether solid k may be in a tile, (words, drones, tiles)

    It is not where all of it is beyond one of the planes that bound what the tile shows: four through the camera, one across it
    and one as far as it sees. They leave a little room for rounding.
    """
    normals_S, beyond = _bounds(direction_S, tile, farthest)
    normals_W = _kept([rotate(_column(q_WS), Vec3(*(jnp.asarray(x[None]) for x in own))) for own in normals_S])
    each = unflatten(seen, iter([x[:, :, None] for x in flatten(seen)]))
    inside = jnp.ones((), bool)
    for normal_W, room in zip(normals_W, beyond, strict=True):
        inside = inside & (reach(each, normal_W) > -room - ROOM * farthest)
    count = len(flatten(seen)[0])
    inside = (
        jnp.broadcast_to(inside, (count, *inside.shape[1:])) if inside.ndim else jnp.ones((count, len(q_WS.w), 1), bool)
    )
    shifted = inside.astype(jnp.int32) << (np.arange(count, dtype=np.int32) % BITS)[:, None, None]
    return jnp.stack([shifted[k : k + BITS].sum(0, dtype=jnp.int32) for k in range(0, count, BITS)])


def _bounds(direction_S: np.ndarray[Any, Any], tile: tuple[int, int], farthest: float) -> tuple[list[Any], list[float]]:
    """n·x > −room for all that a tile shows, for each of six planes: n (3, tiles), and room"""
    height, width = tile
    x, y, z = direction_S.astype(float)

    def least(slope: Array) -> Array:
        rows, columns = slope.shape
        return slope.reshape(rows // height, height, columns // width, width).min((1, 3)).ravel()

    found = []
    for slope, axis in ((y / x, 1), (z / x, 2)):
        for sign in (1.0, -1.0):
            normal = np.zeros((3, least(slope).size))
            normal[0], normal[axis] = -least(sign * slope), sign
            found.append(normal / np.linalg.norm(normal, axis=0))
    for sign in (1.0, -1.0):
        found.append(np.repeat([[sign], [0.0], [0.0]], found[0].shape[1], axis=1))
    return [own.astype(direction_S.dtype) for own in found], [0.0] * 5 + [farthest]


def _forward(given: Any, about: Any) -> tuple[Array, Any]:
    return _by_pallas(given, about), given


def _backward(about: Any, given: Any, slope: Array) -> tuple[Any]:
    """The slopes of the same functions, by XLA"""
    _, pulled = jax.vjp(lambda own: _by_xla(own, about), given)
    return pulled(slope)


_by_pallas.defvjp(_forward, _backward)
