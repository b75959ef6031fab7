"""Between a policy and the program that calls its C: axes, units and order of rotors there, made into ours and back.

What a boundary does is traced together with the policy: the C takes the caller's numbers as they are.
"""

from collections.abc import Callable
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.quantity import Scalar
from samara.physics.frames import enu_from_ned, state_enu_flu_from_ned_frd, yaw_enu_from_ned
from samara.physics.types import Command, State


class Told(NamedTuple):
    """A state; and of a reference the place, the derivatives of that by time, and the yaw."""

    state: State
    moving: tuple[Vec3, ...]
    yaw: Scalar


class Units(NamedTuple):
    """What the header says of each number that is told, and of what is given back."""

    p: str = "[m]"
    v: str = "[m/s], world axes"
    q: str = ""
    omega: str = "[rad/s], body axes"
    moving: str = ""
    yaw: str = ""
    given: str = ""


class Boundary(NamedTuple):
    """`ours(told)` is what is told, in our axes and units; `theirs(command)` the outputs in the caller's order and meaning

    Without `measures_rotors` nobody tells how fast the rotors turn, and the C follows their motors itself. A task with a
    `small_stack` has what layers give in static memory.
    """

    frames: str
    units: Units
    ours: Callable[[Told], Told]
    theirs: Callable[[Command], tuple[Scalar, ...]]
    measures_rotors: bool = True
    small_stack: bool = False


def _ours_from_ned(told: Told) -> Told:
    moving = tuple(map(enu_from_ned, told.moving))
    return Told(state_enu_flu_from_ned_frd(told.state), moving, yaw_enu_from_ned(told.yaw))


def _as_it_is(command: Command) -> tuple[Scalar, ...]:
    return tuple(command)


_SI = "Quaternions are Hamilton's, scalar first, from body to world. SI units, radians."
OURS = Boundary(
    f"world: x, y, z up; body: forward, left, up; yaw counter-clockwise from x. {_SI}",
    Units(),
    lambda told: told,
    _as_it_is,
)
NED = Boundary(
    f"world: north, east, down; body: forward, right, down; yaw clockwise from north. {_SI}",
    Units(),
    _ours_from_ned,
    _as_it_is,
)
