"""How often a policy does its task, flown in machine code on all cores: `samara.learn.judge` without JAX."""

from collections.abc import Callable

import numpy as np

from samara.core.tree import flatten
from samara.learn.analytic_lanes import starts
from samara.learn.episode import Setting, StepFunctions, require_no_camera
from samara.learn.judged import UNSEEN, Judged, successes
from samara.learn.rollout_cpu import LaneRollout, row_of, sizes_of
from samara.learn.training_result import Weights


def judge(
    setting: Setting, flights: int = 10_000, seed: int = UNSEEN, hidden: str = "tanh"
) -> Callable[[Weights], Judged]:
    """`judged(weights)` flies a policy for the task's `seconds`; a flight that ends before is judged by where it ended"""
    require_no_camera(setting)
    functions = StepFunctions(setting)
    begun, _ = starts(functions, seed, 0, flights, "judge")
    compiled: dict[tuple[int, ...], LaneRollout] = {}

    def judged(weights: Weights) -> Judged:
        sizes = sizes_of(weights)
        if sizes not in compiled:
            compiled[sizes] = LaneRollout(functions, sizes, hidden=hidden)
        flown = compiled[sizes].fly(row_of(weights), begun, setting.task.steps)
        good = flown.done | (successes(setting, flown.end) & ~flown.lost)
        return Judged(flights, int(np.sum(good)), flown.end[: len(flatten(functions.state))])

    return judged
