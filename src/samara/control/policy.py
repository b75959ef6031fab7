"""Policies as controllers: a network maps the observation to an action at every call.

The policy's state, the last action and the hidden states of its recurrent units, advances once per policy period. Called at
the rate of its training, it acts as in training; called more often, it only reacts sooner. RAPTOR's code for PX4 does the same.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.control.action_space import (
    OF_ROTORS,
    SPEED,
    YAW_RATE,
    RotorRange,
    flown_at,
    loops_for,
    rotor_command,
    throttle_range,
    thrust_and_attitude_command,
    thrust_and_rates_command,
)
from samara.control.allocation import rotor_order
from samara.control.controller_type import NUMBERS, ControllerType, Knob
from samara.control.depth_observation import BLOCKS, NOTHING
from samara.control.gate_observation import Knowledge, Racer, at_gate, knowledge_of, sight
from samara.control.geometric import Geometric
from samara.control.observation import OBSERVATIONS, Bounds, heading, in_order, seen
from samara.control.policy_file import (
    Hidden,
    LayerKind,
    Network,
    Policy,
    Trim,
    evaluate,
    initial_hidden,
    load_policy,
    network_of,
)
from samara.core.algebra import ZERO, Vec3, rotate
from samara.core.lazy_import import MissingExtraError
from samara.core.ops import clamp, where
from samara.core.quantity import Scalar
from samara.core.safetensors import tensors_bytes
from samara.core.tree import flatten, unflatten
from samara.physics.types import Command, Reference, State, Vehicle
from samara.world.gates import chosen
from samara.world.track import Track, load_track

ALMOST = 1e-6  # fraction of a period: a sum of ticks that is short of it by rounding is a period


class PolicyMemory(NamedTuple):
    """Action and hidden states of the current period, and its remaining time [s]; a `Racer` for a policy that races; for one
    with a depth camera the latest depth observation (`samara.control.depth_observation`), which the simulation writes here."""

    action: tuple[Scalar, ...]
    hidden: Hidden
    left: Scalar
    racer: Any = ()
    picture: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class PolicyController:
    """Controller that runs a policy, called every `period` [s]; `initial_memory` is the controller state of the first call."""

    policy: Policy
    period: float
    loops: Geometric | None = None  # for actions that are not rotor commands
    knows: Knowledge | None = None  # of the gates, for a policy that races
    start_W: Vec3 = ZERO

    @property
    def looks(self) -> bool:
        """Whether the policy needs images of a depth camera."""
        return self.policy.observation == "depth"

    @property
    def initial_memory(self) -> PolicyMemory:
        racer = () if self.knows is None else Racer(self.start_W, self.knows.at_start)
        depth_blocks = (NOTHING,) * BLOCKS if self.looks else ()
        return PolicyMemory((0.0,) * self.policy.outputs, initial_hidden(self.policy.network), 0.0, racer, depth_blocks)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, controller_state: PolicyMemory
    ) -> tuple[Command, PolicyMemory]:
        """Evaluate the policy.

        Args:
            state: estimated state of the vehicle.
            reference: desired motion; a policy that races tracks the next gate instead.
            vehicle: model of the vehicle.
            controller_state: the state that the previous call returned; `initial_memory` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        policy = self.policy
        racer: Any = ()
        ahead: tuple[Scalar, ...] = controller_state.picture
        if self.knows is not None:
            racer, reference, ahead = raced(self.knows, controller_state.racer, state.p_W)
        if (
            self.looks
        ):  # the policy finds a path around obstacles, while the reference may pass straight through a column
            reference = Reference(reference.p_W, yaw=reference.yaw)
        action, hidden = act(policy, state, reference, controller_state, ahead)
        is_due = controller_state.left <= ALMOST * policy.period
        time_left = controller_state.left - self.period + where(is_due, policy.period, 0.0)
        new_values, old_values = flatten((action, hidden)), flatten((controller_state.action, controller_state.hidden))
        selected = iter(
            [where(is_due, new_value, old_value) for new_value, old_value in zip(new_values, old_values, strict=True)]
        )
        next_action, next_hidden = unflatten((controller_state.action, controller_state.hidden), selected)
        return self._command(action, state, reference, vehicle), PolicyMemory(
            next_action, next_hidden, time_left, racer, controller_state.picture
        )

    def _command(self, action: tuple[Scalar, ...], state: State, reference: Reference, vehicle: Vehicle) -> Command:
        if self.loops is None:
            return command_of(self.policy, action)
        if self.policy.action == "thrust_and_rates":
            return thrust_and_rates_command(action, state, vehicle, self.loops)
        if self.policy.action == "thrust_and_attitude":
            return thrust_and_attitude_command(action, state, vehicle, self.loops)
        v_W = reference.v_W + rotate(heading(reference), Vec3(*action[:3]) * SPEED)
        return flown_at(v_W, action[3] * YAW_RATE, state, vehicle, self.loops)


