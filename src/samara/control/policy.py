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
    MAX_SPEED,
    MAX_YAW_RATE,
    ROTOR_ACTIONS,
    RotorRange,
    autopilot_loops,
    rotor_command,
    throttle_range,
    thrust_and_attitude_command,
    thrust_and_rates_command,
    track_velocity,
)
from samara.control.allocation import quad_x_rotor_order
from samara.control.controller_type import FINITE_NUMBERS, ControllerType, OptionParser
from samara.control.depth_observation import BLOCK_COUNT, INITIAL_INVERSE_DISTANCE
from samara.control.gate_observation import CourseKnowledge, RacerState, course_knowledge, gate_reference, observe_gates
from samara.control.geometric import Geometric
from samara.control.observation import OBSERVATIONS, Bounds, heading_quat, observe_state, reorder
from samara.control.policy_file import (
    ActionTrim,
    Hidden,
    LayerSpec,
    Network,
    Policy,
    build_network,
    evaluate_network,
    initial_hidden,
    load_policy,
)
from samara.core.algebra import ZERO, Vec3, rotate
from samara.core.block_ops import Layer
from samara.core.extras import missing_extra
from samara.core.ops import clamp, where
from samara.core.quantity import Scalar
from samara.core.safetensors import tensors_bytes
from samara.core.tree import flatten, unflatten
from samara.physics.types import Command, Reference, State, Vehicle
from samara.world.gates import select_next_gate
from samara.world.track import Track, load_track

PERIOD_TOLERANCE = 1e-6  # fraction of a period: a sum of ticks that is short of it by rounding is a period


