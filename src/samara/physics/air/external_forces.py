"""Pushes from outside: forces and torques that the world computes, and a vehicle feels through one step."""

from typing import TYPE_CHECKING, Any

from samara.physics.effect import Effect, Wrench, add_wrenches

if TYPE_CHECKING:
    from samara.physics.types import Environment, State, Vehicle


def pushed_wrench(pushes: tuple[Wrench, ...]) -> Wrench:
    """Σ of all pushes; without any it is 0  [N, N·m]"""
    total = Wrench()
    for push in pushes:
        total = add_wrenches(total, push)
    return total


def _pushed(own: Any, state: "State", command: Any, vehicle: "Vehicle", environment: "Environment") -> Wrench:
    return pushed_wrench(environment.pushes)


PUSHED = Effect("pushed", wrench=_pushed, reads=("pushes",), planned=False)
