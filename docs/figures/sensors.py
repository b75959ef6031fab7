"""The pictures of docs/reference/sensors.md: an Allan deviation, and what a depth camera and a lidar see."""

from pathlib import Path
from typing import Any

import numpy as np

import samara
from samara.compiler.compiled_step import CompiledStep
from samara.core.atomic_files import atomic_write
from samara.core.random import normals
from samara.core.tree import flatten
from samara.scenario.file import parse_scenario
from samara.sensors import RaySensor, allan_deviation, part
from samara.view.plot.style import samara_style

GARDEN = """
name = "garden"
description = "a drone looks about"
duration = 1.0

[[drones]]
name = "drone"
vehicle = "iris"
start = [0.0, 0.0, 1.5]
airborne = true
sensors = [
  { part = "d435", name = "camera", r_B = [0.1, 0.0, 0.0] },
  { part = "vlp-16", name = "lidar", columns = 180, r_B = [0.0, 0.0, 0.12] },
]
[[drones.tasks]]
type = "hover"
at = [0.0, 0.0, 1.5]

[[obstacles]]
name = "ball"
shape = "sphere"
centre = [4.0, 0.8, 1.6]
radius = 0.5

[[obstacles]]
name = "pole"
shape = "capsule"
start = [3.0, -0.8, 0.0]
end = [3.0, -0.8, 3.0]
radius = 0.12

[[obstacles]]
name = "crate"
shape = "box"
centre = [5.5, -0.3, 0.5]
size = [1.0, 1.6, 1.0]
rotation_deg = [0.0, 0.0, 25.0]
"""


def draw_allan(folder: Path) -> None:
    """Draw the Allan deviation of ten BMI088 over five hours.

    They are sampled once a second to be quick; so slowly the converter's steps would add to the noise, and are left out.
    """
    gyroscope = part("bmi088").parameters.gyroscope
    sensor = part("bmi088", rate=1.0, gyroscope={"resolution": 0.0}).sensor()
    vehicle = samara.vehicle("iris")
    state, command = samara.hover(vehicle)

    def sample(previous: Any, part_normals: Any) -> Any:
        """Return the next reading and drift of one part."""
        return sensor.measure(state, command, vehicle, samara.Environment(), part_normals, previous[1], 1.0)

    parts = np.arange(10)
    assert sensor.initial is not None
    turned_on = [sensor.initial(vehicle, normals(1, "start", k, 0, sensor.start_normals).tolist()) for k in parts]
    bench = CompiledStep(sample, (sensor.reading, turned_on[0]), (0.0,) * sensor.normals_needed).machine(len(parts))
    bench.carry[6:] = np.array([flatten(part_state) for part_state in turned_on]).T
    samples = np.empty((18_000, 6, 10))
    for second in range(len(samples)):
        bench.held_inputs[:] = normals(1, "noise", parts, second, sensor.normals_needed).T
        bench.run()
        samples[second] = bench.carry[:6]

    per_hour = np.degrees(3600.0)  # from rad/s to °/h
    times = np.unique(np.round(np.geomspace(1, 6000, 40)))
    deviations = allan_deviation(samples[:, 3], 1.0, times.tolist()) * per_hour
    rms_deviation = np.sqrt((deviations**2).mean(axis=1))
    noise = gyroscope.noise_density.x * per_hour / np.sqrt(times)
    floor = 0.664 * gyroscope.bias_instability * per_hour
    with samara_style() as plt:
        figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
        lines = axes.loglog(times, deviations, color="#9aa5b1", linewidth=0.8)
        axes.loglog(times, rms_deviation, color="#0072b2", label="ten parts together")
        lines[0].set_label("each part")
        axes.loglog(times, noise, "--", color="#d55e00", label="data sheet: noise 0.014 °/s/√Hz")
        axes.axhline(floor, linestyle=":", color="#009e73", label="data sheet: bias instability 2 °/h, times 0.664")
        axes.set(
            xlabel="averaging time τ [s]", ylabel="Allan deviation [°/h]", title="Gyroscope of the BMI088, five hours"
        )
        axes.legend()
        with atomic_write(folder / "sensors-allan.png") as temporary:
            figure.savefig(temporary, format="png")
    assert abs(rms_deviation[0] / noise[0] - 1.0) < 0.02, rms_deviation[0] / noise[0]


def draw_eyes(folder: Path) -> None:
    """Draw the picture of a depth camera and the points of a lidar in a garden."""
    run = samara.fly(parse_scenario(GARDEN, "garden.toml"))
    camera, lidar = run.tables["camera"], run.tables["lidar"]
    image = camera["depth"][-1].reshape(60, 80)
    assert camera.time[0] == 0.04 and 2.6 < image[30, 51] < 3.0, image[30, 51]  # the pole is right of the middle

    head = part("vlp-16", columns=180).parameters
    beams = RaySensor(head).beams.direction_S
    points_S = np.stack(beams, axis=1) * lidar["distance"][-1][:, None]
    points_S = points_S[lidar["distance"][-1] > 0.0]
    with samara_style() as plt:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
        shown = left.imshow(np.where(image > 0.0, image, np.nan), cmap="viridis_r", vmin=0.0, vmax=10.0)
        figure.colorbar(shown, ax=left, label="depth [m]", shrink=0.8)
        left.set(title="The camera's picture", xlabel="column", ylabel="row")
        left.grid(False)
        right.scatter(
            points_S[:, 0], points_S[:, 1], s=2.0, c=points_S[:, 2] + 1.62, cmap="viridis", vmin=0.0, vmax=2.5
        )
        right.plot(0.0, 0.0, "^", color="#d55e00")
        right.set(
            title="The lidar's points from above",
            xlabel="x [m]",
            ylabel="y [m]",
            xlim=(-2, 8),
            ylim=(-4, 4),
            aspect="equal",
        )
        with atomic_write(folder / "sensors-eyes.png") as temporary:
            figure.savefig(temporary, format="png")
