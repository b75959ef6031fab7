"""The forest of a seed as a scenario, to be flown with everything a flight has: noise of the camera, strikes of propellers.

Path("forest.toml").write_text(forest_toml(7))
samara fly forest.toml --controller policy/     # or the one that comes with Samara
"""

import numpy as np

from samara.learn.task import Draw, craft_for, kinds_drawn
from samara.learn.tasks.navigate import GOAL_W, HIGH, TASK
from samara.physics.types import State

DRONE = """\
schema = 1
name = "forest"
description = "{goal:g} m through forest {seed}, by what a depth camera sees"
duration = {seconds:g}

[[drones]]
name = "drone"
vehicle = "{vehicle}"
start = {start}
airborne = true
controller = "navigate"
sensors = [{{ part = "d435", name = "camera", width = 64, height = 48, nearest = 0.05 }}]

[[drones.tasks]]              # the goal is there at once: the policy finds its own way
kind = "line"
to = {to}
speed = 100.0
acceleration = 1000.0
"""
COLUMN = """
[[solids]]
name = "column {k}"
kind = "capsule"
a = [{x:.3f}, {y:.3f}, 0.0]
b = [{x:.3f}, {y:.3f}, {high:g}]
radius = {radius:.3f}
"""


def forest_toml(seed: int, vehicle: str = "crazyflie") -> str:
    """A scenario file: where the task `navigate` starts with a seed's numbers, at rest, and its columns"""
    draw, craft = np.random.default_rng(seed), craft_for(vehicle)
    kinds = kinds_drawn(TASK, craft)
    numbers = [float(draw.random() if kind == "uniform" else draw.standard_normal()) for kind in kinds]
    start, goal = TASK.reset(Draw(iter(numbers)), craft)
    assert isinstance(start, State)
    about = {"goal": GOAL_W.x, "seed": seed, "seconds": TASK.seconds, "vehicle": vehicle}
    text = DRONE.format(**about, start=_three(start.p_W), to=_three(GOAL_W))
    columns = (COLUMN.format(k=k, high=HIGH + 3.0, **own._asdict()) for k, own in enumerate(goal.columns))
    return text + "".join(columns)


def _three(p_W: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{float(x):.3f}' for x in p_W)}]"
