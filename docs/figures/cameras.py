"""The picture of docs/howto/cameras.md: what a camera gives of a gate, three objects and another drone."""

from pathlib import Path
from typing import Any

import numpy as np

import samara
from samara.core.atomic_files import atomic_write
from samara.scenario.file import parse_scenario
from samara.sim import PythonStage
from samara.view.plot.style import samara_style

YARD = """
name = "yard"
description = "a drone looks through a gate"
duration = 0.6
[light]
azimuth_deg = 130.0
elevation_deg = 50.0
[ground]
colour = "#6f7d55"
texture = "checker"
texture_colour = "#8a9a6b"
[[gates]]
name = "first"
centre = [4.0, 0.0, 1.5]
yaw_deg = 15.0
opening = [1.4, 1.4]
frame = [1.9, 1.9]
texture = "checker"
texture_colour = "#ffffff"
texture_size = 0.25
[[gates]]
name = "second"
centre = [9.0, -1.2, 2.0]
yaw_deg = -25.0
opening = [1.4, 1.4]
frame = [1.9, 1.9]
[[obstacles]]
name = "ball"
shape = "sphere"
centre = [5.5, 2.0, 1.2]
radius = 0.6
colour = "#0072b2"
texture = "stripes"
texture_size = 0.25
[[obstacles]]
name = "pole"
shape = "capsule"
start = [6.0, -2.6, 0.0]
end = [6.0, -2.6, 3.5]
radius = 0.12
colour = "#e69f00"
texture = "stripes"
[[obstacles]]
name = "crate"
shape = "box"
centre = [3.4, -1.7, 0.5]
size = [0.9, 0.9, 1.0]
rotation_deg = [0.0, 0.0, 30.0]
colour = "#cc79a7"
class = "crate"
[[drones]]
name = "one"
vehicle = "iris"
start = [0.0, 0.0, 1.4]
airborne = true
[[drones.sensors]]
part = "ov5647"
name = "eye"
width = 320
height = 200
fov_x = 1.4
fov_y = 0.99
delay = 0.0
outputs = ["rgb", "segmentation", "depth", "instance", "optical_flow", "gate_corners"]
[[drones.sensors]]
part = "ov9281"
name = "grey"
fov_x = 1.4
fov_y = 0.99
delay = 0.0
exposure = 0.7
gamma = 2
exposure_time = 0.03
motion_samples = 15
full_well = 400
k1 = -0.2
k2 = 0.03
[[drones.tasks]]
type = "hover"
at = [1.0, 0.6, 1.6]
[[drones]]
name = "two"
vehicle = "iris"
start = [3.2, 0.9, 2.2]
airborne = true
[[drones.tasks]]
type = "hover"
at = [3.2, -2.0, 2.2]
"""


class Photographer(PythonStage):
    """Copies the images of the first drone's cameras at every tick of the controllers."""

    rate = "control"

    def __init__(self) -> None:
        self.images: dict[str, Any] = {}

    def update(self, fleet: Any) -> None:
        self.images |= {name: array[0].copy() for group in fleet.groups for name, array in group.images.items()}


def draw_cameras(folder: Path) -> None:
    """Draw the images of one instant, and those of a blurred and noisy camera."""
    photographer = Photographer()
    scenario = parse_scenario(YARD, "yard.toml")
    run = samara.fly(scenario, stages=lambda standard: (*standard, photographer))
    images, corners = photographer.images, run.tables["eye"].rows[-1][1:].reshape(-1, 3)
    assert corners[:4, 2].sum() >= 3.0, corners
    view = next(drone for drone in scenario.drones if drone.sensors).sensors[0].model
    assert set(np.unique(images["eye/instance"]).tolist()) <= set(range(len(view.instance_names) + 2))
    flow = images["eye/optical_flow"]
    speed = np.hypot(flow[..., 0], flow[..., 1])
    with samara_style() as plt:
        figure, axes = plt.subplots(2, 3, figsize=(10.0, 4.6), layout="constrained")
        panels: list[tuple[str, Any, dict[str, Any]]] = [
            ("rgb and gate_corners", images["eye/rgb"], {}),
            (
                "segmentation",
                images["eye/segmentation"],
                {"cmap": "tab10", "vmin": 0, "vmax": 9, "interpolation": "none"},
            ),
            (
                "depth",
                np.where(images["eye/depth"] > 0, images["eye/depth"], np.nan),
                {"cmap": "viridis_r", "vmax": 12.0},
            ),
            ("rgb of one channel", images["grey/rgb"][..., 0], {"cmap": "gray", "vmin": 0, "vmax": 255}),
            ("instance", images["eye/instance"], {"cmap": "tab20", "vmin": 0, "vmax": 19, "interpolation": "none"}),
            ("optical_flow: its magnitude", speed, {"cmap": "magma"}),
        ]
        for axis, (title, image, options) in zip(axes.ravel(), panels, strict=True):
            axis.imshow(image, **options)
            axis.set_title(title)
            axis.set_axis_off()
        seen = corners[corners[:, 2] > 0.5]
        axes[0, 0].plot(seen[:, 0], seen[:, 1], "o", markersize=5, markerfacecolor="none", color="#000000")
        with atomic_write(folder / "cameras.png") as temporary:
            figure.savefig(temporary, format="png")
