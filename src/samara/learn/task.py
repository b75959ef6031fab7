"""A task: where an episode starts, what is seen, what it is worth and when it is over, as pure functions of scalars.

    def reset(draw, craft): return craft.trim._replace(p_W=Vec3(draw.uniform(-1.0, 1.0), 0.0, 0.0)), ()
    def observation(situation, craft): return (*situation.state.p_W, *situation.state.v_W)
    def reward(situation, craft): return 1.0 - norm(situation.state.p_W)
    def termination(situation, craft): return norm(situation.state.p_W) > 2.0

They are traced, so that each is written once for every environment and learner: they branch with `samara.core.ops.where` alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from samara.control.observation import Bounds
from samara.core.algebra import Quat, Vec3
from samara.core.ops import cos, safe_divide, safe_norm, sin
from samara.core.quantity import Scalar
from samara.physics.types import Command, State, Vehicle
from samara.sensors.depth_camera import DepthCameraPart
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.trim import hover
from samara.world.obstacles import Solid


class Other(NamedTuple):
    """Another drone of the same team"""

    p_W: Vec3
    v_W: Vec3


class Situation(NamedTuple):
    """What a task's functions see; every leaf a scalar. `others` are the rest of a team, in its order, from the next one on."""

    state: State
    goal: Any = ()
    time: Scalar = 0.0  # [s] since the start of the episode
    action: tuple[Scalar, ...] = ()  # the last one, in [−1, 1]
    others: tuple[Other, ...] = ()


def add_action_cost(cost: Scalar, action: tuple[Scalar, ...], weight: float) -> Scalar:
    """cost + weight · Σ aᵢ²"""
    for a in action:
        cost = cost + weight * a * a
    return cost


class Craft(NamedTuple):
    """A vehicle, the state in which it hovers at the origin, and the command that holds it there.

    Where vehicles are drawn at random, its numbers are a drone's own. `nominal` is the vehicle as its file has it: that is what
    the loops of an autopilot are made for. `number` is its place in a team.
    """

    vehicle: Vehicle
    trim: State
    command: Command
    nominal: Vehicle
    number: int = 0


class Sight(NamedTuple):
    """A camera at the centre of mass that looks along the body's x axis, and the solids it is among, of an episode's goal"""

    camera: DepthCameraPart
    solids: Callable[[Any], tuple[Solid, ...]]


class Task(NamedTuple):
    """reset(draw, craft) → state, goal;  observation(situation, craft) → scalars, about 1 in size;  reward(situation, craft),
    smooth: a gradient climbs it;  termination(situation, craft), a condition

    `progress(before, after, craft)` → goal, where it changes: a gate passed, the next point of a path. `success(situation,
    craft)` is a condition at the last moment of an episode. `randomization` belongs to the task, unless another is chosen.
    `practice` is a `reset` for learning alone, where it is learnt sooner from other starts than it is judged by.
    """

    name: str
    reset: Callable[["Draw", Craft], tuple[State, Any]]
    observation: Callable[[Situation, Craft], tuple[Scalar, ...]]
    reward: Callable[[Situation, Craft], Scalar]
    termination: Callable[[Situation, Craft], Scalar]
    progress: Callable[[Situation, Situation, Craft], Any] | None = None
    success: Callable[[Situation, Craft], Scalar] | None = None
    period: float = 0.01  # [s] between actions
    substeps: int = 1  # of RK4 within
    seconds: float = 5.0  # then the episode is cut
    action: str = "rotors"  # or another of `samara.learn.actions`
    bounds: Bounds | None = None  # of the errors that its observation shows, where it cuts them
    sees: str = ""  # what of `samara.control.observation` the observation is, where a controller can show it as well
    randomization: Any = None  # of `samara.learn.domain_randomization`
    drones: int = 1  # a team of so many; what ends it for one ends it for all
    practice: Callable[["Draw", Craft], tuple[State, Any]] | None = None
    sight: Sight | None = None  # what comes after the observation (`samara.learn.sight`)
    action_change_cost: float = 0.0  # subtracted from the reward per squared change of an action between two steps

    @property
    def steps(self) -> int:
        """Actions in an episode"""
        return max(1, round(self.seconds / self.period))


class Draw:
    """Random numbers in the order in which a `reset` asks for them; ½ each while it is only seen what is asked for."""

    def __init__(self, numbers: Iterator[Scalar] | None = None) -> None:
        self._numbers = numbers
        self.kinds: list[str] = []

    def uniform(self, low: Scalar = 0.0, high: Scalar = 1.0) -> Scalar:
        """Between low and high, all alike"""
        return low + (high - low) * self._next("uniform")

    def normal(self) -> Scalar:
        """Of mean 0 and standard deviation 1"""
        return self._next("normal")

    def vector(self, size: Scalar) -> Vec3:
        """Each component within ±size"""
        return Vec3(*(self.uniform(-size, size) for _ in range(3)))

    def turn(self, largest: Scalar, about_z: Scalar = 1.0) -> Quat:
        """By up to an angle [rad], about an axis of any direction; `about_z` below 1 makes it rather a level one"""
        x, y, z = self.normal(), self.normal(), about_z * self.normal()
        half = 0.5 * self.uniform(0.0, largest)
        share = safe_divide(sin(half), safe_norm(x, y, z))
        return Quat(cos(half), x * share, y * share, z * share)

    def attitude(self) -> Quat:
        """Any, all alike: four normals, to length one"""
        four = Quat(*(self.normal() for _ in range(4)))
        return four * safe_divide(1.0, safe_norm(*four))

    def _next(self, kind: str) -> Scalar:
        self.kinds.append(kind)
        return 0.5 if self._numbers is None else next(self._numbers)


def kinds_drawn(task: Task, craft: Craft) -> tuple[str, ...]:
    """What a task's `reset` draws, in its order: "uniform" or "normal" for each number"""
    draw = Draw()
    task.reset(draw, craft)
    return tuple(draw.kinds)


# Crafts -------------------------------------------------------------------------------------------------------------


def craft_for(vehicle: Vehicle | str) -> Craft:
    """A vehicle with no ground to meet, and its trim at the origin"""
    own = load_vehicle(vehicle) if isinstance(vehicle, str) else vehicle
    if not own.rotors:
        raise ValueError(f"vehicle {own.name!r} has no rotors; a task needs some to act with")
    own = own.without_effect("contact") if own.has("contact") else own
    trim, command = hover(own, p_W=(0.0, 0.0, 0.0))
    return Craft(own, trim, command, own)
