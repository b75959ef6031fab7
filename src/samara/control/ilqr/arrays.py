"""iLQR for n drones on arrays, a column for each: what `ILQR.__call__` does for one, bit for bit, without its named tuples.

What is out of the ordinary (a state or a reference that is not a number, a plan without a finite cost) goes the way of named
tuples.
"""

import math
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from samara.backends.machine import CompiledStep
from samara.backends.packing import unpacker
from samara.control.ilqr.goals import Goals
from samara.control.ilqr.plans import Plans
from samara.control.ilqr.solver import Solver
from samara.core.algebra import ZERO, Vec3
from samara.physics.reference import Reference
from samara.physics.types import BODY, Command, Vehicle
from samara.vehicles.trim import hover

Array = np.ndarray[Any, Any]

PUSH, WRENCH = len(ZERO), 1 + len(ZERO)  # an acceleration; a thrust and three torques
PACK_BODY = Struct(f"{BODY}d").pack_into


class Parts(NamedTuple):
    """What an `ILQR` is made of.

    `observer` is None where no push is watched for. `continued(state, reference, controls, before, push_W)` gives a result
    with `controls` (N, m) and `states` (N + 1, ·), and the command.
    """

    vehicle: Vehicle
    solver: Solver
    goals: Goals
    observer: CompiledStep | None
    share: float
    period: float
    allocator: CompiledStep
    wrench: Callable[[Any], tuple[float, ...]] | None  # of inputs that are not (T, τ)
    shift: tuple[int, float]
    iterations: int
    tolerance: float
    continued: Callable[..., tuple[Any, Command]]


class OnArrays:
    """`run` at every tick; then `command` (channels, n), and `prediction` (n, N + 1, 3), where each plans to be."""

    def __init__(self, parts: Parts, n: int) -> None:
        state, _ = hover(parts.vehicle)
        self._parts, self._allocator = parts, parts.allocator.machine(n)
        self._plans = Plans(parts.solver, n, parts.shift, first=(parts.goals.call_ahead(),))
        self._state_of, self._reference_of = unpacker(state), unpacker(Reference(ZERO))
        self.command, self.prediction = self._allocator.carry, self._plans.shown
        self._lift_and_torque, self._known = np.split(self._allocator.held, [WRENCH])
        self._body, self._push = parts.solver.given.data.cast("B"), parts.solver.parameters[-PUSH:]
        self._observer = parts.observer.machine(n) if parts.observer else None
        self._new: list[int] = list(range(n))  # those of whom the observer knows no call before
        if self._observer:
            self._observer.held[-2:] = [[parts.share], [parts.period]]
            self._moving, self._given = np.split(self._observer.held[:-2], [len(self._known)])

    def run(self, estimate: Array, ahead: Array) -> None:
        """command ← what the drones know, (components, n), and what they are asked ahead, (N + 1, fields, n)"""
        self._observe(estimate)
        self._known[:] = estimate
        otherwise = {}
        for drone in range(estimate.shape[1]):
            numbers, asked = estimate[:, drone].tolist(), ahead[:, :, drone]
            if not self._solve(drone, numbers, asked):
                otherwise[drone] = self._solve_with_care(drone, numbers, asked)
        wrench, inputs = self._parts.wrench, self._plans.before
        self._lift_and_torque[:] = inputs.T if wrench is None else np.array([wrench(own) for own in inputs.tolist()]).T
        self._allocator.run()
        for drone, command in otherwise.items():
            self.command[:, drone] = command

    def _observe(self, estimate: Array) -> None:
        """What the last period says of a push from outside; nothing at the first call"""
        if not self._observer:
            return
        carry, new = self._observer.carry, self._new
        self._moving[:], self._given[:] = estimate, self.command
        if new:
            carry[:, new] = 0.0
        self._observer.run()
        if new:
            carry[:PUSH, new] = 0.0
            self._new = []

    def _solve(self, drone: int, numbers: list[float], asked: Array) -> bool:
        """The drone's next plan; False where something is not finite"""
        parts, plans, observer = self._parts, self._plans, self._observer
        size = math.hypot(*numbers[6:10])
        if not (math.isfinite(sum(numbers)) and size > 0.0):
            return False
        attitude = [each / size for each in numbers[6:10]]
        PACK_BODY(self._body, 0, *numbers[:6], *attitude, *numbers[10:BODY])
        self._push[:] = observer.carry[:PUSH, drone] if observer else 0.0
        parts.goals.ahead[:] = asked
        cost = plans.begin(drone)
        if not (cost < math.inf and parts.goals.ahead_was_finite()):
            return False
        parts.solver.iterate(cost, parts.iterations, parts.tolerance)
        plans.keep(drone)
        return True

    def _solve_with_care(self, drone: int, numbers: list[float], asked: Array) -> Command:
        """The same by named tuples, and the command"""
        parts, plans, push_W = self._parts, self._plans, ZERO
        if not math.isfinite(sum(numbers)):
            self._new.append(drone)
        elif self._observer:
            push_W = Vec3(*self._observer.carry[:PUSH, drone].tolist())
        state, wanted = self._state_of(numbers), self._reference_of(asked.T)
        before = tuple(plans.before[drone].tolist())
        result, command = parts.continued(state, wanted, plans.inputs(drone), before, push_W)
        plans.put(drone, result.controls, result.states)
        return command
