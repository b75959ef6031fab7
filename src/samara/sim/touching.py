"""A step that sees who comes to the ground, and how fast: so that nobody has to look from outside after every one."""

from typing import Any, NamedTuple

from samara.backends.scan import Quiet, Templates
from samara.backends.stepper import Scan, Stepper
from samara.core.algebra import norm
from samara.core.ops import equal, logical_and, logical_or, maximum, where
from samara.core.quantity import Scalar
from samara.physics.types import Environment, State, Vehicle
from samara.vehicles.ground import contact_depths


class Touching(NamedTuple):
    """Whether a drone touched the ground when last seen (0 or 1), how fast it was then, and the fastest it came to it  [m/s]"""

    touched: Scalar = 1.0  # what is on the ground already does not come to it
    speed: Scalar = 0.0
    impact_speed: Scalar = 0.0


def seen(before: Touching, state: State, vehicle: Vehicle, environment: Environment) -> Touching:
    """A touch of what did not touch before is an impact, with the speed that it had before"""
    first, *others = (depth > 0.0 for depth in contact_depths(state, vehicle, environment))
    touches = first
    for other in others:
        touches = logical_or(touches, other)
    came = logical_and(touches, equal(before.touched, 0.0))
    impact_speed = where(came, maximum(before.speed, before.impact_speed), before.impact_speed)
    return Touching(where(touches, 1.0, 0.0), norm(state.v_W), impact_speed)


def seeing_step(stepper: Stepper, environment: Environment) -> Scan:
    """`Stepper.step` of a vehicle with contact that sees the ground before the step and after it: carry (x, `Touching`)

    Before it, because somebody may have moved the drone, or the ground, since the last one.
    """
    vehicle = stepper.vehicle
    once, templates, quiet = stepper.step(environment)

    def body(carry: Any, held: Any, inputs: Any) -> tuple[Any, Any]:
        state, touching = carry
        around = held[1].environment
        after, _ = once(state, held, inputs)
        return (after, seen(seen(touching, state, vehicle, around), after, vehicle, around)), ()

    both = Templates((templates.carry, Touching()), templates.held, templates.inputs)
    if quiet is None:
        return Scan(body, both)

    def worth_it(carry: Any, held: Any, inputs: Any) -> Any:
        return logical_and(quiet.idle(carry[0], held, inputs), _free(carry[0], held))

    def brief(carry: Any, held: Any, inputs: Any) -> tuple[Any, Any, Any]:
        state, touching = carry
        after, _, idle = quiet.body(state, held, inputs)
        nothing = Touching(0.0, norm(after.v_W), touching.impact_speed)
        return (after, nothing), (), logical_and(idle, logical_and(_free(state, held), _free(after, held)))

    def _free(state: State, held: Any) -> Any:
        return vehicle["contact"].is_out_of_reach(state.p_W, state.q_WB, held[1].environment.ground)

    return Scan(body, both, Quiet(worth_it, brief))
