"""How many depth pictures a GPU takes: 64 × 48 pixels for 4096 drones among 20 solids over a plane, in float32.

A program takes pictures of all drones from one place after another, as a flight does, and keeps all of them.

    PYTHONPATH=src python3 bench/gpu_depth.py --out bench/results/gpu_depth.json

needs NumPy and JAX only. Every row is one kind of world: columns (capsules), boxes, spheres, or a forest of all three; the
same for all drones, or with places of their own for each. `kernel` says who goes through the solids, `dtype` what the pictures
are. `instructions` are counted in the trace of one pixel, a product that only one sum uses as one with that sum; beside the
rate stands what the multiply-add units could issue of them, were nothing else in the way. `error` is the largest difference
from the same pictures in NumPy's float64, of the first drones, in millimetres; rays that graze an edge are judged by `grazed`,
the share of pixels that differ by more than a centimetre.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samara.compiler.jax.arrays import Launch
from samara.compiler.jax.folding_scalar import count_operations
from samara.core.algebra import Quat, Vec3, normalize, quat_from_euler
from samara.core.atomic_files import atomic_write
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.depth_jax import LAUNCH, depth_images
from samara.sensors.ray_sensors import Beam, Eye, ray_sent
from samara.sensors.sensor import AT_CENTRE
from samara.world.rays import along, first_hit, seen_from

CAMERA = DepthCameraPart(
    rate=50.0, delay=0.0, width=64.0, height=48.0, view_x=1.5, view_y=1.2, nearest=0.1, farthest=20.0, noise=0.0,
    noise_growth=0.0,
)  # fmt: skip
LANES = {"H200": 132 * 128 * 1.98e9, "H100": 132 * 128 * 1.98e9, "A100": 108 * 64 * 1.41e9}  # per second, float32
CHECKED = 4
PICTURES = 20  # of each drone, one after the other in one program
REPEATS = 5


def world(kind: str, count: int, drones: int | None, rng: Any) -> list[Any]:
    """Solids of a kind, or of all in turn; with `drones` each of them has places of its own"""

    def numbers(low: float, high: float) -> Any:
        return float(rng.uniform(low, high)) if drones is None else rng.uniform(low, high, drones).astype(np.float32)

    def one(own: str) -> Any:
        x, y = numbers(-15.0, 15.0), numbers(-15.0, 15.0)
        if own == "columns":
            return Capsule(Vec3(x, y, 0.0), Vec3(x, y, 6.0), numbers(0.1, 0.4))
        if own == "spheres":
            return Sphere(Vec3(x, y, numbers(0.5, 4.0)), numbers(0.2, 0.8))
        turned = quat_from_euler(0.1, -0.2, float(rng.uniform(-3.0, 3.0)))
        return Box(Vec3(x, y, numbers(0.5, 2.0)), Vec3(numbers(0.2, 1.0), numbers(0.2, 1.0), numbers(0.2, 2.0)), turned)

    kinds = ("columns", "boxes", "spheres") if kind == "forest" else (kind,)
    return [one(kinds[k % len(kinds)]) for k in range(count)]


def poses(drones: int, rng: Any) -> State:
    """Drones within the world, tilted as in flight, (pictures, drones)"""
    shape = PICTURES, drones
    p_W = Vec3(*(rng.uniform(low, high, shape) for low, high in ((-15.0, 15.0), (-15.0, 15.0), (0.5, 5.0))))
    yaw, lean, zero = rng.uniform(-1.55, 1.55, shape), rng.uniform(-0.25, 0.25, (2, *shape)), np.zeros(shape)
    q_WB = normalize(Quat(np.cos(yaw), zero, zero, np.sin(yaw)) * Quat(zero + 1.0, *lean, zero))  # halves of angles
    return State(p_W, Vec3(zero, zero, zero), q_WB, Vec3(zero, zero, zero))


def in_float32(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if np.ndim(x) else float(x), tree)


def one_pixel(solids: Any) -> int:
    """Instructions of one pixel, what all pixels of a drone share left out"""
    p_W = Vec3(0.0, 0.0, 1.0)
    seen = [jax.tree.map(lambda x: jnp.float32(np.ravel(x)[0]), seen_from(p_W, own)) for own in (Ground(), *solids)]

    def pixel(seen: Any, q: Any, direction_S: Any) -> Any:
        straight = State(p_W, Vec3(*np.zeros(3)), Quat(*q), Vec3(*np.zeros(3)))
        ray = ray_sent(straight, AT_CENTRE, Beam(Vec3(*direction_S)))
        nearest = 1e9
        for own in seen:
            nearest = along(own, ray.direction_W, nearest)
        return nearest

    ones = [jnp.float32(1.0)] * 4
    return count_operations(jax.make_jaxpr(pixel)(seen, ones, ones[:3]).jaxpr).instructions


def reference(states: State, solids: Any) -> Any:
    """The first pictures of the first drones, by NumPy in float64"""
    found = []
    beams = Eye(CAMERA).beams
    for k in range(CHECKED):
        pick = lambda x, k=k: float(x[..., k].ravel()[0]) if np.ndim(x) else float(x)  # noqa: E731
        own = jax.tree.map(pick, State(states.p_W, states.v_W, states.q_WB, states.omega_B))
        ray = ray_sent(own, AT_CENTRE, Beam(beams.direction_S))
        z = first_hit(ray, [Ground(), *jax.tree.map(pick, list(solids))]) * beams.direction_S.x
        found.append(np.minimum(z, CAMERA.farthest).reshape(CAMERA.shape))
    return np.array(found)


def timed(function: Any, *given: Any) -> tuple[float, Any]:
    """Seconds of a call, the best of some rounds, each of so many calls as to take a tenth of a second"""
    found = jax.block_until_ready(function(*given))
    begun = time.perf_counter()
    jax.block_until_ready(function(*given))
    calls = max(1, int(0.1 / max(time.perf_counter() - begun, 1e-5)))
    best = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        for _ in range(calls):
            last = function(*given)
        jax.block_until_ready(last)
        best = min(best, (time.perf_counter() - begun) / calls)
    return best, found


def measured(
    args: argparse.Namespace, kind: str, own_worlds: bool, kernel: str, dtype: str, launch: Launch
) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    states, solids = poses(args.drones, rng), world(kind, args.solids, args.drones if own_worlds else None, rng)
    given = in_float32(states), in_float32(solids)

    def look(states: Any, solids: Any) -> Any:
        return jax.lax.map(
            lambda now: depth_images(now, solids, CAMERA, kernel=kernel, dtype=dtype, launch=launch), states
        )

    begun = time.perf_counter()
    compiled = jax.jit(look).lower(*given).compile()
    compiling = time.perf_counter() - begun
    seconds, images = timed(compiled, *given)
    apart = np.abs(np.asarray(images[0, :CHECKED], np.float64) - reference(states, solids))
    taken = PICTURES * args.drones / seconds
    instructions = one_pixel(solids)
    row = {
        "world": f"{kind}, {'each its own' if own_worlds else 'one for all'}",
        "kernel": kernel,
        "dtype": dtype,
        "launch": list(launch) if kernel == "pallas" else None,
        "images_per_second": taken,
        "gigarays_per_second": taken * CAMERA.width * CAMERA.height / 1e9,
        "instructions": instructions,
        "error_mm": float(1e3 * np.quantile(apart, 0.999)),
        "grazed": float((apart > 0.01).mean()),
        "compile_s": compiling,
    }
    name = next((own for own in LANES if own in jax.devices()[0].device_kind), None)
    if name:
        row["share_of_issue"] = row["images_per_second"] * CAMERA.width * CAMERA.height * instructions / LANES[name]
    cut = "×".join(map(str, launch)) if kernel == "pallas" else ""
    print(
        f"{row['world']:24} {kernel:7} {dtype:8} {cut:10} {row['images_per_second'] / 1e6:8.3f} M images/s  "
        f"{row['gigarays_per_second']:8.1f} G rays/s  {row['error_mm']:.3f} mm  {row['grazed']:.1e} grazed  "
        f"{row.get('share_of_issue', 0.0):.0%} of issue, {instructions} instructions  compiled in {compiling:.1f} s",
        flush=True,
    )
    return row


def slopes(args: argparse.Namespace) -> dict[str, Any]:
    """Pictures and the slope of their sum with the drones' places and attitudes"""
    rng = np.random.default_rng(1)
    given = in_float32(poses(args.drones, rng)), in_float32(world("forest", args.solids, None, rng))

    def total(states: Any, solids: Any) -> Any:
        return jax.lax.map(lambda now: depth_images(now, solids, CAMERA).sum(), states).sum()

    seconds, _ = timed(jax.jit(jax.grad(total)), *given)
    taken = PICTURES * args.drones / seconds
    print(f"with slopes: {taken / 1e6:.3f} M images/s", flush=True)
    return {"world": "forest, slopes", "images_per_second": taken}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drones", type=int, default=4096)
    parser.add_argument("--solids", type=int, default=20)
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
        (kind, own, kernel, dtype, launch)
        for kind in ("forest", "columns", "boxes", "spheres")
        for own in (False, True)
        for kernel, dtype in (("pallas", "float32"), ("pallas", "float16"), ("xla", "float32"))
        for launch in (
            launches if kernel == "pallas" and (kind, own, dtype) == ("forest", False, "float32") else launches[:1]
        )
        if (gpu or kernel == "xla") and (dtype == "float32" or kind == "forest")
    ]
    rows = []
    for case in cases:
        try:
            rows.append(measured(args, *case))
        except Exception as error:  # one that does not fit is no reason to lose the others
            print(f"{case}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    rows.append(slopes(args))
    if args.out:
        told = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "drones": args.drones, "rows": rows}
        with atomic_write(args.out) as temporary:
            temporary.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
