"""iLQR for n drones on arrays, a column for each: what `ILQR.__call__` does for one, bit for bit, without its named tuples.

A tick of a drone is three calls of machine code: what leads to the first rollout, the iteration, and what follows from its
solution. What is out of the ordinary (a state or a reference that is not a number, a plan without a finite cost) goes the way
of named tuples.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import Call, Chain, Loop, Loops, Pass, compile_loops
from samara.compiler.trace.flatten_code import unpacker
from samara.compiler.trace.program import program_of
from samara.control.allocation import Allocation
from samara.control.disturbance_torque import observer_for
from samara.control.mpc.buffers import Rows, shared
from samara.control.mpc.disturbance import (
    NOTHING,
    body_of,
    confirmed_push,
    given_command,
    led_body,
    observed,
    unit_body,
)
from samara.control.mpc.horizon_reference import Goals
from samara.control.mpc.solver import Solver
from samara.control.mpc.warm_start import Plans
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import BODY, Command, Reference, Vehicle
from samara.vehicles.trim import hover

PUSH, WRENCH = len(ZERO), 1 + len(ZERO)  # an acceleration; a thrust and three torques
ATTITUDE = slice(6, 10)
OBSERVED = len(flatten(NOTHING))


class Code(NamedTuple):
    """What happens before a solution, and after it."""

    before: Loops
    after: Loops


def arrays_code(vehicle: Vehicle, allocation: Allocation, watches: bool, period: float) -> Code:
    """before: state, command, "clock" (share, dt) → "observed", the push of it that is `believed`, and "given" to the solver;
    after: "wrench", state, "turned" → command, and what is seen of a turn. In strict IEEE, as by named tuples"""
    state, command = hover(vehicle)
    numbers, channels = (shared(name, len(flatten(own))) for name, own in (("state", state), ("command", command)))
    known, (share, dt) = shared("observed", OBSERVED), (Rows("clock", 2).once(1, k) for k in range(2))
    watched = Pass(
        program_of(
            lambda own, x, u, share, dt: (observed(own, x, u, vehicle, share, dt),), NOTHING, state, command, 1.0, 1.0
        ),
        (known, numbers, channels, share, dt),
        (known,),
        1,
    )
    push = shared("observed", PUSH)
    believing = Pass(
        program_of(lambda d_W, believed: (*(confirmed_push(d_W, believed),) * 2, 1.0), ZERO, 1.0),
        (push, shared("believed")),
        (push, shared("push", PUSH), shared("believed")),
        1,
    )
    giving = Pass(
        program_of(lambda body, size: (unit_body(body, size),), body_of(state), 1.0),
        (shared("state", BODY), shared("size")),
        (shared("given", BODY),),
        1,
    )
    passes = (watched, believing, giving) if watches else (believing, giving)
    unseen = observer_for(vehicle)
    turned = [] if unseen is None else [unseen]
    rows = [shared("turned", len(flatten(own))) for own in turned]
    if turned:
        leading = program_of(lambda own, x, before: (led_body(own, x, before, vehicle),), body_of(state), state, unseen)
        passes = (*passes, Pass(leading, (shared("given", BODY), numbers, *rows), (shared("given", BODY),), 1))

    def given(wrench: Any, x: Any, *before: Any) -> tuple[Any, ...]:
        asked, now = given_command(wrench, x, before[0] if before else (), vehicle, allocation, period)
        return (asked, now) if before else (asked,)

    allocated = Pass(
        program_of(given, (0.0,) * WRENCH, state, *turned),
        (shared("wrench", WRENCH), numbers, *rows),
        (channels, *rows),
        1,
    )
    return Code(
        compile_loops((Loop(passes, at="start"),), fast=False),
        compile_loops((Loop((allocated,), at="start"),), fast=False),
    )


class Parts(NamedTuple):
    """What an `ILQR` is made of.

    `wrench` is of inputs that are not (T, τ) themselves. `continued(state, reference, controls, before, push_W, turned)` gives
    a result with `controls` (N, m) and `states` (N + 1, ·), the command, and what turns the body.
    """

    vehicle: Vehicle
    solver: Solver
    goals: Goals
    code: Code
    share: float
    period: float
    wrench: Callable[[Any], tuple[float, ...]] | None
    shift: tuple[int, float]
    iterations: int
    tolerance: float
    continued: Callable[..., tuple[Any, Command, Any]]


class OnArrays:
    """`run` at every tick; then `command` (channels, n), and `prediction` (N + 1, 3, n), where each plans to be."""

    def __init__(self, parts: Parts, n: int) -> None:
        state, command = hover(parts.vehicle)
        solver, self._parts, self._plans = parts.solver, parts, Plans(parts.solver, n, parts.shift)
        self._state_of, self._reference_of = unpacker(state), unpacker(Reference(ZERO))
        self._state, self._command = (np.tile(flatten(own), (n, 1)) for own in (state, command))
        self._size, self._believed, self._observed = (np.zeros((n, size)) for size in (1, 1, OBSERVED))
        self._unseen = observer_for(parts.vehicle)
        self._turned = np.zeros((n, len(flatten(self._unseen or ()))))
        self._wrench = self._plans.before if parts.wrench is None else np.zeros((n, WRENCH))
        self.command, self.prediction = self._command.T, self._plans.shown
        self._memory = solver.memory(push=solver.parameters[-PUSH:], clock=np.array([parts.share, parts.period]))
        ahead, self._begin, self._allocate = parts.goals.call_ahead(), [], []
        for drone in range(n):
            before, after = (self._call(code, drone) for code in parts.code)
            self._begin.append(solver.chain_to_begin(before, ahead, self._plans.call_to_begin(drone)))
            self._allocate.append(after)
        self._keep: dict[tuple[int, int, int], Chain] = {}

    def _call(self, code: Loops, drone: int) -> Call:
        own = {
            "state": self._state,
            "size": self._size,
            "observed": self._observed,
            "believed": self._believed,
            "wrench": self._wrench,
            "command": self._command,
            "turned": self._turned,
        }
        return code, self._memory.table(code, **{name: rows[drone] for name, rows in own.items()}), 1

    def run(self, estimate: Array, ahead: Array) -> None:
        """command ← what the drones know, (components, n), and what they are asked ahead, (N + 1, fields, n)"""
        self._state[:] = estimate.T
        for drone, numbers in enumerate(self._state.tolist()):
            asked = ahead[:, :, drone]
            if not self._solve(drone, numbers, asked):
                self._solve_with_care(drone, numbers, asked)

    def _solve(self, drone: int, numbers: list[float], asked: Array) -> bool:
        """The drone's next plan and its command; False where something is not finite"""
        parts = self._parts
        solver = parts.solver
        if not math.isfinite(sum(numbers)):
            return False
        self._size[drone] = math.hypot(*numbers[ATTITUDE])
        parts.goals.ahead[:] = asked
        self._begin[drone]()
        cost = solver.begun()
        if not (cost < math.inf and parts.goals.ahead_was_finite()):
            return False
        solver.iterate(cost, parts.iterations, parts.tolerance)
        at = (drone, *solver.found)
        if at not in self._keep:
            allocate = [self._allocate[drone]] if parts.wrench is None else []  # its observer runs once a tick
            self._keep[at] = Chain(self._plans.call_to_keep(drone), *allocate)
        self._keep[at]()
        if parts.wrench is not None:
            self._wrench[drone] = parts.wrench(self._plans.before[drone].tolist())
            Chain(self._allocate[drone])()
        return True

    def _solve_with_care(self, drone: int, numbers: list[float], asked: Array) -> None:
        """The same by named tuples"""
        plans, known = self._plans, math.isfinite(sum(numbers))
        if not known:
            self._observed[drone] = self._believed[drone] = 0.0
            self._turned[drone] = 0.0
        push_W, before = (tuple(own[drone].tolist()) for own in (self._observed, plans.before))
        state, wanted = self._state_of(numbers), self._reference_of(asked.T)
        turned = None if self._unseen is None else unflatten(self._unseen, iter(self._turned[drone].tolist()))
        result, self._command[drone], turned = self._parts.continued(
            state, wanted, plans.inputs(drone), before, Vec3(*push_W[:PUSH]), turned
        )
        self._turned[drone] = flatten(turned or ())
        plans.put(drone, result.controls, result.states)
