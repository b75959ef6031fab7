"""Write a scenario with the forest that the task `navigate` draws from a seed; the policy flies by its depth camera."""

from pathlib import Path

import numpy as np

from samara.learn import Draw, navigate, trim_drone

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
sensors = [{{ part = "d435", name = "camera", width = 64, height = 48, min_range = 0.05 }}]
tasks = [{{ type = "line", to = {to}, speed = 100.0, acceleration = 1000.0 }}]  # a jump: the policy finds the path
"""
COLUMN = """[[obstacles]]
name = "column {k}"
shape = "capsule"
start = [{x:.3f}, {y:.3f}, 0.0]
end = [{x:.3f}, {y:.3f}, {high:g}]
radius = {radius:.3f}
"""


def forest_toml(seed: int, vehicle: str = "crazyflie") -> str:
    task, high = navigate.TASK, navigate.MAX_HEIGHT_M + 3.0
    start, goal = task.reset(Draw.from_generator(np.random.default_rng(seed)), trim_drone(vehicle))
    start_W, goal_W = ([round(float(x), 3) for x in p_W] for p_W in (start.p_W, navigate.GOAL_W))
    text = SCENARIO.format(seconds=task.seconds, vehicle=vehicle, start=start_W, to=goal_W)
    return text + "".join(COLUMN.format(k=k, high=high, **c._asdict()) for k, c in enumerate(goal.columns))


if __name__ == "__main__":
    print(Path("forest.toml").write_text(forest_toml(7)), "characters; next: samara fly forest.toml")
