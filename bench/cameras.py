"""Measure images per second of cameras: among 20 solids and 4 gates over a plane, on the CPU and, with `--jax`, by JAX.

    PYTHONPATH=src:bench python3 bench/cameras.py --out bench/results/cameras.json

A row is one camera and one batch size. `images_per_second` is by the clock; `cpu_ms` is the processor time of an image, of all
threads together, which other programs on the machine hardly change. The poses differ between images, as in flight.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import describe_results

from samara.compiler.thread_pool import max_threads
from samara.core.algebra import Quat, Vec3, normalize, quat_from_euler
from samara.core.atomic_files import atomic_write
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.scenario.world import Obstacle, World, camera_scene, gate_obstacles
from samara.sensors.camera import CameraModel, CameraPart
from samara.sim.camera_images import ImageRenderer, Noise
from samara.world.appearance import Appearance, CameraScene, PlacedGate
from samara.world.gates import Gate, GateSize

WIDE = CameraPart(30.0, 0.0, 320.0, 180.0, 1.5, 0.93)
SMALL = CameraPart(30.0, 0.0, 64.0, 48.0, 1.5, 1.2, ("segmentation", "depth"))
CAMERAS = {
    "rgb 320 x 180": WIDE,
    "rgb 320 x 180 with noise and lens": WIDE._replace(full_well=5000.0, read_noise=5.0, k1=-0.1, vignetting=0.7),
    "rgb 320 x 180, rolling shutter": WIDE._replace(row_time=5e-5),
    "segmentation and depth 64 x 48": SMALL,
    "rgb 64 x 48": SMALL._replace(outputs=("rgb",)),
}
BATCHES = (1, 64)
SETS = 20  # sets of poses that a row takes in turn
ROUNDS = 10


def scene(rng: Any) -> CameraScene:
    """Draw twenty columns, boxes and balls, half of them with a texture, and four gates."""
    obstacles: list[Obstacle] = []
    for k in range(20):
        x, y = rng.uniform(-15.0, 15.0, 2).tolist()
        if k % 3 == 0:
            solid: Any = Capsule(Vec3(x, y, 0.0), Vec3(x, y, 6.0), float(rng.uniform(0.1, 0.4)))
        elif k % 3 == 1:
            attitude = quat_from_euler(0.1, -0.2, float(rng.uniform(-3.0, 3.0)))
            solid = Box(Vec3(x, y, float(rng.uniform(0.5, 2.0))), Vec3(*rng.uniform(0.2, 1.0, 3).tolist()), attitude)
        else:
            solid = Sphere(Vec3(x, y, float(rng.uniform(0.5, 4.0))), float(rng.uniform(0.2, 0.8)))
        texture = ("plain", "plain", "checker", "stripes")[k % 4]
        obstacles.append(Obstacle(str(k), solid, appearance=Appearance(texture=texture)))
    gates = []
    for k in range(4):
        pose = Gate(Vec3(*rng.uniform([-10.0, -10.0, 1.5], [10.0, 10.0, 2.5]).tolist()), float(rng.uniform(-3.0, 3.0)))
        gates.append(PlacedGate(f"gate{k}", pose, GateSize((1.4, 1.4), (1.9, 1.9))))
        obstacles += gate_obstacles(gates[-1])
    return camera_scene(World(tuple(obstacles), gates=tuple(gates)), Ground())


def motions(n: int, rng: Any) -> Any:
    """Draw motions (13, n) among the solids, tilted as in flight."""
    p_W = rng.uniform([-10.0, -10.0, 1.0], [10.0, 10.0, 3.0], (n, 3)).T
    yaw, half_tilts = rng.uniform(-1.55, 1.55, n), rng.uniform(-0.15, 0.15, (2, n))
    zero = np.zeros(n)
    q_WB = normalize(Quat(np.cos(yaw), zero, zero, np.sin(yaw)) * Quat(zero + 1.0, half_tilts[0], half_tilts[1], zero))
    return np.stack([*p_W, *rng.uniform(-3.0, 3.0, (3, n)), *q_WB, *rng.uniform(-1.0, 1.0, (3, n))])


def measure(name: str, n: int) -> dict[str, Any]:
    """Return the row of a camera at a batch size: the best of several rounds."""
    rng = np.random.default_rng(3)
    renderer = ImageRenderer(CameraModel(CAMERAS[name], scene=scene(rng)))
    sets, plane = [motions(n, rng) for _ in range(SETS)], np.zeros((6, n))
    noise = Noise("bench", [1] * n, list(range(n)), 5)
    renderer.render(sets[0], plane, (), noise)
    seconds = cpu = float("inf")
    for _ in range(ROUNDS):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        for chosen in sets:
            renderer.render(chosen, plane, (), noise)
        seconds = min(seconds, (time.perf_counter() - begin) / SETS / n)
        cpu = min(cpu, (time.process_time() - cpu_begin) / SETS / n)
    row = {"row": f"{name}, {n}", "camera": name, "batch": n, "images_per_second": 1.0 / seconds, "cpu_ms": 1e3 * cpu}
    print(f"{name:36} {n:5}  {1.0 / seconds:10,.0f} images/s  {1e3 * cpu:.3f} ms of the processor", flush=True)
    return row


def measure_jax(name: str, n: int) -> dict[str, Any]:
    """Return the row of the same images by JAX, in float32."""
    import jax

    from samara.core.tree import unflatten
    from samara.physics.types import State
    from samara.sensors.camera_jax import camera_images

    rng = np.random.default_rng(3)
    model = CameraModel(CAMERAS[name], scene=scene(rng))
    zero = Vec3(0.0, 0.0, 0.0)
    template = State(zero, zero, Quat(1.0, 0.0, 0.0, 0.0), zero)
    states = unflatten(template, iter(jax.numpy.asarray(motions(n, rng), "float32")))
    render = jax.jit(lambda states: camera_images(states, model))
    jax.block_until_ready(render(states))  # type: ignore[no-untyped-call]
    seconds = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        jax.block_until_ready(render(states))  # type: ignore[no-untyped-call]
        seconds = min(seconds, (time.perf_counter() - begin) / n)
    device = jax.devices()[0].device_kind
    print(f"{name:36} {n:5}  {1.0 / seconds:10,.0f} images/s by JAX on {device}", flush=True)
    return {
        "row": f"{name}, {n}, JAX",
        "camera": name,
        "batch": n,
        "device": device,
        "images_per_second": 1.0 / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", type=int, default=0, metavar="N", help="also measure batches of N by JAX")
    parser.add_argument("--out", type=Path, help="JSON file for the rows")
    args = parser.parse_args()
    rows = [measure(name, n) for name in CAMERAS for n in BATCHES]
    rows += [measure_jax(name, args.jax) for name in CAMERAS if args.jax]
    if args.out:
        header = describe_results("bench/cameras.py: images of cameras")
        document = {**header, "threads": max_threads(), "rows": rows}
        with atomic_write(args.out) as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
