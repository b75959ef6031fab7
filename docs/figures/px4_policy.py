"""The universal quadrotor policy inside PX4 and in Samara: one reference, a table and a picture.

`SAMARA_PX4=…/bin/px4 PYTHONPATH=docs python -m figures.px4_policy docs/images` flies both, prints the table of the
documentation and draws its picture. It needs PX4 1.18 built by `make px4_sitl_raptor`.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import samara
from samara.core.atomic_files import atomic_write
from samara.record.run import Run
from samara.scenario.autopilot import Autopilot
from samara.scenario.file import parse_scenario
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import samara_style

SCENARIO = """
name = "eight"
duration = 80.0
{wind}

[[drones]]
name = "drone"
vehicle = "{vehicle}"
controller = "universal"
{sensors}

[[events]]
at = 0.0
do = "take_off"
height = 3.0

[[events]]
at = 45.0
do = "go_to"
p_W = [1, 0, 3]
speed = 1.0

[[events]]
at = 50.0
do = "go_to"
p_W = [0, 0, 3]
speed = 1.0

[[events]]
at = 55.0
do = "follow"
task = {{ type = "figure8", centre = [0, 0, 3], half_length = 2.0, speed = 1.5, laps = 2 }}
"""
IDEAL_SENSORS = """
estimator = "truth"

[[drones.sensors]]
part = "bmi088"
rate = {rate}
calibration_residual = 0.0
gyroscope = {{ noise_density = 1e-6, bias_instability = 0.0 }}
accelerometer = {{ noise_density = 1e-5, bias_instability = 0.0 }}

[[drones.sensors]]
part = "bmm150"
rate = 50
calibration_residual = 0.0
noise = 1e-9

[[drones.sensors]]
part = "bmp388"
drift = 0.0
noise = 0.01

[[drones.sensors]]
part = "neo-m9n"
horizontal_wander = 0.0
vertical_wander = 0.0
horizontal_noise = 1e-3
vertical_noise = 1e-3
velocity_noise = 1e-3
"""
WIND = 'wind = { model = "constant", speed = 4.0, from_deg = 270 }'
HOVER, STEPS, EIGHT = (25.0, 45.0), (45.0, 55.0), (55.0, 80.0)  # [s]


def fly_eight(vehicle: str = "iris", rate: int = 100, *, px4: bool, good: bool = True, wind: str = "") -> Run:
    """Fly with PX4's module at a control rate, or with Samara; with nearly ideal sensors or with the usual ones."""
    sensors = IDEAL_SENSORS.format(rate=rate) if px4 and good else ""
    text = SCENARIO.format(vehicle=vehicle, sensors=sensors, wind=wind)
    if not px4:
        text += f"\n[rates]\ncontrol = {rate}\n"
        return samara.fly(parse_scenario(text, "eight.toml"))
    autopilot = Autopilot("px4", binary=os.environ["SAMARA_PX4"], mode="raptor", rate=float(rate))
    return samara.fly(parse_scenario(text, "eight.toml"), autopilot=autopilot)


def in_span(run: Run, span: tuple[float, float]) -> Any:
    return (run.time >= span[0]) & (run.time < span[1])


def row(name: str, run: Run, other: Run) -> str:
    """Format RMS error in each phase [cm], RMS distance between both flights [cm], and motor commands in hover."""
    errors = [100.0 * float(np.sqrt(np.mean(run.error[in_span(run, span)] ** 2))) for span in (HOVER, STEPS, EIGHT)]
    other_positions = np.transpose([np.interp(run.time, other.time, other.position[:, k]) for k in range(3)])
    in_flight = run.time > HOVER[0]
    distance = 100.0 * float(np.sqrt(np.mean(np.sum((run.position - other_positions)[in_flight] ** 2, axis=1))))
    time, command = commands(run)
    hovering = command[(time > HOVER[0]) & (time < HOVER[1])]
    spread = f"{hovering.mean():.2f} ± {hovering.std(axis=0).max():.2f}"
    return f"| {name} | {' | '.join(f'{error:.1f}' for error in errors)} | {distance:.1f} | {spread} |"


def commands(run: Run) -> tuple[Any, Any]:
    table = run.drone_records[0].tables["command"]
    return np.asarray(table.time), table.rows


def draw(path: Path, flights: dict[str, Run]) -> None:
    """Plot the figure of eight from above, the error over time, and a motor command in hover."""
    with samara_style() as plt:
        figure, (top_view, error, motor) = plt.subplots(1, 3, figsize=(15.0, 4.6), layout="constrained")
        first_run = next(iter(flights.values()))
        reference = first_run.drone_records[0].tables["reference"].rows[in_span(first_run, EIGHT), :2]
        top_view.plot(*reference.T, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), label="reference")
        for k, (name, run) in enumerate(flights.items()):
            style: dict[str, Any] = {"color": COLOURS[k], "linewidth": 1.2, "label": name}
            top_view.plot(*run.position[in_span(run, EIGHT), :2].T, **style)
            flying = run.time > 20.0
            error.plot(run.time[flying], 100.0 * run.error[flying], **style)
            time, command = commands(run)
            in_window = (time >= 40.0) & (time < 40.4)
            motor.step(time[in_window] - 40.0, command[in_window, 0], where="post", **style)
        top_view.set(title="Figure of eight at 1.5 m/s", xlabel="east [m]", ylabel="north [m]", aspect="equal")
        error.set(title="Hover, step, figure of eight", xlabel="time [s]", ylabel="error [cm]", ylim=(0.0, None))
        motor.set(title="The first motor in hover", xlabel="time [s]", ylabel="command", ylim=(-0.02, 1.02))
        error.legend(loc="upper left", fontsize=8)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def main(folder: Path) -> None:
    """Fly all flights, print the table and draw the picture."""
    samara_run, px4_fast = fly_eight(px4=False), fly_eight(px4=True, rate=400)
    px4_run = fly_eight(px4=True)
    print("| | hover | steps | eight | distance | motors |\n|---|---|---|---|---|---|")
    print(row("Samara", samara_run, samara_run))
    print(row("PX4, 100 Hz", px4_run, samara_run))
    print(row("PX4, 400 Hz", px4_fast, samara_run))
    print(row("PX4, usual sensors", fly_eight(px4=True, good=False), samara_run))
    windy = fly_eight(px4=False, wind=WIND)
    print(row("Samara, 4 m/s of wind", windy, windy))
    print(row("PX4, 4 m/s of wind", fly_eight(px4=True, wind=WIND), windy))
    crazyflie = fly_eight("crazyflie", px4=False)
    print(row("Samara, `crazyflie`", crazyflie, crazyflie))
    print(row("PX4, `crazyflie`", fly_eight("crazyflie", px4=True), crazyflie))
    draw(folder / "px4-policy.png", {"Samara": samara_run, "PX4, 100 Hz": px4_run, "PX4, 400 Hz": px4_fast})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
