"""The tasks, but for what looks, as environments of Gymnasium: importing this makes `samara/Hover-v0` known to it."""

import gymnasium

from samara.learn.registry import BLIND


def identifier(task: str) -> str:
    """`samara/Hover-v0`"""
    return f"samara/{task.capitalize()}-v0"


for _task in BLIND:
    gymnasium.register(
        identifier(_task),
        entry_point="samara.learn.envs.gym_single:Env",
        vector_entry_point="samara.learn.envs.gym_vector:VectorEnv",
        kwargs={"task": _task},
    )
