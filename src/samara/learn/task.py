"""A task: initial state, observation, reward and termination of an episode, as pure functions of scalars.

    def reset(draw, drone): return drone.trim._replace(p_W=Vec3(draw.uniform(-1.0, 1.0), 0.0, 0.0)), ()
    def observation(situation, drone): return (*situation.state.p_W, *situation.state.v_W)
    def reward(situation, drone): return 1.0 - norm(situation.state.p_W)
    def termination(situation, drone): return norm(situation.state.p_W) > 2.0

They are traced for every environment and trainer, so they branch only with `samara.core.ops.where`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from numpy.random import Generator

from samara.control.observation import OBSERVATIONS, Bounds, observe_state
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.ops import cos, safe_divide, safe_norm, sin
from samara.core.quantity import Scalar
from samara.physics.types import Command, Reference, State, Vehicle
from samara.sensors.camera import CameraModel
from samara.sensors.depth_camera import DepthCameraPart
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.trim import hover
from samara.world.appearance import CameraSurface
from samara.world.obstacles import Solid

if TYPE_CHECKING:
    from samara.learn.env_config import Randomization

ORIGIN_REFERENCE = Reference(ZERO)
Tree: TypeAlias = Any
"""Nested tuples of scalars."""
Reward: TypeAlias = Scalar | Mapping[str, Scalar]
"""A reward, or its terms by name."""


class TeammateMotion(NamedTuple):
    """The motion of another drone of the team."""

    p_W: Vec3
    v_W: Vec3


class Situation(NamedTuple):
    """The arguments of a task's functions; every leaf is a scalar. `teammates` are the motions of the other drones of
    the team, from the next one on, cyclically."""

    state: State
    goal: Tree = ()
    time: Scalar = 0.0  # [s] since the start of the episode
    action: tuple[Scalar, ...] = ()  # the latest, in [−1, 1]
    teammates: tuple[TeammateMotion, ...] = ()


def add_action_cost(cost: Scalar, action: tuple[Scalar, ...], weight: float) -> Scalar:
    """cost + weight · Σ aᵢ²"""
    for a in action:
        cost = cost + weight * a * a
    return cost


class TrimmedDrone(NamedTuple):
    """A vehicle, its hover state at the origin, and the command that holds it there.

    With domain randomization `vehicle` has the parameters drawn for the episode. `nominal` is the vehicle of the file,
    for which the loops of an autopilot are designed. `team_index` is the drone's index in a team.
    """

    vehicle: Vehicle
    trim: State
    command: Command
    nominal: Vehicle
    team_index: int = 0


class DepthObservation(NamedTuple):
    """A depth camera at the centre of mass along the body's x axis, and the obstacles as a function of an episode's goal."""

    camera: DepthCameraPart
    solids: Callable[[Tree], tuple[Solid, ...]]


def no_surfaces(goal: Tree) -> tuple[CameraSurface, ...]:
    """Return no surface: an episode has those of the camera's scene only."""
    return ()


class CameraObservation(NamedTuple):
    """A camera whose images are observed beside the state: its model, with the scene that is the same in all episodes, and the
    further surfaces of an episode as a function of its goal. Their number, shapes and looks do not depend on the goal."""

    model: CameraModel
    surfaces: Callable[[Tree], tuple[CameraSurface, ...]] = no_surfaces


class Task(NamedTuple):
    """The pure functions and constants of a task.

        reset(draw, drone) → state, goal
        observation(situation, drone) → scalars, about 1 in size
        reward(situation, drone) → scalar, smooth, for training by gradient; or its terms by name, whose sum is the reward
        termination(situation, drone) → condition

    `progress(before, after, drone)` → goal, if it changes: a gate passed, the next point of a path.
    `success(situation, drone)` is a condition at the end of an episode. `practice` replaces `reset` in training, not in
    evaluation.
    """

    name: str
    reset: Callable[["Draw", TrimmedDrone], tuple[State, Tree]]
    observation: Callable[[Situation, TrimmedDrone], tuple[Scalar, ...]]
    reward: Callable[[Situation, TrimmedDrone], Reward]
    termination: Callable[[Situation, TrimmedDrone], Scalar]
    progress: Callable[[Situation, Situation, TrimmedDrone], Tree] | None = None
    success: Callable[[Situation, TrimmedDrone], Scalar] | None = None
    period: float = 0.01  # [s] between actions
    substeps: int = 1  # physics steps between actions
    seconds: float = 5.0  # [s] after which the episode is truncated
    action: str = "rotors"  # a name in `samara.control.action_space.ACTION_SPACES`
    bounds: Bounds | None = None  # limits to which the observation clips position and velocity errors
    observation_name: str = ""  # name of the observation, if it is one of `samara.control.observation.OBSERVATIONS`
    randomization: "Randomization | None" = None  # default randomization of an environment
    drones: int = 1  # size of the team; an episode that ends for one drone ends for all
    practice: Callable[["Draw", TrimmedDrone], tuple[State, Tree]] | None = None
    depth_observation: DepthObservation | None = None  # camera whose depth image is appended to the observation
    camera: CameraObservation | None = None  # camera whose images environments return beside the observation
    action_change_cost: float = 0.0  # subtracted from the reward per squared change of an action between two steps

    @property
    def steps(self) -> int:
        """Count of actions in an episode."""
        return max(1, round(self.seconds / self.period))


