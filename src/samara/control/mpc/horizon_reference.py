"""The goals of a horizon by machine code: the shaped way to a point step by step, those of known times eight at a time.

Tables of arrays: "way" (p, v) in place, "target" (p, start, yaw), "shaping", "push" (an acceleration from outside), or "times"
(one for each step), "reference" (of one instant), "ahead" (N + 1, a reference for each step); and "goals" (N + 1, 12)
"""

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import casadi
import numpy as np

from samara.compiler.llvm.array_loop import ArraySpec, Call, Loop, Loops, Pass, compile_loops
from samara.control.mpc.buffers import LANES, Memory, Rows, shared
from samara.control.mpc.cost import ANY_GOAL
from samara.control.mpc.derivatives import SX, column, entries, traced, tree
from samara.control.mpc.prediction_model import Model
from samara.control.mpc.reference_shaping import Shaping, Target, Way, extrapolated, goal_of, shaped_step
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten
from samara.physics.types import Reference
from samara.plan.trajectory import Trajectory

TEMPLATES = {
    "way": Way(ZERO, ZERO),
    "target": Target(ZERO, ZERO, 0.0),
    "shaping": Shaping(),
    "push": ZERO,
    "reference": Reference(ZERO),
}
SIZES = {name: len(flatten(template)) for name, template in TEMPLATES.items()}
GOALS, TIMES, AHEAD = Rows("goals", len(flatten(ANY_GOAL))), Rows("times", 1), Rows("ahead", SIZES["reference"])


@lru_cache(maxsize=16)
def point_goals(model: Model, width: int = 1, dtype: str = "float64") -> Loops:
    """way, target, shaping, push → goals, way: a step of the horizon each turn, a problem in each lane"""
    symbols = {name: SX.sym(name, SIZES[name]) for name in ("way", "target", "shaping", "push")}
    way, target, shaping, push_W = (tree(TEMPLATES[name], x) for name, x in symbols.items())
    following, goal = shaped_step(way, target, shaping, model, push_W)
    own, asked = (Rows(name, SIZES[name], width, 1).once(SIZES[name]) for name in ("way", "target"))
    each = Pass(
        traced(list(symbols.values()), [column(goal), column(following)]),
        (own, asked, shared("shaping", SIZES["shaping"]), shared("push", SIZES["push"])),
        (Rows("goals", GOALS.row, width, 1).at(GOALS.row), own),
        width,
    )
    return compile_loops((Loop((each,)),), dtype)


@lru_cache(maxsize=16)
def reference_goals(model: Model) -> Loops:
    """reference, times, shaping, push → goals: what is known at one instant, carried on"""
    time, numbers, shaping = SX.sym("time"), SX.sym("reference", AHEAD.row), SX.sym("shaping", SIZES["shaping"])
    known = extrapolated(tree(TEMPLATES["reference"], numbers), time, tree(TEMPLATES["shaping"], shaping))
    arrays = (TIMES.tiled(1), shared("reference", AHEAD.row), shared("shaping", SIZES["shaping"]))
    return _each_step(known, model, [time, numbers, shaping], arrays)


@lru_cache(maxsize=16)
def trajectory_goals(model: Model, trajectory: Trajectory) -> Loops | None:
    """times, push → goals; None for a trajectory that cannot be traced"""
    time = SX.sym("time")
    try:
        return _each_step(trajectory.at(time), model, [time], (TIMES.tiled(1),))
    except TypeError:
        return None


@lru_cache(maxsize=16)
def ahead_goals(model: Model) -> Loops:
    """ahead, push → goals: a reference for every step; and the total of all their numbers, finite where they are"""
    numbers, total = SX.sym("ahead", AHEAD.row), SX.sym("total")
    nothing = Pass(traced([], [SX(0.0)]), (), (shared("total"),), 1)
    summed = Pass(
        traced([numbers, total], [total + casadi.sum1(numbers)]),
        (AHEAD.at(AHEAD.row), shared("total")),
        (shared("total"),),
        1,
    )
    sums = (Loop((nothing,), at="start"), Loop((summed,)))
    return _each_step(tree(TEMPLATES["reference"], numbers), model, [numbers], (AHEAD.tiled(AHEAD.row),), sums)


def _each_step(
    reference: Reference, model: Model, symbols: list[Any], arrays: tuple[ArraySpec, ...], after: tuple[Loop, ...] = ()
) -> Loops:
    """Eight steps of the horizon at a time"""
    push = SX.sym("push", SIZES["push"])
    each = Pass(
        traced([*symbols, push], [column(goal_of(reference, model, Vec3(*entries(push))))]),
        (*arrays, shared("push", SIZES["push"])),
        (GOALS.tiled(GOALS.row),),
        LANES,
    )
    return compile_loops((Loop((each,), tile=LANES), *after))


# Where they are written ----------------------------------------------------------------------------------------------


