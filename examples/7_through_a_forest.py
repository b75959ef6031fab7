"""A scenario with the forest that the task `navigate` draws from a seed, flown by what a depth camera sees."""

from pathlib import Path

import numpy as np

from samara.learn.tasks import Draw, craft_for
from samara.learn.tasks.navigate import GOAL_W, HIGH, TASK

SCENARIO = """
schema = 1
name = "forest"
duration = {seconds:g}
[[drones]]
name = "drone"
vehicle = "{vehicle}"
start = {start}
airborne = true
controller = "navigate"
sensors = [{{ part = "d435", name = "camera", width = 64, height = 48, nearest = 0.05 }}]
tasks = [{{ kind = "line", to = {to}, speed = 100.0, acceleration = 1000.0 }}]  # at once: the policy finds its way
"""
COLUMN = """[[solids]]
name = "column {k}"
kind = "capsule"
a = [{x:.3f}, {y:.3f}, 0.0]
b = [{x:.3f}, {y:.3f}, {high:g}]
radius = {radius:.3f}
"""


def forest_toml(seed: int, vehicle: str = "crazyflie") -> str:
    start, goal = TASK.reset(Draw.from_generator(np.random.default_rng(seed)), craft_for(vehicle))
    start_W, goal_W = ([round(float(x), 3) for x in p_W] for p_W in (start.p_W, GOAL_W))
    text = SCENARIO.format(seconds=TASK.seconds, vehicle=vehicle, start=start_W, to=goal_W)
    return text + "".join(COLUMN.format(k=k, high=HIGH + 3.0, **c._asdict()) for k, c in enumerate(goal.columns))


if __name__ == "__main__":
    print(Path("forest.toml").write_text(forest_toml(7)), "characters; next: samara fly forest.toml")
