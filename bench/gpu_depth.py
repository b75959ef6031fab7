"""Measure depth images per second on a GPU: 64 × 48 pixels for 4096 drones among 20 solids over a plane, in float32.

A program renders images of all drones at successive poses, as in a flight, and returns all of them.

    PYTHONPATH=src python3 bench/gpu_depth.py --out bench/results/gpu_depth.json

needs NumPy and JAX only. Every row is one type of world: columns (capsules), boxes, spheres, or a forest of all three; shared
by all drones, or drawn for each drone. `kernel` is the code that intersects the solids, `dtype` the type of the images.
`instructions` are counted in the trace of one pixel; a product used by one sum only counts as one instruction with that sum.
`fraction_of_issue` compares the rate with the one at which the multiply-add units could issue them. `error` is the largest
difference from the same images in NumPy's float64, over the first drones, in millimetres. Rays that graze an edge appear in
`grazed`, the fraction of pixels that differ by more than a centimetre.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from timing import describe_results

from samara.compiler.jax.arrays import Launch
from samara.compiler.jax.folding_scalar import count_operations
from samara.core.algebra import Quat, Vec3, normalize, quat_from_euler
from samara.core.atomic_files import atomic_write
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.depth_jax import LAUNCH, depth_images
from samara.sensors.ray_sensors import Beam, RaySensor, beam_ray
from samara.sensors.sensor import AT_CENTRE
from samara.world.rays import first_hit_distance, hit_distance, ray_terms

CAMERA = DepthCameraPart(
    rate=50.0, delay=0.0, width=64.0, height=48.0, fov_x=1.5, fov_y=1.2, min_range=0.1, max_range=20.0, noise=0.0,
    noise_growth=0.0,
)  # fmt: skip
LANES = {"H200": 132 * 128 * 1.98e9, "H100": 132 * 128 * 1.98e9, "A100": 108 * 64 * 1.41e9}  # per second, float32
WORLD_TYPES = ("forest", "columns", "boxes", "spheres")
CHECKED_DRONES = 4
IMAGES_PER_DRONE = 20  # images of each drone in one program
REPEATS = 5


def world(world_type: str, count: int, drones: int | None, rng: Any) -> list[Any]:
    """Draw solids of one type, or of all types in turn; with `drones`, draw positions and sizes for each drone."""

    def draw(low: float, high: float) -> Any:
        return float(rng.uniform(low, high)) if drones is None else rng.uniform(low, high, drones).astype(np.float32)

    def draw_solid(solid_type: str) -> Any:
        x, y = draw(-15.0, 15.0), draw(-15.0, 15.0)
        if solid_type == "columns":
            return Capsule(Vec3(x, y, 0.0), Vec3(x, y, 6.0), draw(0.1, 0.4))
        if solid_type == "spheres":
            return Sphere(Vec3(x, y, draw(0.5, 4.0)), draw(0.2, 0.8))
        attitude = quat_from_euler(0.1, -0.2, float(rng.uniform(-3.0, 3.0)))
        return Box(Vec3(x, y, draw(0.5, 2.0)), Vec3(draw(0.2, 1.0), draw(0.2, 1.0), draw(0.2, 2.0)), attitude)

    solid_types = ("columns", "boxes", "spheres") if world_type == "forest" else (world_type,)
    return [draw_solid(solid_types[index % len(solid_types)]) for index in range(count)]


def poses(drones: int, rng: Any) -> State:
    """Draw poses of drones within the world, tilted as in flight; shape (images, drones)."""
    shape = IMAGES_PER_DRONE, drones
    p_W = Vec3(*(rng.uniform(low, high, shape) for low, high in ((-15.0, 15.0), (-15.0, 15.0), (0.5, 5.0))))
    yaw, half_tilts, zero = rng.uniform(-1.55, 1.55, shape), rng.uniform(-0.25, 0.25, (2, *shape)), np.zeros(shape)
    q_WB = normalize(
        Quat(np.cos(yaw), zero, zero, np.sin(yaw)) * Quat(zero + 1.0, *half_tilts, zero)
    )  # halves of angles
    return State(p_W, Vec3(zero, zero, zero), q_WB, Vec3(zero, zero, zero))


def to_float32(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if np.ndim(x) else float(x), tree)


def pixel_instructions(solids: Any) -> int:
    """Count the instructions of one pixel, without those that all pixels of a drone share."""
    p_W = Vec3(0.0, 0.0, 1.0)
    solid_terms = [
        jax.tree.map(lambda x: jnp.float32(np.ravel(x)[0]), ray_terms(p_W, terms)) for terms in (Ground(), *solids)
    ]

    def pixel(solid_terms: Any, q: Any, direction_S: Any) -> Any:
        state = State(p_W, Vec3(*np.zeros(3)), Quat(*q), Vec3(*np.zeros(3)))
        ray = beam_ray(state, AT_CENTRE, Beam(Vec3(*direction_S)))
        nearest = 1e9
        for terms in solid_terms:
            nearest = hit_distance(terms, ray.direction_W, nearest)
        return nearest

    ones = [jnp.float32(1.0)] * 4
    return count_operations(jax.make_jaxpr(pixel)(solid_terms, ones, ones[:3]).jaxpr).instructions


def reference_images(states: State, solids: Any) -> Any:
    """Compute the first images of the first drones by NumPy in float64."""
    images = []
    beams = RaySensor(CAMERA).beams
    for drone in range(CHECKED_DRONES):
        pick = lambda x, drone=drone: float(x[..., drone].ravel()[0]) if np.ndim(x) else float(x)  # noqa: E731
        state = jax.tree.map(pick, State(states.p_W, states.v_W, states.q_WB, states.omega_B))
        ray = beam_ray(state, AT_CENTRE, Beam(beams.direction_S))
        z = first_hit_distance(ray, [Ground(), *jax.tree.map(pick, list(solids))]) * beams.direction_S.x
        images.append(np.minimum(z, CAMERA.max_range).reshape(CAMERA.shape))
    return np.array(images)


def time_call(function: Any, *arguments: Any) -> tuple[float, Any]:
    """Return the seconds of a call and its result: the best of several rounds, each with enough calls to take 0.1 s."""
    result = jax.block_until_ready(function(*arguments))
    begin = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    calls = max(1, int(0.1 / max(time.perf_counter() - begin, 1e-5)))
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _ in range(calls):
            output = function(*arguments)
        jax.block_until_ready(output)
        best = min(best, (time.perf_counter() - begin) / calls)
    return best, result


def measure_case(
    args: argparse.Namespace, world_type: str, world_per_drone: bool, kernel: str, dtype: str, launch: Launch
) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    states, solids = (
        poses(args.drones, rng),
        world(world_type, args.solids, args.drones if world_per_drone else None, rng),
    )
    arguments = to_float32(states), to_float32(solids)

    def render(states: Any, solids: Any) -> Any:
        return jax.lax.map(
            lambda poses_now: depth_images(poses_now, solids, CAMERA, kernel=kernel, dtype=dtype, launch=launch), states
        )

    begin = time.perf_counter()
    compiled = jax.jit(render).lower(*arguments).compile()
    compile_seconds = time.perf_counter() - begin
    seconds, images = time_call(compiled, *arguments)
    differences = np.abs(np.asarray(images[0, :CHECKED_DRONES], np.float64) - reference_images(states, solids))
    images_per_second = IMAGES_PER_DRONE * args.drones / seconds
    instructions = pixel_instructions(solids)
    world_text = f"{world_type}, {'each its own' if world_per_drone else 'one for all'}"
    row = {
        "row": f"{world_text}, {kernel} {dtype}",
        "world": world_text,
        "kernel": kernel,
        "dtype": dtype,
        "launch": list(launch) if kernel == "pallas" else None,
        "images_per_second": images_per_second,
        "gigarays_per_second": images_per_second * CAMERA.width * CAMERA.height / 1e9,
        "instructions": instructions,
        "error_mm": float(1e3 * np.quantile(differences, 0.999)),
        "grazed": float((differences > 0.01).mean()),
        "compile_s": compile_seconds,
    }
    device = next((device_name for device_name in LANES if device_name in jax.devices()[0].device_kind), None)
    if device:
        row["fraction_of_issue"] = (
            row["images_per_second"] * CAMERA.width * CAMERA.height * instructions / LANES[device]
        )
    launch_text = "×".join(map(str, launch)) if kernel == "pallas" else ""
    print(
        f"{row['world']:24} {kernel:7} {dtype:8} {launch_text:10} {row['images_per_second'] / 1e6:8.3f} M images/s  "
        f"{row['gigarays_per_second']:8.1f} G rays/s  {row['error_mm']:.3f} mm  {row['grazed']:.1e} grazed  "
        f"{row.get('fraction_of_issue', 0.0):.0%} of issue, {instructions} instructions  compiled in {compile_seconds:.1f} s",
        flush=True,
    )
    return row


def measure_gradients(args: argparse.Namespace) -> dict[str, Any]:
    """Measure images with the gradient of their sum with respect to the positions and attitudes of the drones."""
    rng = np.random.default_rng(1)
    arguments = to_float32(poses(args.drones, rng)), to_float32(world("forest", args.solids, None, rng))

    def total(states: Any, solids: Any) -> Any:
        return jax.lax.map(lambda poses_now: depth_images(poses_now, solids, CAMERA).sum(), states).sum()

    seconds, _ = time_call(jax.jit(jax.grad(total)), *arguments)
    images_per_second = IMAGES_PER_DRONE * args.drones / seconds
    print(f"with gradients: {images_per_second / 1e6:.3f} M images/s", flush=True)
    return {"world": "forest, slopes", "images_per_second": images_per_second}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drones", type=int, default=4096)
    parser.add_argument("--solids", type=int, default=20)
    parser.add_argument("--world", nargs="+", choices=WORLD_TYPES, default=WORLD_TYPES, help="default: all types")
    parser.add_argument("--out", type=Path, help="JSON file for the rows")
    parser.add_argument("--launches", action="store_true", help="try other blocks and warps for the kernel")
    args = parser.parse_args()
    print(
        f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, {args.drones} drones, {args.solids} solids", flush=True
    )
    gpu = jax.default_backend() == "gpu"
    launches = [LAUNCH]
    if args.launches:
        launches += [
            Launch(b, w) for b, w in ((64, 1), (128, 1), (256, 1), (256, 2), (512, 1), (512, 2), (512, 4), (1024, 4))
        ]
    cases = [
        (world_type, world_per_drone, kernel, dtype, launch)
        for world_type in args.world
        for world_per_drone in (False, True)
        for kernel, dtype in (("pallas", "float32"), ("pallas", "float16"), ("xla", "float32"))
        for launch in (
            launches
            if kernel == "pallas" and (world_type, world_per_drone, dtype) == ("forest", False, "float32")
            else launches[:1]
        )
        if (gpu or kernel == "xla") and (dtype == "float32" or world_type == "forest")
    ]
    rows = []
    for case in cases:
        try:
            rows.append(measure_case(args, *case))
        except Exception as error:  # a case that does not fit must not lose the others
            print(f"{case}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    rows.append(measure_gradients(args))
    if args.out:
        header = describe_results("bench/gpu_depth.py: depth images on a GPU", jax.devices()[0].device_kind)
        document = {**header, "jax": jax.__version__, "drones": args.drones, "rows": rows}
        with atomic_write(args.out) as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