class PointGoals:
    """The shaped way to a point into `goals`, (N + 1, 12) or (N + 1, 12, width) with a problem in each lane."""

    def __init__(self, model: Model, shaping: Shaping, goals: np.ndarray, push: np.ndarray) -> None:
        width, dtype = goals.shape[2] if goals.ndim == 3 else 1, goals.dtype.name
        self._loops, self._steps = point_goals(model, width, dtype), len(goals)
        own = Memory(dtype, way=(SIZES["way"], width), target=(SIZES["target"], width), shaping=SIZES["shaping"])
        own["shaping"][:] = shaping
        self._memory, self._table = own, own.table(self._loops, push=push, goals=goals)

    def write(self, way: Any, target: Any, lanes: Any = 0) -> None:
        """From a way (p, v), the numbers of a `Target`"""
        self._memory["way"][:, lanes], self._memory["target"][:, lanes] = way, target
        self._loops.call(self._table, self._steps)


class Goals:
    """Goals for one problem, from whatever a target may be. `push` (3,) is read."""

    def __init__(self, model: Model, shaping: Shaping, goals: np.ndarray, push: np.ndarray) -> None:
        rows = -(-len(goals) // LANES) * LANES
        self._model, self._shaping, self._goals, self._steps = model, shaping, goals, len(goals)
        self._clock = np.arange(rows) * model.dt
        self._memory = Memory(
            shaping=SIZES["shaping"], times=rows, reference=AHEAD.row, ahead=(rows, AHEAD.row), total=1
        )
        self._memory["shaping"][:], self._push = shaping, push
        self.ahead = self._memory["ahead"][: self._steps]
        self._prepared: dict[Any, tuple[Loops | None, int | None]] = {}

    @property
    def look_ahead(self) -> np.ndarray:
        """The instants of the horizon, from now  [s]"""
        return self._clock[: self._steps]

    def write(self, target: Any, x: list[float], time: float, yaw: float) -> str | None:
        """Writes the goals of the horizon; or tells why there are none"""
        if isinstance(target, Trajectory):
            return self._follow(target, time)
        if isinstance(target, Reference) and any(np.ndim(each) for each in target.p_W):
            return self._look_along(target)
        if isinstance(target, Reference) and any(flatten((target.v_W, target.a_W, target.yaw_rate))):
            return self._carry_on(target)
        if isinstance(target, Reference):
            point, yaw = target.p_W, target.yaw
        else:
            try:
                point = Vec3(*(float(each) for each in target))
            except (TypeError, ValueError):
                expected = "a point (x, y, z), a Trajectory or a Reference"
                raise ValueError(f"the target is {target!r:.60}; expected {expected}") from None
        if not math.isfinite(point.x + point.y + point.z + yaw):
            return "the target is not finite"
        self._to_a_point.write(x[:6], (*point, *x[:3], yaw))
        return None

    def _carry_on(self, known: Reference) -> str | None:
        numbers = flatten(known)
        if not math.isfinite(sum(numbers)):
            return "the reference is not finite"
        self._memory["reference"][:], self._memory["times"][:] = numbers, self._clock
        self._call(reference_goals)
        return None

    def _look_along(self, known: Reference) -> str | None:
        for k, leaf in enumerate(flatten(known)):
            self.ahead[:, k] = leaf
        self._call(ahead_goals)
        return None if self.ahead_was_finite() else "the reference is not finite"

    def ahead_was_finite(self) -> bool:
        """Whether the references were that goals were made of"""
        return math.isfinite(self._memory["total"][0])

    def call_ahead(self) -> Call:
        """What writes the goals of the references in `ahead` (N + 1, fields)"""
        loops, table = self._code(ahead_goals)
        assert loops is not None and table is not None
        return loops, table, self._steps

    def _follow(self, trajectory: Trajectory, time: float) -> str | None:
        if not math.isfinite(time):
            return "the time on the trajectory is not finite"
        np.add(self._clock, time, out=self._memory["times"])
        if not self._call(trajectory_goals, trajectory):
            return self._look_along(trajectory.at(time + self.look_ahead))
        return None

    @cached_property
    def _to_a_point(self) -> PointGoals:
        return PointGoals(self._model, self._shaping, self._goals, self._push)

    def _call(self, make: Callable[..., Loops | None], *of: Any) -> bool:
        """Runs the loops that are made of the model; False where there are none"""
        loops, table = self._code(make, *of)
        if loops is not None:
            loops.call(table, self._steps)
        return loops is not None

    def _code(self, make: Callable[..., Loops | None], *of: Any) -> tuple[Loops | None, int | None]:
        if (make, *of) not in self._prepared:
            loops = make(self._model, *of)
            table = None if loops is None else self._memory.table(loops, goals=self._goals, push=self._push)
            self._prepared[make, *of] = loops, table
        return self._prepared[make, *of]
