"""Goals, the MPC targets along the horizon: the iLQR document's shaped path to a point, or points of a trajectory.

    v_des = reference_velocity_gain (p_target − p_start), at most max_reference_velocity
    a_ref = reference_acceleration_gain (v_des − v), at most max_reference_acceleration
    p ← p + v dt + ½ a_ref dt²,  v ← v + a_ref dt

a_ref tilts the desired thrust towards the target, so that hovering is not a minimum of the cost. In the document, v_des is that
of the start along the whole path; beyond a second or so such a reference overshoots its target. With `reference_follow` 1
v_des is updated from the position of the reference in every step, and the path ends at the target; values between 0 and 1
interpolate.

Compiled loops compute the goals: the shaped path step by step, goals at known instants eight at a time. Their arrays are
"path" (p, v) in place, "target" (p, start, yaw), "shaping", "push" (an external acceleration), "times" (one per step),
"reference" (of one instant), "ahead" (N + 1, a reference per step), and "goals" (N + 1, 12).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, Call, CompiledLoops, compile_loops
from samara.control.mpc.cost import DEFAULT_TARGET, MpcTarget
from samara.control.mpc.options import Shaping
from samara.control.mpc.prediction_model import PredictionModel, thrust_direction
from samara.control.mpc.problem import Tree
from samara.control.mpc.programs import LANES, Arrays, StepArray, shared_spec, trace_pass
from samara.core.algebra import ZERO, Vec3, cross, direction, norm
from samara.core.ops import cos, maximum, sin
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import Reference
from samara.plan.trajectory import Trajectory


class PathPoint(NamedTuple):
    """The reference at one step of the horizon."""

    p_W: Vec3
    v_W: Vec3


class PathTarget(NamedTuple):
    """The point to reach, the start of the horizon, and the yaw [rad]."""

    p_W: Vec3
    start_W: Vec3
    yaw: Scalar


def limit_norm(v: Vec3, max_norm: Scalar) -> Vec3:
    """v, scaled down to the length `max_norm` if it is longer"""
    return v * (max_norm / maximum(norm(v), max_norm))


def reference_acceleration(path: PathPoint, target: PathTarget, shaping: Shaping) -> Vec3:
    """a_ref = gain (v_des − v),  v_des = gain (p_target − p_start), each within its limit  [m/s²]"""
    start_W = target.start_W + (path.p_W - target.start_W) * shaping.reference_follow
    desired_W = limit_norm((target.p_W - start_W) * shaping.reference_velocity_gain, shaping.max_reference_velocity)
    return limit_norm((desired_W - path.v_W) * shaping.reference_acceleration_gain, shaping.max_reference_acceleration)


def step_shaped_path(
    path: PathPoint, target: PathTarget, shaping: Shaping, model: PredictionModel, push_W: Vec3 = ZERO
) -> tuple[PathPoint, MpcTarget]:
    """Return the next point of the path, p + v dt + ½ a_ref dt², v + a_ref dt, and the goal at this one."""
    a_W, dt = reference_acceleration(path, target, shaping), model.dt
    goal = mpc_target(Reference(path.p_W, path.v_W, a_W, yaw=target.yaw), model, push_W)
    return PathPoint(path.p_W + path.v_W * dt + a_W * (0.5 * dt * dt), path.v_W + a_W * dt), goal


def mpc_target(reference: Reference, model: PredictionModel, push_W: Vec3 = ZERO) -> MpcTarget:
    """Position and velocity; b₃ along the thrust that the acceleration requires, b₁ perpendicular to it towards the yaw"""
    b3_W = thrust_direction(reference.a_W, reference.v_W, push_W, model)
    heading_W = Vec3(cos(reference.yaw), sin(reference.yaw), 0.0)
    b1_W = cross(direction(cross(b3_W, heading_W)), b3_W)
    return MpcTarget(reference.p_W, reference.v_W, b3_W, b1_W)


def extrapolate_reference(reference: Reference, time: Scalar, shaping: Shaping) -> Reference:
    """Extrapolate a reference by a time t: v + a t, limited to its speed or the maximum, and p by the mean of v."""
    v_W = limit_norm(reference.v_W + reference.a_W * time, maximum(norm(reference.v_W), shaping.max_reference_velocity))
    return reference._replace(
        p_W=reference.p_W + (reference.v_W + v_W) * (0.5 * time),
        v_W=v_W,
        yaw=reference.yaw + reference.yaw_rate * time,
    )


# Compiled loops ----------------------------------------------------------------------------------------------------------

_PATH, _TARGET, _REFERENCE = PathPoint(ZERO, ZERO), PathTarget(ZERO, ZERO, 0.0), Reference(ZERO)
_PATH_SIZE, _TARGET_SIZE, _FIELDS = (len(flatten(template)) for template in (_PATH, _TARGET, _REFERENCE))
GOAL_SIZE = len(flatten(DEFAULT_TARGET))
TIMES, AHEAD = StepArray("times", 1), StepArray("ahead", _FIELDS)
SHAPING, PUSH = (shared_spec("shaping", len(Shaping())), Shaping()), (shared_spec("push", len(ZERO)), ZERO)


@lru_cache(maxsize=16)
def point_goals(model: PredictionModel, row: int, width: int = 1, dtype: str = "float64") -> CompiledLoops:
    """path, target, shaping, push → goals, path: the compiled `point_goal_loops`"""
    return compile_loops(point_goal_loops(model, row, width), dtype)


def point_goal_loops(model: PredictionModel, row: int, width: int = 1) -> tuple[ArrayLoop, ...]:
    """path, target, shaping, push → goals, path: one step of the horizon per iteration, one problem per lane

    `row` is the size of a row of the goals, whose other values are left alone.
    """
    path, target = StepArray("path", _PATH_SIZE, width, 1), StepArray("target", _TARGET_SIZE, width, 1)

    def step(path: PathPoint, target: PathTarget, shaping: Shaping, push_W: Vec3) -> Tree:
        return step_shaped_path(path, target, shaping, model, push_W)[::-1]

    inputs = ((path.fixed_values(_PATH_SIZE), _PATH), (target.fixed_values(_TARGET_SIZE), _TARGET), SHAPING, PUSH)
    outputs = (StepArray("goals", row, width, 1).step_values(GOAL_SIZE), path.fixed_values(_PATH_SIZE))
    return (ArrayLoop((trace_pass(step, inputs, outputs, width),)),)


@lru_cache(maxsize=16)
def reference_goals(model: PredictionModel, row: int) -> CompiledLoops:
    """reference, times, shaping, push → goals: a reference of one instant, extrapolated"""
    inputs = ((TIMES.lane_values(1), 0.0), (shared_spec("reference", _FIELDS), _REFERENCE), SHAPING)
    return _goal_loops(
        lambda time, reference, shaping: extrapolate_reference(reference, time, shaping), model, row, inputs
    )


@lru_cache(maxsize=16)
def trajectory_goals(model: PredictionModel, row: int, trajectory: Trajectory) -> CompiledLoops | None:
    """times, push → goals; None for a trajectory that cannot be traced"""
    try:
        return _goal_loops(trajectory.evaluate, model, row, ((TIMES.lane_values(1), 0.0),))
    except TypeError:
        return None


@lru_cache(maxsize=16)
def look_ahead_goals(model: PredictionModel, row: int) -> CompiledLoops:
    """ahead, push → goals: a reference for every step; and the sum of all values, which is finite if they are"""
    total = (shared_spec("total"), 0.0)

    def add(reference_values: Sequence[Scalar], total: Scalar) -> Tree:
        row_sum: Scalar = 0.0
        for value in reference_values:
            row_sum = row_sum + value
        return (total + row_sum,)

    zero = trace_pass(lambda: (0.0,), (), total[:1])
    sums = (
        ArrayLoop((zero,), position="start"),
        ArrayLoop((trace_pass(add, (AHEAD.step_values(_FIELDS), total), total[:1]),)),
    )
    return _goal_loops(lambda reference: reference, model, row, ((AHEAD.lane_values(_FIELDS), _REFERENCE),), sums)


def _goal_loops(
    reference: Callable[..., Reference],
    model: PredictionModel,
    row: int,
    inputs: Sequence[tuple[ArraySpec, Tree]],
    final_loops: tuple[ArrayLoop, ...] = (),
) -> CompiledLoops:
    """Compile the loops that compute goals from references, eight steps of the horizon at a time."""
    goal_pass = trace_pass(
        lambda *arguments: (mpc_target(reference(*arguments[:-1]), model, arguments[-1]),),
        (*inputs, PUSH),
        (StepArray("goals", row).lane_values(GOAL_SIZE),),
        LANES,
    )
    return compile_loops((ArrayLoop((goal_pass,), tile=LANES), *final_loops))


class PointGoalWriter:
    """Writer of the shaped path to a point into the first 12 columns of `goals`, (N + 1, ·) or (N + 1, ·, width) with one
    problem per lane."""

    def __init__(self, model: PredictionModel, shaping: Shaping, goals: Array, push: Array) -> None:
        width, dtype = goals.shape[2] if goals.ndim == 3 else 1, goals.dtype.name
        self._loops, self._steps = point_goals(model, goals.shape[1], width, dtype), len(goals)
        self._arrays = Arrays(dtype, path=(_PATH_SIZE, width), target=(_TARGET_SIZE, width), shaping=len(shaping))
        self._arrays["shaping"][:] = shaping
        self._table = self._arrays.table(self._loops, push=push, goals=goals)
        self._path, self._target = self._arrays["path"][:, 0], self._arrays["target"][:, 0]

    def write(self, path: Sequence[float], target: Sequence[float]) -> None:
        """Write the goals of the first problem from the values of a `PathPoint` and a `PathTarget`."""
        self._path[:], self._target[:] = path, target
        self._loops.call(self._table, self._steps)

    def write_lanes(self, path: Array, target: Array, lanes: slice) -> None:
        """Write the goals of several problems, (·, lanes)."""
        self._arrays["path"][:, lanes], self._arrays["target"][:, lanes] = path, target
        self._loops.call(self._table, self._steps)


class GoalWriter:
    """Writer of the goals of one problem for any type of target; reads `push` (3,)."""

    def __init__(self, model: PredictionModel, shaping: Shaping, goals: Array, push: Array, delay: float = 0.0) -> None:
        rows = -(-len(goals) // LANES) * LANES
        self._model, self._shaping, self._goals, self._steps = model, shaping, goals, len(goals)
        self._clock = delay + np.arange(rows) * model.dt
        self._arrays = Arrays(shaping=len(shaping), times=rows, reference=_FIELDS, ahead=(rows, _FIELDS), total=1)
        self._arrays["shaping"][:], self._push = shaping, push
        self.ahead = self._arrays["ahead"][: self._steps]
        self._compiled_loops: dict[Hashable, tuple[CompiledLoops | None, int]] = {}

    @property
    def look_ahead(self) -> Array:
        """The instants of the horizon, from now  [s]"""
        return self._clock[: self._steps]

    def write(self, target: object, x: Sequence[float], time: float, yaw: float) -> str | None:
        """Write the goals of the horizon; return the reason if the target has none.

        Args:
            target: a point (x, y, z), a `Trajectory` or a `Reference`.
            x: state of the body (p, v, q, ω).
            time: time on the trajectory [s].
            yaw: desired yaw at a point [rad].
        """
        if isinstance(target, Trajectory):
            return self._follow_trajectory(target, time)
        if isinstance(target, Reference):
            if any(np.ndim(leaf) for leaf in target.p_W):
                return self._write_references(target)
            if any(flatten((target.v_W, target.a_W, target.yaw_rate))):
                return self._extrapolate(target)
            point, yaw = target.p_W, target.yaw
        else:
            point = _point(target)
        if not math.isfinite(point.x + point.y + point.z + yaw):
            return "the target is not finite"
        self._point_goals.write(x[:6], (*point, *x[:3], yaw))
        return None

    def _extrapolate(self, reference: Reference) -> str | None:
        values = flatten(reference)
        if not math.isfinite(sum(values)):
            return "the reference is not finite"
        self._arrays["reference"][:], self._arrays["times"][:] = values, self._clock
        self._call(reference_goals)
        return None

    def _write_references(self, reference: Reference) -> str | None:
        for i, leaf in enumerate(flatten(reference)):
            self.ahead[:, i] = leaf
        self._call(look_ahead_goals)
        return None if self.is_ahead_finite() else "the reference is not finite"

    def _follow_trajectory(self, trajectory: Trajectory, time: float) -> str | None:
        if not math.isfinite(time):
            return "the time on the trajectory is not finite"
        np.add(self._clock, time, out=self._arrays["times"])
        if not self._call(trajectory_goals, trajectory):
            return self._write_references(trajectory.evaluate(time + self.look_ahead))
        return None

    def is_ahead_finite(self) -> bool:
        """Whether the latest references in `ahead` were finite."""
        return math.isfinite(self._arrays["total"][0])

    def ahead_call(self) -> Call:
        """Return the call that writes the goals of the references in `ahead` (N + 1, fields)."""
        loops, table = self._code(look_ahead_goals)
        assert loops is not None
        return loops, table, self._steps

    @cached_property
    def _point_goals(self) -> PointGoalWriter:
        return PointGoalWriter(self._model, self._shaping, self._goals, self._push)

    def _call(self, compile_goals: Callable[..., CompiledLoops | None], *arguments: Hashable) -> bool:
        """Run the loops of the model; return False if it has none."""
        loops, table = self._code(compile_goals, *arguments)
        if loops is not None:
            loops.call(table, self._steps)
        return loops is not None

    def _code(
        self, compile_goals: Callable[..., CompiledLoops | None], *arguments: Hashable
    ) -> tuple[CompiledLoops | None, int]:
        key = (compile_goals, *arguments)
        if key not in self._compiled_loops:
            loops = compile_goals(self._model, self._goals.shape[1], *arguments)
            table = 0 if loops is None else self._arrays.table(loops, goals=self._goals, push=self._push)
            self._compiled_loops[key] = loops, table
        return self._compiled_loops[key]


def _point(target: object) -> Vec3:
    try:
        return Vec3(*map(float, target))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        expected = "a point (x, y, z), a Trajectory or a Reference"
        raise ValueError(f"the target is {target!r:.60}; expected {expected}") from None
