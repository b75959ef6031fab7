"""The goals of a horizon by machine code: the shaped way to a point step by step, those of known times eight at a time.

tables of arrays: "way" (p, v) in place, "target" (p, start, yaw), "shaping", "push" (an acceleration from outside), or "times"
(one for each step), "reference" (of one instant), "ahead" (N + 1, a reference for each step); and "goals" (N + 1, 12)
"""

from functools import lru_cache
from typing import Any

from samara.algebra import ZERO, Vec3
from samara.arrays import flatten, unflatten
from samara.backends.llvm_loop import Array, Loop, Loops, Pass, compile_loops
from samara.control.ilqr.columns import LANES, span
from samara.control.ilqr.model import Model
from samara.control.ilqr.reference import Shaping, Target, Way, extrapolated, goal_of, shaped_step
from samara.control.ilqr.trace import GOAL, SX, column, entries, traced
from samara.plan.reference import Reference
from samara.plan.trajectory import Trajectory

PUSH = 3
WAY, TARGET, SHAPING, REFERENCE = (
    len(flatten(template)) for template in (Way(ZERO, ZERO), Target(ZERO, ZERO, 0.0), Shaping(), Reference(ZERO))
)


@lru_cache(maxsize=16)
def point_goals(model: Model) -> Loops:
    """way, target, shaping, push → goals, way: a step of the horizon each turn"""
    sizes = {"way": WAY, "target": TARGET, "shaping": SHAPING, "push": PUSH}
    symbols = [SX.sym(name, size) for name, size in sizes.items()]
    templates = (Way(ZERO, ZERO), Target(ZERO, ZERO, 0.0), Shaping(), ZERO)
    own = [unflatten(template, iter(entries(x))) for template, x in zip(templates, symbols, strict=True)]
    way, goal = shaped_step(own[0], own[1], own[2], model, own[3])
    arrays = tuple(Array(name, span(0, size)) for name, size in sizes.items())
    each = Pass(
        traced(symbols, [column(goal), column(way)]), arrays, (Array("goals", span(0, GOAL), GOAL), arrays[0]), 1
    )
    return compile_loops((Loop((each,)),))


@lru_cache(maxsize=16)
def reference_goals(model: Model) -> Loops:
    """reference, times, shaping, push → goals: what is known at one instant, carried on"""
    time, numbers, shaping = SX.sym("time"), SX.sym("reference", REFERENCE), SX.sym("shaping", SHAPING)
    known: Reference = unflatten(Reference(ZERO), iter(entries(numbers)))
    limits: Shaping = unflatten(Shaping(), iter(entries(shaping)))
    arrays = (
        Array("times", (0,), LANES, 1),
        Array("reference", span(0, REFERENCE)),
        Array("shaping", span(0, SHAPING)),
    )
    return _each_step(extrapolated(known, time, limits), model, [time, numbers, shaping], arrays)


@lru_cache(maxsize=16)
def trajectory_goals(model: Model, trajectory: Trajectory) -> Loops | None:
    """times, push → goals; None for a trajectory that cannot be traced"""
    time = SX.sym("time")
    try:
        return _each_step(trajectory.at(time), model, [time], (Array("times", (0,), LANES, 1),))
    except TypeError:
        return None


@lru_cache(maxsize=16)
def ahead_goals(model: Model) -> Loops:
    """ahead, push → goals: a reference for every step"""
    numbers = SX.sym("ahead", REFERENCE)
    known: Reference = unflatten(Reference(ZERO), iter(entries(numbers)))
    arrays = (Array("ahead", span(0, REFERENCE), LANES * REFERENCE, REFERENCE),)
    return _each_step(known, model, [numbers], arrays)


def _each_step(reference: Reference, model: Model, symbols: list[Any], arrays: tuple[Array, ...]) -> Loops:
    """Eight steps of the horizon at a time"""
    push = SX.sym("push", PUSH)
    each = Pass(
        traced([*symbols, push], [column(goal_of(reference, model, Vec3(*entries(push))))]),
        (*arrays, Array("push", span(0, PUSH))),
        (Array("goals", span(0, GOAL), LANES * GOAL, GOAL),),
        LANES,
    )
    return compile_loops((Loop((each,), tile=LANES),))
