"""Depth pictures of thousands of drones at once, in JAX: to learn from, and to differentiate.

    images = depth_images(states, solids, camera)        # (drones, rows, columns) [m]

The rays are those of `samara.sensors.eyes`, and so are the distances along them; there is no noise, and what is farther than
the camera sees is at `farthest`. On a GPU all solids are gone through in one kernel (Pallas and Triton), each program with the
pixels of one drone in its registers; elsewhere, and for slopes, XLA does it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from samara.backends.pallas import Launch, compiler_options
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.core.ops import lesser_of, where
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.types import State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.eyes import Beam, Eye, ray_sent
from samara.sensors.sensor import AT_CENTRE, Mounting
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid, distance_along
from samara.world.rays import along, is_inside, kept_nan, seen_from

Array = Any

FLAT = Ground()
LAUNCH = Launch(block=1024, warps=4)
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


def _parts(given: Any, about: Any) -> tuple[tuple[Vec3, Quat, Array], list[Any], Vec3]:
    """What a picture needs: for each drone the start of its rays, the turn of its camera and 0 where it is inside a solid
    (drones,), and what is seen from there; for each pixel a direction (pixels,)"""
    (p_W, q_WB), solids = given
    camera, mounting, _, _ = about
    kind = jnp.result_type(p_W.x)
    drones = len(p_W.x)
    q_WS = q_WB * mounting.q_BS
    start_W = p_W + rotate(q_WB, mounting.r_B)
    seen = [seen_from(start_W, own) for own in solids]
    nearest = jnp.full((drones,), NEVER, kind)
    for own in seen:
        nearest = where(is_inside(own), 0.0, nearest)
    full = [
        unflatten(own, iter([jnp.broadcast_to(jnp.asarray(x, kind), (drones,)) for x in flatten(own)])) for own in seen
    ]
    direction_S = Vec3(*(np.asarray(leaf, kind) for leaf in Eye(camera).beams.direction_S))
    return (start_W, q_WS, nearest), full, direction_S


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
    pose, seen, direction_S = _parts(given, about)
    (start_W, q_WS, nearest), seen = _kept((pose, seen))
    ray = ray_sent(
        State(_column(start_W), ZERO, _column(q_WS), ZERO), AT_CENTRE, Beam(Vec3(*(x[None] for x in direction_S)))
    )
    nearest = nearest[:, None]
    for own in seen:
        nearest = along(_column(own), ray.direction_W, nearest)
    for own in maps:
        nearest = lesser_of(distance_along(ray, own), nearest)
    z = _z(ray, nearest, direction_S.x[None], camera.farthest, dtype)
    return jnp.broadcast_to(z, (len(start_W.x), direction_S.x.size)).reshape(-1, *camera.shape)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _by_pallas(given: Any, about: Any) -> Array:
    """One program for some pixels of one drone: their rays in registers, solid after solid of each kind"""
    camera, _, dtype, launch = about
    pose, seen, direction_S = _parts(given, about)
    drones, pixels = len(pose[0].x), direction_S.x.size
    block = min(launch.block, 1 << (pixels - 1).bit_length())
    missing = -pixels % block
    kinds: dict[type, list[Any]] = {}
    for own in seen:
        kinds.setdefault(type(own), []).append(own)
    tables = [jnp.stack([jnp.stack(flatten(each), axis=-1) for each in own], axis=1) for own in kinds.values()]
    templates = [own[0] for own in kinds.values()]
    poses = jnp.stack(flatten(pose), axis=-1)
    rays = jnp.asarray(np.pad(np.stack(direction_S), ((0, 0), (0, missing)), mode="edge"))

    def kernel(poses: Any, rays: Any, *others: Any) -> None:
        *tables, image = others
        p_W, q_WS, inside = unflatten(pose, iter([poses[0, k] for k in range(8)]))
        direction_S = Vec3(*(rays[k, :] for k in range(3)))
        ray = ray_sent(State(p_W, ZERO, q_WS, ZERO), AT_CENTRE, Beam(direction_S))
        nearest = jnp.broadcast_to(inside, (block,))
        for template, table in zip(templates, tables, strict=True):

            def turn(s: Any, nearest: Any, template: Any = template, table: Any = table) -> Any:
                own = unflatten(template, iter([table[0, s, k] for k in range(table.shape[2])]))
                return along(own, ray.direction_W, nearest)

            nearest = lax.fori_loop(np.int32(0), np.int32(table.shape[1]), turn, nearest)
        image[0, :] = _z(ray, nearest, direction_S.x, camera.farthest, dtype)

    image = pl.pallas_call(
        kernel,
        grid=(drones, (pixels + missing) // block),
        in_specs=[
            pl.BlockSpec((1, 8), lambda i, j: (i, 0)),
            pl.BlockSpec((3, block), lambda i, j: (0, j)),
            *(pl.BlockSpec((1, *own.shape[1:]), lambda i, j: (i, 0, 0)) for own in tables),
        ],
        out_specs=pl.BlockSpec((1, block), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((drones, pixels + missing), dtype),  # type: ignore[no-untyped-call]
        interpret=jax.default_backend() == "cpu",
        name="depth",
        **compiler_options(launch),
    )(poses, rays, *tables)
    return image[:, :pixels].reshape(-1, *camera.shape)


def _forward(given: Any, about: Any) -> tuple[Array, Any]:
    return _by_pallas(given, about), given


def _backward(about: Any, given: Any, slope: Array) -> tuple[Any]:
    """The slopes of the same functions, by XLA"""
    _, pulled = jax.vjp(lambda own: _by_xla(own, about), given)
    return pulled(slope)


_by_pallas.defvjp(_forward, _backward)
