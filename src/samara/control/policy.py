"""A policy as a controller: what a network makes of the error, every time it is asked.

It acts whenever it is called. What it remembers, the last action and what its recurrent units hold, goes on once in each of its
own periods: called at the rate of its training, it does what it did there, and called more often it only sees sooner. RAPTOR's
own code for PX4 does the same.
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

ALMOST = 1e-6  # of a period: a sum of ticks that is short of it by rounding is a period


class PolicyMemory(NamedTuple):
    """The action and the hidden state of the last period, and how long it still lasts [s]; of one that races, a `Racer`; of one
    that looks, what it was last shown of a picture (`samara.control.depth_observation`), which a flight writes here"""

    action: tuple[Scalar, ...]
    hidden: Hidden
    left: Scalar
    racer: Any = ()
    picture: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class PolicyController:
    """`controller(state, reference, vehicle, memory) → command, memory`, called every `period` [s]"""

    policy: Policy
    period: float
    loops: Geometric | None = None  # of actions that are not commands of rotors
    knows: Knowledge | None = None  # of the gates, where it races
    start_W: Vec3 = ZERO

    @property
    def looks(self) -> bool:
        """Whether it has to be shown pictures of a depth camera"""
        return self.policy.observation == "depth"

    @property
    def initial_memory(self) -> PolicyMemory:
        racer = () if self.knows is None else Racer(self.start_W, self.knows.at_start)
        dark = (NOTHING,) * BLOCKS if self.looks else ()
        return PolicyMemory((0.0,) * self.policy.outputs, initial_hidden(self.policy.network), 0.0, racer, dark)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, memory: PolicyMemory
    ) -> tuple[Command, PolicyMemory]:
        own = self.policy
        racer: Any = ()
        ahead: tuple[Scalar, ...] = memory.picture
        if self.knows is not None:
            racer, reference, ahead = raced(self.knows, memory.racer, state.p_W)
        if self.looks:  # it finds its own way to where the reference is, which may have gone straight through a column
            reference = Reference(reference.p_W, yaw=reference.yaw)
        action, hidden = act(own, state, reference, memory, ahead)
        due = memory.left <= ALMOST * own.period
        left = memory.left - self.period + where(due, own.period, 0.0)
        new, old = flatten((action, hidden)), flatten((memory.action, memory.hidden))
        chosen = iter([where(due, after, before) for after, before in zip(new, old, strict=True)])
        kept, held = unflatten((memory.action, memory.hidden), chosen)
        return self._command(action, state, reference, vehicle), PolicyMemory(kept, held, left, racer, memory.picture)

    def _command(self, action: tuple[Scalar, ...], state: State, reference: Reference, vehicle: Vehicle) -> Command:
        if self.loops is None:
            return command_of(self.policy, action)
        if self.policy.action == "thrust_and_rates":
            return thrust_and_rates_command(action, state, vehicle, self.loops)
        if self.policy.action == "thrust_and_attitude":
            return thrust_and_attitude_command(action, state, vehicle, self.loops)
        v_W = reference.v_W + rotate(heading(reference), Vec3(*action[:3]) * SPEED)
        return flown_at(v_W, action[3] * YAW_RATE, state, vehicle, self.loops)


def raced(knows: Knowledge, racer: Racer, p_W: Vec3) -> tuple[Racer, Reference, tuple[Scalar, ...]]:
    """Where a racer is by now; the next gate as it is known, to be flown to; and what is seen ahead"""
    standing = knows.onward(racer.standing, racer.p_W, p_W)
    course = knows.course(standing)
    gate = chosen(course.gates, standing.passed)
    return Racer(p_W, standing), at_gate(gate), sight(p_W, course, standing)


def act(
    policy: Policy, state: State, reference: Reference, memory: PolicyMemory, ahead: tuple[Scalar, ...] = ()
) -> tuple[tuple[Scalar, ...], Hidden]:
    """The action in [−1, 1], and what the recurrent units then hold; `ahead` is what one who races or looks sees"""
    in_its_order = state._replace(rotor_speed=in_order(state.rotor_speed, policy.order))
    hover_speed = in_order(_trim(policy).hover_speed, policy.order)
    own = seen(in_its_order, reference, memory.action, hover_speed, policy.bounds)._replace(ahead=ahead)
    observed = OBSERVATIONS[policy.observation].of(own)
    action, hidden = evaluate(policy.network, observed, memory.hidden)
    cut = policy.action == "throttle" or policy.observation == "depth"  # their last layers are linear
    return (tuple(clamp(own, -1.0, 1.0) for own in action) if cut else action), hidden


def command_of(policy: Policy, action: Sequence[Scalar]) -> Command:
    """u = centre + reach a, in the vehicle's order of rotors"""
    trim, own = _trim(policy), list(action)
    for k, rotor in enumerate(policy.order):
        own[rotor] = action[k]
    return rotor_command(own, RotorRange(trim.centre, trim.reach))


