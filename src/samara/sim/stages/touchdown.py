"""Who stands, and who has hit the ground too hard since the last time or lies on it."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from samara.core.algebra import UP, Quat, Vec3
from samara.physics.ground.contact import CLEAR, Contact
from samara.scenario.facts import Against, Fact
from samara.scenario.landing import touchdown
from samara.scenario.scenario import Scenario
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage

Array = np.ndarray[Any, Any]


class TouchdownStage(Stage):
    """Landed and crashed, from how each drone touches the ground."""

    axis = "scenario"

    def __init__(self, scenario: Scenario) -> None:
        ground, world = scenario.environment.ground, scenario.world
        flat = ground.normal_W == UP and not world.solids and world.terrain is None
        self._ground = ground.point_W.z if flat else math.inf

    def update(self, fleet: Fleet) -> None:
        fleet.note_impacts()
        for group in fleet.groups:
            drones, motion = group.indices, group.motion
            impact_speed = fleet.impact_speed[drones]
            own = touchdown(
                *(Vec3(*motion.v_W), Quat(*motion.q_WB), Vec3(*motion.omega_B)),
                touching=self._touching(group),
                impact_speed=impact_speed,
                crashed=fleet.crashed[drones],
            )
            for lane in np.flatnonzero(own.crashed_now):
                speed_in = float(impact_speed[lane])
                fleet.warn(fleet.note(group.drones[lane], Fact.CRASHED, against=Against.GROUND, speed=speed_in))
            fleet.crashed[drones], fleet.landed[drones] = own.crashed, own.landed
        fleet.impact_speed[:] = 0.0

    def _touching(self, group: Group) -> Array:
        """Who touches the ground."""
        vehicle, lowest = group.key.vehicle, float(group.motion.p_W[2].min())
        if not vehicle.has("contact") or lowest > self._ground + _reach(vehicle["contact"]) + CLEAR:
            return np.zeros(len(group.drones), dtype=bool)
        deepest: Array = group.plant.depths().max(axis=0)
        return deepest > 0.0


@lru_cache(maxsize=16)
def _reach(contact: Contact) -> float:
    return float(contact.reach)
