"""Who stands, and who has hit the ground too hard since the last time or lies on it."""

import math
from typing import Any

import numpy as np

from samara.core.algebra import UP
from samara.physics.ground.contact import CLEAR
from samara.scenario.facts import Against, Fact
from samara.scenario.landing import CRASH_SPEED, CRASH_TILT, LANDED_RATE, LANDED_SPEED
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
            speed = np.sqrt((motion.v_W**2).sum(axis=0))
            touching = self._touching(group)
            hard = fleet.impact_speed[drones] > CRASH_SPEED
            fallen = touching & (1.0 - 2.0 * (motion.q_WB[1] ** 2 + motion.q_WB[2] ** 2) < math.cos(CRASH_TILT))
            for lane in np.flatnonzero((hard | fallen) & ~fleet.crashed[drones]):
                index = group.drones[lane]
                speed_in = float(fleet.impact_speed[index])
                fleet.warn(fleet.note(index, Fact.CRASHED, against=Against.GROUND, speed=speed_in))
            fleet.crashed[drones] |= hard | fallen
            still = (speed < LANDED_SPEED) & (np.sqrt((motion.omega_B**2).sum(axis=0)) < LANDED_RATE)
            fleet.landed[drones] = touching & still & ~fleet.crashed[drones]  # a wreck lies there, it has not landed
        fleet.impact_speed[:] = 0.0

    def _touching(self, group: Group) -> Array:
        """Who touches the ground."""
        vehicle, lowest = group.key.vehicle, float(group.motion.p_W[2].min())
        if not vehicle.has("contact") or lowest > self._ground + vehicle["contact"].reach + CLEAR:
            return np.zeros(len(group.drones), dtype=bool)
        deepest: Array = group.plant.depths().max(axis=0)
        return deepest > 0.0
