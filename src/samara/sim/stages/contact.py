"""Contact stage: whether each drone has landed or crashed, from its contact with the ground."""

from typing import Any, NamedTuple

from samara.core.quantity import Scalar
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.landing import touchdown
from samara.sim.setup import DroneSetup
from samara.sim.stage import Stage, StageFactory, StageSet
from samara.vehicles.defaults import ground_clearance


class Status(NamedTuple):
    """Whether a drone has landed and crashed, 1 or 0."""

    landed: Scalar = 0.0
    crashed: Scalar = 0.0


class Touch(NamedTuple):
    """The status, whether the drone crashed at this tick, and the highest impact speed since the last tick [m/s]."""

    landed: Scalar = 0.0
    crashed: Scalar = 0.0
    crashed_now: Scalar = 0.0
    impact_speed: Scalar = 0.0


def update_status(
    state: State, environment: Environment, impact_speed: Scalar, status: Status, *, vehicle: Vehicle
) -> tuple[Status, Touch, Any]:
    """Update landed and crashed, and reset the impact speed to 0"""
    now = touchdown(
        state.v_W,
        state.q_WB,
        state.omega_B,
        clearance=ground_clearance(state, vehicle, environment),
        impact_speed=impact_speed,
        landed=status.landed,
        crashed=status.crashed,
    )
    return Status(now.landed, now.crashed), Touch(*now, impact_speed), 0.0


def _build(setup: DroneSetup) -> StageSet:
    reads = ("state", "environment", "contact.impact_speed", "status")
    writes = ("status", "touch", "contact.impact_speed")
    stage = Stage("contact", "scenario", update_status, reads, writes, (("vehicle", setup.vehicle),))
    return StageSet((stage,), {"status": Status(), "touch": Touch()})


CONTACT = StageFactory("contact", "scenario", _build)
