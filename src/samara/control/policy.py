"""A policy as a controller: what a network makes of the error, every time it is asked.

It acts whenever it is called. What it remembers, the last action and what its recurrent units hold, goes on once in each of its
own periods: called at the rate it has learnt at, it does what it did there, and called more often it only sees sooner. RAPTOR's
own code for PX4 does the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samara.control.action import (
    SPEED,
    YAW_RATE,
    RotorRange,
    flown_at,
    loops_for,
    rotor_command,
    thrust_and_rates_command,
)
from samara.control.geometric import Geometric
from samara.control.network import Hidden, evaluate, initial_hidden
from samara.control.observation import OBSERVATIONS, heading, in_order, seen
from samara.control.policy_file import Policy, Trim
from samara.core.algebra import Vec3, rotate
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.reference import Reference
from samara.physics.types import Command, State, Vehicle

ALMOST = 1e-6  # of a period: a sum of ticks that is short of it by rounding is a period


class PolicyMemory(NamedTuple):
    """The action and the hidden state of the last period, and how long it still lasts  [s]"""

    action: tuple[Scalar, ...]
    hidden: Hidden
    left: Scalar


@dataclass(frozen=True)
class PolicyController:
    """`controller(state, reference, vehicle, memory) → command, memory`, called every `period` [s]"""

    policy: Policy
    period: float
    loops: Geometric | None = None  # of actions that are not commands of rotors

    @property
    def initial_memory(self) -> PolicyMemory:
        return PolicyMemory((0.0,) * self.policy.outputs, initial_hidden(self.policy.network), 0.0)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, memory: PolicyMemory
    ) -> tuple[Command, PolicyMemory]:
        own = self.policy
        action, hidden = act(own, state, reference, memory)
        due = memory.left <= ALMOST * own.period
        left = memory.left - self.period + where(due, own.period, 0.0)
        new, old = flatten((action, hidden)), flatten((memory.action, memory.hidden))
        chosen = iter([where(due, after, before) for after, before in zip(new, old, strict=True)])
        kept, held = unflatten((memory.action, memory.hidden), chosen)
        return self._command(action, state, reference, vehicle), PolicyMemory(kept, held, left)

    def _command(self, action: tuple[Scalar, ...], state: State, reference: Reference, vehicle: Vehicle) -> Command:
        if self.loops is None:
            return command_of(self.policy, action)
        if self.policy.action == "thrust_and_rates":
            return thrust_and_rates_command(action, state, vehicle, self.loops)
        v_W = reference.v_W + rotate(heading(reference), Vec3(*action[:3]) * SPEED)
        return flown_at(v_W, action[3] * YAW_RATE, state, vehicle, self.loops)


def act(policy: Policy, state: State, reference: Reference, memory: PolicyMemory) -> tuple[tuple[Scalar, ...], Hidden]:
    """The action in [−1, 1], and what the recurrent units then hold"""
    in_its_order = state._replace(rotor_speed=in_order(state.rotor_speed, policy.order))
    hover_speed = in_order(_trim(policy).hover_speed, policy.order)
    own = seen(in_its_order, reference, memory.action, hover_speed, policy.bounds)
    observed = OBSERVATIONS[policy.observation].of(own)
    return evaluate(policy.network, observed, memory.hidden)


def command_of(policy: Policy, action: Sequence[Scalar]) -> Command:
    """u = centre + reach a, in the vehicle's order of rotors"""
    trim, own = _trim(policy), list(action)
    for k, rotor in enumerate(policy.order):
        own[rotor] = action[k]
    return rotor_command(own, RotorRange(trim.centre, trim.reach))


def _trim(policy: Policy) -> Trim:
    assert policy.trim is not None, "a policy for any vehicle is fitted to one first"
    return policy.trim


def policy_controller(policy: Policy, vehicle: Vehicle, period: float) -> PolicyController:
    """The controller of a policy for a vehicle; where a rotor fails it goes on as it has learnt"""
    if period > policy.period * (1.0 + ALMOST):
        raise ValueError(
            f"the policy acts every {policy.period * 1e3:g} ms, and the autopilot runs every {period * 1e3:g} ms; expected "
            f"rates.autopilot = {1.0 / policy.period:g} or more"
        )
    return PolicyController(policy.fitted(vehicle), period, None if policy.action == "rotors" else loops_for(vehicle))