def raced(knowledge: Knowledge, racer: Racer, p_W: Vec3) -> tuple[Racer, Reference, tuple[Scalar, ...]]:
    """Update the progress of a racer; return it, the reference at the next gate, and the observation of the gates ahead."""
    progress = knowledge.onward(racer.standing, racer.p_W, p_W)
    course = knowledge.course(progress)
    gate = chosen(course.gates, progress.passed)
    return Racer(p_W, progress), at_gate(gate), sight(p_W, course, progress)


def act(
    policy: Policy, state: State, reference: Reference, controller_state: PolicyMemory, ahead: tuple[Scalar, ...] = ()
) -> tuple[tuple[Scalar, ...], Hidden]:
    """Return the action in [−1, 1] and the next hidden states; `ahead` is the observation of gates or of a depth image."""
    ordered_state = state._replace(rotor_speed=in_order(state.rotor_speed, policy.order))
    hover_speed = in_order(_trim(policy).hover_speed, policy.order)
    observed_state = seen(ordered_state, reference, controller_state.action, hover_speed, policy.bounds)._replace(
        ahead=ahead
    )
    observation = OBSERVATIONS[policy.observation].of(observed_state)
    action, hidden = evaluate(policy.network, observation, controller_state.hidden)
    is_unbounded = policy.action == "throttle" or policy.observation == "depth"  # their last layers are linear
    return (tuple(clamp(component, -1.0, 1.0) for component in action) if is_unbounded else action), hidden


def command_of(policy: Policy, action: Sequence[Scalar]) -> Command:
    """u = centre + reach a, in the vehicle's rotor order"""
    trim, ordered_action = _trim(policy), list(action)
    for i, rotor in enumerate(policy.order):
        ordered_action[rotor] = action[i]
    return rotor_command(ordered_action, RotorRange(trim.centre, trim.reach))


def _trim(policy: Policy) -> Trim:
    assert policy.trim is not None, "a policy for any vehicle must first be adapted to one"
    return policy.trim


def policy_controller(
    policy: Policy, vehicle: Vehicle, period: float, track: Track | None = None, course: Sequence[Scalar] = ()
) -> PolicyController:
    """Build the controller of a policy for a vehicle; a rotor failure does not change it.

    Args:
        policy: the policy; a policy for any vehicle takes this vehicle's trim.
        vehicle: model of the vehicle.
        period: time between calls [s], at most the period of the policy.
        track: nominal track, for a policy that races.
        course: true poses of the track's gates and poles, if they differ, as in `knowledge_of`; the policy observes them
            when the drone is near.
    """
    if (policy.observation == "race") is not (track is not None):
        verb = "needs" if track is None else "does not take"
        raise ValueError(
            f"the policy observes {policy.observation!r} and {verb} a track; expected a track only for a policy that races"
        )
    if period > policy.period * (1.0 + ALMOST):
        raise ValueError(
            f"the policy acts every {policy.period * 1e3:g} ms, and the autopilot runs every {period * 1e3:g} ms; expected "
            f"rates.autopilot = {1.0 / policy.period:g} or more"
        )
    loops = None if policy.action in OF_ROTORS else loops_for(vehicle)
    if track is None:
        return PolicyController(policy.fitted(vehicle), period, loops)
    knowledge = knowledge_of(track, course, vehicle)
    return PolicyController(policy.fitted(vehicle), period, loops, knowledge, track.start_W)


