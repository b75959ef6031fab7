"""Images of thousands of drones' cameras at once, in JAX: for training.

    images = camera_images(states, model)       # {"rgb": (drones, rows, columns, 3), "segmentation": (drones, rows, columns),
    …}

The equations are those of `samara.sensors.camera.render_camera`. XLA evaluates every surface for every pixel.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.compiler.jax.arrays import expand_to, materialise, stack_last
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.types import State
from samara.sensors.camera import CameraModel, SeenDrone, luminance, scene_looks
from samara.sensors.pixels import Look, View, depth, expose, optical_flow, see_sky, see_surface, vignetting_gain
from samara.sensors.ray_sensors import Beam, beam_ray, emission_pose
from samara.world.appearance import CameraSurface
from samara.world.obstacles import HeightMap, Ray, Solid
from samara.world.rays import surface_hit


def camera_images(
    states: State,
    model: CameraModel,
    *,
    surfaces: Sequence[CameraSurface] = (),
    ground: Ground | HeightMap | None = None,
    drones: Sequence[SeenDrone] = (),
    normals: Scalar = None,
) -> dict[str, Scalar]:
    """Render the images of all drones' cameras: the arrays of `model.images`, with the drones first.

    Args:
        states: arrays (drones,) for the components of p_W, v_W, q_WB and omega_B.
        model: the camera, with the scene that all drones see.
        surfaces: further surfaces, whose solids have numbers, or arrays (drones,) if each drone flies in a different world;
        their
            instances follow those of the scene, and their classes are among those of the scene.
        ground: the ground if the scene has none; the plane z = 0 by default.
        drones: other drones, with arrays (drones,).
        normals: standard normals (drones, channels, rows, columns) of the noise of `rgb`; None for no noise.
    """
    if np.ndim(states.p_W.x) != 1:
        raise ValueError(
            f"states.p_W.x has the shape {np.shape(states.p_W.x)}; expected (drones,), one number for each"
        )
    part, scene = model.part, model.scene
    looks = [(solid or ground or Ground(), look) for solid, look in scene_looks(scene)]
    for k, surface in enumerate(surfaces):
        instance = float(len(scene.instance_names) + k)
        class_number = float(scene.class_number(surface.appearance))
        looks.append((surface.solid, Look(surface.appearance, instance, class_number)))
    samples = int(part.motion_samples)
    middle, radiance, images = (samples - 1) // 2, ZERO, {}
    for k in range(samples) if "rgb" in part.outputs else (middle,):
        ages = part.row_ages(k)
        view, d_S, state = _see(states, model, ages if part.row_time > 0.0 else ages[:1], looks, drones)
        radiance = radiance + view.radiance
        if k == middle:
            images = _geometry(view, d_S, state, model)
    if "rgb" in part.outputs:
        images["rgb"] = _grey_levels(radiance / float(samples), d_S, model, normals)
    count, shape = len(states.p_W.x), part.shape
    results = {}
    for image in model.images:
        array = expand_to(images[image.name], (count, *shape, *image.shape[2:]))
        results[image.name] = array.astype(states.p_W.x.dtype if image.dtype == "float32" else image.dtype)
    return results


def _see(
    states: State,
    model: CameraModel,
    ages: Array,
    looks: Sequence[tuple[Solid, Look]],
    drones: Sequence[SeenDrone],
) -> tuple[View, Vec3, State]:
    """Return the views (drones, rows, columns), the directions of the pixels, and the states when each row is exposed."""
    float_type = states.p_W.x.dtype
    age = ages.astype(float_type)[None, :, None] if np.any(ages) else 0.0
    state = _column(states)
    p_W, q_WB = emission_pose(state, age)
    start = beam_ray(state._replace(p_W=p_W, q_WB=q_WB), model.mounting, Beam(Vec3(1.0, 0.0, 0.0))).p_W
    origin_W, q_WS = materialise((start, q_WB * model.mounting.q_BS))
    rows, columns = model.part.shape
    d_S = Vec3(*(x.reshape(1, rows, columns).astype(float_type) for x in model.directions))
    ray = beam_ray(State(origin_W, ZERO, q_WS, ZERO), type(model.mounting)(ZERO, IDENTITY), Beam(d_S))
    view = see_sky(ray.direction_W, model.scene.light)
    for solid, look in (*looks, *(_column(drone).box(age) for drone in drones)):
        placed = solid if isinstance(solid, HeightMap) else _column(solid)
        view = see_surface(
            view, surface_hit(Ray(origin_W, ray.direction_W), placed, view.distance), ray, look, model.scene.light
        )
    return view, d_S, state._replace(p_W=p_W, q_WB=q_WB)


def _geometry(view: View, d_S: Vec3, state: State, model: CameraModel) -> dict[str, Scalar]:
    flow = optical_flow(view, d_S, state, model.mounting, model.part.camera)
    return {
        "segmentation": view.class_number,
        "instance": view.instance,
        "depth": depth(view, d_S, model.part.max_range),
        "optical_flow": stack_last(flow),
    }


def _grey_levels(radiance: Vec3, d_S: Vec3, model: CameraModel, normals: Scalar) -> Scalar:
    part = model.part
    channels = tuple(radiance) if part.channels == 3.0 else (luminance(radiance),)
    gain, noise = (
        part.exposure * vignetting_gain(d_S, part.vignetting),
        part.noise if normals is not None else (0.0, 0.0),
    )
    levels = [
        expose(channel, gain, 0.0 if normals is None else normals[:, k], *noise, part.gamma)
        for k, channel in enumerate(channels)
    ]
    return stack_last(levels)


def _column(tree: Any) -> Any:
    """Return a tree whose arrays (drones,) are (drones, 1, 1)."""
    return unflatten(tree, iter([x[:, None, None] if np.ndim(x) else x for x in flatten(tree)]))