class PolicyState(NamedTuple):
    """Action and hidden states of the current period, and its remaining time [s]; a `RacerState` for a policy that
    races; for a policy with a depth camera, the latest depth observation (`samara.control.depth_observation`), which
    the simulation writes here."""

    action: tuple[Scalar, ...]
    hidden: Hidden
    time_left: Scalar
    racer: Any = ()
    depth_blocks: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class PolicyController:
    """Controller that runs a policy, called every `period` [s]; `initial_state` is the controller state of the first call."""

    policy: Policy
    period: float
    loops: Geometric | None = None  # for actions that are not rotor commands
    course_knowledge: CourseKnowledge | None = None  # of the gates, for a policy that races
    start_W: Vec3 = ZERO

    @property
    def uses_depth_camera(self) -> bool:
        """Whether the policy needs images of a depth camera."""
        return self.policy.observation == "depth"

    @property
    def initial_state(self) -> PolicyState:
        racer = (
            () if self.course_knowledge is None else RacerState(self.start_W, self.course_knowledge.initial_progress)
        )
        depth_blocks = (INITIAL_INVERSE_DISTANCE,) * BLOCK_COUNT if self.uses_depth_camera else ()
        return PolicyState(
            (0.0,) * self.policy.output_count, initial_hidden(self.policy.network), 0.0, racer, depth_blocks
        )

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, controller_state: PolicyState
    ) -> tuple[Command, PolicyState]:
        """Evaluate the policy.

        Args:
            state: estimated state of the vehicle.
            reference: desired motion; a policy that races tracks the next gate instead.
            vehicle: model of the vehicle.
            controller_state: the state that the previous call returned; `initial_state` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        policy = self.policy
        racer: Any = ()
        ahead: tuple[Scalar, ...] = controller_state.depth_blocks
        if self.course_knowledge is not None:
            racer, reference, ahead = update_race(self.course_knowledge, controller_state.racer, state.p_W)
        if (
            self.uses_depth_camera
        ):  # the policy finds a path around obstacles; the reference may pass straight through a column
            reference = Reference(reference.p_W, yaw=reference.yaw)
        action, hidden = compute_action(policy, state, reference, controller_state, ahead)
        is_due = controller_state.time_left <= PERIOD_TOLERANCE * policy.period
        time_left = controller_state.time_left - self.period + where(is_due, policy.period, 0.0)
        new_values, old_values = flatten((action, hidden)), flatten((controller_state.action, controller_state.hidden))
        selected = iter(
            [where(is_due, new_value, old_value) for new_value, old_value in zip(new_values, old_values, strict=True)]
        )
        next_action, next_hidden = unflatten((controller_state.action, controller_state.hidden), selected)
        return self._command(action, state, reference, vehicle), PolicyState(
            next_action, next_hidden, time_left, racer, controller_state.depth_blocks
        )

    def _command(self, action: tuple[Scalar, ...], state: State, reference: Reference, vehicle: Vehicle) -> Command:
        if self.loops is None:
            return policy_command(self.policy, action)
        if self.policy.action == "thrust_and_rates":
            return thrust_and_rates_command(action, state, vehicle, self.loops)
        if self.policy.action == "thrust_and_attitude":
            return thrust_and_attitude_command(action, state, vehicle, self.loops)
        v_W = reference.v_W + rotate(heading_quat(reference), Vec3(*action[:3]) * MAX_SPEED)
        return track_velocity(v_W, action[3] * MAX_YAW_RATE, state, vehicle, self.loops)


def update_race(
    knowledge: CourseKnowledge, racer: RacerState, p_W: Vec3
) -> tuple[RacerState, Reference, tuple[Scalar, ...]]:
    """Update the progress of a racer; return it, the reference at the next gate, and the observation of the gates ahead."""
    progress = knowledge.advance(racer.progress, racer.p_W, p_W)
    course = knowledge.course(progress)
    gate = select_next_gate(course.gates, progress.gates_passed)
    return RacerState(p_W, progress), gate_reference(gate), observe_gates(p_W, course, progress)


def compute_action(
    policy: Policy, state: State, reference: Reference, controller_state: PolicyState, ahead: tuple[Scalar, ...] = ()
) -> tuple[tuple[Scalar, ...], Hidden]:
    """Return the action in [−1, 1] and the next hidden states; `ahead` is the observation of gates or of a depth image."""
    ordered_state = state._replace(rotor_speed=reorder(state.rotor_speed, policy.rotor_order))
    hover_speed = reorder(_trim(policy).hover_speed, policy.rotor_order)
    observed_state = observe_state(
        ordered_state, reference, controller_state.action, hover_speed, policy.bounds
    )._replace(ahead=ahead)
    observation = OBSERVATIONS[policy.observation].compute(observed_state)
    action, hidden = evaluate_network(policy.network, observation, controller_state.hidden)
    last_layer = policy.network[-1]
    is_bounded = isinstance(last_layer, Layer) and last_layer.activation in ("tanh", "sigmoid")
    return (action if is_bounded else tuple(clamp(component, -1.0, 1.0) for component in action)), hidden


def policy_command(policy: Policy, action: Sequence[Scalar]) -> Command:
    """u = offset + scale a, in the vehicle's rotor order"""
    trim, ordered_action = _trim(policy), list(action)
    for i, rotor in enumerate(policy.rotor_order):
        ordered_action[rotor] = action[i]
    return rotor_command(ordered_action, RotorRange(trim.offset, trim.scale))


