"""The goals of a horizon by machine code: the shaped way to a point step by step, those of known times eight at a time.

tables of arrays: "way" (p, v) in place, "target" (p, start, yaw), "shaping", or "times" (one for each step),
"reference" (p, v, a, j, yaw, yaw rate of one instant); and "goals" (N + 1, 12)
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from samara.algebra import ZERO
from samara.arrays import flatten, unflatten
from samara.backends.llvm_loop import Array, Loop, Loops, Pass, compile_loops
from samara.control.ilqr_columns import LANES, span
from samara.control.ilqr_model import Model
from samara.control.ilqr_reference import Shaping, Target, Way, extrapolated, goal_of, shaped_step
from samara.control.ilqr_trace import GOAL, SX, column, entries, traced
from samara.plan.reference import Reference
from samara.plan.trajectory import Trajectory

WAY, TARGET, SHAPING, REFERENCE = (
    len(flatten(template)) for template in (Way(ZERO, ZERO), Target(ZERO, ZERO, 0.0), Shaping(), Reference(ZERO))
)


@lru_cache(maxsize=16)
def point_goals(model: Model) -> Loops:
    """way, target, shaping → goals, way: a step of the horizon each turn"""
    symbols = [SX.sym("way", WAY), SX.sym("target", TARGET), SX.sym("shaping", SHAPING)]
    templates = (Way(ZERO, ZERO), Target(ZERO, ZERO, 0.0), Shaping())
    own = [unflatten(template, iter(entries(x))) for template, x in zip(templates, symbols, strict=True)]
    way, goal = shaped_step(own[0], own[1], own[2], model)
    arrays = (Array("way", span(0, WAY)), Array("target", span(0, TARGET)), Array("shaping", span(0, SHAPING)))
    each = Pass(
        traced(symbols, [column(goal), column(way)]), arrays, (Array("goals", span(0, GOAL), GOAL), arrays[0]), 1
    )
    return compile_loops((Loop((each,)),))


@lru_cache(maxsize=16)
def reference_goals(model: Model) -> Loops:
    """reference, times, shaping → goals: what is known at one instant, carried on"""
    numbers, shaping = SX.sym("reference", REFERENCE), SX.sym("shaping", SHAPING)
    known: Reference = unflatten(Reference(ZERO), iter(entries(numbers)))
    limits: Shaping = unflatten(Shaping(), iter(entries(shaping)))
    arrays = (Array("reference", span(0, REFERENCE)), Array("shaping", span(0, SHAPING)))
    return _timed(lambda time: extrapolated(known, time, limits), model, [numbers, shaping], arrays)


@lru_cache(maxsize=16)
def trajectory_goals(model: Model, trajectory: Trajectory) -> Loops | None:
    """times → goals; None for a trajectory that cannot be traced"""
    try:
        return _timed(trajectory.at, model, [], ())
    except TypeError:
        return None


def _timed(reference: Callable[[Any], Reference], model: Model, symbols: list[Any], arrays: tuple[Array, ...]) -> Loops:
    """Eight steps of the horizon at a time"""
    time = SX.sym("time")
    each = Pass(
        traced([time, *symbols], [column(goal_of(reference(time), model))]),
        (Array("times", (0,), LANES, 1), *arrays),
        (Array("goals", span(0, GOAL), LANES * GOAL, GOAL),),
        LANES,
    )
    return compile_loops((Loop((each,), tile=LANES),))