def _trim(policy: Policy) -> Trim:
    assert policy.trim is not None, "a policy for any vehicle is fitted to one first"
    return policy.trim


def policy_controller(
    policy: Policy, vehicle: Vehicle, period: float, track: Track | None = None, course: Sequence[Scalar] = ()
) -> PolicyController:
    """The controller of a policy for a vehicle; where a rotor fails it goes on as it was trained

    One trained to race is told the track, and, where its gates and poles are not quite there, the `course`: numbers as
    `samara.control.gate_observation.knowledge_of` takes them. It sees them once it is near.
    """
    if (policy.observation == "race") is not (track is not None):
        word = "needs" if track is None else "does not take"
        raise ValueError(
            f"the policy sees {policy.observation!r} and {word} a track; expected one where, and only where, a policy races"
        )
    if period > policy.period * (1.0 + ALMOST):
        raise ValueError(
            f"the policy acts every {policy.period * 1e3:g} ms, and the autopilot runs every {period * 1e3:g} ms; expected "
            f"rates.autopilot = {1.0 / policy.period:g} or more"
        )
    loops = None if policy.action in OF_ROTORS else loops_for(vehicle)
    if track is None:
        return PolicyController(policy.fitted(vehicle), period, loops)
    knows = knowledge_of(track, course, vehicle)
    return PolicyController(policy.fitted(vehicle), period, loops, knows, track.start_W)


def _policy(value: Any) -> Policy | None:
    """The policy itself, or that of a folder: PolicyError if it cannot be used"""
    return value if isinstance(value, Policy) else load_policy(value) if isinstance(value, (str, Path)) else None


def _track(value: Any) -> Track | None:
    """The track itself, or that of a name or a file: TrackError if it cannot be used"""
    return value if isinstance(value, Track) else load_track(value) if isinstance(value, (str, Path)) else None


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> PolicyController:
    if "file" not in chosen:
        raise ValueError("policy: file is missing: expected a policy folder, as in tuned('policy', file='policy/')")
    return policy_controller(chosen.pop("file"), vehicle, period, **chosen)


COURSE = {"track": Knob("a track by its name or its file", _track), "course": NUMBERS}
TYPE = ControllerType("policy", _build, {"file": Knob("a policy folder", _policy), **COURSE})


RAPTOR_BOUNDS = Bounds(0.5, 1.0)  # [m, m/s]
RAPTOR_LAYERS = (LayerKind("dense", 16, "relu"), LayerKind("gru", 16), LayerKind("dense", 4, "linear"))
RAPTOR_PERIOD = 0.01  # [s]


def raptor_policy(vehicle: Vehicle) -> Policy:
    """RAPTOR for a quadrotor in X: −1 is a motor's least, 1 its most"""
    network, digest = _published()
    order = rotor_order(vehicle, "raptor")
    trim = Trim((1.0,) * len(order), *throttle_range(vehicle))  # it does not look at the rotors' speeds
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
    """The network, and the SHA-256 of its numbers"""
    tensors = published_tensors()
    return network_of(RAPTOR_LAYERS, 22, tensors), hashlib.sha256(tensors_bytes(tensors)).hexdigest()


def published_tensors() -> dict[str, Any]:
    """Its numbers by the names of a policy folder"""
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
"""By name, with the parameters that may be chosen of each"""


@cache
def shipped_policy(name: str) -> Policy:
    """The policy of that name, from the folder that is installed with the package"""
    return load_policy(FOLDER / name)


def _build_bundled(
    name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any
) -> PolicyController:
    return policy_controller(shipped_policy(name), vehicle, period, **chosen)


BUNDLED = tuple(ControllerType(name, partial(_build_bundled, name), knobs) for name, knobs in SHIPPED.items())
TYPES = (TYPE, *BUNDLED, RAPTOR)