def _policy(value: Any) -> Policy | None:
    """Return the policy, loaded if `value` is a folder; None for another type."""
    return value if isinstance(value, Policy) else load_policy(value) if isinstance(value, (str, Path)) else None


def _track(value: Any) -> Track | None:
    """Return the track, loaded if `value` is a name or a file; None for another type."""
    return value if isinstance(value, Track) else load_track(value) if isinstance(value, (str, Path)) else None


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> PolicyController:
    if "file" not in options:
        raise ValueError("policy: file is missing: expected a policy folder, as in tuned('policy', file='policy/')")
    return policy_controller(options.pop("file"), vehicle, period, **options)


COURSE = {"track": Knob("a track by its name or its file", _track), "course": NUMBERS}
TYPE = ControllerType("policy", _build, {"file": Knob("a policy folder", _policy), **COURSE})


RAPTOR_BOUNDS = Bounds(0.5, 1.0)  # [m, m/s]
RAPTOR_LAYERS = (LayerKind("dense", 16, "relu"), LayerKind("gru", 16), LayerKind("dense", 4, "linear"))
RAPTOR_PERIOD = 0.01  # [s]


def raptor_policy(vehicle: Vehicle) -> Policy:
    """Build RAPTOR for a quadrotor in X configuration: −1 is a motor's minimum, 1 its maximum."""
    network, digest = _published()
    order = rotor_order(vehicle, "raptor")
    trim = Trim((1.0,) * len(order), *throttle_range(vehicle))  # it does not observe the rotor speeds
    return Policy(
        network,
        22,
        "raptor",
        trim=trim,
        bounds=RAPTOR_BOUNDS,
        period=RAPTOR_PERIOD,
        order=order,
        task="raptor",
        digest=digest,
    )


@cache
def _published() -> tuple[Network, str]:
    """Return RAPTOR's network and the SHA-256 of its weights."""
    tensors = published_tensors()
    return network_of(RAPTOR_LAYERS, 22, tensors), hashlib.sha256(tensors_bytes(tensors)).hexdigest()


def published_tensors() -> dict[str, Any]:
    """Return RAPTOR's published weights by their names in a policy folder."""
    try:
        from foundation_policy import Raptor
    except ImportError as error:
        raise MissingExtraError("the controller raptor needs its weights: pip install 'samara[raptor]'") from error
    first, recurrent, last = Raptor().layers
    return {
        "0.weight": first.weights,
        "0.bias": np.ravel(first.biases),
        "1.weight_ih": recurrent.weights_input,
        "1.weight_hh": recurrent.weights_hidden,
        "1.bias_ih": recurrent.biases_input,
        "1.bias_hh": recurrent.biases_hidden,
        "1.initial": recurrent.initial_hidden_state,
        "2.weight": last.weights,
        "2.bias": np.ravel(last.biases),
    }


def _build_raptor(vehicle: Vehicle, *, healthy: Sequence[bool], period: float) -> PolicyController:
    return policy_controller(raptor_policy(vehicle), vehicle, period)


RAPTOR = ControllerType("raptor", _build_raptor)


FOLDER = Path(__file__).parent / "data"
SHIPPED: dict[str, Mapping[str, Knob]] = {"universal": {}, "racer": COURSE, "navigate": {}}
"""Policies installed with the package, with the options of each."""


@cache
def shipped_policy(name: str) -> Policy:
    """Load a policy that is installed with the package."""
    return load_policy(FOLDER / name)


def _build_bundled(
    name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any
) -> PolicyController:
    return policy_controller(shipped_policy(name), vehicle, period, **options)


BUNDLED = tuple(ControllerType(name, partial(_build_bundled, name), knobs) for name, knobs in SHIPPED.items())
TYPES = (TYPE, *BUNDLED, RAPTOR)