def _trim(policy: Policy) -> ActionTrim:
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
        course: true poses of the track's gates and poles, if they differ, as in `course_knowledge`; the policy observes them
            when the drone is near.
    """
    if (policy.observation == "race") is not (track is not None):
        verb = "needs" if track is None else "does not take"
        raise ValueError(
            f"the policy observes {policy.observation!r} and {verb} a track; expected a track only for a policy that races"
        )
    if period > policy.period * (1.0 + PERIOD_TOLERANCE):
        raise ValueError(
            f"the policy acts every {policy.period * 1e3:g} ms, and the autopilot runs every {period * 1e3:g} ms; expected "
            f"rates.control = {1.0 / policy.period:g} or more"
        )
    loops = None if policy.action in ROTOR_ACTIONS else autopilot_loops(vehicle)
    if track is None:
        return PolicyController(policy.adapt(vehicle), period, loops)
    knowledge = course_knowledge(track, course, vehicle)
    return PolicyController(policy.adapt(vehicle), period, loops, knowledge, track.start_W)


def _parse_policy(value: Any) -> Policy | None:
    """Return the policy, loaded if `value` is a folder; None for another type."""
    return value if isinstance(value, Policy) else load_policy(value) if isinstance(value, (str, Path)) else None


def _parse_track(value: Any) -> Track | None:
    """Return the track, loaded if `value` is a name or a file; None for another type."""
    return value if isinstance(value, Track) else load_track(value) if isinstance(value, (str, Path)) else None


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> PolicyController:
    if "file" not in options:
        raise ValueError(
            "policy: file is missing: expected a policy folder, as in controller_spec('policy', file='policy/')"
        )
    return policy_controller(options.pop("file"), vehicle, period, **options)


COURSE_OPTIONS = {"track": OptionParser("a track by its name or its file", _parse_track), "course": FINITE_NUMBERS}
POLICY_TYPE = ControllerType(
    "policy",
    "A policy of your own, from the folder `file`",
    _build,
    {"file": OptionParser("a policy folder", _parse_policy), **COURSE_OPTIONS},
)


RAPTOR_BOUNDS = Bounds(0.5, 1.0)  # [m, m/s]
RAPTOR_LAYERS = (LayerSpec("dense", 16, "relu"), LayerSpec("gru", 16), LayerSpec("dense", 4, "linear"))
RAPTOR_PERIOD = 0.01  # [s]


def raptor_policy(vehicle: Vehicle) -> Policy:
    """Build RAPTOR for a quadrotor in X configuration: −1 is a motor's minimum, 1 its maximum."""
    network, digest = _raptor_network()
    order = quad_x_rotor_order(vehicle, "raptor")
    trim = ActionTrim((1.0,) * len(order), *throttle_range(vehicle))  # it does not observe the rotor speeds
    return Policy(
        network,
        22,
        "raptor",
        trim=trim,
        bounds=RAPTOR_BOUNDS,
        period=RAPTOR_PERIOD,
        rotor_order=order,
        task="raptor",
        digest=digest,
    )


@cache
def _raptor_network() -> tuple[Network, str]:
    """Return RAPTOR's network and the SHA-256 of its weights."""
    tensors = published_raptor_tensors()
    return build_network(RAPTOR_LAYERS, 22, tensors), hashlib.sha256(tensors_bytes(tensors)).hexdigest()


def published_raptor_tensors() -> dict[str, Any]:
    """Return RAPTOR's published weights by their names in a policy folder."""
    try:
        from foundation_policy import Raptor
    except ImportError as error:
        raise missing_extra("the controller raptor", "foundation-policy", "raptor") from error
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


RAPTOR_TYPE = ControllerType("raptor", "RAPTOR: flies any quadrotor; needs the extra raptor", _build_raptor)


BUNDLED_FOLDER = Path(__file__).parent / "data"
BUNDLED_OPTIONS: dict[str, Mapping[str, OptionParser]] = {"universal": {}, "racer": COURSE_OPTIONS, "navigate": {}}
BUNDLED_DESCRIPTIONS = {
    "universal": "A policy that hovers an unknown quadrotor",
    "racer": "A policy that races through gates",
    "navigate": "A policy that crosses a forest with a depth camera",
}
"""Policies installed with the package, with the options of each."""


@cache
def bundled_policy(name: str) -> Policy:
    """Load a policy that is installed with the package."""
    return load_policy(BUNDLED_FOLDER / name)


def _build_bundled(
    name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any
) -> PolicyController:
    return policy_controller(bundled_policy(name), vehicle, period, **options)


BUNDLED_TYPES = tuple(
    ControllerType(name, BUNDLED_DESCRIPTIONS[name], partial(_build_bundled, name), knobs)
    for name, knobs in BUNDLED_OPTIONS.items()
)
TYPES = (POLICY_TYPE, *BUNDLED_TYPES, RAPTOR_TYPE)
