"""The policy for every quadrotor inside PX4 and in our own hands: one reference, a table and a picture.

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
task = {{ kind = "figure8", centre = [0, 0, 3], reach = 2.0, speed = 1.5, laps = 2 }}
"""
GOOD = """
estimator = "truth"

[[drones.sensors]]
part = "bmi088"
rate = {rate}
residual = 0.0
gyroscope = {{ noise_density = 1e-6, bias_instability = 0.0 }}
accelerometer = {{ noise_density = 1e-5, bias_instability = 0.0 }}

[[drones.sensors]]
part = "bmm150"
rate = 50
residual = 0.0
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
WIND = 'wind = { kind = "constant", speed = 4.0, from_deg = 270 }'
HOVER, STEPS, EIGHT = (25.0, 45.0), (45.0, 55.0), (55.0, 80.0)  # [s]


def flown(vehicle: str = "iris", rate: int = 100, *, px4: bool, good: bool = True, wind: str = "") -> Run:
    """A flight by PX4's module at a rate of its turns, or by us, with sensors that err little or as usual"""
    sensors = GOOD.format(rate=rate) if px4 and good else ""
    text = SCENARIO.format(vehicle=vehicle, sensors=sensors, wind=wind)
    if not px4:
        text += f"\n[rates]\nautopilot = {rate}\n"
        return samara.fly(parse_scenario(text, "eight.toml"))
    autopilot = Autopilot("px4", binary=os.environ["SAMARA_PX4"], mode="raptor", rate=float(rate))
    return samara.fly(parse_scenario(text, "eight.toml"), autopilot=autopilot)


def within(run: Run, span: tuple[float, float]) -> Any:
    return (run.time >= span[0]) & (run.time < span[1])


def row(name: str, run: Run, beside: Run) -> str:
    """RMS of the error in each part [cm], of the way between both flights [cm], and what the motors do in hover"""
    errors = [100.0 * float(np.sqrt(np.mean(run.error[within(run, span)] ** 2))) for span in (HOVER, STEPS, EIGHT)]
    places = np.transpose([np.interp(run.time, beside.time, beside.position[:, k]) for k in range(3)])
    after = run.time > HOVER[0]
    apart = 100.0 * float(np.sqrt(np.mean(np.sum((run.position - places)[after] ** 2, axis=1))))
    time, command = commands(run)
    hovering = command[(time > HOVER[0]) & (time < HOVER[1])]
    spread = f"{hovering.mean():.2f} ± {hovering.std(axis=0).max():.2f}"
    return f"| {name} | {' | '.join(f'{own:.1f}' for own in errors)} | {apart:.1f} | {spread} |"


def commands(run: Run) -> tuple[Any, Any]:
    table = run.tracks[0].tables["command"]
    return np.asarray(table.time), table.rows


def draw(path: Path, flights: dict[str, Run]) -> None:
    """The figure of eight from above, the error over time, and a quarter of a second of a motor in hover"""
    with samara_style() as plt:
        figure, (above, error, motor) = plt.subplots(1, 3, figsize=(15.0, 4.6), layout="constrained")
        first = next(iter(flights.values()))
        asked = first.tracks[0].tables["reference"].rows[within(first, EIGHT), :2]
        above.plot(*asked.T, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), label="asked")
        for k, (name, run) in enumerate(flights.items()):
            style: dict[str, Any] = {"color": COLOURS[k], "linewidth": 1.2, "label": name}
            above.plot(*run.position[within(run, EIGHT), :2].T, **style)
            flying = run.time > 20.0
            error.plot(run.time[flying], 100.0 * run.error[flying], **style)
            time, command = commands(run)
            some = (time >= 40.0) & (time < 40.4)
            motor.step(time[some] - 40.0, command[some, 0], where="post", **style)
        above.set(title="Figure of eight at 1.5 m/s", xlabel="east [m]", ylabel="north [m]", aspect="equal")
        error.set(
            title="Hover, a step there and back, the eight", xlabel="time [s]", ylabel="error [cm]", ylim=(0.0, None)
        )
        motor.set(title="The first motor in hover", xlabel="time [s]", ylabel="command", ylim=(-0.02, 1.02))
        error.legend(loc="upper left", fontsize=8)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def main(folder: Path) -> None:
    """All flights, the table and the picture"""
    ours, fast = flown(px4=False), flown(px4=True, rate=400)
    theirs = flown(px4=True)
    print("| | hover | steps | eight | apart | motors |\n|---|---|---|---|---|---|")
    print(row("ours", ours, ours))
    print(row("PX4, 100 Hz", theirs, ours))
    print(row("PX4, 400 Hz", fast, ours))
    print(row("PX4, usual sensors", flown(px4=True, good=False), ours))
    blown = flown(px4=False, wind=WIND)
    print(row("ours, 4 m/s of wind", blown, blown))
    print(row("PX4, 4 m/s of wind", flown(px4=True, wind=WIND), blown))
    small = flown("crazyflie", px4=False)
    print(row("ours, `crazyflie`", small, small))
    print(row("PX4, `crazyflie`", flown("crazyflie", px4=True), small))
    draw(folder / "px4-policy.png", {"ours": ours, "in PX4, 100 Hz": theirs, "in PX4, 400 Hz": fast})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