class Draw:
    """Random numbers in the order in which `reset` requests them; without numbers every draw is ½, which serves to
    record the distributions."""

    def __init__(self, numbers: Iterator[Scalar] | None = None) -> None:
        self._numbers = numbers
        self.distributions: list[str] = []

    @classmethod
    def from_generator(cls, generator: Generator) -> "Draw":
        """Draw from a NumPy generator, for one episode in Python."""
        draw = cls()
        draw._numbers = (
            generator.random() if draw.distributions[-1] == "uniform" else generator.standard_normal() for _ in count()
        )
        return draw

    def uniform(self, low: Scalar = 0.0, high: Scalar = 1.0) -> Scalar:
        """Draw from the uniform distribution on (low, high)."""
        return low + (high - low) * self._next("uniform")

    def normal(self) -> Scalar:
        """Draw from the standard normal distribution."""
        return self._next("normal")

    def vector(self, size: Scalar) -> Vec3:
        """Draw a vector with components uniform within ±size."""
        return Vec3(*(self.uniform(-size, size) for _ in range(3)))

    def rotation(self, max_angle: Scalar, about_z: Scalar = 1.0) -> Quat:
        """Draw a rotation of up to an angle [rad] about a random axis; `about_z` below 1 favours horizontal axes."""
        x, y, z = self.normal(), self.normal(), about_z * self.normal()
        half = 0.5 * self.uniform(0.0, max_angle)
        scale = safe_divide(sin(half), safe_norm(x, y, z))
        return Quat(cos(half), x * scale, y * scale, z * scale)

    def attitude(self) -> Quat:
        """Draw a uniformly distributed attitude: four normals, normalized."""
        four = Quat(*(self.normal() for _ in range(4)))
        return four * safe_divide(1.0, safe_norm(*four))

    def _next(self, distribution: str) -> Scalar:
        self.distributions.append(distribution)
        return 0.5 if self._numbers is None else next(self._numbers)


def reset_distributions(task: Task, drone: TrimmedDrone) -> tuple[str, ...]:
    """Return the distributions that a task's `reset` draws from, in order: "uniform" or "normal" for each number."""
    draw = Draw()
    task.reset(draw, drone)
    return tuple(draw.distributions)


def observe(
    name: str,
    situation: Situation,
    drone: TrimmedDrone,
    reference: Reference = ORIGIN_REFERENCE,
    ahead: tuple[Scalar, ...] = (),
) -> tuple[Scalar, ...]:
    """Evaluate an observation of `samara.control.observation` relative to a reference, by default at rest at the origin.

    `ahead` is the part of the `race` observation that describes the course
    (`samara.control.gate_observation.observe_gates`).
    """
    state = observe_state(situation.state, reference, situation.action, drone.trim.rotor_speed)._replace(ahead=ahead)
    return OBSERVATIONS[name].compute(state)


def trim_drone(vehicle: Vehicle | str) -> TrimmedDrone:
    """Load a vehicle, remove its ground contact, and trim it at the origin."""
    model = load_vehicle(vehicle) if isinstance(vehicle, str) else vehicle
    if not model.rotors:
        raise ValueError(f"vehicle {model.name!r} has no rotors; expected at least one for a task to act with")
    model = model.without_effect("contact") if model.has("contact") else model
    trim, command = hover(model, p_W=(0.0, 0.0, 0.0))
    return TrimmedDrone(model, trim, command, model)
